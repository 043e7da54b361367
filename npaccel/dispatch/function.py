"""`__array_function__`: what each function of NumPy's namespaces does with npaccel arrays.

Three ways, listed in the registries below: `IMPLEMENTED` (recorded by a function here),
`COMPOSITES` (NumPy's own Python code runs on our arrays, and what it calls is recorded), and all
others, which fall back. `METADATA` asks only for dtypes and shapes, and evaluates nothing.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from npaccel import _native
from npaccel.dispatch.fallback import NotRecorded, at_user_line, fallback, unrecordable
from npaccel.dispatch.method import copied_in_order
from npaccel.dispatch.operands import (
    asked_dtype,
    broadcast,
    check_errstate,
    common_order,
    dtype_of,
    fresh,
    fresh_like,
    is_array,
    is_axis,
    scalar_for,
    take_array,
)
from npaccel.dispatch.rules import copy_rule, where_rule
from npaccel.later import later

inspect = later("inspect")

__all__ = ["COMPOSITES", "IMPLEMENTED", "METADATA", "VIEWS", "WHOLE", "WRITERS", "array_function"]

Array = np.ndarray[Any, Any]
Function = Callable[..., Any]


def named(names: str) -> frozenset[Function]:
    """Functions of the NumPy that is installed; older ones lack some."""
    return frozenset(getattr(np, name) for name in names.split() if hasattr(np, name))


# Their Python code only makes views, and calls ufuncs, methods and each other.
COMPOSITES = named(
    """all allclose amax amin angle any append argmax argmin argwhere around array_split astype
    atleast_1d atleast_2d atleast_3d average clip column_stack cumprod cumsum
    cumulative_prod cumulative_sum diagonal diff dsplit dstack expand_dims fill_diagonal fix
    flatnonzero flip fliplr flipud full_like gradient hsplit hstack imag interp isclose
    iscomplex isneginf isposinf isreal matrix_transpose max mean meshgrid min moveaxis
    nonzero ones_like outer permute_dims polyval prod ptp ravel real reshape roll
    rollaxis rot90 round sinc split squeeze stack std sum swapaxes take_along_axis tile
    trace transpose trapezoid tril triu unstack var vsplit vstack zeros_like
    """
)

# The same of code that converts its arguments first: in blocks what it calls for that knows ours.
IN_BLOCKS = named(
    """block corrcoef cov cross delete diag ediff1d i0 insert kron nancumprod
    nancumsum nanstd nanvar piecewise real_if_close resize unwrap vander"""
)

# C functions, and code around them, which blocks redirect (redirect.py); in macro sections they go
# by way of the registries below.
REDIRECTED = named(
    """bincount copy copyto count_nonzero dot einsum inner lexsort packbits put ravel_multi_index
    take unpackbits unravel_index vdot where"""
)

# Asked about dtypes and addresses only.
METADATA = named(
    """can_cast common_type iscomplexobj isrealobj may_share_memory min_scalar_type ndim
    result_type shape shares_memory size"""
)

# All of these for the core, which runs them; the value: in blocks only; None: and in no section.
COMPOSED: dict[Function, bool | None] = {
    **dict.fromkeys(REDIRECTED, None),
    **dict.fromkeys(IN_BLOCKS, True),
    **dict.fromkeys(COMPOSITES | METADATA, False),
}
_native.composites(COMPOSED)

# Those of them that only make a view of one array, also of an empty one.
VIEWS = named(
    """expand_dims matrix_transpose moveaxis permute_dims rollaxis squeeze swapaxes transpose"""
)

# Those that write (or may be told to write) their first argument.
WRITERS = named(
    """copyto fill_diagonal median nan_to_num nanmedian nanpercentile nanquantile percentile place
    put put_along_axis putmask quantile"""
)

# Functions that run as one in a block of `accelerate`. Some go through a large array in blocks that
# are too small to gain, so all of it is NumPy's, and counted with this reason. The others do many
# small steps, which cost more to record than they win up to so many bytes of arrays; where more is
# given, or something waits for it, what they call is recorded.
WHOLE: dict[Function, tuple[str, int]] = {np.histogram: ("in small blocks", 0)}
_STEPS = {  # by KiB, as measured by bench/functions.py --sizes; NPA_WHOLE_BYTES has the methods'
    256: "nan_to_num nanmean nansum",
    512: "cross nanstd nanvar std var",
    2048: """append array_equal average column_stack concatenate dstack ediff1d fix hstack
    nanargmax nanargmin nanmax nanmin pad repeat roll stack take_along_axis tile tril triu
    vstack""",
    4096: "corrcoef cov isin ptp",
    8192: """delete diag insert intersect1d median nanmedian nanpercentile nanquantile percentile
    quantile setdiff1d union1d unique""",
}
for _kib, _names in _STEPS.items():
    WHOLE |= dict.fromkeys(named(_names), ("", _kib << 10))

# More NumPy does not take.
MOST_PARTS = np.iinfo(np.intc).max

IMPLEMENTED: dict[Function, Function] = {}


def implements(function: Function) -> Callable[[Function], Function]:
    """Register the decorated function as what `function` does; it may raise NotRecorded."""

    def register(implementation: Function) -> Function:
        IMPLEMENTED[function] = implementation
        return implementation

    return register


def array_function(
    self: Array,
    func: Function,
    types: Iterable[type],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """What `Array.__array_function__` does. Classes other than ndarray and ours always win."""
    if not (isinstance(args, tuple) and isinstance(kwargs, dict)):  # an error
        return np.ndarray.__array_function__(self, func, types, args, kwargs)
    if any(t is not np.ndarray and not issubclass(t, _native.ArrayBase) for t in types):
        if not any(issubclass(t, _native.ArrayBase) for t in types):
            # NumPy names our class when it asks; somebody asks an ndarray.
            return np.ndarray.__array_function__(self, func, types, args, kwargs)
        return fallback(func, args, kwargs, "operand of another class")
    if func in VIEWS or func in METADATA or _runs_on_ours(func):
        return at_user_line(np.ndarray.__array_function__, (self, func, types, args, kwargs), {})
    try:
        if func in IMPLEMENTED:
            return IMPLEMENTED[func](*args, **kwargs)
        if func in COMPOSITES:  # of empty arrays; the core has run all others
            raise NotRecorded
        alone = func in WHOLE and WHOLE[func][1] == 0 and _native.in_block()
        raise NotRecorded("" if alone else "not recorded")
    except NotRecorded as cause:
        reason = cause.reason
    name = f"{func.__module__}.{func.__name__}".removeprefix("numpy.")
    written = (*((0,) if func in WRITERS else ()), *_out_position(func))
    # As ndarray's does it: func would ask those, too, whom the caller left out of `types`.
    runs = getattr(func, "_implementation", func) if _has_others((args, kwargs)) else func
    return fallback(runs, args, kwargs, reason, name=name, written=written)


def _has_others(value: Any) -> bool:
    """Whether there is something of a class that has a say, but for ndarray."""
    if isinstance(value, dict):
        return any(map(_has_others, value.values()))
    if isinstance(value, tuple | list):
        return any(map(_has_others, value))
    return hasattr(type(value), "__array_function__") and not isinstance(value, np.ndarray)


def _runs_on_ours(function: Function) -> bool:
    """Whether it is one of transforms or linear algebra, and its code may run on our arrays: in
    blocks, where what it calls knows them. Such a module is often not imported."""
    module = getattr(function, "__module__", None)
    found = module in ("numpy.fft", "numpy.linalg") and _native.in_block()
    if found:
        COMPOSED[function] = True  # the core runs it from now on
    return found


@functools.lru_cache(maxsize=1024)
def _out_position(function: Function) -> tuple[int, ...]:
    """Where `out` is among the positional parameters."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return ()
    return (names.index("out"),) if "out" in names else ()


