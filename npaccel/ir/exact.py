"""Rows whose results are NumPy's, bit for bit: arithmetic, comparison, bits."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from npaccel.ir import conditions as when
from npaccel.ir.nodes import FlagKind, Fold
from npaccel.ir.operation import Masks, Op, Operands
from npaccel.ir.processor import is_aarch64
from npaccel.ir.scalar import Core, Expr, item_size
from npaccel.later import later

if TYPE_CHECKING:
    import numpy as np
else:
    np = later("numpy")

__all__ = ["EXACT", "complex_quotient", "complex_quotient_flags"]


def same(x: Expr) -> Expr:
    """The operand itself."""
    return x


def truth(x: Expr) -> Expr:
    """The operand as a condition."""
    return x.convert("b1")


def _bits(x: Expr) -> int:
    return 8 * item_size(x.dtype)


# ------------------------------------------------------------------------------------ complex


def _by_parts(body: Callable[..., Expr]) -> Callable[..., Expr]:
    def apply(*operands: Expr) -> Expr:
        x = operands[0]
        return x.pool.complex(
            body(*(o.real() for o in operands)), body(*(o.imag() for o in operands))
        )

    return apply


def _complex_multiply(x: Expr, y: Expr) -> Expr:
    a, b, c, d = x.real(), x.imag(), y.real(), y.imag()
    return x.pool.complex(a.fma(c, -(b * d)), a.fma(d, b * c))


def _smith(x: Expr, y: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    # Smith's method divides by the larger part of y; both branches are one formula after a swap:
    # (a + b*t, b - a*t) and (a*t + b, b*t - a), each times 1 / (large + small*t).
    c, d = y.real(), y.imag()
    wide = abs(c) >= abs(d)
    large, small = wide.select(c, d), wide.select(d, c)
    ratio = small / large
    scale = large.like(1.0) / (large + small * ratio)
    return wide, ratio, scale, abs(c)


def complex_quotient(x: Expr, y: Expr) -> Expr:
    """x / y by Smith's method, as NumPy."""
    a, b = x.real(), x.imag()
    wide, t, scale, size = _smith(x, y)
    re = (wide.select(a, b) + wide.select(b, a) * t) * scale
    im = wide.select(b - a * t, b * t - a) * scale
    zero = y.real().eq(0.0) & y.imag().eq(0.0)
    return x.pool.complex(zero.select(a / size, re), zero.select(b / size, im))


def complex_quotient_flags(operands: Operands, results: Operands) -> Masks:
    """What its steps warn of."""
    x, y = operands
    a, b = x.real(), x.imag()
    wide, t, scale, size = _smith(x, y)
    zero = y.real().eq(0.0) & y.imag().eq(0.0)
    leaves = (*when.parts(x), *when.parts(y))
    by_zero = when.arithmetic_masks((a / size, b / size), (*leaves, size))
    first = (wide.select(a, b) + wide.select(b, a) * t) * scale
    second = wide.select(b - a * t, b * t - a) * scale
    # Of the two differences only the chosen one may warn.
    skipped = when.arithmetic_masks((b - a * t,), (*leaves, t))
    taken = when.arithmetic_masks((b * t - a,), (*leaves, t))
    rest = when.arithmetic_masks((first, second), (*leaves, b - a * t, b * t - a))
    return (
        (FlagKind.INVALID, y.real().isnan() | y.imag().isnan()),  # from C's >= of the two
        *((kind, mask & zero) for kind, mask in by_zero),
        *((kind, mask & ~zero) for kind, mask in rest),
        *((kind, mask & ~zero & wide) for kind, mask in skipped),
        *((kind, mask & ~zero & ~wide) for kind, mask in taken),
    )


def _complex_divide_guard(operands: Operands, results: Operands) -> Expr:
    # An overflow of the denominator is not seen in a result of zero.
    scale = _smith(*operands)[2]
    re, im = when.parts(results[0])
    return re.nonfinite() | im.nonfinite() | scale.eq(0.0)


def _complex_masks(operands: Operands, results: Operands) -> Masks:
    roots = tuple(part for r in results for part in r.args)
    return when.arithmetic_masks(roots, tuple(p for x in operands for p in when.parts(x)))


def _ordered(strict: Core, last: Core) -> Callable[[Expr, Expr], Expr]:
    """Lexicographic comparison of complex numbers, as NumPy orders them."""

    def compare(x: Expr, y: Expr) -> Expr:
        a, b, c, d = x.real(), x.imag(), y.real(), y.imag()
        known = b.eq(b) & d.eq(d)
        first = a.pool.make(strict, "b1", (a, c))
        return (first & known) | (a.eq(c) & a.pool.make(last, "b1", (b, d)))

    return compare


