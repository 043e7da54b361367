"""Programs that write unseen into memory that a pending request will read, and their comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import npaccel
from npaccel import _native

Array = np.ndarray[Any, Any]
Wrap = Callable[[Array], Array]
Write = Callable[[Array], object]

BIG = 1 << 17  # float64: 1 MiB, memory that is protected
SMALL = 1000  # memory that is copied


def view_of(a: Any) -> Any:
    return memoryview(a)


def count(name: str) -> int:
    return int(npaccel.stats()[name])


def agree(program: Callable[[Wrap], object]) -> None:
    """Both ways give the same arrays (a list of them, or one)."""
    expected, got = program(lambda a: a), program(npaccel.asarray)
    for one, other in zip(as_list(expected), as_list(got), strict=True):
        np.testing.assert_array_equal(np.asarray(other), one)


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def read_then_write(write: Write, size: int, make: Callable[[int], Array] = np.arange) -> None:
    """Record reads of an array, write into it unseen, look at results and array; twice."""

    def program(wrap: Wrap) -> list[Array]:
        a = make(size).astype(np.float64)
        results = []
        for turn in range(2):
            x = wrap(a)
            y, z = x * 2.0, x[::2] + 1.0
            assert turn or wrap is not npaccel.asarray or _native.is_pending(y)
            write(a)
            results += [z, y, a.copy()]
            a += 0.0  # what follows starts with memory that is open again
        return results

    agree(program)
