"""Bodies of the trigonometric functions and their inverses, in f8.

With q = rint(x * 2 / pi) and r = x - q * pi/2 as a sum of two floats, sin and cos are plus or
minus sin(r) or cos(r). Up to 2**28 the reduction takes three parts of pi/2; farther out it
multiplies by the right bits of 2/pi in integers (Payne and Hanek), in a part that is rare.
"""

from __future__ import annotations

from fractions import Fraction

from npaccel.ir import coefficients as c
from npaccel.ir.exponentials import MAGIC
from npaccel.ir.nans import FLIPPED, KEPT, signed
from npaccel.ir.precision import (
    INF,
    Pair,
    fast_two_sum,
    horner,
    keep_sign,
    root,
    two_product,
    two_sum,
)
from npaccel.ir.scalar import Core, Expr

__all__ = [
    "NEAR",
    "arccos",
    "arcsin",
    "arctan",
    "arctan2",
    "arctan_pair",
    "cos",
    "sin",
    "tan",
    "turned",
]

INV_PIO2 = float.fromhex("0x1.45f306dc9c883p-1")
PIO2 = tuple(
    float.fromhex(text)
    for text in ("0x1.921fb54442d18p+0", "0x1.1a62633145c07p-54", "-0x1.f1976b7ed8fbcp-110")
)
NEAR = 2.0**28

# The bits of 2/pi after the point, after 64 zeros.
TWO_OVER_PI = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041,
    0xFE5163ABDEBBC561, 0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B, 0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB,
    0xF0CFBC209AF4361D, 0xA9E391615EE61B08,
)  # fmt: skip


def _reduce(x: Expr, *, fine: bool) -> tuple[Expr, Pair]:
    """(q, r) for |x| < 2**28; q as i8, right in its low bits."""
    marked = x.fma(INV_PIO2, MAGIC)
    minus = -(marked - MAGIC)  # of a zero, -0.0: it keeps the sign of x
    start = minus.fma(PIO2[0], x)  # exact
    if not fine:
        return marked.bitcast("i8"), (minus.fma(PIO2[1], start), start.like(0.0))
    # Near a multiple of pi/2 the sum cancels: every rounding error must be kept. `start` is a
    # multiple of 2**-53, hence of the last place of `step`.
    step, lost = two_product(minus, PIO2[1])
    high, low = fast_two_sum(start, step)
    return marked.bitcast("i8"), (high, minus.fma(PIO2[2], low + lost))


def _words(index: Expr, count: int) -> list[Expr]:
    """TWO_OVER_PI[index : index + count], by halving; index (u8) at most 31."""
    words = [index.like(w) for w in TWO_OVER_PI]
    for step in (16, 8, 4, 2, 1):
        taken = (index & step).ne(0)
        words = words[: count + 2 * step - 1]
        words = [
            taken.select(words[i + step], words[i]) if i + step < len(words) else words[i]
            for i in range(min(len(words), count + step - 1))
        ]
    return words[:count]


def _reduce_far(x: Expr) -> tuple[Expr, Pair]:
    """(q, r) for |x| >= 2**28; NaN and infinities give some finite r."""
    bits = x.bitcast("u8")
    exponent = bits.binary(Core.LSHR, 52) & 0x7FF
    digits = (bits & (2**52 - 1)) | 2**52
    # |x| = digits * 2**(exponent - 1075). Bits of 2/pi so high that they only add multiples of 4
    # are left out: exponent - 1075 - 2 of them, and 64 zeros stand before.
    skip = exponent - (1075 + 2 - 64)
    w = _words(skip.binary(Core.LSHR, 6), 4)
    left = skip & 63
    a = [
        w[i].binary(Core.SHL, left) | w[i + 1].binary(Core.LSHR, 1).binary(Core.LSHR, (left ^ 63))
        for i in range(3)
    ]
    # The low three words of digits * a; a point stands after the first two bits.
    one = digits.binary(Core.MULHI, a[2])
    middle = digits * a[1]
    w1 = middle + one
    carry = (w1 < middle).convert("u8")
    w2 = digits * a[0] + digits.binary(Core.MULHI, a[1]) + carry
    w0 = digits * a[2]
    top = w2.binary(Core.SHL, 2) | w1.binary(Core.LSHR, 62)
    rest = w1.binary(Core.SHL, 2) | w0.binary(Core.LSHR, 62)
    # As a signed fraction, in [-1/2, 1/2).
    q = (w2.binary(Core.LSHR, 62) + top.binary(Core.LSHR, 63)).bitcast("i8")
    signed = top.bitcast("i8")
    coarse = signed & ~0x7FF
    fraction, below = fast_two_sum(
        coarse.convert("f8") * 2.0**-64,
        (signed - coarse).convert("f8") * 2.0**-64 + rest.convert("f8") * 2.0**-128,
    )
    high = fraction * PIO2[0]
    low = fraction.fma(PIO2[0], -high) + fraction.fma(PIO2[1], below * PIO2[0])
    high, low = fast_two_sum(high, low)
    negative = x < 0.0
    return negative.select(-q, q), (negative.select(-high, high), negative.select(-low, low))


