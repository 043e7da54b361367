"""Powers of complex numbers.

Of a whole exponent below 100 NumPy takes products, in an order of its own, and so do we, to the
bit; of another one the C library takes exp(y log x). There log x, and its product with y, are sums
of two floats for c16; c8 is computed in f8. The bound grows with |y log x|, as the error of x does:
by a unit for each 2**10 of it, where the C library's grows by one for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from npaccel.ir import conditions as when
from npaccel.ir import exponentials, powers, trigonometry
from npaccel.ir.complexes import exp_invalid, exp_parts, log_parts, log_size, ordered, squares
from npaccel.ir.exact import complex_quotient, complex_quotient_flags
from npaccel.ir.hyperbolics import chosen, narrowed
from npaccel.ir.nans import NAN
from npaccel.ir.nodes import FlagKind
from npaccel.ir.operation import Masks, Op, Operands
from npaccel.ir.precision import Pair, two_product, two_sum
from npaccel.ir.scalar import Core, Expr

__all__ = ["COMPLEX_POWER", "WHOLE_COMPLEX_POWER"]

Parts = tuple[Expr, Expr]
# A product that NumPy takes: what it is made of, what is made, and whether it is taken.
Step = tuple[tuple[Expr, ...], Parts, Expr | None]
BITS = 7  # of an exponent below 100
LN2 = (float.fromhex("0x1.62e42fefa39efp-1"), float.fromhex("0x1.abc9e3b39803fp-56"))
MOST = 700.0  # of an exponent whose power is a normal number


def _product(x: Parts, y: Parts) -> Parts:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def _join(parts: Parts) -> Expr:
    return parts[0].pool.complex(*parts)


# ------------------------------------------------------------------------------ whole exponents


def _one(x: Expr) -> Parts:
    return x.like(1.0), x.like(0.0)


def _by_products(x: Parts, n: int) -> tuple[Parts, list[Step]]:
    """x**abs(n) of one n other than 0, in NumPy's order."""
    steps: list[Step] = []

    def times(a: Parts, b: Parts) -> Parts:
        made = _product(a, b)
        steps.append(((*a, *b), made, None))
        return made

    if not 0 < n <= 3:
        return _by_squaring(x, abs(n), times), steps
    result = x
    for _ in range(n - 1):
        result = times(x, result)
    return result, steps


def _by_squaring(x: Parts, n: int, times: Callable[[Parts, Parts], Parts]) -> Parts:
    result, power = _one(x[0]), x
    while True:
        if n & 1:
            result = times(result, power)
        n >>= 1
        if not n:
            return result
        power = times(power, power)


def _by_bits(x: Parts, n: Expr, upwards: Expr) -> tuple[Parts, list[Step]]:
    """x**n of any 0 < n < 100, i4, in NumPy's order; `upwards`: not to be inverted."""
    few = upwards & (n <= 3)
    square = _product(x, x)
    cube = _product(x, square)
    steps: list[Step] = [((*x, *square), cube, few & n.eq(3))]
    result, power = _one(x[0]), x
    for bit in range(BITS):
        taken = (n & (1 << bit)).ne(0)
        made = _product(result, power)
        steps.append(((*result, *power), made, taken & ~few))
        result = chosen(taken, made, result)
        if bit + 1 < BITS:
            following = _product(power, power)
            steps.append((power, following, n >= 1 << (bit + 1)))
            power = following
    low = chosen(n.eq(1), x, chosen(n.eq(2), square, cube))
    return chosen(few, low, result), steps


def _step_masks(steps: list[Step], there: Expr) -> list[tuple[FlagKind, Expr]]:
    return [
        (kind, mask & there if taken is None else mask & taken & there)
        for leaves, made, taken in steps
        for kind, mask in when.arithmetic_masks(made, leaves)
    ]


def _together(masks: list[tuple[FlagKind, Expr]]) -> Masks:
    kinds = sorted({kind for kind, _ in masks})
    return tuple((kind, when.any_of([m for k, m in masks if k is kind])) for kind in kinds)


def _zero(x: Expr) -> Expr:
    return x.real().eq(0.0) & x.imag().eq(0.0)


def _nothing(x: Expr, upwards: Expr) -> Parts:
    """A power of 0."""
    value = upwards.select(x.real().like(0.0), x.real().like(NAN))
    return value, value


def _whole_power(x: Expr, y: Expr) -> Expr:
    """x to a constant whole power."""
    assert isinstance(y.attr, complex)
    n = int(y.attr.real)
    if n == 0:
        return x.like(1.0)
    result, _ = _by_products((x.real(), x.imag()), n)
    if n < 0:
        quotient = complex_quotient(x.like(1.0), _join(result))
        result = quotient.real(), quotient.imag()
    upwards = x.pool.const("b1", n > 0)
    return _join(chosen(_zero(x), _nothing(x, upwards), result))


