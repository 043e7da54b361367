"""Bodies of exp, exp2, expm1 and the hyperbolic functions, in f8.

With n = rint(x / log 2) and r = x - n log 2, exp(x) = 2**n exp(r) and |r| <= log(2)/2. With
c = (2**n + 2**-n) / 2 and s = (2**n - 2**-n) / 2, cosh(x) = c cosh(r) + s sinh(r) and
sinh(x) = s cosh(r) + c sinh(r): no quotient.
"""

from __future__ import annotations

from npaccel.ir import coefficients as c
from npaccel.ir.nans import KEPT, POSITIVE
from npaccel.ir.precision import Pair, fast_two_sum, horner, keep_sign, two_sum
from npaccel.ir.scalar import Core, Expr

__all__ = [
    "LARGE",
    "MAGIC",
    "MAGIC_BITS",
    "cosh",
    "exp",
    "exp2",
    "exp2_reduced",
    "exp_pair",
    "exp_wide",
    "expm1",
    "reduce",
    "scale",
    "scale_far",
    "sinh",
    "sinh_and_cosh",
    "tanh",
]

# Adding 1.5 * 2**52 rounds to an integer and leaves that integer in the low bits.
MAGIC = 1.5 * 2.0**52
MAGIC_BITS = 0x4338000000000000
# 2**(n + UP) is a normal number where 2**n is a subnormal one. Even, so that ties go as without it.
UP = 64

LOG2E = float.fromhex("0x1.71547652b82fep+0")
# log 2 as a sum; the first has 11 zero bits at its end, so n times it is exact.
LN2_HIGH = float.fromhex("0x1.62e42fefa3800p-1")
LN2_LOW = float.fromhex("0x1.ef35793c76730p-45")
LN2_REST = float.fromhex("0x1.abc9e3b39803fp-56")  # what log 2 as one float is off

# Beyond, 2**n is not a normal number.
LARGE = 708.0


def scale(p: Expr, marked: Expr) -> Expr:
    """p * 2**n for normal p and result; `marked` is n + MAGIC."""
    return (p.bitcast("i8") + marked.bitcast("i8").binary(Core.SHL, 52)).bitcast("f8")


def scale_far(p: Expr, marked: Expr, more: int = 0) -> Expr:
    """p * 2**(n + more) for |n| < 2000, rounded once where it is subnormal."""
    n = marked.bitcast("i8") - (MAGIC_BITS - more)
    half = n.binary(Core.ASHR, 1)
    first, second = ((e + 1023).binary(Core.SHL, 52).bitcast("f8") for e in (half, n - half))
    return p * first * second


def _scale_down(p: Expr, marked: Expr) -> Expr:
    """p * 2**n for normal p and -1080 < n < 950, rounded once where it is subnormal.

    `marked` is n + UP + MAGIC.
    """
    return scale(p, marked) * 2.0**-UP


def clamp(x: Expr, low: float, high: float) -> Expr:
    """`x` within limits; a NaN stays."""
    x = (x > high).select(x.like(high), x)
    return (x < low).select(x.like(low), x)


def reduce(x: Expr, up: int = 0) -> tuple[Expr, Expr]:
    """(n + up + MAGIC, r)."""
    marked = x.fma(LOG2E, MAGIC + up)
    n = marked - (MAGIC + up)
    return marked, (-n).fma(LN2_LOW, (-n).fma(LN2_HIGH, x))


def _exp_reduced(r: Expr, *, fine: bool) -> Expr:
    return horner(r, (1.0, 1.0, *(c.EXP_SUM_F8 if fine else c.EXP_F4)))


def exp_wide(x: Expr, *, fine: bool, more: int = 0) -> Expr:
    """exp(x) * 2**more, `more` of -1, 0 or 1, for every x."""
    marked, r = reduce(clamp(x, -1000.0, 1000.0))
    return scale_far(_exp_reduced(r, fine=fine), marked, more)


def exp_pair(x: Expr, low: Expr | None, *, fine: bool) -> Expr:
    """e**(x + low) where it is a normal number."""
    marked, r = reduce(x)
    return scale(_exp_reduced(r if low is None else r + low, fine=fine), marked)


def _large(x: Expr) -> Expr:
    return ~(abs(x) < LARGE)


def at_least(x: Expr, low: float) -> Expr:
    """`x`, or `low` if that is more."""
    return (x < low).select(x.like(low), x)


def exp(x: Expr, *, fine: bool) -> Expr:
    """e**x. Results of 0 are not rare: masks, tails of Gaussians."""
    marked, r = reduce(at_least(x, -746.0), UP)
    near = _scale_down(_exp_reduced(r, fine=fine), marked)
    return (~(x < 655.0)).rare(exp_wide(x, fine=fine), near)


def exp2_reduced(r: Expr, *, fine: bool) -> Expr:
    """2**r for |r| <= 1/2."""
    return r.fma(horner(r, c.EXP2_F8 if fine else c.EXP2_F4), 1.0)


