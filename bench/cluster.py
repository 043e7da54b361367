"""Steady steps on a cluster of two workers, beside one process of two threads, and dask.array.

    python bench/cluster.py [--rounds 9] [--only stencil] [--size large] [--json FILE]

Data is placed before. The workers have one thread each, and are the same for npaccel and dask,
which take turns within each round. Results are compared before anything is timed. dask's programs
are written with `map_overlap` and `persist`, on blocks of rows as npaccel's.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait

import npaccel

SIZES = {"large": 5000, "small": 500}
SWEEPS = 6  # of a flush
WARM = 14


def elements(x: Any, y: Any, a: float) -> Any:
    """Thirty operations."""
    z = x
    for k in range(8):
        z = z * y + (a + k)
        z = z * 0.25
    for _ in range(3):
        z = np.exp(-np.sqrt(z * z))
    return z


def sweep(u: Any, a: float) -> Any:
    return u[1:-1, 1:-1] + (0.1 + 0.001 * a) * (
        u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]
    )


def sweep_block(u: np.ndarray, a: float) -> np.ndarray:
    """Of a block with a row of its neighbours above and below; the grid's edges stay."""
    found = u.copy()
    found[1:-1, 1:-1] = sweep(u, a)
    return found


class Numpys:
    """Programs in NumPy's words: arrays live where `place` puts them. Each step has another scalar:
    dask does not compute again what has the same name."""

    def __init__(self, values: np.ndarray, other: np.ndarray, place: Callable[..., Any]) -> None:
        self.x, self.y = place(values.copy()), place(other.copy())
        self.z = place(np.zeros_like(values))
        self.u = place(values.copy())
        self.result: Any = None

    def _keep(self, made: Any) -> None:
        self.z[...] = made
        self.result = npaccel.evaluate(self.z)

    def elements(self, a: float) -> None:
        self._keep(elements(self.x, self.y, a))

    def stencil(self, a: float) -> None:
        u = self.u
        for _ in range(SWEEPS):
            u[1:-1, 1:-1] = sweep(u, a)
        self.result = npaccel.evaluate(u)

    def reductions(self, a: float) -> None:
        w = self.x * self.y + a
        total, rows, top = w.sum(), (w * w).sum(axis=1), (w - self.x).max(axis=0)
        npaccel.evaluate(total, rows, top)
        self.result = float(total), rows, top

    def transposed(self, a: float) -> None:
        self._keep(self.x * a + self.y.T)


class Dasks:
    """The same with dask.array."""

    def __init__(self, values: np.ndarray, other: np.ndarray, parts: int) -> None:
        chunks = (-(-len(values) // parts), values.shape[1])
        self.x, self.y, self.u = (
            da.from_array(one.copy(), chunks=chunks).persist() for one in (values, other, values)
        )
        wait([self.x, self.y, self.u])
        self.result: Any = None

    def _keep(self, made: Any) -> None:
        self.result = made.persist()
        wait(self.result)

    def elements(self, a: float) -> None:
        self._keep(elements(self.x, self.y, a))

    def stencil(self, a: float) -> None:
        for _ in range(SWEEPS):
            self.u = self.u.map_overlap(sweep_block, depth={0: 1, 1: 0}, boundary="none", a=a)
        self._keep(self.u)
        self.u = self.result

    def reductions(self, a: float) -> None:
        w = self.x * self.y + a
        total, rows, top = w.sum(), (w * w).sum(axis=1), (w - self.x).max(axis=0)
        rows, top, total = dask.persist(rows, top, total)
        wait([rows, top, total])
        self.result = float(total), rows, top

    def transposed(self, a: float) -> None:
        self._keep(self.x * a + self.y.T)


PROGRAMS = ("elements", "stencil", "reductions", "transposed")


def contents(result: Any) -> list[np.ndarray]:
    parts = result if isinstance(result, tuple) else (result,)
    return [np.asarray(one.compute() if isinstance(one, da.Array) else one) for one in parts]


def compare(contenders: dict[str, Any], name: str) -> None:
    """npaccel's two have the same bits; dask's sums have another order."""
    for one in contenders.values():
        getattr(one, name)(0.5)
    found = {who: contents(one.result) for who, one in contenders.items()}
    for one, other in zip(found["cluster"], found["process"], strict=True):
        assert one.tobytes() == other.tobytes(), name
    for one, other in zip(found["cluster"], found["dask"], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


def measure(contenders: dict[str, Any], name: str, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of each step."""
    times: dict[str, list[float]] = {who: [] for who in contenders}
    order = list(contenders)
    for who, one in contenders.items():
        for k in range(WARM if who != "dask" else 2):
            getattr(one, name)(k + 1.0)
    for k in range(rounds):
        for who in order[k % 3 :] + order[: k % 3]:
            step = getattr(contenders[who], name)
            step(0.3 + k)  # the others were in the caches
            begin = time.perf_counter()
            step(0.7 + k)
            times[who].append(1e3 * (time.perf_counter() - begin))
    return times


def keep_workers(pipe: Connection) -> None:
    """In a process of its own: a scheduler would wait for this one's npaccel."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as local:
        pipe.send(local.scheduler_address)
        pipe.recv()


@contextmanager
def workers() -> Iterator[str]:
    """The address of a scheduler with two workers of one thread."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=keep_workers, args=(theirs,))
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send(None)
        process.join()


def shown(times: list[float]) -> str:
    low, middle, high = statistics.quantiles(times, n=4)
    return f"{middle:9.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", choices=PROGRAMS)
    parser.add_argument("--size", choices=SIZES)
    parser.add_argument("--parts", type=int, default=2, help="blocks of rows, for dask")
    parser.add_argument("--json")
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    rows = []
    with (
        workers() as address,
        Client(address),
        npaccel.Cluster(address) as cluster,
    ):
        print(f"{'ms':24}{'two workers':>30}{'one process':>30}{'dask.array':>30}  ratios")
        for size in [options.size] if options.size else SIZES:
            side = SIZES[size]
            values, other = rng.random((side, side)), rng.random((side, side))
            contenders = {
                "cluster": Numpys(values, other, lambda one: npaccel.asarray(one, device=cluster)),
                "process": Numpys(values, other, npaccel.asarray),
                "dask": Dasks(values, other, options.parts),
            }
            for name in [options.only] if options.only else PROGRAMS:
                compare(contenders, name)
                times = measure(contenders, name, options.rounds)
                middle = {who: statistics.median(one) for who, one in times.items()}
                rows.append({"size": size, "program": name, "ms": times})
                ratios = [middle[who] / middle["cluster"] for who in ("process", "dask")]
                cells = "".join(f"{shown(one):>30}" for one in times.values())
                print(f"{size:6} {name:17}{cells}  {ratios[0]:.2f}  {ratios[1]:.1f}", flush=True)
                rows[-1]["ratios"] = ratios
            del contenders
        for at, who in enumerate(("one process", "dask.array")):
            found = [row["ratios"][at] for row in rows]
            mean = math.exp(statistics.fmean(map(math.log, found)))
            print(f"beside {who}: geometric mean {mean:.2f}, least {min(found):.2f}")
        print(cluster.stats())
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file)


if __name__ == "__main__":
    main()
