"""Trigonometric functions and their inverses in f4.

With q = rint(x * 2 / pi) and r = x - q * pi/2 as a sum of two floats.
"""

from __future__ import annotations

from npaccel.ir import coefficients as c
from npaccel.ir import trigonometry
from npaccel.ir.precision import Pair, fast_two_sum, horner, keep_sign, root, two_product
from npaccel.ir.scalar import Core, Expr
from npaccel.ir.singles.common import INF, MAGIC, by_size

__all__ = ["arccos", "arcsin", "arctan", "arctan2", "cos", "sin", "tan"]

INV_PIO2 = float.fromhex("0x1.45f306p-1")
PIO2 = tuple(float.fromhex(t) for t in ("0x1.921fb6p+0", "-0x1.777a5cp-25", "-0x1.ee59dap-50"))
FAR = 2.0**16


def _reduce(x: Expr) -> tuple[Expr, Pair]:
    marked = x.fma(INV_PIO2, MAGIC)
    minus = -(marked - MAGIC)
    start = minus.fma(PIO2[0], x)  # exact
    step, lost = two_product(minus, PIO2[1])
    high, low = fast_two_sum(start, step)
    return marked.bitcast("i4"), (high, minus.fma(PIO2[2], low + lost))


def _turn(q: Expr, r: Pair) -> Expr:
    x, low = r
    z = x * x
    sine = (z * x).fma(horner(z, c.SIN_SHORT), low) + x
    half = z * 0.5
    first = 1.0 - half
    rest = (z * z).fma(horner(z, c.COS_SHORT), -(x * low))
    cosine = first + (((1.0 - first) - half) + rest)
    value = (q & 1).ne(0).select(cosine, sine)
    return (value.bitcast("i4") ^ (q & 2).binary(Core.SHL, 30)).bitcast("f4")


def _sin(x: Expr) -> Expr:
    return x.eq(0.0).select(x, _turn(*_reduce(x)))


def _cos(x: Expr) -> Expr:
    q, r = _reduce(x)
    return _turn(q + 1, r)


def _tan(x: Expr) -> Expr:
    q, (r, low) = _reduce(x)
    z = r * r
    tail = (z * r).fma(horner(z, c.TAN_SHORT), low)
    t = r + tail
    odd = (q & 1).ne(0)
    value = odd.select(t.like(-1.0), t) / odd.select(t, 1.0)
    return x.eq(0.0).select(x, value)


def _near(x: Expr) -> Expr:
    return abs(x) < FAR


def _arctan_of(t: Expr) -> Expr:
    """arctan(t) - t for |t| <= 1."""
    z = t * t
    return (z * t) * horner(z, c.ATAN_ALL_SHORT)


def _arctan(x: Expr) -> Expr:
    a = abs(x)
    steep = a > 1.0
    t = steep.select(a.like(-1.0), a) / steep.select(a, 1.0)
    tail = _arctan_of(t)
    return keep_sign(steep.select(PIO2[0] + (t + (tail + PIO2[1])), t + tail), x)


def _arctan2(y: Expr, x: Expr) -> Expr:
    a, b = abs(y), abs(x)
    steep = a > b
    t = steep.select(b, a) / steep.select(a, b)
    tail = _arctan_of(t)
    left = x.bitcast("i4") < 0
    # t, pi/2 - t, pi - t or pi/2 + t
    t, tail = ((v.bitcast("i4") ^ _sign(steep, left)).bitcast("f4") for v in (t, tail))
    base = steep.select(t.like(PIO2[0]), left.select(t.like(2 * PIO2[0]), 0.0))
    more = steep.select(t.like(PIO2[1]), left.select(t.like(2 * PIO2[1]), 0.0))
    high, low = fast_two_sum(base, t)
    return keep_sign(high + (low + (tail + more)), y)


def _sign(steep: Expr, left: Expr) -> Expr:
    zero = steep.pool.const("i4", 0)
    return (steep ^ left).select(zero.like(-0x80000000), zero)


def _has_angle(y: Expr, x: Expr) -> Expr:
    total = abs(y) + abs(x)
    return (total > 0.0) & (total < INF)


def _half_angle(a: Expr, otherwise: Expr) -> tuple[Expr, Expr, Expr]:
    """(a > 1/2, s, arcsin(s) - s): s = sqrt((1 - a) / 2), else `otherwise`."""
    outer = a > 0.5
    half = a.fma(-0.5, 0.5)
    z = outer.select(half, a * a)
    s = outer.select(root(half), otherwise)
    return outer, s, (z * s) * horner(z, c.ASIN_SHORT)


def _arcsin(x: Expr) -> Expr:
    a = abs(x)
    outer, s, tail = _half_angle(a, a)
    turned = PIO2[0] - (2.0 * s - (PIO2[1] - 2.0 * tail))
    return keep_sign(outer.select(turned, s + tail), x)


def _arccos(x: Expr) -> Expr:
    outer, s, tail = _half_angle(abs(x), x)
    inner = PIO2[0] - (s - (PIO2[1] - tail))
    left = 2.0 * PIO2[0] - (2.0 * s - (2.0 * PIO2[1] - 2.0 * tail))
    return outer.select((x < 0.0).select(left, 2.0 * (s + tail)), inner)


def _inside(x: Expr) -> Expr:
    return abs(x) <= 1.0


sin = by_size("sin", _sin, _near, trigonometry.sin)
cos = by_size("cos", _cos, _near, trigonometry.cos)
tan = by_size("tan", _tan, _near, trigonometry.tan)
arcsin = by_size("arcsin", _arcsin, _inside, trigonometry.arcsin)
arccos = by_size("arccos", _arccos, _inside, trigonometry.arccos, tells=True)
arctan = by_size("arctan", _arctan, None, trigonometry.arctan)
arctan2 = by_size("arctan2", _arctan2, _has_angle, trigonometry.arctan2)
