"""Arrays of ours that die leave their headers to the next ones."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

import npaccel

DTYPES = ("f8", "f4", "i4", "c16", "?", "u1")
LAYOUTS: tuple[Callable[[Any], Any], ...] = (
    lambda x: x,
    np.asfortranarray,
    lambda x: x[::-1],
    lambda x: x[..., ::2],
)


def test_headers_of_dead_arrays_say_nothing_of_them() -> None:
    """Results of many shapes, dtypes and layouts die by turns; some are kept, referred to weakly,
    or shown first: the next ones are as NumPy's."""
    rng = np.random.default_rng(47)
    kept: list[tuple[Any, Any]] = []
    gone: set[int] = set()
    for turn in range(600):
        plain = rng.integers(0, 3, tuple(rng.integers(1, 5, rng.integers(1, 10))))
        lay, dtype = LAYOUTS[turn % 4], DTYPES[turn % 6]
        found, wanted = ((lay(x) + 1).astype(dtype) for x in (npaccel.asarray(plain), plain))
        assert (found.dtype, found.shape, found.strides) == (
            wanted.dtype,
            wanted.shape,
            wanted.strides,
        )
        assert found.base is None and str(found.flags) == str(wanted.flags)
        if turn % 7 == 0:
            weakref.finalize(found, gone.add, turn)
        if turn % 5 == 0:
            memoryview(found).release()
        if turn % 3 == 0:
            kept.append((found, wanted))
        if len(kept) > 40:
            mine, numpys = kept.pop(int(rng.integers(0, 40)))
            assert mine.strides == numpys.strides and np.array_equal(np.asarray(mine), numpys)
            del mine
        del found
    assert all(np.array_equal(np.asarray(mine), numpys) for mine, numpys in kept)
    kept.clear()
    assert gone == set(range(0, 600, 7))
