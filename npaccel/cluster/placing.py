"""Where an index space lies in a buffer, who has which part of it, and what views touch of that.

A buffer that is placed has a *layout*: an index space whose elements lie one behind another, in any
order of axes. A view over a request's shape is pulled back to it: which indices of the request are
whose (`owned_by`), and what a box of them touches (`touched_by`).
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from npaccel.cluster.boxes import Box, boxes_of_run, hull, meet, runs, whole
from npaccel.cluster.parts import Placement
from npaccel.errors import MapError
from npaccel.ir.nodes import View
from npaccel.ir.scalar import item_size

__all__ = [
    "Layout",
    "Placed",
    "Share",
    "dense_strides",
    "layout_of",
    "owned_by",
    "shown_box",
    "touched_by",
]

MOST_RUNS = 4096  # of a box in rows, before all between its first and last element counts


class Share(NamedTuple):
    """A node, and a box that is its."""

    node: int
    box: Box


@dataclass(frozen=True, slots=True)
class Layout:
    """An index space in a buffer, without gaps; all in bytes.

    strides : per axis, positive.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    item: int

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * self.item

    @property
    def row_major(self) -> bool:
        return self.strides == dense_strides(self.shape, self.item)


class Placed:
    """A buffer's layout, and who has which part. Shares cover it and do not overlap."""

    __slots__ = ("_longest", "_starts", "layout", "shares")

    def __init__(self, layout: Layout, shares: Iterable[Share]) -> None:
        self.layout = layout
        self.shares = sorted(_merged(shares, len(layout.shape)), key=_start)
        self._starts = list(map(_start, self.shares))
        self._longest = max((len(s.box[0]) for s in self.shares if s.box), default=0)

    @classmethod
    def by(cls, layout: Layout, of: Placement) -> Placed:
        """As a map has it."""
        if of.shape != layout.shape:
            raise MapError(
                f"a map of shape {of.shape} for an array of shape {layout.shape}; make a map of "
                "that shape"
            )
        found = (Share(owner, box) for k, owner in enumerate(of.owners) for box in of.boxes(k))
        return cls(layout, found)

    def of_items(self, item: int) -> Placed | None:
        """The same bytes as elements of another size; None: some of these are on two nodes."""
        old = self.layout
        axis = next((k for k, step in enumerate(old.strides) if step == old.item), None)
        if axis is None or item == old.item:
            return self if item == old.item else None
        ends = {end for _, box in self.shares for end in (box[axis].start, box[axis].stop)}
        if any(end * old.item % item for end in (*ends, old.shape[axis])):
            return None

        def other(n: int) -> int:
            return n * old.item // item

        def resized(box: Box) -> Box:
            part = range(other(box[axis].start), other(box[axis].stop))
            return (*box[:axis], part, *box[axis + 1 :])

        shape = tuple(other(n) if k == axis else n for k, n in enumerate(old.shape))
        strides = tuple(item if k == axis else step for k, step in enumerate(old.strides))
        layout = Layout(shape, strides, old.offset, item)
        return Placed(layout, (Share(node, resized(box)) for node, box in self.shares))

    def split(self, box: Box) -> Iterator[Share]:
        """A box of the layout in the parts of it that each node has."""
        first, stop = 0, len(self.shares)
        if box:
            first = bisect.bisect_right(self._starts, box[0][0] - self._longest)
            stop = bisect.bisect_right(self._starts, box[0][-1])
        for node, part in self.shares[first:stop]:
            shared = meet(box, part)
            if shared is not None:
                yield Share(node, shared)


def _merged(shares: Iterable[Share], ndim: int) -> list[Share]:
    """Boxes of a node that lie side by side as one: work on them is one loop."""
    found = list(shares)
    for axis in reversed(range(ndim)):
        beside: dict[tuple[int, Box, Box], list[range]] = {}
        for node, box in found:
            beside.setdefault((node, box[:axis], box[axis + 1 :]), []).append(box[axis])
        found = []
        for (node, before, behind), parts in beside.items():
            parts.sort(key=lambda part: part.start)
            joined = [parts[0]]
            for part in parts[1:]:
                if part.start == joined[-1].stop:
                    joined[-1] = range(joined[-1].start, part.stop)
                else:
                    joined.append(part)
            found.extend(Share(node, (*before, part, *behind)) for part in joined)
    return found


