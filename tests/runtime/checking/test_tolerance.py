"""What counts as a difference: last places of what rounds, nothing of what does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from npaccel.ir.nodes import Kind, Request, View
from npaccel.runtime.checking.tolerance import Inputs, differences, is_rounded


def request(op: str, loop: tuple[str, ...], shape=(4,), axes=(), kind=Kind.MAP) -> Request:
    outputs = (View(9, loop[-1], 0, (1,) * len(shape)),)
    return Request(0, kind, op, shape, axes, (), outputs, loop, None, 0)


def wrong(r: Request, operands: list[Any], seen: Any, result: Any, looped=False, cast="") -> list:
    """Per element whether it counts; cast: the dtype of an output that is not the loop's."""
    result = np.asarray(result, r.loop[-1])
    expected = result.astype(cast or result.dtype)
    inputs = Inputs([np.asarray(x) for x in operands], True, [result], looped)
    found = np.asarray(seen, expected.dtype)
    without = Inputs(inputs.operands, True, [], looped)
    assert cast or np.array_equal(
        differences(r, 0, inputs, found, expected), differences(r, 0, without, found, expected)
    )
    return differences(r, 0, inputs, found, expected).tolist()


def test_what_is_exact_may_not_differ_at_all() -> None:
    r = request("multiply", ("f8", "f8", "f8"))
    assert not is_rounded(r)
    assert wrong(r, [], [1.0, 2.0, 0.0, np.nan], [np.nextafter(1, 2), 2.0, -0.0, np.nan]) == [
        True, False, False, False,
    ]  # fmt: skip
    assert wrong(request("greater", ("f8", "f8", "b1")), [], [1, 0, 1, 0], [1, 1, 1, 0])[1]


def test_functions_may_differ_in_the_last_places_of_each_element() -> None:
    r = request("sin", ("f8", "f8"))
    result = np.array([1e-300, 1e-8, 1.0, np.inf])
    near, far = result * (1 + 4e-16), result * (1 + 4e-15)
    assert wrong(r, [result], near, result) == [False] * 4
    assert wrong(r, [result], far, result) == [True, True, True, False]
    assert wrong(r, [result], [1e-300, 1e-8, np.nan, np.finfo("f8").max], result) == [
        False, False, True, False,
    ]  # fmt: skip


def test_complex_powers_may_differ_by_what_their_exponent_is_off() -> None:
    r = request("power", ("c16", "c16", "c16"))
    bases, exponents = np.full(4, 2 + 1j), np.array([0.1, 300.5, 300.5, 5000.5 + 0j])
    with np.errstate(all="ignore"):
        result = np.power(bases, exponents)
        seen = result * [1 + 4e-14, 1 + 4e-14, 1 + 4e-11, 1]
    assert not np.isfinite(result[3])
    seen[3] = complex(-np.inf, 1e300)
    assert wrong(r, [bases, exponents], seen, result) == [True, False, True, False]


def test_a_cast_behind_a_function_may_tip_and_no_more() -> None:
    r = request("exp", ("f8", "f8"))
    result = [2.9999999999999996, 2.5, 3.0, -1e-320]
    assert wrong(r, [result], [3, 2, 2, 0], result, cast="i8") == [False] * 4
    assert wrong(r, [result], [4, 3, 1, 1], result, cast="i8") == [True] * 4


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_sums_may_differ_by_what_their_order_rounds(dtype) -> None:
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((4, 1000)) * 10.0 ** rng.integers(-3, 4, (4, 1000))).astype(dtype)
    r = request("add", (dtype,) * 3, x.shape, (1,), Kind.REDUCE)
    result = x.sum(1)
    order = np.random.default_rng(2).permutation(1000)
    assert wrong(r, [x], x[:, order].sum(1), result) == [False] * 4
    largest = np.abs(x).sum(1) * 1000 * np.finfo(dtype).eps
    assert wrong(r, [x], result + largest, result) == [True] * 4


def test_a_sum_that_overflows_in_some_order_may_be_anything() -> None:
    x = np.array([[1e308, 1e308, -1e308, -1e308], [1.0, 2.0, 3.0, np.inf]])
    r = request("add", ("f8",) * 3, x.shape, (1,), Kind.REDUCE)
    with np.errstate(all="ignore"):
        assert wrong(r, [x], [np.nan, np.inf], x.sum(1)) == [False, False]
        assert wrong(r, [x], [0.0, 6.0], x.sum(1)) == [False, True]


def test_products() -> None:
    x = np.array([[1.5, 2.0, 3.0], [1e200, 1e200, 1e-200], [0.0, 1e3, 2.0]])
    r = request("multiply", ("f8",) * 3, x.shape, (1,), Kind.REDUCE)
    assert wrong(r, [x], [9.000000000000002, np.inf, 0.0], [9.0, 1e200, 0.0]) == [False] * 3
    assert wrong(r, [x], [9.0001, 1.0, 1e-3], [9.0, 1e200, 0.0]) == [True, False, True]
