"""Signs of NaNs: what is made of which operands, as NumPy does it on this processor.

See Note [Signs of NaNs].
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from npaccel.ir.scalar import Core, Expr

__all__ = [
    "INVALID",
    "NAN",
    "Passed",
    "flips_odd_powers",
    "like_numpys",
    "passed",
    "positive_absolute",
    "signed",
]

NAN = float("nan")
_INF = float("inf")
# What this processor makes of an invalid operation: on x86 its sign is negative.
INVALID = _INF - _INF
_NEGATIVE = math.copysign(1.0, INVALID) < 0


class Passed(enum.Enum):
    """What a function of one operand makes of a NaN's sign."""

    KEPT = enum.auto()
    POSITIVE = enum.auto()
    FLIPPED = enum.auto()


_DTYPES = {"f2": np.float16, "f4": np.float32, "f8": np.float64}


def _nans(dtype: str) -> np.ndarray[Any, Any]:
    """As many as NumPy's vector loops take, a positive and a negative one in turn."""
    return np.array([NAN, math.copysign(NAN, -1.0)] * 16, _DTYPES[dtype])


@functools.cache
def passed(name: str, dtype: str) -> Passed:
    """What NumPy's function of that name does with NaNs of that dtype."""
    with np.errstate(all="ignore"):
        signs = np.signbit(getattr(np, name)(_nans(dtype)))
    if not signs.any():
        return Passed.POSITIVE
    return Passed.FLIPPED if signs[0::2].all() and not signs[1::2].any() else Passed.KEPT


def like_numpys(name: str, x: Expr, result: Expr) -> Expr:
    """`result` of the function at x, which keeps a NaN's sign, with the sign that NumPy's gives."""
    how = passed(name, x.dtype)
    if how is Passed.KEPT:
        return result
    return x.isnan().rare(abs(x) if how is Passed.POSITIVE else x.flipped(), result)


@functools.cache
def flips_odd_powers(name: str, dtype: str) -> bool:
    """Whether an odd power of a negative NaN is a positive one, as glibc has it."""
    with np.errstate(all="ignore"):
        return not np.signbit(getattr(np, name)(_nans(dtype), _DTYPES[dtype](3.0))).any()


@functools.cache
def positive_absolute(dtype: str) -> bool:
    """Whether the absolute value of a complex number with negative NaNs is a positive one."""
    x = np.zeros(32, f"c{2 * int(dtype[1:])}")
    x.real = _nans(dtype)
    with np.errstate(all="ignore"):
        return not np.signbit(np.absolute(x)).any()


def signed(result: Expr, x: Expr, outside: Callable[[Expr], Expr]) -> Expr:
    """`result`, which is a NaN that the processor made where `outside` is true of x and else not
    negative, with the sign of x where it is finite or x is a NaN."""
    if not _NEGATIVE:
        return outside(x).rare(x.like(INVALID), result.binary(Core.COPYSIGN, x))
    integer = f"i{x.dtype[1:]}"
    bits = x.bitcast(integer)
    sign = bits & -(1 << (8 * int(x.dtype[1:]) - 1))
    return (result.bitcast(integer) | sign).bitcast(x.dtype)


# Note [Signs of NaNs]
#
# Python shows no NaN's sign, but np.signbit, copysign and a result's bytes do. What NumPy does at
# once, or a touch evaluates, has the sign that NumPy's loop gives; so kernels give it, too. A NaN
# made of other operands is the processor's own (INVALID). One that is passed on keeps its sign, but
# for functions whose loops in NumPy say otherwise on this processor, which are asked.
#
# Where two NaNs of different signs meet in one operation (complex ones are made of several), the
# one that stays is the first operand of an instruction, and compilers exchange those as they like:
# NumPy's own loops differ there (complex sums by their layout, fmax by their length). Kernels
# promise nothing then. Nor do devices whose arithmetic makes other NaNs.
#
# LLVM takes a NaN's sign for nobody's business: x + -y becomes x - y, -(x * y) becomes -x * y. A
# `negative` of the user's is therefore a FLIP, which nothing is folded into; NEG is for bodies
# whose result does not show it.
