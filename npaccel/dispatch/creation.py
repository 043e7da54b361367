"""What NumPy's creation functions do with large arrays while a block is open: recorded fills,
ranges and copies. Each raises NotRecorded for what NumPy does itself."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from npaccel import _native
from npaccel.dispatch.fallback import NotRecorded
from npaccel.dispatch.method import copied_in_order
from npaccel.dispatch.operands import MAX_DIMENSIONS, asked_dtype, fresh, is_array, take_array
from npaccel.dispatch.rules import copy_rule, range_rule, recordable

__all__ = ["CREATION"]

Array = np.ndarray[Any, Any]
Copy: Any = np._CopyMode

# Zeros of more than this are often filled in a few places only: NumPy's cost nothing until used.
MOST_ZEROS = 1 << 30


LONGEST = np.iinfo(np.intp).max


def _shape(shape: Any) -> tuple[int, ...]:
    try:
        sizes = shape if isinstance(shape, tuple | list) else (shape,)
        if any(isinstance(extent, bool | np.bool) for extent in sizes):
            raise NotRecorded  # NumPy takes none in a sequence
        extents = tuple(operator.index(extent) for extent in sizes)
    except TypeError:
        raise NotRecorded from None
    if any(not 0 <= extent <= LONGEST for extent in extents):
        raise NotRecorded
    return extents


def _dtype(dtype: Any) -> np.dtype[Any]:
    found = asked_dtype(float if dtype is None else dtype)
    if not recordable(found):
        raise NotRecorded
    return found


def empty(
    shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Any:
    """Memory of npaccel's."""
    if device not in (None, "cpu") or like is not None or order not in ("C", "F"):
        raise NotRecorded
    extents, found = _shape(shape), _dtype(dtype)
    if math.prod(extents) * found.itemsize < max(_native.threshold(), 1):
        raise NotRecorded
    return fresh(extents, found, order)


def zeros(
    shape: Any, dtype: Any = None, order: str = "C", *, device: Any = None, like: Any = None
) -> Any:
    """A recorded fill."""
    found = _dtype(dtype)
    rule = copy_rule(found)
    if rule is None or math.prod(_shape(shape)) * found.itemsize > MOST_ZEROS:
        raise NotRecorded
    made = empty(shape, found, order, device=device, like=like)
    if _native.map(rule, (found.type(0),), made) is None:
        raise NotRecorded
    return made


def arange(*args: Any, dtype: Any = None, device: Any = None, like: Any = None) -> Any:
    """A recorded range of integers or floats."""
    if device not in (None, "cpu") or like is not None or not 1 <= len(args) <= 4:
        raise NotRecorded
    if len(args) == 4:
        *args, dtype = args  # type: ignore[assignment]
    start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    if step is None:
        step = 1
    for value in (start, stop, step):
        if type(value) not in (int, float) or not math.isfinite(value):
            raise NotRecorded
    # NumPy's own length and its first two elements, which say all of the others.
    first = _first_two(start, stop, step, dtype)
    count = math.ceil((stop - start) / step)
    if first is None or first[0] + (first[1] - first[0]) != first[1]:
        raise NotRecorded  # NumPy stores both as they are, and derives the others
    if first[0] == 0 and np.signbit(first[0]):
        raise NotRecorded
    if count * first.itemsize < max(_native.threshold(), 1):
        raise NotRecorded
    rule = range_rule(first.dtype)
    if rule is None:
        raise NotRecorded
    made = _native.iota(rule, count, first[0], first.dtype.type(first[1] - first[0]))
    if made is None:
        raise NotRecorded
    return made


def _first_two(start: Any, stop: Any, step: Any, dtype: Any) -> Array | None:
    if step == 0 or (stop - start) / step <= 2 or abs(stop - start) >= 2**53:
        return None
    after = start + 2 * step
    stop = float(after) if isinstance(stop, float) else after
    two: Array = np.arange(start, stop, step, dtype)  # type: ignore[call-overload]
    found = two.dtype
    usual = found.kind in "iuf" and found.itemsize >= 4 and recordable(found)
    # Integers of a range of floats are rounded one by one.
    whole = found.kind == "f" or all(type(value) is int for value in (start, stop, step))
    if found.kind in "iu" and whole:
        whole = np.iinfo(found).min <= min(start, stop) and max(start, stop) <= np.iinfo(found).max
    return two[:2] if usual and whole and two.size >= 2 else None


