"""A device of NVIDIA's: what it is, PTX for it, and its memory once something is to lie there."""

from __future__ import annotations

import os
from functools import cache, cached_property

from npaccel import _native
from npaccel.backends.cuda.driver import LIBRARY, Driver, Module
from npaccel.backends.llvm.target import Host
from npaccel.errors import BackendUnavailable, Unsupported

__all__ = ["Target", "open_driver"]

GROUP_SIZE = 128  # work items of a group: as with OpenCL, whose kernels are the same
TRIPLE = "nvptx64-nvidia-cuda"
LEAST = (6, 0)  # the first with all that kernels need, half precision included
# PTX for this one runs on newer ones; LLVM 22 knows it.
NEWEST = (12, 0)


@cache
def open_driver(path: str = LIBRARY) -> Driver:
    """The driver; raises BackendUnavailable."""
    return Driver(path)


class Target:
    """One device. Made once and kept.

    It has a context, which takes some hundred MB there, once `memory` or code is asked for.

    Attributes
    ----------
    identity : text that changes whenever stored code would not do any more
    group_size : work items that share a task
    """

    host_memory = shares_memory = processor = False
    functions = (0, 0, 0, 0, 0)
    vector_bytes = 0

    def __init__(self, number: int = 0) -> None:
        driver = self.driver = open_driver()
        if number >= driver.count:
            known = ", ".join(f"cuda:{k} ({driver.name(k)})" for k in range(driver.count))
            raise BackendUnavailable(f"there is no device cuda:{number}; there are: {known}")
        self.number, self.name = number, driver.name(number)
        self.capability = driver.capability(number)
        if self.capability < LEAST:
            what = f"cuda:{number} ({self.name}) has compute capability"
            needs = f"{_dotted(LEAST)} is needed"
            raise BackendUnavailable(f"{what} {_dotted(self.capability)}, {needs}")
        self.units = driver.units(number)
        self.memory_bytes = self.largest_bytes = driver.memory_bytes(number)
        self.group_size = GROUP_SIZE
        self.identity = f"cuda {driver.version} {self.name} sm_{_joined(self.capability)}"
        self._process, self._limit = os.getpid(), 0

    @property
    def memory_functions(self) -> tuple[int, ...]:
        """Addresses of what the core uses its memory by."""
        return self.driver.functions

    @cached_property
    def compiler(self) -> Host:
        """LLVM for devices like this."""
        return Host(f"sm_{_joined(min(self.capability, NEWEST))}", 16, TRIPLE)

    @cached_property
    def context(self) -> int:
        """As the driver numbers it."""
        self._check_process()
        return self.driver.context(self.number)

    @cached_property
    def queue(self) -> int:
        """Of kernels."""
        return self._queue()

    def _queue(self) -> int:
        return _native.cuda_queue(self.context, self.driver.stream(self.context))

    @cached_property
    def memory(self) -> _native.DeviceMemory:
        """What lies there."""
        made = _native.DeviceMemory(
            self.driver.functions,
            self.context,
            self.queue,
            self._queue(),
            f"cuda:{self.number}",
            self._most_bytes,
            self.largest_bytes,
        )
        made.want(True)
        return made

    def limit_memory(self, size_bytes: int) -> None:
        """Use so many bytes of its memory; 0: what suits the device."""
        self._limit = size_bytes
        if "memory" in self.__dict__:  # else it has no context yet
            self.memory.limit = self._most_bytes

    @property
    def _most_bytes(self) -> int:
        return self._limit or self.memory_bytes // 10 * 9

    def build(self, source: str) -> bytes:
        """Machine code of LLVM IR; raises CompileError, or Unsupported in a forked process."""
        text = self.compiler.emit_assembly(source)
        return self.driver.assemble(self.context, text.encode())

    def load(self, image: bytes) -> Module:
        """Code that `build` made; raises CompileError, or Unsupported in a forked process."""
        self._check_process()
        return self.driver.load(self.context, image)

    def _check_process(self) -> None:
        # The context is the parent's.
        if os.getpid() != self._process:
            raise Unsupported("cuda: a forked process computes on the host")


def _dotted(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))


def _joined(capability: tuple[int, int]) -> str:
    return "".join(map(str, capability))
