"""Guards: whether anything in an iteration may warn, told while its values are computed.

As a rule a guard says that a value is not finite. Such values are added up, each times 0, as soon
as they are known: what comes out is 0, or NaN where one of them was not finite. That takes one
instruction for each, no mask, and lets go of the values.
"""

from __future__ import annotations

from collections.abc import Iterable

from npaccel.backends.emit.builder import Builder, Name
from npaccel.ir.scalar import Core, Expr

__all__ = ["Watch", "parted_guards"]

INF = float("inf")
TURNS = 2


def parted_guards(guards: Iterable[Expr]) -> tuple[list[Expr], list[Expr]]:
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
    return list(values), list(others)


def _watched(guard: Expr) -> Expr | None:
    """The value of which `nonfinite` made this guard."""
    if guard.op is not Core.NOT or guard.args[0].op is not Core.LT:
        return None
    size, limit = guard.args[0].args
    return size.args[0] if size.op is Core.ABS and limit.attr == INF else None


class Watch:
    """What the guards of one vector have told so far."""

    def __init__(self, b: Builder) -> None:
        self.b = b
        self._sums: dict[tuple[str, int], Name] = {}
        self._masks: list[Name] = []

    def add(self, value: Name) -> None:
        """A value that should be finite."""
        b, key = self.b, (value.dtype, value.width)
        zero, total = b.constant(value.dtype, 0.0, value.width), self._sums.get(key)
        if total is not None and b.machine.fuses:
            self._sums[key] = b.instruction(Core.FMA, (value, zero, total))
            return
        nothing = b.instruction(Core.MUL, (value, zero))
        self._sums[key] = nothing if total is None else b.instruction(Core.ADD, (total, nothing))

    def add_mask(self, mask: Name) -> None:
        """A guard that is true where something may have happened."""
        self._masks.append(mask)

    def masks(self) -> list[Name]:
        """In which lanes a guard was true."""
        sums = [self.b.compare(Core.NE, total, total) for total in self._sums.values()]
        return [*self._masks, *sums]
