"""What the plan of a trace depends on, sizes aside: traces with equal structure plan alike.

A plan is made by comparing numbers: extents, strides and offsets with each other, and extents
with limits. The structure holds the outcome of every such comparison, and not the numbers; see
Note [Structure].
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable

from npaccel.ir.fold_order import fold_order
from npaccel.ir.nodes import Kind, Request, ScalarOperand, Trace, View
from npaccel.ir.passes.draft import Limits
from npaccel.ir.passes.rewrite import substitute
from npaccel.ir.scalar import item_size
from npaccel.ir.views import Region, gathered, is_injective, overlaps, region, squeezed_axes

__all__ = ["Structure", "structure"]

Structure = tuple[Hashable, ...]

# Extents below this are part of the structure: 1 (an axis that does not count), a vector's lanes.
LITERAL = 16
# More views of one buffer than this are not compared with each other.
VIEWS = 48

# Note [Structure]
# Numbers are replaced by their place in the order of first use, each kind (extents, strides,
# offsets into one buffer) by itself: whether two of a kind are equal is then the same for all
# traces of one structure, and so is every look-up in a table keyed by views or spaces. 0 and one
# element stay as they are among strides, small extents among extents. What is compared otherwise
# is written down as its outcome:
#   strides of one view: which is larger, and whether one axis continues the other (collapsing,
#       order of axes, whether a row lies along memory)
#   regions of one buffer: whether they are equal, and whether they overlap where one is written
#   outputs: whether different indices are different elements
#   rows: how their number and length lie to the limits for fusing them; which axes make a sum's
#   scalars: the values that a rewrite uses
# What is left depends on how long the rows of a kernel are: `Plan.ranges` holds the bounds, and
# layout.py's split is looked at again when a plan is moved to other sizes (move.py).


class _Reader:
    """Replaces numbers; one per trace."""

    def __init__(self, trace: Trace, limits: Limits) -> None:
        self.trace = trace
        self.limits = limits
        self.extents: dict[int, int] = {}
        self.strides: dict[int, int] = {}
        self.offsets: dict[tuple[int, int], int] = {}
        self.shapes: dict[tuple[int, ...], tuple[int, ...]] = {}
        self.forms: dict[tuple[int, tuple[int, ...], tuple[int, ...]], Structure] = {}
        self.distinct: dict[tuple[tuple[int, ...], ...], bool] = {}
        # Per view and shape: what stands for it, and the number of its region.
        self.places: dict[tuple[View, tuple[int, ...]], tuple[Structure, int]] = {}
        # Per buffer its regions with their numbers, and which of them are written.
        self.regions: dict[int, dict[Region, int]] = {}
        self.written: dict[int, set[int]] = {}

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        found = self.shapes.get(shape)
        if found is None:
            known = self.extents
            found = self.shapes[shape] = tuple(
                n if n < LITERAL else LITERAL + known.setdefault(n, len(known)) for n in shape
            )
        return found

    def form(self, item: int, strides: tuple[int, ...], shape: tuple[int, ...]) -> Structure:
        """How the axes of a view lie to each other."""
        key = (item, strides, shape)
        found = self.forms.get(key)
        if found is None:
            found = self.forms[key] = (*self._numbered(item, strides), *_relations(strides, shape))
        return found

    def _numbered(self, item: int, strides: tuple[int, ...]) -> tuple[int, ...]:
        known = self.strides
        return tuple(
            step if step in (0, 1) else 2 + known.setdefault(step * item, len(known))
            for step in strides
        )

    def view(self, view: View, shape: tuple[int, ...], *, write: bool) -> Structure:
        key = (view, shape)
        found = self.places.get(key)
        if found is None:
            item = item_size(view.dtype)
            regions = self.regions.setdefault(view.buffer, {})
            place = regions.setdefault(region(view, shape), len(regions))
            at = (view.buffer, view.offset * item)
            offset = self.offsets.setdefault(at, len(self.offsets))
            form = self.form(item, view.strides, shape)
            found = self.places[key] = (view.buffer, view.dtype, offset, place, form), place
        if write:
            self.written.setdefault(view.buffer, set()).add(found[1])
        return found[0]

    def request(self, request: Request) -> Structure:
        shape = request.shape
        operands = [self.operand(request, position) for position in range(len(request.inputs))]
        outputs = [self.view(view, shape, write=True) for view in request.outputs]
        mask = None if request.mask is None else self.view(request.mask, shape, write=False)
        replaced = substitute(request)
        return (
            request.kind,
            request.op,
            request.loop,
            request.errstate,
            request.numpys,
            request.axes,
            self.shape(shape),
            *operands,
            *outputs,
            mask,
            None if replaced is None else replaced[1:],
            tuple([self.injective(view, request) for view in request.outputs]),
            self.rows(request),
            self.order(request),
        )

    def operand(self, request: Request, position: int) -> Structure:
        table = gathered(request) if position == 0 else None
        if table is not None:  # all that the indices may name
            return (self.shape(table[1]), self.view(*table, write=False))
        operand = request.inputs[position]
        if isinstance(operand, ScalarOperand):
            return (operand.dtype, operand.position)
        return self.view(operand, request.shape, write=False)

    def injective(self, view: View, request: Request) -> bool:
        """Whether the output's different indices are different elements."""
        axes = request.axes if request.kind in (Kind.REDUCE, Kind.ARG) else ()
        key = (view.strides, request.shape, axes)
        found = self.distinct.get(key)
        if found is None:
            kept = [axis for axis in range(len(request.shape)) if axis not in axes]
            part = dataclasses.replace(view, strides=tuple(view.strides[axis] for axis in kept))
            found = is_injective(part, [request.shape[axis] for axis in kept])
            self.distinct[key] = found
        return found

    def rows(self, request: Request) -> tuple[bool, ...]:
        """How a reduction or scan lies to the limits for fusing loops over its rows."""
        if request.kind not in (Kind.REDUCE, Kind.ARG, Kind.SCAN):
            return ()
        inner = math.prod(request.shape[axis] for axis in request.axes)
        band = math.prod(request.shape) // max(1, inner)
        limits = self.limits
        return (
            band >= limits.band_points,
            inner < limits.inner_points,
            inner > limits.column_points,
        )

    def order(self, request: Request) -> Structure:
        """Which axes of a reduction make a row, and whether its results have one lane each."""
        operand = request.inputs[0] if request.inputs else None
        if request.kind is not Kind.REDUCE or not isinstance(operand, View):
            return ()
        kept = squeezed_axes(request.shape)
        found = fold_order(
            [request.shape[axis] for axis in kept],
            [operand.strides[axis] for axis in kept],
            [place for place, axis in enumerate(kept) if axis in request.axes],
        )
        return len(found.row), found.banded

    def overlaps(self) -> Structure | None:
        """Per pair of regions of a buffer, one of them written, whether they may meet."""
        found: list[tuple[int, int, int]] = []
        for buffer, regions in self.regions.items():
            written = self.written.get(buffer)
            if not written or len(regions) == 1:
                continue
            if len(regions) > VIEWS:
                return None
            places = list(regions)
            for i, a in enumerate(places):
                for j in range(i):
                    if (i in written or j in written) and overlaps(a, places[j]):
                        found.append((buffer, i, j))
        return tuple(found)


def _relations(strides: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """For each two axes: which stride is larger, and which axis continues the other."""
    if len(shape) < 2:
        return ()
    found = []
    for j in range(1, len(shape)):
        for i in range(j):
            a, b = strides[i], strides[j]
            found.append(
                (abs(a) > abs(b))
                | (abs(a) < abs(b)) << 1
                | (a == b * shape[j]) << 2
                | (b == a * shape[i]) << 3
            )
    return tuple(found)


def structure(trace: Trace, limits: Limits) -> Structure | None:
    """Return what the plan of `trace` under `limits` depends on; None where that is too much."""
    if any(0 in request.shape for request in trace.requests):
        return None
    reader = _Reader(trace, limits)
    buffers = tuple((b.fresh, b.dead, b.owned) for b in trace.buffers)
    requests = tuple(map(reader.request, trace.requests))
    meeting = reader.overlaps()
    return None if meeting is None else (buffers, requests, meeting)
