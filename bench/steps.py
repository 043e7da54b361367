"""Steps of models on a grid of which several wait for one look: NumPy, and kernels.

Temporary arrays of each step die in it. Ways take turns, all in this process; a wrong value fails.
Milliseconds of a step, medians.

    .venv/bin/python bench/steps.py --sizes 700 1500 --steps 1 5 20
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
SIZES, STEPS, ROUNDS = (400, 700, 1500), (1, 3, 5, 20), 7


def laplacian(u: Array) -> Array:
    return u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]


def heat(u: Array, v: Array, w: Array, steps: int) -> Array:
    for _ in range(steps):
        u[1:-1, 1:-1] += 0.1 * laplacian(u)
    return u


def waves(u: Array, v: Array, w: Array, steps: int) -> Array:
    for _ in range(steps):
        made = 2 * v - u
        made[1:-1, 1:-1] += 0.1 * laplacian(v)
        u, v = v, made
    return v


def reaction(u: Array, v: Array, w: Array, steps: int) -> Array:
    for _ in range(steps):
        of_u, of_v = laplacian(u), laplacian(v)
        both = u[1:-1, 1:-1] * v[1:-1, 1:-1] ** 2
        u[1:-1, 1:-1] += 0.16 * of_u - both + 0.06 * (1 - u[1:-1, 1:-1])
        v[1:-1, 1:-1] += 0.08 * of_v + both - 0.122 * v[1:-1, 1:-1]
    return u


def field(u: Array, v: Array, w: Array, steps: int) -> Array:
    for _ in range(steps):
        u[1:] -= 0.5 * (w[1:] - w[:-1])
        v[:, 1:] -= 0.5 * (w[:, 1:] - w[:, :-1])
        w[:-1, :-1] -= 0.7 * (v[:-1, 1:] - v[:-1, :-1] + u[1:, :-1] - u[:-1, :-1])
    return w


def drift(u: Array, v: Array, w: Array, steps: int) -> Array:
    """Looks at each step: kernels one by one over what caches hold."""
    for _ in range(steps):
        u *= 0.999
        u += v
        float(u[0, 0])
        w -= 0.001 * u
        float(w[0, 0])
    return w


PROGRAMS: dict[str, Callable[[Array, Array, Array, int], Array]] = {
    program.__name__: program for program in (heat, waves, reaction, field, drift)
}


def run(program: Callable[..., Array], arrays: list[Array], steps: int) -> tuple[float, float]:
    """Milliseconds of a step, and a value of what it made."""
    begun = time.perf_counter()
    made = program(*arrays, steps)
    seen = float(made[made.shape[0] // 2, 7])
    return (time.perf_counter() - begun) / steps * 1e3, seen


def measured(program: Callable[..., Array], n: int, steps: int, rounds: int) -> list[float]:
    """Milliseconds of a step, NumPy's and ours: medians of rounds behind two others."""
    found: list[list[float]] = [[], []]
    plain = list(np.random.default_rng(0).random((3, n, n)))
    with npaccel.accelerate():
        ours = [x.copy() for x in plain]
    for turn in range(rounds + 2):
        took, wanted = run(program, plain, steps)
        with npaccel.accelerate():
            mine, seen = run(program, ours, steps)
        if seen != wanted:
            raise SystemExit(f"steps.py: {program.__name__} gives another value than NumPy")
        if turn >= 2:
            found[0].append(took), found[1].append(mine)
    return [statistics.median(each) for each in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--steps", type=int, nargs="+", default=STEPS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    npaccel.config.tiering = "eager"
    print(f"{'':26}   NumPy    ours")
    for n in options.sizes:
        for name, program in PROGRAMS.items():
            for steps in options.steps:
                took = measured(program, n, steps, options.rounds)
                numbers = "".join(f"{each:8.3f}" for each in took)
                print(f"{n:5} {name:10} {steps:3} steps {numbers}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