def _sin_reduced(r: Pair, *, fine: bool) -> Expr:
    x, low = r
    z = x * x
    if not fine:
        return x * z.fma(horner(z, c.SIN_F4), 1.0)
    v = z * x
    tail = horner(z, c.SIN_F8[1:])
    return x - (z.fma(low * 0.5 - v * tail, -low) - v * c.SIN_F8[0])


def _cos_reduced(r: Pair, *, fine: bool) -> Expr:
    x, low = r
    z = x * x
    half = z * 0.5
    first = 1.0 - half
    if not fine:
        return (z * z).fma(horner(z, c.COS_F4), first)
    tail = horner(z, c.COS_F8)
    return first + (((1.0 - first) - half) + (z * z).fma(tail, -(x * low)))


def _turn(q: Expr, r: Pair, *, fine: bool) -> Expr:
    """sin(q pi/2 + r)."""
    odd = (q & 1).ne(0)
    value = odd.select(_cos_reduced(r, fine=fine), _sin_reduced(r, fine=fine))
    sign = (q & 2).binary(Core.SHL, 62)
    return (value.bitcast("i8") ^ sign).bitcast("f8")


def turned(x: Expr, low: Expr | None, *, fine: bool) -> Pair:
    """(cos, sin) of x + low, for |x| < NEAR."""
    q, (high, rest) = _reduce(x, fine=fine)
    r = (high, rest) if low is None else two_sum(high, rest + low)
    return _turn(q + 1, r, fine=fine), _turn(q, r, fine=fine)


def _rarely_far(x: Expr, near: Expr, far: Expr) -> Expr:
    far = (abs(x) < INF).select(far, x - x)
    return (~(abs(x) < NEAR)).rare(far, near)


def sin(x: Expr, *, fine: bool) -> Expr:
    """Sine."""
    near, far = _turn(*_reduce(x, fine=fine), fine=fine), _turn(*_reduce_far(x), fine=fine)
    return _rarely_far(x, near, far)


def cos(x: Expr, *, fine: bool) -> Expr:
    """Cosine."""
    values = [_turn(q + 1, r, fine=fine) for q, r in (_reduce(x, fine=fine), _reduce_far(x))]
    return _rarely_far(x, *values)


def _tan_reduced(q: Expr, r: Pair, *, fine: bool) -> Expr:
    if fine:  # of what is lost most is by the quotient
        x, low = r
        z = x * x
        half = z * 0.5
        less = horner(z, [-part for part in c.SIN_F8])
        sine = x - ((z * x).fma(less, -low) + 0.0)  # -0.0 less 0.0 stays
        first = 1.0 - half
        cosine = first + (z * z).fma(horner(z, c.COS_F8), (1.0 - first) - half)
    else:
        sine, cosine = _sin_reduced(r, fine=fine), _cos_reduced(r, fine=fine)
    odd = (q & 1).ne(0)
    return odd.select(-cosine, sine) / odd.select(sine, cosine)


def tan(x: Expr, *, fine: bool) -> Expr:
    """Tangent."""
    near = _tan_reduced(*_reduce(x, fine=fine), fine=fine)
    return _rarely_far(x, near, _tan_reduced(*_reduce_far(x), fine=fine))


# ------------------------------------------------------------------------------------- inverses

TAN_3PI8, TAN_PI8 = 2.414213562373095, 0.41421356237309503


def _arctan_ratio(y: Expr, x: Expr, *, fine: bool) -> Pair:
    """arctan(y / x) of 0 <= y, x as a sum: pi/2, pi/4 or 0 plus the arctangent of a small ratio."""
    steep = y > x * TAN_3PI8
    middle = y > x * TAN_PI8
    over = steep.select(-x, middle.select(y - x, y))
    under = steep.select(y, middle.select(y + x, x))
    t = over / under
    z = t * t
    tail = (z * t) * horner(z, c.ATAN_F8 if fine else c.ATAN_F4)
    base = middle.select(t.like(PIO2[0] / 2), 0.0)
    base = steep.select(t.like(PIO2[0]), base)
    rest = middle.select(t.like(PIO2[1] / 2), 0.0)
    rest = steep.select(t.like(PIO2[1]), rest)
    high, low = fast_two_sum(base, t)
    flat = base.eq(0.0)
    return flat.select(t, high), flat.select(tail, low + (tail + rest))


