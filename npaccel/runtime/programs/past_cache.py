"""Which results are stored past the cache: large ones that nothing in their program reads."""

from __future__ import annotations

import dataclasses
from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from npaccel import system
from npaccel.backends.layout import stores_freely
from npaccel.ir.scalar import item_size
from npaccel.later import later

if TYPE_CHECKING:
    from npaccel.ir import nodes, text
else:
    nodes = later("npaccel.ir.nodes")
    text = later("npaccel.ir.text")

__all__ = ["LINE_BYTES", "ROW_BYTES", "STREAM_BYTES", "PastCache", "Streams", "fits_lines"]

# Where lines and vectors begin; non-temporal stores need it.
LINE_BYTES: Final = 64


def _stream_bytes() -> int:
    """Results of which more than this is written at once are not found in the last cache.

    A quarter of it, if that lies between 4 and 8 MiB: elsewhere nothing was measured. With 32 MiB
    (Zen 4) a chain of maps over 6 or 10 MB takes 2.2 or 1.5 times as long if its results go past
    the cache; beside jobs that use the cache, too, over 8 MB as long, over 11 MB 0.7 to 0.9 times;
    over 16 MB as long.
    """
    return max(4 << 20, min(8 << 20, system.last_cache_bytes() // 4))


STREAM_BYTES: Final = _stream_bytes()
# Rows of so many bytes may begin and end within lines, of which few are then stored in part: with 8
# KB a copy takes four fifths of its time, with 4 KB as long, with 2 KB half as long again (Zen 4).
ROW_BYTES: Final = 6144

# (a kernel's name, which of its arrays bypass the cache) -> the kernel in which they do
Streams: TypeAlias = "MutableMapping[tuple[str, tuple[bool, ...]], nodes.Kernel]"


class PastCache:
    """Chooses for the steps of a plan. streams : kernels that were marked, kept between plans."""

    def __init__(self, trace: nodes.Trace, plan: nodes.Plan, streams: Streams) -> None:
        self._buffers, self._streams = trace.buffers, streams
        self._read: set[int] = set()
        for step in plan.steps:
            if isinstance(step, nodes.KernelStep):
                pairs = zip(step.kernel.arrays, step.arrays, strict=True)
                self._read |= {place.buffer for param, place in pairs if param.read}
            else:
                request = trace.requests[step.request]
                views = (*request.inputs, request.mask)
                self._read |= {view.buffer for view in views if isinstance(view, nodes.View)}

    def kernel(self, step: nodes.KernelStep, written: int) -> nodes.Kernel:
        """The step's kernel, which writes so many bytes, with such stores where they gain."""
        kernel = step.kernel
        if written <= STREAM_BYTES:
            return kernel
        past = tuple(
            fits_lines(may, param, place, step.extents)
            for may, param, place in zip(self.may(step), kernel.arrays, step.arrays, strict=True)
        )
        if not any(past):
            return kernel
        found = self._streams.get((kernel.name, past))
        if found is None:
            found = self._streams[kernel.name, past] = _marked(kernel, past)
        return found

    def may(self, step: nodes.KernelStep) -> list[int]:
        """Whether stores to each array may go past the cache: 1 if rows begin with a line; 2 also
        if they do not.

        What the program reads it had better find in the cache: there it is if kernels follow each
        other through memory (chain.c), or if the third level holds it. The code looks for the first
        line of a row for one array only, in loops that may begin anywhere.
        """
        kernel = step.kernel
        may = [
            int(not kernel.vector_band and self._is_result(param, place.buffer))
            for param, place in zip(kernel.arrays, step.arrays, strict=True)
        ]
        if sum(may) == 1 and all(
            stores_freely(leaf)
            for leaf in kernel.leaves
            if any(isinstance(e, nodes.Store) and may[e.array] for e in leaf.effects)
        ):
            may[may.index(1)] = 2
        elif any(place.wraps for place in step.arrays):  # boxes begin anywhere
            return [0] * len(may)
        return may

    def _is_result(self, param: nodes.ArrayParam, buffer: int) -> bool:
        found = self._buffers[buffer]
        seen = found.owned and not found.dead and buffer not in self._read
        return seen and param.written and param.vector is nodes.Stride.UNIT


def fits_lines(
    may: int, param: nodes.ArrayParam, place: nodes.Binding, extents: Sequence[int]
) -> bool:
    """Whether an array's stores, which `may` go past the cache, do so."""
    size = item_size(param.dtype)
    if may == 2 and extents[-1] * size >= ROW_BYTES:
        return True
    steps = place.offset, *place.strides[:-1]
    return may > 0 and not any(step * size % LINE_BYTES for step in steps)


def _marked(kernel: nodes.Kernel, past: tuple[bool, ...]) -> nodes.Kernel:
    """`kernel` with those arrays stored past the cache."""
    arrays = tuple(
        dataclasses.replace(param, nontemporal=chosen)
        for param, chosen in zip(kernel.arrays, past, strict=True)
    )
    found = dataclasses.replace(kernel, arrays=arrays)
    return dataclasses.replace(found, name=text.kernel_name(text.body_text(found)))
