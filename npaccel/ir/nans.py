"""Signs of NaNs: what is made of which operands, as NumPy does it on this processor.

See Note [Signs of NaNs].
"""

from __future__ import annotations

import math
from collections.abc import Callable

from npaccel.ir.differences import FLIPPED, KEPT, OUTSIDE, POSITIVE, answer
from npaccel.ir.processor import is_aarch64
from npaccel.ir.scalar import Core, Expr

__all__ = [
    "FLIPPED",
    "INVALID",
    "KEPT",
    "NAN",
    "POSITIVE",
    "flips_odd_powers",
    "like_numpys",
    "made_as_numpys",
    "passed",
    "positive_absolute",
    "signed",
]

NAN = float("nan")
# What the processor makes of an invalid operation: on x86 its sign is negative.
_NEGATIVE = not is_aarch64()
INVALID = math.copysign(NAN, -1.0 if _NEGATIVE else 1.0)


def passed(name: str, dtype: str) -> int:
    """What NumPy's function of that name does with NaNs of that dtype: KEPT, POSITIVE, FLIPPED."""
    return answer(f"nan {name} {dtype}")


def like_numpys(name: str, x: Expr, result: Expr) -> Expr:
    """`result` of the function at x, which keeps a NaN's sign, with the sign that NumPy's gives."""
    how, result = passed(name, x.dtype), made_as_numpys(name, x, result)
    if how == KEPT:
        return result
    return x.isnan().rare(abs(x) if how == POSITIVE else x.flipped(), result)


def made_as_numpys(name: str, x: Expr, result: Expr) -> Expr:
    """`result` of the function at x; NaN where it has no value has the sign that NumPy's has."""
    if name in OUTSIDE and _NEGATIVE and answer(f"nan-made {name} {x.dtype}"):
        return (result.isnan() & ~x.isnan()).rare(abs(result), result)
    return result


def flips_odd_powers(name: str, dtype: str, exponent: float = 3.0) -> bool:
    """Whether an odd power of a negative NaN is a positive one; those but 1 and -1 are alike."""
    asked = exponent if abs(exponent) == 1.0 else 3.0
    return bool(answer(f"nan-odd-power {name} {dtype} {asked:g}"))


def positive_absolute(dtype: str) -> bool:
    """Whether the absolute value of a complex number with negative NaNs is a positive one."""
    return bool(answer(f"nan-absolute {dtype}"))


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
# for functions whose loops in NumPy say otherwise on this processor, which are asked
# (differences.py), as are those for which NumPy calls the C library there, which makes NaNs of its
# own.
#
# Where two NaNs of different signs meet in one operation (complex ones are made of several), the
# one that stays is the first operand of an instruction, and compilers exchange those as they like:
# NumPy's own loops differ there (complex sums by their layout, fmax by their length). Kernels
# promise nothing then. Nor do devices whose arithmetic makes other NaNs.
#
# LLVM takes a NaN's sign for nobody's business: x + -y becomes x - y, -(x * y) becomes -x * y. A
# `negative` of the user's is therefore a FLIP, which nothing is folded into; NEG is for bodies
# whose result does not show it.
