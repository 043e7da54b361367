"""Typing of calls: which of them can be recorded, in which loop dtypes. All asked of NumPy.

A rule is made once per combination and cached; None means that NumPy runs the call, which also
covers every call that NumPy rejects: it then raises its own error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy._core import umath

from npaccel import _native
from npaccel.dispatch.special import OTHER, SPECIAL
from npaccel.ir.kinds import OTHER_UFUNCS, Kind
from npaccel.ir.names import FOLDING, VALUED, WARNING
from npaccel.own import time

__all__ = [
    "arg_rule",
    "call_rule",
    "copy_rule",
    "fold_rule",
    "gather_rule",
    "made_rules",
    "prepare_rules",
    "range_rule",
    "recordable",
    "reduce_rule",
    "rule",
    "warns_on_cast",
    "where_rule",
    "why_no_rule",
]

Dtype = np.dtype[Any]
Operand = Dtype | type

# Type characters of NumPy's numeric dtypes; longdouble and its complex are not among them.
RECORDABLE = frozenset("?bhilqBHILQefdFD")

WEAK = (int, float, complex)  # types of Python scalars

# Ufuncs of the C core.
OURS = {
    name: getattr(_native, name)
    for name in (
        "philox",
        "philox_half",
        "fraction_of",
        "unit_of",
        "single_of",
        "normal_of",
        "exponential_of",
    )
}

OTHER_UFUNCS.update(OURS)

CACHED = 8192
# Rules that are told to the next process: making one takes 20 to 50 µs.
MOST_TOLD = 64

Maker = Callable[..., _native.Rule | None]

_makers: dict[str, Maker] = {}
# Maker and arguments of the first ones that were made here; rules that nobody has asked for yet.
_made: list[tuple[Any, ...]] = []
_ready: dict[tuple[Any, ...], _native.Rule | None] = {}


def _cached(make: Maker) -> Maker:
    """Make each rule once, unless it is ready, and note that it was wanted."""
    name = make.__name__
    _makers[name] = make

    @functools.lru_cache(maxsize=CACHED)
    def cached(chars: str, *args: Any) -> _native.Rule | None:
        key = (chars, name, *args)
        found = _ready.pop(key) if key in _ready else make(*args)
        if len(_made) < MOST_TOLD:
            _made.append((name, *args))
        return found

    @functools.wraps(make)
    def rule(*args: Any) -> _native.Rule | None:
        return cached(_chars(args), *args)

    rule.cache_clear = cached.cache_clear  # type: ignore[attr-defined]
    return rule


def _chars(args: tuple[Any, ...]) -> str:
    """Which dtypes are in them: `long` and `long long` are equal, results are of one of them."""
    return "".join(
        x.char if isinstance(x, np.dtype) else _chars(x) if isinstance(x, tuple) else ""
        for x in args
    )


def made_rules() -> tuple[tuple[Any, ...], ...]:
    """Which rules were wanted here, as plain data; without those that it can't tell."""
    found = []
    for name, *args in _made:
        with suppress(TypeError):
            found.append((name, *map(_told, args)))
    return tuple(found)


def prepare_rules(told: Iterable[tuple[Any, ...]], limit_s: float) -> None:
    """Make what `made_rules` told in another process, until so much time is over."""
    end = time.monotonic() + limit_s
    for name, *plain in told:
        if time.monotonic() >= end:
            return
        args = tuple(map(_meant, plain))
        _ready[_chars(args), name, *args] = _makers[name](*args)


def _told(value: Any) -> Any:
    """A rule's argument as plain data; raises TypeError where that could mean another one."""
    if isinstance(value, tuple):
        return ("tuple", *map(_told, value))
    if isinstance(value, np.dtype) and recordable(value):
        return "dtype", value.char
    if isinstance(value, np.ufunc) and is_known(value):
        return "ufunc", value.__name__
    if isinstance(value, type) and value in WEAK:
        return "type", WEAK.index(value)
    if isinstance(value, Kind):
        return int(value)
    if value is None or isinstance(value, str):
        return value
    raise TypeError(value)


def _meant(told: Any) -> Any:
    """What `_told` told."""
    if not isinstance(told, tuple):
        return told
    kind, *rest = told
    if kind == "tuple":
        return tuple(map(_meant, rest))
    if kind == "dtype":
        return np.dtype(rest[0])
    if kind == "ufunc":
        return OURS.get(rest[0]) or getattr(umath, rest[0])
    return WEAK[rest[0]]


def recordable(dtype: Dtype) -> bool:
    """Whether arrays of `dtype` can be operands of a recorded request."""
    return dtype.char in RECORDABLE and dtype.isnative and dtype.metadata is None


def _may_warn(ufunc: np.ufunc, loop: Sequence[Dtype]) -> bool:
    if ufunc in SPECIAL.ufuncs:
        return False
    kinds = WARNING.get(ufunc.__name__)
    return kinds is None or any(dtype.kind in kinds for dtype in loop)


