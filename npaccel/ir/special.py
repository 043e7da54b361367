"""Rows of ufuncs of scipy.special. They warn of nothing, as SciPy's do not by default.

With y >= 0, erfc(y) = exp(-y**2) / (1 + 2 y) * P(q), q = (y - 4) / (y + 4), as M. M. Shepherd and
J. G. Laframboise have it (Mathematics of Computation 36, 1981): one polynomial for all y.
"""

from __future__ import annotations

from npaccel.ir import coefficients as c
from npaccel.ir import exponentials, logarithms
from npaccel.ir.operation import Op
from npaccel.ir.precision import INF, Wide, by_f8, horner, keep_sign
from npaccel.ir.scalar import Expr

__all__ = ["SPECIAL"]

ROOT_HALF = 0.7071067811865476
TINY = 2.0**-1022
# Beyond, erfc is 0.
FAR = 28.0


def _scaled_erfc(y: Expr, *, fine: bool) -> Expr:
    """exp(y**2) erfc(y) for 0 <= y <= FAR."""
    p = horner((y - 4.0) / (y + 4.0), c.ERFC_F8 if fine else c.ERFC_F4)
    return p / y.fma(2.0, 1.0)


def _minus_exp(x: Expr, scale: float, *, fine: bool) -> Expr:
    """exp(-scale x**2), the square with its rounding error; scale: a power of two."""
    square = x * x
    low = x.fma(x, -square)
    result = exponentials.exp(square * -scale, fine=fine)
    return result.fma(low * -scale, result)


def _at_most(x: Expr, limit: float) -> Expr:
    """|x|, or `limit` if that is less; a NaN stays."""
    size = abs(x)
    return (size > limit).select(size.like(limit), size)


def _near_erf(x: Expr, *, fine: bool) -> Expr:
    """erf(x) for |x| <= 1."""
    return x.fma(horner(x * x, c.ERF_F8 if fine else c.ERF_F4), x)


def _erf(x: Expr, *, fine: bool) -> Expr:
    near = _near_erf(x, fine=fine)
    y = _at_most(x, 8.0)
    rest = exponentials.exp(-(y * y), fine=fine) * _scaled_erfc(y, fine=fine)
    return (abs(x) < 1.0).select(near, keep_sign(1.0 - rest, x))


def _erfc(x: Expr, *, fine: bool) -> Expr:
    y = _at_most(x, FAR)
    rest = _minus_exp(y, 1.0, fine=fine) * _scaled_erfc(y, fine=fine)
    far = (x < 0.0).select(2.0 - rest, rest)
    return (y < 0.5).select(1.0 - _near_erf(x, fine=fine), far)


def _ndtr(x: Expr, *, fine: bool) -> Expr:
    """Half of erfc(-x / sqrt(2))."""
    y = _at_most(x, 39.0)
    rest = _minus_exp(y, 0.5, fine=fine) * (_scaled_erfc(y * ROOT_HALF, fine=fine) * 0.5)
    far = (x > 0.0).select(1.0 - rest, rest)
    near = _near_erf(x * ROOT_HALF, fine=fine).fma(0.5, 0.5)
    return (y < 0.75).select(near, far)


def _expit(x: Expr, *, fine: bool) -> Expr:
    e = exponentials.exp(-abs(x), fine=fine)
    return (x < 0.0).select(e, e.like(1.0)) / (e + 1.0)


def _logit(x: Expr, *, fine: bool) -> Expr:
    """log(r + low), r + low = x / (1 - x)."""
    d = 1.0 - x
    lost = (1.0 - d) - x
    r = x / d
    low = ((-r).fma(d, x) - r * lost) / d
    near = logarithms.log_of_pair(r, low, fine=fine)
    outside = (x > 1.0).select(x.like(-1.0), x)  # of which there is no logarithm
    edge = x.eq(1.0).select(x.like(INF), logarithms.log(outside, fine=fine))
    return (~((x >= TINY) & (x < 1.0))).rare(edge, near)


def _times(logarithm: Wide) -> Wide:
    def body(x: Expr, y: Expr, *, fine: bool) -> Expr:
        product = x * logarithm(y, fine=fine)
        return (x.eq(0.0) & y.eq(y)).select(x.like(0.0), product)

    return body


def _row(name: str, body: Wide, ulp: int, nin: int = 1) -> Op:
    return Op(name, nin, 1, "f", by_f8(body), ulp=ulp, without=("f2",), warns="")


SPECIAL = (
    _row("erf", _erf, 2),
    _row("erfc", _erfc, 5),
    _row("ndtr", _ndtr, 5),
    _row("expit", _expit, 3),
    _row("logit", _logit, 2),
    _row("xlogy", _times(logarithms.log), 2, 2),
    _row("xlog1py", _times(logarithms.log1p), 2, 2),
)
