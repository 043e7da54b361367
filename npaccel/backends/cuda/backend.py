"""A device of NVIDIA's as a backend: what registry.py opens as ``cuda`` or ``cuda:0``."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Any

from npaccel import _native
from npaccel.backends import device_speeds
from npaccel.backends.base import Capabilities, Loaded
from npaccel.backends.cuda.compile import (
    bind_kernel,
    compile_kernel,
    emit_image,
    load_image,
    source_of,
)
from npaccel.backends.cuda.target import Target
from npaccel.backends.device_kernels import DeviceKernel, symbols_of
from npaccel.errors import BackendUnavailable
from npaccel.ir.nodes import Kernel

__all__ = ["CudaBackend"]


class CudaBackend:
    """Builds kernels with LLVM and NVIDIA's driver.

    Parameters
    ----------
    number : of the device, as `npaccel.devices()` lists them

    Raises
    ------
    BackendUnavailable : llvmlite is not installed, there is no driver, or no such device.
    """

    capabilities = Capabilities()
    vector_bytes = 0
    host_memory = shares_memory = False

    def __init__(self, number: str = "") -> None:
        if find_spec("llvmlite") is None:
            raise BackendUnavailable("cuda: there is no module llvmlite; install it")
        self.target = Target(int(number or 0))
        self.name = f"cuda:{self.target.number}"

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
    def memory(self) -> _native.DeviceMemory:
        """What lives there."""
        return self.target.memory

    def limit_memory(self, size_bytes: int) -> None:
        """Use so many bytes of the device's memory; 0: what suits it."""
        self.target.limit_memory(size_bytes)

    def list_devices(self) -> list[tuple[Any, ...]]:
        """Of every device: its name here, what it is, state, units, bytes of vectors and memory.

        And its identity, what measures it, and whether `auto` may choose it by that; of those that
        can't be used only what they are and why.
        """
        rows: list[tuple[Any, ...]] = []
        driver = self.target.driver
        for number in range(driver.count):
            what = f"{driver.name(number)}, {driver.version}"
            try:
                target = self.target if number == self.target.number else Target(number)
            except BackendUnavailable as error:
                rows.append(("cuda", what, f"unavailable: {error}", 0, 0, 0, "", None, False))
                continue
            what += ", memory of its own"
            measuring = partial(
                device_speeds.measure, target, partial(compile_kernel, target=target)
            )
            sizes = target.units, 0, target.memory_bytes
            rows.append((f"cuda:{number}", what, "ready", *sizes, target.identity, measuring, True))
        return rows

    def compile(self, kernel: Kernel) -> DeviceKernel:
        """Build and load; raises CompileError."""
        return compile_kernel(kernel, self.target)

    def emit_object(self, kernel: Kernel) -> bytes:
        """Code for `link`, here or where the fingerprint is the same."""
        return emit_image(kernel, self.target)

    def source(self, kernel: Kernel) -> str:
        """The LLVM IR of `kernel`."""
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
