"""Requests one by one with NumPy itself: the oracle of check mode and of the planner's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from npaccel.errors import InternalError
from npaccel.ir.kinds import OTHER_UFUNCS
from npaccel.ir.nodes import Kind, Request, ScalarOperand, View
from npaccel.ir.views import gathered

__all__ = ["kept", "run_request", "run_requests", "show"]

Array = np.ndarray[Any, Any]
Scalars = Callable[[int, int], Any]


# NumPy has the loops that compare an unsigned with a signed integer under these letters only.
_MIXED_SIGNS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("u8", "i8", "b1"): ("Q", "q", "?"),
    ("i8", "u8", "b1"): ("q", "Q", "?"),
}


def show(view: View, shape: Sequence[int], memory: Array) -> Array:
    """Return the elements of `view` over `shape` in the byte array `memory`; no copy."""
    dtype = np.dtype(view.dtype)
    strides = tuple(stride * dtype.itemsize for stride in view.strides)
    if 0 in shape:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, memory, view.offset * dtype.itemsize, strides)


def kept(request: Request, view: View) -> tuple[View, tuple[int, ...]]:
    """An output and its shape, without the axes that the request reduces."""
    reduced = request.axes if request.kind in (Kind.REDUCE, Kind.ARG) else ()
    axes = [axis for axis in range(len(request.shape)) if axis not in reduced]
    strides = tuple(view.strides[axis] for axis in axes)
    part = View(view.buffer, view.dtype, view.offset, strides)
    return part, tuple(request.shape[axis] for axis in axes)


def run_requests(
    requests: Iterable[Request],
    memory: Mapping[int, Array],
    scalars: Scalars | None = None,
) -> list[int]:
    """Run requests in order; per request the FlagKind bits of what NumPy would have warned of.

    Parameters
    ----------
    memory : per buffer its bytes, a contiguous array of uint8; written in place
    scalars : (request index, input position) to the value; None: those in the trace
    """
    return [run_request(request, memory, scalars) for request in requests]


def run_request(
    request: Request, memory: Mapping[int, Array], scalars: Scalars | None = None
) -> int:
    """Run one request; return the FlagKind bits it raised and its errstate does not ignore."""
    raised = 0
    names = {"divide by zero": 1, "overflow": 2, "underflow": 4, "invalid value": 8}

    def note(kind: str, _: int) -> None:
        nonlocal raised
        raised |= names[kind]

    with np.errstate(all="call", call=note):
        _run(request, memory, scalars)
    asked = sum(1 << bit for bit in range(4) if request.errstate >> (2 * bit) & 3)
    return raised & asked


def _run(request: Request, memory: Mapping[int, Array], scalars: Scalars | None) -> None:
    inputs = [_operand(request, at, memory, scalars) for at in range(len(request.inputs))]
    mask: Any = True
    if request.mask is not None:
        mask = show(request.mask, request.shape, memory[request.mask.buffer])
    match request.kind:
        case Kind.MAP:
            outputs = [show(v, request.shape, memory[v.buffer]) for v in request.outputs]
            _map(request, inputs, outputs, mask)
        case Kind.GATHER:
            (view,) = request.outputs
            table = gathered(request)
            assert table is not None
            source = show(*table, memory[table[0].buffer])
            index = inputs[1].astype("i8")[..., None]
            found = np.take_along_axis(source, index, -1)[..., 0]
            show(view, request.shape, memory[view.buffer])[...] = found
        case Kind.IOTA:
            (view,) = request.outputs
            _iota(request, inputs, show(view, request.shape, memory[view.buffer]))
        case Kind.SCAN:
            (view,) = request.outputs
            target = show(view, request.shape, memory[view.buffer])
            (axis,) = request.axes
            ufunc(request.op).accumulate(inputs[0], axis, dtype=request.loop[-1], out=target)
        case Kind.REDUCE | Kind.ARG:
            part, shape = kept(request, request.outputs[0])
            _reduce(request, inputs, show(part, shape, memory[part.buffer]), mask)


def ufunc(name: str) -> np.ufunc:
    """NumPy's ufunc of this name, or another one that is recorded."""
    found = OTHER_UFUNCS.get(name)
    if found is None:
        # np.clip is a function around the ufunc.
        found = np._core.umath.clip if name == "clip" else getattr(np, name)  # type: ignore[attr-defined]
    if not isinstance(found, np.ufunc):
        raise InternalError(f"{name} is not a ufunc")
    return found


def _operand(
    request: Request, position: int, memory: Mapping[int, Array], scalars: Scalars | None
) -> Array:
    operand = request.inputs[position]
    if isinstance(operand, ScalarOperand):
        value = operand.value if scalars is None else scalars(request.index, position)
        return np.asarray(value, operand.dtype)
    return show(operand, request.shape, memory[operand.buffer])


def _single(operand: Array) -> Array:
    """An operand that is one element everywhere as that: some loops look whether it is (power)."""
    return operand[(slice(1),) * operand.ndim] if not any(operand.strides) else operand


def _map(request: Request, inputs: list[Array], outputs: list[Array], mask: Any) -> None:
    nin = len(request.inputs)
    if request.op == "copy":
        # As NumPy's assignment: operands that overlap behave as if copied first.
        np.copyto(outputs[0], inputs[0], casting="unsafe", where=mask)
    elif request.op == "where":
        cast = [i.astype(d, copy=False) for i, d in zip(inputs, request.loop, strict=False)]
        np.copyto(outputs[0], np.where(*cast), casting="unsafe", where=mask)
    else:
        loop = _MIXED_SIGNS.get(request.loop, request.loop)
        signature = tuple(map(np.dtype, loop))
        assert len(signature) == nin + len(outputs)
        if request.op in OTHER_UFUNCS and mask is not True:
            # SciPy's loops move the addresses that they are given, which masked calls rely on.
            found = ufunc(request.op)(*inputs, signature=signature, casting="unsafe")
            np.copyto(outputs[0], found, casting="unsafe", where=mask)
            return
        ufunc(request.op)(
            *map(_single, inputs),
            out=tuple(outputs),
            where=mask,
            signature=signature,
            casting="unsafe",
        )


def _iota(request: Request, inputs: list[Array], output: Array) -> None:
    dtype = np.dtype(request.loop[-1])
    start, step = (value.astype(dtype) for value in inputs)
    work = np.dtype("f4") if dtype == np.dtype("f2") else dtype
    steps = np.arange(output.size).astype(work) * step.astype(work)
    output[...] = (start.astype(work) + steps).astype(dtype)


def _reduce(request: Request, inputs: list[Array], output: Array, mask: Any) -> None:
    if request.kind is Kind.ARG:
        function = np.argmin if request.op == "argmin" else np.argmax
        axis = request.axes[0] if len(request.axes) == 1 else None
        found = function(inputs[0].astype(request.loop[0], copy=False), axis=axis)
        np.copyto(output, found, casting="unsafe")
        return
    options: dict[str, Any] = {}
    if len(inputs) > 1:
        options["initial"] = inputs[1][()]
    if mask is not True:
        options["where"] = mask
    value = inputs[0].astype(request.loop[0], copy=False)
    result = ufunc(request.op).reduce(value, axis=request.axes, dtype=request.loop[-1], **options)
    np.copyto(output, result, casting="unsafe")
