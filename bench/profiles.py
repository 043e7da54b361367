"""What a profile costs, and how much of the time on arrays it finds lines for.

    python bench/profiles.py                      the examples
    python bench/profiles.py --npbench ../npbench  NPBench's programs, size S; see npbench.py

Each program runs in a process of its own: once compiled, batches of calls by turns without and with
a profile, whose beginning, end and file are part of it. `cost` is the median difference of
processor time, in percent; `lines` the part of kernels', loops' and NumPy's time that is some
line's; `sum` what all lines have of the wall time; `KiB` the file.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import npaccel
from npaccel import demo

sys.path.insert(0, str(Path(__file__).parent))
import npbench

EXAMPLES = Path(__file__).parent.parent / "examples"
ON_ARRAYS = ("kernels", "functions", "blocks", "loops", "numpy")
TIMEOUT_S = 300
LEAST_S = 1e-3  # on arrays, in a batch: of less the part on lines says nothing


def call_of(name: str, checkout: str) -> Callable[[], Any]:
    """One call of the program, in a block."""
    if checkout:
        run, arguments = npbench.program_of(Path(checkout), name, "S")
        return lambda: npbench.in_block(run, arguments, opened=False)
    program = demo.load(EXAMPLES / f"{name}.py")
    inputs = program.inputs()

    def call() -> None:
        with npaccel.accelerate():
            results = program.main(**inputs)
        npaccel.evaluate(*demo.as_tuple(results))

    return call


def batch(call: Callable[[], Any], times: int) -> float:
    """Processor time, of all threads."""
    begin = time.process_time()
    for _ in range(times):
        call()
    return time.process_time() - begin


def measure(name: str, checkout: str, seconds: float, batches: int) -> dict[str, float]:
    """A row, as numbers."""
    call = call_of(name, checkout)
    until = time.perf_counter() + 3
    while time.perf_counter() < until:  # until the helper has nothing to do
        before = npaccel.stats()["tier0_runs"]
        call()
        if npaccel.stats()["tier0_runs"] == before and time.perf_counter() > until - 2:
            break
    begin = time.perf_counter()
    call()
    times = max(1, round(seconds / (time.perf_counter() - begin)))
    plain, ours, parts = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "a"
        with npaccel.profile(file):
            call()  # its modules
        for turn in range(batches):
            for profiled in (turn % 2 == 1, turn % 2 == 0):  # each is the first as often
                if not profiled:
                    plain.append(batch(call, times))
                    continue
                begin_s = time.process_time()
                with npaccel.profile(file) as taken:
                    batch(call, times)
                ours.append(time.process_time() - begin_s)
                parts.append(parts_of(taken))
        size = file.stat().st_size
    differences = [b / a - 1 for a, b in zip(plain, ours, strict=True)]
    found = {"cost": 100 * statistics.median(differences), "KiB": size / 1024}
    found["ms"] = 1e3 * statistics.median(plain)
    return found | {key: statistics.median([part[key] for part in parts]) for key in parts[0]}


def parts_of(taken: Any) -> dict[str, float]:
    """Of one profile: what has a line, and the sum of all."""
    arrays, named, total = 0.0, 0.0, 0.0
    for line in taken.profile.lines:
        own = sum(line.seconds.get(kind, 0.0) for kind in ON_ARRAYS)
        arrays, named = arrays + own, named + (own if line.line else 0.0)
        total += line.total_s
    part = 100 * named / arrays if arrays > LEAST_S else 100.0
    return {"lines": part, "sum": 100 * total / taken.profile.wall_s}


def main() -> int:
    parser = argparse.ArgumentParser(description="what a profile costs")
    parser.add_argument("--npbench", default="", help="a checkout of NPBench")
    parser.add_argument("--only", default="", help="names of programs, with commas")
    parser.add_argument("--seconds", type=float, default=0.4, help="of a batch")
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    folder = Path(options.npbench) / "bench_info" if options.npbench else EXAMPLES
    names = sorted(path.stem for path in folder.glob("*.json" if options.npbench else "*.py"))
    names = [name for name in names if not options.only or name in options.only.split(",")]
    if options.one:
        print(json.dumps(measure(names[0], options.npbench, options.seconds, options.batches)))
        return 0
    print(f"{'':26}{'ms':>9}{'cost %':>9}{'lines %':>9}{'sum %':>9}{'KiB':>9}")
    rows = []
    for name in names:
        command = [sys.executable, "-W", "ignore", __file__, "--one", "--only", name]
        command += ["--npbench", options.npbench, "--seconds", str(options.seconds)]
        command += ["--batches", str(options.batches)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            print(f"{name:26}{(done.stderr.strip().splitlines() or ['failed'])[-1]}", flush=True)
            continue
        row = json.loads(done.stdout.splitlines()[-1])
        rows.append(row)
        cells = "".join(f"{row[key]:9.1f}" for key in ("ms", "cost", "lines", "sum", "KiB"))
        print(f"{name:26}{cells}", flush=True)
    if rows:
        costs = [row["cost"] for row in rows]
        least = min(row["lines"] for row in rows)
        print(f"cost: median {statistics.median(costs):.1f} %, most {max(costs):.1f} %; "
              f"least on lines {least:.1f} %, of {len(rows)}")  # fmt: skip
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
