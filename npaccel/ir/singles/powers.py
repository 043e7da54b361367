"""Powers and the cube root of f4."""

from __future__ import annotations

from npaccel.ir import coefficients as c
from npaccel.ir import powers
from npaccel.ir.exponentials import MAGIC as MAGIC_F8
from npaccel.ir.exponentials import exp2_reduced, scale
from npaccel.ir.precision import horner, keep_sign, two_product
from npaccel.ir.scalar import Core, Expr
from npaccel.ir.singles.common import by_size, is_normal
from npaccel.ir.singles.logarithms import exponent

__all__ = ["cbrt", "guess", "power"]

# 2**15 (127 * 4/3 - 0.068), for a third of the bits but the last 8; 2**23 marks an integer.
GUESS = 2.0**23 + 2.0**15 * (127 * 4 / 3 - 0.068)


def guess(a: Expr) -> Expr:
    """a**(-1/3) of normal a > 0, by its bits, to one part in 30."""
    third = a.bitcast("i4").convert("f4").fma(-(2.0**-8) / 3, GUESS)
    return third.bitcast("i4").binary(Core.SHL, 8).bitcast("f4")


def _cbrt(x: Expr) -> Expr:
    # y = a**(-1/3); t = a*y*y, with one of Newton's steps.
    a = abs(x)
    first = guess(a)
    r = (-(first * first)).fma(a * first, 1.0)
    y = first * horner(r, c.CBRT_F4)
    inverse = y * y
    t = a * inverse
    square, rest = two_product(t, t)
    residue = rest.fma(t, square.fma(t, -a))
    return keep_sign((residue * (inverse * (-1 / 3))) + t, x)


cbrt = by_size("cbrt", _cbrt, lambda x: is_normal(abs(x)), powers.cbrt)


def power(x: Expr, y: Expr, *, flips: bool) -> Expr:
    """x**y in f8, but for the exponent of x and what is rare; `flips` as in f8.

    log2(1 + f) is a polynomial of f: processors take longer for a quotient.
    """
    bits, k = exponent(x)
    f = ((bits - k).bitcast("f4") - 1.0).convert("f8")
    log = f.fma(horner(f, (powers.INV_LN2[0], *c.LN2_F4)), k.binary(Core.ASHR, 23).convert("f8"))
    product = log * y.convert("f8")
    marked = product + MAGIC_F8
    value = exp2_reduced(product - (marked - MAGIC_F8), fine=False)
    near = scale(value, marked).convert("f4")
    usual = is_normal(x) & (abs(product) < 1000.0)
    wide = powers.power_anywhere(x.convert("f8"), y.convert("f8"), fine=False, flips=flips)
    return (~usual).rare(wide.convert("f4"), near)
