"""Rows of the mathematical functions: not NumPy's bits, but within `ulp` of the exact result.

f4 is computed in f4 (`singles`); f2, and f4 where it has no such body, in f8 with shorter
polynomials and rounded once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from npaccel.ir import conditions as when
from npaccel.ir import logarithms, powers
from npaccel.ir.complex_powers import COMPLEX_POWER
from npaccel.ir.complexes import COMPLEX
from npaccel.ir.differences import answer
from npaccel.ir.nans import flips_odd_powers, positive_absolute
from npaccel.ir.nodes import FlagKind
from npaccel.ir.operation import Body, FlagRule, GuardRule, Masks, Op, Operands
from npaccel.ir.precision import by_f8
from npaccel.ir.scalar import Core, Expr
from npaccel.ir.singles import exponentials as expo
from npaccel.ir.singles import logarithms as logs
from npaccel.ir.singles import powers as roots
from npaccel.ir.singles import trigonometry as turns

__all__ = [
    "HALF_POWER",
    "LOW_FLOAT_POWER",
    "LOW_POWER",
    "MATHEMATICS",
    "SINGLE_POWER",
    "WHOLE_FLOAT_POWER",
    "WHOLE_POWER",
]

BOTH = (True, True)
ONE = (True,)


def _row(
    name: str,
    body: Body,
    ulp: int,
    flags: FlagRule | None = None,
    *,
    propagates: tuple[bool, ...] = (),
    nin: int = 1,
    guard: GuardRule | None = None,
) -> Op:
    return Op(name, nin, 1, "f", body, None, flags, guard, propagates, ulp)


def _power(name: str) -> Callable[[Expr, Expr], Expr]:
    """A power with the sign of NaN that NumPy's `name` has."""

    def power(x: Expr, y: Expr) -> Expr:
        flips = flips_odd_powers(name, x.dtype)
        if x.dtype == "f4":
            return roots.power(x, y, flips=flips)
        return by_f8(functools.partial(powers.power, flips=flips))(x, y)

    return power


def _whole_power(name: str) -> Op:
    """What a power with a constant whole exponent becomes (rewrite.py); no name of NumPy's."""

    def power(x: Expr, y: Expr) -> Expr:
        result = powers.whole_power(x, y)
        assert isinstance(y.attr, float)
        flips = y.attr % 2 == 1 and flips_odd_powers(name, x.dtype, y.attr)
        return x.isnan().rare(abs(x), result) if flips else result

    return Op(f"whole {name}", 2, 1, "f", power, None, _power_masks,
              propagates=BOTH, ulp=1)  # fmt: skip


def _low_power(name: str) -> Op:
    """The same of the exponents 0 and -1; neither is infinite wherever its base is."""

    def power(x: Expr, y: Expr) -> Expr:
        if y.attr == 0:
            return x.like(1.0)
        result = x.like(1.0) / x
        flips = flips_odd_powers(name, x.dtype, -1.0)
        return x.isnan().rare(abs(x), result) if flips else result

    return Op(f"low {name}", 2, 1, "f", power, None, _power_masks)


def _pole(at: float) -> FlagRule:
    """Of a logarithm with its pole at `at`: divide there, invalid below."""

    def masks(operands: Operands, results: Operands) -> Masks:
        (x,) = operands
        return (FlagKind.DIVIDE, x.eq(at)), (FlagKind.INVALID, x < at)

    return masks


_infinite_invalid = when.one(FlagKind.INVALID, when.is_infinite)
_outside_one_invalid = when.one(FlagKind.INVALID, lambda x: abs(x) > 1.0)
_below_one_invalid = when.one(FlagKind.INVALID, lambda x: x < 1.0)


def _difference_overflows(x: Expr, y: Expr) -> Expr:
    if x.dtype == "f2":
        return x.pool.const("b1", False)  # NumPy subtracts in f4
    return when.is_infinite(x - y) & when.finite(x) & when.finite(y)


def _sum_masks(operands: Operands, results: Operands) -> Masks:
    # NumPy subtracts the operands and compares the difference, which complains of a NaN.
    x, y = operands
    return (
        (FlagKind.OVER, _difference_overflows(x, y)),
        (FlagKind.INVALID, x.isnan() | y.isnan()),
    )


def _sum_guard(operands: Operands, results: Operands) -> Expr:
    return results[0].nonfinite() | _difference_overflows(*operands)


def _arctanh_masks(operands: Operands, results: Operands) -> Masks:
    a = abs(operands[0])
    return (FlagKind.DIVIDE, a.eq(1.0)), (FlagKind.INVALID, a > 1.0)


def _power_masks(operands: Operands, results: Operands) -> Masks:
    x, y = operands
    over = when.is_infinite(results[0]) & when.finite(x) & when.finite(y) & x.ne(0.0)
    rounded = y.unary(Core.RINT)
    broken = (y < rounded) | (y > rounded)  # neither whole nor a NaN
    # For infinite exponents NumPy's warnings depend on the machine; IEEE 754 has none there.
    pole = x.eq(0.0) & (y < 0.0) & when.finite(y)
    return (
        (FlagKind.DIVIDE, pole),
        (FlagKind.OVER, over),
        (FlagKind.INVALID, (x < 0.0) & when.finite(x) & broken),
    )


