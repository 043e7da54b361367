"""Tools of the mathematical bodies: sums of two floats, polynomials, f4 by way of f8."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from npaccel.ir.scalar import Core, Expr

__all__ = [
    "INF",
    "Pair",
    "Wide",
    "by_f8",
    "fast_two_sum",
    "horner",
    "keep_sign",
    "root",
    "two_product",
    "two_sum",
]

INF = float("inf")

Pair = tuple[Expr, Expr]
# A body in f8; its keyword `fine` asks for f8's accuracy, else f4's is enough.
Wide = Callable[..., Expr]


def by_f8(body: Wide) -> Callable[..., Expr]:
    """The body for f8, and for f4 and f2 the shorter one in f8, rounded once at the end."""

    def apply(*operands: Expr) -> Expr:
        dtype = operands[0].dtype
        result = body(*(x.convert("f8") for x in operands), fine=dtype == "f8")
        return result.convert(dtype)

    return apply


def horner(x: Expr, coefficients: Sequence[float]) -> Expr:
    """The polynomial with these coefficients, lowest first, by fused multiply-adds."""
    result = x.like(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result.fma(x, coefficient)
    return result


def two_sum(x: Expr, y: Expr) -> Pair:
    """x + y and its rounding error, exactly."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def fast_two_sum(x: Expr, y: Expr) -> Pair:
    """The same for |x| >= |y|."""
    total = x + y
    return total, y - (total - x)


def two_product(x: Expr, y: Expr | float) -> Pair:
    """x * y and its rounding error, exactly (barring underflow)."""
    product = x * y
    return product, x.fma(y, -product)


def root(x: Expr) -> Expr:
    """Square root."""
    return x.unary(Core.SQRT)


def keep_sign(result: Expr, x: Expr) -> Expr:
    """`result` with the sign of `x`."""
    return result.binary(Core.COPYSIGN, x)
