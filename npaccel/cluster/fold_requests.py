"""A node's part of a reduction as requests, which are planned, fused and compiled as all others.

A unit of a float sum is a row, or a chunk of one: reduced for itself it has the bits that it has
within the whole. So what a node has of units is a reduction of the same operand with its rows and
chunks as axes of their own.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from npaccel.cluster import folding
from npaccel.cluster.folding import Order, Partial, Unit
from npaccel.cluster.placing import dense_strides
from npaccel.cluster.plans import FoldPart, restricted
from npaccel.ir.nodes import Request, View
from npaccel.ir.reference.kernels import CHUNK

__all__ = ["Piece", "has_same_order", "partial_results", "pieces_of"]

Array = np.ndarray[Any, Any]


class Piece(NamedTuple):
    """A request that makes partial results, dense, of this shape; its output is still to be set."""

    request: Request
    shape: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.request.loop[-1])

    def into(self, buffer: int) -> Request:
        """With results at the beginning of a buffer."""
        steps = iter(dense_strides(self.shape, 1))
        axes = self.request.axes
        strides = tuple(0 if k in axes else next(steps) for k in range(len(self.request.shape)))
        out = View(buffer, self.request.loop[-1], 0, strides)
        return replace(self.request, outputs=(out,))


def has_same_order(whole: Request, part: Request) -> bool:
    """Whether a part of a float sum, whole along the axes that are reduced, has the bits that it
    has in the whole."""
    one, other = folding.order_of(whole), folding.order_of(part)
    return (one.rows, one.row, one.banded) == (other.rows, other.row, other.banded)


def pieces_of(part: FoldPart) -> list[Piece] | None:
    """What makes a node's partial results; None: no requests do."""
    request = part.request
    if not folding.is_ordered(request):
        found = [restricted(request, box) for box in part.boxes]
        return [Piece(one, _kept_shape(one)) for one in found]
    if request.loop[-1] == "f2":
        return None  # a partial result is not rounded
    order = folding.order_of(request)
    made = [_of_unit(part, order, unit) for unit in folding.units_in(order, part.boxes)]
    return None if None in made else [piece for one in made if one is not None for piece in one]


def _kept_shape(request: Request) -> tuple[int, ...]:
    return tuple(n for axis, n in enumerate(request.shape) if axis not in request.axes)


def _of_unit(part: FoldPart, order: Order, unit: Unit) -> list[Piece] | None:
    view = part.request.inputs[0]
    assert isinstance(view, View)
    rows = _line(order.rows, order, view)
    row = _line(order.row, order, view)
    if rows is None or row is None:
        return None
    found = []
    for chunks, length in _lengths(order, unit):
        piece = _piece(part, unit, chunks, length, (rows, row))
        if folding.order_of(piece.request) != Order(
            (), (len(piece.shape),), order.banded, piece.request.shape
        ):
            return None
        found.append(piece)
    return found


def _line(axes: Sequence[int], order: Order, view: View) -> int | None:
    """The step from one to the next, of axes that are one line of elements."""
    moving = [axis for axis in axes if order.shape[axis] != 1]
    for before, behind in itertools.pairwise(moving):
        if view.strides[before] != view.strides[behind] * order.shape[behind]:
            return None
    return view.strides[moving[-1]] if moving else 0


def _lengths(order: Order, unit: Unit) -> Iterator[tuple[range, int]]:
    """Chunks of the same length: all but the last of a row."""
    full = order.length // CHUNK
    if unit.first < min(unit.stop, full):
        yield range(unit.first, min(unit.stop, full)), CHUNK
    if unit.stop > full:
        yield range(full, full + 1), order.length - full * CHUNK


def _piece(part: FoldPart, unit: Unit, chunks: range, length: int, steps: tuple[int, int]) -> Piece:
    request = part.request
    view = request.inputs[0]
    assert isinstance(view, View)
    rows, row = steps
    kept = [axis for axis in range(len(request.shape)) if axis not in request.axes]
    shape = (*(len(part.band[axis]) for axis in kept), unit.high - unit.low, len(chunks))
    offset = view.offset + unit.low * rows + chunks.start * CHUNK * row
    offset += sum(part.band[axis].start * view.strides[axis] for axis in kept)
    strides = (*(view.strides[axis] for axis in kept), rows, CHUNK * row, row)
    made = replace(
        request,
        shape=(*shape, length),
        axes=(len(shape),),
        inputs=(View(view.buffer, view.dtype, offset, strides),),
    )
    return Piece(made, shape)


def partial_results(part: FoldPart, found: Sequence[Array]) -> list[Partial]:
    """Of what the pieces made, in their shapes."""
    request, band = part.request, part.band
    if not folding.is_ordered(request):
        return [Partial(band, -1, 0, 0, values.ravel()) for values in found]
    order = folding.order_of(request)
    values = iter(found)
    units = []
    for unit in folding.units_in(order, part.boxes):
        pieces = [next(values) for _ in _lengths(order, unit)]
        points = math.prod(pieces[0].shape[:-2])
        joined = [one.reshape(points, *one.shape[-2:]) for one in pieces]
        units.append((unit, np.concatenate(joined, axis=2)))
    return list(folding.partials(request, order, band, units))
