"""Masks of floating-point warnings, made from values rather than from the machine's flags."""

from __future__ import annotations

from collections.abc import Callable

from npaccel.ir.nodes import FlagKind
from npaccel.ir.operation import GuardRule, Masks, Operands
from npaccel.ir.scalar import Core, Expr

__all__ = [
    "all_of",
    "any_of",
    "arithmetic",
    "arithmetic_masks",
    "division",
    "finite",
    "integer_division",
    "integer_guard",
    "integer_remainder",
    "is_infinite",
    "one",
    "operand",
    "overflow",
    "parts",
]

INF = float("inf")
_ARITHMETIC = (Core.ADD, Core.SUB, Core.MUL, Core.DIV, Core.FMA)


def finite(x: Expr) -> Expr:
    """Whether the f* value is neither infinite nor NaN."""
    return abs(x) < INF


def is_infinite(x: Expr) -> Expr:
    """Whether the f* value is one of the infinities."""
    return abs(x).eq(INF)


def parts(x: Expr) -> tuple[Expr, ...]:
    """Real and imaginary part of a complex value; else the value alone."""
    return (x.real(), x.imag()) if x.dtype[0] == "c" else (x,)


def all_of(masks: list[Expr]) -> Expr:
    """Conjunction of at least one mask."""
    result = masks[0]
    for mask in masks[1:]:
        result = result & mask
    return result


def any_of(masks: list[Expr]) -> Expr:
    """Disjunction of at least one mask."""
    result = masks[0]
    for mask in masks[1:]:
        result = result | mask
    return result


def arithmetic_masks(roots: tuple[Expr, ...], leaves: tuple[Expr, ...]) -> Masks:
    """Warnings of every sum, difference, product and quotient between `leaves` and `roots`."""
    found: dict[FlagKind, list[Expr]] = {}
    seen: set[Expr] = set(leaves)
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        stack.extend(node.args)
        if node.dtype[0] == "f" and node.op in _ARITHMETIC:
            for kind, mask in _masks_of(node):
                found.setdefault(kind, []).append(mask)
    return tuple((kind, any_of(masks)) for kind, masks in sorted(found.items()))


def _masks_of(node: Expr) -> Masks:
    invalid = all_of([node.isnan(), *(~x.isnan() for x in node.args)])
    over = all_of([is_infinite(node), *(finite(x) for x in node.args)])
    if node.op is not Core.DIV:
        return (FlagKind.OVER, over), (FlagKind.INVALID, invalid)
    zero = node.args[1].eq(0.0)
    return (
        (FlagKind.DIVIDE, over & zero),
        (FlagKind.OVER, over & ~zero),
        (FlagKind.INVALID, invalid),
    )


def arithmetic(operands: Operands, results: Operands) -> Masks:
    """Overflow and invalid of one sum, difference or product of real operands."""
    (r,) = results
    nans = [~x.isnan() for x in operands]
    return (
        (FlagKind.OVER, all_of([is_infinite(r), *(finite(x) for x in operands)])),
        (FlagKind.INVALID, all_of([r.isnan(), *nans])),
    )


def division(operands: Operands, results: Operands) -> Masks:
    """Divide, overflow and invalid of one quotient of real operands."""
    (x, y), (r,) = operands, results
    infinite = is_infinite(r) & finite(x)
    zero = y.eq(0.0)
    return (
        (FlagKind.DIVIDE, infinite & zero),
        (FlagKind.OVER, infinite & ~zero),
        (FlagKind.INVALID, r.isnan() & ~x.isnan() & ~y.isnan()),
    )


def overflow(operands: Operands, results: Operands) -> Masks:
    """Overflow alone: an infinite result of finite operands."""
    floats = [x for x in operands if x.dtype[0] in "fc"]
    found = [
        all_of([is_infinite(part), *(finite(p) for x in floats for p in parts(x))])
        for r in results
        for part in parts(r)
        if part.dtype[0] == "f"
    ]
    return ((FlagKind.OVER, any_of(found)),)


def one(kind: FlagKind, mask: Callable[..., Expr]) -> Callable[[Operands, Operands], Masks]:
    """Rule with a single warning whose mask depends on the operands only."""
    return lambda operands, results: ((kind, mask(*operands)),)


def operand(mask: Callable[..., Expr]) -> GuardRule:
    """Guard that depends on the operands only."""
    return lambda operands, results: mask(*operands)


def integer_remainder(operands: Operands, results: Operands) -> Masks:
    """Divide for a zero divisor."""
    return ((FlagKind.DIVIDE, operands[1].eq(0)),)


def _lowest(x: Expr) -> int:
    return -(1 << (8 * int(x.dtype[1:]) - 1))


def integer_division(operands: Operands, results: Operands) -> Masks:
    """Divide for a zero divisor, overflow for the most negative number by -1."""
    x, y = operands
    zero = (FlagKind.DIVIDE, y.eq(0))
    if x.dtype[0] == "u":
        return (zero,)
    return zero, (FlagKind.OVER, x.eq(_lowest(x)) & y.eq(-1))


def integer_guard(operands: Operands, results: Operands) -> Expr:
    """Whether the divisor is 0 or -1."""
    y = operands[1]
    return y.eq(0) if y.dtype[0] == "u" else (y + 1).bitcast(f"u{y.dtype[1:]}") < 2
