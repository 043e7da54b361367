"""Kernels that a device's driver has loaded, ready to be launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from npaccel import _native
from npaccel.backends.base import Grid, Loaded
from npaccel.backends.compiled import CompiledKernel
from npaccel.backends.emit import skeletons
from npaccel.backends.emit.builder import Builder
from npaccel.backends.emit.tasks import tasks_of
from npaccel.backends.layout import Layout
from npaccel.ir.nodes import Kernel

__all__ = ["DeviceKernel", "DeviceTarget", "bind", "symbols_of", "work_groups"]

# Memory traffic of a task, which stays in a core's second-level cache.
TASK_BYTES = 256 * 1024
# And of one that a work group shares: some elements for each item.
GROUP_TASK_BYTES = 16 * 1024
# Work groups per unit: enough to balance, few enough that their scratch memory is small.
GROUPS_PER_UNIT = 8
DEVICE_GROUPS_PER_UNIT = 32


class DeviceTarget(Protocol):
    """What backends and launches need to know of a device.

    number, name : of it among its driver's, and as that names it
    identity : text that changes whenever stored code would not do any more
    vector_bytes : of the vectors to write; 0: one element at a time
    functions : addresses of what runs kernels on the host's memory; zeros where it can't
    memory_functions : addresses of what `DeviceMemory` uses
    context, queue : addresses for these functions
    processor : whether it is one; units : of it that compute at the same time
    group_size : work items that share a task
    host_memory : whether kernels are given the host's addresses
    shares_memory : whether they could be
    """

    @property
    def number(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def identity(self) -> str: ...
    @property
    def vector_bytes(self) -> int: ...
    @property
    def shares_memory(self) -> bool: ...
    def limit_memory(self, size_bytes: int) -> None:
        """Use so many bytes of its memory; 0: what suits the device."""

    @property
    def functions(self) -> tuple[int, int, int, int, int]: ...
    @property
    def memory_functions(self) -> tuple[int, ...]: ...
    @property
    def context(self) -> int: ...
    @property
    def queue(self) -> int: ...
    @property
    def memory(self) -> _native.DeviceMemory: ...
    @property
    def host_memory(self) -> bool: ...
    @property
    def processor(self) -> bool: ...
    @property
    def units(self) -> int: ...
    @property
    def group_size(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceKernel(CompiledKernel):
    """launcher: what the C core calls. target: the device."""

    launcher: _native.DeviceKernel
    target: DeviceTarget

    def task_grid(self, extents: Sequence[int], threads: int) -> Grid:
        """How to cut the domain into tasks, for the device's own number of threads."""
        return self.tasks.grid(extents, self.target.units)


def symbols_of(kernel: Kernel) -> tuple[str, ...]:
    """The kernel functions that the code of `kernel` defines."""
    return skeletons.symbols_of(kernel, "run")


def work_groups(target: DeviceTarget) -> int:
    """How many work groups a launch has at most."""
    return target.units * (GROUPS_PER_UNIT if target.processor else DEVICE_GROUPS_PER_UNIT)


def bind(kernel: Kernel, loaded: Loaded, target: DeviceTarget, builder: Builder) -> DeviceKernel:
    """The kernel that `loaded` was made of, ready to be launched.

    builder : one of the device's code, which is used up
    """
    layout = Layout.of(kernel)
    launcher = _native.DeviceKernel(
        target.functions,
        target.queue,
        loaded.main,
        loaded.finish,
        layout.rank,
        layout.arrays,
        layout.size,
        work_groups(target),
        target.group_size,
        target.memory,
        target.host_memory,
    )
    task_bytes = TASK_BYTES if target.group_size == 1 else GROUP_TASK_BYTES
    tasks = tasks_of(builder, kernel, task_bytes, task_bytes)
    return DeviceKernel(kernel, loaded, tasks, launcher=launcher, target=target)
