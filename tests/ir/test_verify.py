"""What the verifier rejects, and that the printed forms say what matters."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from traces import Recorder, kernels

from npaccel.errors import VerifyError
from npaccel.ir.nodes import Kernel, KernelStep, Plan, Reduce, Store, Trace
from npaccel.ir.passes import plan
from npaccel.ir.scalar import Core, Pool
from npaccel.ir.text import kernel_text, plan_text, trace_text
from npaccel.ir.verify import verify_kernel, verify_plan, verify_trace


def example() -> tuple[Trace, Plan, Kernel]:
    r = Recorder(0)
    x = r.array(np.ones((70, 40)))
    r.keep(r.map("subtract", x, r.reduce("add", x, 1)))
    trace = r.trace()
    result = plan(trace)
    return trace, result, kernels(result)[0]


def test_accepts_what_the_planner_makes() -> None:
    trace, result, kernel = example()
    verify_trace(trace)
    verify_plan(result, trace)
    verify_kernel(kernel)


def test_rejects_views_outside_their_buffer() -> None:
    trace, _, _ = example()
    small = tuple(dataclasses.replace(b, size_bytes=8) for b in trace.buffers)
    with pytest.raises(VerifyError, match="leaves buffer"):
        verify_trace(dataclasses.replace(trace, buffers=small))


def test_rejects_lost_requests_and_bindings() -> None:
    trace, result, _ = example()
    with pytest.raises(VerifyError, match="lost or run twice"):
        verify_plan(dataclasses.replace(result, dropped=(0,)), trace)
    (step,) = result.steps
    assert isinstance(step, KernelStep)
    unbound = dataclasses.replace(step, arrays=step.arrays[1:])
    with pytest.raises(VerifyError, match="not bound"):
        verify_plan(dataclasses.replace(result, steps=(unbound,)), trace)
    with pytest.raises(VerifyError, match="has no memory"):
        verify_plan(dataclasses.replace(result, buffers=()), trace)


def test_rejects_rows_before_they_are_made() -> None:
    _, _, kernel = example()
    with pytest.raises(VerifyError, match="read before it is made"):
        verify_kernel(dataclasses.replace(kernel, leaves=kernel.leaves[::-1]), "some pass")


def test_rejects_wrong_types() -> None:
    _, _, kernel = example()
    pool = Pool()
    sum_of_two_types = pool.make(Core.ADD, "f8", (pool.load("f8", 0), pool.const("f4", 1.0)))
    leaf = kernel.leaves[0]
    (effect,) = leaf.effects
    assert isinstance(effect, Reduce)
    bad = dataclasses.replace(effect, value=sum_of_two_types)
    leaves = (dataclasses.replace(leaf, effects=(bad,)), *kernel.leaves[1:])
    with pytest.raises(VerifyError, match=r"group: .* not well typed"):
        verify_kernel(dataclasses.replace(kernel, leaves=leaves), "group")
    store = Store(0, pool.const("f4", 1.0))
    last = dataclasses.replace(kernel.leaves[-1], effects=(store,))
    with pytest.raises(VerifyError, match=r"not declared written|another dtype"):
        verify_kernel(dataclasses.replace(kernel, leaves=(kernel.leaves[0], last)))


def test_text() -> None:
    trace, result, kernel = example()
    assert trace_text(trace).splitlines()[3:] == [
        "r0: f8 b1[0: 1,0] = reduce add.f8.f8.f8(f8 b0[0: 40,1]) over (70,40) axes (1) "
        "errstate 0x00",
        "r1: f8 b2[0: 40,1] = map subtract.f8.f8.f8(f8 b0[0: 40,1], f8 b1[0: 1,0]) over (70,40) "
        "errstate 0x00",
    ]
    assert kernel_text(kernel) == "\n".join(
        [
            f"{kernel.name}: band 1 inner 1 slots 0",
            "  a0 f8 unit read",
            "  a1 f8 unit written",
            "  r0 f8",
            "  leaf",
            "    %0 = load.f8 0",
            "    reduce r0 sum %0",
            "  leaf",
            "    %0 = load.f8 0",
            "    %1 = row.f8 0",
            "    %2 = sub.f8 %0 %1",
            "    store a1 %2",
        ]
    )
    assert plan_text(result).startswith(f"run {kernel.name} over (70,40)\n  a0 = b0[0: 40,1]\n")
