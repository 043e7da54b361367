"""Modules and objects that are made when they are first asked for something: starting is quick.

Imports nothing of npaccel. A module that a start does not need, and many processes never, is
imported so, under the name by which type checkers know it:

    if TYPE_CHECKING:
        from npaccel.ir import passes
    else:
        passes = later("npaccel.ir.passes")

What is used of it is then named with the module, as `passes.plan`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, Generic, TypeVar, cast

__all__ = ["Once", "later", "stand_in"]

Object = TypeVar("Object")


class _Later(ModuleType):
    """Stands for a module; what it has is looked up there each time, so it may be exchanged."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # of who goes through all modules there are
            raise AttributeError(f"{self.__name__} has no {name} before it is loaded")
        return getattr(sys.modules.get(self.__name__) or import_module(self.__name__), name)


def later(name: str) -> ModuleType:
    """The module `name`, loaded at the first use of what it defines."""
    return _Later(name)


class Once(Generic[Object]):
    """Calling it gives what `make` returns, which is called once, by one thread.

    Attributes
    ----------
    made : that, or None.
    """

    def __init__(self, make: Callable[[], Object]) -> None:
        self._make = make
        self._lock = threading.RLock()
        self.made: Object | None = None

    def __call__(self) -> Object:
        if self.made is None:
            with self._lock:
                if self.made is None:
                    self.made = self._make()
        return self.made


class _StandIn:
    """Has the attributes of an object, takes assignments to them, and is called as it is."""

    __slots__ = ("_once",)

    def __init__(self, once: Once[Any]) -> None:
        object.__setattr__(self, "_once", once)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._once(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._once(), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._once(), name)

    def __call__(self, *args: Any) -> Any:
        return self._once()(*args)


def stand_in(once: Once[Object]) -> Object:
    """As what `once` gives, which is made when an attribute of it is asked for."""
    return cast(Object, _StandIn(once))
