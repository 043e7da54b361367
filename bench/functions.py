"""Functions of NumPy and SciPy in an `accelerate` block: is any of them slower than without?

    python bench/functions.py --sizes 10000 --groups scatter,order
    python bench/functions.py --only nanmax,tril --clock processor
    python bench/functions.py --sizes 300000 --views
    python bench/functions.py --sizes 1000000 --groups types --only "all(,cumsum(,[u1]"
    python bench/functions.py --sizes 200000 --groups views --only "['points'],sum("
    python bench/functions.py --sizes 60000 --groups looks,creation --ours

Each expression is called on plain arrays, by turns without and within a block, and its result is
read; with `--ours` the block's are npaccel arrays; without a block in a context that has
NumPy's memory. Times are what one waits, or with `--clock processor` those of the whole process,
the quietest of several batches. `first` is NumPy's time at its first call over that of the first
one in the block, `early` its later time over that of the next three, before anything can be
compiled, `steady` after a second of calls. What misses a target is shown: `first` from 0.8 on,
`steady` from 0.97. Exit status 1: values differ. The group `types` has one expression for each
dtype, the group `views` for each layout (views by steps, of reversed, transposed and structured
arrays, points, pixels ...); both are only run if named.
"""

from __future__ import annotations

import argparse
import contextlib
import contextvars
import json
import os
import re
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["NPACCEL_CACHE_DIR"] = tempfile.mkdtemp()

import numpy as np
import scipy.special

import npaccel

BATCHES = 9
BATCH_S = 2e-3
ALL_BATCHES_S = 1.5  # of long calls there are fewer
WARM_S = 2.0
LEAST_WARM_S = 1.0  # what is new is NumPy's for a while
TARGETS = {"first": 0.8, "steady": 0.97}  # of NumPy's speed
CLOCKS = {"processor": time.process_time, "wall": time.perf_counter}

