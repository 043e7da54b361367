"""The garbage collector, paused where many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["uncollected"]


class _Paused:
    """count: of those who want it so, in all threads; before: whether it was on until then."""

    count, before = 0, False


@contextmanager
def uncollected(when: bool = True) -> Iterator[None]:
    """Spare what is done inside the collector's search, which would find nothing."""
    if not when:
        yield
        return
    _Paused.before = _Paused.before if _Paused.count else gc.isenabled()
    _Paused.count += 1
    gc.disable()
    try:
        yield
    finally:
        _Paused.count -= 1
        if _Paused.count == 0 and _Paused.before:  # no other thread comes in between
            gc.enable()
