"""Below the threshold NumPy runs at once: same results, exact classes, the caller's line."""

from __future__ import annotations

import numpy as np
import pytest

import npaccel

from . import test_array, test_function, test_method, test_ufunc_arguments
from .differential import WRAPPED, check


@pytest.fixture(autouse=True)
def defer_large_ones() -> None:
    npaccel.config.threshold = 1 << 18


@pytest.mark.parametrize("name", test_function.CALLS)
def test_function_of_small(name: str) -> None:
    block = test_function.block

    def make() -> tuple[np.ndarray, ...]:  # type: ignore[type-arg]
        return block(), block()[::-1].copy(), block() % 2 == 0

    check(test_function.CALLS[name], make, modes=(WRAPPED,))


@pytest.mark.parametrize("name", test_method.CALLS)
def test_method_of_small(name: str) -> None:
    check(test_method.CALLS[name], lambda: (test_method.block("d"),), modes=(WRAPPED,))


@pytest.mark.parametrize("name", test_ufunc_arguments.CALLS)
def test_call_of_small(name: str) -> None:
    numbers = test_ufunc_arguments.numbers
    check(
        test_ufunc_arguments.CALLS[name],
        lambda: (numbers(), numbers()[::-1].copy(), np.zeros((4, 5))),
        modes=(WRAPPED,),
    )


@pytest.mark.parametrize("name", test_ufunc_arguments.REDUCTIONS)
def test_reduction_of_small(name: str) -> None:
    numbers = test_ufunc_arguments.numbers
    check(
        test_ufunc_arguments.REDUCTIONS[name],
        lambda: (numbers((3, 5, 4)), np.zeros((5, 4))),
        modes=(WRAPPED,),
    )


@pytest.mark.parametrize("name", test_array.CONVERSIONS)
def test_conversion_of_small(name: str) -> None:
    check(test_array.CONVERSIONS[name], lambda: (np.array([2.5]),), modes=(WRAPPED,))


def test_results_are_exact_arrays() -> None:
    x = npaccel.asarray(np.arange(6.0))
    for result in (x + 1, np.sin(x), x.copy(), np.sort(x), np.where(x > 1, x, 0), x.cumsum()):
        assert type(result) is np.ndarray


def test_outputs_are_the_callers_own_objects() -> None:
    x = npaccel.asarray(np.arange(6.0))
    assert np.add(x, 1, out=x) is x
    assert np.add(x, 1, x) is x
    assert np.clip(x, 1, 2, out=x) is x
    assert x.cumsum(out=x) is x
    first, second = np.modf(x, out=(None, x))
    assert second is x
    assert type(first) is np.ndarray


def test_small_writes_wait_for_large_pending_reads() -> None:
    large = npaccel.asarray(np.arange(100_000.0))
    row = large[:4]
    double = large * 2
    np.add(row, 1, out=row)
    row.sort()
    row.fill(9.0)
    assert double[:4].tolist() == [0.0, 2.0, 4.0, 6.0]
    assert large[:5].tolist() == [9.0, 9.0, 9.0, 9.0, 4.0]


@pytest.mark.pending
def test_small_views_of_pending_arrays_are_recorded() -> None:
    large = npaccel.asarray(np.arange(100_000.0)) + 1
    row = large[:4]
    assert type(row * 2) is npaccel.Array
    assert (row * 2).tolist() == [2.0, 4.0, 6.0, 8.0]
    assert row.sum() == 10.0


def test_deeply_nested_arguments() -> None:
    check(lambda x: np.block([[x, x], [x, x]]), lambda: (np.ones((2, 2)),), modes=(WRAPPED,))


def test_warnings_name_the_caller() -> None:
    for call in (
        np.log,
        lambda x: x[:0].mean(),
        lambda x: np.divide(x, 0.0, out=x),
        lambda x: (x - np.nan).astype("i"),
        lambda x: x.var(ddof=5),
    ):
        check(call, lambda: (np.array([0.0, 1.0]),), modes=(WRAPPED,))