# By groups; in a line `;` separates expressions, or what prepares a write from what is timed.
EXPRESSIONS = {
    "elementwise": """
x + y; x * 2.0; x / y; x - 1; -x; abs(x); x**2; x**0.5; x**3; x % 3.0; x // 3.0; x > y; x == y
i + i
i * 3; i // 3; i % 3; i & 7; i << 2; i > 3; f + f; f * f; z * z; abs(z); z.conj(); ~m; m & m9
np.sqrt(x)
np.exp(x); np.log(x); np.sin(x); np.tanh(x); np.arctan2(x, y); np.hypot(x, y); np.power(x, y)
np.floor(x)
np.round(x, 2); np.sign(x); np.maximum(x, y); np.clip(x, .2, .8); np.isnan(x); np.isfinite(x)
np.logical_and(m, m9); np.where(m, x, y); np.where(x > .5, x, 0.0); np.nan_to_num(x); np.exp2(f)
np.sqrt(f); np.interp(x, grid, grid); np.interp(x * 9, few, few); np.isclose(x, y)
np.polyval([1., 2., 3.], x); np.angle(z); np.real(z) + 0; np.imag(z) * 2; z.real**2 + z.imag**2
np.select([m, m9], [x, y]); np.choose(m * 1, (x, y)); np.apply_along_axis(np.sum, 0, c3)
np.heaviside(x, .5); np.fmod(x, y); np.cbrt(x); np.deg2rad(x); np.square(x); np.reciprocal(y)
np.modf(x)
np.frexp(x); np.divmod(x, y); np.ldexp(x, 2); np.lcm(i, 6); np.gcd(i, 6); np.invert(i)
np.bitwise_count(i) if hasattr(np, "bitwise_count") else 0; np.packbits(m)
np.take_along_axis(s, t2, 1)
np.sinc(x); np.i0(x); np.logical_not(m); np.nextafter(x, y); np.signbit(x); np.copysign(x, y)
np.rint(x)
np.trunc(x); np.fix(x); np.float_power(x, 2); np.log1p(x); np.expm1(x); np.logaddexp(x, y)
""",
    "reductions": """
x.sum(); x.mean(); x.var(); x.std(); x.min(); x.max(); x.argmin(); x.argmax(); x.prod(); np.ptp(x)
i.sum(); f.sum(); m.sum(); m.any(); m.all(); s.sum(0); s.sum(1); s.mean(0); s.mean(1); s.var(0)
s.std(1)
s.min(0); s.max(1); s.argmax(0); s.argmin(1); s.any(0); np.average(x); np.trapezoid(x)
((c3[:, None] - s3) ** 2).sum(-1); ((c3[:, None] - s3) ** 2).sum(-1).argmin(1)
(b3 * b3[:, :1]).sum(-1)
b3.sum(1); b3.max(1); (b3[..., None] * b3[:, None]).sum(-2); c3.sum(1); np.allclose(x, y)
np.array_equal(x, x); np.add.reduce(x); np.bitwise_or.reduce(i); np.fmax(x, y)
np.maximum.reduce([x, y, x]); np.logical_and.reduce([m, m9]); ((x - y)**2).mean(); abs(x - y).max()
""",
    "scans": """
np.cumsum(x); np.cumprod(x); s.cumsum(0); s.cumsum(1); np.diff(x); np.diff(s, axis=0)
np.gradient(x)
np.ediff1d(x); np.unwrap(x); np.minimum.accumulate(x)
""",
    "nan": """
np.nansum(x); np.nanmean(x); np.nanstd(x); np.nanvar(x); np.nanmax(x); np.nanmin(x)
np.nanargmax(x)
np.nanmedian(x); np.nanmean(s, axis=0); np.nanprod(x); np.nancumsum(x); np.nanmedian(s, axis=1)
np.nanmax(q); np.nanmin(q); np.nanmax(s, axis=0); np.nanmin(s, axis=1); np.nansum(q)
np.nanmean(q)
np.nanstd(q); np.nanargmin(q); np.nanpercentile(q, 30); np.nanmean(fq); np.nanmax(fq)
np.nanmax(q + y)
""",
    "masks": """
np.count_nonzero(m); x[x <= .5].sum(); x[m].mean(); (x[m] * y[m]).sum(); x[m].size; x[m]; x[m9]
x[~m]
s[m2]; s[:, col]; s[row]; i[m]; f[m]; z[m]; x[j]; i[j]; s[a2, b2]; x.take(j); np.compress(m, x)
np.nonzero(m); np.flatnonzero(m); np.argwhere(m); np.nonzero(m2); np.flatnonzero(i); np.where(m)
np.piecewise(x, [m], [1.0]); s[m2].mean(); x[(x > .2) & (y < .7)]; np.extract(m, x)
np.argwhere(m2)
x[x > .99]; i[i > 500]; (x > .5).sum(); c3[m3, 0]; c3[:, 0][m3]; s[1:-1, 1:-1][m2[1:-1, 1:-1]]
b3[a3, a3, a3]; m2[:, 1].sum()
w = x.copy(); w[m] = 0.0
w = x.copy(); w[m] = v
w = x.copy(); w[m9] = v9
w = x.copy(); w[w > .5] *= 2
w = x.copy(); w[w > .5] = 0.0
w = x.copy(); w[m] = np.sqrt(w[m]) * y[m]
w = s.copy(); w[m2] = 1
w = z.copy(); w[m] = z[m]
w = x.copy(); w[m] = w[m] * 2
w = s.copy(); w[1:-1, 1:-1][m2[1:-1, 1:-1]] += .1 * s[1:-1, 1:-1][m2[1:-1, 1:-1]]
w = c3.copy(); w[m3] = [1., 2., 3.]
w = c3.copy(); w[m3] = w[0]
w = c3.copy(); w[m3, 1] = 1 - w[m3, 1]
""",
    "scatter": """
np.digitize(x, grid); np.bincount(i); np.bincount(i, x); np.bincount(j, x); np.histogram(x)
np.histogram(x, 50, (.2, .9)); np.histogram2d(x, y, 20); np.add.reduceat(x, few * 10)
np.add.reduceat(x, [0, 5]); np.bincount(i, minlength=2000); np.histogram(x, 1000)
np.histogram(i, 50)
np.histogram(x, grid); np.histogram2d(x, y, 20, [[0, 1], [0, 1]]); np.digitize(x, few / 1000)
np.add.reduceat(i, few * 10); np.maximum.reduceat(x, few * 10)
np.add.reduceat(s, [0, 3, 7], axis=1)
np.bincount(i[m]); np.histogramdd(c3, 5)
w = x.copy(); w[j] = y
w = s.copy(); w[a2, b2] = 1.0
w = x.copy(); w[j] += y
w = x.copy(); np.add.at(w, j, 1.0)
w = x.copy(); np.add.at(w, j, y)
w = x.copy(); np.maximum.at(w, j, y)
w = x.copy(); np.add(w, y, out=w, where=m)
w = s.copy(); np.put_along_axis(w, t2, 1.0, 1)
w = c3.copy(); np.add.at(w, j3, c3)
w = x.copy(); np.putmask(w, m, 0)
w = x.copy(); np.place(w, m, v)
w = x.copy(); np.copyto(w, y, where=m)
w = x.copy(); np.put(w, j, 1.0)
w = i.copy(); np.add.at(w, j, 1)
w = x.copy(); np.subtract.at(w, j, y)
w = x.copy(); w[j] = 0.0
w = i.copy(); w[j] = i
w = s.copy(); w[row] = s[row]
w = x.copy(); np.put(w, j, y)
w = x.copy(); np.place(w, m, [1., 2., 3.])
w = x.copy(); np.copyto(w, 0, where=m)
w = x.copy(); np.putmask(w, m, y)
""",
    "rearranging": """
np.tril(s); np.triu(s); np.diag(d); np.trace(s); np.vander(d, 5); np.kron(s, np.eye(2))
np.tril(s).sum(1)
np.concatenate((x, y)); np.stack((x, y)); np.stack((x, y), -1); np.vstack((x, y))
np.column_stack((x, y))
np.hstack((x, y)); np.tile(d, 9); np.tile(d, e); np.tile(s, (2, 2)); np.tile(d, (e, 1)) * s
np.repeat(x, 2); np.repeat(d, e); np.repeat(d[:, None], e, axis=1) * s; np.pad(x, 3)
np.pad(s, 1, mode="edge"); np.pad(s, 1, mode="wrap")[2:, 1:-1] + s; np.stack((x, y), -1).sum()
np.roll(x, 3); np.roll(s, 1, axis=1); s - np.roll(s, 1, axis=0) - np.roll(s, -1, axis=1)
np.flip(x) + 0
np.rot90(s) + 0; np.pad(s, 1); np.append(x, y); np.insert(x, 2, 1.0); np.delete(x, 3)
np.split(x, 4)[1] + 1; np.block([[s, s]]); np.moveaxis(s, 0, 1) * 2; np.swapaxes(s, 0, 1) * 2
np.roll(s, (1, 2), (0, 1)); np.tril(s, -1); np.triu(s) + s; np.diag(s); np.flipud(s) * 2
np.concatenate((s, s), 1); np.dstack((s, s)); np.repeat(x, few_times); np.resize(x, n + 7)
np.pad(x, 3, mode='reflect'); np.tile(x, 2) + 1
w = x.copy(); np.fill_diagonal(w[: e * e].reshape(e, e), 1)
""",
    "order": """
np.median(x); np.percentile(x, 30); np.quantile(x, .3); np.interp(np.sort(x), grid, grid)
np.unique(i)
np.isin(i, few); np.in1d(i, few) if hasattr(np, "in1d") else 0; np.searchsorted(grid, x)
np.lexsort((x, y)); np.argsort(x); np.sort(x); np.partition(x, 5); np.argsort(s, axis=1)
np.sort(s, axis=1); np.partition(s, 5, axis=1); np.argpartition(s, 5, axis=1)
np.median(s, axis=1)
np.setdiff1d(i, few); np.intersect1d(i, few); np.union1d(i, few); np.argpartition(x, 5)
np.argsort(i)
np.sort(i); np.sort(f); np.argsort(i, kind='stable'); np.unique(i, return_counts=True)
np.unique(i, return_inverse=True); np.median(s, axis=0); np.quantile(s, .3, axis=1)
np.percentile(x, [5, 50, 95]); np.sort(s, axis=0); np.partition(x, n // 2)
np.searchsorted(np.sort(x), y)
np.isin(i, i[:50]); np.unique(x)
w = x.copy(); w.sort()
""",
    "products": """
s3 @ b3 @ s3.T; np.outer(d, d); np.kron(d[:9], d); x @ y; np.dot(x, y); np.vdot(x, y); s @ d
np.einsum("ij,j->i", s, d); np.inner(x, y); np.tensordot(s, d, 1); np.linalg.norm(x)
np.linalg.norm(s, axis=1); np.cross(c3, c3); np.corrcoef(c3.T); np.cov(c3.T); np.convolve(x, k5)
np.convolve(x, d[:30]); np.correlate(x, k5); b3 @ b3; s3 @ b3; b3 @ s3.T; np.vecdot(c3, c3)
np.linalg.inv(b3); np.linalg.det(b3); np.linalg.solve(b3, b3)
np.linalg.cholesky(s3 @ s3.T + b3 * 0); np.linalg.solve(s3, c3.T)
np.linalg.solve(b3, b3[:, 0, :, None])
np.einsum("nij,njk->nik", b3, b3); np.einsum("nij,nj->ni", b3, b3[:, 0])
np.einsum("ij,kj->ik", s, s[:50])
np.linalg.eigvalsh(b3); np.linalg.svd(b3); np.add.outer(d, d); np.einsum("i,i", x, y); f @ f
i @ i
np.dot(s, s[:, :50]); s.T @ d; np.einsum('ij,ij->i', s, s); np.einsum('ij,ij', s, s)
np.matvec(b3, c3[: len(b3)]) if hasattr(np, 'matvec') else 0; i2 @ i2; m2[:100] @ m2[:, :100]
np.inner(c3, c3[:5]); np.linalg.det(s[:60, :60]); np.matmul(b3, b3) + 1; np.trace(s)
(x * 2) @ (y + 1)
""",
    "fft": """
np.fft.fft(s); np.fft.rfft(x); np.fft.ifft(z); np.fft.fft2(s[:200, :200]); np.fft.irfft(z)
np.fft.fftshift(x); np.fft.rfft(s, axis=0); np.fft.fftfreq(n)
""",
    "random": """
g(1).random(n); g(1).uniform(2, 3, n); g(1).normal(0, 2, n); g(1).exponential(2, n)
g(1).lognormal(0, 1, n); g(1).integers(0, 10, n); g(1).choice(9, n); g(1).poisson(3, n)
g(1).poisson(30, n); g(1).binomial(20, .3, n); g(1).gamma(2, 1, n); g(1).permutation(n)
g(1).shuffle(x.copy()); g(1).bytes(n); g(1).standard_normal(n); g(1).random(n, 'f4')
g(1).integers(0, 256, n); g(1).integers(0, 1000, n, 'i4'); g(1).choice(x, 100)
g(1).permutation(x)
g(1).beta(2, 3, n); g(1).standard_exponential(n); r(1).rand(n); r(1).randn(n)
r(1).randint(0, 10, n)
r(1).permutation(n); g(1).permuted(x); g(1).multivariate_normal([0, 0], [[1, 0], [0, 1]], n // 2)
""",
    "creation": """
np.eye(e); np.identity(e); np.tri(e); np.ones(n); np.full(n, 2.0); np.arange(n)
np.arange(n * 1.0); np.linspace(0, 1, n); np.empty(n).shape; np.zeros_like(x); np.ones_like(x)
np.meshgrid(d, d); np.indices((e, e)); np.mgrid[0:e, 0:e]; np.logspace(0, 1, n)
np.fromfunction(lambda p, q: p + q, (e, e)); np.geomspace(1, 2, n); np.hanning(n)
w = np.zeros(n); w[::512] = 1
""",
    "looks": """
np.asarray(x); np.asarray(x, float); np.ascontiguousarray(x); np.asanyarray(s); np.require(x)
np.shape(x); np.ndim(x); np.size(x); np.result_type(x, i); np.iscomplexobj(x); np.isscalar(x)
np.may_share_memory(x, y); x.reshape(-1, 1); s.reshape(-1); s.ravel(); np.ravel(s); x.view("i8")
np.atleast_2d(x); np.expand_dims(x, 0); np.squeeze(x); np.broadcast_to(x, (2, n)); s.T; s[0]
np.split(x[: n // 4 * 4], 4); np.flip(x); x.item(3); float(x[3]); len(x); x.tobytes()[:8]
w = x; w.fill(1.0)
w = x; np.copyto(w, 2.0)
w = x; np.put(w, [1, 2], 3.0)
np.concatenate([[0.0], x])
""",
    "copies": """
x.astype("f4"); f.astype("f8"); x.astype("i8"); i.astype("f8"); x.copy(); s.T.copy()
np.ascontiguousarray(s.T); x.tolist()[:1] if n < 5000 else 0; x[::2] + 1; x[::2] * x[1::2]
s[:, ::2] + 1
s.T + 1; s.T + s.T; x[::-1] * 2; c3[:, 0] * 2; c3[:, 0] + c3[:, 1]; c3 / c3.sum(1)[:, None]
s[1:, 1:] - s[:-1, :-1]
w = x.copy(); w[::2] = 1
w = x.copy(); w += y
w = x.copy(); w[1:] -= w[:-1]
w = s.copy(); w[:, 0] = 3
w = x.copy(); w.fill(2)
w = x.copy(); np.add(w, y, out=w)
""",
    "special": """
sp.erf(x); sp.erfc(x); sp.expit(x); sp.logit(x * .9); sp.xlogy(x, y); sp.xlog1py(x, y)
sp.gammaln(x)
sp.ndtr(x); sp.ndtri(x * .9); sp.log_ndtr(x); sp.j0(x); sp.j1(x); sp.gamma(x)
sp.softmax(s, axis=1)
sp.logsumexp(s, axis=1); sp.i0(x); sp.betainc(2., 3., x * .9); sp.erf(f)
""",
}  # fmt: skip

