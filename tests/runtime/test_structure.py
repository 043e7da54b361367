"""The structure that the core tells of what is pending, against ir/passes/structure.py."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from authors import Author

import npaccel
from npaccel import _native
from npaccel.ir.nodes import ScalarOperand, Trace, View
from npaccel.ir.passes.draft import Limits
from npaccel.ir.passes.structure import Structure, structure
from npaccel.runtime.trace import decode

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("deferred")]

NEAR = Limits(band_points=24, inner_points=30, column_points=26)


def pictures(seed: int, sizes: tuple[int, int, int], limits: Limits) -> tuple[Any, Any]:
    """Of one program: the core's structure and the one of its trace."""
    npaccel.evaluate()
    author = Author(seed, sizes)
    pending = _native.pending()
    given = pending.structure(limits.band_points, limits.inner_points, limits.column_points)
    found = structure(decode(pending), limits)
    npaccel.evaluate(*author.pool)
    return given, found


@pytest.mark.parametrize("limits", [Limits(), NEAR], ids=["usual", "near"])
def test_equal_bytes_are_equal_structures(limits: Limits, monkeypatch, setting) -> None:
    setting("tiering", "off")  # nothing needs compiling here
    draw = random.Random(11)
    equal = 0
    with np.errstate(all="ignore"):
        for seed in range(120):
            by_bytes: dict[bytes, set[Structure]] = defaultdict(set)
            for _ in range(4):
                sizes = tuple(
                    draw.randint(low, high) for low, high in ((16, 40), (16, 40), (16, 20))
                )
                given, found = pictures(seed, sizes, limits)
                assert (given is None) is (found is None)
                if given is not None:
                    equal += found in by_bytes[given]
                    by_bytes[given].add(found)
            assert all(len(found) == 1 for found in by_bytes.values())
    assert equal > 60, "the property is worth nothing where structures are never equal"


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


def test_where_indices_move_and_how_far_is_told_apart() -> None:
    limits, index = Limits(), npaccel.asarray(np.arange(30) % 7)

    def given(make) -> bytes | None:
        npaccel.evaluate()
        kept, pending = make(), _native.pending()
        assert len(pending) > 0
        found = pending.structure(limits.band_points, limits.inner_points, limits.column_points)
        npaccel.evaluate(kept)
        return found

    def rows(n: int, m: int) -> bytes | None:
        x = npaccel.asarray(np.ones((n, m)))
        return given(lambda: np.take(x, index, axis=0))

    x = npaccel.asarray(np.ones((50, 60)))
    assert rows(50, 60) is not None
    assert rows(50, 60) == rows(52, 61) != given(lambda: np.take(x, index, axis=1))
    assert rows(50, 60) != given(lambda: np.take(x[::2], index, axis=0))
