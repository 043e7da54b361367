"""Logarithms and inverse hyperbolic functions in f4.

x = 2**k (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2), and f is exact. log(1 + f) = f + f*f P(f).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npaccel.ir import coefficients as c
from npaccel.ir import logarithms
from npaccel.ir.precision import horner, keep_sign, root
from npaccel.ir.scalar import Expr
from npaccel.ir.singles.common import by_size, is_normal, reciprocal_root

__all__ = ["arccosh", "arcsinh", "arctanh", "exponent", "log", "log1p", "log2", "log10"]

Sum = tuple[float, float]
# Each as a sum of two f4.
LN2 = (float.fromhex("0x1.62e430p-1"), float.fromhex("-0x1.05c610p-29"))
INV_LN2 = (float.fromhex("0x1.715476p+0"), float.fromhex("0x1.4ae0c0p-26"))
INV_LN10 = (float.fromhex("0x1.bcb7b2p-2"), float.fromhex("-0x1.5b235ep-27"))
LOG10_2 = (float.fromhex("0x1.344136p-2"), float.fromhex("-0x1.ec10c0p-27"))
ONE = (1.0, 0.0)
UNIT = 2.0**-23  # of an exponent among the bits
FAR = 2.0**60


def exponent(x: Expr) -> tuple[Expr, Expr]:
    """(bits of x, k 2**23) for normal positive x."""
    bits = x.bitcast("i4")
    return bits, (bits - 0x3F3504F3) & -0x800000


def _join(k: Expr, f: Expr, scale: Sum, polynomial: Sequence[float], log_2: Sum) -> Expr:
    """(k + log2(1 + f)) log_2, given 2**23 k; `scale` is log_2 / log 2."""
    more = horner(f, (scale[1], *polynomial)) if scale[1] else f * horner(f, polynomial)
    low = f * more if log_2[1] == 0.0 else f.fma(more, k * (log_2[1] * UNIT))
    return k.fma(log_2[0] * UNIT, f.fma(scale[0], low))


def _based(scale: Sum, polynomial: Sequence[float], log_2: Sum) -> Callable[[Expr], Expr]:
    def near(x: Expr) -> Expr:
        bits, k = exponent(x)
        f = (bits - k).bitcast("f4") - 1.0
        return _join(k.convert("f4"), f, scale, polynomial, log_2)

    return near


def _natural(k: Expr, f: Expr, more: Expr | None) -> Expr:
    """k log(2) + log(1 + f) + more; k as its bits."""
    exponent = k.convert("f4")
    low = exponent * (LN2[1] * UNIT)
    low = (f * f).fma(horner(f, c.LN_SHORT), low if more is None else low + more)
    return exponent.fma(LN2[0] * UNIT, f + low)


def _log1p(x: Expr, more: Expr | None = None) -> Expr:
    """log(1 + x) + more."""
    _, k = exponent(x + 1.0)
    # x 2**-k + (2**-k - 1), and what it lost to rounding: nothing where k is 0.
    factor = (0x3F800000 - k).bitcast("f4")
    less = factor - 1.0
    f = x.fma(factor, less)
    lost = x.fma(factor, less - f)
    return _natural(k, f, lost if more is None else lost + more)


def _arcsinh(x: Expr) -> Expr:
    # log(a + s), s = sqrt(a*a + 1) with its error; 1 / (a + s) is s - a.
    a = abs(x)
    square = a.fma(a, 1.0)
    s = root(square)
    lost = (-s).fma(s, square) + a.fma(a, 1.0 - square)
    v = s + a
    rest = lost.fma(reciprocal_root(square) * 0.5, a - (v - s))
    bits, k = exponent(v)
    large = _natural(k, (bits - k).bitcast("f4") - 1.0, rest * (s - a))
    small = (a * (a * a)).fma(horner(a * a, c.ASINH_SHORT), a)
    return keep_sign((a < 0.5).select(small, large), x)


def _arccosh(x: Expr) -> Expr:
    # log1p(t + s), t = x - 1, s = sqrt(t * (t + 2)) with its error; 1 / (x + s) is x - s.
    t = x - 1.0
    twice = t + t
    square = t.fma(t, twice)
    s = root(square)
    lost = (-s).fma(s, square) + t.fma(t, twice - square)
    y = s + t
    rest = lost.fma(reciprocal_root(square) * 0.5, t - (y - s))
    return _log1p(y, (x < 2048.0).select(rest * (x - s), 0.0))  # too small to matter beyond


def _arctanh(x: Expr) -> Expr:
    # (1 + a) / (1 - a) = 2**k (1 + s) / (1 - s), of which k is found by the bits of both.
    a = abs(x)
    bits = (a + 1.0).bitcast("i4") - (1.0 - a).bitcast("i4")
    k = (bits + 0x400000) & -0x800000
    power = (k + 0x3F800000).bitcast("f4")
    plus, minus = power + 1.0, 1.0 - power
    s = a.fma(plus, minus) / a.fma(minus, plus)
    z = s * s
    exponent = k.convert("f4")
    low = (z * s).fma(horner(z, c.ATANH_NEAR_SHORT), exponent * (LN2[1] * UNIT / 2))
    return keep_sign(exponent.fma(LN2[0] * UNIT / 2, s + low), x)


log = by_size("log", _based(ONE, c.LN_SHORT, LN2), is_normal, logarithms.log)
log2 = by_size("log2", _based(INV_LN2, c.LN2_SHORT, ONE), is_normal, logarithms.log2)
log10 = by_size("log10", _based(INV_LN10, c.LN10_SHORT, LOG10_2), is_normal, logarithms.log10)
log1p = by_size(
    "log1p", lambda x: keep_sign(_log1p(x), x), lambda x: (x > -1.0) & (x < FAR), logarithms.log1p
)
arcsinh = by_size("arcsinh", _arcsinh, lambda x: abs(x) < FAR, logarithms.arcsinh)
arccosh = by_size("arccosh", _arccosh, lambda x: (x >= 1.0) & (x < FAR), logarithms.arccosh)
arctanh = by_size("arctanh", _arctanh, lambda x: abs(x) < 1.0 - 2.0**-20, logarithms.arctanh)
