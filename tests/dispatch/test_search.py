"""np.interp and searchsorted of many elements, on all threads: NumPy's to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel

Array = np.ndarray[Any, Any]
N = 20_011  # more than are left to NumPy, and no multiple of anything
NAN, INF = np.nan, np.inf


@pytest.fixture(autouse=True)
def usual_threshold() -> None:
    npaccel.config.threshold = 1 << 16


def seen(call: Callable[[], Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            result = call()
    except (TypeError, ValueError, OverflowError) as error:
        return type(error), str(error)
    return result.dtype, result.shape, result.strides, np.array(result).tobytes()


def same(call: Callable[[], Any], where: object) -> None:
    expected = seen(call)
    with npaccel.accelerate():
        assert seen(call) == expected, where
    assert seen(call) == expected


def tables(dtype: str) -> Iterator[Array]:
    rng = np.random.default_rng(3)
    edges = [-INF, -3.0, -3.0, -0.0, 0.0, 0.0, 1.0, 2.5, 2.5, 2.5, INF]
    for size in (1, 2, 3, 4, 5, 7, 64, 1000, 70_000):
        yield np.sort(rng.integers(-50, 50, size)).astype(dtype)
        yield rng.integers(-50, 50, size).astype(dtype)
    if dtype in "fd":
        yield np.array(edges, dtype)
        yield np.array([*edges, NAN, NAN], dtype)
        yield np.array([NAN, *edges], dtype)
        yield np.full(9, NAN, dtype)
    yield np.array([], dtype)


def queries(dtype: str) -> Iterator[Array]:
    rng = np.random.default_rng(4)
    found = rng.integers(-60, 60, N).astype(dtype)
    if dtype in "fd":
        found = (found + rng.integers(0, 2, N) / 4).astype(dtype)
        found[rng.integers(0, N, 400)] = np.resize([NAN, INF, -INF, -0.0, 0.0], 400)
    yield found
    yield np.sort(found)
    yield np.sort(found)[::-1]
    yield found[: 3 * (N // 3)].reshape(3, -1)
    yield found[:9]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["d", "f", "l", "i", "H", "D", ">f8"])
def test_searchsorted(dtype: str) -> None:
    for table in tables(dtype):
        for values in queries(dtype):
            for side in ("left", "right"):
                same(lambda: table.searchsorted(values, side), (table, values, side))  # noqa: B023
            same(lambda: np.searchsorted(table, values), (table, values))  # noqa: B023


@pytest.mark.parametrize("dtype", ["?", "b", "H", "i", "l", "L", "e", "f", "d"])
@pytest.mark.parametrize("other", ["i", "l", "f", "d", "L"])
def test_two_types(dtype: str, other: str) -> None:
    rng = np.random.default_rng(5)
    values = (rng.normal(size=N) * 60).astype(dtype)
    large = np.array([2**53, 2**53 + 1, -(2**53) - 1, 2**62, 16_777_217, 7], "l")
    if dtype in "lLd":
        values[: 6 * 500] = np.tile(large, 500).astype(dtype)
    for table in (np.linspace(-50, 50, 64), np.sort(rng.normal(size=1000) * 40), np.sort(large)):
        for side in ("left", "right"):
            same(lambda: table.astype(other).searchsorted(values, side), (table, side))  # noqa: B023
        same(lambda: np.digitize(values, table.astype(other)), table)  # noqa: B023


def test_uneven_tables() -> None:
    rng = np.random.default_rng(6)
    values = np.concatenate([rng.normal(size=N) * s for s in (1e-9, 1e-3, 1, 1e6)])
    values[::50] = np.resize([NAN, INF, -INF, -0.0, 0.0, 1.0], values[::50].size)
    tables = [
        np.logspace(-12, 7, 300),
        np.sort(rng.normal(size=3000)),
        np.sort(np.round(rng.normal(size=3000), 1)),
        np.r_[0.0, np.full(500, 1.0), 1e9],
        np.cumsum(np.arange(20_000.0)) - 5e7,
        np.array([0.0, 5e-324, 1e-323]),
        np.array([-1e308, 0.0, 1e308]),
        np.array([1.0, np.nextafter(1.0, 2)]),
    ]
    for table in tables:
        for side in ("left", "right"):
            same(lambda: table.searchsorted(values, side), (table, side))  # noqa: B023
            same(lambda: table.searchsorted(table.repeat(9000 // len(table) + 5), side), side)  # noqa: B023


def test_ways_to_call_it() -> None:
    table, values = np.arange(100.0), next(queries("d"))
    order = np.argsort(-table)
    calls: list[Callable[[], Any]] = [
        lambda: table.searchsorted(values),
        lambda: table.searchsorted(v=values),
        lambda: table.searchsorted(values, side="right"),
        lambda: table.searchsorted(values, "right", None),
        lambda: table.searchsorted(values, sorter=order),
        lambda: table.searchsorted(values, side="middle"),
        lambda: table.searchsorted(values, 3),
        lambda: table.searchsorted(values, other=3),
        lambda: np.searchsorted(table, values, side="right", sorter=None),
        lambda: np.searchsorted(list(table), values),
        lambda: np.searchsorted(table, list(values)),
        lambda: np.searchsorted(table, values.astype("f4")),
        lambda: np.searchsorted(table.reshape(10, 10), values),
        lambda: np.searchsorted(table[::2], values[::2]),
        lambda: np.digitize(values, table[::-1]),
        lambda: np.digitize(values, table, right=True),
    ]
    for place, call in enumerate(calls):
        same(call, place)


CURVES: dict[str, tuple[Any, Any]] = {
    "usual": (np.linspace(-55, 55, 300), np.sin(np.arange(300.0))),
    "two": ([0.0, 1.0], [5.0, -3.0]),
    "one": ([0.5], [2.0]),
    "steps": ([0.0, 1.0, 1.0, 1.0, 2.0, 2.0], [1.0, 2.0, 5.0, -1.0, 0.0, 7.0]),
    "infinite places": ([-INF, -1.0, 3.0, INF], [1.0, 2.0, 3.0, 4.0]),
    "infinite values": ([-9.0, -1.0, 3.0, 9.0, 12.0], [1.0, INF, INF, -INF, 0.0]),
    "no numbers": ([-9.0, -1.0, 3.0, 9.0], [1.0, NAN, 3.0, 4.0]),
    "a place is none": ([-9.0, -1.0, 3.0, NAN], [1.0, 2.0, 3.0, 4.0]),
    "unsorted": ([-9.0, 5.0, 3.0, 9.0, -2.0, 40.0], [1.0, 2.0, 3.0, 4.0, 0.0, 9.0]),
    "falling": ([9.0, 5.0, 3.0, -4.0, -8.0], [1.0, 2.0, 3.0, 4.0, 5.0]),
    "zeros": ([-0.0, 0.0, 1.0], [-0.0, 3.0, -0.0]),
    "more than elements": (np.arange(50_000) / 500 - 50, np.cos(np.arange(50_000.0))),
    "far more": (np.arange(200_000) / 2000 - 50, np.cos(np.arange(200_000.0))),
    "crowded": (np.r_[np.sort(np.sin(np.arange(900.0))), 1e3, 2e3], np.cos(np.arange(902.0))),
    "many of a place": (np.repeat([-50.0, -1.0, 0.0, 2.0, 7.0], 40), np.sin(np.arange(200.0))),
    "far apart": ([-1e308, -1.0, 0.0, 2.0, 1e308], [1.0, 2.0, 3.0, 4.0, 5.0]),
    "near": ([0.0, 5e-324, 1e-323, 2e-323, 3e-323], [1.0, 2.0, 3.0, 4.0, 5.0]),
    "all in one": (np.full(50, 2.0), np.arange(50.0)),
    "integers": (np.arange(-50, 50), np.arange(100) ** 2),
    "of two lengths": ([0.0, 1.0, 2.0], [0.0, 1.0]),
    "none": ([], []),
}


@pytest.mark.parametrize("curve", CURVES.values(), ids=CURVES)
def test_interp(curve: tuple[Any, Any]) -> None:
    xp, fp = map(np.asarray, curve)
    for x in queries("d"):
        same(lambda: np.interp(x, xp, fp), x)  # noqa: B023
    x = next(queries("d"))
    same(lambda: np.interp(x, xp, fp, -7.5, NAN), "outside")
    same(lambda: np.interp(x, xp, fp, left=1, right=2), "integers outside")
    same(lambda: np.interp(x, xp, fp, right=2.5), "right")
    same(lambda: np.interp(x, xp, fp, left="a"), "no number")
    same(lambda: np.interp(x, xp, fp * 1j), "complex")
    same(lambda: np.interp(x, xp, fp, period=7.0), "period")
    same(lambda: np.interp(x[::2], xp[::1], fp), "strided")
    same(lambda: np.interp(x.astype("f4"), xp, fp), "floats")
    same(lambda: np.interp(x, xp, fp, np.float32(2), np.float64(3)), "scalars outside")
    same(lambda: np.interp(x, xp, fp, 2**2000), "far outside")
    with np.errstate(all="ignore"):
        kinds = [x.astype(kind) for kind in ("l", "B", "?", "e", "g", ">f8", "F", "O")]
    for y in (*kinds, x[: N // 3 * 3].reshape(3, -1).T, x[::-1]):
        same(lambda: np.interp(y, xp, fp), y.dtype)  # noqa: B023
    with np.errstate(all="ignore"):
        tables = [xp.astype("i4"), xp.astype(">f8"), xp.astype("f4"), list(xp), tuple(xp.tolist())]
    for table in tables:
        same(lambda: np.interp(x, table, fp), "table")  # noqa: B023
        same(lambda: np.interp(x, xp, table), "values")  # noqa: B023
        same(lambda: np.interp(x, table, fp.tolist()), "lists")  # noqa: B023


def test_pending_arrays() -> None:
    npaccel.config.threshold = 0
    x, xp = next(queries("d")), np.linspace(-50, 50, 1000)
    expected = np.interp(x * 0.5, xp * 2, xp**2) + np.searchsorted(xp * 2, x * 3)
    with npaccel.accelerate():
        found = np.interp(x * 0.5, xp * 2, xp**2) + np.searchsorted(xp * 2, x * 3)
    np.testing.assert_array_equal(np.asarray(found), expected)


@pytest.mark.parametrize("modern", [False, True])
def test_draws_with_weights_are_searched_for_by_all_threads(modern: bool) -> None:
    weights = np.random.default_rng(8).random(600)
    weights /= weights.sum()

    def draw() -> Array:
        made: Any = np.random.default_rng(9) if modern else np.random.RandomState(9)
        found: Array = made.choice(600, 100_000, p=weights)
        return found

    expected = draw()
    npaccel.config.threshold = 1 << 18
    with npaccel.accelerate():
        # What it draws lies behind its address, in memory that nobody has looked at before either,
        # and another thread may be the first to look.
        found = [draw() for _ in range(40)][-1]
    assert np.array_equal(found, expected)
