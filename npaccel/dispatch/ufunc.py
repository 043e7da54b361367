"""`__array_ufunc__`: calls of ufuncs and their methods, recorded where a rule exists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from npaccel import _native
from npaccel.dispatch.fallback import NotRecorded, fallback, unrecordable
from npaccel.dispatch.operands import (
    as_usual,
    asked_dtype,
    broadcast,
    check_errstate,
    dtype_of,
    flag,
    is_array,
    is_axis,
    scalar_for,
    take_array,
)
from npaccel.dispatch.rules import call_rule, copy_rule, fold_rule, warns_on_cast, why_no_rule
from npaccel.dispatch.special import SPECIAL
from npaccel.ir.kinds import Kind
from npaccel.ir.names import SAME_BITS, SAME_BITS_IF_REAL

__all__ = ["record_fold", "scalar_of", "ufunc_hook"]

Array = np.ndarray[Any, Any]

CALL_KEYWORDS = frozenset(
    {"out", "where", "casting", "order", "dtype", "signature", "sig", "subok"}
)
ORDERS = frozenset("CFAK")
REDUCE_KEYWORDS = frozenset({"axis", "dtype", "out", "keepdims", "initial", "where"})
SCAN_KEYWORDS = frozenset({"axis", "dtype", "out"})


def ufunc_hook(
    ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """What the C core calls for every ufunc call that its fast path does not take.

    Records the call, or runs NumPy on exact views: also for every call that NumPy will reject,
    and for operands of classes with a say of their own, which then win as over any ndarray.
    """
    try:
        recorder = RECORDERS.get(method)
        if recorder is None:
            raise NotRecorded(f"ufunc.{method}")
        return recorder(ufunc, inputs, kwargs)
    except NotRecorded as cause:
        reason = cause.reason
    except (TypeError, ValueError, OverflowError):  # NumPy has the words for it
        reason = ""
    name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    function = getattr(ufunc, method)
    written = (0,) if method == "at" else ()
    return fallback(function, inputs, kwargs, reason, name=name, written=written)


def scalar_of(array: Array) -> Any:
    """The NumPy scalar in a 0-d array, evaluated; in a macro section the array itself."""
    if _native.in_section(array):
        return array
    return _native.number(array)


def _record_call(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if not CALL_KEYWORDS.issuperset(kwargs):
        raise NotRecorded
    outs = _outs(kwargs, ufunc.nout)
    inputs = tuple(np.asarray(x) if type(x) is list else x for x in inputs)
    order = _order(kwargs, inputs)
    if not _has_numpys_bits(ufunc, inputs) and _native.wants(*inputs):
        # NumPy's loop takes longer than a copy does.
        inputs = tuple(map(as_usual, inputs))
    mask = _mask(kwargs.get("where", True))
    if mask is not None and outs is None:
        raise NotRecorded("where without out")
    operands = (*inputs, *(outs or ()), *(() if mask is None else (mask,)))
    types = tuple(map(dtype_of, inputs))
    if not _native.wants(*operands):
        raise NotRecorded
    if ufunc.signature is not None:
        raise NotRecorded("generalised ufunc")
    check_errstate()
    out_types = tuple(None if x is None else x.dtype for x in outs or (None,) * ufunc.nout)
    casting = kwargs.get("casting", "same_kind")
    signature = _signature(ufunc, kwargs)
    rule = call_rule(ufunc, types, out_types, signature, casting)
    if rule is None:
        raise NotRecorded(why_no_rule(ufunc, types, out_types, signature))
    if mask is not None and _reads_outs(out_types, rule.loop[ufunc.nin :]):
        raise NotRecorded("where, and NumPy casts what is in out")
    shape = broadcast(*inputs, *(() if mask is None else (mask,)))
    if outs is None and not shape:
        raise NotRecorded  # a scalar
    foreign = ufunc in SPECIAL.ufuncs
    if foreign:
        SPECIAL.check(ufunc, inputs, shape, rule.loop)
    target = _fit(shape, outs)
    out = target if target is None or ufunc.nout > 1 else target[0]
    result = _recorded(_native.map, rule, inputs, out, mask, order)
    if foreign and not SPECIAL.waits(ufunc):
        _native.evaluate()
    return result


def _has_numpys_bits(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> bool:
    """Whether what computes it makes no difference, or nobody but NumPy does."""
    if ufunc.signature is not None:
        return True
    name = ufunc.__name__
    real = all(getattr(x, "dtype", None) is None or x.dtype.kind != "c" for x in inputs)
    return name in SAME_BITS or (real and name in SAME_BITS_IF_REAL)


def _order(kwargs: Mapping[str, Any], inputs: tuple[Any, ...]) -> str:
    """The order of the result; NumPy's errors, of it and of `subok`, are NumPy's to raise. What is
    as all inputs are is told by these, since their copies lie otherwise (`as_usual`)."""
    order = kwargs.get("order", "K")
    if not (type(order) is str and order in ORDERS and isinstance(kwargs.get("subok", True), bool)):
        raise NotRecorded
    if order == "A" and not all(x.flags.f_contiguous for x in inputs if is_array(x)):
        return "C"
    return order


def _reads_outs(outs: Sequence[np.dtype[Any] | None], loop: Sequence[str]) -> bool:
    """Whether a masked call may warn of what is in its outputs: NumPy's iterator casts that to the
    loop's dtypes, and of what comes back only what the mask lets through."""
    return any(
        out is not None and warns_on_cast(out, np.dtype(dtype))
        for out, dtype in zip(outs, loop, strict=True)
    )


