"""Bodies of functions of complex numbers: within the row's bound, special values as in C's Annex G.

Parts are computed in f8, of c8, too. What is not finite or too large is rare.
"""

from __future__ import annotations

import math

from npaccel.ir import exponentials, logarithms, trigonometry
from npaccel.ir.conditions import finite, is_infinite, overflow
from npaccel.ir.exponentials import LN2_HIGH, LN2_LOW
from npaccel.ir.hyperbolics import HYPERBOLICS, exp_far
from npaccel.ir.nans import INVALID, NAN
from npaccel.ir.nodes import FlagKind
from npaccel.ir.operation import Masks, Op, Operands
from npaccel.ir.precision import root, two_product, two_sum
from npaccel.ir.scalar import Core, Expr

__all__ = ["COMPLEX"]

LN2 = LN2_HIGH + LN2_LOW
LARGE = 709.0  # exp of what is less is finite


def _exp(z: Expr) -> Expr:
    dtype, fine = z.real().dtype, z.dtype == "c16"
    a, b = z.real().convert("f8"), z.imag().convert("f8")
    cosine, sine = trigonometry.cos(b, fine=fine), trigonometry.sin(b, fine=fine)
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
    parts = [rare.rare(x, size * y) for x, y in zip(exact, (cosine, sine), strict=True)]
    return z.pool.complex(*(part.convert(dtype) for part in parts))


def _exp_masks(operands: Operands, results: Operands) -> Masks:
    a, b = operands[0].real(), operands[0].imag()
    lost = is_infinite(b) & ~a.eq(-math.inf)
    invalid = lost | (b.isnan() & finite(a)) | (a.isnan() & finite(b) & b.ne(0.0))
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
    """log|z| and the angle: |z|**2 - 1 as an exact sum, of z over the power of two in it.

    That power is 1 where |z| may be near 1.
    """
    dtype, fine = z.real().dtype, z.dtype == "c16"
    a, b = z.real().convert("f8"), z.imag().convert("f8")
    angle = trigonometry.arctan2(b, a, fine=fine)
    x, y = abs(a), abs(b)
    m, n = (x < y).select(y, x), (x < y).select(x, y)
    k = m.bitcast("i8").binary(Core.LSHR, 52) - 1023
    k = (k + 1).bitcast("u8").binary(Core.LSHR, 1).eq(0).select(k.like(0), k)
    scale = (1023 - k).binary(Core.SHL, 52).bitcast("f8")
    (p, p_low), (q, q_low) = (two_product(v * scale, v * scale) for v in (m, n))
    less, less_low = two_sum(p, p.like(-1.0))
    total, total_low = two_sum(less, q)
    low = total_low + (less_low + (p_low + q_low))
    count = k.convert("f8")
    half = logarithms.log1p_of_pair(total, low, fine=fine) * 0.5
    near = count.fma(LN2_HIGH, count.fma(LN2_LOW, half))
    usual = (m >= 2.0**-1021) & (m < 2.0**1021) & a.eq(a) & b.eq(b)
    up = (m > 1.0).select(m.like(2.0**-600), 2.0**600)
    shift = (m > 1.0).select(m.like(600.0 * LN2), -600.0 * LN2)
    p, q = m * up, n * up
    far = logarithms.log(root(p.fma(p, q * q)), fine=fine) + shift
    far = (a.isnan() | b.isnan()).select(a.like(NAN), far)
    far = (is_infinite(a) | is_infinite(b)).select(a.like(math.inf), far)
    lost = a.isnan() | b.isnan()
    angle = lost.rare(a.like(NAN), angle)
    return z.pool.complex((~usual).rare(far, near).convert(dtype), angle.convert(dtype))


def _log_masks(operands: Operands, results: Operands) -> Masks:
    a, b = operands[0].real(), operands[0].imag()
    return ((FlagKind.DIVIDE, a.eq(0.0) & b.eq(0.0)),)


COMPLEX = (
    Op("exp", 1, 1, "c", _exp, None, _exp_masks, ulp=3),
    Op("log", 1, 1, "c", _log, None, _log_masks, ulp=3),
    Op("sqrt", 1, 1, "c", _sqrt, ulp=3),
    *HYPERBOLICS,
)
