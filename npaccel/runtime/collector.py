"""The garbage collector, paused where many objects are made that all stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["uncollected"]


@contextmanager
def uncollected(when: bool = True) -> Iterator[None]:
    """Spare what is done inside the collector's search, which would find nothing."""
    pause = when and gc.isenabled()
    if pause:
        gc.disable()
    try:
        yield
    finally:
        if pause:
            gc.enable()
