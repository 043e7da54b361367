"""Random programs that are looked at: does `peek` show NumPy's values, does `watch` stop where a
condition becomes true, and do the programs that are looked at, watched, or run operation by
operation (`step`), stay the same to the bit?

    python bench/looks.py [--programs 5000] [--first 0]

Each program has a number, of which it is made: arrays of several dtypes, of 60 elements or of
60,000, and up to 16 statements on them (arithmetic, in place, through views, reductions, scans,
picks, casts, draws). It runs by NumPy, by npaccel, by npaccel with looks at all arrays and at parts
of them after some statements, by npaccel under `step`, and with the arrays that it begins with
watched. What is left, and the generator's state, have to be the same in the last four; what was
seen, what is left and the stops NumPy's to the bit, but in one program in four, which has sums of
floats (dtypes and shapes there); and operations and runs must be as many with looks as without.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import npaccel

Values = list[Any]
SIZES = (60, 60, 60, 60_000)
DTYPES = ("f8", "f8", "f4", "i8", "i4", "u1", "c16")
MOST = 16  # statements
WITH_SUMS = 4  # one program in so many
BEGUN = 3  # arrays, which are watched
MUCH = 45
COUNTED = ("requests", "flushes", "guard_faults")


class Statement(NamedTuple):
    """deed : of DEEDS. k, other : of arrays. looks : whether there is one behind it."""

    deed: str
    k: int
    other: int
    looks: bool


def _as(b: Any, a: Any) -> Any:
    """In the dtype of `a`."""
    return (b.real if a.dtype.kind != "c" else b).astype(a.dtype)


def _in_place(a: Any, b: Any) -> Any:
    a += _as(b, a)
    return a


def _shifted(a: Any, b: Any) -> Any:
    a[1:] = _as(b, a)[:-1]
    return a


def _every_other(a: Any, b: Any) -> Any:
    a[::2] *= 2
    return a


def _own_shift(a: Any, b: Any) -> Any:
    a[2:] = a[:-2] + a[1:-1]
    return a


# Of two arrays of one length, what takes the first one's place. Sums of floats are npaccel's own in
# their last bits.
SUMS = ("sum", "mean", "cumsum")
DEEDS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "chain": lambda a, b: (a * 2 - b) * a + 3,
    "root": lambda a, b: np.sqrt(np.abs(a) + 1),
    "divide": lambda a, b: a / (np.abs(b) + 1),
    "where": lambda a, b: np.where(abs(a) > abs(b), a, b),
    "negative": lambda a, b: -a[::-1],
    "in place": _in_place,
    "shifted": _shifted,
    "every other": _every_other,
    "own shift": _own_shift,
    "cast": lambda a, b: a.astype("f4") if a.dtype.kind != "c" else a.real + 0,
    "rows": lambda a, b: (a.reshape(6, -1) + b[: a.size // 6]).ravel(),
    "pick": lambda a, b: a[np.arange(a.size)[::-1]],
    "maximum": lambda a, b: a - abs(b.reshape(6, -1)).max(axis=0).repeat(6)[: a.size],
    "sum": lambda a, b: a + b.reshape(6, -1).sum(axis=0).repeat(6)[: a.size] * 0.5,
    "mean": lambda a, b: a - b.mean(),
    "cumsum": lambda a, b: a + b.cumsum() * 1e-3,
}


def made(number: int) -> tuple[list[np.ndarray], list[Statement]]:
    """The arrays it begins with, and what it does."""
    choice = random.Random(number)
    numbers = np.random.default_rng(number)
    size = choice.choice(SIZES)
    arrays = [
        (numbers.standard_normal(size) * 10 + 20).astype(choice.choice(DTYPES))
        for _ in range(BEGUN)
    ]
    names = [name for name in (*DEEDS, "draw") if number % WITH_SUMS == 0 or name not in SUMS]
    steps = [
        Statement(
            choice.choice(names),
            choice.randrange(BEGUN),
            choice.randrange(BEGUN),
            choice.random() < 0.4,
        )
        for _ in range(choice.randint(1, MOST))
    ]
    return arrays, steps


def run(
    number: int,
    wrap: Callable[[np.ndarray], Any],
    look: Callable[[Values], None],
    after: Callable[[], None] = lambda: None,
) -> tuple[Values, Any]:
    """What the program leaves, and its generator's state. look : is given the arrays behind
    statements with a look. after : is called behind each."""
    arrays, steps = made(number)
    values = [wrap(array.copy()) for array in arrays]
    generator = np.random.default_rng(number)
    with np.errstate(all="ignore"):
        for step in steps:
            a = values[step.k]
            if step.deed == "draw":
                values[step.k] = a + wrap(generator.random(a.size))
            else:
                values[step.k] = DEEDS[step.deed](a, values[step.other])
            after()
            if step.looks:
                look(values)
        left = [np.array(value) for value in values]
    return left, generator.bit_generator.state


def alike(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """In dtypes and shapes."""
    forms = [[(a.dtype, a.shape) for a in arrays] for arrays in (one, other)]
    return forms[0] == forms[1]


def same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """To the bit, but for the payload of NaN."""
    return alike(one, other) and all(map(_same, one, other))


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind not in "fc":
        return a.tobytes() == b.tobytes()
    parts = [(a, b)] if a.dtype.kind == "f" else [(a.real, b.real), (a.imag, b.imag)]
    return all(
        np.array_equal(x, y, equal_nan=True)
        and np.array_equal(np.signbit(x) & (x == 0), np.signbit(y) & (y == 0))
        for x, y in parts
    )


def counted(number: int, look: Callable[[Values], None]) -> tuple[Values, Any, list[int]]:
    before = npaccel.stats()
    left, state = run(number, npaccel.asarray, look)
    after = npaccel.stats()
    return left, state, [after[name] - before[name] for name in COUNTED]


def is_much(value: np.ndarray) -> bool:
    return bool((abs(value) > MUCH).any())


def watched(number: int) -> tuple[Values, Any, list[int]]:
    """What is left, and how often a watch of each array that it begins with stopped."""
    watches: list[Any] = []

    def wrap(array: np.ndarray) -> Any:
        made = npaccel.asarray(array)
        if len(watches) < BEGUN:
            watches.append(npaccel.watch(made, is_much))
        return made

    before, sys.breakpointhook = sys.breakpointhook, lambda: None
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            left, state = run(number, wrap, lambda values: None)
        return left, state, [watch.stops for watch in watches]
    finally:
        sys.breakpointhook = before
        for watch in watches:
            watch.stop()


def wrong(number: int) -> tuple[str, int]:
    """What is wrong with it, or ''; how many arrays were looked at."""
    wanted: Values = []
    seen: Values = []
    compare = alike if number % WITH_SUMS == 0 else same

    def numpys(values: Values) -> None:
        wanted.extend(value.copy() for value in values)
        wanted.extend(value[1:9:3].copy() for value in values)

    def look(values: Values) -> None:
        seen.extend(map(npaccel.peek, values))
        seen.extend(npaccel.peek(value, at=np.s_[1:9:3]) for value in values)

    arrays: Values = []
    stops, was = [0] * BEGUN, [False] * BEGUN

    def conditions() -> None:
        now = list(map(is_much, arrays[:BEGUN]))
        stops[:] = [n + (b and not a) for n, a, b in zip(stops, was, now, strict=True)]
        was[:] = now

    def wrap(array: np.ndarray) -> np.ndarray:
        arrays.append(array)
        if len(arrays) == BEGUN:
            conditions()
        return array

    plain, state = run(number, wrap, numpys, conditions)
    ours = counted(number, lambda values: None)
    looked = counted(number, look)
    with npaccel.step():
        stepped = run(number, npaccel.asarray, lambda values: None)
    watch = watched(number)
    checks = {
        "what was seen": compare(seen, wanted),
        "what looks leave": same(looked[0], ours[0]),
        "what step leaves": same(stepped[0], ours[0]),
        "what watches leave": same(watch[0], ours[0]),
        "where they stop": watch[2] == stops or compare is alike,
        "NumPy's results": compare(ours[0], plain),
        "the generator": state == ours[1] == looked[1] == stepped[1] == watch[1],
        "operations and runs": looked[2] == ours[2],
    }
    return ", ".join(name for name, good in checks.items() if not good), len(seen)


def main() -> int:
    parser = argparse.ArgumentParser(description="random programs that are looked at")
    parser.add_argument("--programs", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    options = parser.parse_args()
    npaccel.config.threshold = 0
    looks, bad, begin = 0, 0, time.perf_counter()
    for number in range(options.first, options.first + options.programs):
        found, seen = wrong(number)
        looks += seen
        if found:
            bad += 1
            print(f"program {number}: {found}", file=sys.stderr, flush=True)
    seconds = time.perf_counter() - begin
    print(f"{options.programs} programs, {looks} looks, {bad} wrong; {seconds:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
