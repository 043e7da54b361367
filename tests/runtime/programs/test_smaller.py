"""A kernel that a compiler rejects is cut into smaller ones before NumPy's loops take over."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from tiering import cold, operand, until

import npaccel
from npaccel import this_process
from npaccel.backends.llvm.backend import LlvmBackend
from npaccel.errors import BuildTimeout, CompileError, NpaccelWarning
from npaccel.ir.nodes import Kernel
from npaccel.ir.passes import Cut, plan
from npaccel.ir.scalar import Core, topological
from npaccel.runtime.programs.trace import decode

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("deferred")]
EMIT = LlvmBackend.emit_object


def _nodes(kernel: Kernel) -> list[Any]:
    return [node for leaf in kernel.leaves for node in topological(leaf.all_roots)]


def _rejecting(monkeypatch: pytest.MonkeyPatch, wrong: Any) -> list[Kernel]:
    """Have LLVM reject kernels for which `wrong` says why; the kernels that it was given."""
    given: list[Kernel] = []

    def emit(self: LlvmBackend, kernel: Kernel) -> bytes:
        given.append(kernel)
        why = wrong(kernel)
        if why:
            raise CompileError(f"llvm: {why}")
        return EMIT(self, kernel)

    monkeypatch.setattr(LlvmBackend, "emit_object", emit)
    return given


@pytest.fixture
def eager(setting, monkeypatch):
    setting("tiering", "eager")
    setting("cache", "off")
    monkeypatch.setattr(this_process.engine.telling, "told", set())
    _forget()
    yield
    monkeypatch.undo()
    _forget()


def _forget() -> None:
    cold()
    for device in this_process.engine.machines._devices.values():
        device.kernels.clear()
        device._refused.clear()


def _chain(x, n: int = 24):
    for k in range(n):
        x = x * 0.5 + float(k % 3)
    return x


def _many(x) -> list[Any]:
    return [x * float(k) + 1.0 for k in range(12)]


TOO_LARGE = {
    "nodes": lambda kernel: len(_nodes(kernel)) > 30,
    "outputs": lambda kernel: sum(array.written for array in kernel.arrays) > 3,
    "arguments": lambda kernel: len(kernel.arrays) + len(kernel.scalars) > 8,
}


@pytest.mark.parametrize("limit", TOO_LARGE)
@pytest.mark.parametrize("program", [_chain, _many])
def test_kernels_become_as_small_as_the_compiler_takes_them(eager, monkeypatch, limit, program):
    wrong, x = TOO_LARGE[limit], operand()
    want, whole = program(np.asarray(x)), _first(program, x)
    given = _rejecting(monkeypatch, lambda kernel: "too large" if wrong(kernel) else "")
    if wrong(whole):
        expected = pytest.warns(NpaccelWarning, match="too large; the kernel was cut into smaller")
    else:
        expected = warnings.catch_warnings()
    with expected:
        found = npaccel.evaluate(program(x))
    assert np.array_equal(np.array(found), np.array(want))
    told = npaccel.explain(found[0] if program is _many else found)
    assert all(step.backend == "llvm" for step in told.steps)
    assert (len(told.steps) > 1) is wrong(whole)
    before = len(given)
    npaccel.evaluate(program(x))
    assert len(given) == before, "what was rejected once is not compiled again"


def _first(program, x) -> Kernel:
    made = program(x)
    planned = plan(decode(npaccel._native.pending()))
    assert made is not None
    npaccel.evaluate()
    cold()
    return planned.steps[0].kernel


def test_only_what_is_rejected_alone_is_numpys(eager, monkeypatch):
    def roots(kernel: Kernel) -> str:
        return "no roots" if any(n.op is Core.SQRT for n in _nodes(kernel)) else ""

    _rejecting(monkeypatch, roots)
    x = operand()
    with pytest.warns(NpaccelWarning, match="no roots; the kernel was cut into smaller ones"):
        y = npaccel.evaluate(np.sqrt(x * 2.0 + 1.0) * 3.0 - 1.0)
    assert np.array_equal(y, np.sqrt(np.asarray(x) * 2.0 + 1.0) * 3.0 - 1.0)
    steps = npaccel.explain(y).steps
    assert [(step.backend, len(step.operations)) for step in steps] == [
        ("llvm", 2),
        ("numpy", 1),
        ("llvm", 2),
    ]
    assert steps[1].reason == "not compiled: llvm: no roots"


def test_where_nothing_is_left_numpys_loops_run(eager, monkeypatch):
    _rejecting(monkeypatch, lambda kernel: "never")
    x = operand()
    with pytest.warns(NpaccelWarning, match="never; the requests run with NumPy's own loops"):
        y = npaccel.evaluate(_chain(x, 3))
    assert np.array_equal(y, _chain(np.asarray(x), 3))
    assert {step.backend for step in npaccel.explain(y).steps} == {"numpy"}


@pytest.mark.usefixtures("adaptive")
def test_the_helper_cuts_too_and_what_it_made_is_kept(monkeypatch, helper_of, setting):
    helper_of(
        "from npaccel.backends.llvm.backend import LlvmBackend\n"
        "from npaccel.errors import CompileError\n"
        "emit = LlvmBackend.emit_object\n"
        "def refuse(self, kernel):\n"
        "    if len(kernel.scalars) > 6: raise CompileError('llvm: many scalars')\n"
        "    return emit(self, kernel)\n"
        "LlvmBackend.emit_object = refuse\n"
    )
    monkeypatch.setattr(this_process.engine.telling, "told", set())
    x = operand()
    want = _chain(np.asarray(x))
    with pytest.warns(NpaccelWarning, match="many scalars; the kernel was cut into smaller"):
        until(lambda: bool(npaccel.evaluate(_chain(x)) is not None) and _kernels(x))
    assert np.array_equal(npaccel.evaluate(_chain(x)), want)
    steps = len(npaccel.explain(npaccel.evaluate(_chain(x))).steps)
    assert steps > 1
    cold()  # as another process finds it on disk
    y = npaccel.evaluate(_chain(x))
    assert len(npaccel.explain(y).steps) == steps and np.array_equal(y, want)


def _kernels(x) -> bool:
    told = npaccel.explain(npaccel.evaluate(_chain(x)))
    return all(step.backend == "llvm" for step in told.steps)


class _Devices:
    """Builds of kernels for an OpenCL device, of which some fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: CompileError, most: int) -> None:
        from npaccel.backends.opencl import backend

        emit_image, self.failed = backend.emit_image, 0

        def emit(kernel: Kernel, target: Any) -> bytes:
            if len(kernel.scalars) > most:
                self.failed += 1
                raise error
            return emit_image(kernel, target)

        monkeypatch.setattr(backend, "emit_image", emit)


