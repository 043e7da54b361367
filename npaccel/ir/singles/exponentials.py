"""exp and the hyperbolic functions in f4.

With n = rint(x / log 2) and r = x - n log 2, exp(x) = 2**n exp(r) and |r| <= log(2)/2.
"""

from __future__ import annotations

import functools

from npaccel.ir import coefficients as c
from npaccel.ir import exponentials
from npaccel.ir.nans import POSITIVE, passed
from npaccel.ir.precision import by_f8, horner, keep_sign
from npaccel.ir.scalar import Core, Expr
from npaccel.ir.singles.common import MAGIC, by_size

__all__ = ["LARGE", "cosh", "exp", "exp2", "expm1", "reduce", "scale", "sinh", "tanh"]

LOG2E = float.fromhex("0x1.715476p+0")
LN2_HIGH = float.fromhex("0x1.62e400p-1")  # 9 zero bits at its end
LN2_LOW = float.fromhex("0x1.7f7d1cp-20")
LARGE = 87.0
UP = 24  # as in f8


def scale(p: Expr, marked: Expr) -> Expr:
    """p * 2**n for normal p and result; `marked` is n + MAGIC."""
    return (p.bitcast("i4") + marked.bitcast("i4").binary(Core.SHL, 23)).bitcast("f4")


def reduce(x: Expr, up: int = 0) -> tuple[Expr, Expr]:
    """(n + up + MAGIC, r)."""
    marked = x.fma(LOG2E, MAGIC + up)
    n = marked - (MAGIC + up)
    return marked, (-n).fma(LN2_LOW, (-n).fma(LN2_HIGH, x))


def _scale_down(p: Expr, marked: Expr) -> Expr:
    """p * 2**n for normal p and -151 <= n <= 102, rounded once where it is subnormal.

    `marked` is n + UP + MAGIC.
    """
    return scale(p, marked) * 2.0**-UP


def _exp(x: Expr) -> Expr:
    marked, r = reduce(exponentials.at_least(x, -104.0), UP)
    return _scale_down(horner(r, (1.0, 1.0, *c.EXP_SUM_SHORT)), marked)


def _exp2(x: Expr) -> Expr:
    inside = exponentials.at_least(x, -150.0)
    marked = inside + (MAGIC + UP)
    r = inside - (marked - (MAGIC + UP))
    return _scale_down(r.fma(horner(r, c.EXP2_SHORT), 1.0), marked)


def _expm1(x: Expr) -> Expr:
    # 2**n (exp(r) - 1) and 2**n - 1, whose rounding errors are within the bound.
    marked, r = reduce(x)
    s = scale(x.like(1.0), marked)
    return keep_sign(s.fma((r * r).fma(horner(r, c.EXP_SHORT), r), s - 1.0), x)


def _waves(r: Expr) -> tuple[Expr, Expr]:
    """(cosh(r) - 1, sinh(r))."""
    z = r * r
    return z * horner(z, c.COSH_SHORT), (z * r).fma(horner(z, c.SINH_SHORT), r)


def _halves(x: Expr, *, minus: bool) -> Expr:
    """(exp(a) + exp(-a)) / 2, or their difference, for a >= 0."""
    marked, r = reduce(x)
    cosine, sine = _waves(r)
    n = marked.bitcast("i4").binary(Core.SHL, 23)
    up, down = (0x3F000000 + n).bitcast("f4"), (0x3F000000 - n).bitcast("f4")
    total, difference = up + down, up - down
    first, second = (difference, total) if minus else (total, difference)
    # What `first` lost to rounding.
    lost = (up - first) - down if minus else (up - first) + down
    return first + second.fma(sine, first.fma(cosine, lost))


def _sinh(x: Expr) -> Expr:
    return keep_sign(_halves(abs(x), minus=True), x)


def _cosh(x: Expr) -> Expr:
    return _halves(abs(x), minus=False)


def tanh(x: Expr) -> Expr:
    """As in f8, of every f4, so that no NaN is rare."""
    nans = passed("tanh", x.dtype)
    if x.dtype != "f4":
        return by_f8(functools.partial(exponentials.tanh, nans=nans))(x)
    a = abs(x)
    a = (a > 10.0).select(a.like(10.0), a)
    marked = a.fma(2.0 * LOG2E, MAGIC + 126)
    n = marked - (MAGIC + 126)
    r = (-n).fma(LN2_LOW, (-n).fma(LN2_HIGH, a + a))
    s = marked.bitcast("i4").binary(Core.SHL, 23).bitcast("f4")  # 2**(n - 1)
    t = s.fma((r * r).fma(horner(r, c.EXP_SHORT), r), s - 0.5)
    sign = (x < 10.0).select(x, 10.0) if nans == POSITIVE else x
    return keep_sign(t / (t + 1.0), sign)


def _usual(x: Expr) -> Expr:
    return abs(x) < LARGE


exp = by_size("exp", _exp, lambda x: x < 70.0, exponentials.exp)
exp2 = by_size("exp2", _exp2, lambda x: x < 101.0, exponentials.exp2)
expm1 = by_size("expm1", _expm1, _usual, exponentials.expm1)
sinh = by_size("sinh", _sinh, _usual, exponentials.sinh)
cosh = by_size("cosh", _cosh, _usual, exponentials.cosh)
