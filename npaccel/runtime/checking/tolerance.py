"""How far a result may be from what NumPy computes from the same inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from npaccel.ir.nodes import Kind, Request
from npaccel.ir.ops import find
from npaccel.ir.special import SPECIAL

__all__ = [
    "Inputs",
    "differences",
    "far",
    "is_folded",
    "is_rounded",
    "loosely",
    "needs_operands",
    "unlike",
]

Array = np.ndarray[Any, Any]

# What NumPy's own loops may be off, in units of the last place; ours add what their row states.
NUMPY_ULP = 4
# The same of SciPy's, which round the square of an argument; and what is no normal number may be 0.
SCIPY_ULP = 4096
# Their results may be smaller than the rounding errors of what they add.
CANCELLING = frozenset({"logaddexp", "logaddexp2"})
# Whatever the order, but for the sign of 0.
UNORDERED = frozenset(("maximum", "minimum", "fmax", "fmin", "logical_and", "logical_or"))
# Accumulated in the order of the elements, as NumPy does.
SEQUENTIAL = frozenset(("add", "multiply"))
# Additions that a summand goes through besides those that combine blocks (Note [Reduction order]).
IN_BLOCKS = 64
# Folds are taken anew in these: NumPy's own may be further off than ours.
WIDER = {"f2": "f8", "f4": "f8", "f8": "g", "c8": "c16", "c16": "G"}
# What results may be off, relative to the largest one, where sums were taken in another order.
LOOSE = {"f2": 1e-2, "f4": 1e-4, "f8": 1e-10, "c8": 1e-4, "c16": 1e-10}
# In which kernels fold f2 (Note [Reduction order]).
ACCUMULATED = {"f2": "f4"}


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a request read, over its shape, in its loop's dtypes (if it matters); the mask, or True.

    results : what NumPy computes of it in the loop's dtypes, one per output; empty: what the
        outputs hold
    looped : whether NumPy's own loop ran it
    """

    operands: list[Array]
    mask: Any
    results: list[Array]
    looped: bool


def is_rounded(request: Request) -> bool:
    """Whether its results may differ from NumPy's in the last places, from the same inputs."""
    op = find(request.op, request.loop, fast=request.fast)
    if request.kind is Kind.MAP:
        return op is None or op.body is None or op.ulp > 0
    return is_folded(request)


def is_folded(request: Request) -> bool:
    """Whether it folds floats by what depends on the order, as NumPy's need not be ours."""
    if request.loop[-1][0] not in "fc":
        return False
    if request.kind is Kind.SCAN:
        return request.op not in UNORDERED | SEQUENTIAL
    return request.kind is Kind.REDUCE and request.op not in UNORDERED


def needs_operands(request: Request) -> bool:
    """Whether how far its results may be off depends on what it read."""
    return is_folded(request) or request.op in CANCELLING or _is_complex_power(request)


def _is_complex_power(request: Request) -> bool:
    return request.op == "power" and request.loop[0][0] == "c"


def unlike(seen: Array, expected: Array) -> Array:
    """Where they are not equal; NaNs are."""
    wrong = np.asarray(seen != expected)
    if seen.dtype.kind in "fc" and wrong.any():
        wrong = np.asarray(wrong & ~(np.isnan(seen) & np.isnan(expected)))
    return wrong


def far(seen: Array, expected: Array, scale: float) -> Any:
    """Where floats are more than that part of the expected value away; others where they differ."""
    wrong = unlike(seen, expected)
    if seen.dtype.kind not in "fc":
        return wrong
    with np.errstate(all="ignore"):
        return wrong & ~(np.abs(seen - expected) <= np.abs(expected) * scale)


def loosely(seen: Array, expected: Array) -> Any:
    """Where they are not even near, with sums in another order among what they come from. That may
    tip integers and booleans."""
    if seen.dtype.kind not in "fc":
        return np.zeros(seen.shape, bool)
    with np.errstate(all="ignore"):
        finite = np.abs(expected[np.isfinite(expected)])
        scale = float(finite.max()) if finite.size else 0.0
        near = np.abs(seen - expected) <= LOOSE[seen.dtype.str[1:]] * scale
    return unlike(seen, expected) & ~near


def differences(request: Request, output: int, inputs: Inputs, seen: Array, expected: Array) -> Any:
    """Where `seen`, its `output`-th result, is wrong; expected: what NumPy computes."""
    wrong = unlike(seen, expected)
    result = inputs.results[output] if inputs.results else expected
    if not is_rounded(request) or result.dtype.kind not in "fc" or not wrong.any():
        return wrong
    with np.errstate(all="ignore"):
        if is_folded(request):
            exact, allowed = _folded(request, inputs, result)
            return wrong & ~_within(seen, exact, allowed, result.dtype)
        exact = result[wrong]
        allowed = _rounding(request, [x[wrong] for x in inputs.operands], exact)
        wrong[wrong] = ~_within(seen[wrong], exact, allowed, result.dtype)
        return wrong


