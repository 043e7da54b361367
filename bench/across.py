"""Maps and folds of which an operand lies across the others, by size: NumPy, blocks, kernels.

Where rows lie a power of two apart, lines of such an operand fall in few sets of the caches. Ways
take turns round by round, all in this process; a wrong value fails. Microseconds, medians.

    .venv/bin/python bench/across.py --sizes 300 512 --dtypes f8
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import npaccel

Array = np.ndarray[Any, Any]
WAYS = {"NumPy": None, "blocks": "off", "kernels": "eager"}
SIZES, DTYPES, ROUNDS = (300, 512, 1000, 1024, 2048), ("f8", "f4"), 15


def into_turned(a: Array, b: Array) -> Array:
    made = np.empty(a.shape[::-1], a.dtype)
    np.multiply(a, b, out=made.T)
    return made


PROGRAMS: dict[str, Callable[[Array, Array], Any]] = {
    "a.T.copy()": lambda a, b: a.T.copy(),
    "a.T + b": lambda a, b: a.T + b,
    "(a.T + b) * 2 - a": lambda a, b: (a.T + b) * 2 - a,
    "multiply(a, b, out=c.T)": into_turned,
    "abs(a - b.T).max()": lambda a, b: np.abs(a - b.T).max(),
    "(a == b.T).any(1)": lambda a, b: (a == b.T).any(1),
    "allclose(a, a.T)": lambda a, b: np.allclose(a, a.T),
}


def seconds(program: Callable[[Array, Array], Any], arrays: tuple[Array, Array], way: Any) -> Any:
    """What a call takes until its result is there, and the result."""
    if way is None:
        begun = time.perf_counter()
        made = program(*arrays)
        return time.perf_counter() - begun, made
    npaccel.config.tiering = way
    with npaccel.accelerate():
        begun = time.perf_counter()
        made = program(*arrays)
        npaccel.evaluate(made)
        return time.perf_counter() - begun, made


def measured(program: Callable[[Array, Array], Any], arrays: tuple[Array, Array], n: int) -> Any:
    """Microseconds of each way, medians of n rounds behind three others."""
    found: dict[str, list[float]] = {name: [] for name in WAYS}
    expected = program(*arrays)
    for turn in range(n + 3):
        for name, way in WAYS.items():
            took, made = seconds(program, arrays, way)
            if np.asarray(made).tobytes() != np.asarray(expected).tobytes():
                raise SystemExit(f"across.py: {name} gives another value than NumPy")
            if turn >= 3:
                found[name].append(took * 1e6)
    return [statistics.median(each) for each in found.values()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--dtypes", nargs="+", default=DTYPES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    print(f"{'':34}{''.join(f'{name:>10}' for name in WAYS)}")
    for dtype in options.dtypes:
        for n in options.sizes:
            arrays = rng.integers(0, 99, (n, n)).astype(dtype), np.ones((n, n), dtype)
            for name, program in PROGRAMS.items():
                took = measured(program, arrays, options.rounds)
                print(
                    f"{dtype} {n:5} {name:25}{''.join(f'{each:10.0f}' for each in took)}",
                    flush=True,
                )
    return 0


if __name__ == "__main__":
    sys.exit(main())