def _can_raise(ufunc: np.ufunc, loop: Sequence[Dtype]) -> bool:
    # Integers to negative integer powers: the one numeric inner loop that raises.
    return ufunc.__name__ == "power" and loop[1].kind == "i"


def rule(
    ufunc: np.ufunc | str,
    signature: tuple[Operand, ...],
    out_dtype: Dtype | None,
) -> _native.Rule | None:
    """First meeting of a combination: the C core's `rule` hook.

    Parameters
    ----------
    ufunc : or "copy" for an assignment, "where" for a choice between two of a dtype.
    signature : per input its dtype, or the type int, float or complex for a weak Python scalar.
    out_dtype : dtype of the array that is written, or None.
    """
    if ufunc == "where":
        return where_rule(_dtype_of(signature[0]))
    if isinstance(ufunc, str):
        source = _dtype_of(signature[0])
        return None if out_dtype is None else copy_rule(out_dtype, source)
    if not is_known(ufunc):
        return None  # or Python would not be asked at the next call
    outs = (out_dtype,) + (None,) * (ufunc.nout - 1)
    return call_rule(ufunc, tuple(signature), outs)


def is_known(ufunc: np.ufunc) -> bool:
    """Whether `ufunc` is one of NumPy's own, or of ours.

    Loops of other libraries (scipy.special, Numba, frompyfunc) may raise, warn in their own ways or
    ask for the interpreter lock, so they never wait; and caches would keep made ones alive.
    """
    name = ufunc.__name__
    return getattr(umath, name, None) is ufunc or OURS.get(name) is ufunc


def call_rule(
    ufunc: np.ufunc,
    inputs: tuple[Operand, ...],
    outs: tuple[Dtype | None, ...],
    signature: tuple[Any, ...] | str | None = None,
    casting: str = "same_kind",
) -> _native.Rule | None:
    """Rule of ``ufunc(*inputs, out=outs, signature=signature, casting=casting)``, or None."""
    if not is_known(ufunc) and ufunc not in SPECIAL.ufuncs:
        return None
    return _call_rule(ufunc, inputs, outs, signature, casting)


def why_no_rule(
    ufunc: np.ufunc,
    inputs: tuple[Operand, ...],
    outs: tuple[Dtype | None, ...],
    signature: tuple[Any, ...] | str | None,
) -> str:
    """Why `call_rule` gave none for these, in a few words."""
    if ufunc in SPECIAL.ufuncs:
        return OTHER
    if not is_known(ufunc):
        return "a ufunc of another library, which may raise or need the interpreter lock"
    if ufunc.__name__ == "power" and len(inputs) == 2 and all(map(_is_whole, inputs)):
        return "powers of integers may raise"
    dtypes = [dtype for dtype in map(_dtype_of, inputs) if dtype is not None]
    for dtype in (*dtypes, *(out for out in outs if out is not None)):
        if not recordable(dtype):
            return f"dtype {dtype} has no kernel"
    if any(dtype.kind == "c" for dtype in dtypes) and any(o is not None for o in outs):
        return "NumPy warns where imaginary parts are discarded"
    if signature is not None:
        return "the dtype asked for has no loop, or NumPy casts to it and warns in ways of its own"
    words = (t.name if isinstance(t, np.dtype) else t.__name__ for t in inputs)
    return f"no loop for {', '.join(words)}"


def _is_whole(operand: Operand) -> bool:
    return operand is int or (isinstance(operand, np.dtype) and operand.kind in "iu")


@_cached
def _call_rule(
    ufunc: np.ufunc,
    inputs: tuple[Operand, ...],
    outs: tuple[Dtype | None, ...],
    signature: tuple[Any, ...] | str | None,
    casting: str,
) -> _native.Rule | None:
    if ufunc.signature is not None or len(inputs) != ufunc.nin:
        return None
    if casting == "equiv" and any(isinstance(operand, type) for operand in inputs):
        return None  # NumPy rejects the number, and ends its process where it is asked for the loop
    try:
        given_signature: dict[str, Any] = {} if signature is None else {"signature": signature}
        loop = ufunc.resolve_dtypes((*inputs, *outs), casting=casting, **given_signature)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None  # NumPy runs the call and raises it with its own words.
    if not all(map(recordable, loop)) or _can_raise(ufunc, loop):
        return None
    given = [_dtype_of(operand) for operand in (*inputs, *outs)]
    if not all(dtype is None or recordable(dtype) for dtype in given):
        return None
    casts_in = _casts(given[: ufunc.nin], loop[: ufunc.nin])
    casts_out = _casts(loop[ufunc.nin :], given[ufunc.nin :])
    if any(old.kind == "c" and new.kind not in "bc" for old, new in casts_in + casts_out):
        return None  # ComplexWarning
    if any(warns_on_cast(old, new) for old, new in casts_in):
        return None  # NumPy warns of the cast, or of the operation, or not at all, by the size
    lossy = any(warns_on_cast(old, new) for old, new in casts_out)
    return _native.rule(
        ufunc.__name__,
        int(Kind.MAP),
        ufunc,
        tuple(loop),
        tuple(loop[ufunc.nin :]),
        ufunc.nin,
        value_in_key=ufunc.__name__ in VALUED,
        may_warn=lossy or _may_warn(ufunc, loop),
    )


