"""Copies, conversions, other shapes and new arrays of small ones: as NumPy makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

from ..differential import DTYPES, FOREIGN, edge_values
from .test_parts import seen

SHAPES: tuple[Any, ...] = (
    15,
    (15,),
    (3, 5),
    (5, -1),
    (-1,),
    -1,
    (-1, -1),
    (3, 4),
    (0, 15),
    (1, 15, 1),
    (3, np.int64(5)),
    [3, 5],
    "x",
    None,
    (),
    (3.0, 5),
    (10**30, 1),
    (-2, 15),
    (True, 15),
    np.array([3, 5]),
)
TYPES: tuple[Any, ...] = (
    float,
    int,
    bool,
    complex,
    np.float64,
    np.float32,
    np.int64,
    np.int32,
    np.uint8,
    np.bool_,
    np.dtype("f8"),
    np.dtype(">f8"),
    "f4",
    "i8",
    np.int16,
    np.uint64,
    np.float16,
    object,
    str,
    "nonsense",
)


def arrays(dtype: str) -> list[np.ndarray[Any, Any]]:
    line = edge_values(dtype)
    block = np.concatenate([line, line]).reshape(2, 15)
    fixed = line.copy()
    fixed.flags.writeable = False
    return [line, line[::2], line[:0], line[3:4].reshape(()), block, block.T, block[:, 3:], fixed]


def compare(functions: list[tuple[str, Callable[[], Any]]]) -> None:
    expected = [seen(function) for _, function in functions]
    with npaccel.accelerate():
        got = [seen(function) for _, function in functions]
    for ours, theirs, (what, _) in zip(got, expected, functions, strict=True):
        assert ours == theirs, what


def calls(array: np.ndarray[Any, Any]) -> list[tuple[str, Callable[[], Any]]]:
    found: list[tuple[str, Callable[[], Any]]] = [
        ("copy", array.copy),
        ("copy F", lambda: array.copy("F")),
        ("copy order", lambda: array.copy(order="K")),
        ("ravel", array.ravel),
        ("ravel F", lambda: array.ravel("F")),
        ("reshape none", array.reshape),
        ("reshape two", lambda: array.reshape(3, -1)),
        ("reshape order", lambda: array.reshape((3, 5), order="F")),
        ("reshape of a part", lambda: array[1:].reshape(2, -1)),
    ]
    for shape in SHAPES:
        found.append((f"reshape {shape}", lambda shape=shape: array.reshape(shape)))  # type: ignore[misc]
    for dtype in TYPES:
        found.append((f"astype {dtype}", lambda dtype=dtype: array.astype(dtype)))  # type: ignore[misc]
        found.append((f"unsafe {dtype}", lambda dtype=dtype: array.astype(dtype, casting="safe")))  # type: ignore[misc]
    return [(f"{name} of {array.dtype}{array.shape}/{array.strides}", f) for name, f in found]


@pytest.mark.parametrize("dtype", [*DTYPES, *FOREIGN])
def test_of_an_array(dtype: str) -> None:
    for array in arrays(dtype):
        compare(calls(array))


def test_conversions_of_what_does_not_fit() -> None:
    for value in (np.nan, np.inf, -1.0, 300.0, 1e19, -1e300, 2.0**63, -(2.0**63), 2.0**31):
        for dtype in ("f8", "f4"):
            with np.errstate(all="ignore"):
                array = np.full(7, value).astype(dtype)
            compare([(f"{value} {t}", lambda t=t, a=array: a.astype(t)) for t in TYPES[:11]])  # type: ignore[misc]


def test_new_ones() -> None:
    found: list[tuple[str, Callable[[], Any]]] = []
    for shape in SHAPES:
        found.append((f"zeros {shape}", lambda shape=shape: np.zeros(shape)))  # type: ignore[misc]
        found.append((f"int {shape}", lambda shape=shape: np.zeros(shape, int)))  # type: ignore[misc]
        found.append((f"F {shape}", lambda shape=shape: np.zeros(shape, order="F")))  # type: ignore[misc]
        found.append((f"empty {shape}", lambda shape=shape: np.empty(shape).shape))  # type: ignore[misc]
    compare(found)


def test_new_ones_are_zero_where_memory_is_used_again() -> None:
    with npaccel.accelerate():
        for n in (1, 5, 100, 5000):
            for _ in range(20):
                used = np.empty(n)
                used[:] = 7.0
                del used
                assert not np.zeros(n).any()
                assert not np.zeros((1, n)).any()


def test_a_reshaped_view_shows_its_array() -> None:
    with npaccel.accelerate():
        array = np.arange(6.0)
        array.reshape(2, 3)[1, 1] = 9.0
        array[1:].ravel()[0] = 8.0
        kept = np.arange(4.0).reshape(2, 2)
        copied = array.copy()
        copied[0] = 5.0
    assert array.tolist() == [0, 8, 2, 3, 9, 5]
    assert kept.base is not None and kept.tolist() == [[0, 1], [2, 3]]
