"""Steps of a Recipe as bytes: words that the C core reads without a Python object for each.

A flush that takes over what the helper planned, or what is on disk, would else make some thousands.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from struct import error, pack
from typing import Any, NamedTuple

__all__ = [
    "ACROSS",
    "LOADED",
    "WRITTEN",
    "Elsewhere",
    "Packed",
    "Step",
    "add_kernel",
    "pack_code",
    "pack_steps",
    "pack_words",
]

# What a kernel does with an array, as native/run/step.h has it. LOADED: what it held matters.
# ACROSS: it lies across the rows of the host's code.
WRITTEN, LOADED, ACROSS = 1, 2, 4


class Elsewhere(NamedTuple):
    """Who runs a step that is not the host's own backend's.

    owner : its number among those whose launches are counted.
    device : place of its DeviceKernel among the program's; -1: the step's code is the owner's.
    steps, scratch_bytes : of its grid. accesses : one per array, as program.py has them.
    cuts : the band's axes and the inner ones that may be cut, into multiples of what.
    """

    owner: int
    device: int = -1
    steps: tuple[int, int] = (0, 0)
    scratch_bytes: int = 0
    accesses: Sequence[tuple[int, bool, bool, bool, int, int]] = ()
    cuts: tuple[int, int, int] = (0, 0, 1)

    def words(self) -> list[int]:
        """Its words."""
        words = [self.owner, self.device, *self.steps, self.scratch_bytes, *self.cuts]
        return [*words, len(self.accesses), *(n for access in self.accesses for n in access)]


class Step(NamedTuple):
    """A kernel's step.

    kernel : its place among the program's.
    grid : band, band_step, inner, inner_step, parts.
    sizes : bytes of scratch memory, of partial results, read, written.
    extents, arrays, scalars : its arguments. Of each array the buffer, and offset and strides in
        bytes; of each scalar request and input.
    requests : how many it computes. slots : the request of each; writes : buffers.
    releases : dead buffers that no later step uses.
    wraps : none, or how many axes the band has, and of each the array, axis, cut and step in bytes.
    uses : of each array bytes of an element, times eight, and `WRITTEN`, `LOADED`, `ACROSS`; none
        where indices say which elements are used.
    """

    kernel: int
    grid: Sequence[int]
    sizes: tuple[int, int, int, int]
    extents: Sequence[int]
    arrays: Sequence[int]
    requests: int
    scalars: Sequence[int]
    slots: Sequence[int]
    writes: Sequence[int]
    releases: Sequence[int]
    elsewhere: Elsewhere | None = None
    wraps: Sequence[int] = ()
    uses: Sequence[int] = ()

    def same(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Its first and its last words, which are the same for all sizes."""
        there = (0,) if self.elsewhere is None else self.elsewhere.words()
        slots, writes, releases, wraps = self.slots, self.writes, self.releases, self.wraps
        around = len(wraps) // 4, *wraps, len(self.uses), *self.uses
        last = *self.scalars, len(slots), *slots, len(writes), *writes, *around, *there
        first = -1, self.kernel, self.requests, len(self.scalars) // 2
        return first, (*last, len(releases), *releases)


# A kernel's; or a request, by NumPy's loop, and the releases.
Packed = Step | tuple[int, Sequence[int]]


def pack_steps(steps: Sequence[Packed]) -> bytes:
    """Steps as `_native.Program` takes them."""
    words = [len(steps)]
    for step in steps:
        if isinstance(step, Step):
            add_kernel(words, step.same(), step.grid, step.sizes, step.extents, step.arrays)
        else:
            words += (step[0], len(step[1]), *step[1])
    return pack_words(words)


def add_kernel(
    words: list[int],
    same: tuple[tuple[int, ...], tuple[int, ...]],
    grid: Iterable[int],
    sizes: Iterable[int],
    extents: Sequence[int],
    arrays: Sequence[int],
) -> None:
    """Add the words of a kernel's step, as `Step` has them."""
    rank, (first, last) = len(extents), same
    words += (*first, *grid, *sizes, rank, len(arrays) // (2 + rank), *extents, *arrays, *last)


def pack_words(words: list[int]) -> bytes:
    """The bytes of steps' words.

    Notes
    -----
    A word of eight bytes says how long the others are, 4 or 8. Then the number of steps; per step a
    request and its releases, or -1 and a kernel's numbers. Each list begins with its length.
    """
    try:
        return pack(f"=q{len(words)}i", 4, *words)
    except error:
        return pack(f"=q{len(words)}q", 8, *words)


def pack_code(code: Iterable[Any]) -> bytes:
    """The addresses of kernels' functions, as `_native.Program` takes them beside steps."""
    return array("Q", [address for one in code for address in (one.main, one.finish)]).tobytes()
