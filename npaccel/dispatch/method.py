"""Methods of ndarray on npaccel arrays: recorded, or run in NumPy on evaluated memory.

Not here, because NumPy's own C methods already do the right thing on our class: conj and trace,
which call ufuncs, and those that only make views (transpose swapaxes squeeze diagonal getfield).
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from npaccel import _native
from npaccel.dispatch import gather
from npaccel.dispatch.fallback import NotRecorded, at_user_line, fallback, unrecordable
from npaccel.dispatch.operands import (
    asked_dtype,
    check_errstate,
    fresh,
    fresh_like,
    is_axis,
    scalar_for,
    take_array,
)
from npaccel.dispatch.rules import arg_rule, copy_rule
from npaccel.dispatch.ufunc import scalar_of

__all__ = ["EVALUATED", "MOVES", "RECORDED", "Methods", "copied_in_order"]

Array = np.ndarray[Any, Any]

# Methods that NumPy runs on evaluated memory, with the reason that is counted; "" for those that
# are there to read the values. `*`: the method writes the array.
EVALUATED = {
    "argpartition": "sorting",
    "argsort": "sorting",
    "byteswap": "*byteswap",
    "choose": "integer array index",
    "compress": "boolean mask",
    "dot": "matrix product",
    "dump": "",
    "dumps": "",
    "item": "",
    "nonzero": "shape depends on values",
    "partition": "*sorting",
    "put": "*integer array index",
    "searchsorted": "searching",
    "setfield": "*field",
    "sort": "*sorting",
    "tobytes": "",
    "tofile": "",
    "tolist": "",
}

# What the work of a call grows with, where that isn't the array; direct.c's `work`.
WORK = {
    "item": 1,
    "put": 1,
    "searchsorted": 1,
    "tobytes": 1,
    "tolist": 1,
    "take": 2,
    "argmin": 3,
    "argmax": 3,
    "std": 4,
    "var": 4,
    "ravel": 6,
    "reshape": 6,
}

# Recorded methods whose results have the same bits, whoever computes them.
MOVES = frozenset({"astype", "copy", "fill", "flatten", "ravel", "repeat", "reshape"})

RECORDED: dict[str, Callable[..., Any]] = {}


def _recorded(record: Callable[..., Any]) -> Any:
    """Make the method that tries `record`; where that raises NotRecorded, NumPy's own runs."""
    name = record.__name__
    original = getattr(np.ndarray, name)
    RECORDED[name] = record

    @functools.wraps(original)
    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        try:
            return record(self, *args, **kwargs)
        except NotRecorded as cause:
            reason = cause.reason
        except (TypeError, ValueError, OverflowError):  # NumPy has the words for it
            reason = ""
        places = tuple(range(1, len(args) + 1))  # one of them may be `out`
        return fallback(
            original, (self, *args), kwargs, reason, name=f"ndarray.{name}", written=places
        )

    copies = name in MOVES and name != "fill"
    return _native.direct(original, method, WORK.get(name, 0), False, copies)


def _evaluated(name: str) -> Any:
    """Make the method that NumPy runs on evaluated memory."""
    original = getattr(np.ndarray, name)
    reason = EVALUATED[name].removeprefix("*")
    first = 0 if EVALUATED[name].startswith("*") else 1

    @functools.wraps(original)
    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        if not reason:
            _native.reading(self, name)
        if name == "item" and _native.copies_exist():
            self, args = _around(self, args)
        places = tuple(range(first, len(args) + 1))
        return fallback(
            original, (self, *args), kwargs, reason, name=f"ndarray.{name}", written=places
        )

    return _native.direct(original, method, WORK.get(name, 0), first == 0)


