"""Each element-wise operation alone: NumPy's loop, the tier without a compiler, and a kernel.

    python bench/loops.py [--dtypes f8,f4,i8,i4,u1,?,c16] [--elements 100000] [--above 1.5]

One thread, data in the second cache; the best of some calls, in microseconds. Printed are those of
which one tier takes longer than NumPy, or the first longer than the second, by that factor.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import npaccel

CALLS = 12
# Numbers lie between 0.1 and 1.1, but for functions of which some of these have no value.
MOVED = {"arccosh": 1.0, "arcsin": -0.1, "arccos": -0.1, "arctanh": -0.1}
FUNCTIONS = {name: f for name, f in sorted(vars(np).items()) if isinstance(f, np.ufunc)}


def best_us(call: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(CALLS):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return 1e6 * best


def operand(dtype: str, elements: int, seed: int) -> np.ndarray[Any, Any]:
    numbers = np.random.default_rng(seed).random(elements)
    if dtype == "?":
        return numbers < 0.5
    if dtype[0] in "iu":
        return (1 + 99 * numbers).astype(dtype)
    return (numbers + (1j * numbers[::-1] if dtype[0] == "c" else 0.1)).astype(dtype)


def in_tier(tier: str, call: Callable[[], object]) -> float:
    npaccel.config.tiering = tier
    with npaccel.accelerate():
        return best_us(lambda: npaccel.evaluate(call()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dtypes", default="f8,f4,i8,i4,u1,?,c16")
    parser.add_argument("--elements", type=int, default=100_000)
    parser.add_argument("--above", type=float, default=1.5)
    options = parser.parse_args()
    npaccel.config.threads, npaccel.config.threshold = 1, 1024
    warnings.simplefilter("ignore")
    print(f"{'operation':24}{'NumPy':>9}{'uncompiled':>12}{'kernel':>9}")
    for dtype in options.dtypes.split(","):
        operands = [operand(dtype, options.elements, seed) for seed in (1, 2)]
        for name, f in FUNCTIONS.items():
            arguments = operands[: f.nin]
            if dtype[0] == "f" and name in MOVED:
                arguments = [arguments[0] + arguments[0].dtype.type(MOVED[name])]
            if f.signature or f.nout > 1 or f.nin > 2 or not f.types or name != f.__name__:
                continue
            try:
                f(*[x[:9] for x in arguments])
            except TypeError:
                continue
            numpys = best_us(lambda f=f, a=arguments: f(*a))
            blocks = in_tier("off", lambda f=f, a=arguments: f(*a))
            kernel = in_tier("eager", lambda f=f, a=arguments: f(*a))
            if max(blocks / kernel, blocks / numpys, kernel / numpys) > options.above:
                print(f"{dtype + ' ' + name:24}{numpys:9.0f}{blocks:12.0f}{kernel:9.0f}")
    return 0


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        sys.exit(main())
