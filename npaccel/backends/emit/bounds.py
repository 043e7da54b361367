"""Which values have to be small for others to be finite.

Where |x| and |y| are below 2**k, |x * y + 1| is below 2**(2 k + 1): no infinity and no NaN. So a
few values, each compared with one limit, tell of all that sums and products make of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from npaccel.ir.scalar import Core, Expr, item_size, topological

__all__ = ["SMALL", "is_fixed", "small_ones"]

# Exponents: of values that are small, and of the largest power of two.
SMALL = {"f4": 40, "f8": 128}
_LARGEST = {"f4": 127, "f8": 1023}
_SAME = (Core.NEG, Core.FLIP, Core.ABS, Core.COPYSIGN)
_WHOLE = (Core.FLOOR, Core.CEIL, Core.TRUNC, Core.RINT)
_SUMS = (Core.ADD, Core.SUB, Core.MUL, Core.FMA)

Exponent = int | None


def small_ones(values: Sequence[Expr]) -> list[Expr]:
    """Values which, if all below 2**SMALL, let none of `values` be an infinity or a NaN."""
    order = topological(values)
    return min((_chosen(order, values, deep=deep) for deep in (False, True)), key=_cost)


def is_fixed(node: Expr) -> bool:
    """Whether it is a number given at run time, the same in all iterations."""
    return node.op is Core.SCALAR or (node.op is Core.CONVERT and node.args[0].op is Core.SCALAR)


def _cost(nodes: Sequence[Expr]) -> int:
    return sum(not is_fixed(node) for node in nodes)


def _chosen(order: Sequence[Expr], values: Sequence[Expr], *, deep: bool) -> list[Expr]:
    """A choice: of `values` that are not known to be finite those themselves, or, `deep`, what
    they are sums and products of."""
    places = {node: at for at, node in enumerate(order)}
    bounds: dict[Expr, Exponent] = {}
    small: dict[Expr, None] = {}
    asked = set(values)
    for at, node in enumerate(order):
        bounds[node] = _bound(node, bounds, small)
        if node not in asked or bounds[node] is not None:
            continue
        terms = _terms(node, small) if deep else []
        unknown = [term for term in terms if bounds[term] is None]
        for more in (unknown, terms, [node]):
            small |= dict.fromkeys(more)
            for again in order[min((places[term] for term in more), default=at) : at + 1]:
                bounds[again] = _bound(again, bounds, small)
            if bounds[node] is not None:
                break
    return list(small)


def _terms(value: Expr, small: dict[Expr, None]) -> list[Expr]:
    """What `value` is a sum or product of, and not looked at; nothing if it is halves."""
    found: dict[Expr, None] = {}
    seen: set[Expr] = set()
    stack = [value]
    while stack:
        node = stack.pop()
        if node in seen or node in small or node.op is Core.CONST:
            continue
        seen.add(node)
        if node.op in _SUMS:
            stack.extend(node.args)
        else:
            found[node] = None
    return list(found) if all(node.dtype in SMALL for node in found) else []


def _bound(node: Expr, bounds: dict[Expr, Exponent], small: dict[Expr, None]) -> Exponent:
    """Exponent of a power of two that |node| does not exceed."""
    if node in small:
        return SMALL[node.dtype]
    if node.dtype not in SMALL:
        return None
    found = _of_parts(node, [bounds[arg] for arg in node.args])
    return None if found is None or found > _LARGEST[node.dtype] else found


def _of_parts(node: Expr, parts: Sequence[Exponent]) -> Exponent:
    first, *_ = (*parts, None)
    source = node.args[0].dtype if node.args else ""
    match node.op:
        case Core.CONST:
            size = abs(node.attr) if isinstance(node.attr, float) else math.inf
            return math.frexp(size)[1] if size < math.inf else None
        case Core.CONVERT if source[0] in "biu":
            return 8 * item_size(source)
        case Core.SELECT:
            parts = parts[1:]
        case Core.COPYSIGN:
            return first
    if None in parts:
        return None
    known = [part for part in parts if part is not None]
    if node.op in (Core.SELECT, Core.CONVERT, *_SAME):
        return max(known)
    if node.op in (Core.ADD, Core.SUB):
        return max(known) + 1
    if node.op in _WHOLE:
        return max(known[0], 0) + 1
    if node.op is Core.MUL:
        return known[0] + known[1]
    return max(known[0] + known[1], known[2]) + 1 if node.op is Core.FMA else None
