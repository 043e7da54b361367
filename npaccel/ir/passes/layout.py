"""The shape of a kernel's domain: order of axes, what collapses, where the lanes run."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from npaccel.ir.fold_order import FoldOrder
from npaccel.ir.nodes import Stride, Wrap
from npaccel.ir.views import collapse_axes

__all__ = ["NARROW_BYTES", "PICKED", "SCANNED", "Layout", "lay_out"]

T = TypeVar("T")
LANES = 8
# A map over rows shorter than this (three colours under a mask) takes a row per lane, if they are
# many: a vector along the row would be nearly empty. Vectors of wider elements are shorter, and are
# filled by rows of half the length. All are extents that structure.c tells apart, as those of short
# rows that are reduced.
SHORT, SHORT_WIDE, LONG = 8, 5, 16
# Elements of a row that has one lane, at most; as in structure.c.
PICKED, SCANNED = 63, 128
NARROW_BYTES = 2


@dataclass(frozen=True, slots=True)
class Layout:
    """The domain: its extents (band first), and per array its strides in elements.

    runs : per domain axis the axes of the space that it is made of
    """

    band_rank: int
    extents: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    vector_band: bool
    runs: tuple[tuple[int, ...], ...]

    @property
    def lanes(self) -> int:
        """How many rows are worked on at a time."""
        return LANES if self.vector_band else 1

    @property
    def band_points(self) -> int:
        return math.prod(self.extents[: self.band_rank])

    @property
    def inner_points(self) -> int:
        return math.prod(self.extents[self.band_rank :])

    @property
    def scratch_points(self) -> int:
        """Elements of scratch per row that is worked on at a time."""
        return self.inner_points * self.lanes

    def wraps(self, wraps: Sequence[Wrap], space: Sequence[int]) -> tuple[Wrap, ...]:
        """Wraps along axes of the space as some along the domain's, which begin with these."""
        found = []
        for wrap in wraps:
            axis = next(place for place, run in enumerate(self.runs) if wrap.axis in run)
            behind = math.prod(space[other] for other in self.runs[axis][1:])
            found.append(Wrap(axis, wrap.cut * behind, wrap.step))
        return tuple(found)

    def vector_class(self, array: int) -> Stride:
        axis = self.band_rank - 1 if self.vector_band else len(self.extents) - 1
        strides = self.strides[array]
        apart = Stride.ACROSS if _closer(strides, self.extents, axis) else Stride.ANY
        known = {0: Stride.ZERO, 1: Stride.UNIT, -1: Stride.BACK}
        return known.get(strides[axis], apart)

    def is_band_only(self, array: int) -> bool:
        return not any(self.strides[array][self.band_rank :])


def _in_memory_order(axes: Sequence[int], views: Sequence[Sequence[int]]) -> list[int]:
    """Axes sorted so that the one along which most views move least is last; stable."""

    def compare(i: int, j: int) -> int:
        votes = 0
        for view in views:
            if view[i] and view[j]:
                votes += (abs(view[i]) < abs(view[j])) - (abs(view[i]) > abs(view[j]))
        return votes

    return sorted(axes, key=functools.cmp_to_key(compare))


def lay_out(
    space: tuple[int, ...],
    axes: tuple[int, ...] | None,
    views: Sequence[tuple[int, ...]],
    *,
    written: frozenset[int],
    keep_order: bool,
    order: FoldOrder | None = None,
    narrow: bool = False,
    silent: frozenset[int] = frozenset(),
    cut: frozenset[int] = frozenset(),
    scanned: bool = False,
) -> Layout:
    """Choose the domain for `views` (strides over `space`) with `axes` reduced.

    written : indices of views that are written; they count twice
    keep_order : the reduced axes must stay in row-major order, as argmin needs
    order : of the float sums and products among them, which decides their bits
    narrow : all elements have at most `NARROW_BYTES`
    silent : indices of views that have no say, but that axes must be walked as one in them, too
    cut : axes along which views wrap; they join no axis before them
    scanned : elements need those before them
    """
    if not space:
        return Layout(0, (1,), tuple((1,) for _ in views), False, ((),))
    heard = [index for index in range(len(views)) if index not in silent]
    voters = [views[index] for index in (*heard, *sorted(written))]
    band, inner = _order_of_axes(space, axes or (), voters, keep_order, order)
    places = [*band, *inner]
    extents = [space[axis] for axis in places]
    ordered = [[view[axis] for axis in places] for view in views]
    fixed = frozenset({len(band)}) if axes else frozenset()
    fixed |= {len(band) + len(order.rows)} if order is not None else frozenset()
    fixed |= {places.index(axis) for axis in cut}
    runs = collapse_axes(extents, ordered, fixed)
    shape = tuple(math.prod(extents[axis] for axis in run) for run in runs)
    strides = tuple(tuple(view[run[-1]] for run in runs) for view in ordered)
    made_of = tuple(tuple(places[place] for place in run) for run in runs)
    if not axes:
        made = Layout(len(runs) - 1, shape, strides, False, made_of)
        return _by_rows(made, SHORT if narrow else SHORT_WIDE, not cut)
    band_rank = sum(run[0] < len(band) for run in runs)
    along = _lanes_on_band(shape, [strides[index] for index in heard], band_rank)
    if order is not None:
        on_band = order.banded
    else:
        stored = any(any(strides[i][band_rank:]) for i in written)
        on_band = along or _has_short_rows(shape, band_rank, stored, keep_order, scanned)
    made = Layout(band_rank, shape, strides, on_band, made_of)
    return made if along or cut or not on_band else _longest_band_axis_last(made)


