"""Where arrays are not 0: NumPy's places, as columns of one array, on all threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel

from .at_once import same

Array = np.ndarray[Any, Any]
KINDS = "?bhilqBHILQefdFD"
pytestmark = pytest.mark.usefixtures("threads")


def arrays(kind: str, size: int) -> Iterator[Array]:
    rng = np.random.default_rng(size)
    for share in (0.0, 0.001, 0.03, 0.5, 0.97, 1.0):
        yield (rng.random(size) < share).astype(kind)
    runs = np.repeat(rng.random(size // 100 + 1) < 0.5, 100)[:size]
    yield runs.astype(kind)
    last = np.zeros(size, kind)
    last[-1:] = 1
    yield last


@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind: str) -> None:
    for size in (0, 1, 4095, 4096, 4103, 66_001, 300_007):
        for x in arrays(kind, size):
            same(x.nonzero)
            same(np.flatnonzero, x)


@pytest.mark.parametrize("kind", ["?", "l", "f"])
def test_shapes(kind: str) -> None:
    for shape in ((1, 90_000), (90_000, 1), (300, 301), (30_001, 3), (9, 7, 11, 131), (40, 5, 400)):
        for x in arrays(kind, int(np.prod(shape))):
            a = x.reshape(shape)
            same(a.nonzero)
            same(np.argwhere, a)
            same(np.where, a)
            same(a.T.nonzero)
            same(a[::2].nonzero)
            same(a[::-1].nonzero)
    same(np.ones((3, 0, 5000), kind).nonzero)
    same(np.ones((), kind).nonzero)
    same(np.ones((1,) * 30 + (5000,), kind).nonzero)


@pytest.mark.parametrize("kind", ["e", "f", "d", "F", "D"])
def test_what_is_0(kind: str) -> None:
    some = [0.0, -0.0, np.nan, -np.nan, np.inf, 6e-8, -1e-45, 5e-324]
    with np.errstate(all="ignore"):
        x = np.resize(np.array(some).astype(kind), 70_001)
        same(x.nonzero)
        if kind in "FD":
            same((x * 1j).nonzero)
            same((x.real + 0j).nonzero)


def test_bytes_that_are_not_1() -> None:
    x = np.resize(np.array([0, 1, 2, 128, 255, 0], "u1"), 70_001).view("?")
    same(x.nonzero)
    same(lambda: np.argwhere(x[:70_000].reshape(-1, 10)))


class Kept(np.ndarray[Any, Any]):
    """A subclass."""


@pytest.mark.parametrize("kind", ["g", "O", ">i4", ">f8", "S3", "M8[s]"])
def test_others(kind: str) -> None:
    same((np.arange(9000) % 3).astype("i8").astype(kind).nonzero)


def test_calls() -> None:
    x = np.arange(9000) % 4
    raw = np.zeros(9000 * 8 + 1, "u1")
    raw[1:].view("i8")[:] = x
    calls: list[Callable[[], Any]] = [
        x.view(Kept).nonzero,
        np.ma.masked_array(x, x == 2).nonzero,
        raw[1:].view("i8").nonzero,
        lambda: x.nonzero(1),  # type: ignore[call-arg]
        lambda: np.nonzero(list(x)),
        lambda: np.where(list(x)),
        lambda: np.where(x, 1),  # type: ignore[call-overload]
        lambda: np.where(x.view(Kept)),
        lambda: np.where(x > 2, x, 0),
        lambda: np.where(x[0]),
    ]
    for call in calls:
        same(call)


def test_pending_and_not_counted() -> None:
    npaccel.config.threshold = 0
    x = np.arange(90_000) % 5
    expected = np.flatnonzero(x * 2) * 3
    with npaccel.accelerate():
        before = npaccel.stats()["fallbacks"]
        found = np.flatnonzero(x * 2) * 3
        assert npaccel.stats()["fallbacks"] == before
    np.testing.assert_array_equal(np.asarray(found), expected)


def test_results_can_be_changed() -> None:
    x = (np.arange(300_000) % 3).reshape(500, -1)
    with npaccel.accelerate():
        rows, columns = x.nonzero()
        rows += 1
        columns *= 2
        again = x.nonzero()
    expected = np.asarray(x).nonzero()
    np.testing.assert_array_equal(np.asarray(rows), expected[0] + 1)
    np.testing.assert_array_equal(np.asarray(columns), expected[1] * 2)
    np.testing.assert_array_equal(np.asarray(again[1]), expected[1])
