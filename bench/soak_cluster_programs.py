"""Random programs on a cluster against one process, to the bit.

    python bench/soak_cluster_programs.py [--programs 500] [--workers 4] [--first 0] [--seconds 600]

The programs are those of tests/cluster/test_planner.py and test_deepening.py, on arrays with
various maps, read and written at home in between, through addresses, too. At the end it tells how
much of them ran on the workers: what runs at home proves nothing. Where packets are lost:

    python bench/namespaces.py --loss 5 -- python bench/soak_cluster_programs.py --address {address}
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import npaccel
from npaccel import Map

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = map(str, (TESTS, TESTS / "cluster"))
# Operations that were recorded, and of these that ran on the workers; how often they were asked.
COUNTED = ("requests", "fallbacks", "cluster_requests", "cluster_runs", "cluster_refused")
SHAPES = [(96, 60), (257, 33), (64, 128), (500, 40)]


def maps(shape: tuple[int, int], nodes: int) -> list[Map | None]:
    return [
        None,
        Map.block(shape, nodes),
        Map.block(shape, nodes, axis=1),
        Map.row_block(shape, nodes),
        Map.block_cyclic(shape, nodes, (16, 16)),
    ]


def program(seed: int, shape: tuple[int, int], nodes: int, place: Any) -> list[bytes]:
    """What is the same for each seed, wherever arrays are. Nothing stays pending, lest the next
    program runs together with it."""
    from test_deepening import _sweep
    from test_planner import _step

    rng = np.random.default_rng(seed)
    kinds = maps(shape, nodes)
    arrays = [place(rng.normal(size=shape), kinds[rng.integers(len(kinds))]) for _ in range(3)]
    kind = seed % 3  # steps of all kinds, stencils, or both
    for k in range(12):
        sweep = kind == 1 or (kind == 2 and rng.random() < 0.5)
        (_sweep if sweep else _step)(rng, arrays)
        if rng.random() < 0.2:
            x = arrays[rng.integers(len(arrays))]
            arrays.append(x + float(np.asarray(x)[k, k]))
            np.asarray(x)[k] = 0.5
        if rng.random() < 0.2:
            npaccel.evaluate()
    return [np.asarray(one).tobytes() for one in arrays]


def example(name: str, place: Any) -> list[bytes]:
    """What one of the examples gives, small as its test has it."""
    from test_examples import results, small_inputs

    arrays = {
        key: place(one, None) if isinstance(one, np.ndarray) and one.dtype.names is None else one
        for key, one in small_inputs(name).items()
    }
    return [np.asarray(one).tobytes() for one in results(name, arrays)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--address", help="of a scheduler with so many workers; else they are new")
    parser.add_argument("--examples", action="store_true", help="these, and no random programs")
    parser.add_argument("--first", type=int, default=0, help="seed")
    parser.add_argument("--seconds", type=float, default=1e9, help="at most so long")
    options = parser.parse_args()
    npaccel.config.tiering = "off"  # here; the workers compile
    npaccel.config.threshold = 0  # else NumPy computes what is as small as this
    with npaccel.Cluster(options.address or options.workers) as cluster, np.errstate(all="ignore"):
        compare(cluster, options)


def compare(cluster: npaccel.Cluster, options: argparse.Namespace) -> None:
    """Each program there and here; what came of it is told."""
    wrong, done, at_home, begin = 0, 0, 0, time.monotonic()
    ran = Counter[str]()  # by the programs on the cluster

    def there(values: np.ndarray, made: Map | None) -> Any:
        return npaccel.asarray(values, device=cluster, map=made)

    def here(values: np.ndarray, made: Map | None) -> Any:
        return npaccel.asarray(values)

    for name, run in programs(options):
        if time.monotonic() - begin > options.seconds:
            break
        before = npaccel.stats()
        found = run(there)
        after = npaccel.stats()
        ran.update({key: after[key] - before[key] for key in COUNTED})
        done += 1
        if done % 50 == 0:  # in case it does not come to its end
            print(f"{done} programs: {dict(ran)}", flush=True)
        same = [one == other for one, other in zip(found, run(here), strict=True)]
        at_home += npaccel.stats()["cluster_runs"] - after["cluster_runs"]
        if not all(same):
            wrong += 1
            print(f"{name}: WRONG {same}", flush=True)
    print(f"{done} programs on {cluster.nodes} workers: {wrong} wrong")
    assert not at_home, f"what they are compared with ran there, too, {at_home} times"
    print(f"{time.monotonic() - begin:.0f} s; {dict(ran)}; {cluster.stats()}", flush=True)


def programs(options: argparse.Namespace) -> Iterator[tuple[str, Callable[[Any], list[bytes]]]]:
    """The examples, or random programs by their seeds."""
    if options.examples:
        from test_examples import SMALL

        for name in sorted(SMALL):
            yield name, functools.partial(example, name)
        return
    for seed in range(options.first, options.first + options.programs):
        shape = SHAPES[seed % len(SHAPES)]
        yield f"seed {seed}", functools.partial(program, seed, shape, options.workers)


if __name__ == "__main__":
    main()