def _order_of_axes(
    space: Sequence[int],
    reduced: Sequence[int],
    voters: Sequence[Sequence[int]],
    keep_order: bool,
    order: FoldOrder | None,
) -> tuple[list[int], list[int]]:
    """Axes of the band, and those that are reduced, the outermost of each first."""
    band = [axis for axis in range(len(space)) if axis not in reduced]
    band = _in_memory_order(band, voters)
    if not reduced:
        return _closest_beside(band, voters, space), []
    if order is not None:
        return band, list(order.inner)
    return band, list(reduced) if keep_order else _in_memory_order(reduced, voters)


def _closer(strides: Sequence[int], extents: Sequence[int], last: int) -> list[int]:
    """Axes, not short ones, along which elements lie closer together than along the last one."""
    apart = abs(strides[last])
    pairs = enumerate(zip(strides, extents, strict=True))
    return [axis for axis, (step, n) in pairs if 0 < abs(step) < apart and n >= LONG]


def _closest_beside(
    axes: list[int], views: Sequence[Sequence[int]], space: Sequence[int]
) -> list[int]:
    """A map's axes, last but one that along which elements of a view that lies across the last one
    are closest: rows that follow each other use the same lines of the cache."""
    *outer, last = axes
    for view in views:
        closer = _closer(view, space, last)
        if closer:
            axis = min(closer, key=lambda each: abs(view[each]))
            return [*(other for other in outer if other != axis), axis, last]
    return axes


def _longest_band_axis_last(layout: Layout) -> Layout:
    """Where lanes run along a short axis of the band (eight centres), and another one is long (a
    million points), they run along that one. All is read as often as the short one is long.
    """
    band = layout.extents[: layout.band_rank]
    if band[-1] >= LONG or max(band) < LONG:
        return layout
    places = list(range(len(layout.extents)))
    places.insert(len(band) - 1, places.pop(band.index(max(band))))

    def moved(items: Sequence[T]) -> tuple[T, ...]:
        return tuple(items[place] for place in places)

    return replace(
        layout,
        extents=moved(layout.extents),
        strides=tuple(moved(view) for view in layout.strides),
        runs=moved(layout.runs),
    )


def _by_rows(layout: Layout, short: int, may_move: bool) -> Layout:
    """A map, with a row per lane where these are shorter than that, and many."""
    if len(layout.extents) == 1 or layout.extents[-1] >= short:
        return layout
    moved = _longest_band_axis_last(layout) if may_move else layout
    return replace(moved, vector_band=moved.extents[-2] >= LONG)


def _lanes_on_band(
    shape: tuple[int, ...], strides: Sequence[tuple[int, ...]], band_rank: int
) -> bool:
    if band_rank == 0 or shape[band_rank - 1] < LANES:
        return False
    moving = [view for view in strides if any(view[band_rank:])]
    along_band = sum(abs(view[band_rank - 1]) == 1 for view in moving)
    along_row = sum(abs(view[-1]) == 1 for view in moving)
    return along_band > along_row


def _has_short_rows(
    shape: tuple[int, ...], band_rank: int, stored: bool, argument: bool, scanned: bool
) -> bool:
    """Whether a row per lane takes less time than a vector along each row, and its fold.

    stored : elements of rows are
    argument : a fold tells where an element is
    scanned : elements need those before them, so no vector helps along a row; longer rows begin
        at the same place of the cache
    """
    lanes = min(LANES, math.prod(shape[:band_rank])) if band_rank else 0
    most = lanes if stored else 2 * lanes - 1
    if lanes == LANES and (scanned or argument):
        most = SCANNED if scanned else PICKED
    return math.prod(shape[band_rank:]) <= most
