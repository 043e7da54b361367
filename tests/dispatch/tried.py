"""What a program in a block had recorded, and what trials left to NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import npaccel
from npaccel import _native


def counts(program: Callable[[], object]) -> tuple[int, int]:
    """Operations recorded, and left to NumPy, in a block."""
    before = npaccel.stats()
    with npaccel.accelerate():
        program()
    npaccel.evaluate()
    after = npaccel.stats()
    return tuple(after[key] - before[key] for key in ("requests", "left_to_numpy"))


def shows(address: int) -> bool:
    """Whether memory is there for who reads it by its address, as here."""
    before = npaccel.stats()["guard_faults"]
    _ = ctypes.c_double.from_address(address + 400).value
    _native.forget_looks()  # this one was the test's
    return bool(npaccel.stats()["guard_faults"] == before)