def _start(share: Share) -> int:
    return share.box[0].start if share.box else 0


def dense_strides(shape: Sequence[int], item: int) -> tuple[int, ...]:
    """Of row-major order, in bytes; 0 along axes of one element."""
    step, found = item, []
    for n in reversed(shape):
        found.append(step if n != 1 else 0)
        step *= n
    return tuple(found[::-1])


def layout_of(
    shape: Sequence[int], strides: Sequence[int], offset: int, item: int
) -> Layout | None:
    """The layout of an array (strides in bytes); None: it has gaps, or goes backwards."""
    axes = sorted((axis for axis, n in enumerate(shape) if n != 1), key=lambda k: strides[k])
    step = item
    for axis in axes:
        if strides[axis] != step:
            return None
        step *= shape[axis]
    kept = tuple(s if n != 1 else 0 for n, s in zip(shape, strides, strict=True))
    return Layout(tuple(shape), kept, offset, item)


class _Axis(NamedTuple):
    """Where a view lies along an axis of the layout: from `start`, by (axis of the view, step)."""

    start: int
    moving: tuple[tuple[int, int], ...]


@functools.lru_cache(1 << 10)  # it is asked for each node, and each box of a node
def _axes(layout: Layout, view: View, shape: tuple[int, ...]) -> tuple[_Axis, ...] | None:
    """A view in the layout's terms; None: it is not made of whole steps along its axes."""
    item = item_size(view.dtype)
    rest = view.offset * item - layout.offset
    order = sorted(
        (k for k, n in enumerate(layout.shape) if n != 1), key=lambda k: -layout.strides[k]
    )
    start = [0] * len(layout.shape)
    for axis in order:
        start[axis], rest = divmod(rest, layout.strides[axis])
    if rest < 0 or rest + item > layout.item:
        return None
    moving: list[list[tuple[int, int]]] = [[] for _ in layout.shape]
    for axis, (n, step) in enumerate(zip(shape, view.strides, strict=True)):
        if n == 1 or step == 0:
            continue
        for base in order:
            steps, odd = divmod(step * item, layout.strides[base])
            if not odd and abs(steps) * (n - 1) < layout.shape[base]:
                moving[base].append((axis, steps))
                break
        else:
            return None
    found = tuple(_Axis(s, tuple(m)) for s, m in zip(start, moving, strict=True))
    for place, n in zip(found, layout.shape, strict=True):
        low, high = _ends(place, whole(shape))
        if low < 0 or high >= n:
            return None
    return found


