"""Arrays that die in a block, and what the next ones must be."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from .comparison import facts

Array = np.ndarray[Any, Any]
handler_name = np._core.multiarray.get_handler_name  # type: ignore[attr-defined]


def made(dtype: str = "d", shape: tuple[int, ...] = (6,)) -> Array:
    """A new array of a way that is taken in blocks."""
    x = np.ones(shape, dtype)
    return x + x


def check_next(shape: tuple[int, ...] = (6,), times: int = 12) -> None:
    """Arrays that are made now, more than are kept, are as any other."""
    for dtype in "dlDf?b":
        x = np.full(shape, 1, dtype)
        expected = facts(np.full(shape, 1 if dtype == "?" else 2, dtype))
        new = [x + x for _ in range(times)]
        assert [facts(y) for y in new] == [expected] * times
        for y, other in zip(new, [object() for _ in new], strict=True):
            np.add(y, y[:1], y)
            y.flags.writeable = True
            y.shape = (-1,)
            assert y.base is None
            assert sys.getrefcount(y) == sys.getrefcount(other)
        ends = [(y.ctypes.data, y.ctypes.data + y.nbytes) for y in new]
        assert all(
            one[1] <= two[0] for one, two in zip(sorted(ends), sorted(ends)[1:], strict=False)
        )
        assert len({id(y) for y in new}) == times
