"""Ufuncs of numbers alone in a block: types, bits, warnings and errors are NumPy's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import npaccel

from .comparison import Case, all_same, seen
from .test_ufuncs import UFUNCS

PYTHONS = (0.0, -0.0, 1.5, -2.5, 1e300, 5e-324, float("inf"), float("nan"), 0, 1, -3, 2**62, 2**63)
NUMPYS = tuple(
    np.dtype(char).type(value)
    for char, values in {
        "d": (0.0, -0.75, 1e308, np.inf, np.nan),
        "f": (0.0, -1.25, 3e38, 1e-45, np.nan),
        "l": (0, 7, -9, 2**63 - 1),
        "q": (5,),
        "i": (-4,),
        "B": (200,),
        "?": (True,),
        "e": (2.5,),
        "g": (0.1,),
        "D": (1 - 2j,),
    }.items()
    for value in values
)
OTHERS = (True, 1j, None, "x", [1.5], np.str_("a"), np.datetime64("2020-01-01"), 10**400)
NUMBERS: tuple[Any, ...] = PYTHONS + NUMPYS + OTHERS


class Half(float):
    """A float of the program's own."""


def operands(count: int) -> Iterator[tuple[Any, ...]]:
    if count == 1:
        yield from ((x,) for x in (*NUMBERS, Half(0.5)))
    elif count == 2:
        yield from itertools.product(NUMBERS, NUMBERS)
        yield Half(0.5), 1.5
    else:
        few = (0.0, 1.5, 3, np.float64(-2), np.float32(2), np.int64(4), True)
        yield from itertools.product(few, few, few)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", sorted(UFUNCS))
def test_numbers(name: str) -> None:
    u = UFUNCS[name]

    def cases() -> Iterator[Case]:
        for values in operands(u.nin):
            yield repr(values), u, lambda v=values: v

    all_same(cases())


ARRAYS = (
    *map(np.array, NUMPYS),
    np.array(2.5, ">f8"),
    np.array(3, "timedelta64[s]"),
    np.array(None),
    np.frombuffer(b"\0" + np.float64(1.25).tobytes(), "f8", 1, 1)[0:1].reshape(()),
    np.ma.array(1.5),
    np.ones(1),
)
MIXED: tuple[Any, ...] = (*ARRAYS, 1.5, 0, -3, 2**63, np.float64(-0.75), np.float32(2), np.int64(7))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", sorted(UFUNCS))
def test_arrays_without_axes(name: str) -> None:
    u = UFUNCS[name]

    def cases() -> Iterator[Case]:
        few = (np.array(1.5), np.array(True), np.array(4), 0.0, np.array(2, "f4"))
        given = MIXED if u.nin < 3 else few
        for values in itertools.product(given, repeat=u.nin):
            yield repr(values), u, lambda v=values: v

    all_same(cases())


def test_operators_of_arrays_without_axes() -> None:
    x = np.array(2.5)
    with npaccel.accelerate():
        assert [type(x * 2), type(2 * x), type(x + x), type(-x)] == [np.float64] * 4
        assert type(x == np.array(2.5)) is np.bool_
        assert np.asarray(x) is x and np.asanyarray(x, float) is x and np.array(x) is not x
        assert x.astype(float, copy=False) is x and np.asarray(x, int).dtype == int
        assert np.asanyarray(1j) == 1j and np.array([1j, 2]).dtype == complex
        y = x
        y *= 3
        assert y is x and x == 7.5
        assert np.round(x) == 8.0 and np.around(np.array(1.25), 1) == 1.2


@pytest.mark.parametrize("u", [np.divmod, np.modf, np.frexp], ids=lambda u: u.__name__)
def test_several_results(u: np.ufunc) -> None:
    all_same((repr(v), u, lambda v=v: v) for v in operands(u.nin))


def test_clip_and_round() -> None:
    def cases() -> Iterator[Case]:
        bounds = (None, 0, -1.5, np.float32(0.5), np.int64(2), 2**70, float("nan"), "x")
        for x in NUMBERS:
            for low, high in itertools.product(bounds, bounds):
                yield f"clip {x!r} {low!r} {high!r}", np.clip, lambda v=(x, low, high): v
            for decimals in (0, 1, 2, 8, 9, -1, 400, True, 1.0, None):
                for function in (np.round, np.around):
                    yield f"round {x!r} {decimals}", function, lambda v=(x, decimals): v
        yield "clip", lambda x: np.clip(x, a_min=0, a_max=1), lambda: (1.5,)
        yield "round", lambda x: np.round(x, decimals=1), lambda: (1.25,)

    all_same(cases())
    draws = np.random.default_rng(2).lognormal(0, 9, 3000)
    expected = [np.round(x, n) for x in draws for n in (0, 3)]
    with npaccel.accelerate():
        assert [np.round(x, n) for x in draws for n in (0, 3)] == expected


@pytest.mark.parametrize("kind", ["ignore", "raise", "call", "warn"])
def test_errstate(kind: Any) -> None:
    heard: list[tuple[str, int]] = []

    def under(u: np.ufunc, *values: Any) -> Any:
        with np.errstate(all=kind, call=lambda *what: heard.append(what)):
            return u(*values)

    calls = [
        (np.divide, 1.0, 0.0),
        (np.log, 0.0),
        (np.log, np.float64(-1)),
        (np.exp, 1000.0),
        (np.exp, -1000.0),
        (np.multiply, np.float32(3e38), 10.0),
        (np.sqrt, -2),
        (np.power, 2, -1),
    ]
    for u, *values in calls:
        expected, there = seen(under, (u, *values)), heard[:]
        heard.clear()
        with npaccel.accelerate():
            found = seen(under, (u, *values))
        assert (found, heard) == (expected, there), (u, values)
        heard.clear()


def test_bits_of_many() -> None:
    draws = np.random.default_rng(5)
    values = [*draws.normal(size=400) * 10, *draws.lognormal(0, 30, 200)]
    for name, u in UFUNCS.items():
        if u.nin > 2 or "d" * u.nin + "->" not in " ".join(u.types):
            continue
        rows = [(x, float(y))[: u.nin] for x, y in itertools.pairwise(values)]
        rows += [(float(x), y)[: u.nin] for x in values for y in (2.0, 2, -1)]
        rows += [(k, float(k % 5))[: u.nin] for k in range(1, 9999, 7)]
        with np.errstate(all="ignore"):
            expected = [u(*row) for row in rows]
            with npaccel.accelerate():
                found = [u(*row) for row in rows]
        assert np.array(found).tobytes() == np.array(expected).tobytes(), name
        assert set(map(type, found)) == set(map(type, expected)), name
