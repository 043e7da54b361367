"""Ten programs in NumPy's common styles, unchanged, with and without `npaccel.accelerate()`.

Each in `bench/programs/` has `inputs()` and `main()`. Calls take turns; the inputs are plain arrays
in both. The last column: how much of the block's time was not spent in NumPy's own functions; the
lines below it say which those were.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import npaccel
from npaccel.demo import as_tuple, compare, load
from npaccel.dispatch.fallback import FALLBACKS

PROGRAMS = Path(__file__).parent / "programs"


def accelerated(main: Any, arrays: dict[str, Any]) -> tuple[Any, ...]:
    """The results of `main` in a block, evaluated."""
    with npaccel.accelerate():
        results = as_tuple(main(**arrays))
    npaccel.evaluate(*results)
    return results


def measure(path: Path, rounds: int) -> tuple[str, float, bool]:
    """A row of the table, the speed-up, and whether the results are the same."""
    module = load(path)
    arrays = module.inputs()
    kept = {name: value.copy() for name, value in arrays.items()}
    expected = as_tuple(module.main(**arrays))
    start = time.perf_counter()
    results = accelerated(module.main, arrays)
    first = time.perf_counter() - start
    comparison = compare(expected, results)
    same = comparison.ok and all(np.array_equal(kept[n], arrays[n], True) for n in kept)
    del expected, results
    accelerated(module.main, arrays)
    FALLBACKS.clear()
    plain, ours = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        module.main(**arrays)
        middle = time.perf_counter()
        accelerated(module.main, arrays)
        ours.append(time.perf_counter() - middle)
        plain.append(middle - start)
    counted = FALLBACKS.counts()
    seconds: dict[str, float] = {}
    for (function, reason, site), took in FALLBACKS.seconds().items():
        key = f"{function} ({reason}) line {site.rpartition(':')[2]}"
        key += f" {counted[function, reason, site] // rounds}x"
        seconds[key] = seconds.get(key, 0.0) + took / rounds
    speedup = statistics.median(plain) / statistics.median(ours)
    share = 1.0 - sum(seconds.values()) / statistics.fmean(ours)
    row = f"{path.stem:12} {comparison.words:16} {statistics.median(plain) * 1e3:8.1f} ms "
    row += f"{first * 1e3:8.0f} ms {statistics.median(ours) * 1e3:8.1f} ms "
    row += f"{speedup:6.2f}x {share:5.0%}"
    for key, took in sorted(seconds.items(), key=lambda item: -item[1])[:12]:
        row += f"\n    {took * 1e3:7.2f} ms  {key}"
    return row, speedup, same


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args(arguments)
    np.seterr(all="ignore")
    print("program      same result?        NumPy   first call      block speed-up  ours")
    speedups, wrong = [], []
    for path in sorted(PROGRAMS.glob("*.py")):
        if not options.names or path.stem in options.names:
            row, speedup, same = measure(path, options.rounds)
            print(row, flush=True)
            speedups.append(speedup)
            wrong += [] if same else [path.stem]
    mean = math.exp(statistics.fmean(map(math.log, speedups)))
    print(f"geometric mean {mean:.2f}x, slowest {min(speedups):.2f}x; different: {wrong or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
