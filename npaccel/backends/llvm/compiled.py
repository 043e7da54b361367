"""Compiled kernels: machine code that is loaded, with what a launch needs to know.

Needs no compiler: what was stored before is loaded without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npaccel.backends.base import Grid, Loaded
from npaccel.backends.layout import reductions_of
from npaccel.backends.llvm.tiles import state_bytes
from npaccel.backends.llvm.widths import kernel_width, node_count
from npaccel.backends.tasks import Tasks
from npaccel.backends.tiles import is_tiled, tile_vectors
from npaccel.ir.nodes import Kernel
from npaccel.ir.scalar import item_size

__all__ = ["CompiledKernel", "bind", "symbols_of"]


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel in machine code. main, finish: addresses; finish is 0 without one.

    The code lives as long as `library`. `image` is the object code, `text` the LLVM IR it was made
    from (empty when the image came from a store). `tasks`: how launches are cut.
    """

    kernel: Kernel
    main: int
    finish: int
    image: bytes
    text: str
    vector_bytes: int
    library: Loaded
    tasks: Tasks

    def scratch_bytes(self, extents: Sequence[int]) -> int:
        """Bytes of scratch that each running task needs, aligned to 64."""
        return self.tasks.scratch_bytes(extents)

    def parts(self, extents: Sequence[int]) -> int:
        """Parts per band point that the finish function combines; 0 without one."""
        return self.tasks.parts(extents)

    def partial_bytes(self, extents: Sequence[int]) -> int:
        """Bytes of partial results that a launch needs, aligned to 64."""
        return self.tasks.partial_bytes(extents)

    def task_grid(self, extents: Sequence[int], threads: int) -> Grid:
        """How to cut the domain into tasks; results never depend on it."""
        return self.tasks.grid(extents, threads)


def symbols_of(kernel: Kernel) -> tuple[str, ...]:
    """The functions that the object code of `kernel` defines."""
    finishes = kernel.split and bool(reductions_of(kernel))
    return ("main", "finish") if finishes else ("main",)


def bind(kernel: Kernel, loaded: Loaded, image: bytes = b"", text: str = "") -> CompiledKernel:
    """The kernel that `loaded` was made of, ready to be launched."""
    size = loaded.vector_bytes
    return CompiledKernel(
        kernel, loaded.main, loaded.finish, image, text, size, loaded, _tasks(kernel, size)
    )


def _tasks(kernel: Kernel, vector_bytes: int) -> Tasks:
    width, tile = 0, 0
    scratch = tuple(item_size(dtype) for dtype in kernel.scratch)
    if kernel.vector_band:
        width = kernel_width(kernel, vector_bytes)
        scratch = tuple(size * width for size in scratch)
    if is_tiled(kernel):
        tile = width * tile_vectors(kernel, width)
        scratch = (state_bytes(kernel, vector_bytes),)
    reductions = len(reductions_of(kernel))
    weight = _element_bytes(kernel)
    return Tasks(kernel.band_rank, kernel.split, reductions, weight, width, tile, scratch)


def _element_bytes(kernel: Kernel) -> int:
    """Bytes moved per element of the domain; a long computation counts as more of them."""
    arrays = [a for a in kernel.arrays if not a.band_only]
    moved = sum(item_size(a.dtype) * (a.read + a.written) for a in arrays)
    nodes = sum(node_count(leaf) for leaf in kernel.leaves)
    return max(1, moved, nodes // 4)
