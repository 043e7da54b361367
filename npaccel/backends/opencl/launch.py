"""Run a compiled kernel without the queue: what the C core does, for tests and measurements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npaccel.backends.base import Grid
from npaccel.backends.launch import argument_words
from npaccel.backends.layout import Layout
from npaccel.backends.opencl.compiled import DeviceKernel, work_groups
from npaccel.backends.opencl.target import Target
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
    apart: Target | None = None,
) -> list[int]:
    """Run the kernel and return the flags of each slot.

    Parameters
    ----------
    arrays : one per ArrayParam, of shape `extents`, stride 0 where it does not move; written in
        place
    scalars : one per entry of `Kernel.scalars`
    apart : the device, to run on copies in its own memory; None: on the host's, which it shares
    """
    kernel = compiled.kernel
    grid = grid or compiled.task_grid(extents, 1)
    partials = np.empty(compiled.partial_bytes(extents) + 64, "u1")
    flags = np.zeros(max(1, kernel.slots), "u4")
    parts = partials.ctypes.data, compiled.parts(extents)
    words = argument_words(kernel, extents, arrays, scalars, parts)
    if grid.n_band and grid.n_inner:
        sizes = (grid.n_band, grid.band_step, grid.n_inner, grid.inner_step)
        launched = (*sizes, compiled.scratch_bytes(extents))
        if apart is not None:
            _run_apart(apart, compiled, words, arrays, launched, partials, flags)
            return [int(bits) for bits in flags[: kernel.slots]]
        error = compiled.launcher.launch(
            words.ctypes.data, launched, partials.ctypes.data, flags.ctypes.data
        )
        if error:
            raise InternalError(f"opencl: a launch failed with error {error}")
    return [int(bits) for bits in flags[: kernel.slots]]


def _run_apart(
    target: Target,
    compiled: DeviceKernel,
    words: Array,
    arrays: Sequence[Array],
    launched: tuple[int, ...],
    partials: Array,
    flags: Array,
) -> None:
    """The same on copies, of all the memory that an array is part of; what it holds comes back."""
    cl, layout = target.cl, Layout.of(compiled.kernel)
    wholes = {whole.ctypes.data: whole for whole in map(_whole, arrays)}
    flags_there, held = _mirror(target, flags), {k: _mirror(target, w) for k, w in wholes.items()}
    for k, array in enumerate(arrays):
        words[layout.array(k)] = array.ctypes.data - _whole(array).ctypes.data
    band, band_step, inner, inner_step, scratch_bytes = launched
    tasks = -(-band // band_step) * -(-inner // inner_step)
    groups = min(tasks, work_groups(target))
    points = min(band, work_groups(target))
    scratch = np.empty(groups * scratch_bytes + 64, "u1")
    shared = (_mirror(target, scratch), _mirror(target, partials), flags_there)
    there = [held[_whole(array).ctypes.data] for array in arrays]
    functions: Any = compiled.library.library
    for function, extra, items in zip(
        functions,
        ((*launched, 0, 0), (band, -(-band // points), 1, 1, scratch_bytes, 0, 0)),
        (groups, points),
        strict=False,
    ):
        told = _mirror(target, np.array([*words, *extra], "i8"))
        function.set_args(told, *shared, *there)
        size = target.group_size
        cl.enqueue_nd_range_kernel(target.queue, function, (items * size,), (size,))
    target.queue.finish()
    for at, whole in (*wholes.items(), (0, flags)):
        if whole.size:
            cl.enqueue_copy(target.queue, whole, held.get(at, flags_there))


def _mirror(target: Target, array: Array) -> Any:
    """A buffer of the device with the array's bytes."""
    content = array if array.size else np.zeros(8, "u1")
    flags = target.cl.mem_flags
    return target.cl.Buffer(target.context, flags.COPY_HOST_PTR, hostbuf=content)


def _whole(array: Array) -> Array:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
