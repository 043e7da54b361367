"""Arrays of short lists: of numbers, of rows, of small arrays; and of what NumPy must look at."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import npaccel

from .comparison import Case, all_same

A = np.arange(3.0)
NUMBERS: tuple[Any, ...] = (
    *(0, -1, 7, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64, 10**400),
    *(0.5, -0.0, float("nan"), float("inf"), 1e308, 5e-324),
    *(True, False, None, "x", "7", b"y", 2j, Fraction(1, 2), object, ...),
    *(np.float64(2.5), np.float32(0.1), np.int64(3), np.int32(4), np.uint8(5), np.bool_(True)),
    *(np.longdouble(1), np.complex128(1j), np.datetime64("2020-01-01"), np.str_("z")),
)
LISTS: tuple[Any, ...] = (
    *([number] for number in NUMBERS),
    *([number, 1] for number in NUMBERS),
    *([0.25, number] for number in NUMBERS),
    *([[1, 2.0], [number, 4]] for number in NUMBERS),
    *([True, number] for number in NUMBERS[:16]),
    *([], [[]], [[], []], [[1], []], [[1, 2], [3]], [[1, 2], 3], [3, [1, 2]], [[[1.0]]], [[[]]]),
    *((1, 2.0), ((1, 2), (3, 4)), [(1, 2), [3, 4]], [range(3)], {1, 2}, {1: 2}, range(4), "ab"),
    *([[1.0] * 600] * 2, [0.5] * 1024, [1] * 1025, [[1]] * 1024, [[2]] * 1025),
    *([A, A], (A, A + 1), [A, A.astype("f4")], [A, A[:2]], [A, [1, 2, 3]], [[1, 2, 3], A]),
    *([A[:0], A[:0]], [A.reshape(1, 3)] * 2, [A.reshape(3, 1)] * 2, [A[0:1], 2.0], [A[::-1], A]),
    *([np.array(1.0)] * 2, [np.ma.masked_array(A, A > 1), A], [A > 1, A < 1]),
)
TYPES: tuple[Any, ...] = (
    *(float, int, bool, complex, object, str, None, "f8", "f4", "i4", "i8", ">f8", "u1", "x"),
    *(np.float64, np.int64, np.bool_, np.dtype(float), [("a", "f8")], "f8,f8"),
)
MORE: tuple[dict[str, Any], ...] = (
    {"ndmin": 2},
    {"order": "F"},
    {"subok": True},
    {"copy": True},
    {"like": None},
    {"dtype": float, "ndmin": 2},
    {"what": 1},
)


class Listed(list[Any]):
    """No list of Python's own."""


def _cases(made: Any) -> Iterator[Case]:
    for function in (np.array, np.asarray, np.asanyarray, np.ascontiguousarray):
        yield (function, made), function, lambda: (made,)
        yield (
            (function, made, "listed"),
            function,
            lambda: (Listed(made) if type(made) is list else 1,),
        )


def _typed(made: Any) -> Iterator[Case]:
    for dtype in TYPES:
        for function in (np.array, np.asarray):
            label = (function, made, dtype)
            yield label, function, lambda dtype=dtype: (made, dtype)
            yield label, lambda x, f=function, d=dtype: f(x, dtype=d), lambda: (made,)
    for given in MORE:
        yield (made, given), lambda x, g=given: np.array(x, **g), lambda: (made,)


@pytest.mark.parametrize("cases", [_cases, _typed])
@pytest.mark.parametrize("start", range(8))
def test_of_a_list(cases: Callable[[Any], Iterator[Case]], start: int) -> None:
    for made in LISTS[start::8]:
        all_same(cases(made))


@pytest.mark.parametrize("dtype", TYPES)
def test_of_an_array_as_another_type(dtype: Any) -> None:
    for array in (A, A > 1, A.astype(int), A[::-1], np.array([np.nan, 1e300, -1.0]), A * 1j):
        for f in (np.array, np.asarray):
            all_same(
                [(f"{array} as {dtype}", lambda x, f=f: f(x, dtype=dtype), lambda a=array: (a,))]
            )


def test_a_row_may_be_shared_and_a_list_changes_afterwards() -> None:
    def change(row: list[float]) -> list[Any]:
        rows = [row, row]
        first = np.array(rows)
        row[0] = 9.0
        rows.append([4.0, 5.0])
        return [first, np.array(rows), first + np.array([1, 2.5])]

    all_same([("rows", change, lambda: ([1.0, 2.0],))])


