"""Bodies of sinh, cosh, tanh of complex numbers, and of sin, cos, tan, which are those of i z.

With z = a + i b: sinh z = sinh a cos b + i cosh a sin b, cosh z = cosh a cos b + i sinh a sin b,
tanh z = (sinh a cosh a + i sin b cos b) / (sinh(a)**2 + cos(b)**2). Special values, signs of NaNs
and warnings are those of glibc, which NumPy calls. Parts are computed in f8, of c8, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from npaccel.ir import exponentials, trigonometry
from npaccel.ir.conditions import finite, is_infinite, overflow
from npaccel.ir.nans import INVALID, NAN
from npaccel.ir.nodes import FlagKind
from npaccel.ir.operation import Masks, Op, Operands
from npaccel.ir.precision import INF, keep_sign
from npaccel.ir.scalar import Expr

__all__ = ["HYPERBOLICS", "chosen", "exp_far", "narrowed"]

Parts = tuple[Expr, Expr]
# The parts at a + i b; third: b - b where b is not finite; last: whether for f8's accuracy.
Body = Callable[[Expr, Expr, Expr, bool], Parts]
STEP = 700.0  # exp of it is finite, and so are sinh and cosh
FLAT = 350.0  # sinh(a)**2 of less is finite; tanh(a) is 1 from 20 on


def exp_far(x: Expr, a: Expr, times: float = 1.0) -> Expr:
    """x * exp(a) * times for a >= STEP and |x| <= 1: infinite only where the product is."""
    first = (a > 2.0 * STEP).select(a.like(STEP), a - STEP)
    second = a - 2.0 * STEP
    second = (second < 0.0).select(a.like(0.0), (second > STEP).select(a.like(STEP), second))
    grown = x * (math.exp(STEP) * times)
    for part in (first, second):
        grown = grown * exponentials.exp(part, fine=True)
    return grown


def _turned(b: Expr, *, fine: bool) -> Parts:
    return trigonometry.cos(b, fine=fine), trigonometry.sin(b, fine=fine)


def _rarely(mask: Expr, exact: Parts, near: Parts) -> Parts:
    return mask.rare(exact[0], near[0]), mask.rare(exact[1], near[1])


def chosen(mask: Expr, yes: Parts, no: Parts) -> Parts:
    """Each part where the mask says so."""
    return mask.select(yes[0], no[0]), mask.select(yes[1], no[1])


def _sinh(a: Expr, b: Expr, lost: Expr, fine: bool) -> Parts:
    cosine, sine = _turned(b, fine=fine)
    sinh, cosh = exponentials.sinh_and_cosh(a, fine=fine)
    none, most, nan = a.eq(0.0), is_infinite(a), a.like(NAN)
    real, imaginary = exp_far(cosine, abs(a), 0.5), exp_far(sine, abs(a), 0.5)
    far = (a < 0.0).select(-real, real), imaginary
    far = chosen(a.isnan(), (nan, b.eq(0.0).select(b, nan)), far)
    wild = (
        none.select(a, most.select(a.like(INF), nan)),
        (none | most).select(lost, nan),
    )
    exact = chosen(finite(b), far, wild)
    return _rarely(~((abs(a) < STEP) & finite(b)), exact, (sinh * cosine, cosh * sine))


def _cosh(a: Expr, b: Expr, lost: Expr, fine: bool) -> Parts:
    cosine, sine = _turned(b, fine=fine)
    sinh, cosh = exponentials.sinh_and_cosh(a, fine=fine)
    none, most, nan = a.eq(0.0), is_infinite(a), a.like(NAN)
    real, imaginary = exp_far(cosine, abs(a), 0.5), exp_far(sine, abs(a), 0.5)
    far = real, (a < 0.0).select(-imaginary, imaginary)
    far = chosen(a.isnan(), (nan, b.eq(0.0).select(b, nan)), far)
    wild = (
        most.select(a.like(INF), a.isnan().select(nan, lost)),
        none.select(a.like(0.0), most.select(lost, nan)),
    )
    exact = chosen(finite(b), far, wild)
    return _rarely(~((abs(a) < STEP) & finite(b)), exact, (cosh * cosine, sinh * sine))


def _tanh(a: Expr, b: Expr, _: Expr, fine: bool) -> Parts:
    cosine, sine = _turned(b, fine=fine)
    sinh, cosh = exponentials.sinh_and_cosh(a, fine=fine)
    under = sinh.fma(sinh, cosine * cosine)
    near = sinh * cosh / under, sine * cosine / under
    nan, one = a.like(NAN), keep_sign(a.like(1.0), a)
    small = exponentials.exp(-abs(a), fine=fine)
    far = one, sine * cosine * 4.0 * small * small
    far = chosen(a.isnan(), chosen(b.eq(0.0), (a, b), (nan, nan)), far)
    lost = a.eq(0.0).select(a, nan), nan
    wild = chosen(is_infinite(a), (one, keep_sign(a.like(0.0), b)), lost)
    exact = chosen(finite(b), far, wild)
    return _rarely(~((abs(a) < FLAT) & finite(b)), exact, near)


def _lost(b: Expr) -> Expr:
    """b - b, for what is not finite."""
    return is_infinite(b).select(b.like(INVALID), b)


def narrowed(z: Expr, parts: Parts) -> Expr:
    """The number of these parts, in the type of z."""
    dtype = z.real().dtype
    return z.pool.complex(parts[0].convert(dtype), parts[1].convert(dtype))


def _of_z(body: Body) -> Callable[[Expr], Expr]:
    def function(z: Expr) -> Expr:
        a, b = z.real().convert("f8"), z.imag().convert("f8")
        return narrowed(z, body(a, b, _lost(b), z.dtype == "c16"))

    return function


def _of_iz(body: Body) -> Callable[[Expr], Expr]:
    """-i f(i z), f odd: the parts of f(b + i a) in the other order."""

    def function(z: Expr) -> Expr:
        b, a = z.real().convert("f8"), z.imag().convert("f8")
        real, imaginary = body(a, b, _lost(abs(b)), z.dtype == "c16")
        return narrowed(z, (imaginary, real))

    return function


def _cos(z: Expr) -> Expr:
    b, a = z.real().convert("f8"), z.imag().convert("f8").flipped()
    return narrowed(z, _cosh(a, b, _lost(b), z.dtype == "c16"))


def _sinh_invalid(a: Expr, b: Expr) -> Expr:
    return (is_infinite(b) & ~a.isnan()) | (b.isnan() & finite(a) & a.ne(0.0))


def _cosh_invalid(a: Expr, b: Expr) -> Expr:
    return is_infinite(b) & ~a.isnan()


def _tanh_invalid(a: Expr, b: Expr) -> Expr:
    return is_infinite(b) & ~is_infinite(a)


def _row(
    name: str,
    body: Callable[[Expr], Expr],
    invalid: Callable[[Expr, Expr], Expr],
    *,
    turned: bool,
    ulp: int = 3,
    propagates: bool = True,
) -> Op:
    def masks(operands: Operands, results: Operands) -> Masks:
        a, b = operands[0].real(), operands[0].imag()
        mask = invalid(b, a) if turned else invalid(a, b)
        return *overflow(operands, results), (FlagKind.INVALID, mask)

    return Op(name, 1, 1, "c", body, None, masks, None, (propagates,), ulp)


HYPERBOLICS = (
    _row("sinh", _of_z(_sinh), _sinh_invalid, turned=False),
    _row("cosh", _of_z(_cosh), _cosh_invalid, turned=False),
    _row("tanh", _of_z(_tanh), _tanh_invalid, turned=False, ulp=6, propagates=False),
    _row("sin", _of_iz(_sinh), _sinh_invalid, turned=True),
    _row("cos", _cos, _cosh_invalid, turned=True),
    _row("tan", _of_iz(_tanh), _tanh_invalid, turned=True, ulp=6, propagates=False),
)
