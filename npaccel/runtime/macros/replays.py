"""From a recording of a macro section to the native Replay: buffers laid out, program built."""

from __future__ import annotations

import math
from array import array
from typing import Any, Final

import numpy as np

from npaccel import _native
from npaccel.runtime.macros.recording import Recording, Refused
from npaccel.runtime.macros.section_code import Code, Place
from npaccel.runtime.programs.trace import DEAD, FRESH, OWNED, STATE_BITS

__all__ = ["make_replay", "requests_of"]

# The C core's npa_block_kind.
INPUT, OUTSIDE, CELL, ROOT, TEMPORARY, UNUSED = range(6)
ALIGNMENT: Final = 64
# What uses so much memory runs without the interpreter's lock.
HEAVY_BYTES: Final = 256 * 1024
SCALAR_BYTES: Final = 16
FLOATS: Final[dict[int, Any]] = {np.dtype(code).num: np.dtype(code) for code in "efd"}


def requests_of(recording: Recording, threshold: int) -> _native.Pending:
    """What a program for the recording is made of; raises Refused.

    threshold : bytes from which results are npaccel arrays
    """
    section = recording.section
    buffers = section.buffers()
    kinds = _kinds(recording, buffers)
    _check_overlap(recording, buffers, kinds)
    _check_indices(recording, buffers, kinds)
    states = array("Q")
    for index, (buffer, kind) in enumerate(zip(buffers, kinds, strict=True)):
        made = kind == CELL and index not in recording.argument_cells
        fresh = kind in (ROOT, TEMPORARY) or made
        aligned = kind == TEMPORARY or (kind == ROOT and buffer[0] >= threshold)
        flags = FRESH * fresh | DEAD * (kind == TEMPORARY) | OWNED * aligned
        states.append(buffer[0] << STATE_BITS | flags)
    return section.pending(states.tobytes())


def make_replay(
    recording: Recording,
    names: tuple[str, ...],
    count: int,
    code: Code,
    place: Place,
    threshold: int,
) -> _native.Replay:
    """The Replay of what was recorded.

    Parameters
    ----------
    names : of the last arguments; count : of the arguments before them
    place : where it runs
    threshold : as in `requests_of`

    Raises
    ------
    Refused : it cannot be replayed.
    """
    section = recording.section
    buffers = section.buffers()
    bindings = section.bindings()
    if any((request, operand) in code.consumed for request, operand, _ in bindings):
        raise Refused("a rewrite used the value of a number")
    specs, size = _layout(recording, buffers, _kinds(recording, buffers), code.buffers)
    recording.numbers_looked_at()
    return _native.Replay(
        section=section,
        program=code.program,
        nargs=count,
        names=names,
        inputs=recording.inputs,
        members=recording.members,
        numbers=recording.numbers.steps,
        uses=bindings,
        guards=recording.guards.found if recording.guards is not None else [],
        buffers=specs,
        roots=_roots(recording, threshold),
        outputs=recording.outputs,
        temporary_bytes=size,
        errstate=recording.errstate,
        draws=recording.draws if recording.drawn else None,
        drawn=recording.drawn,
        heavy=sum(buffers[index][0] for index in code.buffers) >= HEAVY_BYTES,
        info=recording.where,
        place=place.memory,
        anywhere=place.anywhere,
    )


def _kinds(recording: Recording, buffers: list[tuple[Any, ...]]) -> list[int]:
    return [_kind(recording, index, buffer) for index, buffer in enumerate(buffers)]


def _kind(recording: Recording, index: int, buffer: tuple[Any, ...]) -> int:
    if buffer[4] is not None:
        return OUTSIDE
    if any(group.buffer == index for group in recording.groups):
        return INPUT
    if index in recording.cells:
        return CELL
    return ROOT if index in recording.roots else TEMPORARY


def _check_overlap(recording: Recording, buffers: list[tuple[Any, ...]], kinds: list[int]) -> None:
    """Arguments that the section also reaches by another name are not told apart."""
    for buffer, kind in zip(buffers, kinds, strict=True):
        if kind == OUTSIDE:
            low, high = buffer[5], buffer[5] + buffer[0]
            if any(group.low < high and low < group.high for group in recording.groups):
                raise Refused("an argument's memory is also reached by another name")


def _check_indices(recording: Recording, buffers: list[tuple[Any, ...]], kinds: list[int]) -> None:
    """Indices must be there when a replay begins; if it computes them, it must write nothing."""
    writes = any(kind == INPUT and buffer[1] for buffer, kind in zip(buffers, kinds, strict=True))
    for buffer, last in recording.section.checks():
        if last < 0 and kinds[buffer] not in (INPUT, OUTSIDE):
            raise Refused("it picks elements by indices without values")
        if last >= 0 and writes:
            raise Refused(
                "it picks elements by indices that it computes, and writes to an argument"
            )


def _layout(
    recording: Recording, buffers: list[tuple[Any, ...]], kinds: list[int], needed: frozenset[int]
) -> tuple[list[tuple[Any, ...]], int]:
    """Per buffer (kind, written, slot, size, place, address, owner), and the temporaries' size."""
    first = {group.buffer: group.slots[0] for group in recording.groups}
    specs: list[tuple[Any, ...]] = []
    end = 0
    for index, (buffer, kind) in enumerate(zip(buffers, kinds, strict=True)):
        size, written, _, _, owner, address, _ = buffer
        slot, place = -1, 0
        if kind == INPUT:
            slot = first[index]
        elif kind == CELL:
            slot = recording.cells[index]
        elif kind == ROOT:
            slot = recording.roots[index][0]
        elif kind == TEMPORARY:
            place = end
            end += -(-size // ALIGNMENT) * ALIGNMENT if index in needed else 0
        used = UNUSED if kind == TEMPORARY and index not in needed else kind
        specs.append((used, written, slot, size, place, address, owner))
    return specs, end


def _roots(recording: Recording, threshold: int) -> list[tuple[Any, ...]]:
    roots = []
    for dtype, shape, strides in (header for _, header in recording.roots.values()):
        size = math.prod(shape) * dtype.itemsize
        roots.append((dtype, shape, strides, size >= max(threshold, 1)))
    return roots
