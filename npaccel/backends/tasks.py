"""How kernels are cut into tasks: numbers of a kernel, and from them those of a launch.

To run stored code over other sizes no more is needed: neither the kernel nor what emits it. The
core computes the same for sizes that Python does not see (native/run/tasks.c).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from npaccel.backends.base import Grid
from npaccel.backends.layout import CHUNK, PARTIAL_BYTES, parts_of_inner

__all__ = ["LONE_TASK_BYTES", "TASK_BYTES", "Tasks"]

# Memory traffic of a task: small enough to stay in a core's second-level cache and to spread
# over threads, large enough that claiming it costs nothing. Alone, tasks only let signals in.
TASK_BYTES = 128 * 1024
LONE_TASK_BYTES = 8 * 1024 * 1024
# Of rows that an array lies across pieces of so many elements take turns: whole lines of the cache,
# of any type. 16 to 128 are alike for maps, 32 to 512 for folds, but where rows lie a power of two
# apart: there the lines of 512 are too many for the sets of the cache that they fall in.
ACROSS_TILE = 128
# So many times the memory of other tasks they may take before rows are cut into pieces: rows of
# 1,024 in two pieces took 0.76 ms, whole 0.39 (`a.T + b`, f4).
ACROSS_TASKS = 4


class Tasks(NamedTuple):
    """What a kernel's tasks depend on, besides extents and threads.

    reductions : how many there are.
    weight : bytes that an element of the domain counts for.
    width : lanes, or rows of a tile, along the band; 0 where they lie along the row.
    tile : columns, or rows, of a fold that go through memory together, 0 for none.
    scratch : bytes of scratch per inner element, for each array of scratch; per task, of a tile.
    across : rows of a map that share lines of arrays that lie across them, 0 for none.
    group : work items that share a task.
    task_bytes, lone_bytes : memory traffic of a task, and of one that no other thread waits for.
    """

    band_rank: int
    split: bool
    reductions: int
    weight: int
    width: int
    tile: int
    scratch: tuple[int, ...]
    across: int = 0
    group: int = 1
    task_bytes: int = TASK_BYTES
    lone_bytes: int = LONE_TASK_BYTES

    def words(self) -> list[int]:
        """As native/run/template.h has them."""
        plain = self.band_rank, self.split, self.reductions, self.weight, self.width, self.tile
        across = self.across, ACROSS_TILE, ACROSS_TASKS
        layout = self.group, self.task_bytes, self.lone_bytes, CHUNK, PARTIAL_BYTES
        return [*plain, *across, *layout, len(self.scratch), *self.scratch]

    def scratch_bytes(self, extents: Sequence[int]) -> int:
        """Bytes of scratch that each running task needs, aligned to 64."""
        inner = 1 if self.tile else math.prod(extents[self.band_rank :])
        return sum([-(-inner * size // 64) * 64 for size in self.scratch])

    def parts(self, extents: Sequence[int]) -> int:
        """Parts per band point that the finish function combines; 0 without one."""
        if not (self.split and self.reductions):
            return 0
        return parts_of_inner(extents[self.band_rank :])

    def partial_bytes(self, extents: Sequence[int]) -> int:
        """Bytes of partial results that a launch needs, aligned to 64."""
        points = math.prod(extents[: self.band_rank]) * self.parts(extents)
        return PARTIAL_BYTES * points * self.reductions

    def grid(self, extents: Sequence[int], threads: int) -> Grid:
        """How to cut the domain into tasks; results never depend on it."""
        n_band = math.prod(extents[: self.band_rank])
        inner = extents[self.band_rank :]
        target = self.lone_bytes if threads == 1 else self.task_bytes
        elements = max(self.group, target // self.weight)
        if self.across:
            return self._across(n_band, inner[0])
        if not self.split:
            return Grid(n_band, self._band_step(elements, math.prod(inner), n_band, threads), 1, 1)
        if len(inner) > 1:
            n_inner, per_unit, granule = math.prod(inner[:-1]), max(1, inner[-1]), self.tile or 1
        else:
            n_inner, per_unit = inner[0], 1
            granule = CHUNK if self.reductions else max(64, self.group)
        step = max(1, elements // per_unit // granule) * granule
        whole = math.prod(inner) if step >= n_inner else elements
        band_step = self._band_step(elements, whole, n_band, threads)
        return Grid(n_band, band_step, n_inner, step)

    def _across(self, n_band: int, row: int) -> Grid:
        """As many rows as share lines of arrays that lie across them, and pieces of these."""
        elements, rows = max(1, self.task_bytes // self.weight), max(1, min(n_band, self.across))
        pieces = max(1, -(-row // max(ACROSS_TILE, ACROSS_TASKS * elements // rows)))
        piece = max(1, -(-row // (pieces * ACROSS_TILE))) * ACROSS_TILE
        return Grid(n_band, rows * max(1, elements // piece // rows), row, piece)

    def _band_step(self, elements: int, inner_total: int, n_band: int, threads: int) -> int:
        step = max(1, elements // max(1, inner_total))
        if not self.width:
            return step
        if self.tile:
            step = max(step, min(self.tile, -(-n_band // threads)))
        return -(-step // self.width) * self.width