def _ratio(over: float, under: float) -> Body:
    """x * (over / under), the quotient rounded in the dtype of the computation, as NumPy's."""

    def body(x: Expr) -> Expr:
        wide = x.convert("f4") if x.dtype == "f2" else x
        return (wide * (wide.like(over) / wide.like(under))).convert(x.dtype)

    return body


WHOLE_POWER, WHOLE_FLOAT_POWER = _whole_power("power"), _whole_power("float_power")
LOW_POWER, LOW_FLOAT_POWER = _low_power("power"), _low_power("float_power")

# What a power with the exponent 0.5 becomes where NumPy's loop takes a root: unlike a power's,
# that of -0.0 is -0.0, and that of -inf a NaN.
HALF_POWER = Op(
    "half power", 2, 1, "f", lambda x, _: x.unary(Core.SQRT), None,
    when.one(FlagKind.INVALID, lambda x, _: x < 0.0), propagates=BOTH,
)  # fmt: skip


def _single_power(x: Expr, y: Expr) -> Expr:
    return y.eq(0.5).select(x.unary(Core.SQRT), _power("power")(x, y))


def _single_power_masks(operands: Operands, results: Operands) -> Masks:
    x, y = operands
    return *_power_masks(operands, results), (FlagKind.INVALID, y.eq(0.5) & x.eq(-math.inf))


# The same where the exponent is one number, but known only when the kernel runs.
SINGLE_POWER = Op(
    "single power", 2, 1, "f", _single_power, None, _single_power_masks,
    propagates=BOTH, ulp=1,
)  # fmt: skip

_DEGREES, _RADIANS = _ratio(180.0, math.pi), _ratio(math.pi, 180.0)


def _complex_absolute(x: Expr) -> Expr:
    a, b = x.real(), x.imag()
    body = functools.partial(powers.hypot, positive=positive_absolute(a.dtype))
    return by_f8(body)(a, b)


def _absolute_masks(operands: Operands, results: Operands) -> Masks:
    return () if answer("quiet-absolute") else when.overflow(operands, results)


MATHEMATICS = (
    _row("exp", expo.exp, 1, when.overflow),
    _row("exp2", expo.exp2, 1, when.overflow),
    _row("expm1", expo.expm1, 2, when.overflow),
    _row("log", logs.log, 1, _pole(0.0), propagates=ONE),
    _row("log2", logs.log2, 1, _pole(0.0), propagates=ONE),
    _row("log10", logs.log10, 1, _pole(0.0), propagates=ONE),
    _row("log1p", logs.log1p, 1, _pole(-1.0), propagates=ONE),
    _row("sin", turns.sin, 1, _infinite_invalid, propagates=ONE),
    _row("cos", turns.cos, 1, _infinite_invalid, propagates=ONE),
    _row("tan", turns.tan, 3, _infinite_invalid, propagates=ONE),
    _row("arcsin", turns.arcsin, 2, _outside_one_invalid, propagates=ONE),
    _row("arccos", turns.arccos, 2, _outside_one_invalid, propagates=ONE),
    _row("arctan", turns.arctan, 2),
    _row("arctan2", turns.arctan2, 2, nin=2),
    _row("sinh", expo.sinh, 3, when.overflow, propagates=ONE),
    _row("cosh", expo.cosh, 2, when.overflow, propagates=ONE),
    _row("tanh", expo.tanh, 3),
    _row("arcsinh", logs.arcsinh, 2, propagates=ONE),
    _row("arccosh", logs.arccosh, 2, _below_one_invalid, propagates=ONE),
    _row("arctanh", logs.arctanh, 2, _arctanh_masks, propagates=ONE),
    _row("cbrt", roots.cbrt, 1, propagates=ONE),
    Op("power", 2, 1, "f", _power("power"), None, _power_masks, ulp=1),
    Op("float_power", 2, 1, "f", _power("float_power"), None, _power_masks, ulp=1),
    _row("hypot", by_f8(powers.hypot), 1, when.overflow, propagates=BOTH, nin=2),
    _row("logaddexp", by_f8(logarithms.logaddexp), 2, _sum_masks, nin=2, guard=_sum_guard),
    _row("logaddexp2", by_f8(logarithms.logaddexp2), 3, _sum_masks, nin=2, guard=_sum_guard),
    Op("absolute", 1, 1, "c", _complex_absolute, None,
       _absolute_masks, propagates=ONE, ulp=1),
    Op("degrees", 1, 1, "f", _DEGREES, None, when.overflow, propagates=ONE),
    Op("rad2deg", 1, 1, "f", _DEGREES, None, when.overflow, propagates=ONE),
    Op("radians", 1, 1, "f", _RADIANS, propagates=ONE),
    Op("deg2rad", 1, 1, "f", _RADIANS, propagates=ONE),
    *COMPLEX,
    # NumPy's own complex functions, with all their branch cuts.
    *(Op(name, 1, 1, "c", None) for name in
      ("exp2", "expm1", "log1p",
       "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh")),
    COMPLEX_POWER,
    Op("float_power", 2, 1, "c", None),
)  # fmt: skip