def exp2(x: Expr, *, fine: bool) -> Expr:
    """2**x."""
    inside = at_least(x, -1076.0)
    marked = inside + (MAGIC + UP)
    near = _scale_down(exp2_reduced(inside - (marked - (MAGIC + UP)), fine=fine), marked)
    inside = clamp(x, -1500.0, 1500.0)
    far = inside + MAGIC
    wide = scale_far(exp2_reduced(inside - (far - MAGIC), fine=fine), far)
    return (~(x < 945.0)).rare(wide, near)


def _expm1_near(x: Expr, *, fine: bool) -> Expr:
    # s (exp(r) - 1) + (s - 1) with s = 2**n. The sum of the two large terms is kept exactly.
    marked = x.fma(LOG2E, MAGIC)
    n = marked - MAGIC
    start = (-n).fma(LN2_HIGH, x)
    r, rest = fast_two_sum(start, (-n) * LN2_LOW)
    s = scale(x.like(1.0), marked)
    tail = (r * r).fma(horner(r, c.EXP_F8 if fine else c.EXP_F4), rest.fma(r, rest))
    high, low = two_sum(s - 1.0, s * r)
    return x.eq(0.0).select(x, high + s.fma(tail, low))


def expm1(x: Expr, *, fine: bool) -> Expr:
    """e**x - 1."""
    wide = (x < 0.0).select(x.like(-1.0), exp_wide(x, fine=fine))
    return _large(x).rare(wide, _expm1_near(x, fine=fine))


def _halves(a: Expr, *, fine: bool) -> tuple[Pair, Pair, Expr, Expr]:
    """((2**n + 2**-n) / 2, what it lost), the same of the difference, cosh(r) - 1 and sinh(r).

    Of 0 <= a < LARGE.
    """
    marked, r = reduce(a)
    z = r * r
    cosine = z * horner(z, c.COSH_F8 if fine else c.COSH_F4)
    sine = (z * r).fma(horner(z, c.SINH_F8 if fine else c.SINH_F4), r)
    n = marked.bitcast("i8").binary(Core.SHL, 52)
    up = (n + 0x3FE0000000000000).bitcast("f8")
    down = (0x3FE0000000000000 - n).bitcast("f8")
    return fast_two_sum(up, down), fast_two_sum(up, -down), cosine, sine


def sinh_and_cosh(x: Expr, *, fine: bool) -> tuple[Expr, Expr]:
    """Both for |x| < LARGE."""
    (total, total_lost), (difference, lost), cosine, sine = _halves(abs(x), fine=fine)
    odd = difference + total.fma(sine, difference.fma(cosine, lost))
    even = total + difference.fma(sine, total.fma(cosine, total_lost))
    return keep_sign(odd, x), even


def sinh(x: Expr, *, fine: bool) -> Expr:
    """Hyperbolic sine."""
    near, _ = sinh_and_cosh(x, fine=fine)
    return _large(x).rare(keep_sign(exp_wide(abs(x), fine=fine, more=-1), x), near)


def cosh(x: Expr, *, fine: bool) -> Expr:
    """Hyperbolic cosine."""
    _, near = sinh_and_cosh(x, fine=fine)
    wide = exp_wide(abs(x), fine=fine, more=-1)
    return _large(x).rare(x.isnan().select(x, wide), near)


def tanh(x: Expr, *, fine: bool, nans: int = KEPT) -> Expr:
    """Hyperbolic tangent; 1 to the last bit from 20 on."""
    a = abs(x)
    a = (a > 20.0).select(a.like(20.0), a)
    # t = (exp(2 a) - 1) / 2, of which less is lost than by the sum and the quotient.
    marked = a.fma(2.0 * LOG2E, MAGIC + 1022)
    n = marked - (MAGIC + 1022)
    r = (-n).fma(LN2_LOW, (-n).fma(LN2_HIGH, a + a))
    s = marked.bitcast("i8").binary(Core.SHL, 52).bitcast("f8")  # 2**(n - 1)
    t = s.fma((r * r).fma(horner(r, c.EXP_F8 if fine else c.EXP_F4), r), s - 0.5)
    # Where x is a NaN, so is t: it gets the sign of 20.
    sign = (x < 20.0).select(x, 20.0) if nans == POSITIVE else x
    return keep_sign(t / (t + 1.0), sign)


def exp2_of_pair(x: Pair, *, fine: bool) -> tuple[Expr, Expr]:
    """(2**r, n + MAGIC) of x = n + r, for |x| < 2**40."""
    high, low = x
    marked = high + MAGIC
    r = high - (marked - MAGIC)
    rounded = r + low
    if not fine:
        return exp2_reduced(rounded, fine=False), marked
    first, *others = c.EXP2_F8
    rest = (rounded * rounded).fma(horner(rounded, others), r.fma(LN2_REST, low * first))
    return r.fma(first, rest) + 1.0, marked
