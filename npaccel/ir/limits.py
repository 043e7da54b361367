"""How large kernels become, and when they are split: for the passes and who moves their plans."""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["DEFAULT_LIMITS", "Limits", "worth_splitting"]


class Limits(NamedTuple):
    """How large a kernel may become, and when rows are worth fusing.

    nodes : operations of a kernel, about
    arrays : array arguments of a kernel
    scratch_bytes : row-local scratch of one row
    recompute_cost : additions that may be computed again in a later leaf where no scratch fits
    band_points, inner_points : rows are fused when there are at least `band_points` of them or
        none is longer than `inner_points`; otherwise the reduction is split
    long_points : reductions over rows of so many elements are split, however many rows there are
    column_points : the same for reductions over leading axes, whose rows are strided in memory
    recent : how many of the latest kernels a request may join without depending on them
    views : distinct views of one buffer that are told apart when looking for dependencies
    """

    nodes: int = 3000
    arrays: int = 48
    scratch_bytes: int = 256 * 1024
    recompute_cost: int = 60
    band_points: int = 64
    inner_points: int = 1 << 16
    long_points: int = 1 << 17
    column_points: int = 4096
    recent: int = 8
    views: int = 64


DEFAULT_LIMITS = Limits()


def worth_splitting(extents: tuple[int, ...], band_rank: int, limits: Limits) -> bool:
    """Whether the band is too short to keep threads busy and rows are long; or they are so long
    that it costs nothing, and lets a device with little memory compute in parts
    (native/place/tiling.c)."""
    few = math.prod(extents[:band_rank]) < limits.band_points
    inner = math.prod(extents[band_rank:])
    long = extents[-1] >= limits.long_points or (few and inner >= limits.inner_points)
    return band_rank == 0 or long
