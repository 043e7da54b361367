"""np.histogram in bins of equal width: NumPy's steps for each number, on all threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel

from .at_once import same

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.usefixtures("threads")


@pytest.fixture(autouse=True)
def usual_threshold(defer_everything: None) -> None:
    """Few of these arrays are deferred; `defer_everything` restores the threshold."""
    npaccel.config.threshold = 1 << 16


def numbers() -> Iterator[Array]:
    rng = np.random.default_rng(1)
    for size in (9000, 70_001):
        x = rng.normal(size=size)
        yield x
        yield np.round(x, 1)
        yield np.sort(x)
        yield np.linspace(0, 1, size)
        yield np.linspace(-3, 3, 61)[rng.integers(0, 61, size)]
        yield np.nextafter(np.linspace(-1, 1, 33), rng.choice([-9, 9], (size, 33))).ravel()[:size]
        yield x * 1e300
        yield x * 1e-310
        yield np.full(size, 0.1)
        yield np.zeros(size)
        yield x.astype("f4").astype("f8")


def test_numbers() -> None:
    for x in numbers():
        for bins in (1, 2, 3, 7, 10, 32, 60, 100, 999, 5000):
            same(np.histogram, x, bins)
            same(np.histogram, x, bins, (-1, 1))
        same(np.histogram, x, range=(0.1, 0.7))
        same(np.histogram, x, 20, range=(-0.0, 1))
        same(np.histogram, x, 20, range=(1e-3, 1e5))


def test_strange_numbers() -> None:
    x = np.random.default_rng(2).normal(size=70_001)
    for place in (0, 30_000, 70_000):
        for value in (np.nan, np.inf, -np.inf, 1e308, -1e308):
            y = x.copy()
            y[place] = value
            with np.errstate(all="ignore"):
                same(np.histogram, y)
                same(np.histogram, y, 30, (-2, 2))
                y[place - 1] = -value
                same(np.histogram, y)
    with np.errstate(all="raise"):
        same(lambda: np.histogram(x * 1e-310))


@pytest.mark.parametrize("char", "bBhHiIlLqQef")
def test_integers_and_what_is_not_counted(char: str) -> None:
    rng = np.random.default_rng(6)
    for size in (500, 9000, 70_001):
        drawn = rng.integers(0, 100, size)
        for x in (drawn.astype(char), drawn.astype(char).reshape(1, -1), drawn.astype(char)[::-1]):
            for bins in (1, 7, 10, 256, [0, 1, 2.5, 50, 99], np.linspace(-1, 101, 18)):
                same(np.histogram, x, bins)
            same(np.histogram, x, 256, (0, 255))
            same(np.histogram, x, range=(-10, 20.5))
            same(np.histogram, x, 9, weights=np.linspace(0, 1, size).reshape(x.shape))
        if char not in "ef":
            limits = np.iinfo(char)
            wide = rng.integers(limits.min, limits.max, size, dtype=char, endpoint=True)
            same(np.histogram, wide)
            same(np.histogram, wide, 33, (0, 1 << 53))
            same(np.histogram, np.full(size, limits.max, char), 4)


def test_weights() -> None:
    rng = np.random.default_rng(8)
    for x in numbers():
        weights = rng.normal(size=x.size) * 10.0 ** rng.integers(-9, 9, x.size)
        for bins in (1, 10, 999, 20_000):
            same(lambda: np.histogram(x, bins, weights=weights))  # noqa: B023
            same(lambda: np.histogram(x, bins, (-1, 1), weights=weights))  # noqa: B023
    x, weights = rng.normal(size=400_000), rng.normal(size=400_000)
    same(lambda: np.histogram(x, 7, weights=weights))
    same(lambda: np.histogram(x.reshape(400, -1), 7, weights=weights.reshape(400, -1)))
    same(lambda: np.histogram(x, 7, weights=weights.reshape(400, -1)))
    same(lambda: np.histogram(x, 7, weights=weights[:-1]))
    same(lambda: np.histogram(x, 7, weights=weights.astype("f4")))
    same(lambda: np.histogram(x, 7, weights=weights * 1j))
    same(lambda: np.histogram(x, 7, weights=weights, density=True))
    same(lambda: np.histogram(x, np.linspace(-2, 2, 9), weights=weights))
    with npaccel.accelerate():
        before = npaccel.stats()["fallbacks"]
        np.histogram(x, 7, weights=weights)
        assert npaccel.stats()["fallbacks"] == before
    weights[::1000] = np.resize([np.nan, np.inf, -np.inf, 1e308], 400)
    same(lambda: np.histogram(x, 7, weights=weights))


def test_given_edges() -> None:
    edges: list[Any] = [
        np.linspace(-2, 2, 9),
        np.logspace(-3, 1, 50),
        np.array([-1.0, 0, 0, 0.5, 0.5, 2, 2]),
        np.array([-1.0, -1, 1]),
        np.array([0.1, 0.1]),
        np.array([0.0]),
        np.array([]),
        np.array([-1.0, 1, 0]),
        np.array([-1.0, 1, np.nan]),
        np.array([-np.inf, -1.0, 1, np.inf]),
        np.linspace(-2, 2, 10_000),
        np.arange(-3, 3),
        np.linspace(-2, 2, 9)[::-1],
        np.linspace(-2, 2, 9)[::2],
        np.linspace(-2, 2, 9, dtype="f4"),
        np.nextafter(0.1, np.arange(-1.0, 2)),
    ]
    for x in numbers():
        y = x.copy()
        y[::100] = np.resize([np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, 2.0, -1.0], y[::100].size)
        for given in edges:
            same(np.histogram, x, given)
            same(np.histogram, y, given)
    same(np.histogram, x, edges[0], (0, 1))
    with npaccel.accelerate():
        before = npaccel.stats()["fallbacks"]
        assert np.histogram(x, edges[0])[1] is edges[0]
        assert npaccel.stats()["fallbacks"] == before


class Kept(np.ndarray[Any, Any]):
    """A subclass."""


def _calls(x: Array) -> list[Callable[[], Any]]:
    return [
        lambda: np.histogram(x, bins=np.int64(5)),
        lambda: np.histogram(x, bins=0),
        lambda: np.histogram(x, bins=-1),
        lambda: np.histogram(x, bins=True),
        lambda: np.histogram(x, bins=2.5),  # type: ignore[call-overload]
        lambda: np.histogram(x, bins=10_000),
        lambda: np.histogram(x, bins=2**70),
        lambda: np.histogram(x, bins="sqrt"),
        lambda: np.histogram(x, bins=[-1, 0, 2]),
        lambda: np.histogram(x, bins=np.linspace(-2, 2, 9)),
        lambda: np.histogram(x, 5, (1, 0)),
        lambda: np.histogram(x, 5, (1, 1)),
        lambda: np.histogram(x, 5, (0, np.nan)),
        lambda: np.histogram(x, 5, [-1, 1]),  # type: ignore[arg-type]
        lambda: np.histogram(x, 5, (np.float32(-0.1), np.float64(1))),
        lambda: np.histogram(x, 5, (-(2**60), 2**60 + 1)),
        lambda: np.histogram(x, 5, (-(2**80), 2**80)),
        lambda: np.histogram(x, 5, (0,)),  # type: ignore[arg-type]
        lambda: np.histogram(x, 5, None, True),
        lambda: np.histogram(x, 5, density=False),
        lambda: np.histogram(x, 5, weights=np.abs(x)),
        lambda: np.histogram(x, 5, weights=None, density=None),
        lambda: np.histogram(a=x, bins=5),
        lambda: np.histogram(x, 5, bins=5),  # type: ignore[call-overload]
        lambda: np.histogram(x, some=5),  # type: ignore[call-overload]
        lambda: np.histogram(x[::2], 5),
        lambda: np.histogram(x.reshape(40, -1), 5),
        lambda: np.histogram(x.reshape(40, -1).T, 5),
        lambda: np.histogram(x.astype("f4"), 5),
        lambda: np.histogram(x.astype(">f8"), 5),
        lambda: np.histogram(x.astype("i8"), 5),
        lambda: np.histogram(x > 0, 5),
        lambda: np.histogram(x + 1j, 5),
        lambda: np.histogram(x.view(Kept), 5),
        lambda: np.histogram(np.ma.masked_array(x, x > 1), 5),
        lambda: np.histogram(x.astype("O"), 5),
        lambda: np.histogram(list(x), 5),
    ]


def test_calls() -> None:
    for call in _calls(np.random.default_rng(3).normal(size=12_000)):
        same(call)


def test_pending_and_not_counted() -> None:
    npaccel.config.threshold = 0
    x = np.random.default_rng(3).normal(size=70_001)
    expected = np.histogram(x * 2, 30)
    with npaccel.accelerate():
        before = npaccel.stats()["fallbacks"]
        found = np.histogram(x * 2, 30)
        assert npaccel.stats()["fallbacks"] == before
    np.testing.assert_array_equal(np.asarray(found[0]), expected[0])
    np.testing.assert_array_equal(np.asarray(found[1]), expected[1])
