"""Writes traces as a program would make them, and runs their plans against NumPy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from npaccel.ir.nodes import (
    Binding,
    BufferInfo,
    Kernel,
    KernelStep,
    Kind,
    Plan,
    Request,
    ScalarOperand,
    Trace,
    View,
)
from npaccel.ir.reference.kernels import run_kernel
from npaccel.ir.reference.requests import run_request, run_requests, show
from npaccel.ir.views import between_cuts

Array = np.ndarray[Any, Any]
WARN = 0x55 & ~0x10  # all but underflow


def _code(dtype: Any) -> str:
    return "b1" if np.dtype(dtype) == bool else np.dtype(dtype).str[1:]


@dataclass
class Recorder:
    """Records requests on arrays that have memory but are not computed."""

    errstate: int = WARN
    memory: list[Array] = field(default_factory=list)
    places: dict[int, int] = field(default_factory=dict)
    fresh: list[bool] = field(default_factory=list)
    alive: set[int] = field(default_factory=set)
    requests: list[Request] = field(default_factory=list)

    def array(self, value: Array) -> Array:
        """An input; its buffer stays alive."""
        result = self.empty(value.shape, value.dtype)
        result[...] = value
        self.fresh[-1] = False
        self.alive.add(len(self.memory) - 1)
        return result

    def empty(self, shape: tuple[int, ...], dtype: Any = "f8") -> Array:
        dtype = np.dtype(dtype)
        size = int(np.prod(shape, dtype=int)) * dtype.itemsize
        self.memory.append(np.zeros(size, np.uint8))
        self.places[id(self.memory[-1])] = len(self.memory) - 1
        self.fresh.append(True)
        return np.ndarray(shape, dtype, self.memory[-1])

    def keep(self, *arrays: Array) -> None:
        """Somebody still sees these at the end."""
        self.alive.update(self.view(array, array.shape).buffer for array in arrays)

    def view(self, array: Array, shape: tuple[int, ...]) -> View:
        array = np.broadcast_to(array, shape)
        address = array.__array_interface__["data"][0]
        owner: Any = array
        while owner.base is not None:
            owner = owner.base
        index = self.places[id(owner)]
        item = array.itemsize
        strides = tuple(
            0 if n == 1 else step // item for n, step in zip(shape, array.strides, strict=True)
        )
        start = owner.__array_interface__["data"][0]
        return View(index, _code(array.dtype), (address - start) // item, strides)

    def _record(
        self,
        kind: Kind,
        op: str,
        shape: tuple[int, ...],
        axes: tuple[int, ...],
        inputs: tuple[Any, ...],
        outputs: tuple[Array, ...],
        loop: tuple[str, ...],
        where: Array | None = None,
    ) -> None:
        operands = tuple(
            self.view(x, shape) if isinstance(x, np.ndarray) else ScalarOperand(loop[at], at, x)
            for at, x in enumerate(inputs)
        )
        views = tuple(self.view(out, shape) for out in outputs)
        mask = None if where is None else self.view(where, shape)
        index = len(self.requests)
        self.requests.append(
            Request(
                index, kind, op, shape, axes, operands, views, loop, mask, self.errstate
            )
        )  # fmt: skip

    def map(
        self, op: str, *inputs: Any, out: Array | None = None, where: Array | None = None
    ) -> Array:
        arrays = [x for x in inputs if isinstance(x, np.ndarray)]
        shape = np.broadcast_shapes(*(x.shape for x in arrays))
        if op == "copy":
            loop = (_code(arrays[0].dtype), _code((arrays[0] if out is None else out).dtype))
        elif op == "where":
            dtype = np.result_type(*inputs[1:])
            loop = ("b1", _code(dtype), _code(dtype), _code(dtype))
        else:
            ufunc: Any = getattr(np, op)
            signature = tuple(x.dtype if isinstance(x, np.ndarray) else type(x) for x in inputs)
            found = ufunc.resolve_dtypes((*signature, *(None,) * ufunc.nout))
            loop = tuple(map(_code, found))
        if out is None:
            out = self.empty(shape, loop[-1])
        else:
            shape = out.shape
        self._record(Kind.MAP, op, shape, (), inputs, (out,), loop, where)
        return out

    def reduce(
        self,
        op: str,
        array: Array,
        axis: int | tuple[int, ...] | None = None,
        keepdims: bool = True,
        where: Array | None = None,
        initial: Any = None,
    ) -> Array:
        axes = tuple(range(array.ndim)) if axis is None else np.atleast_1d(axis)
        axes = tuple(sorted(int(a) % array.ndim for a in axes))
        kind = Kind.ARG if op in ("argmin", "argmax") else Kind.REDUCE
        code = _code(array.dtype)
        if kind is Kind.ARG:
            loop: tuple[str, ...] = (code, "i8")
        else:
            ufunc: Any = getattr(np, op)
            probe = ufunc.reduce(np.ones(1, array.dtype))
            code = _code(np.asarray(probe).dtype)
            loop = (code, code, code)
        shape = tuple(1 if at in axes else n for at, n in enumerate(array.shape))
        out = self.empty(shape, loop[-1])
        inputs = (array,) if initial is None else (array, initial)
        self._record(kind, op, array.shape, axes, inputs, (out,), loop, where)
        return out if keepdims else out.squeeze(axes)

    def scan(self, op: str, array: Array, axis: int, out: Array | None = None) -> Array:
        """``op.accumulate(array, axis)``, perhaps into `out`."""
        out = self.empty(array.shape, array.dtype) if out is None else out
        loop = (_code(array.dtype),) * 2
        self._record(Kind.SCAN, op, array.shape, (axis,), (array,), (out,), loop)
        return out

    def gather(self, array: Array, index: Array, axis: int, out: Array | None = None) -> Array:
        """``array.take(index, axis)``, perhaps into `out`."""
        extent, step = array.shape[axis], array.strides[axis] // array.itemsize
        base = array[(slice(None),) * axis + (slice(0, 1),)].squeeze(axis)
        base = base[(slice(None),) * axis + (None,) * index.ndim]
        spread = index[(..., *(None,) * (array.ndim - axis - 1))]
        shape = np.broadcast_shapes(base.shape, spread.shape)
        out = self.empty(shape, array.dtype) if out is None else out
        code = _code(array.dtype)
        inputs = (base, spread, extent, step)
        loop = (code, "i8", "i8", "i8", code)
        self._record(Kind.GATHER, "take", shape, (), inputs, (out,), loop)
        return out

    def iota(self, n: int, start: Any, step: Any, dtype: Any = "f8") -> Array:
        out = self.empty((n,), dtype)
        code = _code(dtype)
        self._record(Kind.IOTA, "iota", (n,), (), (start, step), (out,), (code,) * 3)
        return out

    def trace(self) -> Trace:
        buffers = tuple(
            BufferInfo(index, memory.size, self.fresh[index], index not in self.alive, True)
            for index, memory in enumerate(self.memory)
        )
        return Trace(buffers, tuple(self.requests))


def kernels(plan: Plan) -> list[Kernel]:
    """The plan's kernels in order, where it has nothing else."""
    assert all(isinstance(step, KernelStep) for step in plan.steps), plan.steps
    return [step.kernel for step in plan.steps if isinstance(step, KernelStep)]


