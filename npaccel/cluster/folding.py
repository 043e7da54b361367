"""Reductions in parts: which elements make a partial result, and how these are put together.

A float sum or product has one order for all (Note [Reduction order] in ir/nodes.py), which follows
from the whole operand. Its *units* are chunks of 32768 elements of a row; whoever has a unit's
first element gets the rest of it. What a node has of units that stand beside each other it combines
as far as the order does that by itself, so it sends a few values and not one for each unit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from npaccel.cluster.boxes import Box, boxes_of_run, extents, meet, runs
from npaccel.ir.fold_order import fold_order
from npaccel.ir.nodes import Fold, Kind, Request, View
from npaccel.ir.ops import find
from npaccel.ir.reference.kernels import CHUNK, combine, fold_chunk
from npaccel.ir.reference.requests import ufunc
from npaccel.ir.views import squeezed_axes

__all__ = [
    "Order",
    "Partial",
    "Unit",
    "counted",
    "finish",
    "is_ordered",
    "joined",
    "merged",
    "order_of",
    "partials",
    "unit_boxes",
    "unit_values",
    "units_in",
]

Array = np.ndarray[Any, Any]


def is_ordered(request: Request) -> bool:
    """Whether its last bits depend on the order of elements: float sums and products."""
    found = find(request.op, request.loop)
    inexact = request.loop[-1][0] in "fc"
    return (
        request.kind is Kind.REDUCE
        and inexact
        and found is not None
        and found.fold in (Fold.SUM, Fold.PRODUCT)
    )


@dataclass(frozen=True, slots=True)
class Order:
    """Axes of a request in the order of the sum. See `fold_order`."""

    rows: tuple[int, ...]
    row: tuple[int, ...]
    banded: bool
    shape: tuple[int, ...]

    @property
    def row_shape(self) -> tuple[int, ...]:
        return tuple(self.shape[axis] for axis in self.row)

    @property
    def rows_shape(self) -> tuple[int, ...]:
        return tuple(self.shape[axis] for axis in self.rows)

    @property
    def length(self) -> int:
        """Elements of a row."""
        return math.prod(self.row_shape)

    @property
    def chunks(self) -> int:
        """Units of a row."""
        return -(-self.length // CHUNK)


def order_of(request: Request) -> Order:
    """The order of a float sum or product."""
    kept = squeezed_axes(request.shape)
    view = request.inputs[0]
    assert isinstance(view, View)
    places = [place for place, axis in enumerate(kept) if axis in request.axes]
    shape = [request.shape[axis] for axis in kept]
    found = fold_order(shape, [view.strides[axis] for axis in kept], places)
    rows = tuple(kept[place] for place in found.rows)
    row = tuple(kept[place] for place in found.row)
    return Order(rows, row, found.banded, request.shape)


class Unit(NamedTuple):
    """Chunks from `first` to `stop` of rows from `low` to `high`, in the order of rows."""

    low: int
    high: int
    first: int
    stop: int

    @property
    def chunks(self) -> range:
        return range(self.first, self.stop)


def units_of(order: Order, box: Box) -> Iterator[Unit]:
    """The units whose first elements lie in a box of the request."""
    row_box = tuple(box[axis] for axis in order.row)
    chunks = sorted(
        chunk
        for low, high in runs(row_box, order.row_shape)
        for chunk in range(-(-low // CHUNK), -(-high // CHUNK))
    )
    found = list(_stretches(chunks))
    for low, high in runs(tuple(box[axis] for axis in order.rows), order.rows_shape):
        for part in found:
            yield Unit(low, high, part.start, part.stop)


def units_in(order: Order, boxes: Iterable[Box]) -> list[Unit]:
    """The units whose first elements lie in some boxes; neighbours together."""
    return merged(unit for box in boxes for unit in units_of(order, box))


def merged(units: Iterable[Unit]) -> list[Unit]:
    """Units with neighbours together: chunks of a row, and rows of which there are the same."""
    rows: list[Unit] = []
    for unit in sorted(units):
        last = rows[-1] if rows else None
        if last is not None and (*last[:2], last.stop) == unit[:3]:
            rows[-1] = last._replace(stop=unit.stop)
        else:
            rows.append(unit)
    found: list[Unit] = []
    for unit in rows:
        last = found[-1] if found else None
        if last is not None and last.high == unit.low and last.chunks == unit.chunks:
            found[-1] = last._replace(high=unit.high)
        else:
            found.append(unit)
    return found


def _stretches(numbers: Iterable[int]) -> Iterator[range]:
    """Rising numbers as ranges."""
    for _, group in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        part = [number for _, number in group]
        yield range(part[0], part[-1] + 1)


def unit_boxes(order: Order, band: Box, units: Iterable[Unit]) -> Iterator[Box]:
    """All elements of some units, as boxes of the request; `band` says where along other axes."""
    for unit in units:
        low, high = unit.chunks.start * CHUNK, min(unit.chunks.stop * CHUNK, order.length)
        for rows in boxes_of_run(unit.low, unit.high, order.rows_shape):
            for row in boxes_of_run(low, high, order.row_shape):
                box = list(band)
                for axis, part in (*zip(order.rows, rows), *zip(order.row, row)):  # noqa: B905
                    box[axis] = part
                yield tuple(box)


class Partial(NamedTuple):
    """Values for a band, flat. Of `size` units of row `row` from number `start` on; row -1: of
    `size` whole rows."""

    band: Box
    row: int
    start: int
    size: int
    values: Array


def aligned(low: int, high: int) -> Iterator[tuple[int, int]]:
    """[low, high) in the fewest parts (start, size) that a binary counter makes on its own."""
    while low < high:
        most = low & -low if low else 1 << (high - low).bit_length()
        while most > high - low:
            most //= 2
        yield low, most
        low += most


def counted(order: Order, units: Sequence[Unit]) -> int:
    """How many values per element of the band `partials` makes of these units."""
    found = 0
    for unit in units:
        if len(unit.chunks) == order.chunks:
            found += sum(1 for _ in aligned(unit.low, unit.high))
        else:
            found += (unit.high - unit.low) * sum(
                1 for _ in aligned(unit.chunks.start, unit.chunks.stop)
            )
    return found


def partials(
    request: Request, order: Order, band: Box, units: Iterable[tuple[Unit, Array]]
) -> Iterator[Partial]:
    """What units amount to.

    Parameters
    ----------
    band : a box of the request, whole along reduced axes
    units : each with its values, per band point, row and chunk
    """
    rule = find(request.op, request.loop)
    assert rule is not None and rule.fold is not None
    fold = rule.fold
    for unit, found in units:
        if len(unit.chunks) == order.chunks:
            rows = counter(fold, ((1, found[:, :, k]) for k in range(order.chunks)))
            for start, size in aligned(unit.low, unit.high):
                low = start - unit.low
                yield Partial(band, -1, start, size, _merged(fold, rows[:, low : low + size]))
            continue
        for row in range(unit.low, unit.high):
            for start, size in aligned(unit.chunks.start, unit.chunks.stop):
                low = start - unit.chunks.start
                values = _merged(fold, found[:, row - unit.low, low : low + size])
                yield Partial(band, row, start, size, values)


def _merged(fold: Fold, values: Array) -> Array:
    """Of (band, n) all n, a power of two of them, as the counter takes them: (band,)."""
    with np.errstate(all="ignore"):
        while values.shape[1] > 1:
            values = combine(fold, values[:, 0::2], values[:, 1::2])
    return np.asarray(values[:, 0])


def unit_values(
    request: Request, order: Order, band: Box, units: Iterable[Unit], whole: Array
) -> Iterator[tuple[Unit, Array]]:
    """What `partials` needs, by the reference.

    whole : the operand over the request's shape; only elements of these units are read
    """
    rule = find(request.op, request.loop)
    assert rule is not None and rule.fold is not None
    code = request.loop[-1]
    dtype = "f4" if code == "f2" else code
    shape = _band_shape(request, band)
    for unit in units:
        yield unit, _unit_values(request, order, band, unit, whole, rule.fold, dtype, shape)


def _band_shape(request: Request, band: Box) -> tuple[int, ...]:
    return tuple(len(part) for axis, part in enumerate(band) if axis not in request.axes)


def _unit_values(
    request: Request,
    order: Order,
    band: Box,
    unit: Unit,
    whole: Array,
    fold: Fold,
    dtype: str,
    shape: tuple[int, ...],
) -> Array:
    """Per band point, row and chunk its value."""
    kept = [axis for axis in range(len(band)) if axis not in request.axes]
    gone = [axis for axis in request.axes if axis not in (*order.rows, *order.row)]
    chunks = []
    for chunk in unit.chunks:
        low, high = chunk * CHUNK, min((chunk + 1) * CHUNK, order.length)
        pieces = []
        for rows in boxes_of_run(unit.low, unit.high, order.rows_shape):
            line = []
            for row in boxes_of_run(low, high, order.row_shape):
                box = list(band)
                for axis, part in (*zip(order.rows, rows), *zip(order.row, row)):  # noqa: B905
                    box[axis] = part
                there = whole[tuple(slice(part.start, part.stop) for part in box)]
                moved = there.transpose(*kept, *gone, *order.rows, *order.row)
                n_rows = math.prod(extents(rows))
                line.append(moved.astype(request.loop[0]).reshape(math.prod(shape), n_rows, -1))
            pieces.append(np.concatenate(line, axis=2))
        values = np.concatenate(pieces, axis=1).astype(dtype)
        lanes, block = (1, 16) if order.banded else (32, 512)
        with np.errstate(all="ignore"):
            active = np.ones(values.shape, bool)
            chunks.append(fold_chunk(fold, values, active, lanes, block))
    return np.stack(chunks, axis=-1)


def counter(fold: Fold, items: Iterable[tuple[int, Array]]) -> Array:
    """As a binary counter combines units of which some are together already."""
    stack: list[tuple[int, Array]] = []
    with np.errstate(all="ignore"):
        for item in items:
            size, value = item
            while stack and stack[-1][0] == size:
                size, value = 2 * size, combine(fold, stack.pop()[1], value)
            stack.append((size, value))
        _, value = stack.pop()
        while stack:
            value = combine(fold, stack.pop()[1], value)
    return value


def finish(request: Request, band: Box, found: Sequence[Partial]) -> Array:
    """The result in a band, of all its partial results."""
    kept = [axis for axis in range(len(band)) if axis not in request.axes]
    result = np.empty(_band_shape(request, band), request.loop[-1])
    here = tuple(band[axis] for axis in kept)
    parts = [(tuple(one.band[axis] for axis in kept), one) for one in found]
    edges = [
        sorted(
            {
                end
                for box, _ in parts
                for end in (box[at].start, box[at].stop)
                if axis.start < end < axis.stop
            }
            | {axis.start, axis.stop}
        )
        for at, axis in enumerate(here)
    ]
    put_together = _ordered if is_ordered(request) else _exact
    for low in itertools.product(*(range(len(points) - 1) for points in edges)):
        cell = tuple(range(points[i], points[i + 1]) for points, i in zip(edges, low, strict=True))
        inside = [
            one._replace(values=_cut(one.values, box, cell))
            for box, one in parts
            if meet(cell, box) is not None
        ]
        where = tuple(
            slice(part.start - whole.start, part.stop - whole.start)
            for part, whole in zip(cell, here, strict=True)
        )
        result[where] = (
            put_together(request, inside).astype(request.loop[-1]).reshape(extents(cell))
        )
    return result


def _cut(values: Array, box: Box, cell: Box) -> Array:
    where = tuple(
        slice(part.start - whole.start, part.stop - whole.start)
        for part, whole in zip(cell, box, strict=True)
    )
    return values.reshape(extents(box))[where].ravel()


def _ordered(request: Request, found: list[Partial]) -> Array:
    rule = find(request.op, request.loop)
    assert rule is not None and rule.fold is not None
    return counter(rule.fold, ((one.size, one.values) for one in _rows(rule.fold, found)))


def _rows(fold: Fold, found: Iterable[Partial]) -> list[Partial]:
    """Partial results of whole rows, in order; the chunks of a row are put together."""
    by_row: dict[int, list[Partial]] = {}
    for one in found:
        by_row.setdefault(one.row, []).append(one)
    rows = by_row.pop(-1, [])
    for row, parts in by_row.items():
        total = counter(fold, ((one.size, one.values) for one in sorted(parts, key=_start)))
        rows.append(Partial(parts[0].band, -1, row, 1, total))
    return sorted(rows, key=_start)


def _start(partial: Partial) -> int:
    return partial.start


def joined(
    request: Request, band: Box, units: Iterable[Unit], found: Sequence[Partial]
) -> list[Partial]:
    """What units amount to, of what parts of them do: as `partials` has it for all of them."""
    if not is_ordered(request):
        return [found[0]._replace(values=_exact(request, found))]
    rule = find(request.op, request.loop)
    assert rule is not None and rule.fold is not None
    order, made = order_of(request), list[Partial]()
    for unit in units:
        if len(unit.chunks) == order.chunks:
            rows = range(unit.low, unit.high)
            mine = [one for one in found if (one.start if one.row < 0 else one.row) in rows]
            lines = {-1: (rows, _rows(rule.fold, mine))}
        else:
            lines = {
                row: (unit.chunks, sorted((p for p in found if p.row == row), key=_start))
                for row in range(unit.low, unit.high)
            }
        for row, (part, line) in lines.items():
            for start, size in aligned(part.start, part.stop):
                here = ((p.size, p.values) for p in line if start <= p.start < start + size)
                made.append(Partial(band, row, start, size, counter(rule.fold, here)))
    return made


def _exact(request: Request, found: Sequence[Partial]) -> Array:
    value = found[0].values
    for one in found[1:]:
        value = ufunc(request.op)(value, one.values)
    return np.asarray(value)


OVERFLOW, INVALID = 2, 8  # kinds of warnings


def raised(request: Request, boxes: Sequence[Box], whole: Array, made: Sequence[Partial]) -> int:
    """The kinds of warnings that partial results tell of: what is in them, and in no operand."""
    if not is_ordered(request):
        return 0
    values = np.concatenate([one.values.ravel() for one in made]) if made else np.empty(0)
    if np.isfinite(values).all():
        return 0
    seen = [whole[tuple(slice(p.start, p.stop, p.step) for p in box)] for box in boxes]
    return _new_kinds(values, seen)


def raised_at_end(request: Request, found: Sequence[Partial], value: Array) -> int:
    """The same of a result, and the partial results that it was made of."""
    if not is_ordered(request) or np.isfinite(value).all():
        return 0
    return _new_kinds(value, [one.values for one in found])


def _new_kinds(values: Array, operands: Sequence[Array]) -> int:
    overflow = np.isinf(values).any() and not any(np.isinf(one).any() for one in operands)
    invalid = np.isnan(values).any() and not any(np.isnan(one).any() for one in operands)
    return OVERFLOW * bool(overflow) + INVALID * bool(invalid)
