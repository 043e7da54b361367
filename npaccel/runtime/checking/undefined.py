"""Which elements hold anything: a mask left them out of memory that nobody had written.

Kernels store there what they like, and NumPy leaves what was there; neither is right or wrong, nor
is what comes of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npaccel.ir.nodes import Kind, Request, Trace, View
from npaccel.ir.reference.requests import kept, show
from npaccel.ir.scalar import item_size

__all__ = ["Undefined"]

Array = np.ndarray[Any, Any]


class Undefined:
    """Of one trace. `follow` takes its requests in order.

    Each byte of a buffer has a mark. Buffers that can't hold such elements have none.
    """

    def __init__(self, trace: Trace) -> None:
        masked = {v.buffer for r in trace.requests if _masked(r) for v in r.outputs}
        self._marks = {
            info.index: np.ones(info.size_bytes, bool)
            for info in trace.buffers
            if info.fresh and info.index in masked
        }
        self._sizes = [info.size_bytes for info in trace.buffers]

    def follow(self, request: Request, mask: Array | None) -> None:
        """Note what a request writes.

        Parameters
        ----------
        mask : where it does; None: everywhere
        """
        if not self._marks:
            return
        views = [view for view in (*request.inputs, request.mask) if isinstance(view, View)]
        read = self._read(request, views)
        if not read.any() and not any(view.buffer in self._marks for view in request.outputs):
            return
        written: Any = True
        if _masked(request):
            assert mask is not None and request.mask is not None
            written = mask | self.elements(request.mask, request.shape)
        for output in request.outputs:
            marks = self._marks.setdefault(
                output.buffer, np.zeros(self._sizes[output.buffer], bool)
            )
            view, shape = kept(request, output)
            new = read if request.kind is Kind.MAP else np.broadcast_to(read.any(), shape)
            where = np.broadcast_to(written, shape)
            np.copyto(_bytes(view, shape, marks), new[..., None], where=where[..., None])

    def _read(self, request: Request, views: list[View]) -> Array:
        """Elements of the request for which it reads such elements."""
        found = np.zeros(request.shape, bool)
        for view in views:
            if view.buffer not in self._marks:
                continue
            if request.kind is Kind.GATHER:  # which elements it reads is in another operand
                found |= self._marks[view.buffer].any()
            else:
                found |= self.elements(view, request.shape)
        return found

    def elements(self, view: View, shape: tuple[int, ...]) -> Array:
        """Which elements of a view hold anything."""
        marks = self._marks.get(view.buffer)
        if marks is None or 0 in shape:
            return np.zeros(shape, bool)
        found: Array = np.logical_or.reduce(_bytes(view, shape, marks), axis=-1)
        return found


def _masked(request: Request) -> bool:
    """Whether its mask says what is written; that of a fold says what is read."""
    return request.mask is not None and request.kind is Kind.MAP


def _bytes(view: View, shape: tuple[int, ...], marks: Array) -> Array:
    """The marks of each element's bytes, along one more axis."""
    size = item_size(view.dtype)
    strides = (*(stride * size for stride in view.strides), 1)
    return show(View(view.buffer, "b1", view.offset * size, strides), (*shape, size), marks)
