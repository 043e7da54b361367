"""A Kernel to something that runs: OpenCL C, the device's code, loaded."""

from __future__ import annotations

from npaccel.backends.base import Loaded
from npaccel.backends.device_kernels import DeviceKernel, bind, symbols_of
from npaccel.backends.emit.devices import machine_of
from npaccel.backends.layout import Layout
from npaccel.backends.opencl.printer import Device, Printer, write_source
from npaccel.backends.opencl.target import Target
from npaccel.errors import Unsupported
from npaccel.ir.nodes import Kernel
from npaccel.ir.scalar import topological

__all__ = ["bind_kernel", "compile_kernel", "emit_image", "load_image", "source_of"]


def compile_kernel(kernel: Kernel, target: Target) -> DeviceKernel:
    """Compile `kernel` for this device; raises CompileError."""
    loaded = load_image(emit_image(kernel, target), symbols_of(kernel), target)
    return bind_kernel(kernel, loaded, target)


def bind_kernel(kernel: Kernel, loaded: Loaded, target: Target) -> DeviceKernel:
    """What `loaded`, made of this very kernel, needs to know to be launched."""
    machine = machine_of(loaded.vector_bytes, target.group_size)
    return bind(kernel, loaded, target, Printer(machine, Layout.of(kernel).size, by_double=False))


def source_of(kernel: Kernel, target: Target) -> str:
    """Text of `kernel` for this device."""
    sizes = target.vector_bytes, target.features, target.group_size
    return write_source(kernel, Device(*sizes, target.by_double))


def emit_image(kernel: Kernel, target: Target) -> bytes:
    """The device's code of `kernel`; raises CompileError, or Unsupported."""
    if not target.fp64 and _uses(kernel, ("f8", "c16")):
        raise Unsupported(f"opencl: {target.name} has no double precision")
    if not target.exact_singles and _uses(kernel, ("f2", "f4", "c8")):
        raise Unsupported(f"opencl: {target.name} rounds single precision otherwise")
    words = Layout.of(kernel).size
    return target.build(source_of(kernel, target), symbols_of(kernel), words)


def _uses(kernel: Kernel, dtypes: tuple[str, ...]) -> bool:
    nodes = (node for leaf in kernel.leaves for node in topological(leaf.all_roots))
    return any(node.dtype in dtypes for node in nodes)


def load_image(image: bytes, symbols: tuple[str, ...], target: Target) -> Loaded:
    """Load the code of a kernel that was built for this device."""
    kernels = target.load(image, symbols)
    run, finish = (*(kernel.int_ptr for kernel in kernels), 0)[:2]
    return Loaded(run, finish, target.vector_bytes, len(image), kernels)
