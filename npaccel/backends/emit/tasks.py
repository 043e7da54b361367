"""What a kernel's tasks depend on, for code of a given machine."""

from __future__ import annotations

from npaccel.backends.emit.builder import Builder
from npaccel.backends.emit.columns import COLUMNS
from npaccel.backends.emit.frame import has_own_points
from npaccel.backends.emit.scanned import ROWS, is_scanned
from npaccel.backends.emit.tiles import state_bytes
from npaccel.backends.emit.widths import (
    is_tiled,
    kernel_width,
    node_count,
    rows_across,
    tile_rows,
    tile_vectors,
)
from npaccel.backends.layout import reductions_of
from npaccel.backends.tasks import LONE_TASK_BYTES, TASK_BYTES, Tasks
from npaccel.ir.nodes import Kernel
from npaccel.ir.scalar import item_size

__all__ = ["tasks_of"]


def tasks_of(
    b: Builder, kernel: Kernel, task_bytes: int = TASK_BYTES, lone_bytes: int = LONE_TASK_BYTES
) -> Tasks:
    """How launches are cut; `b`, a builder of that machine's code, is used up."""
    machine, width, tile = b.machine, 0, 0
    group = machine.group_size
    scratch = tuple(item_size(dtype) for dtype in kernel.scratch)
    if kernel.vector_band:
        width = kernel_width(kernel, machine) * group
        scratch = tuple(size * width for size in scratch)
    elif has_own_points(kernel):
        scratch = tuple(size * group for size in scratch)
    if group > 1 and is_tiled(kernel):
        width = COLUMNS
    elif group > 1 and is_scanned(kernel):
        width = ROWS
    elif is_tiled(kernel) and machine.vector_bytes > 0:
        tile = width * tile_vectors(kernel, width)
        scratch = (state_bytes(b, kernel),)
    elif tile_rows(kernel) and machine.vector_bytes > 0:
        tile = tile_rows(kernel)
        width = tile if kernel.inner_rank == 1 else 0
        scratch = (state_bytes(b, kernel),)
    return Tasks(
        kernel.band_rank,
        kernel.split,
        len(reductions_of(kernel)),
        _element_bytes(kernel),
        width,
        tile,
        scratch,
        rows_across(kernel) if group == 1 else 0,
        group,
        task_bytes,
        lone_bytes,
    )


def _element_bytes(kernel: Kernel) -> int:
    """Bytes moved per element of the domain; a long computation counts as more of them."""
    arrays = [a for a in kernel.arrays if not a.band_only]
    moved = sum(item_size(a.dtype) * (a.read + a.written) for a in arrays)
    nodes = sum(node_count(leaf) for leaf in kernel.leaves)
    return max(1, moved, nodes // 4)