@functools.cache
def _real_parts_first() -> bool:
    """Whether NumPy compares real parts before it looks for NaN in imaginary ones; 2.0 does not."""
    seen: list[str] = []
    with np.errstate(invalid="call", call=lambda text, _: seen.append(text)):
        np.less(np.array([complex(np.nan, np.nan)]), 1)
    return bool(seen)


if "numpy" in sys.modules:
    _real_parts_first()  # here, where no block is open


def _order_flags(operands: Operands, results: Operands) -> Masks:
    # C's < and > complain of a NaN, wherever NumPy's comparison gets to use them.
    a, b, c, d = (part for x in operands for part in when.parts(x))
    first, last = a.isnan() | c.isnan(), b.isnan() | d.isnan()
    if not _real_parts_first():
        first = first & ~last
    return ((FlagKind.INVALID, first | (a.eq(c) & last)),)


def _order_guard(operands: Operands, results: Operands) -> Expr:
    return _complex_nan(operands[0]) | _complex_nan(operands[1])


def _complex_nan(x: Expr) -> Expr:
    return x.real().isnan() | x.imag().isnan()


def _complex_pick(order: Callable[[Expr, Expr], Expr], *, first: bool) -> Callable[..., Expr]:
    """maximum and minimum (first: a NaN in x wins), fmax and fmin (a NaN in y loses)."""

    def pick(x: Expr, y: Expr) -> Expr:
        return (order(x, y) | _complex_nan(x if first else y)).select(x, y)

    return pick


_complex_ge = _ordered(Core.GT, Core.GE)
_complex_le = _ordered(Core.LT, Core.LE)

# The same bits as NumPy where it has fused multiply-add (x86-64-v3 and later), as its vector
# code then contracts these products; elsewhere within this of it, relative to the absolute value.
# (Its plain loop, which c8 of negative stride gets, does not: record.c leaves such ones to it.)
_PRODUCT_ULP = 2

_COMPLEX = (
    Op("add", 2, 1, "c", _by_parts(lambda x, y: x + y), Fold.SUM, _complex_masks,
       propagates=(True, True)),
    Op("subtract", 2, 1, "c", _by_parts(lambda x, y: x - y), None, _complex_masks,
       propagates=(True, True)),
    # No fold: from 1+0j on, infinities would become NaN where NumPy's do not.
    Op("multiply", 2, 1, "c", _complex_multiply, None, _complex_masks,
       propagates=(True, True), ulp=_PRODUCT_ULP),
    Op("square", 1, 1, "c", lambda x: _complex_multiply(x, x), None, _complex_masks,
       propagates=(True,), ulp=_PRODUCT_ULP),
    Op("divide", 2, 1, "c", complex_quotient, None, complex_quotient_flags, _complex_divide_guard,
       propagates=(True, False), ahead=("c8", "c16")),
    Op("negative", 1, 1, "c", _by_parts(Expr.flipped), propagates=(True,), ahead=("c8", "c16")),
    Op("conjugate", 1, 1, "c", lambda x: x.pool.complex(x.real(), x.imag().flipped()),
       propagates=(True,)),
    Op("rint", 1, 1, "c", _by_parts(lambda x: x.unary(Core.RINT)), propagates=(True,)),
    Op("equal", 2, 1, "c", lambda x, y: x.real().eq(y.real()) & x.imag().eq(y.imag())),
    Op("not_equal", 2, 1, "c", lambda x, y: x.real().ne(y.real()) | x.imag().ne(y.imag())),
    Op("less", 2, 1, "c", _ordered(Core.LT, Core.LT), None, _order_flags,
       _order_guard),
    Op("less_equal", 2, 1, "c", _complex_le, None, _order_flags, _order_guard),
    Op("greater", 2, 1, "c", _ordered(Core.GT, Core.GT), None, _order_flags,
       _order_guard),
    Op("greater_equal", 2, 1, "c", _complex_ge, None, _order_flags, _order_guard),
    Op("maximum", 2, 1, "c", _complex_pick(_complex_ge, first=True)),
    Op("minimum", 2, 1, "c", _complex_pick(_complex_le, first=True)),
    Op("fmax", 2, 1, "c", _complex_pick(_complex_ge, first=False)),
    Op("fmin", 2, 1, "c", _complex_pick(_complex_le, first=False)),
    Op("isnan", 1, 1, "c", _complex_nan),
    Op("isinf", 1, 1, "c", lambda x: when.is_infinite(x.real()) | when.is_infinite(x.imag())),
    Op("isfinite", 1, 1, "c", lambda x: when.finite(x.real()) & when.finite(x.imag())),
    Op("sign", 1, 1, "c", None),
    Op("reciprocal", 1, 1, "c", None),
    Op("clip", 3, 1, "c", None),
)  # fmt: skip

