"""Functions whose own code copies first or asks for values: written anew as recorded operations.

Each does what NumPy's function does for real floats (or for any number, where that is said), and
raises NotRecorded for all else, so that NumPy itself does it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npaccel import _native
from npaccel.dispatch.fallback import NotRecorded, unrecordable
from npaccel.dispatch.function import implements, unevaluated
from npaccel.dispatch.method import repeated
from npaccel.dispatch.operands import (
    broadcast,
    check_errstate,
    flag,
    is_array,
    scalar_for,
    take_array,
)
from npaccel.dispatch.rules import copy_rule

__all__: list[str] = []

Array = np.ndarray[Any, Any]
UNSET = np._NoValue


def _floats(value: Any) -> Any:
    """`value` as an npaccel array if it is a large array of real floats."""
    array = take_array(value)
    if array.dtype.kind != "f" or array.ndim == 0 or array.size == 0 or not _native.wants(array):
        raise NotRecorded
    check_errstate()
    return _native.wrap(array)


# ------------------------------------------------------------------------------------- masks


def _write_where(target: Array, mask: Any, value: Any) -> None:
    """Record ``target[mask] = value`` for a number that fits, or an array of the target's shape."""
    if not is_array(mask) or mask.dtype != np.bool_ or mask.shape != target.shape:
        raise NotRecorded("boolean mask of another shape or dtype")
    if not target.flags.writeable or not _native.wants(target, mask):
        raise NotRecorded
    if is_array(value) and value.shape == target.shape:
        if not np.can_cast(value.dtype, target.dtype, "safe"):
            raise NotRecorded
        rule = copy_rule(target.dtype, take_array(value).dtype)
    else:
        value, rule = scalar_for(value, target.dtype), copy_rule(target.dtype)
    if value is None or rule is None:
        raise NotRecorded("value needs a conversion")
    check_errstate()
    if _native.map(rule, (value,), target, take_array(mask)) is None:
        raise unrecordable()


@implements(np.putmask)
def putmask(a: Any, /, mask: Any, values: Any) -> None:
    """Record a masked copy."""
    _write_where(take_array(a), mask, values)


@implements(np.place)
def place(arr: Any, mask: Any, vals: Any) -> None:
    """Record a masked copy of one number."""
    if is_array(vals):
        raise NotRecorded
    _write_where(take_array(arr), mask, vals[0] if type(vals) is list and len(vals) == 1 else vals)


@implements(np.select)
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """Record one choice per condition, the last one first; any dtype."""
    if not isinstance(condlist, list | tuple) or not isinstance(choicelist, list | tuple):
        raise NotRecorded
    arrays = [x for x in (*condlist, *choicelist, default) if is_array(x)]
    if len(condlist) != len(choicelist) or not condlist or not _native.wants(*arrays):
        raise NotRecorded
    for condition in condlist:
        # Other orders of memory than C are NumPy's to choose.
        if not is_array(condition) or condition.dtype != np.bool_:
            raise NotRecorded
    if not all(x.flags.c_contiguous and x.ndim for x in arrays):
        raise NotRecorded("parts in another memory order")
    shape = broadcast(*arrays)
    if any(condition.shape != shape for condition in condlist):
        raise NotRecorded
    weak = (int, float, complex)
    choices = [x if type(x) in weak or is_array(x) else np.asarray(x) for x in choicelist]
    last = default if type(default) in weak or is_array(default) else np.asarray(default)
    dtype = np.result_type(*choices, last)
    if not all(is_array(x) or scalar_for(x, dtype) is not None for x in (*choices, last)):
        raise NotRecorded
    result = _native.wrap(condlist[0]).astype(dtype)
    result[...] = last
    for condition, choice in reversed(list(zip(condlist, choices, strict=True))):
        np.copyto(result, choice, where=condition)
    return result


# ---------------------------------------------------------------------------------- not numbers


