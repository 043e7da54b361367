"""Kernels in code that the driver has loaded, ready to be launched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npaccel import _native
from npaccel.backends.base import Grid, Loaded
from npaccel.backends.compiled import CompiledKernel
from npaccel.backends.emit import skeletons
from npaccel.backends.emit.tasks import tasks_of
from npaccel.backends.layout import Layout
from npaccel.backends.opencl.printer import Printer, machine_of
from npaccel.backends.opencl.target import Target
from npaccel.ir.nodes import Kernel

__all__ = ["DeviceKernel", "bind", "symbols_of", "work_groups"]

# Memory traffic of a task, which stays in a core's second-level cache.
TASK_BYTES = 256 * 1024
# And of one that a work group shares: some elements for each item.
GROUP_TASK_BYTES = 16 * 1024
# Work groups per unit: enough to balance, few enough that their scratch memory is small.
GROUPS_PER_UNIT = 8
DEVICE_GROUPS_PER_UNIT = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceKernel(CompiledKernel):
    """launcher: what the C core calls. units: that compute at the same time."""

    launcher: _native.DeviceKernel
    units: int

    def task_grid(self, extents: Sequence[int], threads: int) -> Grid:
        """How to cut the domain into tasks, for the device's own number of threads."""
        return self.tasks.grid(extents, self.units)


def symbols_of(kernel: Kernel) -> tuple[str, ...]:
    """The kernel functions that the code of `kernel` defines."""
    return skeletons.symbols_of(kernel, "run")


def work_groups(target: Target) -> int:
    """How many work groups a launch has at most."""
    return target.units * (GROUPS_PER_UNIT if target.processor else DEVICE_GROUPS_PER_UNIT)


def bind(kernel: Kernel, loaded: Loaded, target: Target) -> DeviceKernel:
    """The kernel that `loaded` was made of, ready to be launched."""
    layout, machine = Layout.of(kernel), machine_of(loaded.vector_bytes, target.group_size)
    launcher = _native.DeviceKernel(
        target.functions,
        target.queue.int_ptr,
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
    builder = Printer(machine, layout.size, by_double=False)
    tasks = tasks_of(builder, kernel, task_bytes, task_bytes)
    return DeviceKernel(kernel, loaded, tasks, launcher=launcher, units=target.units)
