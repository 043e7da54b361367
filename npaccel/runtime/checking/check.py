"""Check mode: what kernels compute is compared with NumPy, operation by operation.

The pending requests run as they always do. Then they are planned once more so that every result is
stored (splitting.py), and each is compared with what NumPy makes of the inputs that the kernels
computed: integers and booleans exactly, however inexact what they come from is. What can be seen of
the run itself must be what those kernels made, to the bit.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from cachetools import LRUCache

from npaccel import _native
from npaccel.errors import BackendUnavailable, CompileError
from npaccel.ir.nodes import Kernel, KernelStep, Kind, Plan, Request, Trace, View
from npaccel.ir.passes import plan
from npaccel.ir.reference.requests import kept, run_request, show
from npaccel.ir.scalar import item_size
from npaccel.runtime.checking.splitting import Launch, Part, dense, orders, run_part, split
from npaccel.runtime.checking.tolerance import (
    Inputs,
    differences,
    far,
    is_folded,
    is_rounded,
    loosely,
    needs_operands,
    unlike,
)
from npaccel.runtime.checking.undefined import Undefined
from npaccel.runtime.programs.program import single_requests
from npaccel.runtime.programs.trace import decode

__all__ = ["Checker", "Difference", "State"]

Array = np.ndarray[Any, Any]
Memory = dict[int, Array]
Code = Callable[[KernelStep], Any]
PLANS = 128  # that are kept
# Where a difference was found.
ALONE = "NumPy computes that from the same inputs"
FUSED = "each operation by itself is right, but not in the kernel that it is fused into"


@dataclass(frozen=True, slots=True)
class State:
    """The trace about to run, and the bytes of its buffers before.

    code : gives what is compiled of a kernel, by the backend in force; None: NumPy's loops run it
    scale : how far floats may be off besides rounding, as a part of NumPy's value
    """

    trace: Trace
    memory: Memory
    sites: Sequence[tuple[Any, int]]
    code: Code | None
    scale: float = 0.0

    @classmethod
    def before(
        cls,
        pending: _native.Pending,
        contents: Sequence[bytes | None],
        code: Code | None,
        scale: float = 0.0,
    ) -> State:
        """Of requests, with the bytes of their buffers."""
        memory = {
            index: np.frombuffer(bytearray(content or b""), dtype="u1")
            for index, content in enumerate(contents)
        }
        return cls(decode(pending), memory, pending.sites, code, scale)


@dataclass(frozen=True, slots=True)
class Difference:
    """A result that NumPy has otherwise: the first such element, how many there are, of how many.

    why : where it was found.
    plan : that of the run.
    kernel : what computes it there; None: NumPy's loop has.
    dropped : nothing can see it, so the run has not computed it.
    """

    request: Request
    index: tuple[int, ...]
    seen: Any
    expected: Any
    count: int
    size: int
    why: str
    plan: Plan
    kernel: Kernel | None
    dropped: bool


class Checker:
    """One per engine.

    Parameters
    ----------
    limit : bytes of results that may be kept at a time
    """

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._plans: LRUCache[Trace, Plan] = LRUCache(PLANS)

    def clear(self) -> None:
        """Forget plans."""
        self._plans.clear()

    def _plan(self, trace: Trace) -> Plan:
        found = self._plans.get(trace)
        if found is None:
            found = self._plans[trace] = plan(trace, wraps=False)
        return found

    def compare(
        self,
        state: State,
        contents: Sequence[bytes | None],
        looped: Mapping[tuple[int, int], bytes | None],
    ) -> Iterator[Difference]:
        """Compare what a run computed; what differs, each operation on the inputs that it had.

        Parameters
        ----------
        contents : what each buffer holds after it; None: nobody can see it.
        looped : by request and output what NumPy's loops made, in C order; None: not known
        """
        loops = _loop_results(state.trace, looped)
        if len(loops) == len(state.trace.requests):  # no kernel has computed anything
            state = dataclasses.replace(state, code=None)
        planned = self._plan(state.trace)
        rounded = any(is_rounded(request) for request in state.trace.requests)
        usual = orders(planned, state.trace) if rounded else {}
        kernels = {} if state.code is None else _kernels(planned)
        reporter = _Reporter(state.scale, planned, kernels, Undefined(state.trace))
        loose: set[int] = set()  # buffers in which another order of a sum may show
        for part in split(state.trace, self._limit()):
            again, results = self._run(part, state, loops)
            here = orders(again, part.trace)
            for number, request, made in zip(part.numbers, part.requests, results, strict=True):
                yield from _compare_request(state, request, made, reporter, number not in here)
                order = usual.get(request.index, here.get(number))
                other_loop = (request.index in loops) != (number not in here)
                _note_loose(request, loose, other_loop=other_loop, other=order != here.get(number))
        yield from _compare_contents(state, contents, loose, reporter)

    def _run(
        self, part: Part, state: State, loops: Mapping[int, list[Array]]
    ) -> tuple[Plan, list[list[Array]]]:
        code = state.code
        if code is not None:
            planned = self._plan(part.trace)
            try:
                return planned, run_part(part, planned, state.memory, _launcher(code), loops)
            except (CompileError, BackendUnavailable):
                pass  # who planned the run met it, too, and said so
        planned = single_requests(part.trace, "no kernels")
        return planned, run_part(part, planned, state.memory, None, loops)


def _loop_results(
    trace: Trace, looped: Mapping[tuple[int, int], bytes | None]
) -> dict[int, list[Array]]:
    found: dict[int, list[Array]] = {}
    for (number, output), content in sorted(looped.items(), key=lambda item: item[0]):
        request = trace.requests[number]
        view, shape = kept(request, request.outputs[output])
        if content is not None:
            found.setdefault(number, []).append(np.frombuffer(content, view.dtype).reshape(shape))
    return {n: made for n, made in found.items() if len(made) == len(trace.requests[n].outputs)}


def _launcher(code: Code) -> Launch:
    def launch(step: KernelStep, arrays: list[Array], scalars: list[Any]) -> None:
        compiled = code(step)
        # Modules that nothing else needs: a launch is the core's.
        kind = "device_" if hasattr(compiled, "launcher") else ""
        module = importlib.import_module(f"npaccel.backends.{kind}launch")
        module.run_step(compiled, step.extents, arrays, scalars)

    return launch


def _note_loose(request: Request, loose: set[int], *, other_loop: bool, other: bool) -> None:
    """Whether the run may have had other bits: its loop, or the order of its sum, was another."""
    inexact = (is_rounded(request) and other_loop) or (is_folded(request) and other)
    if inexact or any(view.buffer in loose for view in request.reads):
        loose.update(view.buffer for view in request.outputs)


class _Reporter(NamedTuple):
    scale: float
    plan: Plan
    kernels: Mapping[int, Kernel]  # by request
    undefined: Undefined

    def differences(
        self,
        request: Request,
        output: int,
        seen: Array,
        expected: Array,
        wrong: Array,
        why: str,
    ) -> Iterator[Difference]:
        if wrong.any():
            wrong = wrong & ~self.undefined.elements(*kept(request, request.outputs[output]))
        if self.scale > 0:
            wrong = wrong & far(seen, expected, self.scale)
        if wrong.any():
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            values = seen[index], expected[index]
            count, kernel = int(wrong.sum()), self.kernels.get(request.index)
            dropped = request.index in self.plan.dropped
            found = request, index, *values, count, wrong.size, why, self.plan, kernel, dropped
            yield Difference(*found)


def _kernels(planned: Plan) -> dict[int, Kernel]:
    steps = [step for step in planned.steps if isinstance(step, KernelStep)]
    return {number: step.kernel for step in steps for number in step.requests}


def _compare_request(
    state: State, request: Request, made: list[Array], reporter: _Reporter, looped: bool
) -> Iterator[Difference]:
    """Compare with NumPy on the inputs in `state.memory`, where then lies what was made."""
    memory = state.memory
    inputs = _inputs(request, memory, looped=looped) if is_rounded(request) else None
    reporter.undefined.follow(request, _where(request, memory), _unsure(request, memory))
    run_request(request, memory)
    for output, found in enumerate(made):
        view, shape = kept(request, request.outputs[output])
        expected = show(view, shape, memory[view.buffer])
        if inputs is None:
            wrong = unlike(found, expected)
        else:
            wrong = differences(request, output, inputs, found, expected)
        yield from reporter.differences(request, output, found, expected, wrong, ALONE)
    for output, found in enumerate(made):
        view, shape = kept(request, request.outputs[output])
        show(view, shape, memory[view.buffer])[...] = found


def _inputs(request: Request, memory: Memory, *, looped: bool) -> Inputs:
    operands: list[Array] = []
    for operand, dtype in zip(request.inputs, request.loop, strict=False):
        if not needs_operands(request):
            break
        if isinstance(operand, View):
            array = show(operand, request.shape, memory[operand.buffer]).astype(dtype)
        else:
            array = np.broadcast_to(np.asarray(operand.value, dtype), request.shape)
        operands.append(array)
    mask = _where(request, memory)
    where = True if mask is None else mask
    loop = request.loop[len(request.loop) - len(request.outputs) :]
    cast = loop != tuple(view.dtype for view in request.outputs)
    return Inputs(operands, where, _in_loop(request, memory) if cast else [], looped)


def _unsure(request: Request, memory: Memory) -> Array | None:
    """Where floats are cast to `uint32` that are beyond it: NumPy's loop has other answers for
    vectors than for the elements that are left."""
    is_copy, first = request.op == "copy", request.inputs[0]
    loop = request.loop[:1] if is_copy else request.loop[len(request.loop) - len(request.outputs) :]
    pairs = zip(loop, request.outputs, strict=True)
    casts = [dtype[0] == "f" and view.dtype == "u4" for dtype, view in pairs]
    if request.kind is not Kind.MAP or not any(casts) or (is_copy and not isinstance(first, View)):
        return None
    if isinstance(first, View) and is_copy:
        values = [show(first, request.shape, memory[first.buffer])]
    else:
        values = _in_loop(request, memory)
    found = np.zeros(request.shape, bool)
    for value, cast in zip(values, casts, strict=True):
        found |= cast & ~((value >= -(2.0**31)) & (value < 2.0**32))
    return found if found.any() else None


def _where(request: Request, memory: Memory) -> Array | None:
    mask = request.mask
    return None if mask is None else show(mask, request.shape, memory[mask.buffer]).copy()


def _in_loop(request: Request, memory: Memory) -> list[Array]:
    """What NumPy computes of it before that is cast to the outputs' dtypes."""
    there = dict(memory)
    outputs: list[View] = []
    dtypes = request.loop[len(request.loop) - len(request.outputs) :]
    for view, dtype in zip(request.outputs, dtypes, strict=True):
        made = dataclasses.replace(dense(request, view, len(there)), dtype=dtype)
        there[len(there)] = np.zeros(item_size(dtype) * math.prod(request.shape), "u1")
        outputs.append(made)
    elsewhere = dataclasses.replace(request, outputs=tuple(outputs))
    run_request(elsewhere, there)
    parts = [kept(elsewhere, view) for view in outputs]
    return [show(view, shape, there[view.buffer]) for view, shape in parts]


def _compare_contents(
    state: State,
    contents: Sequence[bytes | None],
    loose: Collection[int],
    reporter: _Reporter,
) -> Iterator[Difference]:
    """Compare what the run left with what lies in `state.memory`, element by element with the last
    request that wrote it."""
    covered: dict[int, Array] = {}
    found: list[Difference] = []
    for request in reversed(state.trace.requests):
        for number, written in enumerate(request.outputs):
            content = contents[written.buffer]
            view, shape = kept(request, written)
            if content is None or 0 in shape:
                continue
            done = covered.setdefault(written.buffer, np.zeros(len(content), bool))
            later = show(_marks(view), shape, done)
            seen = show(view, shape, np.frombuffer(content, "u1"))
            expected = show(view, shape, state.memory[view.buffer])
            differ = loosely if view.buffer in loose else unlike
            wrong = differ(seen, expected) & ~later
            later[...] = True
            found.extend(reporter.differences(request, number, seen, expected, wrong, FUSED))
    yield from reversed(found)


def _marks(view: View) -> View:
    """A view of one bool per byte, at the first byte of each element."""
    size = item_size(view.dtype)
    strides = tuple(stride * size for stride in view.strides)
    return View(view.buffer, "b1", view.offset * size, strides)
