"""Requests planned so that each result is stored: what they make, and in which order sums go."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from npaccel.ir.nodes import KernelStep
from npaccel.ir.passes import plan
from npaccel.ir.reference.kernels import run_kernel
from npaccel.ir.reference.requests import kept, run_request, show
from npaccel.runtime.checking.splitting import orders, run_part, split

sys.path.insert(0, str(Path(__file__).parents[2] / "ir"))
from test_plan_random import programs
from traces import Recorder

EVERYTHING = 1 << 30


def interpreted(step, arrays, scalars):
    run_kernel(step.kernel, step.extents, arrays, scalars)


def compared(recorder, limit=EVERYTHING):
    """The parts of the trace, after what their kernels, interpreted, make of each request was
    compared with NumPy."""
    trace = recorder.trace()
    memory = {index: content.copy() for index, content in enumerate(recorder.memory)}
    parts = list(split(trace, limit))
    for part in parts:
        made = run_part(part, plan(part.trace, check=True), memory, interpreted, {})
        for request, found in zip(part.requests, made, strict=True):
            run_request(request, memory)
            for output, result in zip(request.outputs, found, strict=True):
                view, shape = kept(request, output)
                expected = show(view, shape, memory[view.buffer])
                np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12, strict=True)
    assert [r.index for part in parts for r in part.requests] == [r.index for r in trace.requests]
    return parts


@settings(
    max_examples=200, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)
@given(programs())
def test_each_result_of_any_program_is_kept(recorder: Recorder) -> None:
    with np.errstate(all="ignore"):
        compared(recorder)


def chain(n: int) -> Recorder:
    r = Recorder()
    x = r.array(np.linspace(0.5, 1.5, 60).reshape(6, 10))
    for _ in range(n):
        x = r.map("sqrt", x)
    r.keep(x)
    return r


def test_what_was_fused_stays_fused() -> None:
    (part,) = compared(chain(6))
    (step,) = plan(part.trace).steps
    assert isinstance(step, KernelStep) and len(step.arrays) == 1 + 6 + 1


def test_parts_hold_as_much_as_they_may() -> None:
    parts = compared(chain(7), limit=3 * 60 * 8)
    assert [len(part.requests) for part in parts] == [3, 3, 1]
    assert [len(part.requests) for part in compared(chain(3), limit=1)] == [1, 1, 1]


@pytest.mark.parametrize("shape", [(40, 50), (50, 4), (3000, 3), (5, 4000), (7, 8, 9)])
@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_are_folded_in_the_same_order(shape, axis, order) -> None:
    """Though elements are stored that the plan itself passes on; or bits would differ."""
    r = Recorder()
    source = r.array(np.zeros(shape[::-1] if order == "F" else shape))
    x = source.T if order == "F" else source
    y = r.map("multiply", r.map("exp", x), 2.0)
    r.keep(r.reduce("add", y, axis), r.map("less", y, 3.0))
    (part,) = split(r.trace(), EVERYTHING)
    usual, here = orders(plan(r.trace()), r.trace()), orders(plan(part.trace), part.trace)
    assert usual[2] == here[part.numbers[2]]
