"""Random generators among a section's arguments: what the body draws is drawn anew at each replay.

While the body is recorded a `StandIn` takes a generator's place. It draws from a copy, to know what
dtype and shape comes; a replay calls the same methods in the same order on the generators that it
is given, so that these advance as the body would have them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from npaccel import _native
from npaccel.runtime.macros.traced_scalars import TracedScalar

__all__ = ["Draws", "StandIn"]

Array = np.ndarray[Any, Any]
Call = tuple[int, str, tuple[Any, ...], dict[str, Any]]
# What does something else than draw new arrays.
OTHER: Final = frozenset(("bit_generator", "bytes", "permuted", "shuffle", "spawn"))
CONSTANTS: Final = (type(None), bool, int, float, str, np.generic, np.dtype, type)


class Draws:
    """What a body draws, in order.

    Attributes
    ----------
    calls : number of the generator among the arguments, method, arguments
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def draw(self, generators: Sequence[Any]) -> tuple[list[Any], list[tuple[Any, Any]]] | None:
        """What a replay starts with, and the generators' states before; None: the body must run."""
        states = [(one.bit_generator, one.bit_generator.state) for one in generators]
        try:
            drawn = [
                getattr(generators[number], name)(*args, **kwargs)
                for number, name, args, kwargs in self.calls
            ]
        except (ValueError, TypeError, MemoryError):  # the body raises it, at its line
            self.undo(states)
            return None
        return drawn, states

    def undo(self, states: list[tuple[Any, Any]]) -> None:
        """As if nothing had been drawn."""
        for bits, state in states:
            bits.state = state


class StandIn:
    """A generator while the body is recorded.

    Parameters
    ----------
    taken : taken(call, array) has what the body gets instead of what was drawn
    refuse : raises, with the reason
    """

    def __init__(
        self,
        number: int,
        generator: np.random.Generator,
        taken: Callable[[Call, Array], Any],
        refuse: Callable[[str], Any],
    ) -> None:
        self._number = number
        self._copy: Any = _native.plainly(copy.deepcopy, (generator,), {})
        self._taken, self._refuse = taken, refuse

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # isinstance is as it would be
        return np.random.Generator

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in OTHER:
            self._refuse(f"it uses {name!r} of a random generator")

        def method(*args: Any, **kwargs: Any) -> Any:
            return self._draw(name, tuple(args), kwargs)

        return method

    def _draw(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args = tuple(map(self._constant, args))
        kwargs = {key: self._constant(value) for key, value in kwargs.items()}
        try:
            drawn = _native.plainly(getattr(self._copy, name), args, kwargs)
        except (ValueError, TypeError, AttributeError) as error:
            self._refuse(f"{name} of a random generator raises {type(error).__name__}")
        if type(drawn) is not np.ndarray or not drawn.size:
            self._refuse("it draws single random numbers")
        return self._taken((self._number, name, args, kwargs), drawn)

    def _constant(self, value: Any) -> Any:
        if type(value) is TracedScalar:
            return value.look()
        if type(value) in (tuple, list):
            return type(value)(map(self._constant, value))
        if not isinstance(value, CONSTANTS):
            self._refuse("it draws random numbers with arrays")
        return value
