"""Sorting on all threads: the values in order, to the bit, whatever they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npaccel

Array = np.ndarray[Any, Any]
DTYPES = ("f8", "f4", "i8", "u8", "i4", "u4", "i2", "i1", "u1", "f2", "c16", ">f8", "M8[s]", "b1")
SIZES = (100, 4095, 4096, 5000, 33_000, 100_003)
pytestmark = pytest.mark.usefixtures("threads")


def numbers(dtype: str, size: int) -> Array:
    bits = np.random.default_rng(size).integers(0, 2**63, size, dtype="i8")
    if np.dtype(dtype).kind in "iu":
        return bits.astype(dtype)
    return (bits % 100_003 - 50_000).astype("f4").astype(dtype)


def kinds(dtype: str, size: int) -> Iterator[Array]:
    x = numbers(dtype, size)
    yield x
    yield np.sort(x)
    yield np.sort(x)[::-1].copy()
    yield np.full(size, x[0])
    yield np.where(np.arange(size) % 3 == 0, x, x[0])
    yield numbers(dtype, 37)[np.arange(size) % 37]
    if x.dtype.kind == "f":
        special = [np.inf, -np.inf, np.nan, 0.0, 1e-310, -1e-310]
        x = x.copy()
        x[::5] = np.resize(np.array(special), x[::5].size)
        yield x
        x = x.copy()
        x[::7] = -0.0
        yield x
        x[3::11] = -np.nan
        yield x


def same(array: Array, call: Callable[[Array], Any]) -> None:
    want = array.copy()
    told = call(want)
    with npaccel.accelerate():
        got = array.copy()
        answer = call(got)
    assert np.asarray(got).tobytes() == want.tobytes()
    assert (told is None) == (answer is None)
    if told is not None:
        assert np.asarray(answer).tobytes() == np.asarray(told).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_in_place(dtype: str) -> None:
    for size in SIZES:
        for array in kinds(dtype, size):
            same(array, lambda a: a.sort())


@pytest.mark.parametrize(
    "call",
    [
        lambda a: a.sort(axis=0),
        lambda a: a.sort(kind="stable"),
        lambda a: a.sort(0, "heapsort"),
        lambda a: a.sort(stable=True),
        lambda a: a[::-1].sort(),
        lambda a: a[::2].sort(),
        lambda a: a[5:].sort(),
        lambda a: a[:49_000].reshape(7, 7000).sort(),
        lambda a: a[:49_000].reshape(7, 7000).sort(axis=0),
        np.sort,
        np.unique,
        lambda a: np.unique(a, return_counts=True)[1],
        lambda a: np.sort(a * 2.0 + 1.0),
        lambda a: np.isin(a, a[:50]),
    ],
)
def test_calls(call: Callable[[Array], Any]) -> None:
    for dtype in ("f8", "i8"):
        for array in kinds(dtype, 50_000):
            same(array, call)


@pytest.mark.parametrize(
    "call",
    [
        lambda a: a.sort(axis=1),
        lambda a: a.sort(kind="none such"),
        lambda a: a.sort(order="x"),
        lambda a: a.sort(-1, None, None, None),
        lambda a: a.sort(kind="stable", stable=True),
    ],
)
def test_errors(call: Callable[[Array], Any]) -> None:
    def told(array: Array) -> tuple[type, str]:
        with pytest.raises((ValueError, TypeError)) as error:
            call(array)
        return error.type, str(error.value)

    want = told(np.arange(10_000.0))
    with npaccel.accelerate():
        assert told(np.arange(10_000.0)) == want


def test_frozen_and_shared() -> None:
    frozen = numbers("f8", 10_000)
    frozen.flags.writeable = False
    with npaccel.accelerate(), pytest.raises(ValueError, match="read-only"):
        frozen.sort()
    x = numbers("f8", 100_000)
    want = np.sort(x[1000:90_000])
    with npaccel.accelerate():
        y = x * 1.0
        part = y[1000:90_000]
        part.sort()
        assert np.asarray(y[1000:90_000]).tobytes() == want.tobytes()
        assert np.asarray(y[:1000]).tobytes() == x[:1000].tobytes()


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["f8", "f4", "i8", "u4"]),
    st.integers(4000, 70_000),
    st.integers(1, 2**62),
    st.integers(0, 2**32),
)
def test_ranges(dtype: str, size: int, most: int, seed: int) -> None:
    array = np.random.default_rng(seed).integers(-most, most, size).astype(dtype)
    same(array, lambda a: a.sort())
