"""Run a compiled kernel without the queue: what the C core does, for tests and measurements."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np

from npaccel.backends.base import Grid
from npaccel.backends.device_kernels import DeviceKernel, DeviceTarget, work_groups
from npaccel.backends.emit.devices import EXTRA_WORDS
from npaccel.backends.launch import argument_words
from npaccel.backends.layout import Layout
from npaccel.errors import InternalError

__all__ = ["Calls", "run_step"]

Array = np.ndarray[Any, np.dtype[Any]]
READ_WRITE = 1
_AFTER = c_uint32, c_void_p, c_void_p  # what to wait for, and an event
_MOVE = c_void_p, c_void_p, c_uint32, c_size_t, c_size_t, c_void_p, *_AFTER
# Of store.h's functions, those that are needed here: place and argument types.
_FUNCTIONS: dict[str, tuple[int, tuple[Any, ...]]] = {
    "release": (1, (c_void_p,)),
    "read": (2, _MOVE),
    "write": (3, _MOVE),
    "set": (4, (c_void_p, c_uint32, c_size_t, c_void_p)),
    "enqueue": (5, (c_void_p, c_void_p, c_uint32, c_void_p, c_void_p, c_void_p, *_AFTER)),
    "finish": (6, (c_void_p,)),
}


class Calls:
    """A device's memory and launches, by the functions that the C core calls.

    What memory was made is released at the end of a `with` block.
    """

    def __init__(self, target: DeviceTarget) -> None:
        self._target = target
        made = ctypes.CFUNCTYPE(c_void_p, c_void_p, c_uint64, c_size_t, c_void_p, c_void_p)
        self._create = made(target.memory_functions[0])
        self._memories: list[int] = []

    def _do(self, name: str, *arguments: Any) -> None:
        place, types = _FUNCTIONS[name]
        call = ctypes.CFUNCTYPE(c_int32, *types)(self._target.memory_functions[place])
        if error := call(*arguments):
            raise InternalError(f"{self._target.memory.name}: {name} failed with error {error}")

    def memory(self, size: int) -> int:
        """The address of so many bytes there."""
        error = c_int32()
        made = self._create(
            self._target.context, READ_WRITE, max(8, size), None, ctypes.byref(error)
        )
        if error.value or made is None:
            raise InternalError(f"{self._target.memory.name}: no memory: error {error.value}")
        self._memories.append(made)
        return int(made)

    def put(self, array: Array) -> int:
        """The address of memory with the array's bytes."""
        memory = self.memory(array.nbytes)
        if array.size:
            self._move("write", memory, array)
        return memory

    def get(self, memory: int, array: Array) -> None:
        """The array has the memory's bytes."""
        if array.size:
            self._move("read", memory, array)

    def _move(self, name: str, memory: int, array: Array) -> None:
        where = memory, 1, 0, array.nbytes, array.ctypes.data
        self._do(name, self._target.queue, *where, 0, None, None)

    def launch(self, kernel: int, memories: Sequence[int], groups: int) -> None:
        """Begin a kernel function on these."""
        for k, memory in enumerate(memories):
            self._do("set", kernel, k, 8, ctypes.byref(c_void_p(memory)))
        size = self._target.group_size
        items, local = c_size_t(groups * size), c_size_t(size)
        sizes = None, ctypes.byref(items), ctypes.byref(local)
        self._do("enqueue", self._target.queue, kernel, 1, *sizes, 0, None, None)

    def finish(self) -> None:
        """Until all is done."""
        self._do("finish", self._target.queue)

    def __enter__(self) -> Calls:
        return self

    def __exit__(self, *raised: object) -> None:
        while self._memories:
            self._do("release", self._memories.pop())


def run_step(
    compiled: DeviceKernel,
    extents: Sequence[int],
    arrays: Sequence[Array],
    scalars: Sequence[Any] = (),
    *,
    grid: Grid | None = None,
) -> list[int]:
    """Run the kernel and return the flags of each slot.

    On the arrays, where the device uses the host's memory, or on copies in its own.

    Parameters
    ----------
    arrays : one per ArrayParam, of shape `extents`, stride 0 where it does not move; written in
        place
    scalars : one per entry of `Kernel.scalars`
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
        if not compiled.target.host_memory:
            _run_apart(compiled, words, arrays, launched, partials, flags)
            return [int(bits) for bits in flags[: kernel.slots]]
        error = compiled.launcher.launch(
            words.ctypes.data, launched, partials.ctypes.data, flags.ctypes.data
        )
        if error:
            raise InternalError(f"a launch failed with error {error}")
    return [int(bits) for bits in flags[: kernel.slots]]


def _run_apart(
    compiled: DeviceKernel,
    words: Array,
    arrays: Sequence[Array],
    launched: tuple[int, ...],
    partials: Array,
    flags: Array,
) -> None:
    """The same on copies, of all the memory that an array is part of; what it holds comes back."""
    target, layout = compiled.target, Layout.of(compiled.kernel)
    wholes = {whole.ctypes.data: whole for whole in map(_whole, arrays)}
    for k, array in enumerate(arrays):
        words[layout.array(k)] = array.ctypes.data - _whole(array).ctypes.data
    band, band_step, inner, inner_step, scratch_bytes = launched
    tasks = -(-band // band_step) * -(-inner // inner_step)
    groups = min(tasks, work_groups(target))
    points = min(band, work_groups(target))
    of_run = (*launched, 0, 0)
    of_finish = (band, -(-band // points), 1, 1, scratch_bytes, 0, 0)
    assert len(of_run) == EXTRA_WORDS
    functions = (compiled.main, of_run, groups), (compiled.finish, of_finish, points)
    with Calls(target) as calls:
        flags_there, held = calls.put(flags), {k: calls.put(w) for k, w in wholes.items()}
        shared = (calls.memory(groups * scratch_bytes + 64), calls.put(partials), flags_there)
        there = [held[_whole(array).ctypes.data] for array in arrays]
        for function, extra, count in functions:
            if function:
                told = calls.put(np.array([*words, *extra], "i8"))
                calls.launch(function, (told, *shared, *there), count)
        calls.finish()
        for at, whole in (*wholes.items(), (0, flags)):
            calls.get(held.get(at, flags_there), whole)


def _whole(array: Array) -> Array:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
