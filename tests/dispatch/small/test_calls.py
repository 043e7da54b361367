"""Small calls in a block beside large ones: the threshold, what is pending, classes, generators."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import npaccel

from ..differential import edge_values
from .comparison import all_same, bits, facts
from .operands import Kind

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("extra", [-1, 0, 1])
@pytest.mark.parametrize("dtype", ["f", "D"])
def test_sizes_around_the_threshold(dtype: str, extra: int) -> None:
    points = (1 << 18) // np.dtype(dtype).itemsize + extra
    v = np.resize(edge_values(dtype), points)
    for function in (
        lambda x: x + x,
        lambda x: x == x[::-1],
        lambda x: x * 1,
        lambda x: x + x.reshape(1, -1),
        lambda x: operator.imul(x, x),
        lambda x: np.logical_and(x, x[:1]),
        lambda x: x[::2] + x[::2],
    ):
        with np.errstate(all="ignore"):
            x, y = v.copy(), v.copy()
            expected = function(x)
            with npaccel.accelerate():
                got = np.array(function(y))
            assert bits(got) == bits(expected)
            assert bits(np.array(y)) == bits(x)
            assert got.dtype == expected.dtype
            assert got.shape == expected.shape


def test_results_past_every_limit_are_refused() -> None:
    """Extents whose product is 2**64 + 1, where dead arrays of one byte are to be had."""
    tall = np.broadcast_to(np.ones(1, "?"), (274177, 1))
    wide = np.broadcast_to(np.ones(1, "?"), (1, 67280421310721))
    with pytest.raises(ValueError) as expected:
        tall + wide
    with npaccel.accelerate():
        dead = [np.ones((1, 1), "?") for _ in range(10)]
        del dead
        with pytest.raises(ValueError) as caught:
            tall + wide
    assert str(caught.value) == str(expected.value)


@pytest.mark.pending
def test_with_parts_of_what_is_pending() -> None:
    def program(large: Array, small: Array) -> list[Any]:
        double = large * 2
        part = double[:4]
        first = part + small
        second = small * part
        small += part
        part -= small
        np.multiply(small, part, small)
        third = small[:2] < double[4:6]
        double += 1
        return [first, second, third, small, part, double[:6], large[:6], double.sum()]

    def make() -> tuple[Array, Array]:
        return np.arange(100_000.0), np.arange(4.0)

    expected = program(*make())
    with npaccel.accelerate():
        got = program(*make())
    for ours, theirs in zip(got, expected, strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.pending
def test_small_writes_wait_for_pending_reads() -> None:
    with npaccel.accelerate():
        large = np.arange(100_000.0)
        row = large[:4]
        double = large * 2
        row += 10
        np.negative(row, row)
        after = large + 0
    assert double[:5].tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert after[:5].tolist() == [-10.0, -11.0, -12.0, -13.0, 4.0]


@pytest.mark.pending
def test_small_operands_of_pending_operations_may_change() -> None:
    with npaccel.accelerate():
        small, table = np.arange(4.0), np.ones((50_000, 4))
        sum_ = table + small
        small += 1
        more = table + small
        del small
        replaced = [np.full(4, 7.0) * k for k in range(20)]
    assert sum_[3].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert more[3].tolist() == [2.0, 3.0, 4.0, 5.0]
    assert replaced[2].tolist() == [14.0] * 4


def test_subclasses_defined_in_a_block() -> None:
    with npaccel.accelerate():

        class Inside(np.ndarray[Any, Any]):
            pass

        class Again(Inside):
            def __add__(self, other: Any) -> Any:
                return "added", super().__add__(other)

    def uses(kind: type) -> list[Any]:
        x, plain = np.arange(4.0).view(kind), np.arange(4.0)
        results = [x + 1, 1 - x, x * plain, plain / (x + 1), -x, x < 2, plain == x, x**2, abs(x)]
        x += plain
        x *= 2
        results += [x, x.copy(), x[1:]]
        return [(type(y) is kind, facts(y.view(np.ndarray))) for y in results]

    expected = uses(Kind)
    assert uses(Inside) == expected
    with npaccel.accelerate():
        assert uses(Inside) == expected
        outcome = np.arange(2.0).view(Again) + 1
    for one in (outcome, np.arange(2.0).view(Again) + 1):
        assert one[0] == "added"
        assert type(one[1]) is Again
        assert one[1].tolist() == [1.0, 2.0]


def test_generators_recursion_and_errors() -> None:
    def halves(x: Array) -> Iterator[Array]:
        while x.any():
            x = x // 2
            yield x

    def deep(x: Array, depth: int) -> Array:
        return x if depth == 0 else deep(x + 1, depth - 1) * 2 - x

    def program(x: Array) -> Any:
        steps = halves(x)
        first = next(steps)
        caught = []
        for k in range(3):
            with (
                contextlib.suppress(ZeroDivisionError, FloatingPointError),
                np.errstate(all="raise"),
            ):
                y = x + k
                caught.append(y * 2)
                caught.append(y // 0)
        return first, list(steps), deep(x, 50), caught

    all_same([("program", program, lambda: (np.arange(40),))], times=5)