def arctan_pair(y: Expr, x: Expr) -> Pair:
    """arctan(y / x) of 0 <= y, x to about 2**-62."""
    steep, middle = y > x * TAN_3PI8, y > x * TAN_PI8
    less, less_low = two_sum(y, -x)
    more, more_low = two_sum(y, x)
    zero = x.like(0.0)
    over = steep.select(-x, middle.select(less, y))
    under = steep.select(y, middle.select(more, x))
    over_low = (middle & ~steep).select(less_low, zero)
    under_low = (middle & ~steep).select(more_low, zero)
    t = over / under
    rest = (-t).fma(under_low, (-t).fma(under, over) + over_low)
    t_low = rest / under
    z, z_low = two_product(t, t)
    z_low = (t + t).fma(t_low, z_low)
    # -1/3 + z (1/5 + z (-1/7 + z P(z))), from the inside.
    value, low = horner(z, c.ATAN_LONG), zero
    for leading in ((-1 / 7, _low(-1, 7)), (1 / 5, _low(1, 5)), (-1 / 3, _low(-1, 3))):
        total = z.fma(value, leading[0])
        lost = z.fma(value, leading[0] - total) + leading[1]
        value, low = total, z_low.fma(value, z.fma(low, lost))
    v, v_low = two_product(z, value)
    v_low = z_low.fma(value, z.fma(low, v_low))
    u, u_low = two_product(t, v)
    u_low = t_low.fma(v, t.fma(v_low, u_low))
    base = steep.select(t.like(PIO2[0]), middle.select(t.like(PIO2[0] / 2), 0.0))
    base_low = steep.select(t.like(PIO2[1]), middle.select(t.like(PIO2[1] / 2), 0.0))
    angle, lost = fast_two_sum(t, u)
    high, more_lost = two_sum(base, angle)
    return high, more_lost + (lost + ((t_low + u_low) + base_low))


def _low(over: int, under: int) -> float:
    """What the quotient as a float is off."""
    return float(Fraction(over, under) - Fraction(over / under))


def arctan(x: Expr, *, fine: bool) -> Expr:
    """Inverse tangent."""
    high, low = _arctan_ratio(abs(x), x.like(1.0), fine=fine)
    return keep_sign(high + low, x)


def arctan2(y: Expr, x: Expr, *, fine: bool) -> Expr:
    """Angle of the point (x, y)."""
    a, b = abs(y), abs(x)
    huge = (a > 2.0**1000) | (b > 2.0**1000)
    unit = a.eq(INF) & b.eq(INF)
    zero = a.eq(0.0) & b.eq(0.0)
    down = huge.select(a.like(2.0**-60), 1.0)
    one = a.like(1.0)
    b = (unit | zero).select(one, b * down)
    a = unit.select(one, a * down)
    high, low = _arctan_ratio(a, b, fine=fine)
    left = x.bitcast("i8") < 0
    turned = (high.like(2.0 * PIO2[0]) - high) + ((2.0 * PIO2[1] - low) + _rounded_off(high))
    angle = left.select(turned, high + low)
    return (x.isnan() | y.isnan()).select(x + y, keep_sign(angle, y))


def _rounded_off(high: Expr) -> Expr:
    """What pi - high loses to rounding."""
    whole = high.like(2.0 * PIO2[0])
    return fast_two_sum(whole, -high)[1]


def _half_angle(a: Expr, otherwise: Expr, *, fine: bool) -> tuple[Expr, Expr, Expr]:
    """(a > 1/2, s, arcsin(s) - s): s = sqrt((1 - a) / 2), else `otherwise`."""
    outer = a > 0.5
    half = a.fma(-0.5, 0.5)
    z = outer.select(half, a * a)
    s = outer.select(root(half), otherwise)
    return outer, s, (z * s) * horner(z, c.ASIN_F8 if fine else c.ASIN_F4)


def arcsin(x: Expr, *, fine: bool) -> Expr:
    """Inverse sine: beyond 1/2, pi/2 - 2 arcsin(sqrt((1 - a) / 2))."""
    a = abs(x)
    outer, s, tail = _half_angle(a, a, fine=fine)
    turned = PIO2[0] - (2.0 * s - (PIO2[1] - 2.0 * tail))
    return signed(outer.select(turned, s + tail), x, lambda x: abs(x) > 1.0)


def arccos(x: Expr, *, fine: bool, nans: int = KEPT) -> Expr:
    """Inverse cosine: beyond 1/2, twice arcsin(sqrt((1 - a) / 2)), or pi less that."""
    outer, s, tail = _half_angle(abs(x), x, fine=fine)
    # The same but for a NaN's sign.
    rest = PIO2[1] - tail
    inner = PIO2[0] + (s.flipped() + rest) if nans == FLIPPED else PIO2[0] - (s - rest)
    left = 2.0 * PIO2[0] - (2.0 * s - (2.0 * PIO2[1] - 2.0 * tail))
    return outer.select((x < 0.0).select(left, 2.0 * (s + tail)), inner)
