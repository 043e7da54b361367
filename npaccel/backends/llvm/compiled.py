"""Compiled kernels: machine code that is loaded, with what a launch needs to know.

Needs no compiler: what was stored before is loaded without one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from npaccel.backends.base import Grid, Loaded
from npaccel.backends.layout import CHUNK, PARTIAL_BYTES, part_count, reductions_of
from npaccel.backends.llvm.tiles import is_tiled, state_bytes, tile_vectors
from npaccel.backends.llvm.widths import kernel_width, node_count
from npaccel.ir.nodes import Kernel
from npaccel.ir.scalar import item_size

__all__ = ["CompiledKernel", "bind", "symbols_of"]

# Memory traffic of a task: small enough to stay in a core's second-level cache and to spread
# over threads, large enough that claiming it costs nothing. Alone, tasks only let signals in.
TASK_BYTES = 128 * 1024
LONE_TASK_BYTES = 8 * 1024 * 1024
# So little is done before a second thread has woken up.
ALONE_BYTES = 768 * 1024


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel in machine code. main, finish: addresses; finish is 0 without one.

    The code lives as long as `library`. `image` is the object code, `text` the LLVM IR it was
    made from (empty when the image came from a store).
    """

    kernel: Kernel
    main: int
    finish: int
    image: bytes
    text: str
    vector_bytes: int
    library: Loaded

    def scratch_bytes(self, extents: Sequence[int]) -> int:
        """Bytes of scratch that each running task needs, aligned to 64."""
        kernel = self.kernel
        if is_tiled(kernel):
            return state_bytes(kernel, self.vector_bytes)
        width = kernel_width(kernel, self.vector_bytes) if kernel.vector_band else 1
        inner = math.prod(extents[kernel.band_rank :])
        return sum(-(-inner * item_size(d) * width // 64) * 64 for d in kernel.scratch)

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
        weight = self._element_bytes()
        alone = threads == 1 or weight * math.prod(extents) <= ALONE_BYTES
        target = LONE_TASK_BYTES if alone else TASK_BYTES
        elements = max(1, target // weight)
        if not kernel.split:
            return Grid(n_band, self._band_step(elements, math.prod(inner), n_band, threads), 1, 1)
        if len(inner) > 1:
            n_inner, per_unit, granule = math.prod(inner[:-1]), max(1, inner[-1]), 1
        else:
            n_inner, per_unit = inner[0], 1
            granule = CHUNK if reductions_of(kernel) else 64
        step = max(1, elements // per_unit // granule) * granule
        whole = math.prod(inner) if step >= n_inner else elements
        band_step = self._band_step(elements, whole, n_band, threads)
        return Grid(n_band, band_step, n_inner, step)

    def _band_step(self, elements: int, inner_total: int, n_band: int, threads: int) -> int:
        step = max(1, elements // max(1, inner_total))
        if not self.kernel.vector_band:
            return step
        width = kernel_width(self.kernel, self.vector_bytes)
        if is_tiled(self.kernel):
            tile = width * tile_vectors(self.kernel, self.vector_bytes)
            step = max(step, min(tile, -(-n_band // threads)))
        return -(-step // width) * width

    def _element_bytes(self) -> int:
        """Bytes moved per element of the domain; a long computation counts as more of them."""
        arrays = [a for a in self.kernel.arrays if not a.band_only]
        moved = sum(item_size(a.dtype) * (a.read + a.written) for a in arrays)
        nodes = sum(node_count(leaf) for leaf in self.kernel.leaves)
        return max(1, moved, nodes // 4)


def symbols_of(kernel: Kernel) -> tuple[str, ...]:
    """The functions that the object code of `kernel` defines."""
    finishes = kernel.split and bool(reductions_of(kernel))
    return ("main", "finish") if finishes else ("main",)


def bind(kernel: Kernel, loaded: Loaded, image: bytes = b"", text: str = "") -> CompiledKernel:
    """The kernel that `loaded` was made of, ready to be launched."""
    return CompiledKernel(
        kernel, loaded.main, loaded.finish, image, text, loaded.vector_bytes, loaded
    )