def inner_leaves(kernel: Kernel) -> int:
    return sum(not leaf.row for leaf in kernel.leaves)


def run_plan(plan: Plan, trace: Trace, memory: dict[int, Array]) -> dict[int, int]:
    """Run a plan by the interpreter; return the flags raised per request."""
    raised: dict[int, int] = {}
    requests = {request.index: request for request in trace.requests}
    for step in plan.steps:
        if not isinstance(step, KernelStep):
            raised[step.request] = run_request(requests[step.request], memory)
            continue
        scalars = [requests[r].inputs[p].value for r, p in step.scalars]  # type: ignore[union-attr]
        cuts = [wrap for binding in step.arrays for wrap in binding.wraps]
        for _, begin, extents in between_cuts(step.extents, cuts):
            arrays = [
                show(_from(b, p.dtype, begin), extents, memory[b.buffer])
                for b, p in zip(step.arrays, step.kernel.arrays, strict=True)
            ]
            flags = run_kernel(step.kernel, extents, arrays, scalars)
            for request, bits in zip(step.slots, flags, strict=True):
                raised[request] = raised.get(request, 0) | bits
    return raised


def _from(binding: Binding, dtype: str, begin: tuple[int, ...]) -> View:
    """What a kernel's array is in the box that begins there."""
    offset = binding.offset + sum(i * s for i, s in zip(begin, binding.strides, strict=True))
    offset += sum(wrap.step for wrap in binding.wraps if begin[wrap.axis] >= wrap.cut)
    return View(binding.buffer, dtype, offset, binding.strides)


def compare(recorder: Recorder, plan: Plan, rtol: float = 1e-9) -> None:
    """Run the plan and NumPy on copies of the memory; what is alive must be equal."""
    trace = recorder.trace()
    expected = {i: m.copy() for i, m in enumerate(recorder.memory)}
    found = {i: m.copy() for i, m in enumerate(recorder.memory)}
    for index, buffer in found.items():
        if index not in plan.buffers and index not in recorder.alive:
            buffer[...] = 0xEE
    wanted_flags = run_requests(trace.requests, expected)
    flags = run_plan(plan, trace, found)
    dtypes = {v.buffer: v.dtype for r in trace.requests for v in r.outputs}
    for index in recorder.alive:
        dtype = np.dtype(dtypes.get(index, "u1"))
        a, b = expected[index].view(dtype), found[index].view(dtype)
        if dtype.kind in "fc":
            np.testing.assert_allclose(b, a, rtol=rtol, atol=rtol, err_msg=f"buffer {index}")
        else:
            np.testing.assert_array_equal(b, a, err_msg=f"buffer {index}")
    for request, bits in enumerate(wanted_flags):
        assert flags.get(request, 0) == bits, f"request {request}: {flags.get(request)} != {bits}"
