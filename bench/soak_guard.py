"""Faults by the million, then random programs for minutes: a wrong value, or growth?

    python bench/soak_guard.py [--faults 1000000] [--threads 4] [--minutes 0] [--programs 0]
                               [--seed 0]

Threads record small arrays and read each through a plain alias, so that nearly every read touches a
guarded page; some keep arrays alive, some free them at once, some let other threads read them. With
--minutes or --programs, at least so many of the random programs of tests/safety/program.py follow:
writes through aliases, pointers, memoryviews and system calls, threads, forks, scopes, deletions.
Resident memory and mappings are noted ten times; growth is the last against the third, when all
that is allocated once has been. Exits with 1 where a value was wrong or something grew.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np

import npaccel

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "safety"))
import program

SIZES = (1, 60, 513, 4000, 20000)
KEPT = 64
ALLOWED_GROWTH_BYTES = {"faults": 8 << 20, "programs": 64 << 20}  # programs fill caches of plans
ALLOWED_GROWTH_MAPPINGS = 2000


def resident_bytes() -> int:
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) << 10


def mappings() -> int:
    with open("/proc/self/maps") as maps:
        return sum(1 for _ in maps)


class Readers:
    """What the threads share: arrays to read, and what went wrong."""

    def __init__(self, seed: int) -> None:
        self.sources = {n: np.random.default_rng(seed).standard_normal(n) for n in SIZES}
        self.shared: list[tuple[np.ndarray, np.ndarray]] = []
        self.wrong: list[str] = []
        self.done = False

    def work(self, seed: int) -> None:
        choice = random.Random(seed)
        kept = []
        while not self.done:
            n = choice.choice(SIZES)
            factor = float(choice.randrange(1, 100))
            x = npaccel.asarray(self.sources[n]) * factor
            want = self.sources[n] * factor
            how = choice.randrange(8)
            if how == 0:
                self.shared.append((np.asarray(x), want))
                del self.shared[:-KEPT]
            elif how == 1:
                kept.append(x)
                del kept[:-KEPT]
            self.compare(choice, np.asarray(x), want)
            if how == 2 and self.shared:
                self.compare(choice, *choice.choice(self.shared))

    def compare(self, choice: random.Random, alias: np.ndarray, want: np.ndarray) -> None:
        n = len(want)
        if choice.random() < 0.5:
            at = choice.randrange(n)
            same = alias[at] == want[at]  # with the GIL
        else:
            same = np.array_equal(alias, want)  # NumPy's loops, without it
        if not same:
            self.wrong.append(f"{n} elements")


def measure(what: str, done: int, readings: list[dict[str, int]]) -> None:
    gc.collect()
    readings.append({"done": done, "resident": resident_bytes(), "mappings": mappings()})
    r = readings[-1]
    print(
        f"{what} {done:>10,}   {r['resident'] >> 20:5} MiB   {r['mappings']:6} mappings", flush=True
    )


def growth(readings: list[dict[str, int]]) -> dict[str, int]:
    first, last = readings[min(2, len(readings) - 1)], readings[-1]
    return {key: last[key] - first[key] for key in ("resident", "mappings")}


def soak_faults(count: int, threads: int, seed: int) -> dict[str, object]:
    readers = Readers(seed)
    readings: list[dict[str, int]] = []
    before, began = npaccel.stats()["guard_faults"], time.monotonic()
    workers = [
        threading.Thread(target=readers.work, args=(seed + k,), daemon=True) for k in range(threads)
    ]
    for worker in workers:
        worker.start()
    faults = 0
    while faults < count and not readers.wrong and any(worker.is_alive() for worker in workers):
        time.sleep(0.2)
        faults = npaccel.stats()["guard_faults"] - before
        if faults >= count * (len(readings) + 1) / 10:
            measure("faults", faults, readings)
    readers.done = True
    died = sum(not worker.is_alive() for worker in workers)
    for worker in workers:
        worker.join(60)
    wall_s = time.monotonic() - began
    return {
        "faults": faults,
        "wall_s": round(wall_s, 1),
        "us_per_fault": round(wall_s / max(faults, 1) * 1e6, 1),
        "by_known_programs": npaccel.stats()["fault_programs"],
        "wrong": len(readers.wrong) + died,
        "hung": sum(worker.is_alive() for worker in workers),
        "growth": growth(readings) if readings else {},
    }


def random_steps(choice: random.Random) -> list[tuple[str, int, int]]:
    names = [choice.choice(program.STEPS) for _ in range(30)]
    if choice.randrange(10) == 0:
        names[choice.randrange(30)] = "fork"
    return [(name, choice.randrange(5), choice.randrange(5)) for name in names]


def soak_programs(minutes: float, least: int, seed: int) -> dict[str, object]:
    warnings.simplefilter("ignore", DeprecationWarning)  # of forks with threads
    warnings.simplefilter("ignore", RuntimeWarning)
    choice = random.Random(seed)
    readings: list[dict[str, int]] = []
    began, programs = time.monotonic(), 0
    while time.monotonic() < began + minutes * 60 or programs < least:
        npaccel.config.backend = "llvm" if programs % 50 == 0 else "numpy"
        machine = program.Machine(choice.choice(SIZES[1:]) + 16, seed=programs)
        steps = random_steps(choice)
        try:
            for step in steps:
                machine.step(*step)
            machine.finish()
        except AssertionError as error:
            print(f"program {programs} {steps}: {error}")
            return {"programs": programs, "wrong": 1}
        programs += 1
        done = min(
            (time.monotonic() - began) / (minutes * 60) if minutes else 1.0,
            programs / least if least else 1.0,
        )
        if done >= (len(readings) + 1) / 10:
            measure("programs", programs, readings)
    return {"programs": programs, "wrong": 0, "growth": growth(readings) if readings else {}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--programs", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="auto", help="what the faults run, once it is known")
    options = parser.parse_args()
    npaccel.config.threshold = 0
    npaccel.config.backend = options.backend
    found = {}
    if options.faults:
        found["faults"] = soak_faults(options.faults, options.threads, options.seed)
    if options.minutes or options.programs:
        found["programs"] = soak_programs(options.minutes, options.programs, options.seed)
    print(json.dumps(found, indent=1))
    bad = False
    for name, part in found.items():
        grown = part.get("growth") or {"resident": 0, "mappings": 0}
        bad |= bool(part["wrong"]) or bool(part.get("hung"))
        bad |= grown["resident"] > ALLOWED_GROWTH_BYTES[name]
        bad |= grown["mappings"] > ALLOWED_GROWTH_MAPPINGS
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
