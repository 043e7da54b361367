"""Check mode: every request also runs on the reference backend, and results are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npaccel import _native
from npaccel.backends.numpy.requests import run_requests, show
from npaccel.errors import CheckError
from npaccel.ir.nodes import Kind, Request, Trace
from npaccel.ir.ops import find
from npaccel.runtime.trace import decode
from npaccel.runtime.warn import line_of

__all__ = ["State", "compare", "snapshot"]

Array = np.ndarray[Any, Any]

# What results may differ by, relative to the largest reference value, once an operation that is
# not exact (a sum, a transcendental function) took part.
TOLERANCE = {"f2": 1e-2, "f4": 1e-4, "f8": 1e-10, "c8": 1e-4, "c16": 1e-10}


@dataclass(frozen=True, slots=True)
class State:
    """The trace about to run, and the bytes of its buffers before."""

    trace: Trace
    memory: dict[int, Array]
    sites: list[tuple[Any, int, Any]]


def snapshot() -> State:
    """Copy what the pending requests are about to read and write."""
    trace = decode(_native.trace())
    memory = {
        index: np.frombuffer(bytearray(content or b""), dtype="u1")
        for index, content in enumerate(_native.contents())
    }
    return State(trace, memory, _native.sites())


def compare(state: State, results: Sequence[bytes | None]) -> None:
    """Run the trace on the reference backend and compare what is visible outside.

    Parameters
    ----------
    results : what each buffer holds after the run; None: nobody can see it.

    Raises
    ------
    CheckError : names operation, line, index and both values of the first difference, in program
        order.
    """
    trace = state.trace
    run_requests(trace.requests, state.memory)
    exact = _exact_buffers(trace)
    last_writer = {view.buffer: r for r in trace.requests for view in r.outputs}
    for request in trace.requests:
        for view in request.outputs:
            content = results[view.buffer]
            if content is None or last_writer[view.buffer] is not request:
                continue
            actual = np.frombuffer(content, dtype="u1")
            seen = show(view, request.shape, actual)
            expected = show(view, request.shape, state.memory[view.buffer])
            wrong = _differences(seen, expected, view.dtype, exact=view.buffer in exact)
            if wrong.any():
                raise CheckError(_report(state, request, seen, expected, wrong))


def _exact_buffers(trace: Trace) -> set[int]:
    """Buffers whose content must be the reference's to the bit."""
    inexact: set[int] = set()
    for request in trace.requests:
        op = find(request.op, request.loop)
        summed = request.kind in (Kind.REDUCE, Kind.SCAN) and request.loop[-1][0] in "fc"
        rounded = op is not None and (op.ulp > 0 or request.loop[0][0] == "c")
        views = [v for v in request.inputs if hasattr(v, "buffer")]
        if summed or rounded or any(view.buffer in inexact for view in views):
            inexact.update(view.buffer for view in request.outputs)
    return {info.index for info in trace.buffers} - inexact


def _differences(seen: Array, expected: Array, dtype: str, *, exact: bool) -> Any:
    both_nan = _nan(seen) & _nan(expected)
    if exact:
        return (seen != expected) & ~both_nan
    if dtype not in TOLERANCE:
        return np.zeros(seen.shape, bool)  # a rounding may tip a comparison or a floor
    with np.errstate(all="ignore"):
        finite = np.abs(expected[np.isfinite(expected)])
        scale = float(finite.max()) if finite.size else 0.0
        near = np.abs(seen - expected) <= TOLERANCE[dtype] * scale
    return ~(near | (seen == expected) | both_nan)


def _nan(values: Array) -> Array:
    return np.isnan(values) if values.dtype.kind in "fc" else np.zeros(values.shape, bool)


def _report(state: State, request: Request, seen: Array, expected: Array, wrong: Any) -> str:
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    code, lasti, _ = state.sites[request.index]
    where = f"{code.co_filename}:{line_of(code, lasti)}" if code is not None else "unknown line"
    return (
        f"check: {request.op} at {where} differs from the reference at index {index}: "
        f"{seen[index]!r} instead of {expected[index]!r} ({int(wrong.sum())} of {wrong.size} "
        f"elements); an operation it is computed from may be the cause"
    )
