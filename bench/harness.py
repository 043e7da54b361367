"""What every benchmark shares: interleaved rounds, quartiles, verified results, JSON.

A benchmark file answers one question. It makes a `Bench`, adds contenders (functions that set up
and return the call to time) and calls `main`. A contender whose package is missing is left out
with that reason. Every contender's result is compared with the reference before it is timed.
"""

from __future__ import annotations

import argparse
import contextvars
import datetime
import importlib.metadata
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Bench", "Call", "Skip", "machine", "parse", "quartiles"]

# What is timed here are kernels; those that ask about first calls say so.
os.environ.setdefault("NPACCEL_TIERING", "eager")

ROOT = Path(__file__).parent.parent
PACKAGES = ("npaccel", "numpy", "numexpr", "numba", "jax", "jaxlib", "llvmlite", "scipy")
Call = Callable[[], Any]


class Skip(Exception):
    """A contender cannot run here; the text says why."""


@dataclass
class Contender:
    """One way to compute the result. `make` sets up and returns the call to time."""

    name: str
    make: Callable[[], Call]
    tolerance: float = math.inf
    call: Call | None = None
    error: float = 0.0
    first_s: float = 0.0
    samples_s: list[float] = field(default_factory=list)
    context: contextvars.Context = field(default_factory=contextvars.Context)

    def __post_init__(self) -> None:
        if "npaccel" in self.name:  # the others' arrays do not lie in its memory
            self.context = contextvars.copy_context()

    def run(self) -> Any:
        """What its call gives."""
        assert self.call is not None
        return self.context.run(self.call)


@dataclass
class Bench:
    """One question, put to several contenders.

    moved_bytes: what must be read and written at the least; gives a bandwidth per contender.
    """

    question: str
    description: str
    moved_bytes: int = 0
    rounds: int = 15
    reference: Call | None = None
    contenders: list[Contender] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, make: Callable[[], Call], tolerance: float = 1e-12) -> None:
        """Enter a contender; its result may differ by `tolerance`, relative to the largest."""
        self.contenders.append(Contender(name, make, tolerance))

    def yardstick(self, name: str, make: Callable[[], Call]) -> None:
        """Enter something to measure by, whose result means nothing."""
        self.contenders.append(Contender(name, make))

    def main(self, arguments: list[str] | None = None) -> int:
        """Verify, time, print and write JSON; returns 1 when a result is wrong."""
        options = parse(arguments, self.rounds)
        entered = [
            c for c in self.contenders if not options.only or c.name.split()[0] in options.only
        ]
        print(f"{self.question}: {self.description.strip().splitlines()[0]}", flush=True)
        wanted = as_arrays(self.reference()) if self.reference else None
        ready = [c for c in entered if self.prepare(c, wanted)]
        del wanted
        wrong = [c for c in ready if c.error > c.tolerance]
        interleave(ready, options.rounds)
        report = self.report(ready)
        print_table(report)
        write(report, options.json or ROOT / ".bench" / f"{self.question}.json")
        for c in wrong:
            print(f"WRONG: {c.name} is off by {c.error:.1e}, allowed {c.tolerance:.0e}")
        return 1 if wrong else 0

    def prepare(self, contender: Contender, wanted: list[np.ndarray[Any, Any]] | None) -> bool:
        try:
            contender.call = contender.context.run(contender.make)
        except (ImportError, Skip) as reason:
            self.skipped[contender.name] = str(reason)
            return False
        start = time.perf_counter()
        result = contender.run()
        contender.first_s = time.perf_counter() - start
        if wanted is not None and contender.tolerance < math.inf:
            contender.error = relative_error(wanted, as_arrays(result))
        return True

    def report(self, ready: list[Contender]) -> dict[str, Any]:
        rows = {}
        for c in ready:
            rows[c.name] = quartiles(c.samples_s) | {"first_s": c.first_s, "error": c.error}
            if self.moved_bytes:
                rows[c.name]["gb_per_s"] = self.moved_bytes / rows[c.name]["median_s"] / 1e9
        return {
            "question": self.question,
            "description": self.description.strip(),
            "moved_bytes": self.moved_bytes,
            "machine": machine(),
            "results": rows,
            "skipped": self.skipped,
        }


def parse(arguments: list[str] | None, rounds: int) -> argparse.Namespace:
    """The options that all benchmarks take; `arguments` None: the process's own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", type=lambda text: text.split(","), help="e.g. numpy,numba")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--json", type=Path, help="where the results go (default .bench/)")
    return parser.parse_args(arguments)


def interleave(contenders: list[Contender], rounds: int, warm_up: int = 2) -> None:
    """Each round times everyone once, each time beginning with another."""
    for number in range(-warm_up, rounds):
        start = number % max(1, len(contenders))
        for c in contenders[start:] + contenders[:start]:
            begin = time.perf_counter()
            result = c.run()
            elapsed = time.perf_counter() - begin
            del result
            if number >= 0:
                c.samples_s.append(elapsed)


def quartiles(samples_s: list[float]) -> dict[str, float]:
    ordered = sorted(samples_s)
    low, middle, high = (
        statistics.quantiles(ordered, n=4, method="inclusive") if len(ordered) > 1 else ordered * 3
    )
    return {"median_s": middle, "q1_s": low, "q3_s": high, "min_s": ordered[0], "n": len(ordered)}


def as_arrays(result: Any) -> list[np.ndarray[Any, Any]]:
    return [np.array(x) for x in (result if isinstance(result, tuple | list) else (result,))]


def relative_error(wanted: list[np.ndarray[Any, Any]], got: list[np.ndarray[Any, Any]]) -> float:
    """The largest difference, relative to the largest value of its array."""
    if [x.shape for x in wanted] != [x.shape for x in got]:
        return math.inf
    errors = []
    for want, have in zip(wanted, got, strict=True):
        gap = np.abs(want.astype(np.float64) - have.astype(np.float64))
        scale = float(np.abs(want).max(initial=0.0)) or 1.0
        errors.append(float(gap.max(initial=0.0)) / scale)
    return max(math.inf if math.isnan(error) else error for error in errors)


def machine() -> dict[str, Any]:
    """The machine, its load, and the versions of all that runs on it."""
    cpu, memory_kib = platform.processor(), 0
    if sys.platform == "linux":
        info = dict(line.split(":", 1) for line in read_lines("/proc/cpuinfo") if ":" in line)
        cpu = info.get("model name", cpu).strip() if info else cpu
        sizes = dict(line.split(":", 1) for line in read_lines("/proc/meminfo"))
        memory_kib = int(sizes["MemTotal"].split()[0])
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(memory_kib / 2**20, 1),
        "load": os.getloadavg(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES if version(name)},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def read_lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def print_table(report: dict[str, Any]) -> None:
    rows = report["results"]
    print(f"  {'':18} {'median':>10} {'quartiles':>21} {'first':>10} {'GB/s':>7} {'error':>8}")
    for name, row in sorted(rows.items(), key=lambda item: item[1]["median_s"]):
        spread = f"{row['q1_s'] * 1e3:.2f} .. {row['q3_s'] * 1e3:.2f}"
        bandwidth = f"{row['gb_per_s']:.1f}" if "gb_per_s" in row else ""
        print(
            f"  {name:18} {row['median_s'] * 1e3:7.2f} ms {spread:>21} "
            f"{row['first_s'] * 1e3:7.1f} ms {bandwidth:>7} {row['error']:8.0e}"
        )
    for name, reason in report["skipped"].items():
        print(f"  {name:18} left out: {reason}")


def write(report: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")
