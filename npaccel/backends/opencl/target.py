"""An OpenCL device: what there is, what it can do, and how programs are built for it."""

from __future__ import annotations

import atexit
import ctypes
import os
import platform
import select
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npaccel import _native, system
from npaccel.backends.emit.scanned import LONGEST, ROWS
from npaccel.backends.layout import LANES
from npaccel.backends.opencl.folders import Folder
from npaccel.backends.opencl.helper import read_message, write_message
from npaccel.config import driver_environment, set_driver_folder
from npaccel.errors import BackendUnavailable, BuildTimeout, CompileError, Unsupported

__all__ = ["BUILD_SECONDS", "Builder", "Target", "find_devices", "list_devices"]

BUILD_SECONDS = 60.0
# Vectors wider than those of the processor that PoCL compiles for, which may be older than this
# one, make its compiler slow or hang.
WIDEST_BYTES = 32
# What PoCL does not use where its LLVM is older than the processor; all are needed for WIDE_BYTES.
WIDE_FEATURES = ("avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl")
WIDE_BYTES = 64
# Work items of a group: several warps or wavefronts, and small enough for any register use.
GROUP_SIZE = 128
GROUP_MEMORY_BYTES = max(16 * GROUP_SIZE, 8 * ROWS * (LONGEST + 1))
# For PoCL; see Note [Builds] of preamble.py.
BARE = "-D_OPENCL_H_ -DBARE"
_LAUNCH = (
    "clSetKernelArgSVMPointer",
    "clEnqueueNDRangeKernel",
    "clWaitForEvents",
    "clGetEventInfo",
    "clReleaseEvent",
)
_MEMORY = (
    "clCreateBuffer",
    "clReleaseMemObject",
    "clEnqueueReadBuffer",
    "clEnqueueWriteBuffer",
    "clSetKernelArg",
    "clEnqueueNDRangeKernel",
    "clFinish",
    "clFlush",
    "clEnqueueMapBuffer",
    "clWaitForEvents",
    "clReleaseEvent",
)
HOW_TO_GET = "pip install 'pyopencl[pocl]' gets both, with a driver for processors (PoCL)"
# What LLVM calls a processor that it does not know.
UNKNOWN = b"generic"


def _opencl() -> Any:
    """The module pyopencl; PoCL's folder is this process's own, removed at its end.

    PoCL's cache is not safe between processes, and pyopencl's would come between us and it.
    """
    folder = Folder() if "pyopencl" not in sys.modules else None
    if folder is not None:
        set_driver_folder(folder.path)
        atexit.register(folder.remove)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pyopencl
    except ImportError as error:
        if folder is not None:
            folder.remove()
        what = f"it needs pyopencl and a driver ({error})"
        raise BackendUnavailable(f"opencl: {what}; {HOW_TO_GET}") from error
    return pyopencl


@dataclass(frozen=True, slots=True)
class Found:
    """A device as the drivers list it.

    number : as in ``opencl:0``; of those that can be used.
    place : platform and device.
    unusable : why it can't be used, or ''.
    """

    number: int
    place: tuple[int, int]
    name: str
    driver: str
    device: Any
    unusable: str


def find_devices() -> list[Found]:
    """Every OpenCL device; raises BackendUnavailable if there is none that can be used."""
    found = list_devices()
    usable = [device for device in found if not device.unusable]
    if not usable:
        why = "; ".join(dict.fromkeys(device.unusable for device in found))
        raise BackendUnavailable(f"opencl: {why}")
    return usable


def list_devices() -> list[Found]:
    """The same with those that can't be used; raises BackendUnavailable if there is none."""
    cl = _opencl()
    try:
        platforms = cl.get_platforms()
    except cl.Error as error:
        raise BackendUnavailable(f"opencl: there is no driver ({error}); {HOW_TO_GET}") from error
    found: list[Found] = []
    number = 0
    for i, its in enumerate(platforms):
        for j, device in enumerate(its.get_devices()):
            driver = f"{its.name} {device.driver_version}"
            unusable = _unusable(cl, device, driver)
            found.append(Found(number, (i, j), device.name.strip(), driver, device, unusable))
            number += not unusable
    if not found:
        raise BackendUnavailable(f"opencl: the drivers have no device; {HOW_TO_GET}")
    return found


def _unusable(cl: Any, device: Any, driver: str) -> str:
    """Why a driver that lists the device builds nothing for it, or ''.

    PoCL tells its Clang the processor's name, which rejects every source for an x86 that the LLVM
    inside does not know: PoCL 3.0 of the wheel for AMD's since 2024.
    """
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    if not (x86 and _is_pocl(cl, device) and _pocls_processor() == UNKNOWN):
        return ""
    what = f"the compiler of {driver} does not know this processor ({device.name.strip()})"
    return f"{what} and rejects every kernel; a newer PoCL does, for example conda-forge's"


def _is_pocl(cl: Any, device: Any) -> bool:
    """Whether it is this machine's processor through PoCL."""
    return bool(device.type & cl.device_type.CPU) and "PoCL" in device.version


