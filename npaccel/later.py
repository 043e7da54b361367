"""Modules and objects that are made when they are first asked for something, and looks at modules
that a program may never import: starting is quick.

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
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Generic, TypeVar, cast

__all__ = ["Once", "is_later", "later", "stand_in", "when_imported"]

Object = TypeVar("Object")


class _Later(ModuleType):
    """Stands for a module; what it has is looked up there each time, so it may be exchanged."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # of who goes through all modules there are
            raise AttributeError(f"{self.__name__} has no {name} before it is loaded")
        module = sys.modules.get(self.__name__)
        if module is None or getattr(module.__spec__, "_initializing", False):
            module = import_module(self.__name__)  # which waits for another thread that is at it
        return getattr(module, name)


def later(name: str) -> ModuleType:
    """The module `name`, loaded at the first use of what it defines."""
    return _Later(name)


def is_later(value: object) -> bool:
    """Whether it stands for a module."""
    return isinstance(value, _Later)


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


class _Watch:
    """A finder that waits for modules, which others find."""

    def __init__(self) -> None:
        self.actions: dict[str, list[Callable[[ModuleType], None]]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of an awaited module, as others find it, but its loader tells us."""
        if name not in self.actions:
            return None
        finders = (finder for finder in sys.meta_path if finder is not self)
        found = (find(name, path, target) for finder in finders if (find := _find(finder)))
        spec: ModuleSpec | None = next((spec for spec in found if spec is not None), None)
        loader: Any = spec and spec.loader
        if loader is not None:
            run = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                del loader.exec_module
                run(module)
                self.tell(name, module)

            loader.exec_module = exec_module
        return spec

    def tell(self, name: str, module: ModuleType) -> None:
        """Have it looked at. Its own name may be another one, as of some of NumPy 2.2's modules."""
        for action in self.actions[name]:
            action(module)


def _find(finder: Any) -> Any:
    return getattr(finder, "find_spec", None)


_WATCH = _Watch()


def when_imported(name: str, action: Callable[[ModuleType], None]) -> None:
    """Have `action` called with the module of that name: now, and whenever it is loaded."""
    _WATCH.actions.setdefault(name, []).append(action)
    if _WATCH not in sys.meta_path:
        sys.meta_path.insert(0, _WATCH)
    module = sys.modules.get(name)
    if module is not None:
        action(module)
