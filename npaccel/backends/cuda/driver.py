"""NVIDIA's driver: its devices, their contexts, and code that it loads."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_void_p
from typing import Any

from npaccel import _native
from npaccel.errors import BackendUnavailable, CompileError

__all__ = ["LIBRARY", "Driver"]

LIBRARY = "libcuda.so.1"
# What the C core calls, in the order of native/place/cuda.c.
_CALLED = (
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuStreamSynchronize",
    "cuLaunchKernel",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventDestroy_v2",
)
# CUdevice_attribute.
_UNITS, _MAJOR, _MINOR = 16, 75, 76
_NON_BLOCKING = 1  # of a stream: it does not wait for the legacy stream
_PTX, _ERROR_TEXT, _ERROR_BYTES, _TEXT_BYTES = 1, 5, 6, 8192  # CUjitInputType, CUjit_option


class Driver:
    """The driver's library. Made once and kept.

    Raises
    ------
    BackendUnavailable : there is none, or it does not work here.
    """

    def __init__(self, path: str = LIBRARY) -> None:
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            what = f"cuda: there is no driver of NVIDIA's ({error})"
            raise BackendUnavailable(f"{what}; it comes with the system, not with pip") from error
        self._do("cuInit", c_uint(0))
        version, count = c_int(), c_int()
        self._do("cuDriverGetVersion", byref(version))
        self._do("cuDeviceGetCount", byref(count))
        self.version = f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"
        self.count = count.value
        if not self.count:
            raise BackendUnavailable("cuda: NVIDIA's driver has no device")
        called = (ctypes.cast(getattr(self._library, name), c_void_p).value for name in _CALLED)
        self.functions = _native.cuda_functions(tuple(address or 0 for address in called))

    def _call(self, name: str, *arguments: Any) -> int:
        return int(getattr(self._library, name)(*arguments))

    def _do(self, name: str, *arguments: Any) -> None:
        """Raises BackendUnavailable with the driver's word for what went wrong."""
        status = self._call(name, *arguments)
        if status:
            raise BackendUnavailable(f"cuda: {name} said {self.error_name(status)}")

    def error_name(self, status: int) -> str:
        """The driver's word for an error's number."""
        text = c_char_p()
        if self._call("cuGetErrorName", c_int(status), byref(text)) or text.value is None:
            return f"error {status}"
        return text.value.decode()

    # Devices.

    def name(self, number: int) -> str:
        text = ctypes.create_string_buffer(256)
        self._do("cuDeviceGetName", text, c_int(len(text)), self._device(number))
        return text.value.decode()

    def memory_bytes(self, number: int) -> int:
        size = c_size_t()
        self._do("cuDeviceTotalMem_v2", byref(size), self._device(number))
        return size.value

    def units(self, number: int) -> int:
        """Multiprocessors."""
        return self._attribute(_UNITS, number)

    def capability(self, number: int) -> tuple[int, int]:
        """What NVIDIA calls the compute capability."""
        return self._attribute(_MAJOR, number), self._attribute(_MINOR, number)

    def _attribute(self, attribute: int, number: int) -> int:
        value = c_int()
        self._do("cuDeviceGetAttribute", byref(value), c_int(attribute), self._device(number))
        return value.value

    def _device(self, number: int) -> c_int:
        device = c_int()
        self._do("cuDeviceGet", byref(device), c_int(number))
        return device

    # What needs a context: that which other libraries of the process use, too.

    def context(self, number: int) -> int:
        """The device's own."""
        context = c_void_p()
        self._do("cuDevicePrimaryCtxRetain", byref(context), self._device(number))
        return context.value or 0

    def stream(self, context: int) -> int:
        """A new one."""
        stream = c_void_p()
        with self._inside(context):
            self._do("cuStreamCreate", byref(stream), c_uint(_NON_BLOCKING))
        return stream.value or 0

    def assemble(self, context: int, text: bytes) -> bytes:
        """Machine code of PTX for the device; raises CompileError."""
        said = ctypes.create_string_buffer(_TEXT_BYTES)
        options = (c_int * 2)(_ERROR_TEXT, _ERROR_BYTES)
        values = (c_void_p * 2)(ctypes.addressof(said), _TEXT_BYTES)
        state, image, size = c_void_p(), c_void_p(), c_size_t()
        with self._inside(context):
            self._do("cuLinkCreate_v2", c_uint(2), options, values, byref(state))
            try:
                source = ctypes.create_string_buffer(text)
                given = (c_int(_PTX), source, c_size_t(len(source)), b"kernel")
                status = self._call("cuLinkAddData_v2", state, *given, c_uint(0), None, None)
                status = status or self._call("cuLinkComplete", state, byref(image), byref(size))
                made = b"" if status else ctypes.string_at(image.value or 0, size.value)
            finally:
                self._call("cuLinkDestroy", state)
        if status:
            lines = said.value.decode(errors="replace").strip().splitlines()
            why = " ".join(lines[:4]) or self.error_name(status)
            raise CompileError(f"cuda: a kernel was rejected: {why}")
        return made

    def load(self, context: int, image: bytes) -> Module:
        """Code that `assemble` made; raises CompileError."""
        module = c_void_p()
        with self._inside(context):
            status = self._call("cuModuleLoadData", byref(module), image)
        if status:
            raise CompileError(f"cuda: code was not loaded: {self.error_name(status)}")
        return Module(self, context, module.value or 0)

    def _inside(self, context: int) -> _Inside:
        return _Inside(self, context)


class _Inside:
    """The context is the thread's."""

    def __init__(self, driver: Driver, context: int) -> None:
        self._driver, self._context = driver, context

    def __enter__(self) -> None:
        self._driver._do("cuCtxPushCurrent_v2", c_void_p(self._context))

    def __exit__(self, *raised: object) -> None:
        self._driver._call("cuCtxPopCurrent_v2", byref(c_void_p()))


class Module:
    """Code on a device, as long as this lives."""

    def __init__(self, driver: Driver, context: int, module: int) -> None:
        self._driver, self._context, self._module = driver, context, module

    def kernel(self, symbol: str, arguments: int) -> tuple[int, object]:
        """The address of a kernel function with so many arguments, and what keeps it."""
        function = c_void_p()
        with self._driver._inside(self._context):
            given = c_void_p(self._module), symbol.encode()
            status = self._driver._call("cuModuleGetFunction", byref(function), *given)
        if status:
            raise CompileError(f"cuda: there is no {symbol}: {self._driver.error_name(status)}")
        return _native.cuda_kernel(function.value or 0, arguments)

    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        driver = self._driver
        if is_ending():  # the driver's own end frees all
            return
        if not driver._call("cuCtxPushCurrent_v2", c_void_p(self._context)):
            driver._call("cuModuleUnload", c_void_p(self._module))
            driver._call("cuCtxPopCurrent_v2", byref(c_void_p()))
