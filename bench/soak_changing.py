"""Random programs whose loops work on parts that change from round to round, each against NumPy.

    python bench/soak_changing.py [--programs 20000] [--seed 0] [--backend auto] [--check off]
                                  [--processes 1] [--show SEED]

The programs are those of `tests/runtime/changing.py`: statements on parts whose sizes, places,
steps and scalars come near each other, or near a limit, in some rounds. Each runs in NumPy, then
compiled and by blocks, on one to five threads, in blocks of `accelerate` or outside of them on
wrapped arrays; one in sixteen on arrays that are large for the usual threshold, one in eight while
a helper compiles. Compared are values, dtypes, shapes, and warnings with their lines, to the bit;
of sums of floats that they are near NumPy's, and the same in all of npaccel's runs.
"""

from __future__ import annotations

import contextlib
import faulthandler
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import npaccel
from npaccel import _native
from npaccel.runtime.devices import cost

sys.path.insert(0, str(Path(__file__).parent))
import soak_loops
import soak_programs
from changing import Changing
from changing import differences as differ

LARGE = {"n": 40_000, "m": 190}  # of 256 KiB, nearly, and more


def way(tiering: str, threads: int, threshold: int, block: Callable[[], Any]) -> Callable[[], Any]:
    @contextlib.contextmanager
    def opened() -> Iterator[None]:
        for name, usual in soak_programs.PAYS.items():
            setattr(cost.Costs, name, (lambda *_: True) if tiering == "adaptive" else usual)
        _native.trials(False)
        with npaccel.config(tiering=tiering, threads=threads, threshold=threshold), block():
            yield

    opened.__qualname__ = f"{tiering}, {threads} threads, {block}"
    return opened


def differences(seed: int) -> str:
    """How npaccel's outcome differs from NumPy's; empty: not at all."""
    faulthandler.dump_traceback_later(soak_programs.MOST_S, exit=True)
    chance = random.Random(seed)
    large = seed % 16 == 7
    threshold = 1 << 18 if large else chance.choice((0, 0, 0, 4096))
    blocks = (*[npaccel.accelerate] * 3, soak_programs.enabled, soak_programs.Nothing)
    tiers = ["eager", "off", *(["adaptive"] * 3 if seed % 8 == 3 else [])]
    chance.shuffle(tiers)
    ways = [way(t, chance.choice((1, 2, 2, 3, 5)), threshold, chance.choice(blocks)) for t in tiers]
    return differ(seed, ways, **(LARGE if large else {}))


soak_loops.differences = differences
soak_loops.Program = Changing  # type: ignore[assignment]
if __name__ == "__main__":
    sys.exit(soak_loops.main())