READING: tuple[tuple[Callable[..., Any], dict[str, Any]], ...] = (
    *((f, {}) for f in (np.max, np.min, np.sum, np.prod, np.any, np.all, np.mean, np.var, np.std)),
    *((f, {"axis": 0}) for f in (np.max, np.sum, np.mean, np.argmax, np.cumsum, np.median)),
    *((f, {"axis": 1}) for f in (np.amin, np.std, np.nanmax)),
    *((f, {}) for f in (np.nanmax, np.nanmin, np.argmax, np.argmin, np.cumsum, np.cumprod)),
    *((f, {}) for f in (np.median, np.linalg.norm)),
    *((np.percentile, {"q": 25}), (np.quantile, {"q": 0.5}), (np.max, {"keepdims": True})),
    *((np.sum, {"dtype": "f4"}), (np.sum, {"initial": 3.0}), (np.std, {"ddof": 1})),
    (np.linalg.norm, {"ord": 1}),
)


@pytest.mark.parametrize("case", READING, ids=lambda c: f"{c[0].__name__} {c[1]}")
def test_what_reads_a_list(case: tuple[Callable[..., Any], dict[str, Any]]) -> None:
    function, more = case

    def cases() -> Iterator[Case]:
        for made in LISTS:
            yield (function, more, made), lambda x: function(x, **more), lambda m=made: (m,)
            yield "own", lambda x: function(Listed(x), **more), lambda m=made: (list(m),)

    all_same(cases())


def test_lists_of_arrays_and_their_items() -> None:
    arrays = [
        np.resize(np.array([0, 1, 100, 3.5], "f8"), shape).astype(dtype)
        for dtype in (*"?bBhHiIlLqQefdgFDO", "S3", ">f8")
        for shape in ((), (3,), (0,), (2, 3), (2, 0), (1, 2, 2))
    ]
    arrays += [A[::-1], A[::2], np.ones((3, 2)).T, np.ma.masked_array(A, A > 1), A.view(np.matrix)]

    def cases() -> Iterator[Case]:
        for a in arrays:
            yield ("tolist", a.dtype, a.shape), lambda x: x.tolist(), lambda a=a: (a,)
            for key in (
                (),
                (0,),
                (-1,),
                (2,),
                (3,),
                (-4,),
                (True,),
                (1.0,),
                (np.int64(1),),
                (0, 1),
            ):
                label = ("item", a.dtype, a.shape, key)
                yield label, lambda x, k=key: x.item(*k), lambda a=a: (a,)

    all_same(cases())


def test_arrays_of_numbers() -> None:
    def cases() -> Iterator[Case]:
        for number in NUMBERS:
            for function in (np.array, np.asarray, np.atleast_1d, np.asanyarray):
                yield (function, number), function, lambda number=number: (number,)
            yield number, lambda x: np.array(x, "f4"), lambda number=number: (number,)

    all_same(cases())


def test_ranges_of_doubles() -> None:
    ends = (0, 1, -2, 0.1, 0.3, -0.7, 1e-9, 2**40, np.float64(0.5), np.float32(0.1), np.int64(3))
    odd = (float("nan"), float("inf"), 1e308, 5e-324, True, 2j, None, "1")

    def cases() -> Iterator[Case]:
        steps = (0.1, 0.25, -0.3, 1, 1e-3, 0.0, 1 / 3, np.float64(0.07))
        for given in [
            *itertools.product(ends, (1, 0.9, -1.3), steps),
            *itertools.product(ends, odd),
        ]:
            few = [abs(complex(x)) < 9 for x in given if type(x) is not str and x is not None]
            if all(few) or len(given) == 2:
                yield given, np.arange, lambda given=given: given
        yield from ((x, np.arange, lambda x=x: (x,)) for x in (*ends[:7], *ends[8:], *odd[:2]))

    all_same(cases())
    draws = np.random.default_rng(4).normal(size=(4000, 2))
    calls = [(a, a + 3, abs(b) / 50 + 0.01) for a, b in draws.tolist()]
    expected = [np.arange(*call).tobytes() for call in calls]
    with npaccel.accelerate():
        assert [np.arange(*call).tobytes() for call in calls] == expected
