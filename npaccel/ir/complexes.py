"""Bodies of functions of complex numbers: within the row's bound, special values as in C's Annex G.

Parts are computed in f8, of c8, too. What is not finite or too large is rare.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from npaccel.ir import exponentials, logarithms, trigonometry
from npaccel.ir.conditions import finite, is_infinite, overflow
from npaccel.ir.exponentials import LN2_HIGH, LN2_LOW
from npaccel.ir.hyperbolics import HYPERBOLICS, exp_far
from npaccel.ir.nans import INVALID, NAN
from npaccel.ir.nodes import FlagKind
from npaccel.ir.operation import Masks, Op, Operands
from npaccel.ir.precision import Pair, root, two_product, two_sum
from npaccel.ir.scalar import Core, Expr

__all__ = ["COMPLEX", "exp_invalid", "exp_parts", "log_parts", "log_size", "ordered", "squares"]

LN2 = LN2_HIGH + LN2_LOW
LARGE = 709.0  # exp of what is less is finite


def _exp(z: Expr) -> Expr:
    dtype = z.real().dtype
    a, b = z.real().convert("f8"), z.imag().convert("f8")
    parts = exp_parts(a, b, fine=z.dtype == "c16")
    return z.pool.complex(*(part.convert(dtype) for part in parts))


def exp_parts(
    a: Expr, b: Expr, low: tuple[Expr, Expr] | None = None, *, fine: bool
) -> tuple[Expr, Expr]:
    """The parts of exp(a + i b), low to be added to a and b."""
    cosine, sine = trigonometry.cos(b, fine=fine), trigonometry.sin(b, fine=fine)
    if low is not None:
        cosine, sine = (-low[1]).fma(sine, cosine), low[1].fma(cosine, sine)
        cosine, sine = cosine.fma(low[0], cosine), sine.fma(low[0], sine)
    size = exponentials.exp(a, fine=fine)
    there, none = finite(b), a.eq(-math.inf)
    most = a.eq(math.inf)
    nan, zero = a.like(NAN), a.like(0.0)
    # Where the imaginary part is finite.
    far = [a.isnan().select(nan, exp_far(x, a)) for x in (cosine, sine)]
    # Where it is not.
    lost = is_infinite(b).select(a.like(INVALID), b)
    wild = (
        none.select(zero, most.select(a, nan)),
        none.select(zero.binary(Core.COPYSIGN, b), most.select(lost, nan)),
    )
    exact = [there.select(x, y) for x, y in zip(far, wild, strict=True)]
    exact[1] = b.eq(0.0).select(b, exact[1])
    rare = ~((a < LARGE) & there)
    return rare.rare(exact[0], size * cosine), rare.rare(exact[1], size * sine)


def exp_invalid(a: Expr, b: Expr) -> Expr:
    """Where exp(a + i b) warns of an invalid value."""
    lost = is_infinite(b) & ~a.eq(-math.inf)
    return lost | (b.isnan() & finite(a)) | (a.isnan() & finite(b) & b.ne(0.0))


def _exp_masks(operands: Operands, results: Operands) -> Masks:
    invalid = exp_invalid(operands[0].real(), operands[0].imag())
    return *overflow(operands, results), (FlagKind.INVALID, invalid)


def _sqrt(z: Expr) -> Expr:
    """With t = sqrt((|a| + |z|) / 2): t and b / 2t, or for negative a the other way round."""
    dtype = z.real().dtype
    a, b = z.real().convert("f8"), z.imag().convert("f8")
    large = abs(a) > abs(b)
    most = large.select(abs(a), abs(b))
    usual = (most > 2.0**-480) & (most < 2.0**500) & a.eq(a) & b.eq(b)
    near = _root_parts(a, b, _half_sum(a, b))
    # Out of range: of z 2**600 or z 2**-600, zero as it is.
    up = (most > 1.0).select(most.like(2.0**-600), 2.0**600)
    down = (most > 1.0).select(most.like(2.0**300), 2.0**-300)
    far = _root_parts(a, b, _half_sum(a * up, b * up) * down)
    zero, infinite, nan = most.like(0.0), most.like(math.inf), most.like(NAN)
    left = a.eq(-math.inf)
    wild = (
        left.select(b.isnan().select(nan, zero), a.eq(math.inf).select(infinite, nan)),
        left.select(
            infinite.binary(Core.COPYSIGN, b),
            (a.eq(math.inf) & ~b.isnan()).select(zero.binary(Core.COPYSIGN, b), nan),
        ),
    )
    there = finite(a) & finite(b)
    exact = [
        is_infinite(b).select(edge, a.eq(0.0).select(b.eq(0.0).select(none, x), x))
        for edge, none, x in zip(
            (infinite, b), (zero, b), (there.select(x, y) for x, y in zip(far, wild, strict=True)),
            strict=True,
        )
    ]  # fmt: skip
    parts = [(~usual).rare(x, y) for x, y in zip(exact, near, strict=True)]
    return z.pool.complex(*(part.convert(dtype) for part in parts))


def _half_sum(a: Expr, b: Expr) -> Expr:
    return root((abs(a) + root(a.fma(a, b * b))) * 0.5)


def _root_parts(a: Expr, b: Expr, t: Expr) -> tuple[Expr, Expr]:
    u = abs(b) / (t + t)
    left = a < 0.0
    return left.select(u, t), left.select(t, u).binary(Core.COPYSIGN, b)


def _log(z: Expr) -> Expr:
    dtype = z.real().dtype
    a, b = z.real().convert("f8"), z.imag().convert("f8")
    size, angle = log_parts(a, b, fine=z.dtype == "c16")
    return z.pool.complex(size.convert(dtype), angle.convert(dtype))


def ordered(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """The larger and the smaller absolute value."""
    x, y = abs(a), abs(b)
    return (x < y).select(y, x), (x < y).select(x, y)


def squares(m: Expr, n: Expr) -> tuple[Expr, Pair, Pair]:
    """(k, m*m, n*n), the squares exact, of m and n over 2**k; k is 0 where |z| may be near 1."""
    k = m.bitcast("i8").binary(Core.LSHR, 52) - 1023
    k = (k + 1).bitcast("u8").binary(Core.LSHR, 1).eq(0).select(k.like(0), k)
    scale = (1023 - k).binary(Core.SHL, 52).bitcast("f8")
    return k.convert("f8"), two_product(m * scale, m * scale), two_product(n * scale, n * scale)


def log_size(m: Expr, n: Expr, *, fine: bool) -> Expr:
    """log|z| of not too small or large numbers: |z|**2 - 1 as an exact sum."""
    count, (p, p_low), (q, q_low) = squares(m, n)
    less, less_low = two_sum(p, p.like(-1.0))
    total, total_low = two_sum(less, q)
    low = total_low + (less_low + (p_low + q_low))
    half = logarithms.log1p_of_pair(total, low, fine=fine) * 0.5
    return count.fma(LN2_HIGH, count.fma(LN2_LOW, half))


def log_parts(a: Expr, b: Expr, *, fine: bool) -> tuple[Expr, Expr]:
    """log|z| and the angle."""
    angle = trigonometry.arctan2(b, a, fine=fine)
    m, n = ordered(a, b)
    near = log_size(m, n, fine=fine)
    usual = (m >= 2.0**-1021) & (m < 2.0**1021) & a.eq(a) & b.eq(b)
    up = (m > 1.0).select(m.like(2.0**-600), 2.0**600)
    shift = (m > 1.0).select(m.like(600.0 * LN2), -600.0 * LN2)
    p, q = m * up, n * up
    far = logarithms.log(root(p.fma(p, q * q)), fine=fine) + shift
    far = (a.isnan() | b.isnan()).select(a.like(NAN), far)
    far = (is_infinite(a) | is_infinite(b)).select(a.like(math.inf), far)
    lost = a.isnan() | b.isnan()
    return (~usual).rare(far, near), lost.rare(a.like(NAN), angle)


def _scaled_log(scale: float) -> Callable[[Expr], Expr]:
    """The natural logarithm times a number, as NumPy has it."""

    def body(z: Expr) -> Expr:
        dtype = z.real().dtype
        a, b = z.real().convert("f8"), z.imag().convert("f8")
        size, angle = log_parts(a, b, fine=z.dtype == "c16")
        return z.pool.complex((size * scale).convert(dtype), (angle * scale).convert(dtype))

    return body


def _log_masks(operands: Operands, results: Operands) -> Masks:
    a, b = operands[0].real(), operands[0].imag()
    return ((FlagKind.DIVIDE, a.eq(0.0) & b.eq(0.0)),)


COMPLEX = (
    Op("exp", 1, 1, "c", _exp, None, _exp_masks, ulp=3),
    Op("log", 1, 1, "c", _log, None, _log_masks, ulp=3),
    Op("log2", 1, 1, "c", _scaled_log(logarithms.INV_LN2[0]), None, _log_masks, ulp=4),
    Op("log10", 1, 1, "c", _scaled_log(logarithms.INV_LN10[0]), None, _log_masks, ulp=4),
    Op("sqrt", 1, 1, "c", _sqrt, ulp=3),
    *HYPERBOLICS,
)
