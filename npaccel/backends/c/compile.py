"""A Kernel to something that runs: C, object code, loaded."""

from __future__ import annotations

from npaccel.backends.base import Loaded
from npaccel.backends.c.printer import Printer, machine_of, write_source
from npaccel.backends.c.target import Compiler
from npaccel.backends.compiled import CompiledKernel
from npaccel.backends.emit import skeletons
from npaccel.backends.emit.tasks import tasks_of
from npaccel.backends.loaded import load_image
from npaccel.ir.nodes import Kernel

__all__ = ["bind", "compile_kernel", "emit_image", "symbols_of"]


def compile_kernel(kernel: Kernel, compiler: Compiler) -> CompiledKernel:
    """Compile `kernel` for this machine; raises CompileError."""
    image, text = emit_image(kernel, compiler)
    loaded = load_image(image, symbols_of(kernel), compiler.vector_bytes, "c")
    return bind(kernel, loaded, image, text)


def emit_image(kernel: Kernel, compiler: Compiler) -> tuple[bytes, str]:
    """Object code of `kernel`, and the C it was made from; raises CompileError."""
    text = write_source(kernel, compiler.vector_bytes)
    return compiler.build(text), text


def symbols_of(kernel: Kernel) -> tuple[str, ...]:
    """The functions that the object code of `kernel` defines."""
    return skeletons.symbols_of(kernel, "run")


def bind(kernel: Kernel, loaded: Loaded, image: bytes = b"", text: str = "") -> CompiledKernel:
    """The kernel that `loaded` was made of, ready to be launched."""
    tasks = tasks_of(Printer(machine_of(loaded.vector_bytes), {}), kernel)
    return CompiledKernel(kernel, loaded, tasks, image, text)
