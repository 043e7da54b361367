"""Segments that are given one by one: which of them has each cell between all their edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from npaccel.cluster.boxes import Box
from npaccel.errors import MapError

__all__ = ["boxes_of", "cells_of", "check_inside"]


def cells_of(shape: tuple[int, ...], edges: list[list[int]], boxes: list[Box]) -> tuple[int, ...]:
    """Per cell between the edges the number of its box."""
    table = np.full([len(axis) - 1 for axis in edges], -1, np.int64)
    for number, box in enumerate(boxes):
        where = tuple(
            slice(axis.index(part.start), axis.index(part.stop))
            for axis, part in zip(edges, box, strict=True)
        )
        taken = table[where]
        if (taken >= 0).any():
            other = int(taken[taken >= 0].flat[0])
            raise MapError(
                f"Map.from_segments: segments {other} and {number} overlap; each element is on "
                "one node"
            )
        table[where] = number
    if (table < 0).any():
        first = np.argwhere(table < 0)[0]
        index = tuple(axis[i] for axis, i in zip(edges, first, strict=True))
        raise MapError(
            f"Map.from_segments: the segments do not cover shape {shape}: no node has the element "
            f"at {index}; add a segment with it"
        )
    return tuple(table.ravel().tolist())


def boxes_of(
    cells: Sequence[int], edges: Sequence[Sequence[int]], segments: int
) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
    """Offset and extent per segment, from the numbers of cells."""
    table = np.array(cells).reshape([len(axis) - 1 for axis in edges])
    found = []
    for number in range(segments):
        where = np.argwhere(table == number)
        if not len(where):
            raise MapError(f"Map: segment {number} has no cell; leave it out")
        low, high = where.min(axis=0), where.max(axis=0) + 1
        if math.prod((high - low).tolist()) != len(where):
            raise MapError(f"Map: the cells of segment {number} are no box; make it several")
        offset = tuple(axis[i] for axis, i in zip(edges, low, strict=True))
        end = tuple(axis[i] for axis, i in zip(edges, high, strict=True))
        found.append((offset, tuple(e - o for o, e in zip(offset, end, strict=True))))
    return tuple(found)


def check_inside(shape: tuple[int, ...], given: Sequence[Any], boxes: Sequence[Box]) -> None:
    """Refuse boxes that are empty or not in the space."""
    for number, ((_, offset, extent), box) in enumerate(zip(given, boxes, strict=True)):
        inside = len(box) == len(shape) and all(
            0 <= part.start < part.stop <= n for part, n in zip(box, shape, strict=True)
        )
        if not inside:
            raise MapError(
                f"Map.from_segments: segment {number} at {offset} of extent {extent} is not "
                f"within shape {shape}, or empty"
            )
