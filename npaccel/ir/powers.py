"""Bodies of power, cbrt and hypot, in f8."""

from __future__ import annotations

from npaccel.ir import coefficients as c
from npaccel.ir.exponentials import clamp, exp2_of_pair, scale, scale_far
from npaccel.ir.logarithms import INV_LN2, TINY, split
from npaccel.ir.nans import INVALID
from npaccel.ir.precision import (
    INF,
    Pair,
    fast_two_sum,
    horner,
    keep_sign,
    root,
    two_product,
)
from npaccel.ir.scalar import Core, Expr

__all__ = [
    "INV_LN2",
    "cbrt",
    "guess",
    "hypot",
    "is_odd",
    "log2_pair",
    "power",
    "power_anywhere",
    "whole_power",
]

THIRD = (float.fromhex("0x1.5555555555555p-2"), float.fromhex("0x1.5555555555555p-56"))


def _log2_pair(x: Expr, shift: Expr | None = None, *, fine: bool) -> Pair:
    """log2 of normal positive x, plus shift if given: to about 2**-66 if `fine`.

    log(m) = 2 s (1 + z (1/3 + z P(z))), s = (m - 1) / (m + 1), z = s*s.
    """
    k, m = split(x, shift)
    f = m - 1.0
    if not fine:
        s = f / (f + 2.0)
        z = s * s
        value = s * z.fma(z.fma(horner(z, c.ATANH_F4), THIRD[0]), 1.0)
        return value.fma(2.0 * INV_LN2[0], k), k.like(0.0)
    inverse = f.like(1.0) / (f + 2.0)
    s = f * inverse
    s_low = (-s).fma(f, s.fma(-2.0, f)) * inverse  # f - 2 s is exact
    z, z_low = two_product(s, s)
    z_low = (s + s).fma(s_low, z_low)
    # w = z (1/3 + z P(z)), then s + s w
    tail = horner(z, c.ATANH_F8)
    inner = z.fma(tail, THIRD[0])
    inner_low = z_low.fma(tail, z.fma(tail, THIRD[0] - inner) + THIRD[1])
    w, w_low = two_product(z, inner)
    w_low = z_low.fma(inner, z.fma(inner_low, w_low))
    cube, cube_low = two_product(s, w)
    cube_low = s_low.fma(w, s.fma(w_low, cube_low))
    half, lost = fast_two_sum(s, cube)
    log, log_low = two_product(half, 2.0 * INV_LN2[0])
    log_low = half.fma(2.0 * INV_LN2[1], log_low)
    log_low = (lost + (s_low + cube_low)).fma(2.0 * INV_LN2[0], log_low)
    high, low = fast_two_sum(k, log)  # k is 0 or at least 1
    return high, low + log_low


def log2_pair(x: Expr) -> Pair:
    """log2 of normal positive x, to about 2**-66."""
    return _log2_pair(x, fine=True)


def _times(y: Expr, log: Pair) -> Pair:
    high, low = two_product(y, log[0])
    return high, y.fma(log[1], low)


def is_odd(y: Expr) -> Expr:
    """Whether the f8 is an odd integer."""
    half = y * 0.5
    return y.unary(Core.RINT).eq(y) & half.unary(Core.RINT).ne(half)


def power_anywhere(x: Expr, y: Expr, *, fine: bool, flips: bool) -> Expr:
    """x**y for all x and y."""
    a = abs(x)
    small = a < TINY
    log = _log2_pair(small.select(a * 2.0**54, a), small.select(a.like(-54.0), 0.0), fine=fine)
    high, low = _times(y, log)
    far = ~(abs(high) < 1200.0)
    value, marked = exp2_of_pair((clamp(high, -1200.0, 1200.0), far.select(y.like(0.0), low)),
                                 fine=fine)  # fmt: skip
    result = scale_far(value, marked)
    # Where the logarithm of a means nothing: 0, infinity, and 1 to an infinite power.
    grows = (a > 1.0).eq(y > 0.0)
    edge = grows.select(a.like(INF), 0.0)
    result = (a.eq(0.0) | a.eq(INF) | abs(y).eq(INF)).select(edge, result)
    result = (a.eq(1.0) & abs(y).eq(INF)).select(a.like(1.0), result)
    whole = y.unary(Core.RINT).eq(y)
    negative = x.bitcast("i8") < 0
    result = (negative & is_odd(y)).select(-result, result)
    result = ((x < 0.0) & (a < INF) & ~whole).select(a.like(INVALID), result)
    nan = x.isnan().select(x, y)  # of two, the first: a sum's is what a compiler makes it
    nan = (x.isnan() & is_odd(y)).select(a, nan) if flips else nan
    result = (x.isnan() | y.isnan()).select(nan, result)
    return (y.eq(0.0) | x.eq(1.0)).select(a.like(1.0), result)


