"""Run a compiled kernel without the queue: what the C core does, for tests and measurements."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from npaccel.backends.base import Grid
from npaccel.backends.layout import Layout
from npaccel.backends.opencl.compiled import DeviceKernel
from npaccel.errors import InternalError

__all__ = ["run_step"]

Array = np.ndarray[Any, np.dtype[Any]]


def run_step(
    compiled: DeviceKernel,
    extents: Sequence[int],
    arrays: Sequence[Array],
    scalars: Sequence[Any] = (),
    *,
    grid: Grid | None = None,
) -> list[int]:
    """Run the kernel and return the flags of each slot.

    Parameters
    ----------
    arrays : one per ArrayParam, of shape `extents`, stride 0 where it does not move; written in
        place
    scalars : one per entry of `Kernel.scalars`
    """
    kernel, layout = compiled.kernel, Layout.of(compiled.kernel)
    grid = grid or compiled.task_grid(extents, 1)
    partials = np.empty(compiled.partial_bytes(extents) + 64, "u1")
    flags = np.zeros(max(1, kernel.slots), "u4")
    words = np.zeros(layout.size, "i8")
    words[: layout.rank] = extents
    for k, array in enumerate(arrays):
        at = layout.array(k)
        words[at] = array.ctypes.data
        words[at + 1 : at + 1 + layout.rank] = array.strides
    for k, (dtype, value) in enumerate(zip(kernel.scalars, scalars, strict=True)):
        data = np.array(value).astype(dtype).tobytes().ljust(16, b"\0")
        words[layout.scalar(k) : layout.scalar(k) + 2] = struct.unpack("<2q", data)
    words[layout.partials :] = partials.ctypes.data, compiled.parts(extents)
    if grid.n_band and grid.n_inner:
        sizes = (grid.n_band, grid.band_step, grid.n_inner, grid.inner_step)
        error = compiled.launcher.launch(
            words.ctypes.data,
            (*sizes, compiled.scratch_bytes(extents)),
            partials.ctypes.data,
            flags.ctypes.data,
        )
        if error:
            raise InternalError(f"opencl: a launch failed with error {error}")
    return [int(bits) for bits in flags[: kernel.slots]]
