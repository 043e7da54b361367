"""Where arrays go that nobody has placed: beside what they are computed from, or into."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from npaccel.cluster.boxes import Box, boxes_of_run, size, whole
from npaccel.cluster.placing import (
    Layout,
    Placed,
    Share,
    dense_strides,
    layout_of,
    owned_by,
    touched_by,
)
from npaccel.cluster.shares import shares
from npaccel.ir.nodes import BufferInfo, Kind, Request, Trace, View
from npaccel.ir.scalar import item_size

__all__ = ["place_all"]

SMALL_BYTES = 1 << 16  # what is not placed and no larger is on the first node


def place_all(trace: Trace, given: Mapping[int, Placed], nodes: int) -> dict[int, Placed]:
    """Every buffer's layout and shares: those given, the others so that little moves.

    A buffer goes where what is computed of it goes (from the last request back), else to what it is
    computed from (from the first one on). What is left goes to the first node if it is small, and
    in equal parts to all.
    """
    layouts = {info.index: _layout(info, trace.requests) for info in trace.buffers}
    placed = dict(given)
    for request in reversed(trace.requests):
        _follow(request, request.outputs, request.reads, layouts, placed)
    for request in trace.requests:
        _follow(request, request.reads, request.outputs, layouts, placed)
    for info in trace.buffers:
        if info.index not in placed:
            placed[info.index] = _default(layouts[info.index], nodes)
    return placed


def _views(index: int, requests: Sequence[Request]) -> Iterator[tuple[View, tuple[int, ...]]]:
    """Of a buffer, with their shapes: what is written first."""
    for request in requests:
        for view in (*request.outputs, *request.reads):
            if view.buffer == index:
                kept = [axis for axis, step in enumerate(view.strides) if step != 0]
                strides = tuple(view.strides[axis] for axis in kept)
                shape = tuple(request.shape[axis] for axis in kept)
                yield View(index, view.dtype, view.offset, strides), shape


def _layout(info: BufferInfo, requests: Sequence[Request]) -> Layout:
    """That of a view which shows all of the buffer; else of the array that a view seems to be a
    part of; else one axis of items."""
    first, part = 0, None
    for view, shape in _views(info.index, requests):
        item = item_size(view.dtype)
        first = first or item
        strides = [step * item for step in view.strides]
        found = layout_of(shape, strides, view.offset * item, item)
        if found is not None and found.size_bytes == info.size_bytes:
            return found
        part = part or _around(view, info.size_bytes)
    if part is not None:
        return part
    item = first if first and info.size_bytes % first == 0 else 1
    n = info.size_bytes // item
    return Layout((n,), (item if n != 1 else 0,), 0, item)


def _around(view: View, size_bytes: int) -> Layout | None:
    """The row-major array of which a view with these strides is a slice. Another guess would be as
    right: a layout says only in which terms parts are described."""
    item = item_size(view.dtype)
    steps = [size_bytes // item, *view.strides]
    if not view.strides or steps[-1] != 1 or size_bytes % item:
        return None
    if any(b <= 0 or a % b for a, b in itertools.pairwise(steps)):
        return None
    shape = tuple(a // b for a, b in itertools.pairwise(steps))
    return Layout(shape, dense_strides(shape, item), 0, item)


def _follow(
    request: Request,
    known: Sequence[View],
    others: Sequence[View],
    layouts: Mapping[int, Layout],
    placed: dict[int, Placed],
) -> None:
    """Place the buffers of `others` beside those of `known`, where that is possible."""
    if 0 in request.shape or request.kind in (Kind.GATHER, Kind.IOTA):
        return
    for view in others:
        if view.buffer in placed:
            continue
        for beside in known:
            if beside.buffer in placed:
                found = _beside(request, view, layouts[view.buffer], beside, placed)
                if found is not None:
                    placed[view.buffer] = found
                    break


def _beside(
    request: Request, view: View, layout: Layout, known: View, placed: Mapping[int, Placed]
) -> Placed | None:
    """So that elements at one index are on one node. None: an element would be on several."""
    theirs = owned_by(placed[known.buffer], known, request.shape)
    if theirs is None:
        return None
    found = []
    for node, box in theirs:
        touched = list(touched_by(layout, view, request.shape, box))
        if len(touched) != 1 or any(part.step != 1 for part in touched[0]):
            return None
        found.append(Share(node, touched[0]))
    found = _to_the_edges(found, layout.shape)
    covered = sum(size(box) for _, box in found)
    return Placed(layout, found) if found and covered == math.prod(layout.shape) else None


def _to_the_edges(found: Sequence[Share], shape: Sequence[int]) -> list[Share]:
    """What a view leaves out at the ends of an axis goes to who has what is beside it."""
    if not found:
        return []
    first = [min(box[axis].start for _, box in found) for axis in range(len(shape))]
    last = [max(box[axis].stop for _, box in found) for axis in range(len(shape))]

    def wider(box: Box) -> Box:
        return tuple(
            range(0 if part.start == a else part.start, n if part.stop == b else part.stop)
            for part, a, b, n in zip(box, first, last, shape, strict=True)
        )

    return [Share(node, wider(box)) for node, box in found]


def _default(layout: Layout, nodes: int) -> Placed:
    n = math.prod(layout.shape)
    if layout.size_bytes <= SMALL_BYTES or n < nodes:
        return Placed(layout, [Share(0, whole(layout.shape))] if n else [])
    axis = max(range(len(layout.shape)), key=lambda k: layout.strides[k])
    if layout.shape[axis] >= nodes:
        ends = (0, *shares(layout.shape[axis], nodes, None, "rows"), layout.shape[axis])
        parts = []
        for node in range(nodes):
            box = list(whole(layout.shape))
            box[axis] = range(ends[node], ends[node + 1])
            parts.append(Share(node, tuple(box)))
        return Placed(layout, parts)
    ends = (0, *shares(n, nodes, None, "elements"), n)
    return Placed(
        layout,
        [
            Share(node, box)
            for node in range(nodes)
            for box in boxes_of_run(ends[node], ends[node + 1], layout.shape)
        ],
    )
