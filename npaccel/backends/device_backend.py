"""What the backends of devices with drivers have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from npaccel import _native
from npaccel.backends.base import Capabilities, Loaded
from npaccel.backends.device_kernels import DeviceKernel, DeviceTarget, symbols_of
from npaccel.ir.nodes import Kernel

__all__ = ["DeviceBackend"]


class DeviceBackend(ABC):
    """A device, by its number among those that `npaccel.devices()` lists.

    target : which it is
    """

    capabilities = Capabilities()

    def __init__(self, kind: str, target: DeviceTarget) -> None:
        self._target = target
        self.name = f"{kind}:{target.number}"

    @property
    def fingerprint(self) -> str:
        """Text that changes whenever stored code would not do any more."""
        return self._target.identity

    @property
    def identity(self) -> str:
        return self._target.identity

    @property
    def device(self) -> str:
        """The device, as its driver names it."""
        return self._target.name

    @property
    def vector_bytes(self) -> int:
        return self._target.vector_bytes

    @property
    def memory(self) -> _native.DeviceMemory:
        """What lives there."""
        return self._target.memory

    @property
    def host_memory(self) -> bool:
        """Whether kernels use the host's memory, and nothing moves."""
        return self._target.host_memory

    @property
    def shares_memory(self) -> bool:
        """Whether they could, whatever was set."""
        return self._target.shares_memory

    def limit_memory(self, size_bytes: int) -> None:
        """Use so many bytes of the device's memory; 0: what suits it."""
        self._target.limit_memory(size_bytes)

    @abstractmethod
    def list_devices(self) -> list[tuple[Any, ...]]:
        """Of every device: its name here, what it is, state, units, bytes of vectors and memory.

        And its identity, what measures it, and whether `auto` may choose it by that; of those that
        can't be used only what they are and why.
        """

    def compile(self, kernel: Kernel) -> DeviceKernel:
        """Build and load; raises CompileError."""
        return self.link(kernel, self.emit_object(kernel))

    @abstractmethod
    def emit_object(self, kernel: Kernel) -> bytes:
        """Code for `link`, here or where the fingerprint is the same."""

    @abstractmethod
    def source(self, kernel: Kernel) -> str:
        """The text of `kernel`, as the compiler gets it."""

    def link(self, kernel: Kernel, image: bytes) -> DeviceKernel:
        """Load code that `emit_object` made of the same kernel."""
        return self.bind(kernel, self.load(image, self.symbols(kernel), self.vector_bytes))

    @abstractmethod
    def load(self, image: bytes, symbols: tuple[str, ...], vector_bytes: int) -> Loaded:
        """Load code; raises CompileError."""

    def symbols(self, kernel: Kernel) -> tuple[str, ...]:
        """Functions that the code of `kernel` defines."""
        return symbols_of(kernel)

    @abstractmethod
    def bind(self, kernel: Kernel, loaded: Loaded) -> DeviceKernel:
        """What `loaded`, made of this very kernel, needs to know to be launched."""
