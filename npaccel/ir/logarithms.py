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
    Wide,
    fast_two_sum,
    horner,
    keep_sign,
    root,
    two_product,
    two_sum,
)
from npaccel.ir.scalar import Core, Expr

__all__ = [
    "arccosh",
    "arcsinh",
    "arctanh",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_of_pair",
    "logaddexp",
    "logaddexp2",
    "split",
]

TINY = 2.0**-1022
LN2 = float.fromhex("0x1.62e42fefa39efp-1")
INV_LN2 = (float.fromhex("0x1.71547652b82fep+0"), float.fromhex("0x1.777d0ffda0d24p-56"))
INV_LN10 = (float.fromhex("0x1.bcb7b1526e50ep-2"), float.fromhex("0x1.95355baaafad3p-57"))
# log10(2) as a sum; the first with zero bits at its end.
LOG10_2 = (float.fromhex("0x1.34413509f7800p-2"), float.fromhex("0x1.fef311f12b358p-46"))


def split(x: Expr) -> tuple[Expr, Expr, Expr]:
    """(k, m, bits of k) for normal positive x: k as f8, and as i8."""
    bits = x.bitcast("i8")
    k = (bits - 0x3FE6A09E667F3BCD).binary(Core.ASHR, 52)
    m = (bits - k.binary(Core.SHL, 52)).bitcast("f8")
    return (k + MAGIC_BITS).bitcast("f8") - MAGIC, m, k


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


def _join_based(k: Expr, f: Expr, inverse: tuple[float, float], *, fine: bool) -> tuple[Expr, Expr]:
    """log(1 + f) / log(base) as a sum."""
    square, tail = _tail(f, fine=fine)
    high = f - square
    low = (f - high) - square + tail
    product, rest = two_product(high, inverse[0])
    return product, rest + high * inverse[1] + low * inverse[0]


def _log(x: Expr, shift: Expr, *, fine: bool) -> Expr:
    k, m, _ = split(x)
    return _join(k + shift, m - 1.0, None, fine=fine)


def _log2(x: Expr, shift: Expr, *, fine: bool) -> Expr:
    k, m, _ = split(x)
    k = k + shift
    high, low = _join_based(k, m - 1.0, INV_LN2, fine=fine)
    total, rest = two_sum(k, high)
    return total + (low + rest)


def _log10(x: Expr, shift: Expr, *, fine: bool) -> Expr:
    k, m, _ = split(x)
    k = k + shift
    high, low = _join_based(k, m - 1.0, INV_LN10, fine=fine)
    total, rest = two_sum(k * LOG10_2[0], high)
    return total + (low + k.fma(LOG10_2[1], rest))


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
        return (~plain).rare(_edges(x, wide), near(x, x.like(0.0), fine=fine))

    return body


def log_of_pair(x: Expr, low: Expr, *, fine: bool) -> Expr:
    """log(x + low) for normal x > 0, |low| < ulp(x)."""
    k, m, _ = split(x)
    return _join(k, m - 1.0, low / x, fine=fine)


log = _everywhere(_log)
log2 = _everywhere(_log2)
log10 = _everywhere(_log10)


def _log1p_near(x: Expr, low: Expr | None, *, fine: bool) -> Expr:
    """log(1 + x + low) for finite x > -1, |low| < ulp(x)."""
    one = x.like(1.0)
    u, rest = two_sum(one, x)
    if low is not None:
        u, rest = fast_two_sum(u, rest + low)
    k, m, _ = split(u)
    return _join(k, m - 1.0, rest / u, fine=fine)


def log1p(x: Expr, *, fine: bool) -> Expr:
    """log(1 + x)."""
    near = x.eq(0.0).select(x, _log1p_near(x, None, fine=fine))
    other = x.eq(-1.0).select(x.like(-INF), (x < -1.0).select(x.like(INVALID), x))
    return (~((x > -1.0) & (x < INF))).rare(other, near)


_FAR = 2.0**500


def _log_twice(a: Expr, *, fine: bool) -> Expr:
    """log(2 a) for large a, infinite and NaN too."""
    return _edges(a, _log(a, a.like(1.0), fine=fine))


def arcsinh(x: Expr, *, fine: bool) -> Expr:
    """Inverse hyperbolic sine: log1p(a + a*a / (1 + sqrt(a*a + 1)))."""
    a = abs(x)
    square = a * a
    y, low = two_sum(a, square / (root(square + 1.0) + 1.0))
    near = a.eq(0.0).select(a, _log1p_near(y, low, fine=fine))
    return keep_sign((~(a < _FAR)).rare(_log_twice(a, fine=fine), near), x)


def arccosh(x: Expr, *, fine: bool) -> Expr:
    """Inverse hyperbolic cosine: log1p(t + sqrt(t * (t + 2))), t = x - 1."""
    t = x - 1.0
    y, low = two_sum(t, root(t.fma(t, t + t)))
    near = x.eq(1.0).select(x.like(0.0), _log1p_near(y, low, fine=fine))
    far = (x < 1.0).select(x.like(INVALID), _log_twice(x, fine=fine))
    return (~((x >= 1.0) & (x < _FAR))).rare(far, near)


def arctanh(x: Expr, *, fine: bool) -> Expr:
    """Inverse hyperbolic tangent: log1p(2 a / (1 - a)) / 2."""
    a = abs(x)
    below, rest = two_sum(a.like(1.0), -a)
    inverse = a.like(1.0) / below
    y = (a + a) * inverse
    low = ((-y).fma(below, a + a) - y * rest) * inverse
    near = a.eq(0.0).select(a, _log1p_near(y, low, fine=fine) * 0.5)
    edge = a.eq(1.0).select(a.like(INF), (a > 1.0).select(a.like(INVALID), a))
    return signed((~(a < 1.0)).rare(edge, near), x, lambda x: abs(x) > 1.0)


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
