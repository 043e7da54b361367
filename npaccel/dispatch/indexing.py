"""Subscripts that are not basic: masks, integer arrays, full integer keys, values to convert."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from npaccel import _native
from npaccel.dispatch import gather
from npaccel.dispatch.fallback import NotRecorded, fallback
from npaccel.dispatch.operands import check_errstate, is_array, scalar_for
from npaccel.dispatch.rules import copy_rule

__all__ = ["getitem", "setitem"]

Array = np.ndarray[Any, Any]


def getitem(array: Array, key: Any) -> Any:
    """`array[key]`: recorded for integer arrays, else by NumPy on evaluated memory; what the core
    takes at once (native/record/masked_compress.c) does not come here."""
    reason = _describe(key) if _is_advanced(key) else ""
    if reason:
        try:
            return gather.get(array, key)
        except NotRecorded as cause:
            reason = cause.reason or reason
    return fallback(operator.getitem, (array, key), {}, reason, name="getitem")


def setitem(array: Array, key: Any, value: Any) -> None:
    """`array[key] = value`: recorded for one boolean mask and a scalar, else by NumPy now."""
    try:
        return _set_masked(array, key, value)
    except NotRecorded:
        reason = _describe(key) if _is_advanced(key) else ""
    fallback(operator.setitem, (array, key, value), {}, reason, name="setitem", written=(0,))


def _set_masked(array: Array, key: Any, value: Any) -> None:
    """Record `array[..., mask, ...] = number`, or `array[mask] = row`, as a masked copy; raises
    NotRecorded."""
    target, mask = _masked_part(array, key)
    if not _native.wants(array, mask):
        raise NotRecorded
    if is_array(value) and value.ndim == 0:
        value = _native.plain(value)[()]
    rule = copy_rule(array.dtype)
    each: Any = None if rule is None else scalar_for(value, array.dtype)
    if each is None and rule is not None and is_array(key):
        each = _row_for(value, array, array.ndim - key.ndim)
    if rule is None or each is None or not array.flags.writeable or not array.flags.aligned:
        raise NotRecorded
    check_errstate()
    if _native.map(rule, (each,), target, mask) is None:
        raise NotRecorded


def _row_for(value: Any, array: Array, behind: int) -> Array | None:
    """What goes to every place of a mask alike, where `behind` axes follow the mask's; None: it
    does not, or has another type."""
    if type(value) in (list, tuple):
        if behind == 0 or len(value) != array.shape[-1]:
            return None
        numbers = [scalar_for(number, array.dtype) for number in value]
        return None if any(number is None for number in numbers) else np.array(numbers, array.dtype)
    if not is_array(value) or value.dtype != array.dtype:
        return None
    row: Array = value
    if row.ndim == behind + 1 and row.shape[0] == 1:
        row = np.ndarray.__getitem__(_native.view_plain(row), 0)
    extents = zip(reversed(row.shape), reversed(array.shape), strict=False)
    if not 0 < row.ndim <= behind or not all(n in (1, extent) for n, extent in extents):
        return None
    return row.copy() if np.may_share_memory(row, array) else row


def _masked_part(array: Array, key: Any) -> tuple[Array, Array]:
    """What `key` shows of `array` without its mask, and the mask over that; for one mask.

    The other parts of the key may be basic ones: an integer next to a mask picks as a slice does.
    """
    parts = list(_parts(key))
    places = [k for k, part in enumerate(parts) if isinstance(part, np.ndarray | list)]
    if len(places) != 1 or not all(_is_basic(part) for part in parts if not is_array(part)):
        raise NotRecorded
    (place,) = places
    mask = parts[place]
    if not is_array(mask) or mask.dtype != np.bool_ or mask.ndim == 0:
        raise NotRecorded
    if place == 0 and len(parts) == 1:
        return array, _spread(mask, array, 0)
    dots = ... in parts[:place]
    rest = parts[place + 1 :]
    if any(part is ... or part is None for part in rest) and dots:
        raise NotRecorded
    # Axes of the result before the mask's own.
    taken = [part for part in parts[:place] if part is not ...]
    basic = (*parts[:place], *(slice(None),) * mask.ndim, *rest)
    try:
        target = np.ndarray.__getitem__(_native.view_plain(array), basic)
    except IndexError:
        raise NotRecorded from None
    if not isinstance(target, np.ndarray):
        raise NotRecorded
    if dots:
        following = sum(part is None or isinstance(part, slice) for part in rest)
        first = target.ndim - following - mask.ndim
    else:
        first = sum(part is None or isinstance(part, slice) for part in taken)
    return target, _spread(mask, target, first)


def _spread(mask: Array, target: Array, first: int) -> Array:
    """`mask` over all of `target`, of whose axes it covers some from `first` on."""
    if target.shape[first : first + mask.ndim] != mask.shape:
        raise NotRecorded
    after = target.ndim - first - mask.ndim
    if first == 0 and after == 0:
        return mask
    spread = _native.view_plain(mask)[(..., *(None,) * after)]
    return np.broadcast_to(spread, target.shape)


def _is_basic(part: Any) -> bool:
    known = part is None or part is ... or isinstance(part, slice)
    return known or type(part) is int or isinstance(part, np.integer)


def _parts(key: Any) -> tuple[Any, ...]:
    return key if isinstance(key, tuple) else (key,)


def _is_advanced(key: Any) -> bool:
    return any(isinstance(part, np.ndarray | list) for part in _parts(key))


def _describe(key: Any) -> str:
    for part in _parts(key):
        if isinstance(part, np.ndarray) and part.dtype == np.bool_:
            return "boolean mask"
    return "integer array index"
