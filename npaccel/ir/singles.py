"""Bodies for f4 in f4: the common case of the functions that programs use most.

Where the argument is unusual (large, tiny, not finite) the f8 body takes over, which is rare.
The methods are those of `exponentials`, `logarithms` and `trigonometry`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from npaccel.ir import coefficients as c
from npaccel.ir import exponentials, logarithms, trigonometry
from npaccel.ir.nans import like_numpys, passed
from npaccel.ir.precision import (
    Pair,
    Wide,
    by_f8,
    fast_two_sum,
    horner,
    keep_sign,
    two_product,
    two_sum,
)
from npaccel.ir.scalar import Core, Expr

__all__ = ["cos", "exp", "expm1", "log", "sin", "tanh"]

MAGIC = 1.5 * 2.0**23
MAGIC_BITS = 0x4B400000
LOG2E = float.fromhex("0x1.715476p+0")
LN2_HIGH = float.fromhex("0x1.62e400p-1")  # 9 zero bits at its end
LN2_LOW = float.fromhex("0x1.7f7d1cp-20")
INV_PIO2 = float.fromhex("0x1.45f306p-1")
PIO2 = tuple(float.fromhex(t) for t in ("0x1.921fb6p+0", "-0x1.777a5cp-25", "-0x1.ee59dap-50"))
LARGE = 87.0
FAR = 2.0**16
TINY, INF = 2.0**-126, float("inf")


def _by_size(
    name: str,
    near: Callable[[Expr], Expr],
    mask: Callable[[Expr], Expr],
    wide: Wide,
    *,
    tells: bool = False,
) -> Callable[..., Expr]:
    """f4 by `near`, where `mask` is true (NaN included) by `wide` in f8; other dtypes in f8.

    tells : `wide` is told what becomes of NaNs
    """

    def body(x: Expr) -> Expr:
        if tells:
            anywhere = by_f8(functools.partial(wide, nans=passed(name, x.dtype)))(x)
        else:
            anywhere = like_numpys(name, x, by_f8(wide)(x))
        return mask(x).rare(anywhere, near(x)) if x.dtype == "f4" else anywhere

    return body


def _scale(p: Expr, marked: Expr) -> Expr:
    return (p.bitcast("i4") + marked.bitcast("i4").binary(Core.SHL, 23)).bitcast("f4")


def _large(x: Expr) -> Expr:
    return ~(abs(x) < LARGE)


def _exp(x: Expr) -> Expr:
    marked = x.fma(LOG2E, MAGIC)
    n = marked - MAGIC
    r = (-n).fma(LN2_LOW, (-n).fma(LN2_HIGH, x))
    return _scale((r * r).fma(horner(r, c.EXP_SHORT), r) + 1.0, marked)


def _expm1(x: Expr) -> Expr:
    marked = x.fma(LOG2E, MAGIC)
    n = marked - MAGIC
    r, rest = fast_two_sum((-n).fma(LN2_HIGH, x), (-n) * LN2_LOW)
    s = _scale(x.like(1.0), marked)
    tail = (r * r).fma(horner(r, c.EXP_SHORT), rest)
    high, low = two_sum(s - 1.0, s * r)
    return x.eq(0.0).select(x, high + s.fma(tail, low))


def _tanh(x: Expr) -> Expr:
    a = abs(x)
    a = (a > 10.0).select(a.like(10.0), a)
    t = _expm1(a * 2.0)
    return keep_sign(t / (t + 2.0), x)


def _log(x: Expr) -> Expr:
    bits = x.bitcast("i4")
    k = (bits - 0x3F3504F3).binary(Core.ASHR, 23)
    f = (bits - k.binary(Core.SHL, 23)).bitcast("f4") - 1.0
    n = (k + MAGIC_BITS).bitcast("f4") - MAGIC
    s = f / (f + 2.0)
    z = s * s
    square = f * f * 0.5
    tail = s * z.fma(horner(z, c.LOG_SHORT), square)
    return n.fma(LN2_HIGH, f - (square - n.fma(LN2_LOW, tail)))


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


def _far(x: Expr) -> Expr:
    return ~(abs(x) < FAR)


exp = _by_size("exp", _exp, _large, exponentials.exp)
expm1 = _by_size("expm1", _expm1, _large, exponentials.expm1)
tanh = _by_size("tanh", _tanh, lambda x: x.isnan(), exponentials.tanh, tells=True)
log = _by_size("log", _log, lambda x: ~((x >= TINY) & (x < INF)), logarithms.log)
sin = _by_size("sin", _sin, _far, trigonometry.sin)
cos = _by_size("cos", _cos, _far, trigonometry.cos)