def _recorded(record: Callable[..., Any], *args: Any) -> Any:
    result = record(*args)
    if result is None:
        raise unrecordable()
    return result


def _outs(kwargs: Mapping[str, Any], count: int) -> tuple[Array | None, ...] | None:
    """The arrays to write, None when all are new."""
    given = kwargs.get("out")
    outs = given if isinstance(given, tuple) else (given,)
    if given is not None and len(outs) != count:
        raise NotRecorded
    if all(x is None for x in outs):
        return None
    for x in outs:
        if x is not None and not take_array(x).flags.writeable:
            raise NotRecorded
    return outs


def _target(out: Any) -> Array | None:
    """The array that a fold or a scan writes; a tuple of None, which calls take, is an error."""
    outs = _outs({"out": out}, 1)
    if outs is None and out is not None:
        raise NotRecorded
    return None if outs is None else outs[0]


def _mask(where: Any) -> Array | None:
    if where is True or where is np._NoValue:  # which is true, and what nanvar passes on
        return None
    if is_array(where) and where.dtype == np.bool_:
        return take_array(where)
    raise NotRecorded("where is not a bool array")


def _signature(ufunc: np.ufunc, kwargs: Mapping[str, Any]) -> tuple[Any, ...] | str | None:
    given = [kwargs[name] for name in ("signature", "sig") if name in kwargs]
    if any(x is None for x in given) or len(given) > 1:  # NumPy's error
        raise NotRecorded
    signature, dtype = given[0] if given else None, kwargs.get("dtype")
    if dtype is not None:
        if signature is not None:
            raise NotRecorded
        return (None,) * ufunc.nin + (asked_dtype(dtype),) * ufunc.nout
    if signature is None or isinstance(signature, str):
        return signature
    if isinstance(signature, tuple):
        return signature
    raise NotRecorded


def _fit(
    shape: tuple[int, ...], outs: tuple[Array | None, ...] | None
) -> tuple[Array | None, ...] | None:
    """Check that every output has exactly the shape of the result; NumPy does the rest."""
    for x in outs or ():
        if x is not None and x.shape != shape:
            raise NotRecorded("out of another shape")
    return outs