def _casts(old: Sequence[Dtype | None], new: Sequence[Dtype | None]) -> list[tuple[Dtype, Dtype]]:
    pairs = zip(old, new, strict=True)
    return [(x, y) for x, y in pairs if x is not None and y is not None]


def _dtype_of(operand: Operand | None) -> Dtype | None:
    return operand if isinstance(operand, np.dtype) else None


def warns_on_cast(old: Dtype, new: Dtype) -> bool:
    """Whether casting values from `old` to `new` can raise a floating-point flag."""
    if new.kind == "b" or np.can_cast(old, new, "safe"):
        return False
    return old.kind in "fc" or new.char == "e"  # the one float too small for integers


@_cached
def fold_rule(
    kind: Kind,
    ufunc: np.ufunc,
    array: Dtype,
    dtype: Dtype | None,
    out: Dtype | None,
) -> _native.Rule | None:
    """Rule of ``ufunc.reduce`` (Kind.REDUCE) or ``ufunc.accumulate`` (Kind.SCAN), or None.

    array : dtype of what is folded. dtype, out : the arguments of those names, None when not given.
    """
    if ufunc.__name__ not in FOLDING or not is_known(ufunc) or not recordable(array):
        return None
    try:
        given: dict[str, Any] = {} if dtype is None else {"signature": (dtype, None, None)}
        loop = ufunc.resolve_dtypes((out, array, None), reduction=True, **given)
    except (TypeError, ValueError):
        return None
    if not all(map(recordable, loop)) or (out is not None and out != loop[-1]):
        return None
    if array.kind == "c" and loop[1].kind not in "bc":
        return None
    if kind is Kind.REDUCE and ufunc is np.multiply and loop[1].kind in "fc":
        return None  # in another order than NumPy's other parts overflow, or vanish
    warns, lossy = _may_warn(ufunc, loop), warns_on_cast(array, loop[1])
    if lossy and not warns:
        return None  # NumPy warns of the cast itself
    return _native.rule(
        ufunc.__name__, int(kind), ufunc, (loop[1], loop[2]), (loop[2],), 1, may_warn=warns
    )


def reduce_rule(ufunc: np.ufunc, array: Dtype, dtype: Dtype | None) -> _native.Rule | None:
    """First meeting of ``ufunc.reduce(array, dtype=dtype)``: the C core's `fold` hook."""
    return fold_rule(Kind.REDUCE, ufunc, array, dtype, None)


@_cached
def arg_rule(name: str, dtype: Dtype) -> _native.Rule | None:
    """Rule of ``argmin`` or ``argmax`` over elements of `dtype`, or None."""
    if not recordable(dtype) or dtype.kind == "c":
        return None
    place = np.dtype(np.intp)
    return _native.rule(name, int(Kind.ARG), None, (dtype, place), (place,), 1, may_warn=False)


def copy_rule(dtype: Dtype, source: Dtype | None = None) -> _native.Rule | None:
    """Rule of copying elements of `source` (None: of `dtype`) into an array of `dtype`, or None."""
    return _copy_rule(dtype, dtype if source is None else source)


@_cached
def _copy_rule(dtype: Dtype, source: Dtype) -> _native.Rule | None:
    if not (recordable(dtype) and recordable(source)):
        return None
    if source.kind == "c" and dtype.kind not in "bc":
        return None  # ComplexWarning
    warns = warns_on_cast(source, dtype)
    loop = (source, dtype)
    return _native.rule("copy", int(Kind.MAP), None, loop, (dtype,), 1, may_warn=warns)


@_cached
def range_rule(dtype: Dtype) -> _native.Rule | None:
    """Rule of a range ``start + i * step`` of `dtype`, or None."""
    if not recordable(dtype):
        return None
    return _native.rule("iota", int(Kind.IOTA), None, (dtype,) * 3, (dtype,), 2, may_warn=False)


@_cached
def gather_rule(dtype: Dtype) -> _native.Rule | None:
    """Rule of picking elements of `dtype` by indices, or None."""
    if not recordable(dtype):
        return None
    place = np.dtype(np.intp)
    loop = (dtype, place, place, place, dtype)  # source, indices, extent, step, result
    return _native.rule(
        "take", int(Kind.GATHER), None, loop, (dtype,), 4, value_in_key=True, may_warn=False
    )


@_cached
def where_rule(dtype: Dtype) -> _native.Rule | None:
    """Rule of ``where(condition, x, y)`` with result `dtype`, or None."""
    if not recordable(dtype):
        return None
    loop = (np.dtype(np.bool_), dtype, dtype, dtype)
    return _native.rule("where", int(Kind.MAP), None, loop, (dtype,), 3, may_warn=False)
