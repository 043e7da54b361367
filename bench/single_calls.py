"""Single calls of NumPy in an `accelerate` block: is any of them slower than without?

    python bench/single_calls.py --sizes 1000,100000 --only where,tril --below 0.9

Each expression is called on plain arrays, by turns without and within a block, and its result is
read; without a block in a context that has NumPy's memory. Times are the processor's, of the whole
process, or with `--clock wall` what one waits, the quietest of several batches. `first` is
NumPy's time over that of the first call in the block, `early` over that of the next three, before
anything can be compiled, `steady` after a second of calls. Exit status 1: values differ.
"""

from __future__ import annotations

import argparse
import contextvars
import json
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ["NPACCEL_CACHE_DIR"] = tempfile.mkdtemp()

import numpy as np

import npaccel

BATCHES = 9
BATCH_S = 2e-3
WARM_S = 2.0
LEAST_WARM_S = 1.0  # what is new is NumPy's for a while
CLOCKS = {"processor": time.process_time, "wall": time.perf_counter}

# By lines; `;` separates what prepares a write from what is timed with it.
EXPRESSIONS = """
x + y; x * 2.0; x / y; x - 1; -x; abs(x); x**2; x**0.5; x**3; x % 3.0; x // 3.0; x > y; x == y
i + i; i * 3; i // 3; i % 3; i & 7; i << 2; i > 3; f + f; f * f; z * z; abs(z); z.conj(); ~m; m & m9
np.sqrt(x); np.exp(x); np.log(x); np.sin(x); np.tanh(x); np.arctan2(x, y); np.hypot(x, y); np.power(x, y)
np.floor(x); np.round(x, 2); np.sign(x); np.maximum(x, y); np.clip(x, .2, .8); np.isnan(x); np.isfinite(x)
np.logical_and(m, m9); np.where(m, x, y); np.where(x > .5, x, 0.0); np.nan_to_num(x); np.exp2(f); np.sqrt(f)
x.sum(); x.mean(); x.var(); x.std(); x.min(); x.max(); x.argmin(); x.argmax(); x.prod(); np.ptp(x); i.sum()
f.sum(); m.sum(); m.any(); m.all(); np.count_nonzero(m); np.median(x); np.percentile(x, 30); np.quantile(x, .3)
s.sum(0); s.sum(1); s.mean(0); s.mean(1); s.var(0); s.std(1); s.min(0); s.max(1); s.argmax(0); s.argmin(1); s.any(0)
np.cumsum(x); np.cumprod(x); s.cumsum(0); s.cumsum(1); np.diff(x); np.diff(s, axis=0); np.gradient(x); np.average(x)
np.nansum(x); np.nanmean(x); np.nanstd(x); np.nanvar(x); np.nanmax(x); np.nanmin(x); np.nanargmax(x); np.nanmedian(x)
np.nanmean(s, axis=0); np.nanprod(x); np.nancumsum(x); np.ediff1d(x); np.trapezoid(x); np.interp(x, grid, grid); np.interp(x * 9, few, few); np.interp(np.sort(x), grid, grid)
x[x <= .5].sum(); x[m].mean(); (x[m] * y[m]).sum(); x[m].size; x[m]; x[m9]; x[~m]; s[m2]; s[:, col]; s[row]; i[m]; f[m]; z[m]; x[j]; i[j]; s[a2, b2]; x.take(j); np.compress(m, x)
((c3[:, None] - s3) ** 2).sum(-1); ((c3[:, None] - s3) ** 2).sum(-1).argmin(1); (b3 * b3[:, :1]).sum(-1); b3.sum(1); b3.max(1); (b3[..., None] * b3[:, None]).sum(-2); s3 @ b3 @ s3.T
w = x.copy(); w[m] = 0.0
w = x.copy(); w[m] = v
w = x.copy(); w[m9] = v9
w = x.copy(); w[w > .5] *= 2
w = x.copy(); w[w > .5] = 0.0
w = x.copy(); w[m] = np.sqrt(w[m]) * y[m]
w = s.copy(); w[m2] = 1
w = z.copy(); w[m] = z[m]
w = x.copy(); w[j] = y
w = x.copy(); w[::2] = 1
w = x.copy(); w += y
w = x.copy(); w[1:] -= w[:-1]
w = s.copy(); w[:, 0] = 3
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
w = x.copy(); w.sort()
w = x.copy(); w.fill(2)
w = x.copy(); np.add(w, y, out=w)
w = x.copy(); np.fill_diagonal(w[: e * e].reshape(e, e), 1)
np.nonzero(m); np.flatnonzero(m); np.argwhere(m); np.nonzero(m2); np.flatnonzero(i); np.where(m); np.unique(i); np.isin(i, few); np.in1d(i, few) if hasattr(np, "in1d") else 0
np.searchsorted(grid, x); np.digitize(x, grid); np.bincount(i); np.bincount(i, x); np.bincount(j, x); np.histogram(x); np.histogram(x, 50, (.2, .9)); np.histogram2d(x, y, 20); np.add.reduceat(x, few * 10); np.lexsort((x, y)); np.argsort(x); np.sort(x); np.partition(x, 5)
np.tril(s); np.triu(s); np.diag(d); np.trace(s); np.eye(e); np.identity(e); np.tri(e); np.vander(d, 5); np.outer(d, d); np.kron(d[:9], d); np.kron(s, np.eye(2)); np.tril(s).sum(1)
np.concatenate((x, y)); np.stack((x, y)); np.stack((x, y), -1); np.vstack((x, y)); np.column_stack((x, y)); np.hstack((x, y))
np.tile(d, 9); np.tile(d, e); np.tile(s, (2, 2)); np.tile(d, (e, 1)) * s; np.repeat(x, 2); np.repeat(d, e); np.repeat(d[:, None], e, axis=1) * s; np.pad(x, 3); np.pad(s, 1, mode="edge"); np.pad(s, 1, mode="wrap")[2:, 1:-1] + s; np.stack((x, y), -1).sum(); np.roll(x, 3); np.roll(s, 1, axis=1); s - np.roll(s, 1, axis=0) - np.roll(s, -1, axis=1); np.flip(x) + 0; np.rot90(s) + 0; np.pad(s, 1); np.append(x, y); np.insert(x, 2, 1.0); np.delete(x, 3)
np.zeros(n); np.ones(n); np.full(n, 2.0); np.arange(n); np.arange(n * 1.0); np.linspace(0, 1, n); np.empty(n).shape; np.zeros_like(x); np.ones_like(x)
np.meshgrid(d, d); np.indices((e, e)); np.mgrid[0:e, 0:e]; np.logspace(0, 1, n); np.fromfunction(lambda p, q: p + q, (e, e)); np.geomspace(1, 2, n)
x.astype("f4"); f.astype("f8"); x.astype("i8"); i.astype("f8"); x.copy(); s.T.copy(); np.ascontiguousarray(s.T); x.tolist()[:1] if n < 5000 else 0
x[::2] + 1; x[::2] * x[1::2]; s[:, ::2] + 1; s.T + 1; s.T + s.T; x[::-1] * 2; c3[:, 0] * 2; c3[:, 0] + c3[:, 1]; c3.sum(1); c3 / c3.sum(1)[:, None]; s[1:, 1:] - s[:-1, :-1]
x @ y; np.dot(x, y); np.vdot(x, y); s @ d; np.einsum("ij,j->i", s, d); np.inner(x, y); np.tensordot(s, d, 1); np.linalg.norm(x); np.linalg.norm(s, axis=1); np.cross(c3, c3)
np.allclose(x, y); np.array_equal(x, x); np.isclose(x, y); np.corrcoef(c3.T); np.cov(c3.T); np.convolve(x, k5); np.convolve(x, d[:30]); np.correlate(x, k5); np.polyval([1., 2., 3.], x); np.unwrap(x); np.angle(z)
np.argsort(s, axis=1); np.sort(s, axis=1); np.partition(s, 5, axis=1); np.argpartition(s, 5, axis=1); np.median(s, axis=1); np.fft.fft(s)
b3 @ b3; s3 @ b3; b3 @ s3.T; np.vecdot(c3, c3); np.linalg.inv(b3); np.linalg.det(b3); np.linalg.solve(b3, b3); np.linalg.cholesky(s3 @ s3.T + b3 * 0); np.linalg.eigvalsh(b3); np.linalg.svd(b3)
np.fft.rfft(x); np.real(z) + 0; np.imag(z) * 2; z.real**2 + z.imag**2; np.minimum.accumulate(x); np.add.reduce(x); np.add.reduceat(x, [0, 5]); np.add.outer(d, d); np.select([m, m9], [x, y]); np.piecewise(x, [m], [1.0]); np.choose(m * 1, (x, y)); np.apply_along_axis(np.sum, 0, c3); np.heaviside(x, .5); np.fmod(x, y); np.cbrt(x); np.deg2rad(x); np.square(x); np.reciprocal(y); np.modf(x); np.frexp(x); np.divmod(x, y); np.ldexp(x, 2); np.lcm(i, 6); np.gcd(i, 6); np.invert(i); np.bitwise_count(i) if hasattr(np, "bitwise_count") else 0
g(1).random(n); g(1).uniform(2, 3, n); g(1).normal(0, 2, n); g(1).exponential(2, n); g(1).lognormal(0, 1, n); g(1).integers(0, 10, n); g(1).choice(9, n); g(1).poisson(3, n); g(1).poisson(30, n); g(1).binomial(20, .3, n); g(1).gamma(2, 1, n); g(1).permutation(n); g(1).shuffle(x.copy()); g(1).bytes(n)
np.einsum("i,i", x, y); np.setdiff1d(i, few); np.intersect1d(i, few); np.union1d(i, few); np.packbits(m); np.split(x, 4)[1] + 1; np.block([[s, s]]); np.take_along_axis(s, t2, 1); np.moveaxis(s, 0, 1) * 2; np.swapaxes(s, 0, 1) * 2; np.sinc(x); np.i0(x); np.hanning(n); np.argpartition(x, 5); np.bitwise_or.reduce(i); np.logical_not(m); np.fmax(x, y); np.nextafter(x, y); np.signbit(x); np.copysign(x, y); np.rint(x); np.trunc(x); np.fix(x); np.float_power(x, 2); np.log1p(x); np.expm1(x); np.logaddexp(x, y)
"""  # noqa: E501


