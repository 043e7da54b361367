"""Loops over arrays below the threshold: NumPy, npaccel, and npaccel without their recording.

    python bench/smaller_loops.py --sizes 8192,16384,32000

Microseconds of a round, the least of many repeats; each way in a process of its own. "at once" is
npaccel with a threshold of 1 MiB, so that operators are recorded from 256 KiB on: what these sizes
would have without the trials of smaller arrays.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from harness import ROOT, machine, write

rng = np.random.default_rng(0)


def weno(n, rounds):
    u = rng.random(n) + 1
    for _ in range(rounds):
        left2, left, right, right2 = (np.roll(u, k) for k in (2, 1, -1, -2))
        b0 = 13 / 12 * (left2 - 2 * left + u) ** 2 + 0.25 * (left2 - 4 * left + 3 * u) ** 2
        b1 = 13 / 12 * (left - 2 * u + right) ** 2 + 0.25 * (left - right) ** 2
        a0, a1 = 0.1 / (1e-6 + b0) ** 2, 0.6 / (1e-6 + b1) ** 2
        face = (a0 * (2 * left2 - 7 * left + 11 * u) + a1 * (-left + 5 * u + 2 * right)) / (a0 + a1)
        u = u - 1e-6 * (face - right2)
    return u[3]


def oscillators(n, rounds):
    x, v = rng.random(n), np.zeros(n)
    for _ in range(rounds):
        v -= x * 0.01
        v *= 0.999
        x += v * 0.01
    return x[5]


def lorenz(n, rounds):
    x, y, z = rng.random((3, n))
    for _ in range(rounds):
        dx, dy, dz = 10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z
        x, y, z = x + 1e-3 * dx, y + 1e-3 * dy, z + 1e-3 * dz
    return x[0] + y[0] + z[0]


def gray_scott(n, rounds):
    m = int(n**0.5)
    u, v = rng.random((2, m, m))
    for _ in range(rounds):
        around = [sum(np.roll(w, s, k) for s in (1, -1) for k in (0, 1)) - 4 * w for w in (u, v)]
        uvv = u * v * v
        u += 0.16 * around[0] - uvv + 0.06 * (1 - u)
        v += 0.08 * around[1] + uvv - 0.122 * v
    return u[2, 3]


def sweep(n, rounds):
    m = int(n**0.5)
    a = rng.random((m, m))
    for _ in range(rounds):
        a[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
    return a[2, 3]


def fluxes(n, rounds):
    u = rng.random(n)
    for _ in range(rounds):
        f, c = 0.5 * u * u, np.abs(u).max()
        g = 0.5 * (f[1:] + f[:-1]) - 0.5 * c * (u[1:] - u[:-1])
        u[1:-1] -= 0.04 / c * (g[1:] - g[:-1])
    return u[4]


def distance(n, rounds):
    u, v = rng.random((2, n))
    return sum(float(((u * v - 0.5) ** 2).sum()) for _ in range(rounds))


def largest(n, rounds):
    u, v = rng.random((2, n))
    return sum(np.where(u > 0.5, u * 2, v).max() for _ in range(rounds))


def functions(n, rounds):
    u, v = rng.random((2, n))
    return sum((np.exp(-u * v) * np.sin(u))[7] for _ in range(rounds))


PROGRAMS = (weno, oscillators, lorenz, gray_scott, sweep, fluxes, distance, largest, functions)
WAYS = ("numpy", "npaccel", "at once")


def least(program, n, seconds):
    """Microseconds of a round, after two fifths of the time."""
    program(n, 3)
    start = time.perf_counter()
    program(n, 20)
    rounds = max(20, int(0.05 * 20 / (time.perf_counter() - start)))
    best, warm = float("inf"), time.perf_counter() + 0.4 * seconds
    while (now := time.perf_counter()) < warm + 0.6 * seconds:
        program(n, rounds)
        took = (time.perf_counter() - now) / rounds
        best = min(best, took) if now >= warm else best
    return 1e6 * best


def child(way, n, seconds):
    block = contextlib.nullcontext()
    if way != "numpy":
        import npaccel

        npaccel.config.tiering = "adaptive"
        npaccel.config.threshold = 1 << (20 if way == "at once" else 18)
        block = npaccel.accelerate()
    with block:
        print(json.dumps({p.__name__: least(p, n, seconds) for p in PROGRAMS}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="8192,16384,32000")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a program")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", type=Path, default=ROOT / ".bench" / "smaller_loops.json")
    options = parser.parse_args()
    rows = {}
    for n in map(int, options.sizes.split(",")):
        found = {way: {} for way in WAYS}
        for _ in range(options.rounds):
            for way in WAYS:
                command = [sys.executable, __file__, way, str(n), str(options.seconds)]
                done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=os.environ)
                for name, us in json.loads(done.stdout).items():
                    found[way].setdefault(name, []).append(us)
        print(f"{n:<14}" + "".join(f"{way:>10}" for way in WAYS) + "   us a round")
        for program in PROGRAMS:
            name = program.__name__
            times = [min(found[way][name]) for way in WAYS]
            rows[f"{name}, {n}"] = {way: found[way][name] for way in WAYS}
            print(f"{name:<14}" + "".join(f"{us:10.1f}" for us in times), flush=True)
    write({"machine": machine(), "rows": rows}, options.json)


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] in WAYS:
        child(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
    else:
        main()
