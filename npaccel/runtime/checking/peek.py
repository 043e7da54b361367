"""The value of an array that is pending, computed from copies: nothing that is to come changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from npaccel import _native
from npaccel.ir.nodes import Request, Trace
from npaccel.ir.reference.requests import run_requests
from npaccel.runtime.programs.trace import decode

__all__ = ["peek"]

Array = np.ndarray[Any, Any]


def peek(array: Array) -> Array:
    """A plain copy of what the array will hold, by NumPy's own functions."""
    while True:
        found = _peek(array)
        if found is not None:
            return found


def _peek(array: Array) -> Array | None:
    """None: another thread has changed the queue meanwhile."""
    place = _native.place(array)
    if place is None:  # what waits to be written there, if anything, is written at once
        return np.array(_native.plain(array))
    index, offset = place
    if index < 0:
        return _shown(array, np.frombuffer(_native.contents(array), "u1"), offset)
    pending = _native.pending()
    trace = decode(pending)
    requests, buffers = _needed(trace, index)
    memory = {
        number: np.frombuffer(bytearray(_native.contents(number)), "u1") for number in buffers
    }
    after = _native.pending()
    if (after.serial, after.key) != (pending.serial, pending.key):
        return None
    with np.errstate(all="ignore"):
        run_requests(requests, memory)
    return _shown(array, memory[index], offset)


def _needed(trace: Trace, index: int) -> tuple[list[Request], set[int]]:
    """The requests that the content of a buffer depends on, in order, and the buffers they use."""
    buffers, found = {index}, list[Request]()
    for request in reversed(trace.requests):
        if any(view.buffer in buffers for view in request.outputs):
            found.append(request)
            buffers |= {view.buffer for view in request.outputs}
            buffers |= {view.buffer for view in request.reads}
    return found[::-1], buffers


def _shown(array: Array, memory: Array, offset: int) -> Array:
    whole = np.ndarray(array.shape, array.dtype, memory, offset, array.strides)
    return whole.copy(order="K")
