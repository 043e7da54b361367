"""What an open `accelerate` block costs calls that are not its business, and entering it.

Per call, in one process: median over rounds of the difference between a block open (in this
thread, or in another one) and none, the three taken in turn. Entering and leaving: microseconds.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from fresh import report
from harness import parse

import npaccel

CALLS = 10_000

small = np.arange(10.0)
other = np.arange(10.0)
large = np.zeros(1_000_000)
number = np.float64(1.5)

WORK: dict[str, Callable[[], Any]] = {
    "np.add(small, small)": lambda: np.add(small, other),
    "small + small": lambda: small + other,
    "small + 1.0": lambda: small + 1.0,
    "np.sqrt(np.float64)": lambda: np.sqrt(number),
    "np.zeros(3)": lambda: np.zeros(3),
    "np.zeros((3, 3))": lambda: np.zeros((3, 3)),
    "np.array([1.0, 2.0])": lambda: np.array([1.0, 2.0]),
    "np.asarray(small)": lambda: np.asarray(small),
    "np.arange(10)": lambda: np.arange(10),
    "np.where(small, 1, 2)": lambda: np.where(small, 1, 2),
    "small.sum()": small.sum,
    "small.copy()": small.copy,
    "small.reshape(5, 2)": lambda: small.reshape(5, 2),
    "small[3]": lambda: small[3],
    "small[2:5]": lambda: small[2:5],
    "large[3]": lambda: large[3],
    "large[2:5]": lambda: large[2:5],
}


def assign() -> None:
    small[3] = 1.0


def assign_large() -> None:
    large[3] = 1.0


WORK |= {"small[3] = 1.0": assign, "large[3] = 1.0": assign_large}


def nanoseconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        work()
    return (time.perf_counter_ns() - start) / CALLS


class Elsewhere:
    """A block that another thread has open and sits in."""

    def __enter__(self) -> None:
        self._done, opened = threading.Event(), threading.Event()

        def sit() -> None:
            with npaccel.accelerate():
                opened.set()
                self._done.wait()

        self._thread = threading.Thread(target=sit)
        self._thread.start()
        opened.wait()

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()


def measure(work: Callable[[], Any], rounds: int) -> dict[str, float]:
    plain, here, elsewhere = [], [], []
    for _ in range(rounds):
        plain.append(nanoseconds(work))
        with npaccel.accelerate():
            here.append(nanoseconds(work))
        with Elsewhere():
            elsewhere.append(nanoseconds(work))
    more = {
        "here": [inside - outside for inside, outside in zip(here, plain, strict=True)],
        "elsewhere": [inside - outside for inside, outside in zip(elsewhere, plain, strict=True)],
    }
    result = {"numpy_ns": statistics.median(plain)}
    return result | {f"more_{name}_ns": statistics.median(ns) for name, ns in more.items()}


def entering() -> dict[str, float]:
    def once() -> float:
        start = time.perf_counter()
        with npaccel.accelerate():
            pass
        return 1e6 * (time.perf_counter() - start)

    return {"first_us": once(), "later_us": statistics.median(once() for _ in range(200))}


def main() -> int:
    rounds = parse(None, 15).rounds
    results = {"enter and leave": entering()}
    results |= {name: measure(work, rounds) for name, work in WORK.items()}
    report("accelerate", __doc__ or "", results, {})
    return 0


if __name__ == "__main__":
    sys.exit(main())
