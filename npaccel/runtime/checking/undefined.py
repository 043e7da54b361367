"""Which elements hold anything: nobody has written them since they became memory of an array
(`np.empty`), NumPy itself has two answers for them, or they come of such elements.

Kernels find there whatever memory holds, and store what they like where a mask leaves elements
out; neither that nor what NumPy makes of it is right or wrong.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npaccel.ir.nodes import Kind, Request, Trace, View
from npaccel.ir.reference.requests import kept, show
from npaccel.ir.scalar import item_size

__all__ = ["Undefined"]

Array = np.ndarray[Any, Any]


class Undefined:
    """Of one trace. `follow` takes its requests in order.

    Buffers that nothing was written to yet are listed; of those that hold such elements among
    others each byte has a mark.
    """

    def __init__(self, trace: Trace) -> None:
        self._sizes = [info.size_bytes for info in trace.buffers]
        self._unwritten = {info.index for info in trace.buffers if info.fresh}
        self._marks: dict[int, Array] = {}

    def follow(self, request: Request, mask: Array | None, unsure: Array | None = None) -> None:
        """Note what a request writes.

        Parameters
        ----------
        mask : where its elements are computed; None: everywhere
        unsure : of a map, where NumPy has two answers; None: nowhere
        """
        read = self._read(request)
        if unsure is not None:
            read = unsure if read is None else read | unsure
        written: Any = True
        if mask is not None and request.kind is Kind.MAP:  # a fold's mask says what is read
            assert request.mask is not None
            written = mask | self.elements(request.mask, request.shape)
        for output in request.outputs:
            view, shape = kept(request, output)
            if read is None and written is True and self._is_whole(view, shape):
                self._unwritten.discard(view.buffer)
                self._marks.pop(view.buffer, None)
            elif read is not None or self._is_marked(view.buffer):
                marks = _bytes(view, shape, self._marks_of(view.buffer))
                new = np.zeros(shape, bool) if read is None else np.broadcast_to(read, shape)
                where = np.broadcast_to(written, shape)
                np.copyto(marks, new[..., None], where=where[..., None])

    def _read(self, request: Request) -> Array | None:
        """For which of its elements a request reads such elements; None: for none."""
        views = [view for view in request.reads if self._is_marked(view.buffer)]
        if not views:
            return None
        if request.kind is Kind.GATHER:  # which elements it reads is in another operand
            return np.ones((), bool)
        found = np.zeros(request.shape, bool)
        for view in views:
            found |= self.elements(view, request.shape)
        if not found.any():
            return None
        return found if request.kind is Kind.MAP else np.ones((), bool)

    def elements(self, view: View, shape: tuple[int, ...]) -> Array:
        """Which elements of a view hold anything."""
        if 0 in shape or not self._is_marked(view.buffer):
            return np.zeros(shape, bool)
        found: Array = np.logical_or.reduce(
            _bytes(view, shape, self._marks_of(view.buffer)), axis=-1
        )
        return found

    def _is_marked(self, buffer: int) -> bool:
        return buffer in self._unwritten or buffer in self._marks

    def _marks_of(self, buffer: int) -> Array:
        if buffer not in self._marks:
            fill = buffer in self._unwritten
            self._marks[buffer] = np.full(self._sizes[buffer], fill)
            self._unwritten.discard(buffer)
        return self._marks[buffer]

    def _is_whole(self, view: View, shape: tuple[int, ...]) -> bool:
        """Whether an output of that shape is all that its buffer holds."""
        return math.prod(shape) * item_size(view.dtype) == self._sizes[view.buffer]


def _bytes(view: View, shape: tuple[int, ...], marks: Array) -> Array:
    """The marks of each element's bytes, along one more axis."""
    size = item_size(view.dtype)
    strides = (*(stride * size for stride in view.strides), 1)
    return show(View(view.buffer, "b1", view.offset * size, strides), (*shape, size), marks)