def _ends(axis: _Axis, box: Sequence[range]) -> tuple[int, int]:
    """The first and the last index along an axis of the layout that a box touches."""
    low = high = axis.start
    for at, step in axis.moving:
        ends = step * box[at][0], step * box[at][-1]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _along(part: range, start: int, step: int, n: int) -> range:
    """The indices i below n for which start + i * step is in `part`, which has no gaps."""
    low, high = part.start - start, part.stop - 1 - start
    if step < 0:
        low, high, step = -high, -low, -step
    return range(max(0, -(-low // step)), max(0, min(n, high // step + 1)))


def _dense_start(layout: Layout, view: View, shape: Sequence[int]) -> int | None:
    """Of a view that shows elements of a row-major layout in that order: its first one."""
    item = item_size(view.dtype)
    strides = tuple(
        step * item if n != 1 else 0 for n, step in zip(shape, view.strides, strict=True)
    )
    if not (layout.row_major and item == layout.item and strides == dense_strides(shape, item)):
        return None
    start, odd = divmod(view.offset * item - layout.offset, item)
    inside = 0 <= start <= math.prod(layout.shape) - math.prod(shape)
    return start if inside and not odd else None


def owned_by(placed: Placed, view: View, shape: Sequence[int]) -> list[Share] | None:
    """Per node the indices of `shape` at which a view shows its part of a buffer.

    None: these are no boxes, or an index shows no element alone.
    """
    axes = _axes(placed.layout, view, shape)
    if axes is None or any(len(axis.moving) > 1 for axis in axes):
        return _owned_in_rows(placed, view, shape)
    shown = ((node, _shown(axes, shape, part)) for node, part in placed.shares)
    return [Share(node, box) for node, box in shown if box is not None]


def _shown(axes: Sequence[_Axis], shape: Sequence[int], part: Box) -> Box | None:
    """The indices at which a view shows what is in a box without gaps; None: at none."""
    box = list(whole(shape))
    for axis, along in zip(axes, part, strict=True):
        if axis.moving:
            ((at, step),) = axis.moving
            box[at] = _along(along, axis.start, step, shape[at])
        elif axis.start not in along:
            return None
    return tuple(box) if all(map(len, box)) else None


class Shown:
    """A view whose elements are those of a box without gaps, each at one index.

    box : of the layout
    """

    def __init__(self, axes: Sequence[_Axis], shape: Sequence[int]) -> None:
        self._axes, self._shape = axes, shape
        self.box = tuple(_touched(axis, whole(shape)) for axis in axes)

    def at(self, part: Box) -> Box:
        """The indices at which it shows what is in a part of its box, and the gaps of that."""
        found = _shown(self._axes, self._shape, hull(part, part))
        assert found is not None
        return found


def shown_box(layout: Layout, view: View, shape: Sequence[int]) -> Shown | None:
    """The view as one that shows a box; None: it is none."""
    axes = _axes(layout, view, shape)
    if axes is None or item_size(view.dtype) != layout.item:
        return None
    if any(len(axis.moving) > 1 or abs(step) != 1 for axis in axes for _, step in axis.moving):
        return None
    return Shown(axes, shape)


def _owned_in_rows(placed: Placed, view: View, shape: Sequence[int]) -> list[Share] | None:
    start = _dense_start(placed.layout, view, shape)
    if start is None:
        return None
    n = math.prod(shape)
    found: list[Share] = []
    for node, part in placed.shares:
        for low, high in runs(part, placed.layout.shape):
            if low < start + n and high > start:
                inside = boxes_of_run(max(0, low - start), min(n, high - start), shape)
                found.extend(Share(node, box) for box in inside)
                if len(found) > MOST_RUNS:
                    return None
    return found


def touched_by(layout: Layout, view: View, shape: Sequence[int], box: Box) -> Iterator[Box]:
    """What a view touches at the indices in `box`, as boxes of the layout: at least that."""
    axes = _axes(layout, view, shape)
    if axes is not None:
        yield tuple(_touched(axis, box) for axis in axes)
        return
    start = _dense_start(layout, view, shape)
    if start is not None:
        pieces = list(_first(runs(box, shape), MOST_RUNS))
        if len(pieces) <= MOST_RUNS:
            for low, high in pieces:
                yield from boxes_of_run(start + low, start + high, layout.shape)
            return
    yield from _hull(layout, view, box)


def _touched(axis: _Axis, box: Box) -> range:
    low, high = _ends(axis, box)
    steps = [abs(step) for at, step in axis.moving if len(box[at]) > 1]
    return range(low, high + 1, steps[0] if len(steps) == 1 else 1)


def _first(pieces: Iterator[tuple[int, int]], most: int) -> Iterator[tuple[int, int]]:
    """One more than `most`, if there are as many."""
    return (piece for piece, _ in zip(pieces, range(most + 1), strict=False))


def _hull(layout: Layout, view: View, box: Box) -> Iterator[Box]:
    """All that lies in memory between the first and the last byte that a view touches."""
    item = item_size(view.dtype)
    low = high = view.offset
    for part, step in zip(box, view.strides, strict=True):
        ends = step * part[0], step * part[-1]
        low, high = low + min(ends), high + max(ends)
    first = (low * item - layout.offset) // layout.item
    stop = -(-((high + 1) * item - layout.offset) // layout.item)
    first, stop = max(0, first), min(stop, math.prod(layout.shape))
    if layout.row_major:
        yield from boxes_of_run(first, stop, layout.shape)
    else:
        yield whole(layout.shape)