# ----------------------------------------------------------------------------------- integers


def _safe_divisor(x: Expr, y: Expr) -> Expr:
    # x / 1 is x, which is what NumPy gives for the most negative number by -1.
    bad = y.eq(0)
    if x.dtype[0] == "i":
        bad = bad | (x.eq(-(1 << (_bits(x) - 1))) & y.eq(-1))
    return bad.select(y.like(1), y)


def _integer_divmod(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    divisor = _safe_divisor(x, y)
    quotient = x / divisor
    rest = x - quotient * divisor
    if x.dtype[0] == "i":
        down = rest.ne(0) & ((rest ^ divisor) < 0)
        quotient = quotient - down.convert(x.dtype)
        rest = down.select(rest + divisor, rest)
    zero = y.eq(0)
    return zero.select(x.like(0), quotient), zero.select(x.like(0), rest)


def _integer_fmod(x: Expr, y: Expr) -> Expr:
    divisor = _safe_divisor(x, y)
    return y.eq(0).select(x.like(0), x - (x / divisor) * divisor)


def _left_shift(x: Expr, y: Expr) -> Expr:
    inside = y.bitcast(f"u{item_size(y.dtype)}") < _bits(x)
    return inside.select(x.binary(Core.SHL, inside.select(y, 0)), 0)


def _right_shift(x: Expr, y: Expr) -> Expr:
    last = _bits(x) - 1
    unsigned = y.bitcast(f"u{item_size(y.dtype)}")
    if x.dtype[0] == "i":
        return x.binary(Core.ASHR, (unsigned <= last).select(y, last))
    inside = unsigned <= last
    return inside.select(x.binary(Core.LSHR, inside.select(y, 0)), 0)


_CHEAP_POWER_BITS = 6


def _integer_power(x: Expr, y: Expr) -> Expr:
    # By squaring, as NumPy; products wrap. A negative exponent is an error that the caller has
    # ruled out. Exponents past 63 are rare.
    result, square = x.like(1), x
    cheap = result
    for bit in range(_bits(x)):
        taken = (y & (1 << bit if bit < _bits(x) - 1 else _top_bit(x))).ne(0)
        result = taken.select(result * square, result)
        square = square * square
        if bit == _CHEAP_POWER_BITS - 1:
            cheap = result
    exponent = y.bitcast(f"u{item_size(y.dtype)}")
    return (exponent >= 1 << _CHEAP_POWER_BITS).rare(result, cheap)


def _top_bit(x: Expr) -> int:
    return -(1 << (_bits(x) - 1)) if x.dtype[0] == "i" else 1 << (_bits(x) - 1)


def _bit_count(x: Expr) -> Expr:
    if x.dtype[0] == "i":
        x = (x < 0).select(-x, x)
    return x.unary(Core.POPCOUNT).convert("u1")


def _sign(x: Expr) -> Expr:
    positive = (x > 0).convert(x.dtype)
    return positive if x.dtype[0] == "u" else (x < 0).select(x.like(-1), positive)


_INTEGER = (
    Op("floor_divide", 2, 1, "iu", lambda x, y: _integer_divmod(x, y)[0], None,
       when.integer_division, when.integer_guard, ahead=("i4",)),
    Op("remainder", 2, 1, "iu", lambda x, y: _integer_divmod(x, y)[1], None,
       when.integer_remainder, when.integer_guard, ahead=("i4",)),
    Op("divmod", 2, 2, "iu", _integer_divmod, None,
       when.integer_division, when.integer_guard),
    Op("fmod", 2, 1, "iu", _integer_fmod, None,
       when.integer_remainder, when.integer_guard, ahead=("i4",)),
    Op("power", 2, 1, "iu", _integer_power),
    Op("reciprocal", 1, 1, "iu", None, warns="iu"),  # of 0 undefined in C: NumPy's own loop
    Op("left_shift", 2, 1, "iu", _left_shift),
    Op("right_shift", 2, 1, "iu", _right_shift),
    Op("bitwise_count", 1, 1, "iu", _bit_count),
    Op("sign", 1, 1, "iu", _sign),
    Op("absolute", 1, 1, "i", lambda x: (x < 0).select(-x, x)),
    Op("absolute", 1, 1, "bu", same),
    Op("gcd", 2, 1, "iu", None),  # a loop of data-dependent length
    Op("lcm", 2, 1, "iu", None),
    Op("add", 2, 1, "iu", lambda x, y: x + y, Fold.SUM),
    Op("subtract", 2, 1, "iu", lambda x, y: x - y),
    Op("multiply", 2, 1, "iu", lambda x, y: x * y, Fold.PRODUCT),
    Op("negative", 1, 1, "iu", lambda x: -x),
    Op("square", 1, 1, "iu", lambda x: x * x),
    Op("maximum", 2, 1, "iu", lambda x, y: (x >= y).select(x, y), Fold.MAX),
    Op("minimum", 2, 1, "iu", lambda x, y: (x <= y).select(x, y), Fold.MIN),
    Op("fmax", 2, 1, "iu", lambda x, y: (x >= y).select(x, y), Fold.MAX),
    Op("fmin", 2, 1, "iu", lambda x, y: (x <= y).select(x, y), Fold.MIN),
    Op("floor", 1, 1, "biu", same),
    Op("ceil", 1, 1, "biu", same),
    Op("trunc", 1, 1, "biu", same),
    Op("conjugate", 1, 1, "iuf", same, warns=""),
    Op("bitwise_and", 2, 1, "biu", lambda x, y: x & y, Fold.AND),
    Op("bitwise_or", 2, 1, "biu", lambda x, y: x | y, Fold.OR),
    Op("bitwise_xor", 2, 1, "biu", lambda x, y: x ^ y, Fold.XOR),
    Op("invert", 1, 1, "biu", lambda x: ~x),
    Op("isnan", 1, 1, "biu", lambda x: x.pool.const("b1", False)),
    Op("isinf", 1, 1, "biu", lambda x: x.pool.const("b1", False)),
    Op("isfinite", 1, 1, "biu", lambda x: x.pool.const("b1", True)),
)  # fmt: skip

# --------------------------------------------------------------------------------------- bool

_BOOL = (
    Op("add", 2, 1, "b", lambda x, y: x | y, Fold.OR),
    Op("multiply", 2, 1, "b", lambda x, y: x & y, Fold.AND),
    Op("maximum", 2, 1, "b", lambda x, y: x | y, Fold.OR),
    Op("minimum", 2, 1, "b", lambda x, y: x & y, Fold.AND),
    Op("fmax", 2, 1, "b", lambda x, y: x | y, Fold.OR),
    Op("fmin", 2, 1, "b", lambda x, y: x & y, Fold.AND),
)

# ---------------------------------------------------------------------------------- any kind


def _clip(x: Expr, low: Expr, high: Expr) -> Expr:
    if x.dtype == "b1":
        return (x | low) & high
    if x.dtype[0] != "f":
        x = (x > low).select(x, low)
        return (x < high).select(x, high)
    x = ((x > low) | x.isnan()).select(x, low)
    return ((x < high) | x.isnan()).select(x, high)


def _mixed(op: Core) -> Callable[[Expr, Expr], Expr]:
    """Comparison of real operands; of i8 with u8 by value."""

    def compare(x: Expr, y: Expr) -> Expr:
        pool = x.pool
        if x.dtype == y.dtype:
            return pool.make(op, "b1", (x, y))
        plain = pool.make(op, "b1", (x.convert("u8"), y.convert("u8")))
        signed = x if x.dtype == "i8" else y
        below = op in (Core.NE, Core.LT, Core.LE) if signed is x else op in (
            Core.NE, Core.GT, Core.GE
        )  # fmt: skip
        return (signed < 0).select(pool.const("b1", below), plain)

    return compare


_ANY = (
    Op("equal", 2, 1, "biuf", _mixed(Core.EQ), warns=""),
    Op("not_equal", 2, 1, "biuf", _mixed(Core.NE), warns=""),
    Op("less", 2, 1, "biuf", _mixed(Core.LT), warns=""),
    Op("less_equal", 2, 1, "biuf", _mixed(Core.LE), warns=""),
    Op("greater", 2, 1, "biuf", _mixed(Core.GT), warns=""),
    Op("greater_equal", 2, 1, "biuf", _mixed(Core.GE), warns=""),
    Op("logical_and", 2, 1, "biufc", lambda x, y: truth(x) & truth(y), Fold.AND,
       warns="c", ahead=("f4", "f8")),
    Op("logical_or", 2, 1, "biufc", lambda x, y: truth(x) | truth(y), Fold.OR,
       warns="c", ahead=("f4", "f8")),
    Op("logical_xor", 2, 1, "biufc", lambda x, y: truth(x) ^ truth(y),
       warns="c", ahead=("f4", "f8")),
    Op("logical_not", 1, 1, "biufc", lambda x: ~truth(x), warns="c", ahead=("f4", "f8")),
    Op("positive", 1, 1, "iufc", same, propagates=(True,), warns="c"),
    Op("_ones_like", 1, 1, "biufc", lambda x: x.like(1)),
    Op("where", 3, 1, "b", lambda c, x, y: c.select(x, y)),
    Op("clip", 3, 1, "biuf", _clip),
    Op("argmin", 1, 1, "biuf", None, Fold.ARGMIN),
    Op("argmax", 1, 1, "biuf", None, Fold.ARGMAX),
)  # fmt: skip

# --------------------------------------------------------------------------------- real floats


def _pick(order: Core, *, first: bool) -> Callable[[Expr, Expr], Expr]:
    """maximum and minimum (first: a NaN in x wins), fmax and fmin (a NaN in y loses).

    Of 0.0 and -0.0 NumPy takes the second operand, as x86 does, or the higher and the lower one, as
    aarch64; of f2 the first.
    """

    def pick(x: Expr, y: Expr) -> Expr:
        better = x.pool.make(order, "b1", (x, y))
        if x.dtype == "f2":
            better = better | x.eq(y)
        elif is_aarch64():
            negative = x.bitcast(f"i{x.dtype[1:]}") < 0
            better = better | (x.eq(y) & (negative if order is Core.LT else ~negative))
        return (better | (x if first else y).isnan()).select(x, y)

    return pick


_REAL = (
    Op("add", 2, 1, "f", lambda x, y: x + y, Fold.SUM, when.arithmetic, propagates=(True, True)),
    Op("subtract", 2, 1, "f", lambda x, y: x - y, None, when.arithmetic, propagates=(True, True)),
    Op("multiply", 2, 1, "f", lambda x, y: x * y, None, when.arithmetic, propagates=(True, True)),
    Op("divide", 2, 1, "f", lambda x, y: x / y, None, when.division, propagates=(True, False)),
    Op("negative", 1, 1, "f", Expr.flipped, propagates=(True,), warns=""),
    Op("absolute", 1, 1, "f", abs, propagates=(True,), warns=""),
    Op("fabs", 1, 1, "f", abs, propagates=(True,), warns="", ahead=("f4", "f8")),
    Op("square", 1, 1, "f", lambda x: x * x, None, when.overflow, propagates=(True,)),
    Op("reciprocal", 1, 1, "f", lambda x: x.like(1.0) / x, None,
       lambda a, r: when.division((a[0].like(1.0), a[0]), r), ahead=("f4", "f8")),
    Op("sqrt", 1, 1, "f", lambda x: x.unary(Core.SQRT), None,
       when.one(FlagKind.INVALID, lambda x: x < 0.0), propagates=(True,), ahead=("f4", "f8")),
    Op("maximum", 2, 1, "f", _pick(Core.GT, first=True), Fold.MAX, warns="", ahead=("f4", "f8")),
    Op("minimum", 2, 1, "f", _pick(Core.LT, first=True), Fold.MIN, warns="", ahead=("f4", "f8")),
    Op("fmax", 2, 1, "f", _pick(Core.GT, first=False), Fold.FMAX, warns="", ahead=("f4", "f8")),
    Op("fmin", 2, 1, "f", _pick(Core.LT, first=False), Fold.FMIN, warns="", ahead=("f4", "f8")),
    Op("isnan", 1, 1, "f", lambda x: x.isnan(), warns=""),
    Op("isinf", 1, 1, "f", when.is_infinite, warns=""),
    Op("isfinite", 1, 1, "f", when.finite, warns=""),
    Op("floor", 1, 1, "f", lambda x: x.unary(Core.FLOOR), propagates=(True,)),
    Op("ceil", 1, 1, "f", lambda x: x.unary(Core.CEIL), propagates=(True,)),
    Op("trunc", 1, 1, "f", lambda x: x.unary(Core.TRUNC), propagates=(True,)),
    Op("rint", 1, 1, "f", lambda x: x.unary(Core.RINT), propagates=(True,)),
)  # fmt: skip

EXACT = (*_BOOL, *_INTEGER, *_REAL, *_COMPLEX, *_ANY)