def _record_reduce(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if len(inputs) != 1 or not REDUCE_KEYWORDS.issuperset(kwargs):
        raise NotRecorded
    array = take_array(inputs[0])
    return record_fold(
        ufunc,
        array,
        axis=kwargs.get("axis", 0),
        dtype=kwargs.get("dtype"),
        out=kwargs.get("out"),
        keepdims=flag(kwargs.get("keepdims", False)),
        where=kwargs.get("where", True),
        initial=kwargs.get("initial", np._NoValue),
    )


def record_fold(
    ufunc: np.ufunc,
    array: Array,
    *,
    axis: Any,
    dtype: Any,
    out: Any,
    keepdims: bool,
    where: Any = True,
    initial: Any = np._NoValue,
) -> Any:
    """Record ``ufunc.reduce``; a full reduction without `out` is evaluated to NumPy's scalar."""
    axes = _axes(axis, array.ndim)
    if not _native.wants(array) or array.size == 0:
        raise NotRecorded
    check_errstate()
    target = _target(out)
    rule = fold_rule(
        Kind.REDUCE, ufunc, array.dtype, _dtype(dtype), None if target is None else target.dtype
    )
    if rule is None:
        if ufunc is np.multiply and array.dtype.kind in "fc":
            raise NotRecorded("products of floats keep NumPy's order")
        raise NotRecorded(f"no reduction kernel for {array.dtype}")
    start = None
    if initial is not np._NoValue:
        start = scalar_for(initial, np.dtype(_result_dtype(ufunc, array, dtype, target)))
        if start is None:
            raise NotRecorded("initial needs a conversion")
        if _absorbs(ufunc, start):
            raise NotRecorded("initial is a zero that decides the result")
    mask = _mask(where)
    if mask is not None:
        mask = _mask_over(mask, array, ufunc, start)
    if target is not None and target.shape != _reduced(array.shape, axes, keepdims):
        raise NotRecorded
    result = _recorded(_native.reduce, rule, array, axes, keepdims, target, mask, start)
    if target is None and result.ndim == 0:
        return scalar_of(result)
    return result


def _absorbs(ufunc: np.ufunc, start: np.generic) -> bool:
    """Whether it matters that NumPy begins with `start`; kernels end with it.

    A product of 0 and what has overflown is nan; partial sums begin with 0.0, which hides -0.0.
    """
    parts = (np.real(start), np.imag(start))
    if ufunc.__name__ == "multiply":
        return any(part == 0 for part in parts[: 1 + np.iscomplexobj(start)])
    return ufunc.__name__ == "add" and any(part == 0 and np.signbit(part) for part in parts)


def _result_dtype(ufunc: np.ufunc, array: Array, dtype: Any, out: Array | None) -> Any:
    if out is not None:
        return out.dtype
    return ufunc.reduce(np.ones(1, array.dtype), dtype=dtype).dtype


def _mask_over(mask: Array, array: Array, ufunc: np.ufunc, start: object) -> Array:
    if ufunc.identity is None and start is None:
        raise NotRecorded  # NumPy's error
    if broadcast(mask, array) != array.shape:
        raise NotRecorded("where is larger than the array")
    view = np.broadcast_to(_native.view_plain(mask), array.shape)
    return mask if mask.shape == array.shape else view


def _reduced(shape: tuple[int, ...], axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def _axes(axis: Any, ndim: int) -> tuple[int, ...]:
    if axis is None:
        axes = tuple(range(ndim))
    elif not all(map(is_axis, axis if type(axis) is tuple else (axis,))):
        raise NotRecorded
    else:
        try:
            axes = normalize_axis_tuple(axis, ndim)
        except (ValueError, TypeError):
            raise NotRecorded from None
    if not axes:
        raise NotRecorded
    return tuple(sorted(axes))


def _dtype(dtype: Any) -> np.dtype[Any] | None:
    return None if dtype is None else asked_dtype(dtype)


def _record_accumulate(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if len(inputs) != 1 or not SCAN_KEYWORDS.issuperset(kwargs):
        raise NotRecorded
    array = take_array(inputs[0])
    axis = kwargs.get("axis", 0)
    if not is_axis(axis):
        raise NotRecorded
    axes = _axes(axis, array.ndim)
    if not _native.wants(array) or array.size == 0:
        raise NotRecorded
    check_errstate()
    target = _target(kwargs.get("out"))
    dtype, out = _dtype(kwargs.get("dtype")), None if target is None else target.dtype
    rule = fold_rule(Kind.SCAN, ufunc, array.dtype, dtype, out)
    if rule is None:
        raise NotRecorded(f"no accumulation kernel for {array.dtype}")
    if target is not None and target.shape != array.shape:
        raise NotRecorded
    cast = np.dtype(rule.loop[0])
    if warns_on_cast(array.dtype, cast):  # NumPy casts all of it first, and its warning says so
        copy = copy_rule(cast, array.dtype)
        array = _recorded(_native.map, copy, (array,), None, None, "K")
        rule = fold_rule(Kind.SCAN, ufunc, cast, dtype, out)
    return _recorded(_native.scan, rule, array, axes[0], target)


def _record_outer(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    if len(inputs) != 2 or ufunc.nin != 2 or ufunc.signature is not None:
        raise NotRecorded
    if not all(is_array(x) for x in inputs):
        raise NotRecorded("outer of something else than two arrays")
    first, second = inputs
    spread = first.reshape(first.shape + (1,) * second.ndim)
    return _record_call(ufunc, (spread, second), kwargs)


RECORDERS: Mapping[str, Callable[[np.ufunc, tuple[Any, ...], Mapping[str, Any]], Any]] = {
    "__call__": _record_call,
    "reduce": _record_reduce,
    "accumulate": _record_accumulate,
    "outer": _record_outer,
}
