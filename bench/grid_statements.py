"""What random programs on grids are made of: see random_grids.py for the marks.

All is exact, or goes through `small`, `quantum` or `near`; values stay small.
"""

from __future__ import annotations

__all__ = ["FUNCTIONS", "HOT", "PURE", "RARE", "READS", "START", "VALUES", "WHOLE", "WRITES"]

PURE = (  # also in functions and sections
    "0.5 * ({e@} + {e@})", "0.5 * {e@} - 0.25 * {e@}", "{e@} * 0.25", "-{e@}",
    "np.clip({e@} * {e@}, -8, 8)", "np.where({f@} > 0.25, {e@}, {e@})", "np.sqrt(np.abs({e@}))",
    "np.maximum({e@}, {e@}) + 0.0", "np.fmin({e@}, 1.5) + 0.0", "0.25 * ({e@} - 2 * {e@} + {e@})",
    "{e@} / (1.0 + np.abs({e@}))", "np.floor({e@})", "quantum(np.sin({e@}))", "{e@} - 0.25 * t",
    "quantum(np.exp(np.clip({e@}, -9, 2)))", "np.abs({e@} - {e@})",
    "np.square(np.clip({e@}, 0, 2))",
)  # fmt: skip
VALUES = (
    *PURE, *PURE, "np.where({m@}, {e@}, 0.125)", "0.5 * ({e@} + {s@})", "{i@} % 64 * 0.25",
    "0.125 * ({k@} & 15)", "{z@}.real", "np.abs({z@}.imag)", "{m@} * {e@}", "{e@} % 3.0",
    "{e@} - small({f@}).mean()", "{e@} + 0.25 * {f@}.max() + 0.0", "{e@}.astype('f4').astype('f8')",
    "counts({e@} * 4).astype('i4') * 0.25", "quantum(np.arctan2({e@}, 1.1))",
    "np.copysign({e@}, {e@})", "np.rint({e@} * 8) / 8",
    "np.select([{m@}, {f@} > 1], [{e@}, 0.5], -0.5)", "np.heaviside({e@}, 0.5)",
    "0.5 * np.sum([{e@}, {e@}], axis=0)", "np.stack([{e@}, {e@}]).max(axis=0) + 0.0",
)  # fmt: skip
WHOLE = (  # of the grids' shape
    "np.cumsum({f}, axis={a}) % 4.0", "np.cumsum({f}, axis={a0}) / {A0}",
    "np.cumsum({f}, {a}) * 1e-3", "np.add.accumulate({f}, axis={a}) % 2.0",
    "np.maximum.accumulate({f}, axis={a}) + 0.0", "np.minimum.accumulate({f}, axis={a}) + 0.0",
    "np.logical_or.accumulate({m}, axis={a}) * 0.5", "np.cumsum({i}, axis={a}) % 9 * 0.25",
    "np.cumsum({m}, axis={a}) % 5 * 0.5", "np.cumsum({f}).reshape(shape) % 4.0",
    "np.roll({f}, t % 5 - 2, axis={a})", "np.roll({f}, 3)",
    "np.roll({f}, 1, {a}) - np.roll({f}, -1, {a})", "np.concatenate(({f}[2:], {f}[:2]))",
    "np.concatenate(({f}[..., 1:], {f}[..., :1]), axis=-1)", "np.flip({f}, {a})", "np.flip({f})",
    "np.concatenate(({f}[: {h}] * 0.5, {f}[{h} :] - 0.5))", "padded({f}, {a}, 'edge')",
    "padded({f}, {a}, 'wrap')", "padded({f}, {a}, 'reflect')", "padded({f}, {a}, 'constant')",
    "np.repeat({f}[::2], 2, axis=0)[: {n}]", "np.tile({f}[:1], [{n}] + [1] * (ndim - 1))",
    "np.stack([{f}, {f}], axis=-1)[..., r % 2]", "np.stack(({f}, {f}))[1]",
    "np.sort({f} + 0.0, {a})",
    "np.take_along_axis({f0}, np.argsort({f0}, {a0}, kind='stable'), {a0})", "{f}[order]",
    "np.take({f}, order, axis=0)", "{f}.ravel()[places].reshape(shape)",
    "np.searchsorted(levels, {f}) * 0.25", "np.digitize({f}, levels) * 0.125", "turned({f})",
    "np.diff({f}, axis={a}, prepend=0.5) * 0.5", "np.gradient({f}, axis={a}) * 0.5", "mixed({f})",
    "{f} - {f}.max(axis={a}, keepdims=True)", "{f} - small({f}).mean(axis={a}, keepdims=True)",
    "quantum({f} - {f}.mean(axis={a}, keepdims=True))", "{f} + row * 0.5", "{f} * col",
    "quantum({f} / (1 + np.abs({f}).sum({a}, keepdims=True)))", "np.where({m}, {f}, row)",
    "rng.random(shape)", "rng.standard_normal(shape)", "np.random.random(shape)",
    "old_rng.standard_normal(shape)", "mine.random(shape)", "np.zeros(shape)",
    "np.full(shape, 0.25)", "np.ones(shape) - {f}", "np.arange(size).reshape(shape) % 7 * 0.125",
    "np.broadcast_to(row, shape) + 0.0", "np.fft.irfft(np.fft.rfft({f}), shape[-1])", "{z}.real",
    "np.interp({f}, levels, levels[::-1])", "np.choose({i} % 2, [{f}, {f}])", "np.round({f}, 2)",
    "np.nan_to_num({f})", "{s} * np.float64(0.5)", "{z}.imag + {k} % 3", "{f}.copy()", "{f}",
    "wrap({f})", "np.einsum('...i,i->...i', {f}, row)", "{f}.T.copy().T",
    "np.array({f}, order='F')", "({f} + np.arange(shape[-1]) % 3)", "np.ldexp({f}, -1)",
    "np.modf({f})[0]", "held[0].max() + {f}",
)  # fmt: skip
WRITES = (
    "{f@} = {e@}", "{f@} += 0.25 * ({e@} - {e@})", "{f} *= 0.75", "{f0} += 0.5 * ({f} - {f0})",
    "x1 = {f@}; x1 *= 0.5; x1 += {e@}", "x1 = {e@}; {f@} -= 0.25 * x1; {f@} += 0.25 * x1",
    "x1 = {e@}; x2 = {e@} - x1; {f@} = x2 * 0.5; x1 = None; {f@} += {e@}",
    "np.add({e@}, {e@}, out={f@})", "np.multiply({f@}, 0.5, out={f@})", "{f@} = {f@}",
    "np.add({f@}, 0.5, out={f@}, where={m@})", "np.cumsum({f}, axis={a}, out={f0}); {f0} %= 4.0",
    "np.maximum.accumulate({f}, axis={a}, out={f0}); {f0} += 0.0", "{f@} = {f@}[::-1]",
    "np.subtract({f0}[1:], {f0}[:-1], out={f0}[1:]); {f0} *= 0.5", "{f@} += {f@}; {f@} *= 0.5",
    "x1 = np.concatenate(({f}[{h} :] * 0.5, {f}[: {h}] - 0.5)); {f} = (x1 - x1[::-1]) * 0.5",
    "x1 = np.cumsum({f}, axis={a}); {f@} = {e@}; {f} = x1 % 4.0",
    "x1 = np.cumsum({f@}, axis=0); {f@} += 1e-3 * x1", "x1 = np.sort({f@} + 0.0, 0); {f@} -= x1",
    "{f@}[{m@}] = 0.25", "{f@}[{f@} > 0.5] *= 0.5", "{f@}[{m@}] -= 0.25",
    "x1 = {f@}; x2 = {m@}; x1[x2] = 0.5 * x1[x2] + 0.25",
    "x1 = {f@}; x2 = x1 > 0.5; x3 = x1[x2]; x1[x2] = x3 * 0.5; bag = [x3, *bag[:2]]",
    "x1 = {f0}; x2 = {m}; x3 = np.sqrt(np.abs(x1[x2])); {f@} = {e@}; x1[x2] = x3",
    "np.copyto({f@}, {e@}, where={m@})", "np.putmask({f}, {m}, {f})",
    "np.place({f}, {m}, [0.5, 0.25, -0.5])", "{f}[few] = {f}[few[::-1]]", "{f}[few] += 0.25",
    "np.add.at({f}, twice, 0.25)", "x1 = {f0}.reshape(-1); x1[places[:999]] = 0.5",
    "{f0} = {f}[order] * 0.5 + {f}", "{f}[order] = {f} * 0.5", "np.put({f}, places[:99], 0.5)",
    "x1 = {f}[few] * 0.5; {f}[few[::-1]] = x1", "{f}.flat[places[:99]] = 0.25", "{f}[0] = {f}[-1]",
    "{f}[..., 0] = {f}[..., -2]", "{f}[0] = t; {f}[-1] = {f}[1] * 0.5",
    "{f}[..., 0] = {f}[..., -1] = 0.5", "row = 0.5 * (row + {f}.reshape(-1, shape[-1])[t])",
    "row = quantum({f}.reshape(-1, shape[-1]).mean(axis=0))", "{f}[0] = row * 0.5",
    "row = {f}.reshape(-1, shape[-1]).max(axis=0) + 0.0",
    "row[1:-1] += 0.25 * (row[2:] - row[:-2])",
    "col = np.clip({f}.max(axis=tuple(range(1, ndim)), keepdims=True), 0, 1) + 0.0",
    "{f} -= col * 0.125", "{f} += 0.25 * row", "{f0}, {f1} = {f1}, {f0}", "{f0} = {f}.copy()",
    "{f0} = {f}", "{f0} = {f}[::-1]", "{f0} = np.flip({f})", "{f} = turned({f})",
    "{f} = np.asfortranarray({f})", "x1 = {f}; {f0} = np.empty(shape); {f0}[...] = x1",
    "{f0} = np.zeros_like({f}); {f0}[1:] -= {f}[:-1]", "{f0} = np.empty_like({f}); {f0}[:] = 0.5",
    "held[t % 3] = {f@}", "held[r] *= 0.5", "held[0][...] = 0.25", "held[1] += 0.125",
    "{s@} = {e@}", "{s} = {f}.astype('f4')", "{s@} += {s@} * np.float32(0.25)", "{s} *= 0.5",
    "{s} = np.cumsum({s}, axis={a}) % np.float32(4)", "{s@} = {s@} - {s@}",
    "{i@} = counts({e@} * 8)", "{i} = np.cumsum({i}, axis={a}) % 1009", "{i@} += {k@} % 5",
    "{i} //= 3", "{i} %= 1000", "{i@} ^= {i@} & 15", "{k@} = counts({e@})",
    "{k} = np.maximum.accumulate({k}, axis={a})", "{k} += 1", "{k@} -= {k@} >> 1", "{i}[{m}] = -1",
    "{z} = {f} + 1j * {f}", "{z} *= 0.5", "{z@} = {e@} - 0.5j * {e@}", "{z@} = {z@}.conj() * 0.5",
    "{z@} += 0.25 * ({z@} - {z@})", "{z} = np.cumsum({z}, axis={a}) * 1e-3", "{z}.imag[...] = {f}",
    "{z} = np.fft.fft({z}) / size", "{z@} *= {e@}; {z} *= 0.125", "{m@} = {f@} > {f@}",
    "{m} ^= {i} % 3 == 0", "{m@} &= {e@} > -1", "{m@} = ~{m@}", "begin({f}, {f})",
    "begin({f}); {f@} = {e@}", "begin(); {f@} *= 0.5; {f} = {e@}.max() + {f}",
    "begin({f}, {s}); {f@} = {e@}; settle()", "sync({f})", "x1 = {e@}; begin(x1); {f@} -= x1 * 0.5",
    "out.append(raised(lambda: {f}[1:] + {f}))",
    "rng.random(out={f} if {f}.flags.c_contiguous else None)",
    "out.append(raised(lambda: np.add({f}, {f}, out={f}[:-1])))", "for x1 in {f}[:5]: x1 *= 0.5",
    "try:\n    {f@} = {e@}\n    {f} += {f}[..., :-1]\nexcept ValueError as error:\n    "
    "out.append(str(error))",
    "try:\n    {f@} = {e@}\n    {f@} += {e@}[99, 99, 99, 99]\nexcept IndexError as error:\n  "
    "  {f@} -= 0.25", "if {f}.flat[7] > 0.25: {f@} = {e@}", "for x1 in ({f}, {f}): x1 *= 0.5",
    "x1 = x2 = x3 = None", "{f0}[1:] = {f0}[:-1]", "{f0}[:-1] += {f0}[1:]; {f0} *= 0.5",
    "{f0}[...] = {f0}[::-1]", "{f0}[..., 1:] = {f0}[..., :-1] * 0.5", "{f} = np.clip({f}, -4, 4)",
    "np.clip({f}, -4, 4, out={f})", "bag = [{f} * 0.5, *bag[:2]]; {f} -= bag[-1].max() * 0.125",
    "put({f0}, 1, 0.5)", "raw({f0})[...] = 0.25 * raw({f0})", "raw({f0})[0] = 0.5",
    "{f}.sort(axis={a})",
    "x1 = {f0}[1:] - {f0}[:-1]; {f0}[1:] -= 0.25 * x1; {f0}[:-1] += 0.25 * x1",
)  # fmt: skip
READS = (
    "out.append(float({f@}.max()) + 0.0)", "out.append(float(small({f@}).sum()))",
    "out.append(near({f@}.sum()))", "out.append(near({f}.sum(axis={a})))",
    "out.append(near(np.sin({e@}).sum()))", "out.append(near({e@}.mean(axis=-1)))",
    "out.append(near({s@}.sum(dtype='f8')))", "out.append(near(np.cos({e@})))",
    "out.append({f@}[::7].copy())", "out.append(np.asarray({f})[..., 2].copy())",
    "out.append({f}.tobytes()[:64])", "out.append(memoryview({f}).tobytes()[-40:])",
    "out.append(pointed({f}, 1))", "out.append({f}.reshape(-1)[5:9].tolist())",
    "out.append({f@}.max(axis=0) + 0.0)", "out.append({f@}.argmax(axis=-1))",
    "out.append({f@}.min(axis=-1) + 0.0)", "out.append(small({f@}).sum(axis=0))",
    "out.append(small({f@}).mean(axis=-1))", "out.append({m@}.sum(axis=0))",
    "out.append({i@}.sum(axis=-1))", "out.append({i@}.max())", "out.append({k@}.min(axis=0))",
    "out.append(np.count_nonzero({m@}))", "out.append({f@}.argmin())",
    "out.append({m@}.any(axis=0))", "out.append(np.nonzero({m@})[0][:50])",
    "out.append({z@}.real.max() + 0.0)", "out.append(raised(lambda: np.median({f@}) + 0.0))",
    "out.append(np.flatnonzero({f@} > 0.5)[:9])", "out.append(np.unique({i@} % 9))",
    "out.append(np.bincount({i}.ravel() % 7))", "out.append(raised(lambda: np.histogram({f@}, 5)))",
    "out.append(({f@} == {f@}).all())", "out.append({f@}.strides)",
    "out.append({f@}.flags.f_contiguous)", "out.append({e@}.flags.c_contiguous)",
    "out.append(np.array_equal({f}, {f}))", "out.append(str({f}))", "out.append(repr(held[0]))",
    "out.append(held[t % 3].copy())", "out.append(pickle.dumps({f@}[:3].copy()))",
    "out.append(threaded(lambda: {f@}.max() + 0.0))",
    "out.append(warned(lambda: float(({f@} / (0 * {f@})).flat[2])))", "out.append(row.copy())",
    "out.append(np.sort({f@} + 0.0, axis=-1)[..., :3])",
    "out.append(np.vdot(small({f}), small({f})))", "out.append(float(np.abs({f@} - {f@}).max()))",
    "out.append({f}.reshape(-1)[places[:9]])", "out.append(np.cumsum({f@}, axis=0)[-1])",
    "out.append(np.cumsum({f@}, axis=-1)[..., -1])", "out.append(len(bag[0]) if bag else 0)",
    "out.append(float({f@}.ravel()[-1]))", "out.append(np.ptp({f@}, axis=0) + 0.0)",
    "out.append(raw({f})[..., -1].copy())", "out.append({f@}.astype('f4').max(axis=0) + 0)",
    "out.append(np.percentile({i}, [30, 70]))",
)  # fmt: skip
RARE = ("out.append(forked(lambda: int(counts({f@}).max() * 8) % 251))", "gc.collect()")
HOT = (  # what may warn
    "{f0} = {f} / {f}", "{f@} = 1.0 / {e@}", "{f@} = np.log({e@}) * 0 + 0.5",
    "{f@} = np.sqrt({e@})", "{f@} *= 1e300", "{f}[1] = np.nan", "{f@}[{m@}] = np.inf",
    "{i@} //= {i@} % 3", "with np.errstate(all='ignore'): {f@} = {e@} / {f@}",
    "with np.errstate(divide='raise', invalid='raise'):\n    out.append(raised(lambda: 1 "
    "/ ({f@} * 0)))", "{f@} = np.nan_to_num({e@}, posinf=2.0, neginf=-2.0)",
    "{s@} = {s@} * np.float32(1e30)",
    "with np.errstate(all='raise', under='ignore'):\n    out.append(raised(lambda: "
    "into({f}, {e@} / {f@})))", "np.seterr(divide=('warn', 'ignore')[t % 2])", "{z@} = {z@} / {e@}",
)  # fmt: skip
START = """
rng, old_rng = np.random.default_rng(seed), np.random.RandomState(seed)
np.random.seed(seed)
mine = own(seed)
u, v, w, p = (rng.random(shape) - 0.25 for _ in range(4))
q = np.@[asfortranarray|array|flip|negative]@(rng.random(shape))
s, z = rng.random(shape, dtype='f4'), rng.random(shape) + 0.5j
i, k = rng.integers(-99, 99, shape), np.arange(size, dtype='i4').reshape(shape) % 50
m, l = u > 0.25, np.arange(size).reshape(shape) % 3 > 0
@[pass|u, v = wrap(u), wrap(v)|u, s = wrap(u), wrap(s)]@
row, col = rng.random(shape[-1]), rng.random(shape[:1] + (1,) * (ndim - 1))
order, places = rng.permutation(shape[0]), rng.permutation(size)
few, twice = rng.permutation(shape[0])[:9], rng.integers(0, shape[0], 30)
levels, band = np.linspace(-1, 2, 9), rng.integers(0, 3, (shape[-1],) * 2) if shape[-1] < 700 else 0
held, bag, x1, x2, x3 = [u[1:], v[::-1], w[..., 0]], [u * 0.5], None, None, None
def padded(x, axis, mode):
    n = x.shape[axis]
    inside = [slice(None)] * ndim
    inside[axis] = slice(1, -1)
    return np.pad(x[tuple(inside)], [(int(k == axis),) * 2 for k in range(ndim)], mode=mode)
def turned(x):
    return x.T if x.T.shape == shape else x[::-1]
def mixed(x):
    return small(x) @ band % 8.0 if ndim > 1 and shape[-1] < 700 else x * 0.5
def into(x, y):
    x[...] = 0.5
    x[...] = y
    return y
"""
# `@{...}` stands for statements on x and y.
FUNCTIONS = """
@[@macro|pass]@
def swept(x, y, t):
    @{3}
    return x * 0.5 + y * 0.25
@[@macro|@accel()|pass]@
def two(x, y, k):
    t = 0
    for s in range(1 + k):
        @{2}
        x, y = y, x * 0.5
    return x, y
def block(x, y):
    x, y, t = x * 1.0, y * 1.0, 0
    with named('b', x, y) as found:
        x, y = found.arrays
        @{3}
    return x + 0.5 * y
"""
