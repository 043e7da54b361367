"""What random programs are made of: see random_programs.py.

All is exact, or goes through `small`, `quantum` or `rounded`; values stay small.
"""

from __future__ import annotations

__all__ = [
    "EXPRESSIONS",
    "FEWER",
    "FUNCTIONS",
    "KINDS",
    "MAKERS",
    "SHAPES",
    "START",
    "VALUES",
]

# Arrays by kind: f f8, s f4, i i8, k small integers, z complex, g a grid of f8,
# m a mask, h another dtype; {q} stands for places that may repeat, or for each once.
KINDS = {
    "f": ("a", "b", "c"),
    "s": ("e",),
    "i": ("i", "j"),
    "k": ("k",),
    "z": ("z",),
    "g": ("g", "h"),
    "m": ("m",),
    "h": ("o",),
}
# What is exact: the values stay small, and each name keeps its shape and dtype.
VALUES = {
    "f": (
        "0.5 * ({f} + {f})", "0.5 * ({f} - {f})", "np.clip({f} * {f}, -64, 64)", "-{f}",
        "np.maximum({f}, {f}) + 0.0", "np.fmin({f}, {f}) + 0.0", "np.sqrt(np.abs({f}))",
        "{f} - 0.25 * t", "np.where({f} > 0.25, {f}, {f})", "np.where({m}, {f}, 0.125)",
        "np.where({m}, {s}, {f})", "{f} / (1.0 + {f0} * {f0})", "np.floor({f})", "np.abs({f})",
        "np.roll({f}, t % 9 - 4)", "{f}[::-1]", "{f}[::-1].copy()", "np.clip({f}, -2, 2)",
        "np.concatenate(({f}[7:], {f}[:7]))", "np.diff({f}, prepend=0.0) * 0.5",
        "np.pad({f}[2:-2], 2, mode='edge')", "np.pad({f}[3:], (0, 3))",
        "np.repeat({f}[: (n + 1) // 2], 2)[:n]", "np.tile({f}[:50], n // 50 + 1)[:n]",
        "np.take({f}, {q}, mode='clip')", "{f}[{q}]", "{f}[{q}] + {f}",
        "np.multiply({f}.astype('>f8'), 0.5)", "0.5 * ({f} + {s})",
        "0.25 * ({i} % 64) + 0.5 * {f}", "np.mod({f}, 3.0)", "{z}.real + 0.25", "{z}.imag * 0.5",
        "0.5 * {f} * 0.25 + {k} % 8", "{g}.ravel()", "{g}.T.reshape(-1)",
        "{g}.reshape(-1)[:n] + 0.5", "({g} * 0.5 + small({g}).mean()).ravel()",
        "({g} - {g}.max(axis=1, keepdims=True)).ravel()", "np.ravel({g}, order='F')",
        "({g} + np.arange(float(cols))).ravel() % 7.0", "({f}.reshape(rows, cols).T).ravel()",
        "np.linspace(-1, 1, n) + 0.5 * {f}", "np.arange(n) * 0.125 % 5.0 - {f} * 0.5",
        "np.cumsum(small({f})) % 8.0", "np.sort({f})", "np.random.random(n)", "rng.random(n)",
        "rng.standard_normal(n)", "rng.uniform(-1, 1, n) * {f}", "rng.integers(0, 9, n) * 0.5",
        "np.random.normal(0, 1, n)", "old_rng.standard_normal(n)",
        "old_rng.randint(0, 9, n) * 0.25", "rng.permutation({f})", "np.copysign({f}, {f})",
        "np.sign({f}) * 0.5", "np.nan_to_num({f})", "np.rint({f})", "np.trunc({f} * 3)",
        "np.hstack([{f}[:n // 2], {f}[n // 2 :]])", "np.rot90({g}, 2).ravel()",
        "np.einsum('ij->ij', {g}).ravel()", "np.select([{m}, {f} > 1], [{f}, 0.5], -0.5)",
        "np.piecewise({f}, [{m}], [-0.5, lambda x: x * 0.5])", "np.minimum.accumulate({f}) + 0.0",
        "np.choose({i0} % 2, [{f}, {f}])", "np.flip({f})",
        "np.stack([{f}, {f}]).max(axis=0) + 0.0", "np.broadcast_to({f}, (2, n))[1] * 1",
        "np.float64(0.5) * {f}", "{f} * np.float32(0.5)", "np.clip({f}, -16, 16) ** 2 * 0.0625",
        "np.square(np.clip({f}, -4, 4)) / 16", "np.heaviside({f}, 0.5)", "np.fmax({f}, 0.25)",
        "np.ldexp({f}, -1)", "np.modf({f})[0]", "np.divmod({f}, 2.5)[1]", "np.nextafter({f}, 9.0)",
        "np.reciprocal(1.5 + np.abs({f}))", "quantum(np.sin({f}))",
        "quantum(np.exp(np.clip({f}, -9, 3)))", "quantum(np.tanh({f} + 0.3))",
        "quantum(np.hypot({f}, 1.3))", "quantum(np.log(np.abs({f}) + 1.7))", "helped({f}, {f})",
        "quantum({f} % 8.0 - small({f}).mean())", "quantum(np.arctan2({f}, 1.1))", "gen_next({f})",
        "lam({f}, t)", "shrunk({f})", "wrap({f})", "np.asarray({f})", "np.array({f})",
        "np.require({f}, float, 'C')", "np.asanyarray({f}) * 0.5",
        "np.ascontiguousarray({f}[::-1])", "np.frombuffer({f}.copy()) * 0.5",
        "bag['x'] + 0.25 * {f}", "history[0] * 0.5 + {f} * 0.25", "sum(history) / 4",
        "np.array([row.max() for row in {g}]).repeat(cols) + 0.0",
        "np.concatenate([row * 0.5 for row in {g}])", "np.einsum('i,i->i', {f}, {f}) % 4.0",
        "np.lib.stride_tricks.as_strided({f}, (n,), (0,)) + 0.5", "converged({f})",
        "recursive({f}, 3)", "({g}[:, None, :] + {g}[None, :1, :])[:, 0].ravel() * 0.5",
        "np.transpose({g}[None], (2, 1, 0))[:, 0].T.ravel() * 0.5",
        "{f}.view(np.int64).view(np.float64)[::-1]",
        "np.add({f} % 9.0, {f} % 9.0, dtype='f4').astype('f8') * 0.5",
        "(wrap({f}) - {f}) * 0.5 + t % 3", "np.where({m}, 1.5, {f}).clip(-3, None)",
        "np.full_like({f}, 0.5) + {f}", "np.zeros_like({f}) - {f}", "({f} > 0) * {f}", "{f} * {m}",
        "np.broadcast_to(np.float64(0.5), n) + {f}",
        "next(x for x in ({f}, {f}) if x is not None)",
        "(lambda x, *y, **z: x * 0.5)({f}, {f}, z={f})", "np.concatenate((np.zeros(9), {f}))[9:]",
        "np.concatenate(({f}, {f}))[::2]", "np.block([{f}[:9], {f}[9:]])",
        "np.append({f}[1:], 0.5)", "np.nan_to_num({f} * 0.5)", "np.cumsum({f}) % 8.0",
        "np.cumprod(np.clip({f}, 0.5, 1.5)) % 8.0", "np.add.accumulate({f}) % 4.0",
        "{f} / (2 + np.abs(small({f})).max(keepdims=True))", "{f} * np.array(0.5)",
        "{f} * (1 / (1 + small({f}).sum() % 7))", "{f} - {f}.min()",
        "np.fft.irfft(np.fft.rfft({f}), n)", "np.fft.rfft({g}, axis=1).real.ravel().repeat(2)[:n]",
        "np.resize(np.linalg.det(np.resize({f} % 3.0, (200, 3, 3)) + 4 * np.eye(3)), n) % 3.0",
        "np.resize(np.linalg.inv(np.resize({f} % 3.0, (100, 4, 4)) + 9 * np.eye(4)), n)",
        "np.resize(np.linalg.solve(np.resize({f} % 3.0, (60, 3, 3)) + 9 * np.eye(3), "
        "{f}[:3]), n)",
        "np.resize({g}[:4, :4] @ {g}[:4, :4].T % 8.0, n)",
        "np.resize(np.matmul(np.resize({f} % 3.0, (50, 3, 3)), {f}[:3]), n)",
        "np.resize(np.cross(np.resize({f} % 3.0, (n // 3, 3)), [1.0, 0.5, 2.0]), n)",
        "rng.exponential(size=n)", "rng.normal(0.5, 2.0, n)", "rng.gamma(2.0, size=n)",
        "rng.poisson(3.0, n) * 0.5", "rng.standard_exponential(n)",
        "rng.normal(size=(rows, cols)).ravel()", "rng.random((cols, rows)).T.ravel()",
        "rng.integers(0, 100, n, dtype=np.int8) * 0.25",
        "rng.choice(n, n, replace=False) * 0.125 % 3", "rng.permuted({f})",
        "rng.lognormal(size=n) % 4.0", "rng.binomial(9, 0.5, n) * 0.5", "old_rng.rand(n)",
        "old_rng.uniform(-1, 1, n)", "old_rng.permutation({f})", "old_rng.choice({f}, n)",
        "old_rng.exponential(1.0, n)", "np.random.randn(n)", "np.random.uniform(0, 1, n)",
        "np.random.randint(0, 9, n) * 0.5", "np.random.permutation({f})",
        "np.random.choice([0.5, 1.5, 2.5], n)",
        "np.interp({f}, [-1.0, 0.0, 2.0], [0.5, 0.25, 1.0])", "np.gradient({f}) * 0.5",
        "np.convolve(small({f}), [1, 2, 1], 'same') % 8.0",
        "np.correlate(small({f}), [1.0, 0, -1], 'same') % 8.0",
        "np.unwrap({f}) if t % 9 == 1 else {f} * 1",
        "np.trim_zeros({f} + 1000.0)[:1].repeat(n) * 0 + 0.5", "np.tril({g}).ravel()",
        "np.triu({g}, 1).ravel()", "np.unpackbits(np.packbits({m}))[:n] * 0.5",
        "np.float_power({k} % 4, 2) * 0.25", "np.spacing({f}) + 0.5", "np.frexp({f})[0]",
        "np.hypot(0.0, {f})", "np.fabs({f})", "np.positive({f})", "np.deg2rad({f})",
        "np.logaddexp(0.0, np.clip({f}, -9, 9)) * 0 + {f}",
        "np.average(np.stack([{f}, {f}]), axis=0, weights=[1, 1])",
        "np.real({z}) + np.imag({z}) * 0.5", "np.digitize({f}, np.sort({f}[:9])) * 0.25",
        "functools.partial(np.add, 0.5)({f}) * 0.5", "operator.mul({f}, 0.5)",
        "operator.itemgetter(slice(None, None, -1))({f})", "{f}.__mul__(0.5)", "{f}.dot(0.5)",
        "{f}.clip(min=-1.0)", "{f}.round(2)", "{f}.take({q})", "{f}.repeat(2)[::2]",
        "{f}.cumsum() % 2.0", "+{f}", "{f}.swapaxes(0, 0) * 1", "np.nan_to_num({g}).flatten('F')",
        "{g}.flatten()", "{g}.squeeze().ravel()", "np.resize({g}.diagonal(), n) * 0.5",
        "np.stack([{f}, {f}], axis=1)[:, 0]", "np.stack([{f}, {f}], axis=1)[:, 1] * 0.5",
        "np.zeros((n, 3))[:, 1]", "np.ones(2 * n)[::2]", "{z}.real", "{z}.imag", "rec['x'] * 0.5",
        "rec['x'] + rec['k']", "rec['x']", "np.asarray(mapped) * 0.5",
        "np.asarray(mapped * 0.5 + {f} * 0.25)", "shared * 0.5 + {f} * 0.25", "shared[::-1] * 1",
        "np.concatenate([{f}[:0], {f}])", "np.concatenate([{f}[n:], {f}]) * 0.5",
        "np.asarray({f}[3]) + {f} * 0.5", "asyncio.run(later({f}))", "decorated({f})",
        "blockwise({f})", "np.array([{f}, {f}])[1]", "np.array([{f}, {f}]).T[:, 0] * 0.5",
        "np.dstack([{f}, {f}])[0, :, 0]", "np.atleast_2d({f})[0] * 0.5",
        "np.ma.getdata(np.ma.masked_less({f}, 0.0)) * 0.5",
    ),
    "s": (
        "{s} * np.float32(0.5)", "0.5 * ({s} + {s})", "{f}.astype('f4')", "np.sqrt(np.abs({s}))",
        "np.float32(1) / (1 + {s0} * {s0})", "{s}[::-1]", "np.where({m}, {s}, np.float32(2))",
        "({i} % 50).astype(np.float32)", "np.roll({s}, 3)", "{z}.real.astype('f4')", "np.abs({s})",
        "{s}.astype(np.float16).astype('f4')", "np.sort({s})", "rng.random(n, dtype='f4')",
        "np.clip({s} * {s}, -9, 9)", "{s} + (t % 3)", "np.concatenate(({s}[1:], {s}[:1]))",
        "np.floor({s})", "np.ascontiguousarray({g}.T, 'f4').ravel()", "np.maximum({s}, {s}) + 0",
    ),
    "i": (
        "({i} + {i}) % 100003", "{i} * 3 % 1009", "{i} // 3", "{i} % 7 - 3", "{i} ^ {i}",
        "({i} >> 2) + 1", "np.bitwise_and({i}, 255)", "np.where({m}, {i}, -{i})",
        "{f}.astype(int)", "({k} % 64) * 5 + (0 * {i})", "{k}.astype(np.int64) - 7",
        "np.cumsum({i} % 5)", "np.argsort({f}, kind='stable')", "np.arange(n)[::-1] - {i}",
        "np.sort({i})", "{i}[{q}]", "np.roll({i}, t)", "abs({i})",
        "np.searchsorted(np.sort({f}), {f})", "np.where({f} > 0, 1, {i})", "{i}.clip(-100, 100)",
        "np.floor_divide({i}, {k} % 9 + 60)", "np.bincount({i0} % 11, minlength=11)[{i0} % 11]",
        "np.digitize({f}, [-1.0, 0.0, 0.5, 2.0])", "{m}.astype(int) + 2", "{m} * 3", "~{i}",
        "np.minimum({i}, {i})", "np.power({i} % 5, 2)", "np.gcd({i}, 12)",
        "np.multiply({i}.astype('>i4'), 2).astype(int)",
        "np.unique({i} % 9, return_inverse=True)[1].reshape(n)", "rng.integers(-50, 50, n)",
        "np.cumsum({m})", "np.argsort(np.argsort({i}, kind='stable'), kind='stable')",
        "np.diff({i}, append=0)", "np.left_shift({i} % 64, 3)",
        "{i}.view(np.uint64).view(np.int64)",
        "({i} & 1).astype(bool).view(np.int8).astype(np.int64)", "np.lcm({i} % 5 + 1, 6)",
        "np.argsort({i})", "np.argsort({f})", "np.argpartition({f}, 9) * 0 + {i}",
        "np.searchsorted(np.sort({f}), {f}, side='right')",
        "np.searchsorted({f}, {f}, sorter=np.argsort({f}, kind='stable'))",
        "np.unravel_index({i0} % n, (rows, cols))[0]",
        "np.ravel_multi_index(({i0} % rows, {i0} % cols), (rows, cols))",
        "np.bitwise_count({i}).astype(int)", "np.nonzero(np.ones(n))[0]",
        "np.indices((rows, cols))[1].ravel()", "np.arange(n).reshape(rows, cols)[::-1].ravel()",
        "np.sign({i})", "np.invert({i})", "-{i}", "np.remainder({i}, 7)", "np.fmod({i}, 5)",
        "np.right_shift({i}, 1)", "np.int64(3) * {i} % 50", "np.maximum.accumulate({i})",
        "np.rint({f}).astype(int)", "{i}.argsort(kind='stable')", "np.lexsort(({i}, {k}))",
        "rng.permutation(n)", "rng.integers(0, [5] * n)", "rng.integers(-9, 9, n, endpoint=True)",
        "old_rng.randint(-9, 9, n)", "rng.integers(0, 2**40, n) % 999",
        "np.asarray({i0}.tolist())", "np.array([int(v) % 9 for v in {i}])",
        "({f} > 0).astype(int) - ({f} < 0)", "np.bincount({q}, minlength=n)",
        "np.cumsum(np.bincount({q}, minlength=n))", "np.histogram({f}, n)[0]",
        "np.resize(np.where({m})[0], n)", "np.trunc({f}).astype('i4').astype(int)",
        "({i} % 100).astype('i2').astype(int)", "({i} % 100).astype('u1').astype(int) - 3",
    ),
    "k": (
        "{k} + {k}", "{k} * {k}", "{k} >> 1", "{k} ^ {k}", "{k}[::-1]", "~{k}",
        "np.maximum({k}, 3)", "({i} % 50).astype(kd)", "np.where({m}, {k}, {k0} + kd(1))",
        "{k} // kd(3)", "{k} % kd(5)", "np.roll({k}, -2)", "np.sort({k})", "{m}.astype(kd)",
        "{k}[{q}]", "np.clip({k}, 2, 90)", "np.repeat({k}[::2], 2)[:n]",
        "np.left_shift({k}, kd(1))", "np.concatenate(({k}[5:], {k}[:5]))",
    ),
    "z": (
        "0.5 * ({z} + {z})", "{z}.conj()", "{f} + 1j * {f}", "{z} * 1j", "0.25 * {z} * {f}",
        "np.where({m}, {z}, 0.5)", "{z}[::-1]", "0.5 * {z} - {f}", "np.conjugate({z}) + 0.5j",
        "np.roll({z}, t % 3)", "{z}.astype('c8').astype('c16')", "({s} + 0j).astype(complex)",
        "-{z}", "np.clip({z}.real, -2, 2) + 0.5j", "np.concatenate(({z}[4:], {z}[:4]))",
        "{z} - t * 0.5", "np.fft.fft({f}[:64]).repeat(n // 64 + 1)[:n] / 64",
        "np.fft.ifft({z}[:100]).repeat(n // 100 + 1)[:n]",
    ),
    "g": (
        "0.5 * ({g} + {g})", "{f}.reshape(rows, cols)",
        "{f}.reshape(rows, cols) * 0.5 + {g}[:1] * 0.25", "{g}[:, ::-1]", "{g}[::-1]",
        "0.5 * ({g} - {g}[:, :1])", "np.roll({g}, 1, axis=t % 2)", "np.where({g} > 0.5, {g}, 0.5)",
        "0.25 * (np.roll({g0}, 1, 0) + np.roll({g0}, -1, 1))",
        "np.pad({g}[1:-1, 1:-1], 1, mode='edge')", "np.sort({g}, axis=t % 2)",
        "np.clip({g}, -4, 4)", "np.cumsum(small({g}), axis=t % 2) % 5.0",
        "np.outer({f}[:rows], {f}[:cols]) % 4.0", "{f}[:rows, None] + 0.5 * {f}[None, :cols]",
        "np.add.outer({f}[:rows], {f}[:cols]) * 0.5", "np.concatenate([{g}[1:], {g}[:1]])",
        "np.vstack([{g}[:2], {g}[2:]])", "{g}.T.copy().T * 0.5", "np.asfortranarray({g}) * 0.5",
        "{g}[np.arange(rows)[:, None], np.arange(cols)[::-1]]",
        "np.take_along_axis({g0}, np.argsort({g0}, axis=1, kind='stable'), axis=1)",
        "({g0} - {g0}.min(axis=0)) / (1.5 + np.ptp({g0}, axis=0))", "{g}.copy(order='F')",
        "quantum({g} / (1.0 + np.abs(small({g})).sum(axis=1, keepdims=True)))",
        "{f}.reshape(cols, rows).T * 1", "np.gradient({g}, axis=0) * 0.5",
        "np.lib.stride_tricks.sliding_window_view(np.pad({f}, 2)[: n + 2], "
        "3).max(axis=-1)[:n].reshape(rows, cols) + 0.0",
        "np.tile({g}[:1], (rows, 1))", "np.expand_dims({g}, 0)[0] + 0.25",
        "np.flipud({g}) - np.fliplr({g})", "np.stack([{g}, {g}], axis=-1)[..., t % 2]",
        "np.swapaxes({g}, 0, 1).T.copy()", "np.delete(np.vstack([{g}, {g}[:1]]), 0, axis=0)",
        "np.apply_along_axis(lambda r: r[::-1], 1, {g}) if t % 11 == 1 else {g} * 1",
        "np.kron(np.eye(1), {g})", "np.insert({g}[1:], 0, 0.5, axis=0)",
        "np.where(small({g}).sum(axis=1, keepdims=True) > 9, 0.5, {g})",
        "{g} @ np.eye(cols) * 0.5 if cols < 200 else {g} * 1",
        "{f}.reshape(rows, 1, cols)[:, 0] * 0.5", "np.maximum({g}, {f}[:cols]) + 0.0",
        "np.minimum({g}, {f}[:rows, np.newaxis]) + 0.0", "{g} * (np.arange(rows) % 2)[:, None]",
        "np.where(({m}).reshape(rows, cols), {g}, 0.25)", "{g}[::-1, ::-1].copy()",
        "np.moveaxis({g}[..., None], -1, 0)[0] * 0.5", "{g} - np.floor({g}).max(axis=1)[:, None]",
        "np.array([r[::-1] for r in {g}])", "np.ones_like({g}) * {f}[:cols]",
        "np.column_stack([{g}[:, 1:], {g}[:, :1]])", "np.repeat({g}[:1], rows, axis=0)",
        "np.diff({g}, axis=0, append=np.full((1, cols), 0.5)) * 0.5",
    ),
    "m": (
        "{f} > 0.25", "{f} <= {f}", "{i} % 3 == 0", "{m} & ({f} < 1)", "{m} | {m}", "~{m}",
        "{m} ^ ({k} > 3)", "np.isfinite({f})", "np.logical_or({m}, {i} > 5)", "{k} != {k}",
        "np.isnan({f}) | {m}", "{z} == {z}.conj()", "np.roll({m}, 5)",
        "np.isin({i}, [1, 2, 5, 7])", "np.signbit({f})", "{m}[::-1]",
        "np.logical_xor({m}, {s} > 0)", "np.concatenate(({m}[1:], [True]))",
        "np.isclose({f}, {f}, atol=0.5)", "({i} & 4).astype(bool)", "{m}[{q}]",
        "np.zeros(n, bool)", "{h} == {h}", "{i} > 2",
    ),
    "h": (
        "{h}[::-1]", "{h}.copy()", "np.roll({h}, 2)", "np.where({m}, {h}, {h})", "{h}[{q}]",
        "np.sort({h})", "np.concatenate(({h}[3:], {h}[:3]))", "np.repeat({h}[::2], 2)[:n]",
        "np.add({h}, od)", "{h}.astype({h0}.dtype)",
    ),
}  # fmt: skip