def unevaluated(value: Any) -> Any:
    return _native.view_plain(value) if isinstance(value, _native.ArrayBase) else value


def _record(rule: _native.Rule | None, *args: Any) -> Any:
    if rule is None:
        raise NotRecorded("no copy loop for these dtypes")
    check_errstate()
    result = _native.map(rule, *args)
    if result is None:
        raise unrecordable()
    return result


@implements(np.where)
def where(condition: Any, *choices: Any) -> Any:
    """Record the three-argument form."""
    if len(choices) != 2:
        raise NotRecorded("where with one argument")
    x, y = choices
    operands = (condition, x, y)
    types = [dtype_of(value) for value in operands]
    if not _native.wants(*operands):
        raise NotRecorded
    if not broadcast(*operands):
        raise NotRecorded
    result = _common_type(types[1:], choices)
    for value, kind in zip(choices, types[1:], strict=True):
        if not isinstance(kind, np.dtype) and scalar_for(value, result) is None:
            raise NotRecorded  # a Python number that does not fit
    return _record(where_rule(result), operands)


def _common_type(types: Iterable[Any], values: Iterable[Any]) -> np.dtype[Any]:
    """result_type of operands, Python scalars weak."""
    try:
        pairs = zip(types, values, strict=True)
        return np.result_type(*(t if isinstance(t, np.dtype) else v for t, v in pairs))
    except TypeError:
        raise NotRecorded from None


