"""The second accuracy class: bodies within 2 units of the last place that take less time.

`npaccel.config.accuracy = "fast"` asks for them. What is rare (huge arguments, NaN, infinities) is
computed as in the first class.

sin and cos: with n = rint(x / pi) and r = x - n pi, sin(x) is sin(r) or -sin(r), |r| <= pi/2: one
polynomial, where the first class has two of r = x - q pi/2 as a sum of two floats. For cos, r is
taken from the nearest odd multiple of pi/2. The first step of r is exact, so r is good to the last
place or two however close to 0 it is.
"""

from __future__ import annotations

from dataclasses import replace

from npaccel.ir import coefficients as c
from npaccel.ir.exponentials import MAGIC
from npaccel.ir.mathematics import MATHEMATICS
from npaccel.ir.operation import Body, Op
from npaccel.ir.precision import horner, keep_sign, two_product
from npaccel.ir.scalar import Core, Expr
from npaccel.ir.singles import common
from npaccel.ir.singles.trigonometry import FAR
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


def _usually(near: Body, name: str) -> Op:
    """The row of a function that is `near` where its argument is not huge."""
    first = next(op for op in MATHEMATICS if op.name == name)

    def body(x: Expr) -> Expr:
        assert first.body is not None
        anywhere = first.body(x)
        assert isinstance(anywhere, Expr)
        usual = near(x)
        assert isinstance(usual, Expr)
        limit = FAR if x.dtype == "f4" else NEAR
        return (~(abs(x) < limit)).rare(anywhere, usual)

    return replace(first, body=body, cost=20, ulp=2, without=("f2",))


FAST = (_usually(_sin, "sin"), _usually(_cos, "cos"))
