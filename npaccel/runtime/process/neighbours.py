"""Libraries whose threads block SIGSEGV. A touch of pending memory by such a thread would end the
process, so what hands arrays to them evaluates first. Each is looked at when it is imported.
"""

from __future__ import annotations

from types import ModuleType

from npaccel import _native
from npaccel.later import when_imported

__all__ = ["watch_neighbours"]

# Module to the class in it whose objects, when called, let their threads read and write arrays.
CALLED = {"numexpr.interpreter": "NumExpr"}


def _settle(module: ModuleType) -> None:
    kind = getattr(module, CALLED[module.__name__], None)
    if isinstance(kind, type):
        _native.settle_calls(kind)


def watch_neighbours() -> None:
    """Look at those that are imported already, and at the others when they are."""
    for name in CALLED:
        when_imported(name, _settle)