@implements(np.copyto)
def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Record a copy, perhaps masked, of an array or a number that fits."""
    target = take_array(dst)
    if not target.flags.writeable or not _native.wants(target, src):
        raise NotRecorded
    if where is not True and not (is_array(where) and where.dtype == np.bool_):
        raise NotRecorded("where is not a bool array")
    mask = None if where is True else take_array(where)
    sources = (src,) if mask is None else (src, mask)
    typed = is_array(src) or isinstance(src, np.generic)
    if typed and not np.can_cast(src.dtype, target.dtype, casting):  # type: ignore[arg-type]
        raise NotRecorded
    if is_array(src):
        rule = copy_rule(target.dtype, take_array(src).dtype)
        value = src
    else:
        rule = copy_rule(target.dtype)
        value = scalar_for(src, target.dtype) if casting in ("same_kind", "unsafe") else None
        if value is None:
            raise NotRecorded("value needs a conversion")
    if broadcast(target, *sources) != target.shape:
        raise NotRecorded
    _record(rule, (value,), target, mask)


@implements(np.take)
def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
    """As the method, which records a gather, or leaves a few elements to NumPy."""
    return _native.wrap(take_array(a)).take(indices, axis, out, mode)


@implements(np.empty_like)
def empty_like(
    prototype: Any,
    /,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Any:
    """Memory of npaccel for a large prototype."""
    usual = device is None and type(subok) is bool
    if not usual or not _native.wants(take_array(prototype)):
        raise NotRecorded
    new = prototype.dtype if dtype is None else asked_dtype(dtype)
    flags = prototype.flags
    if shape is not None:
        return _empty_of_shape(prototype, new, order, shape)
    if order not in ("K", "A", "C", "F") or new.hasobject or new.subdtype is not None:
        raise NotRecorded
    if order in ("K", "A") and not flags.forc:
        if order == "K":
            return fresh_like(prototype, new)
        order = "C"
    elif order in ("K", "A"):
        order = "C" if flags.c_contiguous else "F"
    return fresh(prototype.shape, new, order)


def _empty_of_shape(prototype: Array, dtype: np.dtype[Any], order: str, shape: Any) -> Any:
    """Memory of npaccel where the prototype's order is that of its axes, or does not matter."""
    usual = order == "C" or (order == "K" and prototype.flags.c_contiguous)
    if type(shape) is not tuple or not all(map(_is_count, shape)):
        raise NotRecorded
    if not usual or dtype.hasobject or dtype.subdtype is not None:
        raise NotRecorded
    counts = tuple(map(int, shape))
    size = math.prod(counts) * dtype.itemsize
    if min(counts, default=1) <= 0 or not _native.threshold() <= size <= sys.maxsize:
        raise NotRecorded
    return fresh(counts, dtype)


def _is_count(value: Any) -> bool:
    """NumPy's code around transforms of several axes counts in NumPy's integers."""
    return type(value) is int or (isinstance(value, np.integer) and value.dtype.kind in "iu")


