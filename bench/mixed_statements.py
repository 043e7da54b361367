"""What programs are written of that run as they are written: see random_mixed.py.

Marks stand for arrays: `{x}`, `{y}` ..., the same wherever they stand. Behind a colon is what one
must be: a number of axes (`+`: two or more), `n` numeric, `r` real, `f` float, `i` integer, `b`
bool, `c` complex, `~x` of the shape of x. `{new}` is any name, `{c}` a number, `{k}` a small one,
`{dt}` a dtype; of an array x there are `{sl:x}` a subscript, `{m:x}` a mask, `{p:x}` places along
its first axis, `{ax:x}` an axis, `{e:x}` an expression of its shape.

What is called inexact has NumPy's last bits only where NumPy's loops run.
"""

from __future__ import annotations

__all__ = [
    "BINARY",
    "COMPOUND",
    "CONSTANTS",
    "DTYPES",
    "INEXACT_BINARY",
    "INTEGER_BINARY",
    "IN_PLACE",
    "IN_PLACE_INEXACT",
    "NEW",
    "NEW_INEXACT",
    "RARE_CONSTANTS",
    "READS",
    "READS_INEXACT",
    "SECTION",
    "SECTION_CALLS",
    "SHAPED",
    "SHAPED_INEXACT",
    "START",
    "STRICT",
    "THREADS",
]