# Exact, elementwise, of floats: also in macro sections.
EXPRESSIONS = (
    "0.5 * ({} + {})", "{} * 0.5 - {} * 0.25", "np.where({} > 0.25, {}, 0.5)",
    "np.clip({} - {}, -2, 2)", "np.sqrt(np.abs({})) - {} * 0.5", "np.floor({}) * 0.25 + 0.5 * {}",
    "np.maximum({}, {}) * 0.5 + 0.0", "0.5 * {} / (1.0 + np.abs({}))",
)  # fmt: skip
FUNCTIONS = """
def helped(x, y):
    x = @{x; y}
    @[x *= 0.5|x[2:9] = y[1:8]|pass]@
    return @{x; y}
lam = lambda x, t: @{x} + 0.125 * (t % 4)
def scale(x):
    x //= 2
@macro
def section(u, v, dt):
    w = @{u; v} * dt
    @[u += w|w[1:] -= 0.5 * u[:-1]|v *= 0.5|w = w[::-1]]@
    return @{u; v; w}
@macro
def pair(u, v, k):
    w = @{u; v}
    for s in range(k):
        w = @{w; v}
    return w, @{u; w}
def blocked(x, y):
    with named('b', x, y, control=(t % 2,)) as found:
        u, v = found.arrays
        for s in range(1 + t % 2):
            u = @{u; v}
        v = @{u; v}
    return 0.5 * (u + v)
class State:
    def __init__(self, u):
        self.u, self.v, self.n = u, u * 0.5, 0
    def step(self, x, t):
        self.n += 1
        self.v @[+|-|]@= 0.25 * x
        self.u = @{self.u; self.v; x}
        @[self.u[0] = self.v[-1]|self.u, self.v = self.v, self.u|self.v = self.v.copy()]@
    def energy(self):
        return self.n, np.floor(self.u).max() + 0.0
def shrunk(x):
    left, y, found = np.arange(n), x % 4.0, np.zeros(n)
    for s in range(5):
        over = y @[<|>=|>]@ @[0.5|1.0|1.75]@
        found[left[over]] = s * 0.25
        left, y = left[~over], y[~over]
        y = @{y}
    @[found[left] = y|found[left] += 0.5|pass]@
    return found
def converged(x):
    y = @{x}
    for s in range(9):
        x, y = y, @{x; y}
        if np.abs(x - y).max() < @[0.5|0.125|1e-3]@:
            break
    return x
async def later(x):
    await asyncio.sleep(0)
    return @{x}
@accel()
def decorated(x):
    x = @{x}
    return @{x}
def blockwise(x):
    found = np.empty(n)
    for s in range(0, n, 400):
        y = x[s : s + 400]
        found[s : s + 400] = @{y}
    return found
def recursive(x, k):
    return x if k == 0 else @{recursive(x, k - 1); x}
def generated():
    x = yield
    old = x
    while True:
        x, old = (yield 0.5 * (x + old)), x
        @[old = old[::-1]|x = x * 1.0|pass]@
gen = generated(); next(gen); gen_next = gen.send
"""
SHAPES = (
    "20, 31|8, 125|64, 32|9, 555|1000, 5|16, 16|5, 1000",
    "96, 100|64, 512|5, 10_000|300, 217|1000, 64|362, 362|20_000, 5",
)
# All that depends on the number of rows.
FEWER = """
if t == TURN and rows > 6:
    rows -= @[1|2|5]@
    n = rows * cols
    a, b, c, e, i, j, k, z, m, o, rec = (x[:n].copy() for x in (a, b, c, e, i, j, k, z, m, o, rec))
    g, h, store = g[:rows].copy(), h[:rows] * 1, store[:, :n].copy()
    q, p, places = q[:n] % n, np.arange(3, n - 20, 7), (np.arange(n) * 7919) % n
    state, bag, history = State(a * 0.5), {'x': a * 0.25}, [a * 0.5, b * 0.5, c, a]
    mapped, shared = mapped[:n], shared[:n]
    gen = generated(); next(gen); gen_next = gen.send
"""
MAKERS = (
    "wrap(rng.random(n))", "np.linspace(-1, 1, n)", "rng.standard_normal(n)", "np.zeros(n)",
    "np.cumsum(np.ones(n)) % 7.0", "wrap(np.arange(n) * 0.25 % 3)", "np.full(n, 0.375)",
    "np.fromfunction(lambda k: k / 64 - 2, (n,)) % 5.0", "np.frombuffer(bytes(8 * n)).copy()",
    "np.array([k * 0.125 % 3 for k in range(n)])", "np.tile([0.5, -1.5, 2.0], n // 3 + 1)[:n]",
)  # fmt: skip
START = """
rng, old_rng = np.random.default_rng(seed), np.random.RandomState(seed)
np.random.seed(seed)
a = MADE
b = MADE
c = MADE
e = wrap(rng.random(n).astype('f4'))
i, j = np.arange(n) % 101, rng.integers(-99, 99, n)
kd = np.@[int8|uint8|int16|uint16|int32|uint32|uint64]@
k = (np.arange(n) % 120).astype(kd)
z = np.exp(0j) * a + 0.5j
g, h = (x.reshape(rows, cols).copy() for x in (a, b))
m = np.arange(n) % 3 > 0
o = np.arange(n) % 50
o = o.astype('@[>f8|f2|>i4|c8|m8[s]|M8[D]|g]@')
od = np.timedelta64(1, 'D') if o.dtype.kind in 'mM' else o.dtype.type(1)
q, p = rng.integers(0, n, n), np.arange(3, n - 20, 7)
places = (np.arange(n) * 7919) % n
store = np.ones((6, n)) * np.arange(6.0)[:, None]
state = State(a * 0.5)
rec = np.zeros(n, np.dtype([('b', 'i1'), ('x', 'f8'), ('k', 'i4')], align=@[True|False]@))
file = tempfile.TemporaryFile()
mapped = np.memmap(file, float, 'w+', shape=n)
file.close()
shared = np.frombuffer(mmap.mmap(-1, 8 * n))
bag, history, w = {'x': a * 0.25}, [a * 0.5, b * 0.5, c, a], 0.5
"""
