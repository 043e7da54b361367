"""A device of NVIDIA's as a backend: what registry.py opens as ``cuda`` or ``cuda:0``."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Any

from npaccel.backends import device_speeds
from npaccel.backends.base import Loaded
from npaccel.backends.cuda.compile import (
    bind_kernel,
    compile_kernel,
    emit_image,
    load_image,
    source_of,
)
from npaccel.backends.cuda.target import Target
from npaccel.backends.device_backend import DeviceBackend
from npaccel.backends.device_kernels import DeviceKernel
from npaccel.errors import BackendUnavailable
from npaccel.ir.nodes import Kernel

__all__ = ["CudaBackend"]


class CudaBackend(DeviceBackend):
    """Builds kernels with LLVM and NVIDIA's driver.

    Parameters
    ----------
    number : of the device, as `npaccel.devices()` lists them

    Raises
    ------
    BackendUnavailable : llvmlite is not installed, there is no driver, or no such device.
    """

    def __init__(self, number: str = "") -> None:
        if find_spec("llvmlite") is None:
            raise BackendUnavailable("cuda: there is no module llvmlite; install it")
        self.target = Target(int(number or 0))
        super().__init__("cuda", self.target)

    def list_devices(self) -> list[tuple[Any, ...]]:
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

    def emit_object(self, kernel: Kernel) -> bytes:
        return emit_image(kernel, self.target)

    def source(self, kernel: Kernel) -> str:
        return source_of(kernel, self.target)

    def load(self, image: bytes, symbols: tuple[str, ...], vector_bytes: int) -> Loaded:
        return load_image(image, symbols, self.target)

    def bind(self, kernel: Kernel, loaded: Loaded) -> DeviceKernel:
        return bind_kernel(kernel, loaded, self.target)
