"""Random programs on a cluster against one process, to the bit.

    python bench/soak_cluster_programs.py [--programs 500] [--workers 4] [--first 0] [--seconds 600]

The programs are those of tests/cluster/test_planner.py and test_deepening.py, on arrays with
various maps, read and written at home in between, through addresses, too. At the end it tells how
much of them ran on the workers: what runs at home proves nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import npaccel
from npaccel import Map

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "cluster"))
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--first", type=int, default=0, help="seed")
    parser.add_argument("--seconds", type=float, default=1e9, help="at most so long")
    options = parser.parse_args()
    npaccel.config.tiering = "off"  # here; the workers compile
    npaccel.config.threshold = 0  # else NumPy computes what is as small as this
    wrong, done, at_home, begin = 0, 0, 0, time.monotonic()
    ran = Counter[str]()  # by the programs on the cluster
    with npaccel.Cluster(options.workers) as cluster, np.errstate(all="ignore"):

        def there(values: np.ndarray, made: Map | None) -> Any:
            return npaccel.asarray(values, device=cluster, map=made)

        def here(values: np.ndarray, made: Map | None) -> Any:
            return npaccel.asarray(values)

        for seed in range(options.first, options.first + options.programs):
            if time.monotonic() - begin > options.seconds:
                break
            shape, before = SHAPES[seed % len(SHAPES)], npaccel.stats()
            found = program(seed, shape, options.workers, there)
            after = npaccel.stats()
            ran.update({name: after[name] - before[name] for name in COUNTED})
            done += 1
            if done % 50 == 0:  # in case it does not come to its end
                print(f"{done} programs: {dict(ran)}", flush=True)
            expected = program(seed, shape, options.workers, here)
            pairs = zip(found, expected, strict=True)
            same = [one == other for one, other in pairs]
            at_home += npaccel.stats()["cluster_runs"] - after["cluster_runs"]
            if not all(same):
                wrong += 1
                print(f"seed {seed}: WRONG {same}", flush=True)
        stats = cluster.stats()
    print(f"{done} programs on {options.workers} workers: {wrong} wrong")
    assert not at_home, f"what they are compared with ran there, too, {at_home} times"
    print(f"{time.monotonic() - begin:.0f} s; {dict(ran)}; {stats}")


if __name__ == "__main__":
    main()