def _around(array: Array, args: tuple[Any, ...]) -> tuple[Array, tuple[Any, ...]]:
    """What `array.item(*args)` is of: the one element alone, so that no more is moved for it."""
    where = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
    try:
        if len(where) == 1 and array.ndim > 1 and -array.size <= where[0] < array.size:
            where = np.unravel_index(where[0] % array.size, array.shape)
        if len(where) != array.ndim or not all(map(is_axis, where)):
            return array, args
        return np.ndarray.__getitem__(array, (*where, ...)), ()
    except (TypeError, ValueError, IndexError):
        return array, args  # NumPy's words are for what was asked


def _numpys(name: str) -> Any:
    """Make the method that is NumPy's own: Python code whose ufunc calls are recorded."""
    original = getattr(np.ndarray, name)
    return _native.direct(original, original, WORK.get(name, 0))


def _large(array: Array) -> Array:
    """`array` if work on it is worth recording; raises NotRecorded."""
    if not _native.wants(array) or array.size == 0:
        raise NotRecorded
    check_errstate()
    return take_array(array)


def _copied(array: Array, rule: _native.Rule | None, target: Array | None, order: str) -> Any:
    if rule is None:
        raise NotRecorded("no copy loop for these dtypes")
    result = _native.map(rule, (array,), target, None, order)
    if result is None:
        raise unrecordable()
    return result


def _memory_order(array: Array, order: str | None) -> str:
    """C or F for what `order` means for a copy of `array`; K when it is neither."""
    flags = array.flags
    if order in ("C", "F"):
        return order
    if order not in ("A", "K"):
        raise NotRecorded
    if order == "A" or flags.forc:
        return "F" if flags.f_contiguous and not flags.c_contiguous else "C"
    return "K"


def copied_in_order(array: Array, dtype: np.dtype[Any], order: str | None) -> Any:
    """Record a copy of `array` as `dtype`, its memory laid out as `order` says."""
    if order == "K" or (array.flags.c_contiguous and order in ("C", "A")):
        made = _native.copy(array, dtype)
        if made is not None:
            return made
    _large(array)
    rule = copy_rule(dtype, array.dtype)
    if rule is None:
        # Their own text takes as long as the copy.
        names = (str(x) if x.type is None else x.type.__name__ for x in (array.dtype, dtype))
        raise NotRecorded("no copy loop from {} to {}".format(*names))
    order = _memory_order(array, order)
    strange = order == "K"
    target = fresh_like(array, dtype) if strange else fresh(array.shape, dtype, order)
    _copied(array, rule, target, "K")
    return target


def _copied_like(array: Array, dtype: np.dtype[Any], order: str | None) -> Any:
    """As `copied_in_order`, for the methods, which NumPy's scalars have too."""
    target = copied_in_order(array, dtype, order)
    if not array.ndim:
        _native.copies_scalar(array, target)
    return target


def _flattened(array: Array, order: str) -> Any:
    _large(array)
    order = _memory_order(array, order)
    if order == "K":
        raise NotRecorded("memory order")
    flat = fresh((array.size,), array.dtype)
    if order == "C":
        target = np.ndarray.reshape(flat, array.shape)
    else:
        target = np.ndarray.reshape(flat, array.shape[::-1]).T
    _copied(array, copy_rule(array.dtype), target, "K")
    return flat


RESHAPE_MAY_COPY = np.lib.NumpyVersion(np.__version__) < "2.1.0"  # and can't be told not to


def _reshaped_view(array: Array, shape: tuple[Any, ...], order: str) -> Any:
    """``array.reshape(*shape, order=order, copy=False)``; ValueError if that needs a copy."""
    if not RESHAPE_MAY_COPY:
        return np.ndarray.reshape(array, *shape, order=order, copy=False)  # type: ignore[call-overload]
    if order not in ("C", "F", "A"):
        raise ValueError
    turned = _memory_order(array, order) == "F"
    extents = shape[0] if len(shape) == 1 else shape
    view = np.ndarray.view(array.T if turned else array)
    try:
        view.shape = extents[::-1] if turned and type(extents) in (tuple, list) else extents
    except (AttributeError, TypeError) as error:
        raise ValueError from error
    return view.T if turned else view


