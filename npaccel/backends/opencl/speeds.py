"""How fast an OpenCL device is."""

from __future__ import annotations

import numpy as np

from npaccel.backends import device_speeds
from npaccel.backends.device_speeds import SIZE_BYTES
from npaccel.backends.opencl.compile import compile_kernel
from npaccel.backends.opencl.target import Target
from npaccel.backends.samples import best_time
from npaccel.backends.speeds import Speeds

__all__ = ["measure"]


def measure(target: Target, *, kernels: bool = True) -> Speeds:
    """Of the device; raises CompileError where it can't build kernels at all.

    kernels : also of computing, for which some are built.
    """
    if kernels:
        return device_speeds.measure(
            target, lambda kernel: compile_kernel(kernel, target), fp64=target.fp64
        )
    cl = target.cl
    source, result = (cl.Buffer(target.cl_context, 0, SIZE_BYTES) for _ in range(2))
    host, queue = np.zeros(SIZE_BYTES, "u1"), target.cl_queue
    moved_s = best_time(lambda: target.memory.write(source.int_ptr, host), 8)
    copied_s = best_time(lambda: cl.enqueue_copy(queue, result, source).wait())
    command = best_time(lambda: cl.enqueue_copy(queue, result, source, byte_count=4).wait())
    return Speeds(2 * SIZE_BYTES / copied_s, SIZE_BYTES / moved_s, command)
