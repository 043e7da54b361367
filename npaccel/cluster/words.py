"""What the words of a run say: how large buffers are, and which scalars are others."""

from __future__ import annotations

from typing import Any

from npaccel.ir.nodes import ScalarOperand, Trace
from npaccel.runtime.programs.trace import END_WORDS, SCALAR_BYTES, STATE_BITS, scalar_value

__all__ = ["changed", "sizes_of"]


def sizes_of(key: bytes, count: int) -> list[int]:
    """Of the buffers, as their words have them (native/trace/key.c)."""
    words = memoryview(key).cast("Q")
    end = len(words) - END_WORDS
    return [state >> STATE_BITS for state in words[end - count : end].tolist()]


def changed(trace: Trace, before: bytes, now: bytes) -> dict[tuple[int, int], Any]:
    """Values of scalars that are others than those a plan was made with, by (request, place)."""
    found: dict[tuple[int, int], Any] = {}
    if before == now:
        return found
    places = (
        (request.index, place, one.dtype)
        for request in trace.requests
        for place, one in enumerate(request.inputs)
        if isinstance(one, ScalarOperand)
    )
    for k, (request, place, code) in enumerate(places):
        raw = now[k * SCALAR_BYTES : (k + 1) * SCALAR_BYTES]
        if raw != before[k * SCALAR_BYTES : (k + 1) * SCALAR_BYTES]:
            found[request, place] = scalar_value(raw, code)
    return found
