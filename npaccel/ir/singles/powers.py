"""Cube root in f4."""

from __future__ import annotations

from npaccel.ir import coefficients as c
from npaccel.ir import powers
from npaccel.ir.precision import horner, keep_sign, two_product
from npaccel.ir.scalar import Core, Expr
from npaccel.ir.singles.common import by_size, is_normal

__all__ = ["cbrt"]

# 2**15 (127 * 4/3 - 0.068), for a third of the bits but the last 8; 2**23 marks an integer.
GUESS = 2.0**23 + 2.0**15 * (127 * 4 / 3 - 0.068)


def _cbrt(x: Expr) -> Expr:
    # y = a**(-1/3), guessed by the bits to one part in 30; t = a*y*y, with one of Newton's steps.
    a = abs(x)
    third = a.bitcast("i4").convert("f4").fma(-(2.0**-8) / 3, GUESS)
    guess = third.bitcast("i4").binary(Core.SHL, 8).bitcast("f4")
    r = (-(guess * guess)).fma(a * guess, 1.0)
    y = guess * horner(r, c.CBRT_F4)
    inverse = y * y
    t = a * inverse
    square, rest = two_product(t, t)
    residue = rest.fma(t, square.fma(t, -a))
    return keep_sign((residue * (inverse * (-1 / 3))) + t, x)


cbrt = by_size("cbrt", _cbrt, lambda x: is_normal(abs(x)), powers.cbrt)
