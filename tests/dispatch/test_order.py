"""The order of many numbers, equal ones as they stand: stable argsort, and lexsort."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npaccel
from npaccel import _native

Array = np.ndarray[Any, Any]
WHOLE = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1")
OTHERS = ("f2", "g", "c16", ">f8", ">i4", "M8[s]", "m8[s]")
pytestmark = pytest.mark.usefixtures("threads")


def whole_numbers(dtype: str, size: int) -> Iterator[Array]:
    rng = np.random.default_rng(size)
    most = 1 if dtype == "b1" else np.iinfo(dtype).max
    yield rng.integers(0, min(500, most), size, endpoint=True).astype(dtype)
    yield rng.integers(0, most, size, dtype="u8", endpoint=True).astype(dtype)
    if dtype[0] == "i":
        yield rng.integers(-most - 1, most, size, endpoint=True).astype(dtype)
        yield rng.integers(-7, 7, size).astype(dtype)


def floats(dtype: str, size: int) -> Iterator[Array]:
    rng = np.random.default_rng(size)
    x = rng.normal(size=size).astype(dtype)
    yield x
    yield np.round(x)
    tiny = np.finfo(dtype).smallest_subnormal
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, tiny, -tiny], dtype)
    special.view(f"u{special.itemsize}")[0] += 5  # a NaN of other bits
    yield rng.choice(special, size)
    yield np.where(rng.random(size) < 0.3, rng.choice(special, size), x)
    yield 1 + x * np.finfo(dtype).eps  # the upper halves of doubles are equal


def columns(dtype: str, size: int) -> Iterator[Array]:
    made = whole_numbers if dtype in WHOLE else floats
    for x in made(dtype, size):
        yield x
        yield np.repeat(x, 2)[::2]
        yield x[::-1]


def told(call: Callable[[], Any]) -> tuple[Any, bool]:
    """What a call gives, and whether it was done here."""
    try:
        order = call()
    except (TypeError, ValueError) as error:
        return (type(error), str(error)), False
    here = _native.did_it_here()
    plain = np.asarray(order)
    return (plain.dtype, plain.shape, plain.strides, plain.tobytes()), here


def same(call: Callable[[], Any], here: bool | None = True) -> None:
    want = told(call)[0]
    with npaccel.accelerate():
        got, was_here = told(call)
    assert got == want
    assert here in (None, was_here) or not _native.guarded()


@pytest.mark.parametrize("dtype", (*WHOLE, "f4", "f8"))
def test_stable_argsort(dtype: str) -> None:
    size = max(40_000, (256 << 10) // np.dtype(dtype).itemsize)
    for x in columns(dtype, size):
        for kind in ("stable", "mergesort"):
            same(functools.partial(np.argsort, x, kind=kind))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.argsort(0, "stable"),
        lambda x: x.argsort(axis=-1, kind="mergesort"),
        lambda x: np.argsort(x, stable=True),
        lambda x: np.argsort(x, kind=None, stable=True),
        lambda x: np.argsort(x * 2 + 1, kind="stable"),
        lambda x: np.argsort(x[:4096], kind="stable"),
        lambda x: np.lexsort((x[:5000], x[-5000:])),
        lambda x: np.lexsort((x,)),
        lambda x: np.lexsort([x, x % 7]),
        lambda x: np.lexsort((x > 50, x % 7, x)),
        lambda x: np.lexsort(x[:99_999].reshape(3, -1)),
        lambda x: np.lexsort(x[:99_999].reshape(-1, 3).T),
        lambda x: np.lexsort((x * 2.5, -x)),
        lambda x: np.lexsort((x, np.sort(x))),
    ],
)
def test_calls(call: Callable[[Array], Any]) -> None:
    x = np.random.default_rng(3).integers(0, 100, 100_003)
    same(lambda: call(x))
    same(lambda: call(x.astype("f8")))


@pytest.mark.parametrize(
    "call",
    [
        np.argsort,
        lambda x: np.argsort(x, kind="heapsort"),
        lambda x: np.argsort(x, stable=False),
        lambda x: np.argsort(x, kind="stable", stable=True),
        lambda x: np.argsort(x, kind="none such"),
        lambda x: np.argsort(x, axis=1, kind="stable"),
        lambda x: np.argsort(x, axis=None, kind="stable"),
        lambda x: np.argsort(x, order="x", kind="stable"),
        lambda x: np.argsort(x[:4095], kind="stable"),
        lambda x: np.argsort(np.sort(x), kind="stable"),
        lambda x: np.argsort(np.sort(x)[::-1], kind="stable"),
        lambda x: np.lexsort((x, x[1:])),
        lambda x: np.lexsort((x, 5)),
        np.lexsort,
        lambda x: np.lexsort((x,), axis=1),
        lambda x: np.lexsort((x, x.tolist())),
        lambda x: np.lexsort((x, x.astype("f2"))),
        lambda x: np.lexsort(np.ones((20, 20_000))),
        lambda x: np.lexsort(()),
    ],
)
def test_what_is_numpys(call: Callable[[Array], Any]) -> None:
    x = np.random.default_rng(3).integers(0, 100, 100_003).astype("f8")
    same(lambda: call(x), here=False)


@pytest.mark.parametrize("dtype", OTHERS)
def test_other_types(dtype: str) -> None:
    x = np.random.default_rng(3).integers(0, 100, 200_000).astype("i4").astype("i8").astype(dtype)
    same(lambda: np.argsort(x, kind="stable"), here=False)
    same(lambda: np.lexsort((x, x)), here=False)


def test_in_numpys_functions() -> None:
    x = np.random.default_rng(3).integers(0, 100, 100_003) * 0.5
    same(lambda: np.unique(x, return_index=True)[1], here=None)


def test_pending() -> None:
    x = np.random.default_rng(3).normal(size=100_000)
    want = np.lexsort((x * 2, np.floor(x)))
    with npaccel.accelerate():
        order = np.lexsort((x * 2, np.floor(x)))
        assert (x[order] == x[want]).all()
    assert np.asarray(order).tobytes() == want.tobytes()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from((*WHOLE, "f4", "f8")), min_size=1, max_size=4),
    st.integers(33_000, 70_000),
    st.integers(1, 2**40),
    st.integers(0, 2**32),
)
def test_keys(dtypes: list[str], size: int, most: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    keys = [rng.integers(-most, most, size).astype(dtype) for dtype in dtypes]
    want = np.lexsort(keys)
    with npaccel.accelerate():
        assert np.asarray(np.lexsort(keys)).tobytes() == want.tobytes()