def _product(name: str, function: Function) -> None:
    def product(a: Any, b: Any, *out: Any, **more: Any) -> Any:
        result = None if out or more else _native.product(name, a, b)
        if result is None:
            raise NotRecorded("matrix product")
        return result

    implements(function)(product)


_product("dot", np.dot)
_product("inner", np.inner)
_product("vdot", np.vdot)


@implements(np.copy)
def copy(a: Any, order: str = "K", subok: bool = False) -> Any:
    """Record a copy; an npaccel array whatever `subok`, for it is an ndarray to every caller."""
    array = take_array(a)
    return copied_in_order(array, array.dtype, order)


# A Python number in older NumPys, an intp in newer ones.
_COUNT: type = type(np.count_nonzero(np.zeros(1)))


@implements(np.count_nonzero)
def count_nonzero(a: Any, axis: Any = None, *, keepdims: Any = False) -> Any:
    """A sum of truth values, of the type that this NumPy gives."""
    array = take_array(a)
    if not _native.wants(array):
        raise NotRecorded
    truth = array if array.dtype == np.bool_ else array.astype(np.bool_)
    total = truth.sum(axis=axis, dtype=np.intp, keepdims=keepdims)
    return _COUNT(total) if axis is None and not keepdims else total


@implements(np.broadcast_to)
def broadcast_to(array: Any, shape: Any, subok: bool = False) -> Any:
    """A view; nothing is evaluated."""
    return _native.wrap(np.broadcast_to(unevaluated(array), shape))


@implements(np.broadcast_arrays)
def broadcast_arrays(*args: Any, subok: bool = False) -> Any:
    """Views; nothing is evaluated."""
    views = np.broadcast_arrays(*map(unevaluated, args))
    pairs = zip(views, args, strict=True)
    return tuple(_native.wrap(v) if isinstance(a, _native.ArrayBase) else v for v, a in pairs)


@implements(np.concatenate)
def concatenate(
    arrays: Any,
    /,
    axis: Any = 0,
    out: Any = None,
    *,
    dtype: Any = None,
    casting: str = "same_kind",
) -> Any:
    """Record one copy per part, where all lie in one order; NumPy chooses other orders itself.

    Parts of one dtype in C order are recorded by the core (`boxes.c`).
    """
    usual = out is None and dtype is None and casting == "same_kind"
    if not usual or not isinstance(arrays, list | tuple):
        raise NotRecorded("concatenate with out, dtype or casting")
    if len(arrays) > MOST_PARTS:  # NumPy's error, before anybody looks at each of them
        return np.concatenate._implementation(arrays, axis)  # type: ignore[attr-defined]
    parts = [take_array(part) for part in arrays]
    if not parts or not is_axis(axis) or not _native.wants(*parts):
        raise NotRecorded
    first = parts[0]
    if any(p.ndim != first.ndim for p in parts) or first.ndim == 0:
        raise NotRecorded
    order = common_order(parts)
    if not order:
        raise NotRecorded("parts in another memory order")
    if not -first.ndim <= axis < first.ndim:
        raise NotRecorded
    axis = normalize_axis_index(axis, first.ndim)
    if len({p.shape[:axis] + p.shape[axis + 1 :] for p in parts}) != 1:
        raise NotRecorded
    common = np.result_type(*(p.dtype for p in parts))
    rules = [copy_rule(common, p.dtype) for p in parts]
    if any(rule is None for rule in rules):
        raise NotRecorded("no copy loop for these dtypes")
    extent = sum(p.shape[axis] for p in parts)
    result = fresh((*first.shape[:axis], extent, *first.shape[axis + 1 :]), common, order)
    _copy_parts(parts, rules, result, axis)
    return result


def _copy_parts(parts: Sequence[Any], rules: Sequence[Any], result: Any, axis: int) -> None:
    """Record a copy of each part into the result, one behind the other along the axis."""
    start = 0
    for part, rule in zip(parts, rules, strict=True):
        if part.size:
            place = (slice(None),) * axis + (slice(start, start + part.shape[axis]),)
            _record(rule, (part,), result[place])
        start += part.shape[axis]
