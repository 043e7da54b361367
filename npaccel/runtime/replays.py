"""From a recording of a macro section to the native Replay: blocks laid out, program built."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Final

from npaccel import _native
from npaccel.ir.nodes import BufferInfo, Plan, Request, ScalarOperand, Trace
from npaccel.runtime.recording import Recording, Refused
from npaccel.runtime.trace import decode

__all__ = ["Compile", "make_replay"]

# The C core's npa_block_kind.
INPUT, OUTSIDE, CELL, ROOT, TEMPORARY, UNUSED = range(6)
ALIGNMENT: Final = 64
# Work of at least so many bytes runs without the interpreter's lock.
HEAVY_BYTES: Final = 256 * 1024

# Plans and builds; the flag: nothing need be fast, it runs once.
Compile = Callable[[Trace, bool], tuple[_native.Program, Plan]]


def make_replay(
    recording: Recording,
    names: tuple[str, ...],
    count: int,
    compile_trace: Compile,
    threshold: int,
    *,
    once: bool = False,
) -> _native.Replay:
    """The Replay of what was recorded.

    Parameters
    ----------
    names : of the last arguments; count : of the arguments before them
    threshold : bytes from which results are npaccel arrays
    once : it is run once, for its writes to the arguments

    Raises
    ------
    Refused : it cannot be replayed.
    """
    section = recording.section
    blocks = section.blocks()
    kinds = [_kind(recording, index, block) for index, block in enumerate(blocks)]
    _check_overlap(recording, blocks, kinds)
    bindings = section.bindings()
    trace = _trace(recording, blocks, kinds, threshold, {(r, k) for r, k, _ in bindings})
    program, plan = compile_trace(trace, once)
    if any((request, operand) in plan.consumed for request, operand, _ in bindings):
        raise Refused("a rewrite used the value of a number")
    needed = set(plan.buffers)
    specs, size = _layout(recording, blocks, kinds, needed)
    recording.numbers_looked_at()
    return _native.Replay(
        section=section,
        program=program,
        nargs=count,
        names=names,
        inputs=recording.inputs,
        members=recording.members,
        numbers=recording.numbers.steps,
        uses=bindings,
        premises=recording.premises,
        blocks=specs,
        roots=_roots(recording, threshold),
        outputs=recording.outputs,
        temporary_bytes=size,
        errstate=recording.errstate,
        may_warn=any(request.errstate for request in trace.requests),
        heavy=_traffic(program) >= HEAVY_BYTES,
        info=recording.where,
    )


def _kind(recording: Recording, index: int, block: tuple[Any, ...]) -> int:
    if block[4] is not None:
        return OUTSIDE
    if any(group.block == index for group in recording.groups):
        return INPUT
    if index in recording.cells:
        return CELL
    return ROOT if index in recording.roots else TEMPORARY


def _check_overlap(recording: Recording, blocks: list[tuple[Any, ...]], kinds: list[int]) -> None:
    """Arguments that the section also reaches by another name are not told apart."""
    for block, kind in zip(blocks, kinds, strict=True):
        if kind == OUTSIDE:
            low, high = block[5], block[5] + block[0]
            if any(group.low < high and low < group.high for group in recording.groups):
                raise Refused("an argument's memory is also reached by another name")


def _trace(
    recording: Recording,
    blocks: list[tuple[Any, ...]],
    kinds: list[int],
    threshold: int,
    bound: set[tuple[int, int]],
) -> Trace:
    argument_cells = recording.argument_cells
    buffers: list[BufferInfo] = []
    for index, (block, kind) in enumerate(zip(blocks, kinds, strict=True)):
        size = block[0]
        fresh = kind in (ROOT, TEMPORARY) or (kind == CELL and index not in argument_cells)
        aligned = kind == TEMPORARY or (kind == ROOT and size >= threshold)
        buffers.append(BufferInfo(index, size, fresh, kind == TEMPORARY, aligned))
    raw = [(b.size_bytes, b.fresh, b.dead, b.owned, 0) for b in buffers]
    trace = decode((raw, recording.section.requests()))
    requests = tuple(_without_values(request, bound) for request in trace.requests)
    return Trace(tuple(buffers), requests)


def _without_values(request: Request, bound: set[tuple[int, int]]) -> Request:
    """Numbers that change from call to call are unlike any that a rewrite knows."""
    inputs = tuple(
        dataclasses.replace(operand, value=math.nan)
        if isinstance(operand, ScalarOperand)
        and (request.index, place) in bound
        and operand.dtype[0] == "f"
        else operand
        for place, operand in enumerate(request.inputs)
    )
    return dataclasses.replace(request, inputs=inputs) if inputs != request.inputs else request


def _layout(
    recording: Recording, blocks: list[tuple[Any, ...]], kinds: list[int], needed: set[int]
) -> tuple[list[tuple[Any, ...]], int]:
    """Per block (kind, written, slot, size, place, address, owner), and the temporaries' size."""
    first = {group.block: group.slots[0] for group in recording.groups}
    specs: list[tuple[Any, ...]] = []
    end = 0
    for index, (block, kind) in enumerate(zip(blocks, kinds, strict=True)):
        size, written, _, _, owner, address, _ = block
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
    for dtype, shape, strides, contiguous in (header for _, header in recording.roots.values()):
        size = math.prod(shape) * dtype.itemsize
        roots.append((dtype, shape, strides, contiguous, size >= max(threshold, 1)))
    return roots


def _traffic(program: _native.Program) -> int:
    return sum(step.bytes_read + step.bytes_written for step in program.info.steps)
