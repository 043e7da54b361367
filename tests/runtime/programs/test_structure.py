"""What the core tells apart of pending requests, and the numbers in them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native
from npaccel.ir.nodes import ScalarOperand, Trace, View
from npaccel.ir.passes import Limits
from npaccel.ir.passes.layout import PICKED, SCANNED
from npaccel.runtime.programs.trace import decode

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("deferred")]


def test_numbers_are_those_of_the_trace() -> None:
    x = npaccel.asarray(np.ones((6, 8)))
    y = x[1:, ::2] * x[:-1, 1::2]
    pending = _native.pending()
    trace = decode(pending)
    assert isinstance(trace, Trace)
    places, wanted = [], []
    for number, request in enumerate(trace.requests):
        for axis, extent in enumerate(request.shape):
            places += [number, -1, axis]
            wanted.append(extent)
        for operand, view in enumerate((*request.inputs, *request.outputs)):
            assert isinstance(view, View) and not isinstance(view, ScalarOperand)
            places += [number, operand, -1]
            wanted.append(view.offset * 8)
            for axis, stride in enumerate(view.strides):
                places += [number, operand, axis]
                wanted.append(stride * 8)
    assert pending.numbers(np.array(places, "i4").tobytes()) == wanted
    with pytest.raises(IndexError, match="no such place"):
        pending.numbers(np.array([99, 0, 0], "i4").tobytes())
    with pytest.raises(ValueError, match="places are needed"):
        pending.numbers(b"1")
    assert y.shape == (5, 4)


# ------------------------------------------------------------------- what is told apart, and why


USUAL = Limits()


def given(make: Any, limits: Limits = USUAL) -> bytes:
    """The structure of what `make` records; arrays that it uses have been computed."""
    npaccel.evaluate()
    kept, pending = make(), _native.pending()
    assert len(pending) > 0
    found = pending.structure(limits.band_points, limits.inner_points, limits.column_points)
    npaccel.evaluate(kept)
    assert found is not None
    return found


def of(shape: tuple[int, ...], *keys: Any) -> bytes:
    """y = sum of two windows of one array, written into a third place of it if there is one."""
    x = npaccel.evaluate(npaccel.asarray(np.ones(shape)) * 1.0)
    views = [x[key] for key in keys]
    return given(lambda: np.add(*views[:2], *views[2:]))


def test_offsets_and_lengths_are_not_told_apart() -> None:
    s = slice
    assert of((400,), s(1, 91), s(100, 190)) == of((900,), s(3, 83), s(500, 580))
    assert of((140, 50), s(0, 20), s(20, 40)) == of((160, 90), s(0, 30), s(30, 60))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        # overlapping, or apart
        (((99,), *[slice(0, 30), slice(30, 60), slice(60, 90)]),
         ((99,), *[slice(0, 30), slice(30, 60), slice(50, 80)])),
        # equal views
        (((99,), slice(0, 30), slice(30, 60)), ((99,), slice(0, 30), slice(0, 30))),
        # unit stride, or another
        (((99,), slice(0, 30), slice(30, 60)), ((99,), slice(0, 60, 2), slice(30, 90, 2))),
        # rows that continue each other
        (((40, 50), slice(0, 20), slice(20, 40)),
         ((40, 50), (slice(0, 20), slice(0, 49)), (slice(20, 40), slice(0, 49)))),
        # an axis of one element
        (((40, 50), slice(0, 20), slice(20, 40)), ((40, 50), slice(0, 1), slice(20, 21))),
        # equal extents
        (((40, 50), slice(0, 20), slice(20, 40)), ((40, 20), slice(0, 20), slice(20, 40))),
    ],
    ids=["overlap", "equal", "strided", "collapse", "one", "square"],
)  # fmt: skip
def test_what_plans_depend_on_is_told_apart(a: Any, b: Any) -> None:
    assert of(*a) != of(*b) and of(*a) == of(*a)


def test_who_is_dead_is_told_apart() -> None:
    x = npaccel.evaluate(npaccel.asarray(np.ones(99)) * 1.0)

    def made(*, alive: bool) -> list[Any]:
        y = x * 2.0
        return [y + 1.0, y] if alive else [y + 1.0]

    seen = []
    for alive in (True, False):
        npaccel.evaluate()
        kept, pending = made(alive=alive), _native.pending()
        seen.append(pending.structure(64, 64, 64))
        npaccel.evaluate(*kept)
    assert seen[0] != seen[1]


@pytest.mark.parametrize("limit", ["band_points", "inner_points", "column_points"])
def test_how_rows_lie_to_limits_is_told_apart(limit: str) -> None:
    limits = Limits(
        **{**dict.fromkeys(("band_points", "inner_points", "column_points"), 1), limit: 30}
    )

    def rows(band: int, inner: int) -> bytes:
        x = npaccel.asarray(np.ones((band, inner)))
        return given(lambda: x.max(axis=1), limits)

    assert rows(20, 21) == rows(22, 23)
    assert rows(20, 21) != (rows(31, 21) if limit == "band_points" else rows(20, 31))


def test_rows_that_have_a_lane_each_are_told_apart() -> None:
    def rows(inner: int, scan: bool) -> bytes:
        x = npaccel.asarray(np.ones((20, inner)))
        return given(lambda: np.maximum.accumulate(x, axis=1) if scan else x.argmax(axis=1))

    for most, scan in ((PICKED, False), (SCANNED, True)):
        short, long = ({rows(most + n, scan) for n in pair} for pair in ((-1, 0), (1, 2)))
        assert len(short) == len(long) == 1 and short != long


def test_values_that_rewrites_use_are_told_apart() -> None:
    x = npaccel.asarray(np.ones(99))
    assert given(lambda: x * 2.0) == given(lambda: x * 2.5)
    assert given(lambda: x**2.0) != given(lambda: x**3.0)
    assert given(lambda: x**2.3) == given(lambda: x**2.7)


def test_where_indices_move_and_how_far_is_told_apart() -> None:
    index = npaccel.asarray(np.arange(30) % 7)

    def rows(n: int, m: int) -> bytes:
        x = npaccel.asarray(np.ones((n, m)))
        return given(lambda: np.take(x, index, axis=0))

    x = npaccel.asarray(np.ones((50, 60)))
    assert rows(50, 60) == rows(52, 61) != given(lambda: np.take(x, index, axis=1))
    assert rows(50, 60) != given(lambda: np.take(x[::2], index, axis=0))
