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
from typing import Any, NamedTuple

import numpy as np
from cluster import PROGRAMS, Numpys

import npaccel
from npaccel.cluster.costs import Machine, predict
from npaccel.cluster.plans import ClusterPlan
from npaccel.cluster.scaling import amount, scaled

WARM = 14
WIDE = 4000  # of what is bound by memory
TINY = ("empty", "neighbours", "partials")
CROWD = ("streams", "computes")  # what all other cells are told by
HEAVY = 2000  # and by arithmetic
MOVED = (500, 4000)  # sides of what is moved


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
    """Some that compute next to nothing: alone, with a message to each neighbour, with partial
    results, with some and with much that moves. What is smaller is copied when it is recorded, and
    is on one node."""
    x, y = (npaccel.asarray(np.ones((4000, 8)), device=cluster) for _ in "xy")
    u, v = (npaccel.asarray(np.ones((WIDE, WIDE)), device=cluster) for _ in "uv")
    s, t = (npaccel.asarray(np.ones((HEAVY, HEAVY)), device=cluster) for _ in "st")

    def empty() -> None:
        np.add(x, 1.0, out=y)
        npaccel.evaluate(y)

    def neighbours() -> None:
        y[1:-1] = x[2:] + x[:-2]
        npaccel.evaluate(y)

    def streams() -> None:
        np.add(u, 1.0, out=v)
        npaccel.evaluate(v)

    def computes() -> None:
        z = s
        for _ in range(10):
            z = np.exp(z * -0.5)
        t[...] = z
        npaccel.evaluate(t)

    def partials() -> None:
        npaccel.evaluate(x.max(axis=0))

    def moved(side: int) -> Callable[[], None]:
        u, v = (npaccel.asarray(np.ones((side, side)), device=cluster) for _ in "uv")

        def move() -> None:
            v[...] = u.T
            npaccel.evaluate(v)

        return move

    found = {"empty": empty, "neighbours": neighbours, "partials": partials}
    found |= {"streams": streams, "computes": computes}
    return found | {side: moved(side) for side in MOVED}


def machine_of(times: dict[Any, float], alone: dict[Any, float], workers: int) -> Machine:
    """What its messages take: of a node that which it sends, or hears, which is as much."""
    at_once = min(workers, len(os.sched_getaffinity(0)))
    others = workers - 1
    begin_s = times["empty"]
    latency_s = max(1e-6, times["neighbours"] - begin_s) / min(2, others)
    partial_s = max(0.0, times["partials"] - begin_s - others * latency_s) / workers
    memory_s = (alone["streams"] - alone["empty"]) / WIDE**2  # of an element that is read, written
    streams, computes = (
        max(1.0, (times[name] - begin_s) / (alone[name] - alone["empty"]) * at_once)
        for name in ("streams", "computes")
    )
    left, sent = [], []
    for side in MOVED:
        one_s = max(1e-6, alone[side] - alone["empty"])
        memory = min(1.0, memory_s * side**2 / one_s)
        shared = one_s / at_once * (memory * streams + (1.0 - memory) * computes)
        left.append(times[side] - begin_s - shared)
        sent.append(8 * side * side * others // workers // workers)
    bytes_s = (sent[1] - sent[0]) / max(left[1] - left[0], 1e-6)
    large_s = max(0.0, left[0] - sent[0] / bytes_s - others * latency_s) / others
    order_s = max(0.0, begin_s - alone["empty"] - latency_s) / others
    return Machine(
        memory_bytes_s=2 * 8 / memory_s,
        network_bytes_s=bytes_s,
        latency_s=latency_s,
        flush_s=max(0.0, alone["empty"] - order_s),
        order_s=order_s,
        large_s=large_s,
        partial_s=partial_s,
        streams=streams,
        computes=computes,
    )


class Measured(NamedTuple):
    """Seconds of what tells of messages, and of each program, by name and side; the plans of the
    latter's flushes."""

    times: dict[Any, float]
    plans: dict[Any, list[ClusterPlan]]


def measured(workers: int, sides: list[int], rounds: int) -> Measured:
    """On a cluster of so many."""
    found = Measured({}, {})
    with npaccel.Cluster(workers) as cluster:
        for name, run in flushes(cluster).items():
            found.times[name] = quartile(
                run, rounds * (6 if name in TINY else 3 if name in CROWD else 1)
            )
        for side in sides:
            values = np.random.default_rng(1).random((side, side))
            there = Numpys(values, values, lambda one: npaccel.asarray(one, device=cluster))
            for name in PROGRAMS:
                run = getattr(there, name)
                found.times[name, side] = quartile(lambda run=run: run(0.5), rounds)
                before = npaccel.stats()["cluster_runs"]
                run(0.5)
                npaccel.evaluate()
                runs = npaccel.stats()["cluster_runs"] - before
                found.plans[name, side] = cluster.ask("plans", runs)
            del there, run
    return found


def foreseen(some: Measured, alone: Measured, what: Any, machine: Machine, cores: int) -> float:
    """Seconds of a program, which may be several flushes: one took each as long as it has to do."""
    shared, one = some.plans[what], alone.plans[what]
    begin_s = predict(one[0], machine).begin_s
    work = [amount(plan).elements for plan in one]
    left_s = max(0.0, alone.times[what] - len(one) * begin_s)
    parts = [begin_s + left_s * part / sum(work) for part in work]
    each = zip(shared, one, parts, strict=True)
    return sum(scaled(plan, of, s, machine, cores).total_s for plan, of, s in each)


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
        some = measured(workers, options.sides, options.rounds)
        machine = machine_of(some.times, alone.times, workers)
        print(machine)
        for side in options.sides:
            for name in PROGRAMS:
                said = foreseen(some, alone, (name, side), machine, cores)
                took, one = some.times[name, side], alone.times[name, side]
                print(
                    f"{name:12} {side:5}, {workers} workers: one took {1e3 * one:7.2f} ms; "
                    f"foreseen {1e3 * said:7.2f}, took {1e3 * took:7.2f} ms, "
                    f"{said / took:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
