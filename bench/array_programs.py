"""Ten programs in NumPy's common styles, and the demo's examples, in `npaccel.accelerate()`.

Each in `bench/programs/` and `examples/` has `inputs()` and `main()`. Calls take turns; the inputs
are plain arrays in both. Timing begins when what is compiled in the background is there.

The last columns are of further calls in which `npaccel run --report`'s clocks run: milliseconds in
kernels, in NumPy (its own functions, or its loops an operation at a time), and in all else (Python,
recording, memory; small arrays too); then the share of kernels in the time on arrays, which is the
first two. The lines below a row say what NumPy did.
"""

from __future__ import annotations

import argparse
import contextvars
import functools
import math
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import npaccel
from npaccel import _native
from npaccel.demo import as_tuple, compare, load
from npaccel.dispatch.fallback import FALLBACKS
from npaccel.observe.usage import kernel_share

HERE = Path(__file__).parent
PROGRAMS = (HERE / "programs", HERE.parent / "examples")
WARM_S = 10.0  # most that is waited for kernels
WATCHED = 3  # calls with the clocks on


class Row(NamedTuple):
    """What was found of a program; `seconds`: per activity, of one call."""

    text: str
    speedup: float
    same: bool
    seconds: Mapping[str, float]


def accelerated(main: Any, arrays: dict[str, Any]) -> tuple[Any, ...]:
    """The results of `main` in a block, evaluated."""
    with npaccel.accelerate():
        results = as_tuple(main(**arrays))
    npaccel.evaluate(*results)
    return results


def warm_up(main: Any, arrays: dict[str, Any]) -> None:
    """Call until two calls in a row wait for no kernel any more."""
    end, quiet = time.perf_counter() + WARM_S, 0
    while quiet < 2 and time.perf_counter() < end:
        before = npaccel.stats()["tier0_runs"]
        accelerated(main, arrays)
        quiet = quiet + 1 if npaccel.stats()["tier0_runs"] == before else 0
        if not quiet:
            time.sleep(0.1)


def watch(main: Any, arrays: dict[str, Any]) -> tuple[dict[str, float], float, list[str]]:
    """Seconds per activity and in all of a call, and what NumPy ran in lines of text."""
    FALLBACKS.clear()
    before, start = _native.times(True), time.perf_counter()
    for _ in range(WATCHED):
        accelerated(main, arrays)
    wall = (time.perf_counter() - start) / WATCHED
    after = _native.times(False)
    seconds = {name: (after[name] - before[name]) / WATCHED for name in after}
    counts, took = FALLBACKS.counts(), FALLBACKS.seconds()
    lines = [
        f"    {took[key] / WATCHED * 1e3:7.2f} ms  {key[0]} ({key[1]}) "
        f"line {key[2].rpartition(':')[2]} {counts[key] // WATCHED}x"
        for key in sorted(took, key=lambda key: -took[key])[:12]
        if took[key] > 0
    ]
    return seconds, wall, lines


def share(seconds: dict[str, float]) -> float:
    """Of the time on arrays; where there was none, all of it was in kernels."""
    found = kernel_share(seconds)
    return 1.0 if found is None else found


def measure(path: Path, rounds: int) -> Row:
    """Time one program."""
    module = load(path)
    arrays = module.inputs()
    # Large arrays lie in NumPy's memory there.
    plainly = functools.partial(contextvars.Context().run, module.main, **arrays)
    kept = {name: value.copy() for name, value in arrays.items()}
    expected = as_tuple(plainly())
    start = time.perf_counter()
    accelerated(module.main, arrays)
    first = time.perf_counter() - start
    warm_up(module.main, arrays)
    results = accelerated(module.main, arrays)
    comparison = compare(expected, results)
    same = comparison.ok and all(np.array_equal(kept[n], arrays[n], True) for n in kept)
    del expected, results
    plain, ours = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        plainly()
        middle = time.perf_counter()
        accelerated(module.main, arrays)
        ours.append(time.perf_counter() - middle)
        plain.append(middle - start)
    seconds, wall, lines = watch(module.main, arrays)
    speedup = statistics.median(plain) / statistics.median(ours)
    in_numpy = seconds["loops"] + seconds["numpy"]
    row = f"{path.stem:13} {comparison.words:12} {statistics.median(plain) * 1e3:8.1f} "
    row += f"{first * 1e3:8.0f} {statistics.median(ours) * 1e3:8.1f} {speedup:6.2f}x "
    row += f"{seconds['kernels'] * 1e3:8.1f} {in_numpy * 1e3:7.1f} "
    row += f"{(wall - seconds['kernels'] - in_numpy) * 1e3:7.1f} {share(seconds):6.0%}"
    if seconds["loops"] > 0:
        lines.append(f"    {seconds['loops'] * 1e3:7.2f} ms  operations one at a time")
    return Row("\n".join([row, *lines]), speedup, same, seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args(arguments)
    np.seterr(all="ignore")
    print("program       same result?    NumPy    first    block speed-up  ", end="")
    print("kernels   NumPy    else  share   (milliseconds)")
    rows: dict[str, Row] = {}
    for path in (path for folder in PROGRAMS for path in sorted(folder.glob("*.py"))):
        if not options.names or path.stem in options.names:
            try:
                rows[path.stem] = measure(path, options.rounds)
            except ModuleNotFoundError as missing:
                print(f"{path.stem}: needs {missing.name}")
            else:
                print(rows[path.stem].text, flush=True)
    mean = math.exp(statistics.fmean(math.log(row.speedup) for row in rows.values()))
    slowest = min(rows, key=lambda name: rows[name].speedup)
    wrong = [name for name, row in rows.items() if not row.same]
    names = ("kernels", "loops", "numpy")
    totals = {name: sum(row.seconds[name] for row in rows.values()) for name in names}
    shares = [share(row.seconds) for row in rows.values()]
    print(f"geometric mean {mean:.2f}x; slowest {slowest}, {rows[slowest].speedup:.2f}x; ", end="")
    print(f"of the time on arrays {share(totals):.0%} in kernels ", end="")
    print(f"(mean of the programs {statistics.fmean(shares):.0%}); different: {wrong or 'none'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