def _pocls_processor() -> bytes:
    """What PoCL's LLVM calls this machine's processor, or b'' where it does not tell."""
    try:
        path = system.mapped_file(rb"/.*/libpocl[^/\n]*\.so[^/\n]*$")
        name = ctypes.CDLL(path).pocl_get_llvm_cpu_name
    except (OSError, AttributeError):
        return b""
    name.restype = ctypes.c_char_p
    return name() or b""


class Builder:
    """Builds programs in the helper process, started when it is first needed."""

    def __init__(self, seconds: float = BUILD_SECONDS, command: Sequence[str] = ()) -> None:
        file = Path(__file__).with_name("helper.py")
        self.seconds = seconds
        self._command = list(command) or [sys.executable, "-P", str(file)]
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._folder: Folder | None = None
        self._lock = threading.Lock()

    def build(self, header: dict[str, Any], source: str) -> bytes:
        """The device's code.

        Raises
        ------
        CompileError : the driver rejects the source, or takes too long, or crashes.
        """
        with self._lock:
            process = self._running()
            assert process.stdin is not None and process.stdout is not None
            try:
                write_message(process.stdin, header, source.encode())
                if not _readable(process.stdout, self.seconds):
                    self.stop()
                    raise BuildTimeout(f"opencl: a build took more than {self.seconds:g} s")
                answer, image = read_message(process.stdout)
            except (OSError, EOFError) as error:
                self.stop()
                raise CompileError("opencl: the driver's compiler crashed") from error
            except BaseException:  # Ctrl-C: the answer to this would be taken for that to the next
                self.stop()
                raise
        if not answer["ok"]:
            lines = str(answer["error"]).strip().splitlines()
            raise CompileError(f"opencl: a kernel was rejected: {' '.join(lines[:4])}")
        return image

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._owner != os.getpid():
            pipe = subprocess.PIPE
            self._folder = Folder()
            self._process = subprocess.Popen(
                self._command,
                stdin=pipe,
                stdout=pipe,
                stderr=subprocess.DEVNULL,
                env=driver_environment(self._folder.path),
            )
            self._owner = os.getpid()
            atexit.register(self.stop)
        return self._process

    def stop(self) -> None:
        """End the process; the next build starts another."""
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        assert process.stdin is not None and process.stdout is not None
        process.kill()
        process.wait()
        process.stdout.close()
        if self._folder is not None:
            self._folder.remove()
        with suppress(OSError):
            process.stdin.close()


def _processor_has(features: Iterable[str]) -> bool:
    """Whether Linux lists all of these for the first processor."""
    return system.processor_features().issuperset(features)


def _readable(stream: Any, seconds: float) -> bool:
    end = time.monotonic() + seconds
    ready, _, _ = select.select([stream], [], [], max(0.0, end - time.monotonic()))
    return bool(ready)


