"""Guards: whether anything in an iteration may warn, told while its values are computed.

As a rule a guard says that a value is not finite. Such values are added up, each times 0, as soon
as they are known: what comes out is 0, or NaN where one of them was not finite. That takes one
instruction for each, no mask, and lets go of the values.

Where selects come between, an infinity may be selected away, so many values have guards. Then fewer
are looked at, more strictly: as long as those are small, none of the others can be infinite. Their
squares are added up. If one is large, the guards as they are decide, in a function of its own.

A fold of what only elements have where a guard is true is taken where one is (`as_a_rule`). What a
sum takes in has no guard of its own: if it is not finite the sum is not, so that is looked at once
per block, and if need be the block is gone through again (`looked_back_at`). Only of small bodies
that has code of its own: of larger ones it would take half as long again to compile as all else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from npaccel.backends.emit.bounds import SMALL, is_fixed, small_ones
from npaccel.backends.emit.builder import Builder, Name, Value
from npaccel.backends.emit.scalars import convert
from npaccel.backends.layout import identity_value, is_ordered
from npaccel.ir.nodes import Effect, Leaf, Reduce, StoreScratch
from npaccel.ir.scalar import Core, Expr, topological

__all__ = [
    "Watch",
    "Watched",
    "as_a_rule",
    "finite",
    "looked_back_at",
    "rare_folds",
    "square_sums",
    "watched",
]

INF = float("inf")


@dataclass(frozen=True, slots=True)
class Watched:
    """What an iteration looks at: values that should be finite, or small if `bounded`; masks.

    fixed: numbers given at run time that should be small, too.
    """

    values: tuple[Expr, ...] = ()
    masks: tuple[Expr, ...] = ()
    fixed: tuple[Expr, ...] = ()
    bounded: bool = False


@lru_cache(maxsize=8)  # asked for again while a leaf is written
def watched(guards: tuple[Expr, ...]) -> Watched:
    """What to look at so that nothing that these guards tell of is missed."""
    exact = finite(guards)
    small = small_ones(exact.values) if len(exact.values) > 1 else exact.values
    running = tuple(node for node in small if not is_fixed(node))
    if len(running) == len(exact.values):
        return exact
    fixed = tuple(node for node in small if is_fixed(node))
    return Watched(running, exact.masks, fixed, bounded=True)


def finite(guards: Iterable[Expr]) -> Watched:
    """The values of which guards say that they are not finite, and all other guards."""
    values: dict[Expr, None] = {}
    others: dict[Expr, None] = {}
    for guard in guards:
        stack = [guard]
        while stack:
            part = stack.pop()
            value = _watched(part)
            if part.op is Core.OR:
                stack.extend(reversed(part.args))
            elif value is not None and value.dtype != "f2":
                values[value] = None
            else:
                others[part] = None
    return Watched(tuple(values), tuple(others))


def _watched(guard: Expr) -> Expr | None:
    """The value of which `nonfinite` made this guard."""
    if guard.op is not Core.NOT or guard.args[0].op is not Core.LT:
        return None
    size, limit = guard.args[0].args
    return size.args[0] if size.op is Core.ABS and limit.attr == INF else None


def rare_folds(leaf: Leaf) -> list[Reduce]:
    """Those that change nothing where no guard of the leaf is true."""
    return [e for e in leaf.effects if isinstance(e, Reduce) and _is_rare(e, leaf)]


def _is_rare(effect: Reduce, leaf: Leaf) -> bool:
    value = effect.value
    if value.op is not Core.SELECT or is_ordered(effect) or effect.mask is not None:
        return False
    condition, _, other = value.args
    none = identity_value(effect.fold, value.dtype)
    return condition in leaf.guards and other.op is Core.CONST and other.attr == none


def as_a_rule(leaf: Leaf) -> Leaf:
    """The leaf as it is where no guard is true."""
    rare = {id(effect) for effect in rare_folds(leaf)}
    effects = tuple(effect for effect in leaf.effects if id(effect) not in rare)
    return replace(leaf, effects=effects)


def looked_back_at(leaf: Leaf) -> tuple[Leaf, Leaf | None]:
    """A leaf without what its sums tell of; and what to do again where they do.

    Only where the leaf overwrites nothing that it reads.
    """
    sums = [e for e in leaf.effects if isinstance(e, Reduce) and is_ordered(e) and e.mask is None]
    told = {e.value.nonfinite() for e in sums if e.value.dtype[0] == "f"}
    guards = tuple(guard for guard in leaf.guards if guard in told)
    if not guards or any(_overwrites(effect, leaf) for effect in leaf.effects):
        return leaf, None
    rare = rare_folds(leaf)
    again = replace(leaf, effects=tuple(e for e in rare if e.value.args[0] in told), guards=guards)
    others = tuple(guard for guard in leaf.guards if guard not in told)
    effects = tuple(e for e in leaf.effects if not any(e is fold for fold in again.effects))
    return replace(leaf, effects=effects, guards=others, flags=leaf.flags if others else ()), again


def _overwrites(effect: Effect, leaf: Leaf) -> bool:
    if isinstance(effect, StoreScratch):
        read = (node for node in topological(leaf.all_roots) if node.op is Core.SCRATCH)
        return any(node.attr == effect.index for node in read)
    return not isinstance(effect, Reduce)


def square_sums(b: Builder, leaves: Iterable[Leaf], scalars: Sequence[Value]) -> dict[str, Name]:
    """By dtype 1 and the squares of the numbers given at run time that leaves want to be small."""
    sums: dict[str, Name] = {}
    for node in dict.fromkeys(node for leaf in leaves for node in watched(leaf.guards).fixed):
        given = node if node.op is Core.SCALAR else node.args[0]
        (value,) = convert(b, scalars[int(str(given.attr))], given.dtype, node.dtype)
        total = sums.get(node.dtype, b.constant(node.dtype, 1.0, 1))
        sums[node.dtype] = _add_product(b, value, value, total)
    return sums


def _add_product(b: Builder, x: Name, y: Name, total: Name) -> Name:
    if b.machine.fuses:
        return b.instruction(Core.FMA, (x, y, total))
    return b.instruction(Core.ADD, (total, b.instruction(Core.MUL, (x, y))))


class Watch:
    """What the guards of one vector have told so far.

    sums : `square_sums`, where values should be small
    """

    def __init__(self, b: Builder, width: int, sums: Mapping[str, Name] | None) -> None:
        self.b, self.bounded = b, sums is not None
        self._sums = {d: b.splat(total, width) for d, total in (sums or {}).items()}
        self._masks: list[Name] = []

    def add(self, value: Name) -> None:
        """A value that should be finite, or small."""
        b, total = self.b, self._sums.get(value.dtype)
        zero, one = (b.constant(value.dtype, k, value.width) for k in (0.0, 1.0))
        if self.bounded:  # from 1 on: sums of tiny numbers would be slow
            self._sums[value.dtype] = _add_product(b, value, value, total or one)
        elif total is None:
            self._sums[value.dtype] = b.instruction(Core.MUL, (value, zero))
        else:
            self._sums[value.dtype] = _add_product(b, value, zero, total)

    def add_mask(self, mask: Name) -> None:
        """A guard that is true where something may have happened."""
        self._masks.append(mask)

    def masks(self) -> list[Name]:
        """In which lanes a guard was true."""
        return [*self._masks, *map(self._told, self._sums.values())]

    def _told(self, total: Name) -> Name:
        b = self.b
        if not self.bounded:
            return b.compare(Core.NE, total, total)
        limit = b.constant(total.dtype, 4.0 ** SMALL[total.dtype], total.width)
        return b.instruction(Core.NOT, (b.compare(Core.LT, total, limit),))
