"""Which kernels reduce a matrix's columns, a tile of neighbouring vectors at a time, and its width.

How such a kernel is written is each backend's; `llvm/tiles.py` says why it pays.
"""

from __future__ import annotations

from npaccel.ir.nodes import Kernel, Reduce
from npaccel.ir.scalar import item_size, scans

__all__ = ["LINE_BYTES", "is_tiled", "tile_vectors"]

# Bytes of a row that a tile reads at once. Shorter ones are slow to fetch; longer ones would leave
# less of the second-level cache to the next block's rows.
TILE_BYTES = 4096
LINE_BYTES = 64  # of a cache


def is_tiled(kernel: Kernel) -> bool:
    """Whether this kernel is one loop that reduces a matrix's columns."""
    leaf, *rows = kernel.leaves
    return (
        kernel.vector_band
        and kernel.inner_rank == 1
        and not kernel.scratch
        and not leaf.row
        and all(row.row for row in rows)
        and not scans(leaf.all_roots)
        and any(isinstance(effect, Reduce) for effect in leaf.effects)
    )


def tile_vectors(kernel: Kernel, width: int) -> int:
    """How many vectors of `width` columns go through the rows together."""
    moving = [item_size(array.dtype) for array in kernel.arrays if not array.band_only]
    return max(1, TILE_BYTES // (width * max(moving, default=8)))