def expressions() -> list[str]:
    """Each on its own."""
    found = []
    for line in EXPRESSIONS.strip().splitlines():
        found += [line] if line.startswith("w =") else line.split("; ")
    return found


def operands(n: int) -> dict[str, Any]:
    """What the expressions name; arrays of about n elements but for a few."""
    rng = np.random.default_rng(0)
    x, y = rng.random(n) + 0.01, rng.random(n) + 0.01
    e = int(n**0.5)
    s = np.ascontiguousarray(x[: e * e].reshape(e, e))
    m, m9 = rng.random(n) < 0.5, rng.random(n) < 0.9
    i = rng.integers(0, 1000, n)
    return {
        "n": n,
        "g": np.random.default_rng,
        "e": e,
        "x": x,
        "y": y,
        "f": x.astype("f4"),
        "i": i,
        "j": rng.integers(0, n, n),
        "j3": rng.integers(0, n // 3, n // 3),
        "z": x + 1j * y,
        "m": m,
        "m9": m9,
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
        "b3": x[: n // 9 * 9].reshape(-1, 3, 3) + 2 * np.eye(3),
        "s3": x[:9].reshape(3, 3) + np.eye(3),
    }


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
    if type(result) is npaccel.Array:
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


def same(expected: Any, found: Any) -> bool:
    """Equal, but for roundings of sums and functions."""
    if isinstance(expected, tuple | list):
        return len(expected) == len(found) and all(map(same, expected, found))
    a, b = np.asarray(expected), np.asarray(found)
    if a.dtype != b.dtype or a.shape != b.shape:
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


def measure(text: str, names: dict[str, Any], clock: Callable[[], float]) -> dict[str, Any]:
    """One row."""
    call = compiled(text, names)
    expected = call()
    once = min(alone(call, 1, clock) for _ in range(3))
    times = max(1, min(1000, int(BATCH_S / max(once, 1e-7))))
    with npaccel.accelerate():
        first = batch(call, 1, clock)
        early = [batch(call, 1, clock) for _ in range(3)]
        settle(call)
        right = same(expected, read(call()))
    plain: list[float] = []
    ours: list[float] = []
    for _ in range(BATCHES):
        plain.append(alone(call, times, clock))
        with npaccel.accelerate():
            ours.append(batch(call, times, clock))
    numpys = min(plain)
    once = min([once, *(alone(call, 1, clock) for _ in range(5))])
    return {
        "call": text,
        "numpy_us": numpys * 1e6,
        "npaccel_us": min(ours) * 1e6,
        "first": once / first,
        "early": once / sorted(early)[1],
        "steady": numpys / min(ours),
        "right": right,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="single calls in an accelerate() block")
    parser.add_argument("--sizes", default="100,1000,10000,100000,1000000")
    parser.add_argument("--only", default="", help="a part of the expression")
    parser.add_argument("--below", type=float, default=0.9, help="show those that are slower")
    parser.add_argument("--json", type=Path, help="write all rows")
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="processor")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for n in map(int, options.sizes.split(",")):
        names = operands(n)
        for text in expressions():
            if options.only in text:
                row = measure(text, names, CLOCKS[options.clock]) | {"n": n}
                rows.append(row)
                slow = min(row["early"], row["steady"]) < options.below
                if slow or not row["right"]:
                    print(
                        f"{n:8} {row['numpy_us']:9.1f} us  first {row['first']:5.2f}"
                        f"  early {row['early']:5.2f}  steady {row['steady']:5.2f}"
                        f"  {'' if row['right'] else 'WRONG '}{text}",
                        flush=True,
                    )
    if options.json:
        options.json.write_text(json.dumps(rows))
    for key, least in (("first", 0.8), ("early", 0.9), ("steady", 0.97)):
        found = [row[key] for row in rows]
        below = sum(each < least for each in found)
        print(f"{key}: median {statistics.median(found):.2f}, {below} of {len(rows)} below {least}")
    return int(not all(row["right"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
