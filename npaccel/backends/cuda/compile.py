"""A Kernel to something that runs: LLVM IR, PTX, the device's code, loaded."""

from __future__ import annotations

import struct

from npaccel.backends.base import Loaded
from npaccel.backends.cuda.printer import Printer, write_source
from npaccel.backends.cuda.target import Target
from npaccel.backends.device_kernels import DeviceKernel, bind, symbols_of
from npaccel.backends.emit.devices import machine_of
from npaccel.backends.layout import Layout
from npaccel.ir.nodes import Kernel

__all__ = ["bind_kernel", "compile_kernel", "emit_image", "load_image", "source_of"]

FIXED_ARGUMENTS = 4  # of a kernel function, before its arrays
_ARGUMENTS = struct.Struct("<Q")  # their number, before the device's code


def compile_kernel(kernel: Kernel, target: Target) -> DeviceKernel:
    """Compile `kernel` for this device; raises CompileError."""
    loaded = load_image(emit_image(kernel, target), symbols_of(kernel), target)
    return bind_kernel(kernel, loaded, target)


def source_of(kernel: Kernel, target: Target) -> str:
    """The LLVM IR of `kernel` for this device."""
    return write_source(kernel, target.group_size)


def emit_image(kernel: Kernel, target: Target) -> bytes:
    """The device's code of `kernel`; raises CompileError."""
    arguments = _ARGUMENTS.pack(FIXED_ARGUMENTS + len(kernel.arrays))
    return arguments + target.build(source_of(kernel, target))


def load_image(image: bytes, symbols: tuple[str, ...], target: Target) -> Loaded:
    """Load the code of a kernel that was built for this device."""
    (arguments,) = _ARGUMENTS.unpack_from(image)
    module = target.load(image[_ARGUMENTS.size :])
    kernels = [module.kernel(symbol, arguments) for symbol in symbols]
    run, finish = (*(address for address, _ in kernels), 0)[:2]
    return Loaded(run, finish, 0, len(image), (module, kernels))


def bind_kernel(kernel: Kernel, loaded: Loaded, target: Target) -> DeviceKernel:
    """What `loaded`, made of this very kernel, needs to know to be launched."""
    builder = Printer(machine_of(0, target.group_size), set(), Layout.of(kernel).size, "run")
    return bind(kernel, loaded, target, builder)
