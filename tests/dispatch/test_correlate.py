"""np.convolve and np.correlate: the same products as NumPy's, to the bit, on all threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

from .at_once import same
from .differential import THOROUGH

Array = np.ndarray[Any, Any]
KINDS = "?bhilqBHILQefdFD"
TAPS = (1, 2, 3, 5, 10, 11, 12, 13, 31, 64, 100, 257)
pytestmark = pytest.mark.usefixtures("threads")


def numbers(kind: str, size: int, seed: int = 1) -> Array:
    rng = np.random.default_rng(seed)
    if kind in "efdg":
        return rng.normal(size=size).astype(kind)
    if kind in "FD":
        return (rng.normal(size=size) + 1j * rng.normal(size=size)).astype(kind)
    return rng.integers(0, 100, size).astype(kind)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind: str) -> None:
    for size, most in ((66_000, 257 if THOROUGH else 13), (7001, 257)):  # NumPy is slow
        x = numbers(kind, size)
        for taps in (taps for taps in TAPS if taps <= most):
            v = numbers(kind, taps, 2)
            for mode in ("full", "same", "valid"):
                same(np.convolve, x, v, mode)
                same(np.correlate, x, v, mode)


@pytest.mark.parametrize("taps", [1, 4, 11, 12, 40, 333, 2000])
def test_lengths_and_places(taps: int) -> None:
    base = numbers("d", 9000)
    for size in (taps, taps + 1, 2 * taps, 8000, 8001, 8063):
        for start in (0, 1, 3, 7):
            x, v = base[start : start + size], base[-taps - start :][:taps]
            for mode in ("full", "same", "valid"):
                same(np.convolve, x, v, mode)


def test_strange_numbers() -> None:
    for kind in "df":
        some = [0.0, -0.0, 1e30, np.inf, 1e-30, np.nan, 1.0, -1e-40]
        x = np.resize(np.array(some, kind), 70_001)
        for few in ([1.0], [-0.0], [-0.0, 0.0], [1e-30, 3.0, np.inf], [0.5] * 12):
            v = np.array(few, kind)
            with np.errstate(all="raise"):
                same(np.convolve, x, v)
        x, v = -np.zeros(70_001, kind), np.ones(5, kind)
        same(np.convolve, x, v)


class Kept(np.ndarray[Any, Any]):
    """A subclass."""


def test_calls() -> None:
    x, v = numbers("d", 9000), numbers("d", 30, 2)
    calls: list[Callable[[], Any]] = [
        lambda: np.convolve(v, x),
        lambda: np.correlate(v, x, "full"),
        lambda: np.correlate(x, v),
        lambda: np.correlate(x, x[:8999], "same"),
        lambda: np.correlate(x, x, "full"),
        lambda: np.convolve(x[::-2], v[::-1], "same"),
        lambda: np.convolve(x.astype(">f8"), v),
        lambda: np.convolve(x, v.astype("f4")),
        lambda: np.convolve(x.astype("f4"), v),
        lambda: np.convolve(x.astype("f4"), v.astype("i4")),
        lambda: np.convolve(x, v.astype("i8")),
        lambda: np.convolve(x, v > 0),
        lambda: np.convolve(x, v + 1j),
        lambda: np.convolve(x, v.astype("g")),
        lambda: np.convolve(x.astype("O"), v),
        lambda: np.convolve(x, list(v)),
        lambda: np.convolve(x, 2.0),
        lambda: np.convolve(x, []),
        lambda: np.convolve(x.reshape(2, -1), v),
        lambda: np.convolve(x, v, "some"),  # type: ignore[call-overload]
        lambda: np.convolve(x, v, 1),  # type: ignore[call-overload]
        lambda: np.convolve(x, v, "f"),  # type: ignore[call-overload]
        lambda: np.convolve(x.view(Kept), v),
        lambda: np.convolve(np.ma.masked_array(x, x > 1), v),
        lambda: np.convolve(numbers("d", 10_900), numbers("d", 10_001)),
    ]
    for call in calls:
        same(call)


def test_pending_and_not_counted() -> None:
    npaccel.config.threshold = 0
    x, v = numbers("d", 70_001), np.ones(30)
    expected = np.correlate(x * 2, v / 30, "same") * 3
    with npaccel.accelerate():
        before = npaccel.stats()["fallbacks"]
        found = np.correlate(x, v, "same")
        assert npaccel.stats()["fallbacks"] == before
        found = np.correlate(x * 2, v / 30, "same") * 3
    np.testing.assert_array_equal(np.asarray(found), expected)
