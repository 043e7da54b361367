"""How fast a device runs kernels; on its own memory, also where it could use the host's."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from npaccel.backends.compiled import CompiledKernel
from npaccel.backends.device_kernels import DeviceTarget, work_groups
from npaccel.backends.device_launch import Calls
from npaccel.backends.emit.devices import EXTRA_WORDS
from npaccel.backends.samples import SAMPLE_ELEMENTS, best_time, measure_rates
from npaccel.backends.speeds import Speeds
from npaccel.errors import CompileError
from npaccel.ir.nodes import Kernel
from npaccel.ir.scalar import item_size

__all__ = ["SIZE_BYTES", "measure"]

SIZE_BYTES = 8 * SAMPLE_ELEMENTS  # of an array


def measure(
    target: DeviceTarget, compile_kernel: Callable[[Kernel], CompiledKernel], *, fp64: bool = True
) -> Speeds:
    """Of the device; raises CompileError where it can't build kernels at all.

    fp64 : whether it has double precision
    """
    with Calls(target) as calls:
        arrays = calls.memory(SIZE_BYTES), calls.memory(SIZE_BYTES)
        host = np.zeros(SIZE_BYTES, "u1")
        # The first calls are without pinned memory.
        moved_s = best_time(lambda: target.memory.write(arrays[0], host), 8)

        def seconds_of(kernel: Kernel, dtype: str, n: int) -> float:
            try:
                return _seconds(target, calls, compile_kernel(kernel), arrays, item_size(dtype), n)
            except CompileError:
                if fp64 or dtype != "f8":
                    raise
                return 1e3  # without double precision: never chosen for what needs it

        copy_bytes_s, *rates = measure_rates(seconds_of)
        return Speeds(copy_bytes_s, SIZE_BYTES / moved_s, *rates)


def _seconds(
    target: DeviceTarget,
    calls: Calls,
    compiled: CompiledKernel,
    arrays: tuple[int, int],
    size: int,
    n: int,
) -> float:
    """Best time of a kernel over n elements of `size` bytes from the first array to the second."""
    grid = compiled.task_grid((n,), target.units)
    tasks = -(-grid.n_inner // grid.inner_step)
    # The words of layout.py, and those of native/place/device.c.
    extra = [1, 1, n, grid.inner_step]
    words = [n, 0, size, 0, size, 0, 0, *extra, *[0] * (EXTRA_WORDS - len(extra))]
    told = calls.put(np.array(words, "i8"))
    groups = min(tasks, work_groups(target))

    def launch() -> None:
        calls.launch(compiled.main, (told, told, told, told, *arrays), groups)
        calls.finish()

    begin = time.perf_counter()
    launch()
    slow = time.perf_counter() - begin > 0.1
    return best_time(launch, 1 if slow else 4)
