"""What a profile costs in a loop of ten minutes, and whether it costs more the longer it lasts.

    python bench/profile_loop.py [--seconds 120] [--faster 5]

What a profile does is so much per run, per operation recorded and per look at Python, of which
there are fifty a second; what it keeps is bounded. So a loop of ten minutes is shortened here: the
same number of rounds, each `--faster` times as short (smaller arrays), which costs at least the
same part of its time. Two processes run the loop at the same time, one with a profile from its
beginning to its end, one without, each on one thread; so whatever else the machine does slows both.
In stretches of a twentieth, the processor time of a round with, against that without. Then what the
profile's end took and its file's size.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np

import npaccel

STRETCHES = 20
WARM_S = 3.0
SIDE = 450  # of the grid in a loop of ten minutes


def loop(side: int) -> Iterator[float]:
    """Ten steps of heat, with a source drawn and a value read."""
    numbers = np.random.default_rng(1)
    grid = np.ones((side, side))
    while True:
        for _ in range(10):
            inner = grid[1:-1, 1:-1]
            around = grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:]
            grid[1:-1, 1:-1] = inner + 0.1 * (around - 4 * inner)
        grid[0] = numbers.random(side)
        yield float(grid[side // 2, side // 2])


def measure(seconds: float, side: int, target: str) -> dict[str, object]:
    """Processor time of a round, by stretch."""
    npaccel.config.threads = 1
    rounds: list[float] = []
    with npaccel.accelerate(min_size=0):
        steps = loop(side)
        warm = time.perf_counter() + WARM_S
        while time.perf_counter() < warm:
            next(steps)
        taken = npaccel.profile(target) if target else nullcontext()
        with taken:
            for _ in range(STRETCHES):
                until = time.perf_counter() + seconds / STRETCHES
                begin, count = time.process_time(), 0
                while time.perf_counter() < until:
                    next(steps)
                    count += 1
                rounds.append((time.process_time() - begin) / count)
            begin = time.process_time()
    return {"rounds": rounds, "end_s": time.process_time() - begin, "last": count}


def main() -> int:
    parser = argparse.ArgumentParser(description="what a profile costs in a long loop")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--faster", type=float, default=5.0, help="than a loop of ten minutes")
    parser.add_argument("--one", default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    side = round(SIDE / options.faster**0.5)
    if options.one is not None:
        print(json.dumps(measure(options.seconds, side, options.one)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a.profile"
        usual = [sys.executable, __file__, "--seconds", str(options.seconds)]
        usual += ["--faster", str(options.faster), "--one"]
        ways = [subprocess.Popen([*usual, way], stdout=subprocess.PIPE) for way in (str(file), "")]
        told = [json.loads(way.communicate()[0]) for way in ways]
        size = file.stat().st_size
    costs = [100 * (a / b - 1) for a, b in zip(told[0]["rounds"], told[1]["rounds"], strict=True)]
    third = STRETCHES // 3
    parts = {"all": costs, "first third": costs[:third], "last third": costs[-third:]}
    rounds_s = statistics.median(told[1]["rounds"])
    stands = options.seconds * options.faster / 60
    print(f"{options.seconds:.0f} s for {stands:.0f} minutes, rounds of {1e3 * rounds_s:.2f} ms")
    for name, values in parts.items():
        print(f"{name:12} cost {statistics.median(values):+.1f} % (median of stretches)")
    print(f"its end took {told[0]['end_s']:.3f} s, its file {size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
