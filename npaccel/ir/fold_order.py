"""In which order the elements of a float sum or product are taken: it decides the last bits.

The order follows from the operand's shape and strides and the reduced axes alone, so it is the same
in every kernel and without one. native/loops/fold_order.c is the same rule; a test compares them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["LANES", "FoldOrder", "fold_order"]

SHORT_ROW = 512  # rows below this join the ones that follow them in memory
BAND_LANES = 8  # results that lie behind one another have a lane each, from so many on
LANES = 32  # of any other result that has so many elements, or more than there are results


@dataclass(frozen=True, slots=True)
class FoldOrder:
    """Axes of the space, in the order of memory.

    band : that are not reduced; of banded ones the longest is last where the last is short.
    rows, row : that are: `row` as one sequence of elements, and such sequences in the order of
        `rows`.
    banded : each result has one lane, not 32.
    """

    band: tuple[int, ...]
    rows: tuple[int, ...]
    row: tuple[int, ...]
    banded: bool

    @property
    def inner(self) -> tuple[int, ...]:
        """All reduced axes."""
        return (*self.rows, *self.row)


def _sorted(axes: list[int], strides: Sequence[int]) -> list[int]:
    """Axes along which the operand moves, by falling stride; others stay where they are."""
    for i in range(1, len(axes)):
        for j in range(i, 0, -1):
            before, here = abs(strides[axes[j - 1]]), abs(strides[axes[j]])
            if before == 0 or here == 0 or before >= here:
                break
            axes[j - 1], axes[j] = axes[j], axes[j - 1]
    return axes


def _side_by_side(band: list[int], shape: Sequence[int], strides: Sequence[int]) -> int:
    """Results that follow each other in steps of the last axis: colours are as good as columns."""
    n = 1
    for axis in reversed(band):
        if strides[axis] != strides[band[-1]] * n:
            break
        n *= shape[axis]
    return n


def fold_order(shape: Sequence[int], strides: Sequence[int], axes: Sequence[int]) -> FoldOrder:
    """The order for an operand of this shape, without axes of 1, and strides in elements."""
    band = _sorted([axis for axis in range(len(shape)) if axis not in axes], strides)
    inner = _sorted([axis for axis in range(len(shape)) if axis in axes], strides)
    first, row = len(inner), 1
    while first > 0:  # short rows that follow each other are one
        axis = inner[first - 1]
        if first < len(inner):
            behind = inner[first]
            if strides[axis] != strides[behind] * shape[behind] or row >= SHORT_ROW:
                break
        row *= shape[axis]
        first -= 1
    banded = False
    if band and inner:
        side = _side_by_side(band, shape, strides)
        along = side >= BAND_LANES and strides[band[-1]] == 1 and strides[inner[-1]] != 1
        elements = math.prod(shape[axis] for axis in inner)
        few = elements < LANES and elements <= math.prod(shape[axis] for axis in band)
        banded = along or few
        if banded and side < 2 * BAND_LANES:
            band.append(band.pop(band.index(max(band, key=lambda axis: shape[axis]))))
    return FoldOrder(tuple(band), tuple(inner[:first]), tuple(inner[first:]), banded)
