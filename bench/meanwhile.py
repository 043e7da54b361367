"""What the program does, and another run, while a run is in flight: how much of it overlaps?

    python bench/meanwhile.py [--rounds 15]

Overlap is what both take one after the other less what they take together, in per cent of the
shorter one. Runs are scans along one row, which are one thread's, of 2^19 doubles; the program's
own work is a loop of Python's. Its own time is that of the loop, with a run in flight and without.
The ways take turns within each round; medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import npaccel

SIZE = 1 << 19
SCANS = 40


def pending(x: np.ndarray) -> np.ndarray:
    for _ in range(SCANS):
        x = np.cumsum(x)
    return x


def loop(turns: int) -> float:
    start = time.perf_counter()
    total = 0
    for k in range(turns):
        total += k * k % 7
    return time.perf_counter() - start


def timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    npaccel.config.tiering = "eager"  # nothing is compiled beside
    a, b = (npaccel.asarray(np.random.default_rng(k).random(SIZE)) for k in range(2))
    for x in (a, b):
        npaccel.evaluate(pending(x))
    turns = 100_000
    turns = int(turns * timed(lambda: npaccel.evaluate(pending(a))) / loop(turns))
    own: list[float] = []

    def beside() -> None:
        future = npaccel.evaluate(pending(a), wait=False)
        own.append(loop(turns))
        future.result()

    def both() -> None:
        first = npaccel.evaluate(pending(a), wait=False)
        second = npaccel.evaluate(pending(b), wait=False)
        first.result(), second.result()

    ways: dict[str, Callable[[], Any]] = {
        "run": lambda: npaccel.evaluate(pending(a)),
        "other run": lambda: npaccel.evaluate(pending(b)),
        "loop": lambda: loop(turns),
        "run beside loop": beside,
        "both runs": both,
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    for k in range(rounds):
        order = list(ways)
        for way in order[k % len(order) :] + order[: k % len(order)]:
            times[way].append(timed(ways[way]))
    found = {way: statistics.median(seconds) for way, seconds in times.items()}
    for way, seconds in found.items():
        low, _, high = statistics.quantiles(times[way], n=4)
        print(f"{way:16} {1e3 * seconds:8.1f} ms ({1e3 * low:.1f} to {1e3 * high:.1f})")
    for one, other, together in (
        ("run", "loop", "run beside loop"),
        ("run", "other run", "both runs"),
    ):
        saved = found[one] + found[other] - found[together]
        print(f"overlap of {together}: {100 * saved / min(found[one], found[other]):.0f} %")
    more = statistics.median(own) / found["loop"] - 1
    print(f"the loop's own time with a run in flight: {100 * more:+.1f} %; {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
