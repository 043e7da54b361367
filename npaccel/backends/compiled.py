"""Compiled kernels of our backends: code that is loaded, with what a launch needs to know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npaccel.backends.base import Grid, Loaded
from npaccel.backends.tasks import Tasks
from npaccel.ir.nodes import Kernel

__all__ = ["CompiledKernel"]


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel in machine code. main, finish: addresses; finish is 0 without one.

    The code lives as long as `library`. `image` is the object code, `text` what it was made from
    (empty when the image came from a store). `tasks`: how launches are cut.
    """

    kernel: Kernel
    library: Loaded
    tasks: Tasks
    image: bytes = b""
    text: str = ""

    @property
    def main(self) -> int:
        return self.library.main

    @property
    def finish(self) -> int:
        return self.library.finish

    @property
    def vector_bytes(self) -> int:
        return self.library.vector_bytes

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
