"""What a call's operands are to a recording: dtypes, shapes, and values of scalars."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from npaccel import _native
from npaccel.dispatch.fallback import NotRecorded, run_exact
from npaccel.dispatch.rules import RECORDABLE, recordable

__all__ = [
    "as_usual",
    "asked_dtype",
    "broadcast",
    "check_errstate",
    "common_order",
    "dtype_of",
    "flag",
    "fresh",
    "fresh_along",
    "fresh_like",
    "is_array",
    "is_axis",
    "scalar_for",
    "take_array",
]

WEAK = (int, float, complex)
DEFERRABLE = frozenset({"ignore", "warn"})
MAX_DIMENSIONS = 16
# What names a dtype without a warning, to it. NumPy judges all else, once and by the user's line.
NAMED = {
    name: np.dtype(name) for name in (bool, int, float, complex, "bool", "int", "float", "complex")
} | {
    name: np.dtype(name)
    for dtype in map(np.dtype, sorted(RECORDABLE))
    for name in (dtype.type, dtype.char, dtype.name, dtype.str, dtype.str[1:])
}
RANK = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}


def is_array(value: object) -> bool:
    """Whether `value` is an npaccel array or an exact ndarray: no other class has a say."""
    return isinstance(value, _native.ArrayBase) or type(value) is np.ndarray


def take_array(value: Any) -> np.ndarray[Any, Any]:
    """`value` if it is an array that can be recorded; raises NotRecorded."""
    if not is_array(value):
        raise NotRecorded(f"operand of type {type(value).__name__}")
    array: np.ndarray[Any, Any] = value
    if not recordable(array.dtype):
        dtype = array.dtype
        plain = f"dtype {dtype.name} has no kernel" if dtype.metadata is None else "metadata"
        raise NotRecorded(plain if dtype.isnative else "swapped bytes")
    if not array.flags.aligned or array.ndim > MAX_DIMENSIONS:
        raise NotRecorded("unaligned array" if array.ndim <= MAX_DIMENSIONS else "many dimensions")
    return array


def as_usual(value: Any) -> Any:
    """`value`, or its copy where it is an array of numbers that kernels can't read as it lies: in
    the other byte order, unaligned, or at steps that are no whole elements (fields of records)."""
    if not is_array(value) or value.dtype.kind not in "iufc" or value.dtype.metadata is not None:
        return value
    native = value.dtype.newbyteorder("=")
    whole = all(step % native.itemsize == 0 for step in value.strides)
    if not recordable(native) or (value.dtype.isnative and value.flags.aligned and whole):
        return value
    once = value[tuple(slice(None) if step else slice(1) for step in value.strides)]
    copy = run_exact(np.ndarray.astype, (once, native), {"order": "K"})
    return np.broadcast_to(copy, value.shape)


def asked_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype that a call names; raises NotRecorded for a name that might make NumPy warn."""
    try:
        found: np.dtype[Any] = dtype if isinstance(dtype, np.dtype) else NAMED[dtype]
        return found
    except (KeyError, TypeError):
        raise NotRecorded("dtype has no kernel") from None


def dtype_of(value: Any) -> np.dtype[Any] | type:
    """The dtype of an operand, or the type int, float, complex of a weak Python scalar."""
    kind: type = type(value)
    if isinstance(value, _native.Runtime):
        return type(value._value)
    if kind in WEAK:
        return kind
    if kind is bool:
        return np.dtype(np.bool_)
    if isinstance(value, np.generic) and recordable(value.dtype):
        dtype: np.dtype[Any] = value.dtype
        return dtype
    found: np.dtype[Any] = take_array(value).dtype
    return found


def scalar_for(value: Any, dtype: np.dtype[Any]) -> np.generic | None:
    """`value` as a scalar of `dtype`; None when the conversion might fail, warn, or lose a part.

    So only from a kind to itself or a wider one (bool < integer < real < complex), in range.
    """
    if isinstance(value, _native.Runtime):
        value = value.look()  # a macro section that holds for this value only
    if type(value) not in (bool, *WEAK) and not isinstance(value, np.generic):
        return None
    given = np.asarray(value).dtype
    if not recordable(given) or not recordable(dtype) or RANK[given.kind] > RANK[dtype.kind]:
        return None
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        if not int(info.min) <= int(value) <= int(info.max):
            return None
    elif dtype.kind in "fc" and not _fits(value, float(np.finfo(dtype).max)):
        return None
    result = dtype.type(value)
    return result if isinstance(result, np.generic) else None


def _fits(value: Any, largest: float) -> bool:
    try:
        parts = (complex(value).real, complex(value).imag)
    except OverflowError:
        return False
    return all(abs(part) <= largest or not math.isfinite(part) for part in parts)


def broadcast(*operands: Any) -> tuple[int, ...]:
    """Common shape of arrays and scalars; raises NotRecorded where there is none."""
    arrays = [x for x in operands if isinstance(x, np.ndarray)]
    try:
        # Not broadcast_shapes, which makes arrays of these shapes: redirected, in a block.
        return np.broadcast(*arrays).shape if arrays else ()
    except ValueError:
        raise NotRecorded from None


def check_errstate() -> None:
    """Raise NotRecorded where a floating-point error must raise, call or log at the call."""
    if not DEFERRABLE.issuperset(np.geterr().values()):
        raise NotRecorded("errors raise, print or call (np.errstate)")


def is_axis(value: Any) -> bool:
    """Whether `value` names an axis beyond doubt; a bool does not, for NumPy."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def flag(value: Any) -> bool:
    """A keyword's truth when it is a plain bool; raises NotRecorded for what NumPy must judge."""
    if value is True or value is False:
        return bool(value)
    raise NotRecorded


def common_order(parts: Sequence[np.ndarray[Any, Any]]) -> str:
    """C or F where the axes of all arrays lie in that order in memory; else empty."""
    falls = rises = True
    for outer, inner in itertools.combinations(range(parts[0].ndim), 2):
        steps = [
            (abs(part.strides[outer]), abs(part.strides[inner]))
            for part in parts
            if part.shape[outer] != 1 != part.shape[inner]
        ]
        if any(0 in pair for pair in steps):
            return ""
        falls = falls and all(a >= b for a, b in steps)
        rises = rises and bool(steps) and all(a < b for a, b in steps)
    return "C" if falls else "F" if rises else ""


def fresh(shape: tuple[int, ...], dtype: np.dtype[Any], order: str = "C") -> np.ndarray[Any, Any]:
    """Memory of npaccel's, its content undefined; raises NotRecorded where there is none."""
    return _made(_native.empty(shape, dtype, order))


def fresh_like(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """`fresh` memory whose axes lie as in ``array.copy("K")``."""
    return _made(_native.empty_like(array, dtype))


def _made(array: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
    if array is None:
        raise NotRecorded("no memory of npaccel's for this")
    return array


def fresh_along(
    shape: tuple[int, ...], dtype: np.dtype[Any], axes: Sequence[int]
) -> np.ndarray[Any, Any]:
    """`fresh` memory in which the axes lie as `axes` says, outermost first."""
    order = list(axes)
    if order == sorted(order):
        return fresh(shape, dtype)
    if order == sorted(order, reverse=True):
        return fresh(shape, dtype, "F")
    base = fresh(tuple(shape[axis] for axis in order), dtype)
    return np.ndarray.transpose(base, sorted(range(len(order)), key=order.__getitem__))
