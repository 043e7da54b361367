"""Python numbers that a macro section takes anew at each call.

While the body runs for the first time it sees a `TracedScalar` in place of a float. Arithmetic on
it is noted, so that a replay computes the same; whoever looks at its value gets it, and the
recording then holds for that value only.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from npaccel import _native

__all__ = ["TracedScalar", "TracedScalars"]

# Integers up to here are floats without loss.
EXACT_INTEGER = 1 << 53


class TracedScalars:
    """The numbers of one recording.

    Attributes
    ----------
    steps : per number (operation, left, right, value): operation "" is an argument, "c" a constant.
    looked_at : the arguments whose value the body used otherwise than in noted arithmetic.
    """

    def __init__(self) -> None:
        self.steps: list[tuple[str, int, int, float]] = []
        self.looked_at: set[int] = set()

    def argument(self, value: float | int) -> TracedScalar:
        """A number that every call gives anew; all of them come before any other."""
        return self._add("", -1, -1, value)

    def _add(self, op: str, left: int, right: int, value: float | int) -> TracedScalar:
        self.steps.append((op, left, right, float(value) if op else 0.0))
        number = TracedScalar(value, len(self.steps) - 1)
        number.numbers = self
        return number

    def look(self, slot: int) -> None:
        """The body depends on the value of this number, so on those it is computed from."""
        waiting = [slot]
        while waiting:
            slot = waiting.pop()
            op, left, right, _ = self.steps[slot]
            if op == "":
                self.looked_at.add(slot)
            elif op != "c":
                waiting += [left, right]

    def combine(self, op: str, left: Any, right: Any) -> Any:
        """The number ``left op right``; a plain float where it cannot be noted."""
        first, second = self._slot(left), self._slot(right)
        a, b = _value(left), _value(right)
        value = ARITHMETIC[op](a, b)  # raises as the body's own would; a replay then runs the body
        if first is None or second is None or type(value) is not float:
            for operand in (left, right):
                if isinstance(operand, TracedScalar):
                    self.look(operand.slot)
            return value
        return self._add(op, first, second, value)

    def _slot(self, operand: Any) -> int | None:
        if isinstance(operand, TracedScalar):
            return (
                operand.slot if operand.numbers is self and type(operand.value) is float else None
            )
        if type(operand) is float or (type(operand) is int and abs(operand) <= EXACT_INTEGER):
            return self._add("c", -1, -1, operand).slot
        return None


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
}


def _value(operand: Any) -> Any:
    return operand.value if isinstance(operand, TracedScalar) else operand


def _noted(op: str, *, reflected: bool = False) -> Any:
    def method(self: TracedScalar, other: Any) -> Any:
        if isinstance(other, np.ndarray):
            return NotImplemented  # the array records it
        if not isinstance(other, TracedScalar | float | int):
            return ARITHMETIC[op](*((other, self.look()) if reflected else (self.look(), other)))
        return self.numbers.combine(op, *((other, self) if reflected else (self, other)))

    return method


def _looked(function: Callable[..., Any], *, reflected: bool = False) -> Any:
    def method(self: TracedScalar, *others: Any) -> Any:
        if any(isinstance(other, np.ndarray) for other in others):
            return NotImplemented
        values = (self.look(), *map(_value_looked, others))
        return function(*(values[::-1] if reflected else values))

    return method


def _value_looked(operand: Any) -> Any:
    return operand.look() if isinstance(operand, TracedScalar) else operand


class TracedScalar(_native.Runtime):
    """A Python float or int that stands for an argument, or for arithmetic on arguments."""

    numbers: TracedScalars

    @property
    def value(self) -> Any:
        return self._value

    @property
    def slot(self) -> int:
        return self._slot

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # isinstance(x, float) is as it would be
        return type(self._value)

    def look(self) -> Any:
        """The value; the recording holds for it only."""
        self.numbers.look(self._slot)
        return self._value

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(x, _native.ArrayBase) for x in inputs):
            return NotImplemented
        return getattr(ufunc, method)(*map(_value_looked, inputs), **kwargs)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self.look(), dtype=dtype)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.look(), name)

    def __neg__(self) -> Any:
        return self.numbers.combine("*", self, -1.0) if type(self._value) is float else -self.look()

    def __pos__(self) -> Any:
        return self

    __add__, __radd__ = _noted("+"), _noted("+", reflected=True)
    __sub__, __rsub__ = _noted("-"), _noted("-", reflected=True)
    __mul__, __rmul__ = _noted("*"), _noted("*", reflected=True)
    __truediv__, __rtruediv__ = _noted("/"), _noted("/", reflected=True)
    __pow__ = _looked(pow)
    __rpow__ = _looked(pow, reflected=True)
    __floordiv__ = _looked(lambda a, b: a // b)
    __rfloordiv__ = _looked(lambda a, b: a // b, reflected=True)
    __mod__ = _looked(lambda a, b: a % b)
    __rmod__ = _looked(lambda a, b: a % b, reflected=True)
    __divmod__ = _looked(divmod)
    __rdivmod__ = _looked(divmod, reflected=True)
    __eq__ = _looked(lambda a, b: a == b)
    __ne__ = _looked(lambda a, b: a != b)
    __lt__ = _looked(lambda a, b: a < b)
    __le__ = _looked(lambda a, b: a <= b)
    __gt__ = _looked(lambda a, b: a > b)
    __ge__ = _looked(lambda a, b: a >= b)
    __hash__ = _looked(hash)
    __bool__ = _looked(bool)
    __int__ = _looked(int)
    __float__ = _looked(float)
    __complex__ = _looked(complex)
    __index__ = _looked(operator.index)
    __abs__ = _looked(abs)
    __round__ = _looked(round)
    __trunc__ = _looked(math.trunc)
    __floor__ = _looked(math.floor)
    __ceil__ = _looked(math.ceil)
    __repr__ = _looked(repr)
    __str__ = _looked(str)
    __format__ = _looked(format)
    __reduce_ex__ = _looked(lambda value, protocol: value.__reduce_ex__(protocol))
