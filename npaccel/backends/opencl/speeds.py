"""How fast an OpenCL device runs kernels; on its own memory, also where it could use the host's."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from npaccel.backends.opencl.compile import compile_kernel
from npaccel.backends.opencl.compiled import work_groups
from npaccel.backends.opencl.printer import EXTRA_WORDS
from npaccel.backends.opencl.target import Target
from npaccel.backends.samples import SAMPLE_ELEMENTS, best_time, measure_rates
from npaccel.backends.speeds import Speeds
from npaccel.errors import CompileError
from npaccel.ir.nodes import Kernel
from npaccel.ir.scalar import item_size

__all__ = ["measure"]


def measure(target: Target, *, kernels: bool = True) -> Speeds:
    """Of the device; raises CompileError where it can't build kernels at all.

    kernels : also of computing, for which some are built.
    """
    cl, size = target.cl, 8 * SAMPLE_ELEMENTS
    source, result = (cl.Buffer(target.context, 0, size) for _ in range(2))
    host = np.zeros(size, "u1")
    queue = target.queue
    # The first calls are without pinned memory.
    moved_s = best_time(lambda: target.memory.write(source.int_ptr, host), 8)
    if not kernels:
        copied_s = best_time(lambda: cl.enqueue_copy(queue, result, source).wait())
        command = best_time(lambda: cl.enqueue_copy(queue, result, source, byte_count=4).wait())
        return Speeds(2 * size / copied_s, size / moved_s, command)

    def seconds_of(kernel: Kernel, dtype: str, n: int) -> float:
        try:
            return _seconds(target, kernel, (source, result), item_size(dtype), n)
        except CompileError:
            if target.fp64 or dtype != "f8":
                raise
            return 1e3  # without double precision: never chosen for what needs it

    copy_bytes_s, *rates = measure_rates(seconds_of)
    return Speeds(copy_bytes_s, size / moved_s, *rates)


def _seconds(target: Target, kernel: Kernel, arrays: tuple[Any, Any], size: int, n: int) -> float:
    """Best time of a kernel over n elements of `size` bytes from the first array to the second."""
    cl = target.cl
    compiled = compile_kernel(kernel, target)
    functions: Any = compiled.library.library
    (run,) = functions
    grid = compiled.task_grid((n,), 1)
    tasks = -(-grid.n_inner // grid.inner_step)
    # The words of layout.py, and those of native/place/device.c.
    extra = [1, 1, n, grid.inner_step]
    words = [n, 0, size, 0, size, 0, 0, *extra, *[0] * (EXTRA_WORDS - len(extra))]
    told = cl.Buffer(target.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=np.array(words, "i8"))
    for k, argument in enumerate((told, told, told, told, *arrays)):
        run.set_arg(k, argument)
    groups, size = min(tasks, work_groups(target)), target.group_size

    def launch() -> None:
        cl.enqueue_nd_range_kernel(target.queue, run, (groups * size,), (size,)).wait()

    begin = time.perf_counter()
    launch()
    slow = time.perf_counter() - begin > 0.1
    return best_time(launch, 1 if slow else 4)