class Target:
    """One device, its context and queue. Made once and kept.

    Attributes
    ----------
    exact_singles : whether what is computed in f4 has IEEE's bits
    by_double : whether it does since quotients and square roots are computed in f8
    pocl : whether the driver is PoCL, for this machine's processor
    features : of the processor that code is to use, whatever the driver believes; see `Device`
    vector_bytes : of the vectors to write; 0: one element at a time
    group_size : work items that share a task; 1 on processors
    shares_memory : whether kernels can read and write the host's memory through its own addresses
    memory : what lies in the device's own memory; used unless `host_memory`
    host_memory : whether kernels are given the host's addresses; `limit_memory` may change it
    """

    def __init__(self, number: int = 0) -> None:
        cl = self.cl = _opencl()
        devices = find_devices()
        if number >= len(devices):
            known = ", ".join(f"opencl:{d.number} ({d.name})" for d in devices)
            raise BackendUnavailable(f"there is no device opencl:{number}; there are: {known}")
        found = self.found = devices[number]
        device = self.device = found.device
        self.number, self.name, self.driver = number, found.name, found.driver
        self.processor = bool(device.type & cl.device_type.CPU)
        self.pocl = _is_pocl(cl, device)
        self.fp64 = "cl_khr_fp64" in device.extensions
        self.exact_singles, self.by_double = self._singles()
        self.units = int(device.max_compute_units)
        self.memory_bytes = int(device.global_mem_size)
        self.largest_bytes = int(device.max_mem_alloc_size)
        self.shares_memory = self.host_memory = self._shares_memory()
        self.features = self._features()
        self.vector_bytes = self._vector_bytes()
        self.group_size = 1 if self.processor else self._group_size()
        self.options = self._options()
        self.cl_context = cl.Context([device])
        self.cl_queue = cl.CommandQueue(self.cl_context)
        self.transfers = cl.CommandQueue(self.cl_context)  # of data, while kernels run
        self.context, self.queue = self.cl_context.int_ptr, self.cl_queue.int_ptr
        self.functions, self.memory_functions = map(self._addresses, (_LAUNCH, _MEMORY))
        self.memory = _native.DeviceMemory(
            self.memory_functions,
            self.context,
            self.queue,
            self.transfers.int_ptr,
            f"opencl:{number}",
            self._own_bytes,
            self.largest_bytes,
        )
        if not self.host_memory:
            self.memory.want(True)
        self.builder = Builder()
        self._process = os.getpid()
        self.identity = self._identity()

    def _identity(self) -> str:
        words = ["opencl", self.found.driver, self.device.version, self.device.name]
        words += [self.options, self.features, *(["by double"] if self.by_double else [])]
        return " ".join(words) + (f" groups of {self.group_size}" if self.group_size > 1 else "")

    def _shares_memory(self) -> bool:
        device, kinds = self.device, self.cl.device_svm_capabilities
        try:
            capabilities = int(device.svm_capabilities)
        except self.cl.Error:
            capabilities = 0
        if capabilities & int(kinds.FINE_GRAIN_SYSTEM):
            return True
        # PoCL's kernels for processors are functions of this process, whatever it says.
        return self.pocl

    def _singles(self) -> tuple[bool, bool]:
        """`exact_singles`, for which subnormal numbers are needed too, and `by_double`."""
        kinds, found = self.cl.device_fp_config, int(self.device.single_fp_config)
        needed = int(kinds.DENORM | kinds.INF_NAN | kinds.ROUND_TO_NEAREST)
        divides = bool(found & int(kinds.CORRECTLY_ROUNDED_DIVIDE_SQRT))
        exact = found & needed == needed and (divides or self.fp64)
        return exact, exact and not divides

    def _features(self) -> str:
        return ",".join(WIDE_FEATURES) if self.pocl and _processor_has(WIDE_FEATURES) else ""

    def _vector_bytes(self) -> int:
        # Vectors of small integers are divided as floats, which must be right.
        if not self.processor or not self.exact_singles:
            return 0
        if self.features:
            return WIDE_BYTES
        # A driver that makes vectors of work items prefers code without, though our work items are
        # too few and too different for that; its native width is that of the processor's registers.
        device, widest = self.device, WIDEST_BYTES if self.pocl else WIDE_BYTES
        doubles = max(device.preferred_vector_width_double, device.native_vector_width_double) or 2
        return min(widest, 8 * int(doubles), max(16, int(_native.cpu()[1])))

    def _group_size(self) -> int:
        """The largest power of two that suits; 1 where groups can't hold the lanes of a sum."""
        device = self.device
        most = min(GROUP_SIZE, int(device.max_work_group_size), int(device.max_work_item_sizes[0]))
        if most < LANES or int(device.local_mem_size) < GROUP_MEMORY_BYTES:
            return 1
        return 1 << (most.bit_length() - 1)

    def _options(self) -> str:
        divides = self.exact_singles and not self.by_double
        exact = " -cl-fp32-correctly-rounded-divide-sqrt" if divides else ""
        return f"-cl-std=CL1.2{exact}"

    def _addresses(self, names: tuple[str, ...]) -> tuple[Any, ...]:
        # What pyopencl's module is linked with is found through its handle.
        library = ctypes.CDLL(self.cl._cl.__file__)
        found = (ctypes.cast(getattr(library, name), ctypes.c_void_p).value for name in names)
        return tuple(address or 0 for address in found)

    @property
    def _own_bytes(self) -> int:
        return self.memory_bytes // 10 * 9

    def limit_memory(self, size_bytes: int) -> None:
        """Use so many bytes of its memory, and not the host's; 0: what suits the device."""
        self.memory.limit = size_bytes or self._own_bytes
        shared = self.shares_memory and size_bytes == 0
        if shared != self.host_memory:
            self.memory.want(not shared)
        self.host_memory = shared

    def build(self, source: str, symbols: tuple[str, ...], words: int) -> bytes:
        """Code of a program with these kernel functions; raises CompileError, or Unsupported."""
        self._check_process()
        header = {
            "device": self.found.place,
            "options": self._alternatives(),
            "symbols": symbols,
            "words": words,
            "host_memory": self.shares_memory,
            "group_size": self.group_size,
        }
        return self.builder.build(header, source)

    def _check_process(self) -> None:
        # The driver's threads, and those that hold its locks, are the parent's.
        if os.getpid() != self._process:
            raise Unsupported("opencl: a forked process computes on the host")

    def _alternatives(self) -> list[str]:
        """Options for a build, each for when those before it fail."""
        bare = [f"{self.options} {BARE}"] if self.pocl else []
        return [*bare, self.options]

    def load(self, image: bytes, symbols: tuple[str, ...]) -> tuple[Any, ...]:
        """The kernel functions in code that `build` made; raises CompileError, or Unsupported."""
        self._check_process()
        cl = self.cl
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program = cl.Program(self.cl_context, [self.device], [image]).build()
                return tuple(cl.Kernel(program, symbol) for symbol in symbols)
        except (cl.Error, RuntimeError) as error:
            raise CompileError(f"opencl: code was not loaded: {error}") from error
