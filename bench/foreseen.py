"""What the cost model foresees of flushes on several workers of this machine, and what they take.

    python bench/foreseen.py [--workers 2 4 8] [--sides 500 2000 4000] [--rounds 15]

The programs are those of bench/cluster.py. One worker says what a program takes; the model, what
becomes of that with several, which share the machine's cores. The machine's messages are measured
first, by flushes that hardly compute. Lower quartiles, since others use the machine, too.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from cluster import PROGRAMS, Numpys

import npaccel
from npaccel import Map
from npaccel.cluster.costs import Machine, scaled
from npaccel.cluster.plans import ClusterPlan
from npaccel.cluster.recorded import plan_pending

WARM = 14
WIDE = 2000  # of what is moved


def quartile(run: Callable[[], Any], rounds: int) -> float:
    """Seconds that it takes, once it is known."""
    times = []
    for k in range(WARM + rounds):
        begin = time.perf_counter()
        run()
        if k >= WARM:
            times.append(time.perf_counter() - begin)
    return statistics.quantiles(times, n=4)[0]


def flushes(cluster: npaccel.Cluster) -> dict[str, Callable[[], Any]]:
    """Some that compute next to nothing: alone, with a message to each neighbour, with much. What
    is smaller is copied when it is recorded, and is on one node."""
    shapes = [(4000, 8)] * 2 + [(WIDE, WIDE)] * 2
    x, y, u, v = (npaccel.asarray(np.ones(shape), device=cluster) for shape in shapes)

    def empty() -> None:
        np.add(x, 1.0, out=y)
        npaccel.evaluate(y)

    def neighbours() -> None:
        y[1:-1] = x[2:] + x[:-2]
        npaccel.evaluate(y)

    def moved() -> None:
        v[...] = u.T
        npaccel.evaluate(v)

    return {"empty": empty, "neighbours": neighbours, "moved": moved}


def machine_of(times: dict[str, float], alone: dict[str, float], workers: int) -> Machine:
    """What its messages take."""
    order_s = max(0.0, times["empty"] - alone["empty"]) / (workers - 1)
    heard = 2 * min(2, workers - 1)  # messages that a node in the middle sends and hears
    latency_s = max(1e-6, times["neighbours"] - times["empty"]) / heard
    sent = 2 * 8 * WIDE * WIDE * (workers - 1) // workers // workers  # and heard, of each node
    shared = alone["moved"] / min(workers, len(os.sched_getaffinity(0)))
    left = times["moved"] - shared - 2 * (workers - 1) * latency_s
    return Machine(
        network_bytes_s=sent / max(left, 1e-4),
        latency_s=latency_s,
        flush_s=alone["empty"] - order_s,
        order_s=order_s,
    )


def plan_of(name: str, side: int, workers: int) -> ClusterPlan:
    """Of a program on arrays with the maps that it has there."""
    made, found = Map.block((side, side), workers), []
    values = np.ones((side, side))
    program = Numpys(values, values, lambda one: npaccel.agile(npaccel.asarray(one), made))
    before = npaccel.evaluate
    before()

    def instead(*arrays: Any) -> Any:
        found.append(plan_pending(workers).plan)
        return before(*arrays)

    npaccel.evaluate = instead
    try:
        getattr(program, name)(0.5)
    finally:
        npaccel.evaluate = before
    return found[0]


def measured(workers: int, sides: list[int], rounds: int) -> dict[Any, float]:
    """Seconds of each program, by name and side, and of what tells of messages."""
    found: dict[Any, float] = {}
    with npaccel.Cluster(workers) as cluster:
        for name, run in flushes(cluster).items():
            found[name] = quartile(run, rounds)
        for side in sides:
            values = np.random.default_rng(1).random((side, side))
            there = Numpys(values, values, lambda one: npaccel.asarray(one, device=cluster))
            for name in PROGRAMS:
                run = getattr(there, name)
                found[name, side] = quartile(lambda run=run: run(0.5), rounds)
            del there, run
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--workers", type=int, nargs="*", default=[2, 4, 8])
    parser.add_argument("--sides", type=int, nargs="*", default=[500, 2000, 4000])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    npaccel.config.threshold = 0
    npaccel.config.tiering = "off"  # here; the workers compile
    cores = len(os.sched_getaffinity(0))
    alone = measured(1, options.sides, options.rounds)
    for workers in options.workers:
        times = measured(workers, options.sides, options.rounds)
        machine = machine_of(times, alone, workers)
        print(machine)
        for side in options.sides:
            for name in PROGRAMS:
                plans = (plan_of(name, side, n) for n in (workers, 1))
                said = scaled(*plans, alone[name, side], machine, cores)
                took, one = times[name, side], alone[name, side]
                print(
                    f"{name:12} {side:5}, {workers} workers: one took {1e3 * one:7.2f} ms; "
                    f"foreseen {1e3 * said.total_s:7.2f}, took {1e3 * took:7.2f} ms, "
                    f"{said.total_s / took:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
