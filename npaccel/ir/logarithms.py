"""Bodies of the logarithms and the inverse hyperbolic functions, in f8.

x = 2**k m with sqrt(1/2) <= m < sqrt(2); f = m - 1 (exact); s = f / (2 + f), so that
log(m) = log((1 + s) / (1 - s)) = f - (f*f/2 - s * (f*f/2 + z P(z))), z = s*s, as in FDLIBM.
"""

from __future__ import annotations

from collections.abc import Callable

from npaccel.ir import coefficients as c
from npaccel.ir.exponentials import LN2_HIGH, LN2_LOW, MAGIC, MAGIC_BITS, exp, exp2
from npaccel.ir.nans import INVALID, signed
from npaccel.ir.precision import (
    INF,
    Pair,
    Wide,
    horner,
    keep_sign,
    root,
    two_sum,
)
from npaccel.ir.scalar import Core, Expr

__all__ = [
    "arccosh",
    "arcsinh",
    "arctanh",
    "log",
    "log1p",
    "log1p_of_pair",
    "log2",
    "log10",
    "log_of_pair",
    "logaddexp",
    "logaddexp2",
    "split",
]

TINY = 2.0**-1022
_FAR = 2.0**500
LN2 = float.fromhex("0x1.62e42fefa39efp-1")
INV_LN2 = (float.fromhex("0x1.71547652b82fep+0"), float.fromhex("0x1.777d0ffda0d24p-56"))
INV_LN10 = (float.fromhex("0x1.bcb7b1526e50ep-2"), float.fromhex("0x1.95355baaafad3p-57"))
# log10(2) as a sum; the first with zero bits at its end.
LOG10_2 = (float.fromhex("0x1.34413509f7800p-2"), float.fromhex("0x1.fef311f12b358p-46"))


def split(x: Expr, shift: Expr | None = None) -> Pair:
    """(k + shift, m) for normal positive x."""
    bits = x.bitcast("i8")
    k = (bits - 0x3FE6A09E667F3BCD).binary(Core.ASHR, 52)
    m = (bits - k.binary(Core.SHL, 52)).bitcast("f8")
    exponent = (k + MAGIC_BITS).bitcast("f8") - MAGIC
    return exponent if shift is None else exponent + shift, m


def _tail(f: Expr, *, fine: bool) -> tuple[Expr, Expr]:
    """(f*f/2, s * (f*f/2 + z P(z)))."""
    s = f / (f + 2.0)
    z = s * s
    square = f * f * 0.5
    return square, s * z.fma(horner(z, c.LOG_F8 if fine else c.LOG_F4), square)


def _join(k: Expr, f: Expr, more: Expr | None, *, fine: bool) -> Expr:
    """k log 2 + log(1 + f) + more."""
    square, tail = _tail(f, fine=fine)
    low = k.fma(LN2_LOW, tail if more is None else tail + more)
    return k.fma(LN2_HIGH, f - (square - low))


def _based(inverse: tuple[float, float], log_2: tuple[float, float]) -> Callable[..., Expr]:
    """The logarithm for normal positive x: (k + log2(m)) log_2, `inverse` is log_2 / log 2."""

    def near(x: Expr, shift: Expr | None, *, fine: bool) -> Expr:
        k, m = split(x, shift)
        f = m - 1.0
        square, tail = _tail(f, fine=fine)
        high = f - square
        low = high.fma(inverse[1], ((f - high) - square + tail) * inverse[0])
        if log_2[1] != 0.0:
            low = k.fma(log_2[1], low)
        return k.fma(log_2[0], high.fma(inverse[0], low))

    return near


def _log(x: Expr, shift: Expr | None, *, fine: bool) -> Expr:
    k, m = split(x, shift)
    return _join(k, m - 1.0, None, fine=fine)


def _edges(x: Expr, result: Expr) -> Expr:
    """`result` for positive finite x, and what a logarithm is elsewhere."""
    result = x.eq(0.0).select(x.like(-INF), (x < 0.0).select(x.like(INVALID), result))
    return ((x > 0.0) & (x < INF) | (x <= 0.0)).select(result, x)


def _everywhere(near: Callable[..., Expr]) -> Wide:
    def body(*operands: Expr, fine: bool) -> Expr:
        (x,) = operands
        small = x < TINY
        scaled = small.select(x * 2.0**54, x)
        wide = near(scaled, small.select(x.like(-54.0), 0.0), fine=fine)
        plain = (x >= TINY) & (x < INF)
        return (~plain).rare(_edges(x, wide), near(x, None, fine=fine))

    return body


def log_of_pair(x: Expr, low: Expr, *, fine: bool) -> Expr:
    """log(x + low) for normal x > 0, |low| < ulp(x)."""
    k, m = split(x)
    return _join(k, m - 1.0, low / x, fine=fine)


log = _everywhere(_log)
log2 = _everywhere(_based(INV_LN2, (1.0, 0.0)))
log10 = _everywhere(_based(INV_LN10, LOG10_2))


