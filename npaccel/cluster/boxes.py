"""Boxes of an index space: one range per axis. What is common to two, and what lies in a row.

A box is a tuple of `range`s with a positive step, one per axis; that of a 0-d space is `()`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

__all__ = [
    "Box",
    "box_at",
    "boxes_of_run",
    "contains",
    "extents",
    "hull",
    "meet",
    "overlap",
    "runs",
    "size",
    "whole",
    "without",
]

Box: TypeAlias = tuple[range, ...]


def box_at(offset: Sequence[int], extent: Sequence[int]) -> Box:
    """The box without gaps that begins at `offset`."""
    return tuple(range(o, o + n) for o, n in zip(offset, extent, strict=True))


def whole(shape: Sequence[int]) -> Box:
    """All of an index space."""
    return tuple(map(range, shape))


def extents(box: Box) -> tuple[int, ...]:
    """How many indices each axis has."""
    return tuple(map(len, box))


def size(box: Box) -> int:
    """How many elements a box has."""
    return math.prod(map(len, box))


def _meet(a: range, b: range) -> range:
    """What of `a` lies between the ends of `b`, which has no gaps."""
    step = a.step
    first = max(0, -(-(b.start - a.start) // step))
    last = min(len(a), -(-(b.stop - a.start) // step))
    return a[first : max(first, last)]


def meet(a: Box, b: Box) -> Box | None:
    """What two boxes share; None: nothing. `b` has no gaps."""
    found = tuple(map(_meet, a, b))
    return found if all(map(len, found)) else None


def hull(a: Box, b: Box) -> Box:
    """The smallest box without gaps around two."""
    return tuple(range(min(x[0], y[0]), max(x[-1], y[-1]) + 1) for x, y in zip(a, b, strict=True))


def without(a: Box, b: Box) -> Iterator[Box]:
    """What is in `a` and not in `b`, which has no gaps, as boxes that share nothing."""
    shared = meet(a, b)
    if shared is None:
        yield a
        return
    for axis, (x, y) in enumerate(zip(a, shared, strict=True)):
        first = x.index(y[0])
        for rest in (x[:first], x[first + len(y) :]):
            if rest:
                yield (*shared[:axis], rest, *a[axis + 1 :])


def overlap(a: Box, b: Box) -> bool:
    """Whether two boxes may share an element: their hulls do. Right for boxes without gaps."""
    return all(
        len(x) and len(y) and x[0] <= y[-1] and y[0] <= x[-1] for x, y in zip(a, b, strict=True)
    )


def contains(a: Box, b: Box) -> bool:
    """Whether all of `b` is in `a`; where `a` has gaps, True only of equal steps."""
    return all(
        x[0] <= y[0] and y[-1] <= x[-1] and (x.step == 1 or (x.step == y.step and y[0] in x))
        for x, y in zip(a, b, strict=True)
    )


def boxes_of_run(low: int, high: int, shape: Sequence[int]) -> Iterator[Box]:
    """The elements from `low` to `high` in row-major order, as boxes: at most 2 per axis, less one.

    So of (6, 6) those from 9 to 18 are the end of row 1 and row 2.
    """
    if high <= low:
        return
    if not shape:
        yield ()
        return
    inner = math.prod(shape[1:])
    first, last = low // inner, (high - 1) // inner
    if len(shape) == 1:
        yield (range(low, high),)
        return
    if first == last:
        base = first * inner
        for box in boxes_of_run(low - base, high - base, shape[1:]):
            yield (range(first, first + 1), *box)
        return
    if low % inner:
        for box in boxes_of_run(low % inner, inner, shape[1:]):
            yield (range(first, first + 1), *box)
        first += 1
    stop = last if high % inner else last + 1
    if first < stop:
        yield (range(first, stop), *whole(shape[1:]))
    if high % inner:
        for box in boxes_of_run(0, high % inner, shape[1:]):
            yield (range(last, last + 1), *box)


def runs(box: Box, shape: Sequence[int]) -> Iterator[tuple[int, int]]:
    """A box without gaps as runs (low, high) of row-major order, rising."""
    axis = len(shape)
    while axis > 0 and len(box[axis - 1]) == shape[axis - 1]:
        axis -= 1
    inner = math.prod(shape[axis:])
    if axis == 0:
        yield 0, inner
        return
    length = len(box[axis - 1]) * inner
    for index in itertools.product(*box[: axis - 1]):
        start = 0
        for i, n in zip((*index, box[axis - 1].start), shape, strict=False):
            start = start * n + i
        yield start * inner, start * inner + length