def _rounding(request: Request, operands: list[Array], result: Array) -> Array:
    """How far a map may be off, per element."""
    op = find(request.op, request.loop, fast=request.fast)
    units = NUMPY_ULP + (op.ulp if op is not None else 0)
    size = np.abs(result)
    if _is_complex_power(request):  # exp(y log x): what the exponent is off, NumPy's result is
        allowed = units * (1 + _turns(*operands)) * _spacing(size)
        return np.where(np.isinf(size), size, allowed)
    if request.op in CANCELLING:
        size = np.maximum(size, np.maximum(*map(np.abs, operands)))
    if op in SPECIAL:
        return np.asarray(SCIPY_ULP * _spacing(size) + np.finfo(size.dtype).tiny)
    return np.asarray(units * _spacing(size))


def _turns(x: Array, y: Array) -> Array:
    """|y log x|."""
    return np.asarray(np.abs(y * np.log(x)))


def _spacing(size: Array) -> Array:
    # Beyond the largest number is infinity, which is infinitely far.
    return np.asarray(2 * np.spacing(np.minimum(size, np.finfo(size.dtype).max) / 2))


def _folded(request: Request, inputs: Inputs, result: Array) -> tuple[Array, Array]:
    """A fold's result in a wider type, and how far it may be off: infinitely, where another order
    may leave the range of numbers on its way."""
    dtype = request.loop[-1]
    wide = np.dtype(WIDER[dtype])
    values = inputs.operands[0].astype(wide)
    first = [operand.flat[0].astype(wide) for operand in inputs.operands[1:]]
    n = math.prod(request.shape[axis] for axis in request.axes) + 1
    steps, eps = float(n), np.finfo(dtype).eps
    exact = result.astype(wide)
    if request.kind is Kind.SCAN:
        size = np.add.accumulate(np.abs(values), axis=request.axes[0]) + np.abs(exact)
    elif request.op == "multiply":
        size = np.where(_leaves_range(request, inputs), np.inf, np.abs(exact))
    else:
        finite = np.where(np.isfinite(values), np.abs(values), 0)
        size = _sum(finite, [abs(value) for value in first], request, inputs)
        if request.op != "add":
            size = np.maximum(size, np.abs(exact))
        size = np.where(size < np.finfo(dtype).max, size, np.inf)
    if request.op == "add" and not inputs.looped:
        # In a kernel's order, which is known.
        exact = _sum(values, first, request, inputs)
        steps, eps = 2 * math.log2(n), np.finfo(ACCUMULATED.get(dtype, dtype)).eps
    return exact, (IN_BLOCKS + steps) * eps * size + _spacing(np.abs(result))


def _sum(values: Array, first: list[Any], request: Request, inputs: Inputs) -> Array:
    total = np.add.reduce(values, axis=request.axes, where=inputs.mask)
    return np.asarray(total + first[0] if first else total)


def _leaves_range(request: Request, inputs: Inputs) -> Any:
    """Where a product may overflow or vanish on its way, in some order."""
    limits = np.finfo(request.loop[-1])
    powers = np.log2(np.abs(inputs.operands[0].astype("f8")))
    powers = np.where(np.isfinite(powers) & inputs.mask, powers, 0)
    up = np.add.reduce(np.maximum(powers, 0), axis=request.axes)
    down = np.add.reduce(np.minimum(powers, 0), axis=request.axes)
    return (up >= limits.maxexp - 1) | (down <= limits.minexp + 1)


def _within(seen: Array, exact: Array, allowed: Array, loop: np.dtype[Any]) -> Any:
    """Whether `seen` is a cast of something in exact ± allowed, which are in the loop's dtype.

    Next to the largest number of that something may have rounded to infinity.
    """
    limits = np.finfo(loop)
    if seen.dtype.kind == "c" and loop.kind == "c":
        wide = seen.astype(exact.dtype)
        near = np.abs(_finite(wide, limits) - _finite(exact, limits)) <= allowed
        return near | np.isinf(allowed)
    centre = exact.real if loop.kind == "c" else exact
    low, high = centre - allowed, centre + allowed
    anything = np.isinf(allowed)
    if seen.dtype.kind == "b":
        return anything | np.where(seen, (low != 0) | (high != 0), (low <= 0) & (high >= 0))
    top = limits.max
    low = np.where(low >= top, top, low).astype(loop)
    high = np.where(high <= -top, -top, high).astype(loop)
    return anything | ((low.astype(seen.dtype) <= seen) & (seen <= high.astype(seen.dtype)))


def _finite(values: Array, limits: Any) -> Array:
    parts = np.stack([values.real, values.imag])
    parts = np.where(np.isinf(parts), np.copysign(limits.max, parts), parts)
    return np.asarray(parts[0] + 1j * parts[1])
