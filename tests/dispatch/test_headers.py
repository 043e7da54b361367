"""Arrays of ours that die leave their headers to the next ones."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

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


@pytest.mark.parametrize("shape", [(-1,), (400, 250), (250, -1, 4), (1, 100_000, 1), (7, -1), (3,)])
def test_views_of_large_plain_arrays_are_numpys(shape: tuple[int, ...]) -> None:
    """By reshape and ravel, of what lies in order and of what does not; and where it is pending."""

    def views(x: Any) -> list[Any]:
        found = [x.ravel(), x.T.ravel(), x[::2].ravel()]
        for y in (x, x.T, x[:, 1:], x[:, :0], np.broadcast_to(x[0], x.shape)):
            try:
                found.append(y.reshape(shape))
            except ValueError as error:
                found.append(str(error))
        return found

    plain = np.arange(100_000.0).reshape(200, 500)
    x = plain.copy()
    with npaccel.accelerate():
        x[:, 3] = 1 + x[:, 4] * 2  # it may wait
        found = views(x)
    plain[:, 3] = 1 + plain[:, 4] * 2
    for mine, numpys in zip(found, views(plain), strict=True):
        if isinstance(numpys, str):
            assert mine == numpys
            continue
        assert type(mine) is np.ndarray or isinstance(mine, npaccel.Array)
        assert (mine.shape, mine.strides, str(mine.flags)) == (
            numpys.shape,
            numpys.strides,
            str(numpys.flags),
        )
        assert np.array_equal(np.asarray(mine), numpys)
        assert np.shares_memory(mine, x) == np.shares_memory(numpys, plain)
