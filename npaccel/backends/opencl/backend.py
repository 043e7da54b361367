"""An OpenCL device as a backend: what registry.py opens as ``opencl`` or ``opencl:0``."""

from __future__ import annotations

from functools import partial
from typing import Any

from npaccel.backends.base import Loaded
from npaccel.backends.device_backend import DeviceBackend
from npaccel.backends.device_kernels import DeviceKernel
from npaccel.backends.opencl.compile import bind_kernel, emit_image, load_image, source_of
from npaccel.backends.opencl.speeds import measure
from npaccel.backends.opencl.target import Target, list_devices
from npaccel.ir.nodes import Kernel

__all__ = ["OpenclBackend"]


class OpenclBackend(DeviceBackend):
    """Builds kernels with an OpenCL driver.

    Parameters
    ----------
    number : of the device, as `npaccel.devices()` lists them

    Raises
    ------
    BackendUnavailable : pyopencl is not installed, there is no driver, or no such device.
    """

    def __init__(self, number: str = "") -> None:
        self.target = Target(int(number or 0))
        super().__init__("opencl", self.target)

    def list_devices(self) -> list[tuple[Any, ...]]:
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

    def emit_object(self, kernel: Kernel) -> bytes:
        return emit_image(kernel, self.target)

    def source(self, kernel: Kernel) -> str:
        return source_of(kernel, self.target)

    def load(self, image: bytes, symbols: tuple[str, ...], vector_bytes: int) -> Loaded:
        return load_image(image, symbols, self.target)

    def bind(self, kernel: Kernel, loaded: Loaded) -> DeviceKernel:
        return bind_kernel(kernel, loaded, self.target)
