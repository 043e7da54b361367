"""Copies, conversions, other shapes and new arrays of small ones: as NumPy makes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

from ..differential import DTYPES, FOREIGN, edge_values
from .comparison import hearing
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
    "a3",
)


def arrays(dtype: str) -> list[np.ndarray[Any, Any]]:
    line = edge_values(dtype)
    block = np.concatenate([line, line]).reshape(2, 15)
    fixed = line.copy()
    fixed.flags.writeable = False
    return [line, line[::2], line[:0], line[3:4].reshape(()), block, block.T, block[:, 3:], fixed]


def compare(functions: list[tuple[str, Callable[[], Any]]]) -> None:
    with hearing():
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
        makers = {
            "kept": lambda t=dtype: array.astype(t, copy=False),
            "copied": lambda t=dtype: array.astype(t, copy=True),
            "perhaps": lambda t=dtype: array.astype(t, copy=1),
            "asarray": lambda t=dtype: np.asarray(array, t),
            "asarray of": lambda t=dtype: np.asarray(array, dtype=t),
            "asanyarray of": lambda t=dtype: np.asanyarray(array, dtype=t),
            "ordered": lambda t=dtype: np.asarray(array, t, "F"),
            "array of": lambda t=dtype: np.array(array, dtype=t),
        }
        found += [(f"{name} {dtype}", make) for name, make in makers.items()]
        found += [
            (f"{name} {dtype}, itself", lambda make=make: make() is array)  # type: ignore[misc]
            for name, make in makers.items()
        ]
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


NUMBERS: tuple[Any, ...] = (
    *(0, 1, 2, -1, 256, 10**20, 3.5, -0.0, float("nan"), True, 1j, "a", None, [1, 2]),
    *(np.float32(1.5), np.int8(7), np.float64(2), np.array(2.5), np.array([1, 2])),
    np.array(3, dtype=">i4"),
)


def test_new_ones_of_a_type() -> None:
    found: list[tuple[str, Callable[[], Any]]] = []
    for make in (np.zeros, np.ones):
        for dtype in (*TYPES, None, ">f8", "S3", "datetime64[D]", "bool", "longdouble", "uint8"):
            for again in range(2):  # names are looked up once
                found += [
                    (f"{make} {dtype} {again}", lambda m=make, d=dtype: m(5, d)),  # type: ignore[misc]
                    (f"{make} {dtype} word", lambda m=make, d=dtype: m((2, 3), dtype=d)),  # type: ignore[misc]
                    (f"{make} {dtype} F", lambda m=make, d=dtype: m((2, 3), d, "F")),  # type: ignore[misc]
                    (f"{make} {dtype} C", lambda m=make, d=dtype: m((2, 3), d, "C")),  # type: ignore[misc]
                ]
    compare(found)


def _copied(dtype: str, value: Any, **words: Any) -> Any:
    array = np.zeros(6, dtype)
    np.copyto(array[::2] if words.pop("parts", False) else array, value, **words)
    return array


def test_one_number_everywhere() -> None:
    words: tuple[dict[str, Any], ...] = (
        {},
        {"casting": "unsafe"},
        {"casting": "no"},
        {"where": False},
        {"parts": True},
    )
    found: list[tuple[str, Callable[[], Any]]] = []
    for value in NUMBERS:
        found.append((f"full {value}", lambda v=value: np.full(3, v)))  # type: ignore[misc]
        for dtype in ("f8", "f4", "i4", "?", "u1", "c16", ">f8"):
            found.append((f"{dtype} {value}", lambda v=value, d=dtype: np.full((2, 2), v, d)))  # type: ignore[misc]
            found += [
                (f"{dtype} {value} {w}", lambda v=value, d=dtype, w=w: _copied(d, v, **w))  # type: ignore[misc]
                for w in words
            ]
    compare(found)


def test_ranges_and_lists() -> None:
    ends = (0, 1, 5, -3, 2.5, 10, True, np.int64(4), "a", None, 2**62)
    found: list[tuple[str, Callable[[], Any]]] = [
        (f"arange {a} {b} {c} {words}", lambda a=a, b=b, c=c, w=words: np.arange(a, b, c, **w))  # type: ignore[misc]
        for a in ends
        for b in ends[:-1]
        for c in (1, 2, -1, 0, 3.0)
        for words in ({}, {"dtype": float}, {"dtype": int})
        if a != 2**62
    ]
    found += [
        ("arange near the end", lambda: np.arange(2**62, 2**62 + 3)),
        ("arange of a type", lambda: np.arange(3, dtype="f4")),
        ("arange by nothing", lambda: np.arange(0, 5, 0, dtype="nonsense")),
    ]
    rows: tuple[Any, ...] = ([], [1], [1, 2.5], [[1, 2], [3, 4]], [[1, 2], [3]], [[[1]]], [1, "a"])
    for value in (*NUMBERS, *rows, [[1.0], np.arange(2)], (1, 2), [True, 2], [1, None]):
        for make in (np.array, np.asarray, np.asanyarray, np.ascontiguousarray):
            found.append((f"{make} {value}", lambda m=make, v=value: m(v)))  # type: ignore[misc]
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