@implements(np.nan_to_num)
def nan_to_num(
    x: Any, copy: Any = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """Record three masked copies."""
    array = _floats(x)
    limits = np.finfo(array.dtype)
    values = (
        nan,
        float(limits.max) if posinf is None else posinf,
        float(limits.min) if neginf is None else neginf,
    )
    if any(scalar_for(value, array.dtype) is None for value in values):
        raise NotRecorded("value needs a conversion")
    if flag(copy):
        array = array.copy(order="K")
    elif not array.flags.writeable:
        raise NotRecorded
    masks = (np.isnan(array), np.isposinf(array), np.isneginf(array))
    for value, mask in zip(values, masks, strict=True):
        np.copyto(array, value, where=mask)
    return array if flag(copy) else x


def _given(**keywords: Any) -> dict[str, Any]:
    return {name: value for name, value in keywords.items() if value is not UNSET}


@implements(np.nansum)
def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = UNSET,
    initial: Any = UNSET,
    where: Any = UNSET,
) -> Any:
    """Record a sum that leaves out what is NaN."""
    array = _floats(a)
    known = np.where(np.isnan(array), array.dtype.type(0), array)
    given = _given(keepdims=keepdims, initial=initial, where=where)
    return np.sum(known, axis=axis, dtype=dtype, out=out, **given)


def _extreme(ufunc: np.ufunc, a: Any, axis: Any, out: Any, given: dict[str, Any]) -> Any:
    array = _floats(a)
    if out is not None or "where" in given or "initial" in given:
        raise NotRecorded
    result = ufunc.reduce(array, axis=axis, **given)
    if np.isnan(result).any():
        raise NotRecorded("nothing but NaN")  # NumPy's warning
    return result


@implements(np.nanmax)
def nanmax(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = UNSET,
    initial: Any = UNSET,
    where: Any = UNSET,
) -> Any:
    """Record ``fmax.reduce``."""
    given = _given(keepdims=keepdims, initial=initial, where=where)
    return _extreme(np.fmax, a, axis, out, given)


@implements(np.nanmin)
def nanmin(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: Any = UNSET,
    initial: Any = UNSET,
    where: Any = UNSET,
) -> Any:
    """Record ``fmin.reduce``."""
    given = _given(keepdims=keepdims, initial=initial, where=where)
    return _extreme(np.fmin, a, axis, out, given)


@implements(np.nanmean)
def nanmean(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = UNSET, *,
    where: Any = UNSET,
) -> Any:  # fmt: skip
    """Record two sums and their quotient."""
    array = _floats(a)
    if out is not None or dtype is not None or where is not UNSET or array.dtype == np.float16:
        raise NotRecorded
    given = _given(keepdims=keepdims)
    missing = np.isnan(array)
    count = np.sum(~missing, axis=axis, dtype=np.intp, **given)
    if not np.all(count):
        raise NotRecorded("nothing but NaN")  # NumPy's warning
    total = np.sum(np.where(missing, array.dtype.type(0), array), axis=axis, **given)
    if isinstance(total, np.ndarray):
        return np.divide(total, count, out=total, casting="unsafe")
    return total.dtype.type(total / count)


# --------------------------------------------------------------------------------------- others


@implements(np.linalg.norm)
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Any:
    """Record the Euclidean norm of rows, or of all elements."""
    array = _floats(x)
    flag(keepdims)
    if axis is None:
        whole = ord is None or (ord == "fro" and array.ndim == 2) or (ord == 2 and array.ndim == 1)
        if not whole or keepdims or array.dtype == np.float16:
            raise NotRecorded("norm of this order")
        if not _native.in_section(array):
            raise NotRecorded  # NumPy's is a product, whose last bits are BLAS's
        return np.sqrt(np.add.reduce(np.square(array), axis=None))
    if type(axis) is not int or not (ord is None or ord == 2):
        raise NotRecorded("norm of this order")
    return np.sqrt(np.add.reduce(np.square(array), axis=axis, keepdims=keepdims))


@implements(np.repeat)
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """Record a copy of a broadcast view, for one count; any dtype."""
    array = take_array(a)
    if not _native.wants(array):
        raise NotRecorded
    return repeated(array, repeats, axis)


@implements(np.lib.stride_tricks.sliding_window_view)
def sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Any:
    """A view; nothing is evaluated."""
    plain = unevaluated(x)
    view = np.lib.stride_tricks.sliding_window_view(
        plain, window_shape, axis, subok=subok, writeable=writeable
    )
    return _native.wrap(view) if isinstance(x, _native.ArrayBase) else view
