"""Run the host's kernels through ctypes, as the C core does: for tests, and to measure it."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import numpy as np

from npaccel.backends.base import Grid
from npaccel.backends.compiled import CompiledKernel
from npaccel.backends.layout import Layout
from npaccel.backends.samples import SAMPLE_ELEMENTS, best_time, measure_rates
from npaccel.backends.speeds import Speeds
from npaccel.ir.nodes import Kernel

__all__ = ["Launch", "argument_words", "measure", "run_step"]

Array = np.ndarray[Any, np.dtype[Any]]
# From a flush to a thread of the pool and back; Python would take longer to measure it.
LAUNCH_S = 5e-6
GRAIN = 1 << 15  # elements
_FUNCTION = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p
)


def argument_words(
    kernel: Kernel,
    extents: Sequence[int],
    arrays: Sequence[Array],
    scalars: Sequence[Any],
    partials: tuple[int, int],
) -> Array:
    """What compiled code reads its arguments from; partials: their address, and how many parts."""
    layout = Layout.of(kernel)
    words = np.zeros(layout.size, "i8")
    words[: layout.rank] = extents
    for k, array in enumerate(arrays):
        at = layout.array(k)
        words[at] = array.ctypes.data
        words[at + 1 : at + 1 + layout.rank] = array.strides
    for k, (dtype, value) in enumerate(zip(kernel.scalars, scalars, strict=True)):
        data = np.array(value).astype(dtype).tobytes().ljust(16, b"\0")
        words[layout.scalar(k) : layout.scalar(k) + 2] = struct.unpack("<2q", data)
    words[layout.partials :] = partials
    return words


class Launch:
    """The arguments of one launch, laid out as the compiled code expects them.

    Parameters
    ----------
    arrays : one per ArrayParam, of shape `extents`, stride 0 where it does not move; written in
        place. Kept alive by this object.
    scalars : one per entry of `Kernel.scalars`
    """

    def __init__(
        self,
        compiled: CompiledKernel,
        extents: Sequence[int],
        arrays: Sequence[Array],
        scalars: Sequence[Any],
    ) -> None:
        self.compiled, self.arrays = compiled, arrays
        self.parts = compiled.parts(extents)
        self.partials = np.empty(compiled.partial_bytes(extents) + 64, "u1")
        self.scratch_bytes = compiled.scratch_bytes(extents)
        partials = self.partials.ctypes.data, self.parts
        self.words = argument_words(compiled.kernel, extents, arrays, scalars, partials)
        self.flags = np.zeros(max(1, compiled.kernel.slots), "u4")
        self._main = _FUNCTION(compiled.main)
        self._finish = _FUNCTION(compiled.finish) if compiled.finish else None

    def task(self, band: tuple[int, int], inner: tuple[int, int]) -> None:
        """Run main over one range of the band and of the inner space."""
        self._call(self._main, (*band, *inner))

    def finish(self, band: tuple[int, int]) -> None:
        """Combine parts and run row leaves over a range of the band."""
        if self._finish is not None:
            self._call(self._finish, (*band, self.parts, 0))

    def _call(self, function: Any, bounds: tuple[int, int, int, int]) -> None:
        limits = np.array(bounds, "i8")
        scratch = np.empty(self.scratch_bytes + 64, "u1")
        aligned = -(-scratch.ctypes.data // 64) * 64
        function(self.words.ctypes.data, limits.ctypes.data, aligned, self.flags.ctypes.data)


def run_step(
    compiled: CompiledKernel,
    extents: Sequence[int],
    arrays: Sequence[Array],
    scalars: Sequence[Any] = (),
    *,
    grid: Grid | None = None,
    pool: Executor | None = None,
) -> list[int]:
    """Run the kernel, task by task (on `pool` if given), and return the flags of each slot."""
    launch = Launch(compiled, extents, arrays, scalars)
    grid = grid or compiled.task_grid(extents, 1)
    tasks = [
        ((b, min(b + grid.band_step, grid.n_band)), (i, min(i + grid.inner_step, grid.n_inner)))
        for b in range(0, grid.n_band, grid.band_step)
        for i in range(0, grid.n_inner, grid.inner_step)
    ]
    if pool is None:
        for band, inner in tasks:
            launch.task(band, inner)
    else:
        for done in [pool.submit(launch.task, band, inner) for band, inner in tasks]:
            done.result()
    launch.finish((0, grid.n_band))
    return [int(bits) for bits in launch.flags[: compiled.kernel.slots]]


def measure(backend: Any, threads: int) -> Speeds:
    """Of kernels on so many threads."""
    arrays = {d: [np.zeros(SAMPLE_ELEMENTS, d) for _ in range(2)] for d in ("f4", "f8")}
    with ThreadPoolExecutor(threads) as pool:

        def seconds_of(kernel: Kernel, dtype: str, n: int) -> float:
            if n == 1:
                return LAUNCH_S
            compiled = backend.compile(kernel)
            grid = Grid(1, 1, n, -(-n // threads // GRAIN) * GRAIN)
            return best_time(lambda: run_step(compiled, (n,), arrays[dtype], grid=grid, pool=pool))

        copy_bytes_s, *rates = measure_rates(seconds_of)
    return Speeds(copy_bytes_s, copy_bytes_s, *rates)