def log1p_of_pair(x: Expr, low: Expr | None, *, fine: bool) -> Expr:
    """log(1 + x + low) for -1 < x < 2**1000, |low| < ulp(x)."""
    bits = (x + 1.0).bitcast("i8")
    k = (bits - 0x3FE6A09E667F3BCD).binary(Core.ASHR, 52)
    # f = x 2**-k + (2**-k - 1), and what it lost to rounding: nothing where k is 0.
    factor = (0x3FF0000000000000 - k.binary(Core.SHL, 52)).bitcast("f8")
    less = factor - 1.0
    f = x.fma(factor, less)
    lost = x.fma(factor, less - f)
    if low is not None:
        lost = low.fma(factor, lost)
        lost = (-lost).fma((-f).fma(f, f), lost)  # over 1 + f, nearly
    return _join((k + MAGIC_BITS).bitcast("f8") - MAGIC, f, lost, fine=fine)


def log1p(x: Expr, *, fine: bool) -> Expr:
    """log(1 + x)."""
    near = keep_sign(log1p_of_pair(x, None, fine=fine), x)
    outside = (x < -1.0).select(x.like(INVALID), _edges(x, _log(x, None, fine=fine)))
    other = x.eq(-1.0).select(x.like(-INF), outside)
    return (~((x > -1.0) & (x < _FAR))).rare(other, near)


def _log_twice(a: Expr, *, fine: bool) -> Expr:
    """log(2 a) for large a, infinite and NaN too."""
    return _edges(a, _log(a, a.like(1.0), fine=fine))


def arcsinh(x: Expr, *, fine: bool) -> Expr:
    """Inverse hyperbolic sine: log1p(a + a*a / (1 + sqrt(a*a + 1)))."""
    a = abs(x)
    square = a * a
    y, low = two_sum(a, square / (root(square + 1.0) + 1.0))
    near = a.eq(0.0).select(a, log1p_of_pair(y, low, fine=fine))
    return keep_sign((~(a < _FAR)).rare(_log_twice(a, fine=fine), near), x)


def arccosh(x: Expr, *, fine: bool) -> Expr:
    """Inverse hyperbolic cosine: log1p(t + sqrt(t * (t + 2))), t = x - 1."""
    t = x - 1.0
    y, low = two_sum(t, root(t.fma(t, t + t)))
    near = x.eq(1.0).select(x.like(0.0), log1p_of_pair(y, low, fine=fine))
    far = (x < 1.0).select(x.like(INVALID), _log_twice(x, fine=fine))
    return (~((x >= 1.0) & (x < _FAR))).rare(far, near)


def _arctanh_near(a: Expr, *, fine: bool) -> Expr:
    """Of 0 <= a < 1 - 2**-45: k log(2) / 2 + arctanh(s + low).

    (1 + a) / (1 - a) = 2**k (1 + s) / (1 - s); k is found by the bits of both.
    """
    bits = (a + 1.0).bitcast("i8") - (1.0 - a).bitcast("i8")
    k = (bits + (1 << 51)).binary(Core.ASHR, 52)
    power = (k.binary(Core.SHL, 52) + 0x3FF0000000000000).bitcast("f8")
    plus, minus = power + 1.0, 1.0 - power
    over, under = a.fma(plus, minus), a.fma(minus, plus)
    inverse = a.like(1.0) / under
    s = over * inverse
    low = (-s).fma(under, over) * inverse
    z = s * s
    exponent = (k + MAGIC_BITS).bitcast("f8") - MAGIC
    tail = (z * s).fma(horner(z, c.ATANH_NEAR_F8 if fine else c.ATANH_NEAR_F4), low)
    return exponent.fma(LN2_HIGH / 2, s + exponent.fma(LN2_LOW / 2, tail))


def arctanh(x: Expr, *, fine: bool) -> Expr:
    """Inverse hyperbolic tangent; close to 1, log1p(2 a / (1 - a)) / 2."""
    a = abs(x)
    near = _arctanh_near(a, fine=fine)
    b = 1.0 - a
    far = log1p_of_pair((a + a) / b, None, fine=fine) * 0.5
    edge = a.eq(1.0).select(a.like(INF), (a < 1.0).select(far, a))
    edge = (a > 1.0).select(a.like(INVALID), edge)
    return signed((~(a < 1.0 - 2.0**-45)).rare(edge, near), x, lambda x: abs(x) > 1.0)


def _log_sum(x: Expr, y: Expr, twice: float, distance: Callable[[Expr], Expr]) -> Expr:
    # As NumPy writes it; equal infinities included.
    difference = x - y
    larger = (difference > 0.0).select(x, y)
    total = larger + distance(-abs(difference))
    result = difference.isnan().select(difference, total)
    return x.eq(y).select(x + twice, result)


def logaddexp(x: Expr, y: Expr, *, fine: bool) -> Expr:
    """log(exp(x) + exp(y))."""
    return _log_sum(x, y, LN2, lambda d: log1p(exp(d, fine=fine), fine=fine))


def logaddexp2(x: Expr, y: Expr, *, fine: bool) -> Expr:
    """log2(2**x + 2**y)."""
    return _log_sum(x, y, 1.0, lambda d: log1p(exp2(d, fine=fine), fine=fine) * INV_LN2[0])
