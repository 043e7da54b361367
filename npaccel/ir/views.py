"""Strided views: which bytes they touch, whether two may meet, and simpler forms of a domain.

Views are (offset, strides) in elements over a shape that stands elsewhere (`nodes.View`);
everything about memory, hence about two views of different dtypes, is in bytes (`Region`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from npaccel.ir.nodes import Kind, Request, ScalarOperand, View, Wrap
from npaccel.ir.scalar import item_size

__all__ = [
    "Region",
    "between_cuts",
    "collapse_axes",
    "gathered",
    "overlaps",
    "region",
    "squeezed_axes",
]


@dataclass(frozen=True, slots=True)
class Region:
    """The bytes of a buffer that a view touches.

    Attributes
    ----------
    low, high : first byte, and one past the last byte
    item : bytes per element
    terms : (extent, stride in bytes) per axis that moves, strides positive and falling; adjacent
        axes that continue each other are one. Two views of the same elements in any order have
        equal regions.
    """

    low: int
    high: int
    item: int
    terms: tuple[tuple[int, int], ...]


def region(view: View, shape: Sequence[int]) -> Region:
    """Return what `view` touches over `shape`, which must have no extent 0."""
    item = item_size(view.dtype)
    low = view.offset * item
    span = 0
    moving: list[tuple[int, int]] = []
    for extent, stride in zip(shape, view.strides, strict=True):
        if extent == 1 or stride == 0:
            continue
        step = stride * item
        if step < 0:
            low += (extent - 1) * step
            step = -step
        span += (extent - 1) * step
        moving.append((step, extent))
    moving.sort(reverse=True)
    terms: list[tuple[int, int]] = []
    for step, extent in moving:
        if terms and terms[-1][1] == step * extent:
            terms[-1] = (terms[-1][0] * extent, step)
        else:
            terms.append((extent, step))
    return Region(low, low + span + item, item, tuple(terms))


def gathered(request: Request) -> tuple[View, tuple[int, ...]] | None:
    """All that a GATHER may read of its source, as a view and its shape; None for other requests.

    The last axis is the one along which indices move.
    """
    if request.kind is not Kind.GATHER or len(request.inputs) != 4:
        return None
    source, _, extent, step = request.inputs
    if not (
        isinstance(source, View)
        and isinstance(extent, ScalarOperand)
        and isinstance(step, ScalarOperand)
    ):
        return None
    assert isinstance(extent.value, int) and isinstance(step.value, int)
    strides = (*source.strides, step.value)
    view = View(source.buffer, source.dtype, source.offset, strides)
    return view, (*request.shape, extent.value)


def overlaps(a: Region, b: Region) -> bool:
    """Return whether two regions of one buffer may share a byte; False only when proved.

    See Note [Overlap].
    """
    if a.high <= b.low or b.high <= a.low:
        return False
    periods = {step for _, step in a.terms} | {step for _, step in b.terms}
    for period in periods:
        inner_a = _span_below(a, period)
        inner_b = _span_below(b, period)
        if inner_a is None or inner_b is None:
            continue
        distance = (b.low - a.low) % period
        if distance >= inner_a and distance + inner_b <= period:
            return False
    return True


def _span_below(a: Region, period: int) -> int | None:
    span = a.item
    for extent, step in a.terms:
        if step % period:
            if step > period:
                return None
            span += (extent - 1) * step
    return span


# Note [Overlap]
# Let P be a stride such that every stride of both regions is either a multiple of P or smaller
# than P. Modulo P a region then lies in [low, low + span) with span made of the small strides
# alone. If these two arcs of a circle of length P do not meet, the regions do not. With P the
# common stride this is the test on residues (a[::2] against a[1::2]), with P a row it tells
# blocks of columns apart. Whatever is not proved disjoint is taken to overlap.


def between_cuts(
    extents: Sequence[int], wraps: Sequence[Wrap]
) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """The boxes that a domain consists of: how much further a view with these wraps lies in each,
    but for its strides; where the box begins; its extents."""
    starts = [
        sorted({0, *(wrap.cut for wrap in wraps if wrap.axis == axis)})
        for axis in range(len(extents))
    ]
    for begin in itertools.product(*starts):
        ends = (
            next((s for s in axis if s > at), n)
            for axis, at, n in zip(starts, begin, extents, strict=True)
        )
        shape = tuple(end - at for end, at in zip(ends, begin, strict=True))
        yield sum(w.step for w in wraps if begin[w.axis] >= w.cut), begin, shape


def squeezed_axes(shape: Sequence[int]) -> tuple[int, ...]:
    """Axes whose extent is not 1."""
    return tuple(axis for axis, extent in enumerate(shape) if extent != 1)


def collapse_axes(
    extents: Sequence[int], strides: Sequence[Sequence[int]], fixed: frozenset[int] = frozenset()
) -> list[list[int]]:
    """Group adjacent axes that all views walk as one.

    Parameters
    ----------
    extents : of the domain, none 1
    strides : per view, its strides over the domain
    fixed : axes that must not join the axis before them

    Returns
    -------
    Runs of axes; a run's extent is the product, its stride that of its last axis.
    """
    runs: list[list[int]] = []
    for axis in range(len(extents)):
        joins = axis > 0 and axis not in fixed
        if joins and all(s[axis - 1] == s[axis] * extents[axis] for s in strides):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs
