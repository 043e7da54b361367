"""A Kernel to something that runs: LLVM IR, object code, loaded."""

from __future__ import annotations

from npaccel.backends.base import Loaded
from npaccel.backends.llvm.compiled import CompiledKernel, bind, symbols_of
from npaccel.backends.llvm.printer import write_source
from npaccel.backends.llvm.target import Host
from npaccel.backends.loaded import load_image
from npaccel.errors import CompileError
from npaccel.ir.nodes import Kernel

__all__ = ["CompiledKernel", "compile_kernel", "emit_image", "link_image", "link_kernel"]


def compile_kernel(kernel: Kernel, host: Host) -> CompiledKernel:
    """Compile `kernel` for this machine.

    Raises
    ------
    CompileError : LLVM rejects the kernel.
    """
    image, text = emit_image(kernel, host)
    return link_kernel(kernel, image, host, text)


def emit_image(kernel: Kernel, host: Host) -> tuple[bytes, str]:
    """Object code of `kernel`, and the LLVM IR it was made from; raises CompileError."""
    text = write_source(kernel, host.vector_bytes, fence=host.fence)
    return host.emit_object(text), text


def link_kernel(kernel: Kernel, image: bytes, host: Host, text: str = "") -> CompiledKernel:
    """Load the object code of a kernel that was compiled for a host with the same fingerprint."""
    symbols = symbols_of(kernel)
    try:
        loaded = load_image(image, symbols, host.vector_bytes)
    except CompileError:
        loaded = link_image(image, symbols, host, host.vector_bytes)
    return bind(kernel, loaded, image, text)


def link_image(image: bytes, symbols: tuple[str, ...], host: Host, vector_bytes: int) -> Loaded:
    """Load what the core's loader does not take, with LLVM's linker; raises CompileError."""
    library = host.link(image, symbols)
    main, finish = (*(library[name] for name in symbols), 0)[:2]
    return Loaded(main, finish, vector_bytes, len(image), library)