class Methods(_native.ArrayBase):
    """The methods that compute. See the module's docstring for those that are NumPy's own."""

    __slots__ = ()

    @_recorded
    def astype(
        self,
        dtype: Any,
        order: str = "K",
        casting: str = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> Any:
        new = asked_dtype(dtype)
        if copy is not True and copy is not False:
            raise NotRecorded
        if not np.can_cast(self.dtype, new, casting):  # type: ignore[arg-type]
            raise NotRecorded
        if new == self.dtype and new is not self.dtype:
            raise NotRecorded  # with metadata, which the result keeps
        if not copy and new == self.dtype and _keeps_order(self, order):
            return self
        return _copied_like(self, new, order)

    @_recorded
    def copy(self, order: str = "C") -> Any:
        return _copied_like(self, self.dtype, order)

    @_recorded
    def __copy__(self) -> Any:
        return _copied_like(self, self.dtype, "K")

    @_recorded
    def __deepcopy__(self, memo: Any) -> Any:
        return _copied_like(self, self.dtype, "K")

    @_recorded
    def flatten(self, order: str = "C") -> Any:
        return _flattened(self, order)

    @_recorded
    def ravel(self, order: str = "C") -> Any:
        flags = self.flags
        if order == "K" and not flags.forc:
            raise NotRecorded("memory order")
        wanted = _memory_order(self, order)
        if flags.c_contiguous if wanted == "C" else flags.f_contiguous:
            return np.ndarray.ravel(self, order)  # type: ignore[arg-type]
        return _flattened(self, wanted)

    @_recorded
    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
        if copy is not None:
            raise NotRecorded("reshape with copy")
        if self.flags.c_contiguous and order == "C":
            return np.ndarray.reshape(self, *shape)
        try:
            return _reshaped_view(self, shape, order)
        except ValueError:
            flat = _flattened(self, _memory_order(self, order))
        return np.ndarray.reshape(flat, *shape, order=order)  # type: ignore[call-overload]

    @_recorded
    def fill(self, value: Any) -> None:
        number = scalar_for(value, _large(self).dtype)
        if number is None or not self.flags.writeable:
            raise NotRecorded("value needs a conversion")
        rule = copy_rule(self.dtype)
        if rule is None or _native.map(rule, (number,), self) is None:
            raise unrecordable()

    @_recorded
    def round(self, decimals: int = 0, out: Any = None) -> Any:
        if type(decimals) is not int or out is not None or self.dtype.kind != "f":
            raise NotRecorded("round to another array, or of other dtypes")
        _large(self)
        if decimals == 0:
            return np.rint(self)
        # Powers of ten beyond are not exact; halves overflow in NumPy's two steps, or between.
        if abs(decimals) > 22 or self.dtype.itemsize < 4:
            raise NotRecorded("round to many decimals, or halves")
        factor = 10.0 ** abs(decimals)
        # NumPy's own result is in C order where the array is in none.
        order: Any = {} if self.flags.forc else {"order": "C"}
        if decimals > 0:
            return np.rint(np.multiply(self, factor, **order)) / factor
        return np.rint(np.divide(self, factor, **order)) * factor

    @_recorded
    def repeat(self, repeats: Any, axis: Any = None) -> Any:
        return repeated(_large(self), repeats, axis)

    @_recorded
    def argmin(self, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        return _arg("argmin", self, axis, out, keepdims)

    @_recorded
    def argmax(self, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        return _arg("argmax", self, axis, out, keepdims)

    @_recorded
    def cumsum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        return _accumulated(np.add, self, axis, dtype, out)

    @_recorded
    def cumprod(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        return _accumulated(np.multiply, self, axis, dtype, out)

    @_recorded
    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
        check_errstate()
        return gather.take(self, indices, axis, out, mode)

    def resize(self, *shape: Any, refcheck: Any = True) -> None:
        """In place, on this very object; NumPy's count of references would include ours."""
        # Or NumPy's error, in its words.
        refcheck = at_user_line(operator.index, (refcheck,), {})
        _native.touch(self, write=True)
        if sys.version_info >= (3, 14):  # where arguments are borrowed: it counts as for the caller
            new = shape[0] if len(shape) == 1 else shape
            return np.ndarray.resize(self, new, refcheck=refcheck) if shape else None
        if refcheck and sys.getrefcount(self) > 3:  # the caller's, ours, the argument
            np.ndarray.resize(self, *shape)  # NumPy's error
            return
        np.ndarray.resize(self, *shape, refcheck=False)

    all = _numpys("all")
    any = _numpys("any")
    clip = _numpys("clip")
    max = _numpys("max")
    mean = _numpys("mean")
    min = _numpys("min")
    prod = _numpys("prod")
    std = _numpys("std")
    sum = _numpys("sum")
    var = _numpys("var")
    argpartition = _evaluated("argpartition")
    argsort = _evaluated("argsort")
    byteswap = _evaluated("byteswap")
    choose = _evaluated("choose")
    compress = _evaluated("compress")
    dot = _evaluated("dot")
    dump = _evaluated("dump")
    dumps = _evaluated("dumps")
    item = _evaluated("item")
    nonzero = _evaluated("nonzero")
    partition = _evaluated("partition")
    put = _evaluated("put")
    searchsorted = _evaluated("searchsorted")
    setfield = _evaluated("setfield")
    sort = _evaluated("sort")
    tobytes = _evaluated("tobytes")
    tofile = _evaluated("tofile")
    tolist = _evaluated("tolist")


def repeated(array: Array, times: Any, axis: Any) -> Any:
    """Each element `times` times along an axis: a copy of a broadcast view."""
    if type(times) is not int or times < 1 or array.size == 0:
        raise NotRecorded("counts that differ")
    if times > sys.maxsize // array.nbytes:  # NumPy's error
        raise NotRecorded
    source: Any = _native.wrap(array)
    if axis is None:
        source, axis = source.ravel(), 0
    if type(axis) is not int or not -source.ndim <= axis < source.ndim:
        raise NotRecorded
    before, after = source.shape[: axis % source.ndim + 1], source.shape[axis % source.ndim + 1 :]
    spread = _native.view_plain(source).reshape(*before, 1, *after)
    copies = np.broadcast_to(spread, (*before, times, *after))
    made = fresh((*before[:-1], before[-1] * times, *after), array.dtype)
    into = _native.view_plain(made).reshape(copies.shape)
    _copied(copies, copy_rule(array.dtype, array.dtype), _native.wrap(into), "C")
    return made


def _keeps_order(array: Array, order: str) -> bool:
    flags = array.flags
    wanted = {"K": True, "C": flags.c_contiguous, "F": flags.f_contiguous, "A": flags.forc}
    return wanted.get(order, False)


def _arg(name: str, array: Array, axis: Any, out: Any, keepdims: bool) -> Any:
    _large(array)
    if out is not None or not isinstance(keepdims, bool):
        raise NotRecorded("out")
    if axis is None:
        axes = tuple(range(array.ndim))
    elif is_axis(axis) and -array.ndim <= axis < array.ndim:
        axes = (axis % array.ndim,)
    else:
        raise NotRecorded
    rule = arg_rule(name, array.dtype)
    if rule is None or not axes:
        raise NotRecorded(f"no kernel for {array.dtype}")
    result = _native.reduce(rule, array, axes, keepdims)
    if result is None:
        raise unrecordable()
    return scalar_of(result) if result.ndim == 0 else result


def _accumulated(ufunc: np.ufunc, array: Array, axis: Any, dtype: Any, out: Any) -> Any:
    if out is not None or not (axis is None or is_axis(axis)):
        raise NotRecorded("out")
    _large(array)
    source = array if axis is not None or array.ndim == 1 else array.ravel()
    return at_user_line(ufunc.accumulate, (source, 0 if axis is None else axis, dtype), {})
