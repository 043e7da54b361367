"""Does `auto` choose the best backend? Each program with each fixed one, and with `auto`.

The programs of array_programs.py in `npaccel.accelerate()`, a process for each. First each backend
runs it for some calls, `auto` last and until it has decided; then all run it by turns, in another
order each round, several calls in a row, as a program does that stays with one: the first ones,
after another backend's threads and memory, are not timed, and of the others the median counts.

Medians in milliseconds, of wall time and, in the second line, of processor time, which other work
on the machine disturbs less; then `auto` as a multiple of the best fixed backend, the median over
the rounds (and its quartiles), and what ran `auto`'s kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from harness import ROOT, machine, quartiles, write

FIXED = ("numpy", "llvm", "opencl")
BACKENDS = (*FIXED, "auto")
WARM = 10  # calls with each, which is enough to be compared
AFTER_ANOTHER, TIMED = 3, 5  # calls in a row
DECIDING_S = 2.0  # what `auto` is called for at the least, after that
LONGEST_S = 600.0


def child(path: Path, rounds: int) -> None:
    import numpy as np
    from array_programs import accelerated, warm_up

    import npaccel
    from npaccel.demo import load

    np.seterr(all="ignore")
    module = load(path)
    arrays = module.inputs()
    for backend in BACKENDS:
        with npaccel.backend(backend):
            accelerated(module.main, arrays)
            warm_up(module.main, arrays)
            end = time.process_time() + (DECIDING_S if backend == "auto" else 0.0)
            for _ in range(WARM):
                accelerated(module.main, arrays)
            while time.process_time() < end:
                accelerated(module.main, arrays)
    wall: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
    processor: dict[str, list[float]] = {backend: [] for backend in BACKENDS}
    ran: Counter[str] = Counter()
    for number in range(rounds):
        for backend in np.random.default_rng(number).permutation(BACKENDS).tolist():
            with npaccel.backend(backend):
                for _ in range(AFTER_ANOTHER):
                    accelerated(module.main, arrays)
                npaccel.stats(reset=True)
                times = []
                for _ in range(TIMED):
                    used, start = time.process_time(), time.perf_counter()
                    accelerated(module.main, arrays)
                    times.append((time.perf_counter() - start, time.process_time() - used))
                wall[backend].append(statistics.median(taken for taken, _ in times))
                processor[backend].append(statistics.median(used for _, used in times))
                if backend == "auto":
                    ran.update(npaccel.stats()["kernels_by_backend"])
    calls = rounds * TIMED
    kernels = {name: round(number / calls, 1) for name, number in ran.items() if number}
    print(json.dumps({"wall": wall, "processor": processor, "ran": kernels}))


def compared(times: dict[str, list[float]]) -> dict[str, float]:
    """Medians, and `auto` as a multiple of the best fixed backend in the same round."""
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    best = min(FIXED, key=medians.__getitem__)
    ratios = [a / b for a, b in zip(times["auto"], times[best], strict=True)]
    spread = quartiles(ratios)
    return medians | {"ratio": spread["median_s"], "low": spread["q1_s"], "high": spread["q3_s"]}


def line(name: str, row: dict[str, float]) -> str:
    cells = "".join(f"{1e3 * row[backend]:9.1f}" for backend in BACKENDS)
    return f"{name:16}{cells}{row['ratio']:8.2f} ({row['low']:.2f} .. {row['high']:.2f})"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", type=lambda text: text.split(","), help="e.g. heat,returns")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, default=ROOT / ".bench" / "backends.json")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        child(options.child, options.rounds)
        return 0
    from array_programs import PROGRAMS

    heads = "".join(f"{name:>9}" for name in BACKENDS)
    print(f"{'program':16}{heads}  auto / best  (load {os.getloadavg()[0]:.1f})")
    results, skipped = {}, {}
    for path in (path for folder in PROGRAMS for path in sorted(folder.glob("*.py"))):
        if options.only and path.stem not in options.only:
            continue
        asked = ["--child", str(path), "--rounds", str(options.rounds)]
        done = subprocess.run(
            [sys.executable, __file__, *asked],
            env=os.environ | {"NPACCEL_TIERING": "adaptive"},
            capture_output=True,
            text=True,
            check=False,
            timeout=LONGEST_S,
        )
        if done.returncode != 0:
            skipped[path.stem] = (done.stderr.strip().splitlines() or ["failed"])[-1]
            print(f"{path.stem:16} {skipped[path.stem]}", flush=True)
            continue
        found = json.loads(done.stdout.splitlines()[-1])
        row = {kind: compared(found[kind]) for kind in ("wall", "processor")}
        results[path.stem] = row | {"ran": found["ran"]}
        print(line(path.stem, row["wall"]) + f"  {found['ran']}", flush=True)
        print(line("", row["processor"]), flush=True)
    for kind in ("wall", "processor"):
        over = [name for name, row in results.items() if row[kind]["ratio"] > 1.1]
        print(f"{kind} time: over 1.10 in {len(over)} of {len(results)}: {', '.join(over)}")
    write({"machine": machine(), "results": results, "skipped": skipped}, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
