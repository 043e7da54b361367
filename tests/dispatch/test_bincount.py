"""np.bincount: counts on all threads, weights in NumPy's order, and NumPy's errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npaccel

from .at_once import same

Array = np.ndarray[Any, Any]
INTEGERS = ("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "q", ">i4", ">i8", "f8", "O")
SIZES = (0, 1, 4095, 4096, 5001, 65_535, 70_001, 200_003)
pytestmark = pytest.mark.usefixtures("threads")


def numbers(dtype: str, size: int, most: int) -> Array:
    rng = np.random.default_rng(size)
    if np.dtype(dtype).itemsize == 1:
        most = min(most, 2 if dtype == "b1" else 128)
    return rng.integers(0, min(most, 32_768), size).astype(dtype)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_counts(dtype: str) -> None:
    for size in SIZES:
        for most in (1, 7, 300, 5000, 30_000):
            x = numbers(dtype, size, most)
            same(np.bincount, x)
            same(lambda x: np.bincount(np.sort(x)), x)
            same(np.bincount, x, minlength=1000)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_weights(dtype: str) -> None:
    for size in SIZES:
        for most in (7, 30_000):
            x = numbers(dtype, size, most)
            w = np.random.default_rng(5).normal(size=size)
            same(np.bincount, x, w)
            same(np.bincount, x, weights=w, minlength=40_000)


@pytest.mark.parametrize("kind", ["f4", "f2", "i8", "u8", "b1", "c16", "g", ">f8", "O", "S3"])
def test_kinds_of_weights(kind: str) -> None:
    x = numbers("i8", 5001, 100)
    w = (np.arange(5001) % 300).astype(kind)
    same(np.bincount, x, w)
    same(lambda: np.bincount(x.astype("u1"), w))


def test_strange_weights() -> None:
    x = numbers("i8", 70_001, 90)
    w = np.resize([0.0, -0.0, 1e308, np.inf, 5e-324, np.nan, 1.0], x.size)
    same(np.bincount, x, w)
    same(lambda: np.bincount(np.arange(70_001), -np.zeros(70_001)))


def test_limits() -> None:
    for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8"):
        limits = np.iinfo(dtype)
        for place in (0, 4_999, 70_000, 70_002):
            x = np.ones(70_003, dtype)
            x[place] = min(int(limits.max), 70_002)
            same(np.bincount, x)
            x[place] = min(int(limits.max), 70_003)
            same(np.bincount, x)
            x[place] = limits.min
            same(np.bincount, x)
    far = np.ones(5000, "i8")
    far[77] = 2**62
    same(np.bincount, far)


def test_layouts() -> None:
    x, w = numbers("i4", 60_000, 500), np.arange(60_000.0)
    for view in (x[::2], x[::-1], x[3:], x.reshape(-1, 3)[:, 1], x.reshape(-1, 3)):
        same(np.bincount, view)
        same(lambda view: np.bincount(view, w[: view.size]), view)
        same(lambda view: np.bincount(view, w[::-1][: len(view)]), view)
    raw = np.zeros(60_001 * 4, "u1")
    raw[1:-3].view("i4")[:] = x
    same(lambda: np.bincount(raw[1:-3].view("i4")))
    frozen = x.copy()
    frozen.flags.writeable = False
    same(np.bincount, frozen, frozen)
    same(lambda: np.bincount(raw.view(bool)))


class Kept(np.ndarray[Any, Any]):
    """A subclass."""


def test_calls() -> None:
    x, w = numbers("i8", 5000, 90), np.arange(5000.0)
    calls: list[Callable[[], Any]] = [
        lambda: np.bincount(x, None, 5),
        lambda: np.bincount(x, None, np.int32(500)),
        lambda: np.bincount(x, minlength=np.uint8(5), weights=w),
        lambda: np.bincount(x, w, minlength=True),
        lambda: np.bincount(x, w, minlength=None),  # type: ignore[arg-type]
        lambda: np.bincount(x, w, minlength=-1),
        lambda: np.bincount(x, w, minlength=2**70),
        lambda: np.bincount(x, w, minlength=2.0),  # type: ignore[arg-type]
        lambda: np.bincount(x, w, minlength=6000),
        lambda: np.bincount(x, w, 3, 4),  # type: ignore[call-overload]
        lambda: np.bincount(x, w, weights=w),  # type: ignore[call-overload]
        lambda: np.bincount(x, weight=w),  # type: ignore[call-overload]
        lambda: np.bincount(x, w[:-1]),
        lambda: np.bincount(x, w.reshape(-1, 2)),
        lambda: np.bincount(x, w[0]),
        lambda: np.bincount(x, list(w)),
        lambda: np.bincount(list(x), w),
        lambda: np.bincount(x - 1, w),
        lambda: np.bincount(x.view(Kept), w),
        lambda: np.bincount(x, w.view(Kept)),
        lambda: np.bincount(np.ma.masked_array(x), w),
        lambda: np.bincount(x.astype("M8[s]")),
        lambda: np.bincount(x.astype("m8[s]")),
    ]
    for call in calls:
        same(call)


def test_what_calls_it() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 100_001))
    for call in (
        lambda: np.histogram(x, 20)[0],
        lambda: np.histogram2d(x, y, 9)[0],
        lambda: np.histogram(x, 9, weights=y)[0],
    ):
        expected = call()
        with npaccel.accelerate():
            np.testing.assert_array_equal(np.asarray(call()), expected)


def test_pending() -> None:
    npaccel.config.threshold = 0
    x, w = numbers("i8", 70_001, 90), np.arange(70_001.0)
    expected = np.bincount(x * 2, w + 1) * 2
    with npaccel.accelerate():
        found = np.bincount(x * 2, w + 1) * 2
    np.testing.assert_array_equal(np.asarray(found), expected)


def test_not_counted() -> None:
    x = numbers("i8", 70_001, 90)
    with npaccel.accelerate():
        before = npaccel.stats()["fallbacks"]
        np.bincount(x)
        assert npaccel.stats()["fallbacks"] == before


@settings(max_examples=60, deadline=None)
@given(
    x=st.lists(st.integers(0, 300), min_size=1, max_size=40),
    size=st.integers(4096, 9000),
    dtype=st.sampled_from(["u2", "i4", "i8"]),
    least=st.integers(0, 9000),
)
def test_any(x: list[int], size: int, dtype: str, least: int) -> None:
    a = np.resize(np.array(x, dtype), size)
    same(np.bincount, a, minlength=least)
    same(lambda: np.bincount(a, 1 / (1.0 + np.arange(size)), least))
