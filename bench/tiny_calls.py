"""Single calls on numbers, short lists and tiny arrays, in the ways in which programs write them:
NumPy alone, and in a block, by turns.

    python bench/tiny_calls.py [--rounds 25] [--all] [--only TEXT]

Prints the least time of each call in ns, NumPy's and ours, where ours is longer (--all: of each),
and the geometric mean of NumPy's over ours.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import npaccel

Array = np.ndarray[Any, Any]
GIVEN: dict[str, Any] = {
    "np": np,
    "f": 0.7,
    "i": 3,
    "x": np.float64(1.3),
    "s": np.float32(0.3),
    "c": 1 + 2j,
    "v": np.array([1.0, 2.0, 3.0]),
    "w": np.array([3.0, 1.0, 2.0]),
    "m": np.eye(3),
    "M": np.ones((4, 4)),
    "t": np.linspace(0, 1, 10),
    "k": np.arange(5),
    "b": np.linspace(0, 1, 10) > 0.5,
    "g": np.random.default_rng(1),
    "o": np.empty(3),
    "O": np.empty((4, 4)),
    "B": np.empty(3, bool),
    "L": [1.0, 2.0, 3.0],
    "u": np.array([1, 2, 3]),
    "a": np.linspace(0, 1, 1000),
}
CALLS = """
np.sin(x) | np.sin(f) | np.sin(i) | np.sqrt(2) | np.exp(-f) | np.log(x) | np.abs(x) | np.floor(f)
np.isnan(f) | np.isfinite(x) | np.sign(x) | np.deg2rad(f) | np.tanh(x) | np.cos(s) | np.square(x)
np.arctan2(f, x) | np.hypot(f, f) | np.minimum(f, x) | np.maximum(i, 0) | np.mod(x, 1.0)
np.power(x, 3) | np.add(f, f) | np.multiply(2, f) | np.divide(f, x) | np.greater(x, 0)
np.logical_and(f > 0, x > 0) | np.copysign(f, -1) | np.floor_divide(7, 2) | np.gcd(4, 6)
np.divmod(x, 1.0) | np.modf(x) | np.frexp(x) | np.clip(x, 0, 1) | np.round(x, 1) | round(x, 2)
np.where(f > 0, 1, 2) | np.isclose(f, x) | np.float64(f) | x.item() | x * f | x + 1 | x**2
np.max([f, i]) | np.mean([f, i]) | np.sum([f, i]) | np.median([f, x, f]) | np.argmax([f, x])
np.linalg.norm([f, x]) | np.array([f, f, f]) | np.array([[f, f], [f, f]]) | np.array(f)
np.atleast_1d(f) | np.asarray(v) | np.polyval([1, 2, 3], f) | np.interp(f, t, t) | v + w | v * 2
v / 2 | v**2 | -v | abs(v) | v > 1 | v == w | (v > 1).any() | b & b | ~b | v @ w | m @ v | m @ m
v.dot(w) | np.cross(v, w) | np.outer(v, w) | np.linalg.norm(v - w) | np.linalg.inv(m)
np.linalg.det(m) | np.linalg.solve(m, v) | np.linalg.eig(m) | np.linalg.svd(m)
np.add(v, w, out=o) | np.multiply(v, 2, o) | np.sqrt(v, out=o) | np.greater(v, w, out=B)
np.clip(v, 1, 2, out=o) | np.sum(m, axis=0, out=o) | m.max(1, out=o) | np.mean(m, axis=0, out=o)
np.add.reduce(m, axis=0, out=o) | np.cumsum(v, out=o) | np.dot(m, v, out=o) | np.copyto(o, v)
np.matmul(M, M, out=O) | np.take(t, [1, 2, 0], out=o) | np.concatenate([v[:1], v[1:]], out=o)
v[0] | v[1:] | v[::-1] | M[1, 2] | M[1] | M[:, 1] | v[:, None] | M.T | M.ravel() | M.reshape(2, 8)
v.sum() | v.max() | v.mean() | v.std() | M.sum(axis=1) | np.max(M, axis=1) | np.sum(v > 1)
v.tolist() | v.item(0) | v.copy() | v.astype(int) | float(v[0]) | v.fill(1.0) | list(v) | max(v)
np.zeros(3) | np.zeros((3, 3)) | np.ones(3) | np.eye(3) | np.arange(5) | np.arange(0, 1, 0.1)
np.linspace(0, 1, 10) | np.full(3, 1.5) | np.zeros_like(v) | np.concatenate([v, w])
np.stack([v, w]) | np.append(v, 1.0) | np.roll(v, 1) | np.tile(v, 2) | np.repeat(v, 2)
np.diff(v) | np.cumsum(v) | np.argsort(v) | np.unique(k) | np.isin(k, [1, 2]) | np.nonzero(b)
np.searchsorted(t, f) | np.interp(t, t, t) | np.gradient(t) | np.convolve(v, w) | np.fft.fft(t)
np.trapezoid(t, t) | np.percentile(v, 50) | np.nanmean(v) | np.allclose(v, w) | np.bincount(k)
np.random.rand() | np.random.uniform(0, 1) | np.random.randint(0, 10) | np.random.rand(3)
g.random() | g.normal() | g.integers(0, 5) | g.random(3) | np.add(v, w, None)
np.add(v, w, out=(o,)) | np.add(v, w, where=True) | np.add(v, w, dtype=float)
np.add(v, w, casting="unsafe") | np.sqrt(v, dtype=np.float64) | np.add(v, w, order="C")
np.add(u, v) | np.maximum(v, 0) | np.add(L, v) | v + L | np.sqrt(L) | np.multiply(L, 2) | u / 2
u + 1.5 | 2 * v | np.add.reduce(v) | np.add.reduce(M, axis=0) | np.add.accumulate(v)
np.multiply.outer(v, w) | np.arange(5, dtype=float) | np.arange(0, 5, 1, dtype=np.float64)
np.arange(5, dtype=np.int32) | np.arange(0.0, 5) | np.zeros(3, dtype=int)
np.zeros((3, 3), dtype=float, order="C") | np.zeros(3, complex) | np.zeros([3, 3])
np.ones((3, 3)) | np.ones(3, dtype=int) | np.empty((3, 3)) | np.full((3, 3), 0.0)
np.full(3, np.nan) | np.zeros_like(v, dtype=int) | np.ones_like(v) | np.ones_like(u, dtype=float)
np.empty_like(v, dtype=int) | np.full_like(v, 0, dtype=int) | np.full_like(v, fill_value=2.0)
np.eye(3, k=1) | np.identity(3) | np.diag(v) | np.trace(M) | np.linspace(0, 1, num=5)
np.array(L, dtype=float) | np.array(v, copy=True) | np.array([L, L]) | np.array([v, w])
np.asarray(L, dtype=float) | np.asarray(v, dtype=float) | np.fromiter(L, float) | np.ravel(M)
np.reshape(M, -1) | np.reshape(M, (2, 8)) | M.reshape(2, 8, order="C") | M.flatten()
M.ravel(order="C") | v.copy(order="C") | np.squeeze(v) | np.transpose(M) | np.expand_dims(v, 0)
np.sum(M, axis=1, keepdims=True) | np.sum(v, dtype=float) | M.sum(axis=(0, 1)) | v.sum(axis=0)
np.mean(M, axis=0) | M.mean(1) | np.std(v, ddof=1) | M.std(axis=0)
np.max(M, axis=1, keepdims=True) | v.max(initial=0.0) | np.sum(v, where=B) | np.argmax(M, axis=0)
np.cumsum(v, axis=0) | M.cumsum(axis=1) | np.cumsum(v, dtype=float) | np.clip(v, a_min=0, a_max=2)
v.clip(min=0) | v.round(2) | np.round(v, decimals=2) | np.where(v > 1, v, 0) | np.where(v > 1)
np.where(B, 1, 0) | np.sort(v, kind="stable") | np.argsort(v, kind="stable")
np.searchsorted(t, v, side="right") | t.searchsorted(f) | v.argsort()
np.concatenate([M, M], axis=1) | np.concatenate((v, [1.0])) | np.concatenate([L, L])
np.stack([v, w], axis=1) | np.vstack((v, w)) | np.hstack((v, 1.0)) | np.column_stack((v, w))
np.repeat(M, 2, axis=0) | np.roll(M, 1, axis=0) | np.pad(v, 1) | np.take(M, 1, axis=0)
np.take(M, [1, 2], axis=1) | np.take(t, [1, 2]) | t.take(u) | v.nonzero() | v.astype(dtype=int)
v.astype(np.float32) | v.astype(int, copy=False) | v.fill(0) | v.tobytes()
np.correlate(v, w, mode="same") | np.convolve(v, w, mode="same") | np.interp(v, t, t)
np.put(v, [0], 1.0) | np.bincount(k, weights=k) | np.bincount(k, minlength=10)
np.linalg.norm(M, axis=1) | np.isclose(v, w, rtol=1e-3) | np.array_equal(v, w) | np.isnan(v).any()
np.einsum("i,i", v, w) | np.random.normal(0, 1, 3) | np.random.normal(size=3) | g.normal(0, 1, 3)
g.normal(size=3) | g.integers(0, 10, size=3) | g.uniform(-1, 1) | np.random.choice(3)
np.random.permutation(3) | np.sin(a) | np.add(a, a, dtype=float) | a.sum(axis=0)
np.zeros(1000, dtype=float) | np.arange(1000.0) | np.zeros_like(a, dtype=int)
np.sqrt(a, where=True) | a.astype(np.float32) | np.sort(a, kind="stable")
"""
TIME_S = 2e-4  # of a turn


def repeated(call: str) -> Callable[[int], None]:
    found = dict(GIVEN)
    exec(f"def repeat(n):\n    for _ in range(n):\n        {call}", found)
    repeat: Callable[[int], None] = found["repeat"]
    return repeat


def took(repeat: Callable[[int], None], times: int) -> float:
    start = time.perf_counter()
    repeat(times)
    return (time.perf_counter() - start) / times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--all", action="store_true", help="print each")
    parser.add_argument("--only", default="", help="calls with this in them")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    calls = [c.strip() for line in CALLS.splitlines() for c in line.split(" | ") if c.strip()]
    loops = {c: repeated(c) for c in calls if options.only in c}
    times = {c: max(10, int(TIME_S / took(loop, 50))) for c, loop in loops.items()}
    least = {c: [math.inf, math.inf] for c in loops}
    for _ in range(options.rounds):
        for call, loop in loops.items():
            least[call][0] = min(least[call][0], took(loop, times[call]))
        with npaccel.accelerate():
            for call, loop in loops.items():
                loop(5)
                least[call][1] = min(least[call][1], took(loop, times[call]))
    gains = {call: numpys / ours for call, (numpys, ours) in least.items()}
    for call in sorted(gains, key=lambda c: gains[c]):
        if options.all or gains[call] < 1:
            numpys, ours = (round(1e9 * s) for s in least[call])
            print(f"{gains[call]:5.2f} {numpys:7} {ours:7} ns  {call}")
    mean = math.exp(sum(map(math.log, gains.values())) / len(gains))
    print(f"{mean:5.2f} in the geometric mean of {len(gains)} calls")


if __name__ == "__main__":
    main()
