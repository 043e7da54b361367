"""A plan moved to other sizes: the same kernels over other extents, strides and offsets."""

from __future__ import annotations

import math

from npaccel.ir.nodes import (
    Binding,
    KernelStep,
    Plan,
    Request,
    RequestStep,
    RowRange,
    Source,
    Trace,
    View,
)
from npaccel.ir.passes.draft import Limits
from npaccel.ir.passes.form import is_split

__all__ = ["move"]


def move(plan: Plan, trace: Trace, limits: Limits) -> Plan | None:
    """Return the plan of `trace`; None where the lengths of its rows make it another one.

    Parameters
    ----------
    plan : of a trace that has the same structure (see structure.py), made with the same limits
    """
    if not all(_holds(bounds, trace) for bounds in plan.ranges):
        return None
    steps: list[KernelStep | RequestStep] = []
    for step in plan.steps:
        if isinstance(step, RequestStep):
            steps.append(step)
            continue
        moved = _step(step, trace)
        kernel = step.kernel
        if is_split(kernel.leaves, moved.extents, kernel.band_rank, limits) is not kernel.split:
            return None
        steps.append(moved)
    return Plan(
        tuple(steps), plan.buffers, plan.dropped, plan.consumed, plan.ranges
    )  # everything but the steps is by index


def _holds(bounds: RowRange, trace: Trace) -> bool:
    shape = trace.requests[bounds.request].shape
    points = math.prod(shape[axis] for axis in bounds.extents) * bounds.lanes
    return bounds.low <= points < bounds.high


def _step(step: KernelStep, trace: Trace) -> KernelStep:
    origin = step.origin
    shape = trace.requests[origin.request].shape
    extents = tuple(math.prod(shape[axis] for axis in axes) for axes in origin.extents)
    arrays = tuple(
        _binding(old, source, trace) for old, source in zip(step.arrays, origin.arrays, strict=True)
    )
    return KernelStep(step.kernel, extents, arrays, step.scalars, step.slots, step.requests, origin)


def _binding(old: Binding, source: Source, trace: Trace) -> Binding:
    view = _operand(trace.requests[source.request], source.position)
    strides = tuple(
        same if axis is None else view.strides[axis]
        for same, axis in zip(old.strides, source.axes, strict=True)
    )
    return Binding(view.buffer, view.offset, strides)


def _operand(request: Request, position: int | None) -> View:
    view = (
        request.mask
        if position is None
        else request.inputs[position]
        if position >= 0
        else request.outputs[-1 - position]
    )
    assert isinstance(view, View)
    return view
