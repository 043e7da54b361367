"""Call a function with NumPy and in `npaccel.accelerate()`, and compare all that is seen."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import npaccel

from .differential import describe

ERRORS = (
    DeprecationWarning,
    FloatingPointError,
    IndexError,
    MemoryError,
    OverflowError,
    TypeError,
    ValueError,
)


def shown(value: Any) -> Any:
    """What a program sees of `value`, as something that can be compared."""
    if isinstance(value, list | tuple):
        return type(value), [shown(part) for part in value]
    if not isinstance(value, np.ndarray):
        return type(value), repr(value)
    kind = np.ndarray if isinstance(value, npaccel.Array) else type(value)
    flags = value.flags.owndata, value.flags.writeable, value.flags.c_contiguous
    plain = np.array(value)
    # Bytes tell 0.0 from -0.0. Those of a long double or of an object say more than its value.
    values = plain.tolist() if plain.dtype.char in "gO" else plain.tobytes()
    return kind, value.dtype, value.shape, value.strides, flags, value.base is None, values


def seen(call: Callable[[], Any]) -> tuple[Any, list[Any]]:
    """What `call` gives or raises, and its warnings.

    The settings of the tests make errors of warnings, but for RuntimeWarning: each of these is
    recorded.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RuntimeWarning)
        try:
            result = shown(call())
        except ERRORS as error:
            result = type(error), str(error)
    return result, [(w.category, str(w.message), w.filename, w.lineno) for w in caught]


def same(function: Callable[..., Any], *args: Any, **named: Any) -> None:
    """Compare what `function` gives with NumPy and in `npaccel.accelerate()`.

    Parameters
    ----------
    function : makes no change to its arguments, since both calls have the same ones.
    args, named : its arguments.
    """
    expected = seen(lambda: function(*args, **named))
    with npaccel.accelerate():
        got = seen(lambda: function(*args, **named))
    assert got == expected, f"{_where(function)} ({describe((*args, *named.values()))})"


def _where(function: Callable[..., Any]) -> str:
    """The name of a function, and for one of the tests its line."""
    code = getattr(function, "__code__", None)
    name = getattr(function, "__name__", repr(function))
    return f"{name}, line {code.co_firstlineno}" if code else name
