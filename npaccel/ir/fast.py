"""The second accuracy class: bodies within 2 units of the last place that take less time.

`npaccel.config.accuracy = "fast"` asks for them. What is rare (huge arguments, NaN, infinities) is
computed as in the first class.

sin and cos: with n = rint(x / pi) and r = x - n pi, sin(x) is sin(r) or -sin(r), |r| <= pi/2: one
polynomial, where the first class has two of r = x - q pi/2 as a sum of two floats. For cos, r is
taken from the nearest odd multiple of pi/2. The first step of r is exact, so r is good to the last
place or two however close to 0 it is.

Logarithms: f and s as in the first class; log(1 + f) = f - s * (f - z P(z)) in two steps. What it
loses to rounding goes on into the sum with k log 2, the factor of which is one float.

expm1: exp(r) - 1 times 2**n, and 2**n - 1, of which the first class keeps the rounding errors; not
of f4, which is as here in both.

erf(x) = 1 - exp(-x (1 + P(x))) for all x >= 0, as expm1. Its error is that of the exponent where x
is small, and far less elsewhere. The first class has a polynomial for x <= 1, and erfc beyond.

cbrt: with y near |x|**(-1/3), h = |x| y*y and r = 1 - h y, the root is h (1 - r)**(-2/3). Of what h
is off, r takes two thirds back. The first class takes a step of Newton's with an exact residue.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from npaccel.ir import coefficients as c
from npaccel.ir import exponentials as wide
from npaccel.ir import logarithms, powers
from npaccel.ir.exponentials import MAGIC, MAGIC_BITS
from npaccel.ir.mathematics import MATHEMATICS
from npaccel.ir.operation import Body, Op
from npaccel.ir.precision import INF, horner, keep_sign, two_product
from npaccel.ir.scalar import Core, Expr
from npaccel.ir.singles import common
from npaccel.ir.singles import exponentials as narrow
from npaccel.ir.singles import logarithms as singles
from npaccel.ir.singles import powers as cubes
from npaccel.ir.singles.trigonometry import FAR
from npaccel.ir.special import SPECIAL
from npaccel.ir.trigonometry import NEAR

__all__ = ["FAST"]

# pi in three parts, each cut off: where n is 0, what is taken off is -0.0, and -0.0 stays.
PI = tuple(
    float.fromhex(text)
    for text in ("0x1.921fb54442d18p+1", "0x1.1a62633145c06p-53", "0x1.c1cd129024e08p-106")
)
PI_SINGLE = tuple(
    float.fromhex(text) for text in ("0x1.921fb4p+1", "0x1.4442d0p-23", "0x1.846988p-47")
)
INV_PI = float.fromhex("0x1.45f306dc9c883p-2")


def _less(x: Expr, n: Expr, parts: tuple[float, ...]) -> Expr:
    """x - n * (the sum of the parts), the first step of which is exact."""
    for part in parts:
        x = (-n).fma(part, x)
    return x


def _sine(r: Expr, marked: Expr, *, odd: int) -> Expr:
    """(-1)**(n + odd) sin(r), for |r| <= pi/2; n in the low bits of `marked`."""
    single = r.dtype == "f4"
    z, lost = two_product(r, r)
    tail = horner(z, c.SIN_WHOLE_SHORT if single else c.SIN_WHOLE_F8)
    # Near pi/2 the second term is as large as the result: its cube has one rounding, not two.
    size = r.fma(z, r * lost).fma(tail, r)
    integer, top = ("i4", 31) if single else ("i8", 63)
    turned = (marked.bitcast(integer) + odd if odd else marked.bitcast(integer)).binary(
        Core.SHL, top
    )
    return keep_sign(size, (r.bitcast(integer) ^ turned).bitcast(r.dtype))


def _constants(x: Expr) -> tuple[float, tuple[float, ...]]:
    return (common.MAGIC, PI_SINGLE) if x.dtype == "f4" else (MAGIC, PI)


def _sin(x: Expr) -> Expr:
    magic, parts = _constants(x)
    marked = x.fma(INV_PI, magic)
    return _sine(_less(x, marked - magic, parts), marked, odd=0)


def _cos(x: Expr) -> Expr:
    magic, parts = _constants(x)
    marked = x.fma(INV_PI, -0.5) + magic
    halves = (marked - magic).fma(2.0, 1.0)
    return _sine(_less(x, halves, tuple(0.5 * part for part in parts)), marked, odd=1)


def _not_huge(x: Expr) -> Expr:
    return abs(x) < (FAR if x.dtype == "f4" else NEAR)


# ------------------------------------------------------------------------------------- logarithms


def _split(x: Expr) -> tuple[Expr, Expr]:
    """(k, m - 1) for normal positive x; k of f4 times 2**23."""
    if x.dtype == "f4":
        bits, k = singles.exponent(x)
        return k.convert("f4"), (bits - k).bitcast("f4") - 1.0
    exponent, m = logarithms.split(x)
    return exponent, m - 1.0


def _log_near(f: Expr) -> Expr:
    """log(1 + f)."""
    s = f / (f + 2.0)
    z = s * s
    tail = horner(z, c.LOG_FAST_SHORT if f.dtype == "f4" else c.LOG_FAST_F8)
    return (-s).fma((-z).fma(tail, f), f)


def _sum(k: Expr, near: Expr) -> Expr:
    """k log 2 + near."""
    return k.fma(logarithms.LN2 * (singles.UNIT if k.dtype == "f4" else 1.0), near)


def _log(x: Expr) -> Expr:
    k, f = _split(x)
    return _sum(k, _log_near(f))


def _log2(x: Expr) -> Expr:
    k, f = _split(x)
    return _log_near(f).fma(logarithms.INV_LN2[0], k * singles.UNIT if x.dtype == "f4" else k)


def _log10(x: Expr) -> Expr:
    k, f = _split(x)
    return k.fma(sum(logarithms.LOG10_2), _log_near(f) * logarithms.INV_LN10[0])


def _log1p(x: Expr) -> Expr:
    # f = x 2**-k + (2**-k - 1), rounded once.
    if x.dtype == "f4":
        _, k = singles.exponent(x + 1.0)
        factor, exponent = (0x3F800000 - k).bitcast("f4"), k.convert("f4")
    else:
        k = ((x + 1.0).bitcast("i8") - 0x3FE6A09E667F3BCD).binary(Core.ASHR, 52)
        factor = (0x3FF0000000000000 - k.binary(Core.SHL, 52)).bitcast("f8")
        exponent = (k + MAGIC_BITS).bitcast("f8") - MAGIC
    return keep_sign(_sum(exponent, _log_near(x.fma(factor, factor - 1.0))), x)


def _normal(x: Expr) -> Expr:
    return common.is_normal(x) if x.dtype == "f4" else (x >= logarithms.TINY) & (x < INF)


def _above_minus_one(x: Expr) -> Expr:
    return (x > -1.0) & (x < (singles.FAR if x.dtype == "f4" else 2.0**500))


# -------------------------------------------------------------------------------- exp(x) - 1, erf


def _parts(x: Expr) -> tuple[Expr, Expr]:
    """(2**n, exp(r) - 1), x = n log 2 + r."""
    single, one = x.dtype == "f4", x.like(1.0)
    marked, r = narrow.reduce(x) if single else wide.reduce(x)
    tail = horner(r, c.EXP_SHORT if single else c.EXP_F8)
    s = narrow.scale(one, marked) if single else wide.scale(one, marked)
    return s, (r * r).fma(tail, r)


def _expm1(x: Expr) -> Expr:
    s, e = _parts(x)
    return keep_sign(s.fma(e, s - 1.0), x)


def _moderate(x: Expr) -> Expr:
    return abs(x) < wide.LARGE


def _erf(x: Expr) -> Expr:
    a, single = abs(x), x.dtype == "f4"
    most = 4.0 if single else 6.0  # from there on it is 1
    a = (a > most).select(a.like(most), a)
    tail = horner(a, c.ERF_WHOLE_SHORT if single else c.ERF_WHOLE_F8)
    s, e = _parts((-a).fma(tail, -a))
    return keep_sign((-s).fma(e, 1.0 - s), x)


# ------------------------------------------------------------------------------------- cube roots


def _cbrt(x: Expr) -> Expr:
    a, single = abs(x), x.dtype == "f4"
    y = cubes.guess(a) if single else powers.guess(a)
    if not single:
        y = y * horner((-(y * y)).fma(a * y, 1.0), c.CBRT_START)
    h = a * (y * y)
    r = (-h).fma(y, 1.0)
    tail = horner(r, c.CBRT_FAST_SHORT if single else c.CBRT_FAST_F8)
    return keep_sign((h * r).fma(tail, h), x)


def _normal_size(x: Expr) -> Expr:
    a = abs(x)
    return common.is_normal(a) if x.dtype == "f4" else (a >= logarithms.TINY) & (a < INF)


def _row(name: str, near: Body, usual: Callable[[Expr], Expr] | None, without: str = "") -> Op:
    """`near` where `usual` is true, not of a NaN, and else what the first class has."""
    first = next(op for op in (*MATHEMATICS, *SPECIAL) if op.name == name and op.kinds == "f")

    def body(x: Expr) -> Expr:
        assert first.body is not None
        cheap = near(x)
        assert isinstance(cheap, Expr)
        if usual is None:
            return cheap
        anywhere = first.body(x)
        assert isinstance(anywhere, Expr)
        return (~usual(x)).rare(anywhere, cheap)

    return replace(first, body=body, ulp=2, without=("f2", *without.split()))


FAST = (
    _row("sin", _sin, _not_huge),
    _row("cos", _cos, _not_huge),
    _row("log", _log, _normal),
    _row("log2", _log2, _normal),
    _row("log10", _log10, _normal, without="f4"),
    _row("log1p", _log1p, _above_minus_one),
    _row("expm1", _expm1, _moderate, without="f4"),
    _row("erf", _erf, None),
    _row("cbrt", _cbrt, _normal_size),
)
