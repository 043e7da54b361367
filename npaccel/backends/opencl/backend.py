"""An OpenCL device as a backend: what registry.py opens as ``opencl`` or ``opencl:0``."""

from __future__ import annotations

from functools import partial
from typing import Any

from npaccel import _native
from npaccel.backends.base import Capabilities, Loaded
from npaccel.backends.device_kernels import DeviceKernel, symbols_of
from npaccel.backends.opencl.compile import bind_kernel, emit_image, load_image, source_of
from npaccel.backends.opencl.speeds import measure
from npaccel.backends.opencl.target import Target, list_devices
from npaccel.ir.nodes import Kernel

__all__ = ["OpenclBackend"]


class OpenclBackend:
    """Builds kernels with an OpenCL driver.

    Parameters
    ----------
    number : of the device, as `npaccel.devices()` lists them

    Raises
    ------
    BackendUnavailable : pyopencl is not installed, there is no driver, or no such device.
    """

    capabilities = Capabilities()

    def __init__(self, number: str = "") -> None:
        self.target = Target(int(number or 0))
        self.name = f"opencl:{self.target.number}"

    @property
    def fingerprint(self) -> str:
        """Text that changes whenever stored code would not do any more."""
        return self.target.identity

    @property
    def identity(self) -> str:
        return self.target.identity

    @property
    def device(self) -> str:
        """The device, as its driver names it."""
        return self.target.name

    @property
    def vector_bytes(self) -> int:
        return self.target.vector_bytes

    @property
    def memory(self) -> _native.DeviceMemory:
        """What lives there."""
        return self.target.memory

    @property
    def host_memory(self) -> bool:
        """Whether kernels use the host's memory, and nothing moves."""
        return self.target.host_memory

    @property
    def shares_memory(self) -> bool:
        """Whether they could, whatever was set."""
        return self.target.shares_memory

    def limit_memory(self, size_bytes: int) -> None:
        """Use so many bytes of the device's memory; 0: what suits it."""
        self.target.limit_memory(size_bytes)

    def list_devices(self) -> list[tuple[Any, ...]]:
        """Of every device: its name here, what it is, state, units, bytes of vectors and memory.

        And its identity, what measures it, and whether `auto` may choose it by that; of those that
        can't be used only what they are and why.
        """
        rows: list[tuple[Any, ...]] = []
        for found in list_devices():
            if found.unusable:
                what = f"{found.name}, {found.driver}"
                state = f"unavailable: {found.unusable}"
                rows.append(("opencl", what, state, 0, 0, 0, "", None, False))
                continue
            target = self.target if found.number == self.target.number else Target(found.number)
            what = f"{target.name}, {target.driver}"
            what += "" if target.fp64 else ", no double precision"
            what += "" if target.host_memory else ", memory of its own"
            sizes = target.units, target.vector_bytes, target.memory_bytes
            # A processor is never chosen by a prediction, and its compilers take their time.
            measuring = partial(measure, target, kernels=not target.processor)
            measured = target.identity, measuring, not target.processor
            rows.append((f"opencl:{found.number}", what, "ready", *sizes, *measured))
        return rows

    def compile(self, kernel: Kernel) -> DeviceKernel:
        """Build and load; raises CompileError."""
        return self.link(kernel, self.emit_object(kernel))

    def emit_object(self, kernel: Kernel) -> bytes:
        """Code for `link`, here or where the fingerprint is the same."""
        return emit_image(kernel, self.target)

    def source(self, kernel: Kernel) -> str:
        """The OpenCL C of `kernel`, as the driver gets it."""
        return source_of(kernel, self.target)

    def link(self, kernel: Kernel, image: bytes) -> DeviceKernel:
        """Load code that `emit_object` made of the same kernel."""
        return self.bind(kernel, self.load(image, self.symbols(kernel), self.vector_bytes))

    def load(self, image: bytes, symbols: tuple[str, ...], vector_bytes: int) -> Loaded:
        """Load code; raises CompileError."""
        return load_image(image, symbols, self.target)

    def symbols(self, kernel: Kernel) -> tuple[str, ...]:
        """Functions that the code of `kernel` defines."""
        return symbols_of(kernel)

    def bind(self, kernel: Kernel, loaded: Loaded) -> DeviceKernel:
        """What `loaded`, made of this very kernel, needs to know to be launched."""
        return bind_kernel(kernel, loaded, self.target)