@pytest.mark.usefixtures("opencl")
def test_a_device_gets_smaller_kernels_too(eager, monkeypatch):
    there = _Devices(monkeypatch, CompileError("opencl: the compiler crashed"), 3)
    x = operand()
    with (
        npaccel.backend("opencl"),
        pytest.warns(NpaccelWarning, match="crashed; the kernel was cut into smaller ones"),
    ):
        y = npaccel.evaluate(_chain(x, 4))
        told = npaccel.explain(y)
    assert there.failed and np.array_equal(y, _chain(np.asarray(x), 4))
    assert len(told.steps) > 1 and {step.backend for step in told.steps} == {"opencl:0"}


@pytest.mark.usefixtures("opencl")
def test_nobody_waits_for_a_device_s_compiler_twice(eager, monkeypatch):
    there = _Devices(monkeypatch, BuildTimeout("opencl: a build took more than 60 s"), 0)
    x = operand()
    with npaccel.backend("opencl"), pytest.warns(NpaccelWarning, match="60 s; the kernel runs wi"):
        y = npaccel.evaluate(_chain(x, 4))
        told = npaccel.explain(y)
    assert there.failed == 1 and np.array_equal(y, _chain(np.asarray(x), 4))
    assert [step.backend for step in told.steps] == ["llvm"]


def test_cuts_of_a_plan():
    """How many requests are in the kernel of each; those that are not cut go on as before."""
    npaccel.evaluate()
    x = operand()
    y = _chain(x, 8)
    trace = decode(npaccel._native.pending())
    sizes = {}
    for most in (16, 8, 3, 1, 0):
        planned = plan(trace, cuts={r.index: Cut(most, "why") for r in trace.requests}, check=True)
        sizes[most] = [len(getattr(step, "requests", ())) for step in planned.steps]
    assert [max(found) for found in sizes.values()] == [16, 8, 3, 1, 0]
    assert sum(sizes[3]) == sum(sizes[1]) == 16
    first = plan(trace, cuts={0: Cut(1, "why")}, check=True)
    assert [step.requests for step in first.steps] == [(0,), tuple(range(1, 16))]
    assert y is not None
    npaccel.evaluate()