def _whole_masks(operands: Operands, results: Operands) -> Masks:
    x, y = operands
    assert isinstance(y.attr, complex)
    n = int(y.attr.real)
    if n == 0:
        return ()
    made, steps = _by_products((x.real(), x.imag()), n)
    there = ~_zero(x)
    masks = _step_masks(steps, there)
    if n < 0:
        masks.append((FlagKind.INVALID, _zero(x)))
        quotient = complex_quotient_flags((x.like(1.0), _join(made)), results)
        masks += [(kind, mask & there) for kind, mask in quotient]
    return _together(masks)


def _whole_guard(operands: Operands, results: Operands) -> Expr:
    # What overflows on its way to a quotient is 0 there.
    re, im = when.parts(results[0])
    return re.nonfinite() | im.nonfinite() | (re.eq(0.0) & im.eq(0.0))


# -------------------------------------------------------------------------------- any exponent


def _log_pairs(a: Expr, b: Expr, shift: Expr | None) -> tuple[Pair, Pair]:
    """log|z 2**shift| and the angle, for 2**-1000 < |z| < 2**1000."""
    m, n = ordered(a, b)
    k, (p, p_low), (q, q_low) = squares(m, n)
    total, low = two_sum(p, q)
    high, rest = powers.log2_pair(total)
    rest = ((low + (p_low + q_low)) / total).fma(powers.INV_LN2[0], rest)
    count = k if shift is None else k + shift
    high, lost = two_sum(count, high * 0.5)
    rest = rest.fma(0.5, lost)
    size, size_low = two_product(high, LN2[0])
    size_low = rest.fma(LN2[0], high.fma(LN2[1], size_low))
    angle, angle_low = trigonometry.arctan_pair(abs(b), abs(a))
    left, below = a.bitcast("i8") < 0, b.bitcast("i8") < 0
    turned, lost = two_sum(angle.like(2.0 * trigonometry.PIO2[0]), -angle)
    turned_low = lost + (2.0 * trigonometry.PIO2[1] - angle_low)
    angle, angle_low = left.select(turned, angle), left.select(turned_low, angle_low)
    angle, angle_low = below.select(-angle, angle), below.select(-angle_low, angle_low)
    return (size, size_low), (angle, angle_low)


def _times(y: Expr, v: Pair) -> Pair:
    high, low = two_product(y, v[0])
    return high, y.fma(v[1], low)


def _exponent(y: Parts, log: tuple[Pair, Pair]) -> tuple[Pair, Pair]:
    """y times the logarithm, each part as a sum."""
    ac, bd, ad, bc = (_times(y[i], log[j]) for i, j in ((0, 0), (1, 1), (0, 1), (1, 0)))
    re, re_low = two_sum(ac[0], -bd[0])
    im, im_low = two_sum(ad[0], bc[0])
    return (re, re_low + (ac[1] - bd[1])), (im, im_low + (ad[1] + bc[1]))


def _exponent_in_pairs(x: Parts, y: Parts) -> tuple[Pair, Pair]:
    """y log x of x of any size, over a power of two where that is far from 1."""
    m, _ = ordered(*x)
    scale = (m > 2.0**400).select(m.like(2.0**-600), (m < 2.0**-400).select(m.like(2.0**600), 1.0))
    shift = (m > 2.0**400).select(m.like(600.0), (m < 2.0**-400).select(m.like(-600.0), 0.0))
    return _exponent(y, _log_pairs(x[0] * scale, x[1] * scale, shift))


def _exponent_in_f8(x: Parts, y: Parts) -> tuple[Pair, Pair]:
    size = log_size(*ordered(*x), fine=True)
    re, im = _product(y, (size, trigonometry.arctan2(x[1], x[0], fine=True)))
    return (re, re.like(0.0)), (im, im.like(0.0))


def _exp_near(w: tuple[Pair, Pair], *, fine: bool) -> Parts:
    (re, re_low), (im, im_low) = w
    size = exponentials.exp_pair(re, re_low if fine else None, fine=fine)
    cosine, sine = trigonometry.turned(im, im_low if fine else None, fine=fine)
    return size * cosine, im.eq(0.0).select(im, size * sine)


def _general(x: Expr, y: Expr, there: Expr) -> Expr:
    """exp(y log x) of x other than 0; where not `there` it does not matter."""
    fine = x.dtype == "c16"
    a, b, c, d = (v.convert("f8") for v in (x.real(), x.imag(), y.real(), y.imag()))
    w = (_exponent_in_pairs if fine else _exponent_in_f8)((a, b), (c, d))
    (re, re_low), (im, im_low) = w
    near = _exp_near(w, fine=fine)
    known = (abs(re) < trigonometry.NEAR) & (abs(im) < trigonometry.NEAR)
    known = known & when.finite(a) & when.finite(b)
    # Where parts are not finite, or so large that their digits say no angle.
    plain, _, _ = _as_in_c(x, y)
    anywhere = exp_parts(
        known.select(re, plain[0].convert("f8")),
        known.select(im, plain[1].convert("f8")),
        (known.select(re_low, 0.0), known.select(im_low, 0.0)),
        fine=fine,
    )
    # Numbers, not parts: a branch for both.
    far = there & ~(known & (abs(re) < MOST))
    return far.rare(narrowed(x, anywhere), narrowed(x, near))


