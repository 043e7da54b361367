"""Scans along an axis that is split: each node goes on from the results before its part.

    node 0   r0 r1 r2        node 1   x3 x4 x5        node 2   x6 ...
                   └── r2 ──►         r2 + x3 = r3, r4, r5 ── r5 ──►

What is scanned is copied into the result, by all at once. Then, from the first part to the last,
the results before a part are combined with what is first in it, and the part is scanned where it
lies. These are the operations of one process, in its order, so they have its bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from npaccel.cluster.boxes import Box
from npaccel.cluster.placing import Share
from npaccel.cluster.plans import restricted
from npaccel.ir.nodes import Kind, Request, View
from npaccel.ir.ops import find

__all__ = ["Part", "copied", "is_split", "parts_of"]


class Part(NamedTuple):
    """What a node does of a scan. carry : the results before it with its first elements; None: it
    is the first. start : of it, along the axis."""

    start: int
    node: int
    carry: Request | None
    scan: Request


def is_split(request: Request, shares: Sequence[Share]) -> bool:
    """Whether it is a scan, and nodes' parts end along its axis."""
    if request.kind is not Kind.SCAN:
        return False
    (axis,) = request.axes
    return any(len(box[axis]) != request.shape[axis] for _, box in shares)


def copied(request: Request) -> Request | None:
    """What is scanned as the result, not scanned yet; None: it is that, since it is in place."""
    (view,), (out,) = request.inputs, request.outputs
    if view == out:
        return None
    return replace(request, kind=Kind.MAP, op="copy", axes=())


def parts_of(request: Request, shares: Sequence[Share]) -> list[Part] | None:
    """The parts of a scan, each behind those it needs; None: it can't go on from a result."""
    kind = request.loop[-1]
    plain = len(request.inputs) == 1 and request.mask is None
    if not plain or not isinstance(request.inputs[0], View):
        return None
    if {request.loop[0], request.outputs[0].dtype} != {kind}:
        return None  # a result is rounded once more, and not what the next one is made of
    if find(request.op, (kind,) * 3) is None or find("copy", (kind,) * 2) is None:
        return None
    (axis,) = request.axes
    (out,) = request.outputs
    scan = replace(request, inputs=(out,))
    found = []
    for node, box in sorted(shares, key=lambda share: share.box[axis].start):
        carry = _carry(request, axis, box) if box[axis].start else None
        found.append(Part(box[axis].start, node, carry, restricted(scan, box)))
    return found


def _carry(request: Request, axis: int, box: Box) -> Request:
    (out,) = request.outputs
    kind = request.loop[-1]
    here = replace(out, offset=out.offset + out.strides[axis])  # of what is before, one further
    shape = tuple(n - (k == axis) for k, n in enumerate(request.shape))
    made = replace(
        request,
        kind=Kind.MAP,
        shape=shape,
        axes=(),
        inputs=(out, here),
        outputs=(here,),
        loop=(kind,) * 3,
    )
    first = box[axis].start - 1
    slab = tuple(range(first, first + 1) if k == axis else part for k, part in enumerate(box))
    return restricted(made, slab)