def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: Any = True,
    order: str | None = "K",
    subok: bool = False,
    ndmin: int = 0,
    ndmax: int = 0,
    like: Any = None,
) -> Any:
    """A recorded copy of an array, that array itself, or one whose rows a list has."""
    if type(object) in (list, tuple):
        return _rows(object, dtype, (copy, order, subok, ndmin, ndmax, like))
    if not is_array(object) or like is not None or ndmax:
        raise NotRecorded
    if ndmin > object.ndim:
        return _with_axes(object, dtype, copy, order, subok, ndmin)
    mode = _copy_mode(copy)
    new = object.dtype if dtype is None else asked_dtype(dtype)
    if new == object.dtype and new is not object.dtype:
        raise NotRecorded  # with metadata, which the result keeps
    order = "K" if order is None else order
    if mode is not Copy.ALWAYS and new == object.dtype and _has_order(object, order):
        return object
    if mode is Copy.NEVER:
        raise NotRecorded  # NumPy's error
    return copied_in_order(object, new, order)


def _with_axes(a: Array, dtype: Any, copy: Any, order: str | None, subok: bool, ndmin: int) -> Any:
    """One axis as the last of several; where there are more, NumPy's strides are others."""
    if a.ndim != 1 or type(ndmin) is not int or ndmin > MAX_DIMENSIONS or not a.size:
        raise NotRecorded
    row = array(a, dtype, copy=copy, order=order, subok=subok)
    return row.reshape((1,) * (ndmin - 1) + row.shape)


# Where the other arguments of `array` are these, or their equals, lists are only put together.
USUAL = {
    (copy, order, False, 0, 0, None) for copy in (True, None) for order in ("K", "A", "C", None)
}
MOST_ROWS = 64


def _rows(parts: Any, dtype: Any, others: tuple[Any, ...]) -> Any:
    """One recorded copy per part; others: arguments of `array`, from `copy` on."""
    if others not in USUAL or not 0 < len(parts) <= MOST_ROWS or not all(map(is_array, parts)):
        raise NotRecorded
    arrays = [take_array(part) for part in parts]
    first = arrays[0]
    if not 0 < first.ndim < MAX_DIMENSIONS or any(a.shape != first.shape for a in arrays):
        raise NotRecorded
    if not first.size or not _native.wants(*arrays):
        raise NotRecorded
    new = np.result_type(*(a.dtype for a in arrays)) if dtype is None else asked_dtype(dtype)
    rules = [rule for a in arrays if (rule := copy_rule(new, a.dtype)) is not None]
    usual = recordable(new) and all(np.can_cast(a.dtype, new, "same_kind") for a in arrays)
    if not usual or len(rules) < len(arrays):
        raise NotRecorded
    result = fresh((len(arrays), *first.shape), new, "C")
    for k, (part, rule) in enumerate(zip(arrays, rules, strict=True)):
        if _native.map(rule, (part,), result[k]) is None:
            raise NotRecorded
    return result


def _copy_mode(copy: Any) -> Any:
    """What `copy` asks for, as a member of NumPy's enumeration."""
    if copy is None:
        return Copy.IF_NEEDED
    if isinstance(copy, bool | np.bool):
        return Copy.ALWAYS if copy else Copy.NEVER
    if not isinstance(copy, Copy):
        raise NotRecorded
    return copy


def _has_order(array: Array, order: str) -> bool:
    flags = array.flags
    return {"K": True, "A": True, "C": flags.c_contiguous, "F": flags.f_contiguous}.get(
        order, False
    )


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    device: Any = None,
    copy: Any = None,
    like: Any = None,
) -> Any:
    """`a` itself, or a recorded copy."""
    if device not in (None, "cpu"):
        raise NotRecorded
    return array(a, dtype, copy=copy, order=order, like=like)


def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """`a` itself, or a recorded copy in C order."""
    return array(a, dtype, copy=None, order="C", like=like)


def asfortranarray(a: Any, dtype: Any = None, *, like: Any = None) -> Any:
    """`a` itself, or a recorded copy in Fortran order."""
    return array(a, dtype, copy=None, order="F", like=like)


CREATION = {
    function.__name__: function
    for function in (
        arange,
        array,
        asarray,
        ascontiguousarray,
        asfortranarray,
        empty,
        zeros,
    )
} | {"asanyarray": asarray}
