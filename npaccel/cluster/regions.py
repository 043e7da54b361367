"""Which boxes of a layout some bytes of a buffer are, and where each lies among these bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from npaccel.cluster.boxes import Box, boxes_of_run, extents, size
from npaccel.cluster.placing import Layout, Placed

__all__ = ["Region", "aligned", "parts"]

Array = np.ndarray[Any, Any]


class Region(NamedTuple):
    """A node's box, and the view of the bytes that are its."""

    node: int
    box: Box
    content: Array


def aligned(layout: Layout, low: int, high: int, total: int) -> tuple[int, int]:
    """The bytes from `low` to `high`, and those around that make whole elements."""
    item = layout.item
    return low // item * item, min(total, -(-high // item) * item)


def parts(placed: Placed, low: int, content: Array) -> Iterator[Region]:
    """The parts of whole elements that begin at byte `low`, of a layout that begins at 0.

    content : their bytes; regions are views of it.
    """
    layout = placed.layout
    item = layout.item
    order = sorted(
        range(len(layout.shape)), key=lambda axis: (-layout.strides[axis], layout.shape[axis])
    )
    inverse = [order.index(axis) for axis in range(len(order))]
    shape = [layout.shape[axis] for axis in order]
    elements = content.view(f"V{item}")
    first = low // item
    done = 0
    for box in boxes_of_run(first, first + len(elements), shape):
        count = size(box)
        here = elements[done : done + count].reshape(extents(box)).transpose(inverse)
        turned = tuple(box[place] for place in inverse)
        for node, part in placed.split(turned):
            where: Any = tuple(
                slice(p.start - w.start, p.stop - w.start, p.step)
                for p, w in zip(part, turned, strict=True)
            )
            yield Region(node, part, here[(*where, ...)])
        done += count