def power(x: Expr, y: Expr, *, fine: bool, flips: bool = False) -> Expr:
    """x**y. flips: an odd power of a negative NaN is a positive one."""
    high, low = _times(y, _log2_pair(x, fine=fine))
    value, marked = exp2_of_pair((high, low), fine=fine)
    plain = (x >= TINY) & (x < INF) & (abs(high) < 1020.0)
    return (~plain).rare(power_anywhere(x, y, fine=fine, flips=flips), scale(value, marked))


def whole_power(x: Expr, y: Expr) -> Expr:
    """x**y for a constant whole y of at least 1, by squaring; below 1 ulp.

    Products are kept as pairs, so that roundings do not add up: with e the unit roundoff, the
    result is off by e plus a few e**2. f2 and f4 are squared in the next wider dtype instead.
    """
    assert y.op is Core.CONST and isinstance(y.attr, float)
    exponent = int(y.attr)
    if x.dtype != "f8":
        wide = _by_squaring(x.convert("f8" if x.dtype == "f4" else "f4"), exponent)
        return wide.convert(x.dtype)
    if exponent == 2:
        return x * x
    high, low = _by_squaring_pairs(x, exponent)
    # Where the high part overflowed the low one is NaN; where it is -0.0 the low one is 0.0.
    return (high.nonfinite() | high.eq(0.0)).select(high, high + low)


def _by_squaring(x: Expr, exponent: int) -> Expr:
    result = None
    while exponent:
        if exponent & 1:
            result = x if result is None else result * x
        exponent >>= 1
        x = x * x
    assert result is not None
    return result


def _by_squaring_pairs(x: Expr, exponent: int) -> tuple[Expr, Expr]:
    square: tuple[Expr, Expr] = (x, x.like(0.0))
    result = None
    while exponent:
        if exponent & 1:
            result = square if result is None else _pair_product(result, square)
        exponent >>= 1
        if exponent:
            square = _pair_product(square, square)
    assert result is not None
    return result


def _pair_product(a: tuple[Expr, Expr], b: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
    high, low = two_product(a[0], b[0])
    return high, a[0].fma(b[1], a[1].fma(b[0], low))


# 2**20 (1023 * 4/3 - 0.068), for a third of the bits' upper half; 2**52 marks an integer.
_GUESS = 2.0**52 + 2.0**20 * (1023 * 4 / 3 - 0.068)


def guess(a: Expr) -> Expr:
    """a**(-1/3) of normal a > 0, by its bits, to one part in 30."""
    upper = (a.bitcast("i8").binary(Core.LSHR, 32) + 0x4330000000000000).bitcast("f8") - 2.0**52
    third = upper.fma(-1 / 3, _GUESS)
    return third.bitcast("i8").binary(Core.SHL, 32).bitcast("f8")


def _cbrt_near(a: Expr, *, fine: bool) -> Expr:
    """Of normal a > 0: y = a**(-1/3), t = a*y*y.

    Then t**3 / a = 1 + e, with the residue exact, and the root is t (1 - e/3 + 2/9 e**2).
    """
    first = guess(a)
    r = (-(first * first)).fma(a * first, 1.0)
    y = first * horner(r, c.CBRT_F8 if fine else c.CBRT_F4)
    inverse = y * y
    t = a * inverse
    if not fine:
        return (t.fma(t * t, -a) * inverse).fma(-1 / 3, t)
    square, rest = two_product(t, t)
    residue = rest.fma(t, square.fma(t, -a))
    # 1 / a is y**3 (1 - e/2), nearly.
    e = residue * (inverse * y)
    return (t * e).fma(e.fma(2 / 9 + 1 / 6, -1 / 3), t)


def cbrt(x: Expr, *, fine: bool) -> Expr:
    """Cube root."""
    a = abs(x)
    plain = (a >= TINY) & (a < INF)
    tiny = _cbrt_near(a * 2.0**57, fine=fine) * 2.0**-19
    far = (a < TINY).select(a.eq(0.0).select(a, tiny), a)
    return keep_sign((~plain).rare(far, _cbrt_near(a, fine=fine)), x)


def hypot(x: Expr, y: Expr, *, fine: bool, positive: bool = False) -> Expr:
    """sqrt(x*x + y*y); infinite if either is, whatever the other. positive: NaNs are, too."""
    a, b = abs(x), abs(y)
    none = a + b if positive else x + y
    if not fine:  # squares are exact, and none is too large or too small
        near = root(x.fma(x, y * y))
        return near.isnan().rare((a.eq(INF) | b.eq(INF)).select(a.like(INF), none), near)
    large, small = (a < b).select(b, a), (a < b).select(a, b)
    near = root(large.fma(large, small * small))
    huge = large > 2.0**500
    up = huge.select(large.like(2.0**-600), 2.0**600)
    down = huge.select(large.like(2.0**600), 2.0**-600)
    p, q = large * up, small * up
    far = root(p.fma(p, q * q)) * down
    far = (a.isnan() | b.isnan()).select(none, far)
    far = (a.eq(INF) | b.eq(INF)).select(a.like(INF), far)
    return (~((large < 2.0**500) & (large > 2.0**-450) & b.eq(b) & a.eq(a))).rare(far, near)