CONSTANTS = (
    "2", "0.5", "-1", "3", "0.25", "1", "0", "-0.5", "True", "np.float32(0.5)", "np.int8(3)",
    "np.float64(2)", "np.uint8(7)", "np.float16(0.5)", "1.5", "7", "(t % 3)", "(0.25 * t)",
    "np.int64(-2)", "np.array(0.5)", "np.array([2])", "np.bool_(True)", "-2.0", "(t + 1)", "1e-3",
)  # fmt: skip
RARE_CONSTANTS = (
    "1j", "np.complex64(1j)", "2**40", "-300", "1e30", "np.longdouble(2)", "1e-300",
    "float('nan')", "float('inf')", "[2]", "np.uint64(5)", "np.timedelta64(2, 's')", "None", "'x'",
)  # fmt: skip
DTYPES = (
    "float", "'f4'", "'f8'", "int", "'i4'", "'i2'", "'u1'", "'i1'", "np.uint32", "'f2'", "bool",
    "np.float32", "complex", "'c8'", "np.int64", "'u2'", "np.uint64", "'g'", "'>f8'", "'>i4'",
)  # fmt: skip
# Expressions of the shape of the array `{0}`, by what that is.
SHAPED = {
    "n": (
        "{0} * {c}", "{0} + {c}", "{c} - {0}", "{0} - {c}", "-{0}", "abs({0})",
        "np.clip({0}, -2, 2)", "{0} / 2", "np.where({0} > {c}, {0}, {c})", "{0}.astype({dt})",
        "{0}[::-1]", "{0}.copy()", "+{0}", "np.conj({0})", "{0}.real", "np.nan_to_num({0})",
        "np.roll({0}, {k})", "np.flip({0})", "{0}.copy(order='F')", "np.asfortranarray({0})",
        "np.array({0}, order='K')", "np.array({0}, copy=True, subok=True)",
        "np.ascontiguousarray({0})", "np.zeros_like({0}) + {0}",
        "np.ones_like({0}, dtype='f4') * {0}", "np.full_like({0}, 3)", "np.positive({0})",
        "np.add({0}, {c}, dtype='f8')", "np.multiply({0}, 0.5, dtype='f4', casting='unsafe')",
        "np.square({0}) * 0.125", "{0} ** 2", "np.isfinite({0}) * {0}", "np.sign({0})",
        "np.concatenate([{0}[1:], {0}[:1]])", "np.roll({0}, 1, axis={ax:0})", "{0} != {c}",
        "{0} == {c}", "np.where({m:0}, {0}, 0)", "np.where({m:0}, 1, {0})",
        "np.where({m:0}, {0}, np.float32(0.5))", "np.select([{m:0}, {m:0}], [{0}, 0.5], {c})",
        "np.piecewise({0}, [{m:0}], [{k}, 0])",
        "np.repeat({0}, 2, axis={ax:0})[tuple(slice(None, None, "
        "2) for _ in range({0}.ndim))] if {0}.ndim == 1 else {0} * 1",
        "np.swapaxes({0}, 0, -1).T if {0}.ndim < 3 else {0} * 1",
        "{0}.reshape(-1).reshape({0}.shape)", "np.reshape({0}, {0}.shape, order='F')",
        "{0}.ravel().reshape({0}.shape)", "{0}.flatten('F').reshape({0}.shape, order='F')",
        "np.lib.stride_tricks.as_strided({0}, {0}.shape, {0}.strides)",
        "np.take({0}, np.arange({0}.shape[0])[::-1], axis=0)", "{0}[np.arange({0}.shape[0])]",
        "{0}[...]", "{0}.T.T", "np.broadcast_to({0}, {0}.shape) * 1", "{0}.view()",
        "np.require({0}, None, 'CO')",
        "np.vectorize(lambda v: v * 2, "
        "otypes=[float])({0}) if {0}.size < 50 and {0}.dtype.kind in 'fi' else {0} * 1",
        "functools.reduce(np.add, [{0}, {0}, {c}])", "sum([{0}, {0}])", "{0}.__add__({0})",
        "{0}.__rsub__(1)", "operator.mul({0}, {c})", "np.add({0}, {0})",
        "np.multiply({0}, {0}) * 0.0625", "{0} - {0}", "np.array([{0}, {0}])[{k} % 2]",
        "np.stack([{0}, {0}], axis=-1)[..., 0]", "np.stack([{0}, {0}]).max(axis=0) + 0",
        "np.stack(({0}, {0}), axis={ax:0}).sum(axis={ax:0})", "copy.deepcopy({0})",
        "pickle.loads(pickle.dumps({0}))",
        "np.asarray(memoryview({0})) * 1 if {0}.dtype.isnative and {0}.size else {0} * 1",
        "np.frombuffer({0}.tobytes(), {0}.dtype).reshape({0}.shape)",
        "np.array({0}.tolist(), {0}.dtype).reshape({0}.shape)",
        "np.delete(np.insert({0}, 0, {k}, axis=0), 0, axis=0)",
        "np.moveaxis({0}[None], 0, -1)[..., 0]", "{0}[(slice(None),) * {0}.ndim]",
        "np.expand_dims({0}, {ax:0}).squeeze({ax:0})",
        "np.apply_along_axis(lambda r: r * 2, {ax:0}, {0}) if {0}.size < 400 else {0} * 1",
        "np.cumsum({0}.astype(int) % 5, axis={ax:0})",
        "np.gradient(small({0}), axis={ax:0}) if {0}.shape[{ax:0}] > 1 else {0} * 1",
        "np.ma.filled(np.ma.masked_where({m:0}, {0}), 0)",
        "np.fliplr({0}) if {0}.ndim > 1 else {0} * 1",
        "np.rot90({0}, 2) if {0}.ndim > 1 else {0} * 1",
        "np.tril({0}) if {0}.ndim > 1 else {0} * 1", "np.pad({0}, 1)[(slice(1, -1),) * {0}.ndim]",
        "np.einsum('...->...', {0})", "np.real_if_close({0})", "np.float32(0.5) * {0}",
        "0.5 * ({0} + {0})", "quantum(np.exp(np.clip({0}, -3, 3)))", "quantum(np.sin({0}))",
        "np.equal({0}, {0})", "np.choose({m:0}, [{0}, {k}])",
    ),
    "r": (
        "np.maximum({0}, {c}) + 0", "np.minimum({0}, {c}) + 0", "np.sqrt(np.abs({0}))", "{0} // 2",
        "{0} % 3", "{0} // {c}", "{0} % {c}", "np.floor({0})", "np.rint({0})",
        "np.sort({0}, axis={ax:0})", "{0} > {c}", "{0} <= {c}", "np.fmax({0}, {c}) + 0",
        "np.argsort({0}, axis={ax:0}, kind='stable')",
        "np.maximum.accumulate({0}, axis={ax:0}) + 0", "divmod({0}, 2)[{k} % 2]",
        "np.trunc({0} * 1.5)", "np.logical_and({0}, {c})", "np.logical_not({0})",
        "{0} / (1 + np.abs({0}))", "np.fabs({0})", "({0} > 0) & ({0} < 2)",
        "({0} > 1) | ({0} == 0)", "({0} - ({0}.min(axis={ax:0}, keepdims=True) + 0))",
        "{0} - ({0}.max() + 0)", "{0} / (2 + np.abs({0}).max())",
        "np.diff({0}, axis={ax:0}, append=0)", "np.minimum({0}, {0}[::-1]) + 0",
        "np.hypot({0}, 0)", "np.digitize({0}, [-1, 0, 0.5, 2])",
        "np.searchsorted([-1.0, 0, 1, 2], {0})", "np.interp({0}, [-1.0, 0, 2], [0, 1, 0.5])",
        "np.heaviside({0}, 0.5)", "np.argsort(np.argsort({0}, axis=-1, kind='stable'), axis=-1)",
        "np.ldexp({0}, {k})", "np.nextafter({0}, 9)", "np.float_power({0}, 1)",
        "np.take_along_axis({0}, np.argsort({0}, axis={ax:0}, kind='stable'), axis={ax:0})",
        "np.lexsort(({0}.ravel(),)).reshape({0}.shape)", "np.isin({0}, [0, 1, 2, 0.5])",
        "np.round({0}, 1)", "{0}.clip(0, 1)",
        "np.unique({0}, return_inverse=True)[1].reshape({0}.shape)",
    ),
    "i": (
        "{0} & 3", "{0} | 1", "{0} ^ {0}", "~{0}", "{0} << 1", "{0} >> 1", "{0} * {0}",
        "np.bitwise_count({0})", "np.gcd({0}, 6)", "np.left_shift({0}, 2)", "np.invert({0})",
        "{0} / {k}", "{0} // 3 * 3", "np.power({0} % 3, 2)", "{0} % {k}",
        "np.cumsum({0}, axis={ax:0})",
        "np.bincount(np.abs({0}.ravel().astype(int)) % 7, "
        "minlength=7)[np.abs({0}.astype(int)) % 7]",
        "np.add.accumulate({0}, axis={ax:0})", "np.cumprod({0}, axis={ax:0})",
        "np.floor_divide({0}, {c})", "np.remainder({0}, -3)", "np.fmod({0}, 3)",
    ),
    "c": (
        "{0} * 1j", "{0}.conj()", "{0}.imag", "{0} * {0} * 0.125", "np.real({0})", "{0} + 1j",
        "np.conjugate({0})", "{0}.real + 1j * {0}.imag",
        "{0}.view('f8')[..., ::2] if {0}.dtype == complex and {0}.flags.c_contiguous else {0} * 1",
        "np.iscomplex({0})",
    ),
}  # fmt: skip
SHAPED_INEXACT = {
    "n": (
        "np.exp(np.clip({0}, -3, 3))", "np.sin({0})", "np.cos({0})", "{0} ** 3", "np.tanh({0})",
        "np.cumsum({0}, axis={ax:0}) % 8", "{0} - {0}.mean()",
        "{0} - {0}.mean(axis={ax:0}, keepdims=True)", "{0} / (1 + np.abs({0}).sum())",
        "np.cumprod(np.clip({0}, 0.5, 1.5), axis={ax:0})", "np.log(np.abs({0}) + 1)",
        "np.angle({0})", "np.fft.ifft(np.fft.fft({0}, axis={ax:0}), axis={ax:0})",
        "({0} - {0}.mean()) / (1 + {0}.std())", "np.sqrt({0} * {0} + 1)", "np.exp(-np.abs({0}))",
        "np.sinc({0})", "np.abs(np.fft.fft({0}))", "np.logaddexp(0, np.abs({0}))",
        "{0} / (1 + np.linalg.norm({0}))", "np.arctan({0})", "np.power(np.abs({0}), 0.3)",
        "np.average(np.stack([{0}, {0}]), axis=0, weights=[1, 2])",
        "np.einsum('...,...->...', {0}, {0}) * 0.1", "np.expm1(np.clip({0}, -2, 2))",
        "np.cbrt(np.abs({0}))", "np.arcsinh(np.real({0}))",
        "np.exp2(np.clip(np.real({0}), -3, 3))",
    ),
    "r": (
        "np.arctan2({0}, 1.5)", "np.hypot({0}, 1.5)", "np.log1p(np.abs({0}))",
        "np.arcsin(np.clip({0}, -1, 1))",
        "np.gradient({0}, axis={ax:0}) if {0}.shape[{ax:0}] > 1 else {0} * 1",
        "np.nancumsum({0}, axis={ax:0}) % 4",
        "np.convolve({0}.ravel(), [0.3, 0.5, 0.2], "
        "'same').reshape({0}.shape) if {0}.size > 3 else {0} * 1",
        "np.cos({0}) ** 2 + np.sin({0}) ** 2", "np.degrees({0}) * 0.01",
        "np.polyval([0.1, 0.2, 0.3], {0})", "np.unwrap({0})",
    ),
}  # fmt: skip
BINARY = (
    "{0} + {1}", "{0} - {1}", "{0} * {1} * 0.25", "{0} / (np.abs({1}) + 1)",
    "np.maximum({0}, {1}) + 0", "np.minimum({0}, {1}) + 0", "{0} > {1}", "{0} == {1}",
    "np.where({0} > {1}, {0}, {1})", "{0} // (np.abs({1}) + 1)", "{0} % (np.abs({1}) + 1)",
    "0.5 * ({0} + {1})", "np.add({0}, {1})", "np.subtract({0}, {1})", "np.logical_or({0}, {1})",
    "np.where({0} != 0, {1}, 0.5)", "np.fmin({0}, {1}) + 0", "{0} + {1} * 0.5 - {0}",
    "({0} + {1}).T.T", "np.add({0}, {1}, dtype='f4', casting='unsafe')",
    "np.multiply({0}, {1}, order='F') * 0.25", "{0} * 0.5 + {1} * 0.5", "np.less_equal({0}, {1})",
    "np.broadcast_arrays({0}, {1})[0] * 1", "np.where({1} > 0, {0}, -{0})",
    "np.add({0}, {1}, order='C')", "-{0} + {1}", "({0} - {1}) ** 2 * 0.125",
)  # fmt: skip
INTEGER_BINARY = (
    "{0} & {1}", "{0} | {1}", "{0} ^ {1}", "{0} << ({1} % 4)", "{0} * {1}", "{0} >> ({1} % 4)",
    "np.gcd({0}, {1})", "{0} @ {1}",
)  # fmt: skip
INEXACT_BINARY = (
    "np.arctan2({0}, {1})", "np.hypot({0}, {1})", "np.exp(-({0} - {1}) ** 2)",
    "np.abs({0}) ** (np.abs({1}) % 2)", "np.logaddexp({0}, {1})", "np.sqrt({0} ** 2 + {1} ** 2)",
    "{0} * np.sin({1})",
)  # fmt: skip
# Statements that make arrays of other shapes and layouts, views among them.
NEW = (
    "{new} = {x}[{sl:x}]", "{new} = {x}[{sl:x}]", "{new} = {x}[{sl:x}].copy()", "{new} = {x}.T",
    "{new} = {x}.reshape(-1)", "{new} = {x}.ravel()", "{new} = {x:2}.swapaxes(0, 1)",
    "{new} = {x}[{m:x}]", "{new} = {x}[{p:x}]", "{new} = {x:2}[:, {k} % {x}.shape[1]]",
    "{new} = {x:2}[{k} % {x}.shape[0]]", "{new} = {x:2}.diagonal()",
    "{new} = {x:2}.diagonal(1).copy()", "{new} = np.diag({x:1}[:20])", "{new} = {x:1}[:, None]",
    "{new} = {x:1}[None]", "{new} = {x:1}[:40, None] + {y:1}[:40]",
    "{new} = {x:1}[:40, None] * {y:1}[None, :50]", "{new} = np.outer({x:1}[:30], {y:1}[:30])",
    "{new} = np.subtract.outer({x:1}[:30], {y:1}[:20])",
    "{new} = np.concatenate([{x:1}[:3000], {y:1}[:3000]])", "{new} = np.stack([{x}, {y~x}])",
    "{new} = np.column_stack([{x:1}, {y:1~x}])", "{new} = np.vstack([{x:1}, {y:1~x}])",
    "{new} = np.hstack([{x:1}, {y:1}])[:3000]", "{new} = np.repeat({x:1}[:500], {k})",
    "{new} = np.tile({x:1}[:50], (3, 2))",
    "{new} = np.broadcast_to({x:1}[:100], (4, {x}[:100].size))",
    "{new} = np.lib.stride_tricks.sliding_window_view({x:1}, 3)",
    "{new} = np.lib.stride_tricks.sliding_window_view({x:1r}, 3).max(axis=-1) + 0",
    "{new} = {x}.max(axis={ax:x}) + 0", "{new} = {x:r}.min(axis={ax:x}, keepdims=True) + 0",
    "{new} = small({x}).sum(axis={ax:x})", "{new} = {x:i}.sum(axis={ax:x})",
    "{new} = {x}.any(axis={ax:x})", "{new} = np.all({x}, axis={ax:x}, keepdims=True)",
    "{new} = {x:r}.argmax(axis={ax:x})", "{new} = np.count_nonzero({x}, axis={ax:x})",
    "{new} = np.nonzero({x})[0]", "{new} = np.where({x})[-1]", "{new} = np.flatnonzero({x})",
    "{new} = np.argwhere({x})", "{new} = np.unique({x:r})", "{new} = np.arange({x}.size) % 9",
    "{new} = np.zeros({x}.shape, {dt})", "{new} = np.ones(({k}, {k} + 1))",
    "{new} = np.eye({k}, {k} + 2, dtype={dt})", "{new} = np.linspace(0, 1, max({x}.shape[0], 2))",
    "{new} = np.full({x}.shape[::-1], {c})", "{new} = {x}.astype({dt})",
    "{new} = {x}.astype({dt}, copy=False)", "{new} = {x}.astype({dt}, order='F')",
    "{new} = {x:f}.view('i8')[..., ::-1] if {x}.dtype == float else {x} * 1", "{new} = {x:c}.real",
    "{new} = {x:c}.imag", "{new} = {x}.reshape({x}.shape[::-1])",
    "{new} = {x}.reshape({x}.shape + (1,))", "{new} = {x}[..., None] * np.array([1, 2])",
    "{new} = {x:+}.transpose()", "{new} = np.moveaxis({x:+}, 0, -1)",
    "{new} = np.rollaxis({x:+}, 1)", "{new} = np.rot90({x:2})", "{new} = {x}.squeeze()",
    "{new} = np.array({x}, ndmin=3)", "{new} = np.atleast_2d({x})", "{new} = np.array([{x}, {x}])",
    "{new} = np.array([{x:1}[:5], {y:1}[:5]], {dt})", "{new} = np.ix_({x:1}[:5] > 0, [0, 1])[0]",
    "{new} = np.meshgrid({x:1}[:20], {y:1}[:20])[1]", "{new} = np.indices({x}.shape)[0]",
    "{new} = np.delete({x:1}, slice(None, None, 3))",
    "{new} = np.insert({x:1}, 1, {c})[: {x}.size]", "{new} = np.append({x:1}, {y})[-{x}.size:]",
    "{new} = np.split({x:1}, [3, 9])[1]", "{new} = np.array_split({x}, 3)[1]",
    "{new} = np.resize({x}, (7, 11))", "{new} = np.trim_zeros({x:1})", "{new} = {x:2} @ {y:2}.T",
    "{new} = small({x:2}[:30, :30]) @ small({y:2}[:30, :30])",
    "{new} = {x:i2}[:40, :40] @ {y:i1}[:40]",
    "{new} = small({x:1}) @ small({y:1~x}) + np.zeros(3)",
    "{new} = np.dot(small({x:2}), small({y:1}))",
    "{new} = np.einsum('ij,j->i', small({x:2}), small({y:1}))",
    "{new} = np.einsum('ij->ji', {x:2})", "{new} = np.einsum('ii->i', {x:2})",
    "{new} = np.einsum('i,j->ij', {x:1}[:20], {y:1}[:20])",
    "{new} = np.tensordot(small({x:2}[:9, :9]), small({y:2}[:9, :9]), 1)",
    "{new} = np.cross({x:1}[:3], {y:1}[:3])", "{new} = np.kron({x:1}[:9], {y:1}[:9])",
    "{new} = np.inner(small({x:1}[:9]), small({y:1}[:9])) + np.arange(3)",
    "{new} = np.add.reduceat({x:i1}, [0, 2, 3])",
    "{new} = np.bincount(np.abs({x:i1}.astype(int)) % 50)",
    "{new} = np.bincount(np.abs({x:i1}.astype(int)) % 50, weights=small({y:r1~x}))",
    "{new} = np.histogram({x:r}, 5)[0]", "{new} = np.percentile({x:r}, [10, 50, 90])",
    "{new} = np.quantile({x:r}, 0.3, axis={ax:x})", "{new} = np.median({x:r}, axis={ax:x})",
    "{new} = np.partition({x:r1}, 2)[:3]", "{new} = np.convolve(small({x:1}[:200]), [1, 2, 1])",
    "{new} = np.ediff1d({x})", "{new} = np.cumsum({x:i})", "{new} = np.diff({x}, axis={ax:x})",
    "{new} = np.ptp({x:r}, axis={ax:x})", "{new} = np.packbits({x:i}, axis=None)",
    "{new} = np.unpackbits({x:i}.astype('u1'))[:3000]",
    "{new} = np.fromiter((float(v) for v in {x:r1}[:50]), float)",
    "{new} = np.fromfunction(lambda i, j: i - j, (5, 6))", "{new} = rng.random({x}.shape)",
    "{new} = rng.integers(-9, 9, {x}.shape)", "{new} = rng.standard_normal({x}.shape, dtype='f4')",
    "{new} = rng.permutation({x})", "{new} = rng.choice({x:1}, {x}.size)",
    "{new} = rng.uniform(-1, 1, {x}.shape) * {x}", "{new} = old_rng.rand(*{x}.shape)",
    "{new} = old_rng.permutation({x})", "{new} = np.random.normal(size={x}.shape)",
    "{new} = rng.permuted({x}, axis={ax:x})", "{new} = {x}.view(np.ndarray)",
    "{new} = np.asarray({x})", "{new} = np.asanyarray({x}, dtype=float)",
    "{new} = {x}.byteswap().view({x}.dtype.newbyteorder()) if {x}.dtype.kind in 'iuf' else {x} * 1",
    "{new} = {x}", "{new} = {x}", "{new} = np.float64({x:r}.max()) + np.zeros(2)",
    "{new} = {x}.max() + np.zeros(())", "{new} = np.array({x:r}.max()) + 0",
    "{new} = np.zeros((0, 3)) + {c}", "{new} = {x}[:0]",
    "{new} = np.empty_like({x}); {new}[...] = {k}",
    "{new} = np.empty({x}.shape[::-1]).T; {new}[...] = 0.5", "{new} = np.asfortranarray({x})",
    "{new} = np.ascontiguousarray({x}.T)",
    "{new} = np.frombuffer(bytearray({x}.tobytes()), {x}.dtype)",
    "{new} = np.ndarray({x}.shape, {x}.dtype, {x}.tobytes())",
    "{new} = np.lib.stride_tricks.as_strided({x:1}, (3, {x}.size - 2), "
    "({x}.strides[0],) * 2) if {x}.ndim == 1 and {x}.size > 2 else {x}",
    "{new} = np.ma.array({x}, mask={m:x}).filled(0)", "{new} = np.take({x}, {p:x}, axis=0)",
    "{new} = np.take({x}, {p:x}, axis=0, mode='clip')",
    "{new} = np.compress({m:x}.ravel()[: {x}.shape[0]], {x}, axis=0)",
    "{new} = np.extract({m:x}, {x})", "{new} = {x}.repeat(2, axis={ax:x})[:3000]",
    "{new} = {x:2}[{p:x}][:, ::2]", "{new} = {x:2}[:, ::-1][::2]", "{new} = {x:2}[1:-1, 1:-1]",
    "{new} = {x:2}[{p:x}, 0]", "{new} = {x:2}[np.ix_({p:x}, [0, -1])]",
    "{new} = {x:2}[{m:x}.any(axis=1)]", "{new} = {x:2}[:, {m:x}.any(axis=0)]",
    "{new} = {x:2}.sum(axis=0, dtype=int) if {x}.dtype.kind in 'iub' else {x} * 1",
    "{new} = np.broadcast_to({x}, (2,) + {x}.shape)", "{new} = np.cumsum(small({x}), axis={ax:x})",
    "{new} = np.maximum.reduce({x:r}, axis=None, keepdims=True) + 0",
    "{new} = np.logical_and.reduce({x}, axis={ax:x})",
    "{new} = np.add.reduce(small({x}), axis={ax:x}, keepdims=True, initial=2)",
    "{new} = {x:r}.max(axis={ax:x}, initial=0, where={m:x}) + 0",
    "{new} = {x:i}.sum(axis={ax:x}, where={m:x})", "{new} = np.nanmax({x:r}, axis={ax:x}) + 0",
    "{new} = np.average(small({x}), axis={ax:x})", "{new} = small({x}).mean(axis={ax:x})",
    "{new} = {x:b}.mean(axis={ax:x})", "{new} = np.trace({x:i2}) + np.zeros(2)",
    "{new} = np.char.add({x:1}[:5].astype('U9'), 'x') == 'x'", "{new} = np.gradient(small({x:1}))",
    "{new} = np.vander({x:i1}[:6], 3)", "{new} = np.block([[{x:2}], [{x:2}]])[:300]",
    "{new} = np.apply_over_axes(np.max, {x:r2}, [0]) + 0", "{new} = np.pad({x}, 1, mode={pad})",
    "{new} = np.pad({x:2}, ((1, 0), (0, 2)), mode={pad})[1:, :-2]",
    "{new} = np.array(list({x:1}[:9]))",
    "{new} = np.array([row.max() for row in {x:r2}[:20]]) + 0",
    "{new} = np.array([(i, v) for i, v in enumerate({x:1}[:20])])",
    "{new} = np.searchsorted(np.sort({x:r1}), {y:r})", "{new} = {x:r}[...].clip(0, None)",
    "{new} = np.fft.fftshift({x})", "{new} = np.roll({x:2}, (1, -1), axis=(0, 1))",
    "{new} = np.triu({x:2}, 1)", "{new} = np.tri({k}, {k}, dtype={dt})",
    "{new} = np.setdiff1d({x:i}, {y:i})", "{new} = np.union1d({x:i}[:50], {y:i}[:50])",
    "{new} = np.interp({x:r1}, np.arange(4.0), [0, 1, 0, 1])",
)  # fmt: skip
NEW_INEXACT = (
    "{new} = {x}.sum(axis={ax:x})", "{new} = {x}.mean(axis={ax:x}, keepdims=True)",
    "{new} = {x}.std(axis={ax:x})", "{new} = {x:2}[:20, :20] @ {y:2}[:20, :20]",
    "{new} = {x:2} @ {y:1}", "{new} = {x:2} @ {y:2}", "{new} = {x:2}.T @ {x:2}",
    "{new} = np.dot({x}, {y})",
    "{new} = np.linalg.solve({x:2}[:3, :3] + 5 * np.eye(3), {y:1}[:3])",
    "{new} = np.linalg.inv({x:2}[:4, :4] + 5 * np.eye(4))",
    "{new} = np.linalg.det({x:2}[:3, :3]) + np.zeros(2)",
    "{new} = np.linalg.norm({x:2}, axis={ax:x})", "{new} = np.linalg.norm({x:1}) + np.zeros(2)",
    "{new} = np.linalg.eigvalsh({x:2}[:3, :3] + {x:2}[:3, :3].T)",
    "{new} = np.linalg.svd({x:2}[:5, :4])[1]", "{new} = np.linalg.qr({x:2}[:5, :4])[1]",
    "{new} = np.linalg.lstsq({x:2}[:6, :3], {y:1}[:6], rcond=None)[0]",
    "{new} = np.linalg.cholesky(np.eye(3) * 4 + 0.1 * ({x:2}[:3, :3] @ {x:2}[:3, :3].T))",
    "{new} = np.linalg.pinv({x:2}[:4, :3])",
    "{new} = np.linalg.matrix_power({x:2}[:3, :3] * 0.3, 3)",
    "{new} = np.einsum('ij,jk->ik', {x:2}[:9, :9], {y:2}[:9, :9])",
    "{new} = np.einsum('ij,ij->i', {x:2}, {x:2})", "{new} = np.einsum('ij,j', {x:2}, {y:1})",
    "{new} = np.einsum('i,i', {x:1}, {y:1~x}) + np.zeros(2)",
    "{new} = np.tensordot({x:2}[:9, :9], {y:2}[:9, :9], 1)", "{new} = np.cov({x:r2}[:5, :50])",
    "{new} = np.corrcoef({x:r1}[:20], {y:r1}[:20])", "{new} = np.fft.fft({x:1})",
    "{new} = np.fft.rfft({x:r1})", "{new} = np.fft.fft2({x:2}[:20, :20])",
    "{new} = np.fft.irfft({x:1}[:50])", "{new} = np.trapezoid({x:r}, axis={ax:x})",
    "{new} = np.cross({x:2}[:, :3], {y:1}[:3])",
    "{new} = np.polyfit(np.arange(5.0), {x:r1}[:5], 2)",
    "{new} = np.convolve({x:1}[:99], {y:1}[:9])",
    "{new} = np.correlate({x:1}[:99], {y:1}[:9], 'same')",
    "{new} = np.var({x}, axis={ax:x}, ddof=1)", "{new} = np.nanmean({x:r}, axis={ax:x})",
    "{new} = np.nansum({x}, axis={ax:x})", "{new} = {x}.prod(axis={ax:x})",
    "{new} = np.add.reduceat({x:1}, [0, 2, 3])", "{new} = np.histogram({x:r}, 5, density=True)[0]",
    "{new} = np.cumsum({x})", "{new} = np.logspace(0, 1, 5)", "{new} = np.geomspace(1, 9, 7)",
    "{new} = np.vdot({x:1}, {x:1}) + np.zeros(1)",
    "{new} = np.matmul(np.resize({x}, (5, 3, 3)), np.resize({y}, (3, 3)))",
    "{new} = np.matmul(np.resize({x}, (5, 2, 3)), np.resize({y}, (5, 3, 2)))",
    "{new} = np.linalg.det(np.resize({x}, (6, 3, 3)))",
    "{new} = np.linalg.inv(np.resize({x}, (6, 2, 2)) + 3 * np.eye(2))",
    "{new} = np.linalg.norm(np.resize({x}, (20, 3)), axis=1, keepdims=True)",
    "{new} = np.sum({x} * {x}, axis={ax:x}) ** 0.5",
    "{new} = np.sqrt((({x:2}[:20, None] - {x:2}[None, :20]) ** 2).sum(axis=-1))",
    "{new} = np.exp({x:2} - {x}.max(axis=1, keepdims=True)); {new} /= {new}.sum(axis=1, "
    "keepdims=True)",
    "{new} = np.hanning({x}.shape[0]) * 1",
)  # fmt: skip
IN_PLACE = (
    "{x} += {c}", "{x} *= 0.5", "{x} -= {e:x}", "{x} += {e:x}", "{x} *= {e:x}", "{x} /= 2",
    "{x} //= 2", "{x} %= 3", "{x:i} ^= 3", "{x:i} &= {y:i~x}", "{x:i} <<= 1", "{x:i} |= {k}",
    "{x} **= 2", "{x:b} |= {m:x}", "{x:b} &= {m:x}", "{x}[{sl:x}] = {c}", "{x}[{sl:x}] += {c}",
    "{x}[{sl:x}] *= 0.5", "{x}[{sl:x}] = {y}", "{x}[{sl:x}] = {x}[{sl:x}]", "{x}[...] = {e:x}",
    "{x}[:] = {e:x}", "{x}[{sl:x}] = {e:x}[{sl:x}]", "{x}[:] = {y~x}", "{x}[...] = {y}",
    "{x}[{sl:x}] -= {x}[{sl:x}]", "{x}[1:] = {x}[:-1]", "{x}[:-1] = {x}[1:]", "{x}[::-1] = {x}",
    "{x}[1:] += {x}[:-1]", "{x}[:-1] -= {x}[1:]", "{x} += {x}[::-1]", "{x:2} += {x}.T",
    "{x:2}[:, 1:] = {x}[:, :-1]", "{x}.T[...] = {e:x}.T", "{x:2}[:, 0] = {c}",
    "{x:2}[0], {x:2}[-1] = {x:2}[-1], {x:2}[0].copy()", "{x:2}[[0, -1]] = {x}[[-1, 0]]",
    "{x:2}[:, [0, -1]] = {x}[:, [-1, 0]]",
    "{x:2}[1:-1, 1:-1] = 0.25 * ({x}[2:, 1:-1] + {x}[:-2, 1:-1] + {x}[1:-1, 2:] + {x}[1:-1, :-2])",
    "{x:2}[1:-1] += 0.5 * ({x}[2:] - {x}[:-2])", "{x}[{m:x}] = {c}", "{x}[{m:x}] *= 0.5",
    "{x}[{m:x}] += {c}", "m = {m:x}; {x}[m] = {e:x}[m]", "{x}[{m:x}] = {x}[{m:x}] * 0.5",
    "{x}[~({m:x})] = {k}", "{x}[{p:x}] = {c}", "{x}[{p:x}] += {c}",
    "{x}[{p:x}] = {x}[{p:x}][::-1]", "np.add.at({x}, {p:x}, {c})",
    "np.subtract.at({x}, {p:x}, 0.5)", "np.maximum.at({x:r}, {p:x}, 1); {x} += 0",
    "np.multiply.at({x}, {m:x}, 0.5)", "np.add.at({x:2}, ({p:x}, 0), 1)",
    "np.add.at({x}, np.s_[{sl:x}], 0.5)", "np.put({x}, [0, 3, -1], {c})",
    "np.put({x}, {p:x}, {y})", "np.place({x}, {m:x}, [0.5, 1, 2])",
    "np.putmask({x}, {m:x}, {e:x})", "np.putmask({x}, {m:x}, [1, 2, 3])",
    "np.copyto({x}, {e:x}, where={m:x})", "np.copyto({x}, {c}, casting='unsafe')",
    "np.copyto({x}[{sl:x}], {k})",
    "np.put_along_axis({x:r}, np.argmin({x}, axis={ax:x}, keepdims=True), {k}, axis={ax:x})",
    "np.fill_diagonal({x:2}, {c})", "{x}.fill({c})", "{x:r}.sort(axis={ax:x})",
    "{x:r}.partition(0, axis={ax:x})", "{x}.flat[{k}] = {c}", "{x}.flat[::3] = {c}",
    "{x}.itemset = None", "{x}[{k} % {x}.shape[0]] = {c}", "{x}[-1] = {x}[0]", "{x}[0] += {c}",
    "{x:2}[{k} % {x}.shape[0], {k} % {x}.shape[1]] = {c}", "{x}.real[...] = {c}",
    "{x:c}.imag[...] = {c}", "{x:c}.real += 1", "{x}[()] = {e:x}", "{x}[None] *= 0.5",
    "{x}.reshape(-1)[::2] = {c}", "{x}.ravel()[0] = {c}", "np.add({x}, {c}, out={x})",
    "np.add({x}, {y~x}, out={x}, casting='unsafe')",
    "np.multiply({x}, {y}, out={x}, casting='unsafe')", "np.add({x}[1:], {x}[:-1], out={x}[1:])",
    "np.add({x}[1:], {x}[:-1], out={x}[:-1])", "np.subtract({x}, {x}[::-1], out={x})",
    "np.multiply({x}[::-1], 0.5, out={x}, casting='unsafe')", "np.add({x:2}, {x}.T, out={x})",
    "np.negative({x}, out={x}, where={m:x})",
    "np.add({x}, 1, out={x}, where={m:x}, casting='unsafe')",
    "np.sqrt(np.abs({x}), out={x}, casting='unsafe')", "np.clip({x}, -1, 1, out={x})",
    "{x:r}.clip(0, 2, out={x}); {x} += 0", "np.maximum({x:r}, 0, out={x}); {x} += 0",
    "np.floor({x:f}, {x})", "np.cumsum({x:i}, axis={ax:x}, out={x})",
    "np.add.accumulate({x:i}, axis={ax:x}, out={x})", "np.greater({x:r}, 1, out={w:b~x})",
    "np.add({x}, {y~x}, out={w~x}, casting='unsafe')",
    "np.multiply({x}, 2, {w~x}, casting='unsafe')",
    "np.divmod({x:r}, 2, out=({w~x}, {v~x}), casting='unsafe')",
    "np.add({x}, {y~x}, out={w~x}.T.T, casting='same_kind')",
    "np.take({x}, {p:x}, axis=0, out={x}[: len({p:x})])",
    "np.concatenate([{x:1}[1:], {x}[:1]], out={w:1~x}, casting='unsafe')",
    "np.stack([{x}, {x}], out=np.zeros((2,) + {x}.shape, {x}.dtype))",
    "np.max({x:r}, axis=0, out={x}[0]); {x} += 0", "np.sum(small({x:2}), axis=0, out={x}[0])",
    "np.add.reduce({x:i2}, axis=1, out={x}[:, 0])", "np.where({m:x}, {x}, 0, )",
    "np.rint({x:f}, out={x}, where={m:x})",
    "np.matmul({x:i2}[:5, :5], {y:i2}[:5, :5], out={w:i2}[:5, :5], casting='unsafe')",
    "np.dot({x:i2}[:5, :5], {x}[:5, :5], out=np.zeros((5, 5), {x}.dtype))",
    "np.copyto({x}, {x}[::-1])", "np.copyto({x}[1:], {x}[:-1])", "np.logical_not({x:b}, out={x})",
    "np.less({x:r}, {y:r~x}, out={w:b~x}, where={m:x})", "np.mod({x}, 5, out={x})",
    "np.conjugate({x:c}, out={x})", "np.power({x}, 2, out={x}, casting='unsafe')",
    "np.abs({x}, out={x}, casting='unsafe')", "np.sign({x}, {x})",
    "np.nan_to_num({x}, copy=False)", "np.round({x:f}, 1, out={x})",
    "np.compress({m:x}.ravel()[: {x}.shape[0]], {x}, axis=0)",
    "np.choose({m:x}, [{x}, {k}], out={x})", "np.true_divide({x}, 2, out={x}, casting='unsafe')",
    "np.float_power({x:f}, 1, out={x}, casting='unsafe')", "np.ldexp({x:f}, -1, out={x})",
    "{x}, {y} = {y}, {x}", "{x}, {y} = {y} * 0.5, {x} + 1", "{x}, {y}, {w} = {w}, {x}, {y}",
    "{x} = {x}[::-1]", "{x} = {x}[{m:x}]", "{x:1} = {x}[{m:x}] if {x}.size > 5 else {x}",
    "{x} = {e:x}", "{x} = {e:x}", "{x} = {e:x}", "{x} = {e:x}", "{x} = {x} + {c}",
    "{x} = {x}.copy(); {x} *= 0.5", "del {x}; {x} = np.arange(6.0)",
    "{x} = None; {x} = np.ones((3, 4), order='F')", "{x}.shape = {x}.shape[::-1]",
    "{x}.shape = -1", "{x}.dtype = {x}.dtype", "{x}.strides", "{x}.flags.writeable = False",
    "{x}.flags.writeable = True", "{x}.setflags(write=True)",
    "{x}.resize({x}.shape, refcheck=False)",
    "{x}.byteswap(inplace=True); {x}.byteswap(inplace=True)", "{x}.swapaxes(0, -1)[0] = {c}",
    "rng.shuffle({x})", "rng.random(out={x:f1})", "rng.standard_normal(out={x:f})",
    "np.random.shuffle({x})", "old_rng.shuffle({x})", "rng.shuffle({x:2}, axis=1)",
    "{x}[...] = rng.permuted({x}, axis={ax:x})", "rng = np.random.default_rng(t + 5)",
    "np.random.seed({k})", "{x}[{sl:x}] = rng.random()", "{x} += rng.normal()",
    "{x}[:] = rng.integers(0, 9, {x}.shape)", "for row in {x:2}: row *= 0.5",
    "for row in {x:2}[:9]: row[0] = row[-1]", "for i in range(min(5, len({x}))): {x}[i] = {c}",
    "for i in range(1, min(9, len({x}))): {x}[i] = 0.5 * {x}[i - 1]",
    "for i in range(1, min(9, len({x:1}))): {x}[i:] -= 0.25 * {x}[:-i]",
    "for v in ({x}, {y}): v *= 0.5", "for v in [{x}, {y}]: v[0] = v[-1]",
    "for i, v in enumerate({x:1}[:5]): {y:1}[i] = v",
    "for j in range(min({x:2}.shape[1], 6)): {x}[:, j] += {k} * j",
    "for k in range(3): {x}[k::3] = {x}[k::3] * 0.5 + k", "memoryview({x})[0] = 1.5",
    "memoryview({x}).cast('B')[:4] = bytes(4)",
    "ctypes.memset({x}.ctypes.data, 0, min(8, {x}.nbytes))",
    "threaded(lambda: {x}.__setitem__(0, 0.5))",
    "threaded(lambda: np.multiply({x}, 0.5, out={x}, casting='unsafe'))",
    "threaded(lambda: ctypes.memset({x}.ctypes.data, 0, {x}.itemsize))",
    "threaded(lambda: memoryview({x}).cast('B').__setitem__(slice(0, 2), b'ab'))",
    "io.BytesIO({x}.tobytes()).readinto({x})", "{x}.data[0] = {x}.data[-1]",
    "wrap({x})[{sl:x}] = {c}", "sync({x})", "tune(t)",
    "np.ndarray({x}.shape, {x}.dtype, {x})[0] = {c}", "np.frombuffer({x:f1})[0] = 2",
    "{x}.__iadd__({k})", "{x}.__setitem__(np.s_[{sl:x}], {c})", "operator.iadd({x}, {c})",
    "operator.setitem({x}, np.s_[{sl:x}], {c})",
    "with np.nditer({x}, op_flags=['readwrite']) as it:\n    for v in it: v[...] = v * 0.5\n"
    "    del v, it",
)  # fmt: skip
IN_PLACE_INEXACT = (
    "{x} -= {x}.mean()", "{x} /= 1 + {x}.std()",
    "{x:2} /= 1 + np.abs({x}).sum(axis=1, keepdims=True)",
    "np.exp(np.clip({x}, -3, 1), out={x}, casting='unsafe')", "np.sin({x:f}, out={x})",
    "{x} /= np.linalg.norm({x}) + 1", "{x:2}[:3, :3] = {x}[:3, :3] @ {y:2}[:3, :3]",
    "{x:2}[0] -= {x}[1:].mean(axis=0)", "np.cumsum({x:f}, out={x}); {x} %= 4",
    "np.matmul({x:2}[:5, :5], {y:2}[:5, :5], out={w:2}[:5, :5])",
    "np.dot({x:f2}, {x}.T, out=np.zeros((len({x}),) * 2, {x}.dtype))", "{x} *= np.exp(-0.1 * t)",
    "{x} += 0.1 * np.sin({e:x})", "np.tanh({x:f}, {x}, where={m:x})",
    "{x} = {x} + 0.01 * np.roll({x}, 1, 0) - 0.02 * {x} ** 3",
    "np.einsum('ij,jk->ik', {x:2}[:4, :4], {y:2}[:4, :4], out={w:2}[:4, :4])",
    "np.mean({x:f2}, axis=0, out={x}[0])",
    "{x:2}[:] = np.linalg.qr({x})[0] if {x}.shape[0] == {x}.shape[1] < 9 else {x}",
    "{x}[{sl:x}] = np.sqrt(np.abs({x}[{sl:x}])).sum()",
)  # fmt: skip
READS = (
    "out.append({x}.sum(dtype=int))", "out.append({x:i}.sum())", "out.append({x:r}.max() + 0)",
    "out.append({x:r}.argmax())", "out.append({x}.shape)", "out.append({x}[0])",
    "out.append({x}.flat[-1])", "out.append({x}.any())", "out.append(bool({x}.all()))",
    "out.append(small({x}).sum())", "out.append(repr({x}[:3]))", "out.append(str({x}))",
    "out.append({x}.tolist()[:3])", "out.append({x}.strides)",
    "out.append({x}.flags.c_contiguous)", "out.append({x}.copy())", "out.append({x})",
    "out.append({x}[{sl:x}])", "out.append({x}[{m:x}])", "out.append({x}.dtype)",
    "out.append({x} is {y})", "out.append(np.shares_memory({x}, {y}, max_work=1))",
    "out.append(np.may_share_memory({x}, {y}))", "out.append(np.count_nonzero({x}))",
    "out.append(np.array_equal({x}, {y}))", "out.append(np.unique({x:r})[:5])",
    "out.append(np.nonzero({x}))",
    "out.append(hashlib.md5(np.ascontiguousarray({x:i})).hexdigest())",
    "out.append(zlib.crc32({x:i}.tobytes()))", "out.append([float(v) for v in {x:r1}[:4]])",
    "out.append(float({x:r}.flat[0]))", "out.append(int({x:i}.flat[0]))",
    "out.append({x}.item(0))", "out.append(type({x}.flat[0]).__name__)",
    "out.append(type({x:r}.max()).__name__)", "out.append(len({x}))",
    "out.append({x}.size and {x:r}.min() + 0)", "out.append('%s' % {x:1}[:2])",
    "out.append(({x:r} > 0).sum())", "out.append(({x:r} > 0).mean())",
    "out.append(np.argsort({x:r1}, kind='stable')[:9])", "out.append(np.allclose({x:r}, {y:r}))",
    "out.append(np.median({x:r}))", "out.append(np.percentile({x:r}, 30))",
    "out.append(threaded(lambda: {x}.flat[0]))", "out.append(sorted({x:r1}[:9].tolist()))",
    "out.append(memoryview({x}).tobytes()[:8])", "out.append(dict(zip('ab', {x:1}[:2])))",
    "out.append(max({x:1r}[:9]) + 0)", "out.append(sum({x:1i}[:9]))", "out.append({c} in {x})",
    "out.append(next(iter({x})))", "out.append(np.isnan({x:f}).any())",
    "out.append({x:r}.max(axis={ax:x}) + 0)", "out.append(np.may_share_memory({x}, {x}[::2]))",
    "out.append(np.save(f := io.BytesIO(), {x})); out.append(len(f.getvalue()))",
    "out.append({x:1i}.dot({y:1i~x}))", "out.append(np.vdot(small({x:1}), small({y:1~x})))",
    "out.append(np.lib.array_utils.byte_bounds({x})[1] - np.lib.array_utils.byte_bounds({x})[0])",
    "out.append(np.result_type({x}, {y}))", "out.append(np.can_cast({x}.dtype, 'f4'))",
    "out.append({x}.ndim)", "out.append(bool({x:r}.flat[0] > 0.5))",
    "s = float({x:r}.flat[0]); {x} = {x} + s * 0.5", "s = {x:r}.max() + 0; {y} = {y} + (s > 1)",
    "if {x:r}.max() > 2: {x} = {x} * 0.5\nelse: {x} = {x} + 1",
    "if {x}.flat[0]: {y} = {y} * 2",
    "for s in range(9):\n    if {x:r}.max() <= 3: break\n    {x} = {x} // 2 - 1",
    "if np.abs({x:n}).max() > 8: {x} = {x} % 8",
    "n = int(np.count_nonzero({x})) % 7; {y}[n:] = {k}",
    "for v in {x:r1}[:3]:\n    if v > 1: {y} = {y} + 1",
    "kept.append({x}); kept = kept[-4:]", "kept.append({x}[{sl:x}]); kept = kept[-4:]",
    "kept.append(weakref.ref({x})); out.append(kept.pop()() is {x})",
    "out.append(sys.getrefcount({x}) > 1)",
    "dead = weakref.ref({x} * 2); out.append(dead() is None)",
    "out.append(round(float({x:r}.flat[0]), 3))", "out.append(np.where({x}))",
    "out.append(({x:r1}[:-1] < {x}[1:]).all())", "out.append(list({x:1}[:3]))",
    "out.append({x}.nbytes)", "out.append(np.array2string({x:1}[:4], precision=2))",
    "out.append(np.savetxt(f := io.StringIO(), {x:1r}[:4])); out.append(f.getvalue())",
    "out.append(not {x}.size)", "out.append({x}.__array_interface__['strides'])",
    "out.append(isinstance({x}, np.ndarray))", "out.append(hash({x:r}.flat[0]))",
    "out.append({x:r}.max() is {x}.max() and 0)", "out.append(bytes({x})[:8])",
    "out.append(filed(np.ascontiguousarray({x})))",
)  # fmt: skip
READS_INEXACT = (
    "out.append({x}.sum())", "out.append({x}.mean())", "out.append({x:r}.std())",
    "out.append(np.linalg.norm({x}))", "out.append({x:1} @ {y:1~x})",
    "out.append(np.linalg.det({x:2}[:3, :3]))", "out.append(np.exp(-{x:r}.flat[0] ** 2))",
    "s = {x:r}.mean(); {y} = {y} - s", "out.append(np.einsum('i,i', {x:1}, {x}))",
    "out.append(math.sqrt(abs({x:r}.flat[0])))", "out.append(np.sum({x:r} ** 2))",
    "out.append(float(np.sqrt(np.mean({x:r} ** 2))))",
    "if np.linalg.norm({x}) > 5: {x} = {x} / np.linalg.norm({x})", "out.append(np.prod({x}))",
    "out.append(np.sum({x}, axis={ax:x}))", "out.append(np.var({x}))",
    "out.append(np.dot({x:1}[:3], {y:1}[:3]))",
)  # fmt: skip
COMPOUND = (
    "try:\n    {x} += {y}\nexcept (ValueError, TypeError) as error:\n    out.append(str(error))",
    "try:\n    {x}[{k} + 40000] = 1\nexcept IndexError as error:\n"
    "    out.append(str(error)); {x} = {x} * 1",
    "try:\n    with np.errstate(all='raise'): {x} = 1 / ({e:x})\n"
    "except FloatingPointError as error:\n    out.append(str(error))",
    "try:\n    with np.errstate(all='raise'): np.divide(1, {x}, out={x:f}, casting='unsafe')\n"
    "except FloatingPointError as error:\n    out.append(str(error))",
    "try:\n    with np.errstate(invalid='raise', divide='raise'): {x} /= {y~x}\n"
    "except (FloatingPointError, TypeError) as error:\n    out.append(str(error))",
    "try:\n    with np.errstate(over='raise'): {x:f} *= 1e30\n"
    "except FloatingPointError as error:\n    out.append(str(error))\n{x} = np.clip({x}, -4, 4)",
    "with np.errstate(all='ignore'):\n    {x} = {x} / ({y} - {y})\n"
    "    {x} = np.nan_to_num({x}, posinf=2, neginf=-2)",
    "with np.errstate(divide='ignore', invalid='warn'):\n    {new} = 1 / {x}\n"
    "{new} = np.nan_to_num(np.clip({new}, -8, 8))",
    "with warnings.catch_warnings(record=True) as w:\n    warnings.simplefilter('always')\n"
    "    listen(w)\n    {x} = {x} / ({x} - {x})\nout.append(len(w)); {x} = np.nan_to_num({x})",
    "with warnings.catch_warnings(record=True) as w:\n    warnings.simplefilter('always')\n"
    "    {new} = np.sqrt(-1 - np.abs({x:r}))\n    out.append([str(one.message) for one in w])\n"
    "{new} = np.nan_to_num({new})",
    "with warnings.catch_warnings():\n    warnings.simplefilter('error')\n"
    "    try: {new} = {x:r} / 0\n    except RuntimeWarning as error: out.append(str(error))",
    "with warnings.catch_warnings():\n    warnings.simplefilter('ignore')\n"
    "    {x} = np.nan_to_num(np.log({x:r} - 1) * 0)",
    "old = np.seterr(all='ignore'); {x} = np.nan_to_num({x} / {y}); np.seterr(**old)",
    "frames = []\nfor s in range(4):\n    {x} = {e:x}\n    frames.append({x})\n"
    "{new} = np.stack(frames)[-1]",
    "frames = []\nfor s in range(3):\n    {x} *= 0.5\n    frames.append({x}.copy())\n"
    "{new} = np.array(frames)[:, {k} % {x}.shape[0]]",
    "frames = [{x} * s for s in range(3)]\n{x} = sum(frames)",
    "rows = [r * 0.5 for r in {x:2}[:30]]; {new} = np.vstack(rows)",
    "bag = {'u': {x}, 'v': {y}}\nfor key in bag: bag[key] = bag[key] * 0.5\n"
    "bag['u'][0] = {c}; {new} = bag['v']",
    "bag = {k: np.zeros(5) for k in 'pq'}; bag['p'] += {x:1}[:5]; "
    "bag['q'][1:] = bag['p'][:-1]; {new} = bag['q']",
    "alive = np.arange({x:1}.size); work = {x:1}.copy()\nfor s in range(6):\n"
    "    keep = work > {c}\n    alive, work = alive[keep], work[keep] - 0.5\n"
    "{x}[alive] = {k}; {new} = work",
    "work = {x:1}\n"
    "while work.size > 4: work = 0.5 * (work[1::2] + work[::2][: work[1::2].size])\n{new} = work",
    "work = {x:1}\nwhile work.size > 3: work = np.maximum(work[: work.size // 2], "
    "work[work.size // 2 : work.size // 2 * 2]) + 0\nout.append(work)",
    "body.step({e:x}[:1].ravel() if {x}.ndim == 0 else {x}, t); out.append(body.count)",
    "body.u = {x}; body.damp(); {new} = body.u", "body = Body({x}, {y}); body.damp()",
    "body.u, body.v = body.v, body.u; {new} = body.total()",
    "body.v[0] = {c}; {new} = body.v.copy()", "{new} = body.u",
    "{new} = dataclasses.replace(body, count=3).u * 2", "{new} = body.u[{k} % len(body.u):]",
    "{new} = next(stream)", "stream.send(None) if stream.gi_frame else 0; {new} = next(stream)",
    "counter({x}); {new} = counter({y})", "{new} = half({x:1})", "{new} = tree({x:1}[:200])",
    "{new} = vcycle({x:1}[:129])", "{new} = merge({x:r1}[:64])", "{new} = power({x:2}[:4, :4], 3)",
    "{new} = late({x})", "{new} = compose(lambda v: v * 2, lambda v: v + {c})({x})",
    "{new} = starred({x}, *[{y~x}], scale={c})", "{new} = cached({k})",
    "def local(u, w={k}):\n    u = u * w\n    return u\n{x} = local({x})",
    "fs = [lambda u, s=s: u * s for s in (0.5, 2)]\nfor f in fs: {x} = f({x})",
    "{x} = (lambda u: u + {c})({x})",
    "{new} = np.array(list(map(lambda r: r.max() + 0, {x:r2}[:20])))",
    "first, *rest = [{x}, {y}, {x}]; {new} = rest[-1] * 2",
    "(p0, p1), p2 = ({x}, {y}), {x}; {new} = p2 + {c}",
    "{x}[{k} % len({x})], s = {c}, {x}.flat[0]",
    "for s in range(2):\n    {x} = {e:x}\n    if s: continue\n    {y} = {y} + {k}",
    "for s in range(5):\n    {x} = {e:x}\n    if {x:r}.max() > 1: break\nelse: {x} = {x} + 1",
    "try:\n    for s in range(3):\n        {x} = {x} * 0.5\n"
    "        if s == 1: raise KeyError(s)\nexcept KeyError: {x} = {x} + {k}\n"
    "finally: {y} = {y} * 1",
    "rec = np.zeros(12, [('p', 'f8', 3), ('m', 'f4'), ('k', 'i2')]); rec['p'][:, 0] = 1; "
    "rec['m'] += {k}; rec['k'][::2] = {k}; {new} = rec['p'] * rec['m'][:, None]",
    "rec = np.zeros({x:1}.size, 'f8, i4'); rec['f0'] = {x}; rec['f1'] = np.arange({x}.size); "
    "rec = rec[::-1]; rec['f0'] *= 0.5; {new} = rec['f0']",
    "rec = np.zeros(9, 'f4, (2,2)i2'); v = rec['f1']; v[:, 0] += 3; v *= v; {new} = v",
    "rec = {x:f1}.view([('v', {x}.dtype)]); rec['v'][0] = {k}",
    "rec = np.rec.fromarrays([np.arange(5), np.ones(5)], names='a,b'); rec.b *= {k}; "
    "{new} = rec.b + rec.a",
    "days = np.datetime64('2020-01-01') + np.arange(len({x})); "
    "out.append((days[-1] - days[0]).astype(int)); "
    "{new} = (days - days[0]) / np.timedelta64(1, 'D')",
    "gaps = np.arange(6).astype('m8[s]'); gaps *= {k}; gaps[1:] += gaps[:-1]; "
    "{new} = gaps.astype(int)",
    "words = np.array(['a', 'bb', 'c'])[np.arange(len({x})) % 3]; {new} = (words == 'a')",
    "objs = np.array([1, 2.5, None, 'x'], object); objs[{k} % 4] = {x}; out.append(objs[0])",
    "objs = np.empty(2, object); objs[0], objs[1] = {x}, {x}; objs *= 2; {new} = objs[0]",
    "view = {x}[{sl:x}]\nfor s in range(3): view *= 0.5; {x} = {x} + 1",
    "view = {x}[{sl:x}]; {x} *= 2; view += 1; out.append(view.copy())",
    "view = {x}[::-1]; {x}[0] = {c}; out.append(view[-1])",
    "view = {x}.T; view += 1; {x} -= view.T; out.append({x}.flat[0])",
    "a0 = {x}.reshape(-1); a0[: len(a0) // 2] *= 2; out.append({x}.flat[0]); del a0",
    "v0 = {x}[:1]; del {x}; {x} = v0",
    "v0 = memoryview({x}); {x} += 1; out.append(v0.tobytes()[:8]); v0.release()",
    "v0 = np.asarray(memoryview({x:1})); v0[0] = {c}; out.append({x}[0])",
    "it = iter({x}); {x}[0] = {c}; out.append(next(it))",
    "z0 = {x}.flat; {x}[...] = {c}; out.append(z0[0])", "{x} = {x}[{p:x}]; {x}[0] = {c}",
    "big = np.concatenate([{x:1}, {x}])[:3000]; big[: len(big) // 2] = {c}; {new} = big[::2]",
    "u, v = {x} * 0.5, {x} + 1\nfor s in range(3): u, v = v, 0.5 * (u + v)\n{new} = u",
    "u, v = {x}.copy(), np.zeros_like({x})\nfor s in range(4):\n"
    "    np.multiply(u, 0.5, out=v, casting='unsafe')\n    u, v = v, u\n{new} = u",
    "buf = np.zeros((3,) + {x}.shape)\n"
    "for s in range(5): buf[s % 3] = {x} * s - buf[(s - 1) % 3] * 0.5\n{new} = buf[t % 3]",
    "buf = np.zeros((2, 5)); buf[t % 2] += {x:1}[:5]; buf[1 - t % 2, ::2] = buf[t % 2, ::2]; "
    "{new} = buf.T",
    "hist = np.zeros(8)\nfor v in {x:r1}[:20]: hist[int(v) % 8] += 1\n{new} = hist",
    "acc = 0\nfor s in range(4): acc = acc + {x} * s\n{new} = acc",
    "acc = 0.0\nfor r in {x:2}[:9]: acc += r\n{new} = acc",
    "acc = np.zeros(())\nfor s in range(4): acc += s\n{new} = acc",
    "acc = {x:i}.dtype.type(0)\nfor v in {x}.flat[:9]: acc += v\nout.append(acc)",
    "total = {x}[0] * 0\nfor row in {x}: total += row\nout.append(total)",
    "grid = np.zeros((6, 7)); grid[2:5, 1::2] = {k}; grid += grid[::-1, ::-1]; "
    "grid.T[1] -= 1; {new} = grid[1:, :-1]",
    "lut = np.arange(256)[::-1]; {new} = lut[{x:i}.astype('u1')]",
    "lut = np.arange(8.0); {new} = lut[np.abs({x:i}.astype(int)) % 8]",
    "idx = np.nonzero({x:2}); {x}[idx] = {c}; out.append(len(idx[0]))",
    "ii, jj = np.nonzero({x:2}); {x}[ii, jj] += 1; {x}[ii[::-1], jj[::-1]] *= 0.5",
    "ok = {m:x}; {new} = np.where(ok, {x}, 0); {new}[ok] += {x}[ok]",
    "order = np.argsort({x:r1}, kind='stable'); {x} = {x}[order]; "
    "{new} = np.empty_like(order); {new}[order] = np.arange(order.size)",
    "lo, hi = {x:r}.min() + 0, {x}.max() + 0; {new} = ({x} - lo) / (hi - lo + 1)",
    "q0, r0 = np.divmod({x:r}, 3); {new} = q0 * 3 + r0",
    "parts = np.array_split({x:1}, 4); parts[1] *= 0.5; parts[2][:] = {k}; "
    "{new} = np.concatenate(parts[::-1])",
    "y0, x0 = np.mgrid[0:4, 0:5]; {new} = (y0 - x0) * {k}",
    "{x:2}[np.triu_indices(min({x}.shape), 1)] = {k}",
    "{x:2}[np.diag_indices(min({x}.shape))] += {c}", "if t == {k}: {x} = {x}.astype('f4')",
    "if t == {k}: {x} = {x}[: max(2, len({x}) // 2)]",
    "if t == {k}: {x} = np.concatenate([{x}, {x}])[:3000]",
    "if t == {k}: {x} = np.asfortranarray({x})",
    "if t % 3 == 0: {x} = {e:x}\nelif t % 3 == 1: {y} = {e:y}\nelse: {x}, {y} = {y}, {x}",
    "{x} = {x} if t % 2 else {x} * 0.5", "{x} = [{x}, {y}][t % 2]",
    "gc.collect() if t == 3 else 0", "kept.clear()",
    "out.append(forked(lambda: int({x:r}.max()) % 200)) if t == {k} else 0",
    "with accel(): {x} = {e:x}",
    "with accel():\n    {x} = {x} + 1\n    {x} *= 0.5",
    "with contextlib.suppress(ValueError, TypeError): {x} += {y}",
    "{new} = np.arange(5.0) * 2\nwith contextlib.suppress(Exception): {new}.resize((3, 3))",
    "{x} = npwrap({x})", "{new} = Own.of({x}) * 2", "{new} = np.asarray(Own.of({x}) + {y})",
    "{new} = np.ma.masked_less({x:r}, 0).filled({k})",
    "{new} = np.ma.array({x:r}, mask={m:x}) + 1",
    "{new} = np.asarray(np.matrix({x:2}[:4, :4]) * 2)", "{new} = np.array(Duck({x}))",
    "{new} = {x} + Duck({x})", "out.append(repr(raised(lambda: {x} + object())))",
    "out.append(raised(lambda: {x}[{k}, {k}, {k}, {k}]))",
    "out.append(raised(lambda: {x} @ np.ones(77)))",
    "out.append(raised(lambda: np.add({x}, 1, out={y})))",
    "out.append(raised(lambda: {x}.reshape(5, -1)))",
    "out.append(raised(lambda: np.concatenate([{x}, {y}]).shape))",
    "out.append(raised(lambda: {x}.astype('i4', casting='safe').dtype))",
    "out.append(raised(lambda: {x:i}.__ipow__(-1)))",
    "out.append(raised(lambda: np.add({x}, {y}, casting='no')))",
    "out.append(raised(lambda: {x}.__imatmul__({y})))",
    "out.append(raised(lambda: np.linalg.inv(np.zeros((3, 3)))))",
    "out.append(raised(lambda: {x}.__itruediv__({y})))",
    "out.append(raised(lambda: {x}.__setitem__({m:x}, [1, 2, 3, 4, 5, 6, 7])))",
)  # fmt: skip
# Statements of a macro section on arrays u, v and w and a small integer k.
SECTION = (
    "w = 0.5 * (u + v)", "w = u - v", "w = np.where(u > v, u, v)", "w = np.maximum(u, v) + 0",
    "w = w * 0.5 + u", "w = u[::-1] * 0.5", "w = u[1:] - u[:-1]", "w = np.roll(u, 1)",
    "w = np.roll(w, -1, axis=0)", "w = u.T * 0.5", "w = np.zeros_like(u)",
    "w = np.empty_like(u); w[...] = v", "w = u.copy()", "w = u.astype('f4')",
    "w = u.astype(int) % 5", "w = np.sqrt(np.abs(u))", "w = np.clip(u, -1, 1)",
    "w = np.floor(w) + v", "w = u / (1 + np.abs(v))", "w = (u > 0) * v", "w = np.abs(w)", "w = -w",
    "w = w + k", "w = w * k * 0.25", "w = u.reshape(-1)", "w = np.concatenate([u[1:], u[:1]])",
    "w = np.stack([u, u])[0]", "w = np.pad(u, 1)[1:]", "w = u.max(axis=0) + 0 + 0 * u",
    "w = small(u).sum(axis=-1) if False else w", "w = u - (u.min() + 0)",
    "w = np.minimum(w, 2) + 0", "w = u[..., None][..., 0]", "w = np.diff(u, axis=0, prepend=0)",
    "w = u ** 2 * 0.125", "w = u % 3", "w = u // 2", "w = np.square(u) * 0.25", "w = w[::2]",
    "w = u[1:-1]", "w = np.copysign(0.5, u + 1)", "w = np.sign(u)", "w = np.isfinite(u) & (v > 0)",
    "w = ~(u > v)", "w = u == v", "w = np.repeat(u, 2, axis=0)", "w = np.tile(u, 2)[..., ::2]",
    "w = np.broadcast_to(u, (2,) + u.shape)[1] * 1", "w = np.sort(u, axis=0)",
    "w = np.cumsum(u.astype(int) % 3, axis=0)", "u *= 0.5", "u += v", "u -= 0.25 * v", "v *= 0.5",
    "v[...] = u", "u[0] = v[-1]", "u[1:] = u[:-1]", "u[1:] += 0.5 * u[:-1]",
    "u[:-1] -= 0.5 * u[1:]", "u[::2] = 0.25", "u[::-1] = v", "u[u > 1] = 0.5", "u[v < 0] *= 0.5",
    "np.add(u, v, out=u)", "np.multiply(u, 0.5, out=v)", "np.maximum(u, 0, out=u); u += 0",
    "u.fill(k)", "u[...] = k", "u[-1] = k", "w[...] = 0.5", "w *= 0.5", "w += u", "w[1:] = u[:-1]",
    "w[0] = k", "u[...] = w", "v += w", "u.T[...] = v.T", "x = u[1:]; x *= 0.5", "x = u; x += 1",
    "u, v = v, u", "w = u; w += k", "v = v + u", "u = u * 0.5", "if k > 2: u = u * 0.5",
    "for s in range(k): u = 0.5 * (u + v)", "for s in range(3): u[1:] -= 0.25 * u[:-1]",
    "for s in range(k): w = w + s", "w = [u, v][k % 2]", "w, x = u * 2, v + 1; w = w - x",
    "w = helper(u, v)", "w = np.float32(0.5) * u", "w = u * np.float64(k)",
    "w = u + np.arange(u.shape[-1])", "w = u + np.ones(u.shape)",
    "w = np.linspace(0, 1, u.shape[0])", "w = u * GLOBAL", "w = u + GLOBAL.sum() * 0",
    "w = u[k % u.shape[0]] + 0 * u", "w = u[[0, -1]]", "w = np.take(u, [0, -1], axis=0)",
    "w = u.real", "w = np.nan_to_num(u)", "w = u.ravel()[::3]", "w = np.ravel(u, order='F')",
    "w = u.swapaxes(0, -1)", "w = np.expand_dims(u, 0)", "w = np.asarray(u)",
    "w = np.array([k, k + 1.0])[0] * u",
)  # fmt: skip
SECTION_CALLS = (
    "{new} = SEC({x:r}, {y~x}, {k})[-1]", "{new} = SEC({x:r}, {y~x}, {k})[-1]",
    "{new} = SEC({x:f}.copy(), {y~x} * 0.5, 3)[-1]",
    "found = SEC({x:f}, {y:r}, {k}); {new} = found[-1]; out.append(found[0].shape)",
    "{x}, {y}, w = SEC({x:f}, {y~x}, 2)[:3]", "{new} = SEC({x:f}, {x}, {k})[-1]",
    "{new} = SEC({x:f1}[1:], {x}[:-1], {k})[-1]", "{new} = SEC({x:f}[::-1], {x}, 1)[-1]",
    "{new} = SEC({x:f2}.T, {x}.T * 1, {k})[-1]", "{new} = SEC({x:f}, np.ones({x}.shape), {k})[-1]",
    "{new} = SEC({x:f1}, 0.5 * {x}, t % 3)[-1]", "{new} = SEC({x:i}, {y~x}, {k})[-1]",
    "for s in range(4): {x} = SEC({x:f} * 0.5, {y~x}, s)[0]",
    "u = {x:f} * 1\nfor s in range(5): SEC(u, {y~x}, 2)\n{new} = u",
    "{new} = SEC({x:f2}[:, 1:], {x}[:, :-1], {k})[-1]", "{new} = SEC({x:f}, {y:r}, 0.5)[-1]",
    "{new} = SEC({x:f}.astype('f4'), {y~x}, 1)[-1]", "GLOBAL = GLOBAL * 0.5 + 1",
)  # fmt: skip
# What may divide by 0 and the like, in programs where that raises.
STRICT = (
    "{x} = 1 / {x}", "{x} = {x} / {y~x}", "{x} = {x:f} * 1e200 * 1e200",
    "{x} = np.sqrt({x:f} - 1)", "{x} = np.log({x:r})",
    "np.divide(1, {x}, out={x:f}, casting='unsafe')", "{x:f} /= {y~x}", "{x} = {x:i} // {y:i~x}",
    "{x} = {x:r} % {y~x}", "{x} = ({x:f} * 1e30).astype('i4')",
    "{x} = {x:f}.astype('f2') * np.float16(6e4)", "np.sqrt({x:f}, out={x})", "{x:f}[{sl:x}] /= 0",
    "{x:f}[{m:x}] /= 0", "{x} = np.float32(1e38) * {x:f}.astype('f4') * 100",
    "{x} = np.arcsin({x:f} * 3) * 0", "{x} = ({x:f} - np.inf) * 0",
    "{new} = {x:f}.max(axis=0) / 0", "{new} = {x:f}.min() / 0 + np.zeros(3)",
    "{x}[...] = {y~x} / {x}", "{new} = np.reciprocal({x:f})", "{new} = np.float64(1) / {x:f}",
    "{new} = {x:f} ** -1.0", "{new} = np.power({x:i}, 2) // 0",
    "{new} = np.add.reduce({x:f} * 1e308)", "{new} = ({x:f} * np.inf)[::2]",
    "{new} = np.where({x:f} > 0, 1 / {x}, 0)", "{new} = {x:f} % 0",
    "{new} = np.divmod({x:f}, 0)[0]", "{new} = np.remainder({x:i}, 0)",
)  # fmt: skip
THREADS = (
    "threads = [threading.Thread(target=np.multiply, args=({x}, 0.5), kwargs={{'out': {x}, "
    "'casting': 'unsafe'}})]\nfor one in threads: one.start()\nfor one in threads: one.join()",
    "found = [None] * 3\ndef work(k): found[k] = {x} * k + 1\n"
    "threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]\n"
    "for one in threads: one.start()\nfor one in threads: one.join()\n{new} = found[1] + found[2]",
    "with concurrent.futures.ThreadPoolExecutor(2) as pool: parts = list(pool.map(lambda p: "
    "p * 0.5 + 1, np.array_split({x}, 4)))\n{new} = np.concatenate(parts)",
    "with concurrent.futures.ThreadPoolExecutor(3) as pool: list(pool.map(lambda k: "
    "{x}[k::3].__setitem__(slice(None), k), range(3)))",
    "{x} = {e:x}; out.append(threaded(lambda: {x}.tobytes()[:8]))",
    "lock = threading.Lock()\ndef work(s):\n    with lock: {x}[...] = {x} * 0.5\n"
    "threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]\n"
    "for one in threads: one.start()\nfor one in threads: one.join()",
    "{new} = threaded(lambda: {e:x})",
    "def work():\n    with accel(): return {e:x}\n{new} = threaded(work)",
    "job = concurrent.futures.ThreadPoolExecutor(1); later = job.submit(lambda: {x} + 1); "
    "{y} = {y} * 0.5; {new} = later.result(); job.shutdown()",
    "async def work():\n    await asyncio.sleep(0)\n    return {e:x}\n"
    "async def both(): return await asyncio.gather(work(), work())\n"
    "{new} = asyncio.run(both())[1]",
    "def work():\n    with accel():\n        for s in range(3): yield {x} * s\n"
    "{new} = sum(work())",
    "walker = iter_in({x}); {y} = {y} + 1; {new} = next(walker); {y} = {y} * 0.5; "
    "{new} = next(walker); walker.close()",
    "weakref.finalize({x}[:], out.append, 'gone') if False else 0",
    "{new} = (lambda: [{x} * k for k in (1, 2)])()[1]",
)  # fmt: skip
# What programs begin with.
START = """
@dataclasses.dataclass
class Body:
    u: np.ndarray
    v: np.ndarray
    count: int = 0
    def step(self, x, t):
        self.u = 0.5 * self.u + x.flat[0] * 0.25
        self.v[...] = self.v * 0.5 + t
        self.count += 1
    def damp(self):
        self.u *= 0.5
        self.v -= 0.25 * self.v
    def total(self):
        return self.u * 1 if self.u.shape != self.v.shape else self.u + self.v
def stream_of(x):
    while True:
        x = 0.5 * x + 1
        yield x
        x[...] = x[::-1]
        yield x.copy()
def counting():
    seen = np.zeros(3)
    def count(x):
        nonlocal seen
        seen = seen * 0.5
        seen[: min(3, x.size)] += np.clip(x.ravel()[:3].real, -9, 9)
        return seen
    return count
def half(x):
    return x if x.size < 4 else np.concatenate([half(x[: x.size // 2]) * 0.5, x[x.size // 2 :]])
def tree(x):
    if x.size <= 2: return x * 2
    even, odd = tree(x[::2]), tree(x[1::2])
    k = min(even.size, odd.size)
    return np.concatenate([0.5 * (even[:k] + odd[:k]), 0.5 * (even[:k] - odd[:k])])
def vcycle(x):
    if x.size <= 3: return x * 0.5
    x = x.copy()
    x[1:-1] = 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:]
    coarse = vcycle(x[::2])
    x[::2] += 0.5 * coarse
    x[1:-1:2] += 0.25 * (coarse[:-1] + coarse[1:])[: x[1:-1:2].size]
    return x
def merge(x):
    if x.size < 2: return x
    a, b = merge(x[: x.size // 2]), merge(x[x.size // 2 :])
    places = np.searchsorted(a, b, side='right') + np.arange(b.size)
    found = np.zeros(x.size, x.dtype)
    found[places] = b
    rest = np.ones(x.size, bool)
    rest[places] = False
    found[rest] = a
    return found
def power(x, k):
    return np.eye(len(x)) if k == 0 else 0.25 * small(x) @ power(x, k - 1)
def late(x, *, scale=0.5, **more):
    try:
        return x * scale
    finally:
        x = None
def compose(*fs):
    return lambda u: functools.reduce(lambda r, f: f(r), fs, u)
def starred(x, *others, scale=1, **options):
    for y in others: x = x + y
    return x * scale
@functools.lru_cache
def cached(k):
    return np.arange(k * 5.0)
def helper(p, q):
    return p * 0.5 - q
def iter_in(x):
    with accel():
        yield x * 2
        x = x + 1
        yield x * 0.5
class Duck:
    def __init__(self, x): self.x = x
    def __array__(self, dtype=None, copy=None): return np.array(self.x, dtype)
counter, npwrap = counting(), lambda x: x[...] if x.ndim else x
"""
