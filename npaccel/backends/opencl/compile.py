"""A Kernel to something that runs: OpenCL C, the device's code, loaded."""

from __future__ import annotations

from npaccel.backends.base import Loaded
from npaccel.backends.layout import Layout
from npaccel.backends.opencl.compiled import CompiledKernel, bind
from npaccel.backends.opencl.emit import emit_kernel, symbols_of
from npaccel.backends.opencl.target import Target
from npaccel.errors import Unsupported
from npaccel.ir.nodes import Kernel
from npaccel.ir.scalar import scans, topological

__all__ = ["compile_kernel", "emit_image", "load_image"]


def compile_kernel(kernel: Kernel, target: Target) -> CompiledKernel:
    """Compile `kernel` for this device; raises CompileError."""
    return bind(kernel, load_image(emit_image(kernel, target), symbols_of(kernel), target), target)


def emit_image(kernel: Kernel, target: Target) -> bytes:
    """The device's code of `kernel`; raises CompileError, or Unsupported."""
    if not target.fp64 and _uses(kernel, ("f8", "c16")):
        raise Unsupported(f"opencl: {target.name} has no double precision")
    if not target.exact_singles and _uses(kernel, ("f2", "f4", "c8")):
        raise Unsupported(f"opencl: {target.name} rounds single precision otherwise")
    if any(scans(leaf.all_roots) for leaf in kernel.leaves):
        raise Unsupported("opencl: scans run on the host")
    source = emit_kernel(
        kernel,
        target.vector_bytes,
        target.features,
        target.group_size,
        by_double=target.by_double,
    )
    return target.build(source, symbols_of(kernel), Layout.of(kernel).size)


def _uses(kernel: Kernel, dtypes: tuple[str, ...]) -> bool:
    nodes = (node for leaf in kernel.leaves for node in topological(leaf.all_roots))
    return any(node.dtype in dtypes for node in nodes)


def load_image(image: bytes, symbols: tuple[str, ...], target: Target) -> Loaded:
    """Load the code of a kernel that was built for this device."""
    kernels = target.load(image, symbols)
    run, finish = (*(kernel.int_ptr for kernel in kernels), 0)[:2]
    return Loaded(run, finish, target.vector_bytes, len(image), kernels)
