"""Compiled kernels: code that the driver has loaded, with what a launch needs to know."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from npaccel import _native
from npaccel.backends.base import Grid, Loaded
from npaccel.backends.layout import CHUNK, PARTIAL_BYTES, Layout, part_count, reductions_of
from npaccel.backends.opencl.target import Target
from npaccel.backends.opencl.tiles import state_bytes
from npaccel.backends.opencl.widths import kernel_width, node_count
from npaccel.backends.tiles import is_tiled, tile_vectors
from npaccel.ir.nodes import Kernel
from npaccel.ir.scalar import item_size

__all__ = ["CompiledKernel", "bind", "work_groups"]

# Memory traffic of a task, which stays in a core's second-level cache.
TASK_BYTES = 256 * 1024
# And of one that a work group shares: some elements for each item.
GROUP_TASK_BYTES = 16 * 1024
# Work groups per unit: enough to balance, few enough that their scratch memory is small.
GROUPS_PER_UNIT = 8
DEVICE_GROUPS_PER_UNIT = 32


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel in the device's code. launcher: what the C core calls; library keeps the code.

    units : that compute at the same time
    group_size : work items that share a task
    """

    kernel: Kernel
    launcher: _native.DeviceKernel
    vector_bytes: int
    library: Loaded
    units: int
    group_size: int = 1

    def scratch_bytes(self, extents: Sequence[int]) -> int:
        """Bytes of scratch that each work group needs, aligned to 64."""
        kernel = self.kernel
        if self.vector_bytes > 0 and is_tiled(kernel):
            return state_bytes(kernel, self.vector_bytes)
        width = kernel_width(kernel, self.vector_bytes) if kernel.vector_band else 1
        inner = math.prod(extents[kernel.band_rank :])
        points = self.group_size if kernel.vector_band else 1
        return points * sum(-(-inner * item_size(d) * width // 64) * 64 for d in kernel.scratch)

    def parts(self, extents: Sequence[int]) -> int:
        """Parts per band point that the finish function combines; 0 without one."""
        return part_count(self.kernel, extents)

    def partial_bytes(self, extents: Sequence[int]) -> int:
        """Bytes of partial results that a launch needs, aligned to 64."""
        points = math.prod(extents[: self.kernel.band_rank]) * self.parts(extents)
        return PARTIAL_BYTES * points * len(reductions_of(self.kernel))

    def task_grid(self, extents: Sequence[int], threads: int) -> Grid:
        """How to cut the domain into tasks; results never depend on it."""
        kernel = self.kernel
        n_band = math.prod(extents[: kernel.band_rank])
        inner = extents[kernel.band_rank :]
        task_bytes = TASK_BYTES if self.group_size == 1 else GROUP_TASK_BYTES
        elements = max(self.group_size, task_bytes // self._element_bytes())
        if not kernel.split:
            return Grid(n_band, self._band_step(elements, math.prod(inner), n_band), 1, 1)
        if len(inner) > 1:
            n_inner, per_unit, granule = math.prod(inner[:-1]), max(1, inner[-1]), 1
        else:
            n_inner, per_unit = inner[0], 1
            granule = CHUNK if reductions_of(kernel) else max(64, self.group_size)
        step = max(1, elements // per_unit // granule) * granule
        whole = math.prod(inner) if step >= n_inner else elements
        return Grid(n_band, self._band_step(elements, whole, n_band), n_inner, step)

    def _band_step(self, elements: int, inner_total: int, n_band: int) -> int:
        step = max(1, elements // max(1, inner_total))
        if not self.kernel.vector_band:
            return step
        vector = kernel_width(self.kernel, self.vector_bytes)
        width = vector * self.group_size
        if self.vector_bytes > 0 and is_tiled(self.kernel):
            tile = width * tile_vectors(self.kernel, vector)
            step = max(step, min(tile, -(-n_band // self.units)))
        return -(-step // width) * width

    def _element_bytes(self) -> int:
        """Bytes moved per element of the domain; a long computation counts as more of them."""
        arrays = [a for a in self.kernel.arrays if not a.band_only]
        moved = sum(item_size(a.dtype) * (a.read + a.written) for a in arrays)
        nodes = sum(node_count(leaf) for leaf in self.kernel.leaves)
        return max(1, moved, nodes // 4)


def work_groups(target: Target) -> int:
    """How many work groups a launch has at most."""
    return target.units * (GROUPS_PER_UNIT if target.processor else DEVICE_GROUPS_PER_UNIT)


def bind(kernel: Kernel, loaded: Loaded, target: Target) -> CompiledKernel:
    """The kernel that `loaded` was made of, ready to be launched."""
    layout = Layout.of(kernel)
    launcher = _native.DeviceKernel(
        target.functions,
        target.queue.int_ptr,
        loaded.main,
        loaded.finish,
        layout.rank,
        layout.arrays,
        layout.size,
        work_groups(target),
        target.group_size,
        target.memory,
        target.host_memory,
    )
    units, group_size = target.units, target.group_size
    return CompiledKernel(kernel, launcher, loaded.vector_bytes, loaded, units, group_size)
