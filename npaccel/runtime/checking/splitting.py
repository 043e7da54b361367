"""Requests planned once more so that every result is kept: what kernels would only pass on, they
store as well.

Behind each request its results are copied to memory of their own (logs). The copies are fused like
any request, so the kernels are those of the plan with more stores in them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from npaccel.ir.nodes import (
    BufferInfo,
    KernelStep,
    Kind,
    Plan,
    Request,
    ScalarOperand,
    Trace,
    View,
)
from npaccel.ir.reference.requests import kept, run_request, show
from npaccel.ir.scalar import item_size
from npaccel.ir.views import squeezed_axes

__all__ = ["Launch", "Part", "dense", "launch_step", "orders", "run_part", "split"]

Array = np.ndarray[Any, Any]
# Runs the kernel of a step with these arrays and scalars.
Launch = Callable[[KernelStep, list[Array], list[Any]], Any]


@dataclass(frozen=True, slots=True)
class Part:
    """Some consecutive requests of a trace, and copies of what they make.

    requests : those, with their numbers in the whole trace
    trace : them and the copies, with numbers of its own
    numbers : those of the requests there
    logs : per request the copies of its results
    """

    requests: tuple[Request, ...]
    trace: Trace
    numbers: tuple[int, ...]
    logs: tuple[tuple[View, ...], ...]


def split(trace: Trace, limit: int) -> Iterator[Part]:
    """The trace in parts, each with copies of `limit` bytes at most, or of one request."""
    begin, size = 0, 0
    for place, request in enumerate(trace.requests):
        more = sum(_bytes(request, view) for view in request.outputs)
        if size + more > limit and place > begin:
            yield _part(trace, begin, place)
            begin, size = place, 0
        size += more
    yield _part(trace, begin, len(trace.requests))


def _bytes(request: Request, view: View) -> int:
    return item_size(view.dtype) * math.prod(kept(request, view)[1])


def _part(trace: Trace, begin: int, end: int) -> Part:
    # What the part before wrote is content. What is seen at the end is stored there as well: it has
    # its say in how the kernels' domains are laid out.
    buffers = [
        dataclasses.replace(info, fresh=info.fresh and begin == 0, owned=False)
        for info in trace.buffers
    ]
    requests: list[Request] = []
    numbers: list[int] = []
    logs: list[tuple[View, ...]] = []
    for request in trace.requests[begin:end]:
        numbers.append(len(requests))
        requests.append(dataclasses.replace(request, index=len(requests)))
        copies: list[View] = []
        for output in request.outputs:
            source, shape = kept(request, output)
            copies.append(kept(request, dense(request, output, len(buffers)))[0])
            size = _bytes(request, output)
            buffers.append(BufferInfo(len(buffers), size, True, False, False, log=True))
            if size:
                requests.append(_copy(len(requests), source, shape, copies[-1]))
        logs.append(tuple(copies))
    whole = Trace(tuple(buffers), tuple(requests))
    return Part(trace.requests[begin:end], whole, tuple(numbers), tuple(logs))


def dense(request: Request, output: View, buffer: int) -> View:
    """Without gaps, axes in memory as in the output: what is walked as one there can be here."""
    reduced = request.axes if request.kind in (Kind.REDUCE, Kind.ARG) else ()
    strides = [0] * len(request.shape)
    step = 1
    for axis in sorted(range(len(strides)), key=lambda axis: (abs(output.strides[axis]), -axis)):
        if axis not in reduced:
            strides[axis] = step
            step *= request.shape[axis]
    return View(buffer, output.dtype, 0, tuple(strides))


def _copy(index: int, source: View, shape: tuple[int, ...], target: View) -> Request:
    loop = (source.dtype, source.dtype)
    return Request(index, Kind.MAP, "copy", shape, (), (source,), (target,), loop, None, 0)


def run_part(
    part: Part,
    plan: Plan,
    memory: Mapping[int, Array],
    launch: Launch | None,
    looped: Mapping[int, list[Array]],
) -> list[list[Array]]:
    """Run the plan of a part, and return per request what it made.

    Parameters
    ----------
    memory : what the buffers hold before; left as it is
    launch : None: there are no kernels
    looped : what requests made that NumPy's loops have run; others of those NumPy runs here
    """
    there = {index: content.copy() for index, content in memory.items()}
    for info in part.trace.buffers[len(memory) :]:
        there[info.index] = np.zeros(info.size_bytes, "u1")
    numbers = dict(zip(part.numbers, part.requests, strict=True))
    for step in plan.steps:
        if isinstance(step, KernelStep):
            assert launch is not None
            launch_step(step, part.trace, there, launch)
            continue
        original = numbers.get(step.request)
        if original is None or original.index not in looped:
            run_request(part.trace.requests[step.request], there)
            continue
        for output, content in zip(original.outputs, looped[original.index], strict=True):
            view, shape = kept(original, output)
            show(view, shape, there[view.buffer])[...] = content
    return [
        [
            show(log, kept(request, output)[1], there[log.buffer])
            for log, output in zip(logs, request.outputs, strict=True)
        ]
        for request, logs in zip(part.requests, part.logs, strict=True)
    ]


def launch_step(step: KernelStep, trace: Trace, memory: Mapping[int, Array], launch: Launch) -> Any:
    """Run the kernel of a step of that trace's plan on the bytes of its buffers; what `launch`
    returns."""
    views = [
        View(place.buffer, param.dtype, place.offset, place.strides)
        for param, place in zip(step.kernel.arrays, step.arrays, strict=True)
    ]
    scalars = [trace.requests[request].inputs[position] for request, position in step.scalars]
    return launch(
        step,
        [show(view, step.extents, memory[view.buffer]) for view in views],
        [scalar.value for scalar in scalars if isinstance(scalar, ScalarOperand)],
    )


def orders(plan: Plan, trace: Trace) -> dict[int, Hashable]:
    """Per request that a kernel runs, all that the order depends on in which it folds rows."""
    found: dict[int, Hashable] = {}
    for step in plan.steps:
        if not isinstance(step, KernelStep):
            continue
        kept_axes = squeezed_axes(trace.requests[step.origin.request].shape)
        places = {axis: place for place, axis in enumerate(kept_axes)}
        runs = tuple(tuple(places[axis] for axis in run) for run in step.origin.extents)
        kernel = step.kernel
        order = kernel.band_rank, kernel.vector_band, step.extents, runs
        found.update(dict.fromkeys(step.requests, order))
    return found