# Of each of them: T, U are arrays, S is a matrix.
TYPES = ["b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
TYPED = """
T + U; T - U; T * U; T / U; T // U; T % U; T & U; T << U; T == U; T < U; T ** 2; -T; ~T; abs(T)
np.maximum(T, U); np.fmax(T, U); np.logical_and(T, U); np.hypot(T, U); np.arctan2(T, U)
np.sign(T); np.sqrt(T); np.square(T); np.exp(T); np.log(T); np.sin(T); np.tanh(T); np.floor(T)
np.isnan(T); np.isfinite(T); np.signbit(T); np.logical_not(T); T.conj(); np.reciprocal(T)
T.sum(); T.prod(); T.max(); T.mean(); T.std(); T.any(); T.all(); T.argmax(); np.ptp(T); np.median(T)
S.sum(0); S.prod(0); S.max(0); S.mean(0); S.std(0); S.any(0); S.all(0); S.argmax(0)
S.sum(1); S.prod(1); S.max(1); S.mean(1); S.std(1); S.any(1); S.all(1); S.argmax(1)
np.cumsum(T); np.cumprod(T); np.sort(T); np.argsort(T); np.count_nonzero(T); np.nonzero(T)
np.diff(T); np.nansum(T); np.where(m, T, U); T[j]; T[m]; np.clip(T, T[0], T[1]); T @ U
S.T.copy(); T[::2] + 0; np.concatenate((T, U)); np.roll(T, 7); np.repeat(T, 2); T * T[0]
T.astype("f8"); T.astype("f4"); T.astype("i8"); T.astype("i4"); T.astype("u1"); T.astype("?")
"""


# Of each layout: V, W are arrays, P picks along the first axis of one.
VIEWED = """
V + W; V * 2; V > W; np.sqrt(V); np.where(V > 3, V, W); np.clip(V, 2, 5); V.astype("f4"); V.copy()
V.ravel(); V.T.reshape(-1) + 0; np.array(V); np.add(V, W, order="F"); np.concatenate((V, W))
V.sum(); V.sum(0); V.sum(-1); V.max(); V.max(0); V.max(-1); np.any(V); np.all(V, 0); np.all(V, -1)
V.prod(-1); V.mean(0); V.std(0); V.std(-1); V.argmax(0); V.argmax(-1); V - V.mean(0); V.sum((0, 1))
V.cumsum(0); V.cumsum(-1); np.sort(V, 0); np.diff(V, axis=0); np.diff(V); V[P]; V.take(P, 0)
V[1:] - V[:-1]; np.stack((V, W), -1); np.roll(V, 1, 0); np.roll(V, 1, -1); np.pad(V, 2)
np.repeat(V, 2, 0); np.repeat(V, 2, -1); np.tile(V, 2); V @ W.T[:, :9]; np.einsum("ij,ij->i", V, W)
"""


def each_of(texts: str, letters: str, kinds: Iterable[str], names: dict[str, Any]) -> list[str]:
    """The expressions, with the operands of each kind, that NumPy computes."""
    found = []
    for each in "; ".join(texts.split("\n")).split("; "):
        for kind in kinds if each else ():
            text = re.sub(rf"(?<!\.)\b([{letters}])\b", rf"\1['{kind}']", each)
            with contextlib.suppress(TypeError, ValueError, IndexError):
                contextvars.Context().run(compiled(text, names))
                found.append(text)
    return found


def expressions(groups: list[str], parts: list[str], names: dict[str, Any]) -> list[str]:
    """Each on its own: those of these groups, or of all, that have one of the parts."""
    found = each_of(TYPED, "TUS", TYPES, names) if "types" in groups else []
    found += each_of(VIEWED, "VWP", names["V"], names) if "views" in groups else []
    for name, text in EXPRESSIONS.items():
        for line in text.strip().splitlines() if name in (groups or EXPRESSIONS) else ():
            found += [line] if line.startswith("w =") else line.split("; ")
    return [text for text in found if any(part in text for part in parts)]


def typed_operands(n: int) -> dict[str, Any]:
    """Two arrays of each dtype by its name, of numbers from 1 to 100, and a matrix."""
    rng, e = np.random.default_rng(1), int(n**0.5)
    made = [{t: (rng.random(n) * 99 + 1).astype(t) for t in TYPES} for _ in range(2)]
    for t in ("c8", "c16"):
        made[0][t] += 1j
    return {"T": made[0], "U": made[1], "S": {t: made[0][t][: e * e].reshape(e, e) for t in TYPES}}


def laid_out(x: Any) -> dict[str, Any]:
    """The numbers of a vector, or as many as fit, in each layout."""
    n, e = len(x), int(len(x) ** 0.5)
    edge = round(n ** (1 / 3))
    square, cube = x[: e * e].reshape(e, e), x[: edge**3].reshape(edge, edge, edge)
    pixels, points = x[: e * (e // 3) * 3].reshape(e, e // 3, 3), x[: n // 3 * 3].reshape(-1, 3)
    records = np.zeros(n, [("flag", "u1"), ("value", x.dtype)])
    records["value"] = x
    return {
        "every second": np.repeat(x, 2)[::2],
        "reversed": x[::-1],
        "column": np.repeat(x, 3).reshape(n, 3)[:, 1],
        "from the second on": np.append(0, x)[1:],
        "field": records["value"],
        "swapped": x.astype(x.dtype.newbyteorder()),
        "F": square.T,
        "inner": viewed(square),
        "every second column": np.repeat(square, 2, 1)[:, ::2],
        "both reversed": square[::-1, ::-1],
        "one row": np.broadcast_to(square[0], square.shape),
        "one column": np.broadcast_to(square[:, :1], square.shape),
        "pairs": x[: n // 2 * 2].reshape(-1, 2),
        "points": points,
        "coordinates": points.T,
        "points in F": points.reshape(3, -1).T,
        "pixels": pixels,
        "planes": pixels.transpose(2, 0, 1),
        "axes 1, 2, 0": cube.transpose(1, 2, 0),
        "windows": np.lib.stride_tricks.sliding_window_view(x[: n // 8], 8),
    }


def viewed_operands(n: int) -> dict[str, Any]:
    """Two arrays of each layout by its name, and indices."""
    rng = np.random.default_rng(2)
    made = [laid_out(rng.random(n) * 10 + 0.5) for _ in range(2)]
    picks = {name: rng.integers(0, len(view), len(view)) for name, view in made[0].items()}
    return {"V": made[0], "W": made[1], "P": picks}


def operands(n: int) -> dict[str, Any]:
    """What the expressions name; arrays of about n elements but for a few."""
    rng = np.random.default_rng(0)
    x, y = rng.random(n) + 0.01, rng.random(n) + 0.01
    e = int(n**0.5)
    s = np.ascontiguousarray(x[: e * e].reshape(e, e))
    m, m9 = rng.random(n) < 0.5, rng.random(n) < 0.9
    i = rng.integers(0, 1000, n)
    q = np.where(rng.random(n) < 0.1, np.nan, x)
    k = min(e, 200)
    return {
        "n": n,
        "g": np.random.default_rng,
        "r": np.random.RandomState,
        "sp": scipy.special,
        "e": e,
        "x": x,
        "y": y,
        "f": x.astype("f4"),
        "q": q,
        "fq": q.astype("f4"),
        "i": i,
        "i2": np.ascontiguousarray(i[: k * k].reshape(k, k)),
        "few_times": rng.integers(0, 3, n),
        "j": rng.integers(0, n, n),
        "j3": rng.integers(0, n // 3, n // 3),
        "z": x + 1j * y,
        "m": m,
        "m9": m9,
        "m3": m[: n // 3],
        "a3": rng.integers(0, 3, n),
        "m2": np.ascontiguousarray(m[: e * e].reshape(e, e)),
        "s": s,
        "d": np.ascontiguousarray(s[0]),
        "v": x[m].copy(),
        "v9": x[m9].copy(),
        "row": rng.integers(0, e, e),
        "col": rng.random(e) < 0.5,
        "a2": rng.integers(0, e, n),
        "b2": rng.integers(0, e, n),
        "t2": np.argsort(s, axis=1),
        "grid": np.linspace(0, 1, 100),
        "few": np.arange(0, 1000, 17),
        "k5": np.ones(5) / 5,
        "c3": np.ascontiguousarray(x[: n // 3 * 3].reshape(-1, 3)),
        "b3": x[: min(n, 10**6) // 9 * 9].reshape(-1, 3, 3) + 2 * np.eye(3),
        "s3": x[:9].reshape(3, 3) + np.eye(3),
    }


def viewed(x: Any) -> Any:
    """The same elements within a larger array: a column, or the inner part of all axes."""
    if not isinstance(x, np.ndarray):
        return x
    if x.ndim == 1:
        whole, part = np.zeros((len(x), 2), x.dtype), np.s_[:, 1]
    else:
        whole, part = np.zeros([k + 2 for k in x.shape], x.dtype), (np.s_[1:-1],) * x.ndim
    whole[part] = x
    view: Any = whole[part]
    return view


def of_ours(x: Any) -> Any:
    """A copy as an npaccel array, which is what recorded operations of a block make."""
    return npaccel.asarray(x.copy()) if isinstance(x, np.ndarray) else x


def compiled(text: str, names: dict[str, Any]) -> Callable[[], Any]:
    """The expression as a function of no arguments."""
    *before, last = text.split("; ") if text.startswith("w =") else (text,)
    back = "w" if before else last
    body = "".join(f"    {line}\n" for line in [*before, *([last] if before else [])])
    space = {"np": np, **names}
    exec(f"def call():\n{body}    return {back}", space)
    function: Callable[[], Any] = space["call"]
    return function


def read(result: Any) -> Any:
    """A result whose values are there."""
    if isinstance(result, np.ndarray) and npaccel._native.is_pending(result):
        npaccel.evaluate(result)
    elif isinstance(result, tuple | list):
        for item in result:
            read(item)
    return result


def batch(call: Callable[[], Any], times: int, clock: Callable[[], float]) -> float:
    """Seconds of one call, in a batch of them."""
    begin = clock()
    for _ in range(times):
        read(call())
    return (clock() - begin) / times


def alone(call: Callable[[], Any], times: int, clock: Callable[[], float]) -> float:
    """The same without npaccel, in NumPy's memory."""
    return contextvars.Context().run(batch, call, times, clock)


def steps(a: Any) -> list[int]:
    """How an array lies in memory."""
    return [step for step, n in zip(a.strides, a.shape, strict=True) if n > 1 and a.size]


def same(expected: Any, found: Any) -> bool:
    """Equal, but for roundings of sums and functions."""
    if isinstance(expected, tuple | list):
        return len(expected) == len(found) and all(map(same, expected, found))
    a, b = np.asarray(expected), np.asarray(found)
    if a.dtype != b.dtype or a.shape != b.shape or steps(a) != steps(b):
        return False
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    return bool(np.allclose(a, b, rtol=1e3 * np.finfo(a.dtype).eps, atol=1e-9, equal_nan=True))


def settle(call: Callable[[], Any]) -> None:
    """Call until no more of it runs with NumPy's loops than before, or for a while."""
    begin = time.perf_counter()
    calm = 0
    while time.perf_counter() < begin + (LEAST_WARM_S if calm >= 4 else WARM_S):
        before = npaccel.stats()
        for _ in range(4):
            read(call())
        after = npaccel.stats()
        calm = calm + 1 if after["tier0_runs"] == before["tier0_runs"] else 0


def measure(
    text: str, names: dict[str, Any], in_block: dict[str, Any], clock: Callable[[], float]
) -> dict[str, Any]:
    """One row: NumPy on some operands, and the block on others of the same values."""
    call, ours_call = compiled(text, names), compiled(text, in_block)
    begin = clock()
    expected = contextvars.Context().run(call)
    numpys_first = clock() - begin
    single = [alone(call, 1, clock) for _ in range(3)]
    once = min(single)
    times = max(1, min(1000, int(BATCH_S / max(once, 1e-7))))
    batches = max(3, min(BATCHES, int(ALL_BATCHES_S / (once * times))))
    with npaccel.accelerate():
        first = batch(ours_call, 1, clock)
        early = [batch(ours_call, 1, clock) for _ in range(3)]
        settle(ours_call)
        right = same(expected, read(ours_call()))
    plain: list[float] = []
    ours: list[float] = []
    for _ in range(batches):
        plain.append(alone(call, times, clock))
        with npaccel.accelerate():
            ours.append(batch(ours_call, times, clock))
    numpys = min(plain)
    once = statistics.median(single + [alone(call, 1, clock) for _ in range(batches // 2)])
    return {
        "call": text,
        "numpy_us": numpys * 1e6,
        "npaccel_us": min(ours) * 1e6,
        "first": numpys_first / first,
        "early": once / sorted(early)[1],
        "steady": numpys / min(ours),
        "right": right,
    }


def missed(row: dict[str, Any]) -> bool:
    return not row["right"] or any(row[key] < least for key, least in TARGETS.items())


def told(row: dict[str, Any]) -> str:
    return (
        f"{row['n']:8} {row['numpy_us']:9.1f} us  first {row['first']:5.2f}"
        f"  early {row['early']:5.2f}  steady {row['steady']:5.2f}"
        f"  {'' if row['right'] else 'WRONG '}{row['call']}"
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="functions in an accelerate() block")
    parser.add_argument("--sizes", default="10000,1000000,10000000")
    parser.add_argument("--groups", default="", help=", ".join([*EXPRESSIONS, "types", "views"]))
    parser.add_argument("--only", default="", help="parts of expressions")
    parser.add_argument("--all", action="store_true", help="show the others, too")
    parser.add_argument("--views", action="store_true", help="of columns, and inner parts")
    parser.add_argument("--ours", action="store_true", help="on npaccel arrays in the block")
    parser.add_argument("--json", type=Path, help="write all rows")
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    warnings.simplefilter("ignore")
    groups, rows = list(filter(None, options.groups.split(","))), []
    for n in map(int, options.sizes.split(",")):
        names = operands(n) | (typed_operands(n) if "types" in groups else {})
        names |= viewed_operands(n) if "views" in groups else {}
        chosen = expressions(groups, options.only.split(","), names)
        if options.views:
            names = {name: viewed(x) for name, x in names.items()}
        in_block = {k: of_ours(x) for k, x in names.items()} if options.ours else names
        for text in chosen:
            rows.append(measure(text, names, in_block, CLOCKS[options.clock]) | {"n": n})
            if options.all or missed(rows[-1]):
                print(told(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows))
    for key, least in TARGETS.items():
        found = [row[key] for row in rows]
        below = sum(each < least for each in found)
        print(f"{key}: median {statistics.median(found):.2f}, {below} of {len(rows)} below {least}")
    return int(not all(row["right"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
