"""Kernels in machine code of the host, ready to be launched.

Needs no compiler: what was stored before is loaded without one.
"""

from __future__ import annotations

from npaccel.backends.base import Loaded
from npaccel.backends.compiled import CompiledKernel
from npaccel.backends.emit import skeletons
from npaccel.backends.emit.tasks import tasks_of
from npaccel.backends.llvm.printer import Printer, machine_of
from npaccel.ir.nodes import Kernel

__all__ = ["CompiledKernel", "bind", "symbols_of"]


def symbols_of(kernel: Kernel) -> tuple[str, ...]:
    """The functions that the object code of `kernel` defines."""
    return skeletons.symbols_of(kernel, "main")


def bind(kernel: Kernel, loaded: Loaded, image: bytes = b"", text: str = "") -> CompiledKernel:
    """The kernel that `loaded` was made of, ready to be launched."""
    tasks = tasks_of(Printer(machine_of(loaded.vector_bytes), set()), kernel)
    return CompiledKernel(kernel, loaded, tasks, image, text)
