"""Libraries whose threads block SIGSEGV. A touch of pending memory by such a thread would end the
process, so what hands arrays to them evaluates first. Each is looked at when it is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from npaccel import _native

__all__ = ["watch_neighbours"]

# Module to the class in it whose objects, when called, let their threads read and write arrays.
CALLED = {"numexpr.interpreter": "NumExpr"}


def _settle(module: ModuleType) -> None:
    kind = getattr(module, CALLED[module.__name__], None)
    if isinstance(kind, type):
        _native.settle_calls(kind)


class _Loader:
    """Another loader, and a look at what it loaded. (`importlib.abc` is slow to import.)"""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _settle(module)


class _Finder:
    """Stands first on the path of finders, and finds only the modules of `CALLED`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in CALLED:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = None if find is None else find(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec  # type: ignore[no-any-return]
        return None


def watch_neighbours() -> None:
    """Look at those that are imported already, and at the others when they are."""
    for name in CALLED:
        if name in sys.modules:
            _settle(sys.modules[name])
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
