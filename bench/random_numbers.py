"""Drawing numbers: npaccel.random's generator beside NumPy's PCG64 and Philox.

    python bench/random_numbers.py --sizes 1000,1000000 --only random,normal

Each draw is read or evaluated. The generators take turns; medians of the rounds, in microseconds,
and NumPy's time over ours. The last ones use what they draw, without an array of numbers.
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

DRAWS: dict[str, Callable[[Any, int], Any]] = {
    "random": lambda rng, n: rng.random(n),
    "random f4": lambda rng, n: rng.random(n, dtype=np.float32),
    "normal": lambda rng, n: rng.normal(1.0, 2.0, n),
    "exponential": lambda rng, n: rng.exponential(2.0, n),
    "integers": lambda rng, n: rng.integers(0, 1000, n),
    "hits": lambda rng, n: (rng.random(n) < 0.3).sum(),
    "circle": lambda rng, n: ((rng.random(n) ** 2 + rng.random(n) ** 2) < 1.0).sum(),
    "payoff": lambda rng, n: np.maximum(np.exp(0.2 * rng.standard_normal(n)) - 1.0, 0.0).sum(),
}


def generators() -> dict[str, Any]:
    """By name, all of one seed."""
    return {
        "PCG64": np.random.default_rng(1),
        "Philox": np.random.Generator(np.random.Philox(1)),
        "npaccel": npaccel.random.default_rng(1),
    }


def taken_us(draw: Callable[[Any, int], Any], rng: Any, n: int) -> float:
    """Once, to the end."""
    start = time.perf_counter()
    result = draw(rng, n)
    if isinstance(result, npaccel.Array):
        npaccel.evaluate(result)
    return (time.perf_counter() - start) * 1e6


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default="10,1000,100000,1000000,10000000")
    parser.add_argument("--only", default=",".join(DRAWS))
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--tiering", default="eager", choices=("adaptive", "eager", "off"))
    options = parser.parse_args()
    npaccel.config.tiering = options.tiering
    print(f"{'numbers':>9} {'draw':12}" + "".join(f"{name:>11}" for name in generators()))
    for n in map(int, options.sizes.split(",")):
        rounds = min(options.rounds, max(5, 10**8 // n))
        for name in options.only.split(","):
            all_of_them = generators()
            times: dict[str, list[float]] = {key: [] for key in all_of_them}
            for _ in range(rounds + 2):
                for key, rng in all_of_them.items():
                    times[key].append(taken_us(DRAWS[name], rng, n))
            middle = {key: statistics.median(taken[2:]) for key, taken in times.items()}
            ratios = [middle[key] / middle["npaccel"] for key in ("PCG64", "Philox")]
            columns = "".join(f"{value:11.1f}" for value in middle.values())
            print(f"{n:9} {name:12}{columns}   {ratios[0]:5.2f} {ratios[1]:5.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