def _as_in_c(x: Expr, y: Expr) -> tuple[Parts, Parts, Expr]:
    """y log x as C multiplies: infinite though a factor is NaN; the logarithm; what was mended."""
    dtype, inf = x.real().dtype, math.inf
    log = log_parts(x.real().convert("f8"), x.imag().convert("f8"), fine=x.dtype == "c16")
    c, d = log[0].convert(dtype), log[1].convert(dtype)
    a, b = y.real(), y.imag()
    terms = a * c, b * d, a * d, b * c
    plain = terms[0] - terms[1], terms[2] + terms[3]
    lost = plain[0].isnan() & plain[1].isnan()
    wide = when.is_infinite(a) | when.is_infinite(b)
    first = _unit(wide, a), _unit(wide, b)
    c2, d2 = _filled(wide, c), _filled(wide, d)
    long = when.is_infinite(c2) | when.is_infinite(d2)
    second = _unit(long, c2), _unit(long, d2)
    first = _filled(long, first[0]), _filled(long, first[1])
    over = ~(wide | long) & when.any_of([when.is_infinite(t) for t in terms])
    first = _filled(over, first[0]), _filled(over, first[1])
    second = _filled(over, second[0]), _filled(over, second[1])
    again = _product(first, second)
    mended = lost & (wide | long | over)
    return chosen(mended, (again[0] * inf, again[1] * inf), plain), (c, d), mended


def _unit(mask: Expr, v: Expr) -> Expr:
    """Where `mask` is true, 1 of an infinity and else 0, with the sign."""
    size = when.is_infinite(v).select(v.like(1.0), 0.0)
    return mask.select(size.binary(Core.COPYSIGN, v), v)


def _filled(mask: Expr, v: Expr) -> Expr:
    """A zero for a NaN where `mask` is true."""
    return (mask & v.isnan()).select(v.like(0.0).binary(Core.COPYSIGN, v), v)


def _is_whole(y: Expr) -> tuple[Expr, Expr]:
    """(whether products are taken, how many times: i4)."""
    a = y.real()
    size = abs(a)
    n = (size < 100.0).select(size, 0.0).convert("i4")
    return (size < 100.0) & y.imag().eq(0.0) & n.convert(a.dtype).eq(size), n


def _power(x: Expr, y: Expr) -> Expr:
    whole, n = _is_whole(y)
    upwards, some = y.real() > 0.0, ~_zero(x) & ~_zero(y)
    products, _ = _by_bits((x.real(), x.imag()), n, upwards)
    quotient = complex_quotient(x.like(1.0), _join(products))
    products = chosen(upwards, products, (quotient.real(), quotient.imag()))
    result = (whole & some).rare(_join(products), _general(x, y, some & ~whole))
    edge = chosen(_zero(y), _one(x.real()), _nothing(x, upwards))
    return _join(chosen(some, (result.real(), result.imag()), edge))


def _general_masks(x: Expr, y: Expr, there: Expr) -> list[tuple[FlagKind, Expr]]:
    w, log, mended = _as_in_c(x, y)
    (a, b), factors = w, (y.real(), y.imag())
    masks = list(when.arithmetic_masks(_product(factors, log), (*factors, *log)))
    masks.append((FlagKind.INVALID, exp_invalid(a, b)))
    masks.append((FlagKind.INVALID, mended & (a.isnan() | b.isnan())))
    result = _general(x, y, there)
    large = when.is_infinite(result.real()) | when.is_infinite(result.imag())
    masks.append((FlagKind.OVER, large & when.finite(a) & when.finite(b)))
    return masks


def _power_masks(operands: Operands, results: Operands) -> Masks:
    x, y = operands
    whole, n = _is_whole(y)
    upwards, zero, there = y.real() > 0.0, _zero(x), ~_zero(x) & ~_zero(y)
    made, steps = _by_bits((x.real(), x.imag()), n, upwards)
    masks = _step_masks(steps, there & whole)
    quotient = complex_quotient_flags((x.like(1.0), _join(made)), results)
    masks += [(kind, mask & there & whole & ~upwards) for kind, mask in quotient]
    general = there & ~whole
    masks += [(kind, mask & general) for kind, mask in _general_masks(x, y, general)]
    masks.append((FlagKind.INVALID, zero & ~_zero(y) & ~upwards))
    # Compared with 100.
    masks.append((FlagKind.INVALID, y.real().isnan() & y.imag().eq(0.0)))
    return _together(masks)


# What a complex power with a constant whole exponent becomes (rewrite.py); no name of NumPy's.
WHOLE_COMPLEX_POWER = Op(
    "whole complex power", 2, 1, "c", _whole_power, None, _whole_masks, _whole_guard
)
COMPLEX_POWER = Op("power", 2, 1, "c", _power, None, _power_masks, _whole_guard, ulp=3)
