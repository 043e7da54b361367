"""A dtype's metadata stays with results as in NumPy, which computes with such arrays itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel as na

CALLS: dict[str, Callable[..., Any]] = {
    "by a number": lambda x, y, z: x + 1,
    "of two": lambda x, y, z: x + 1 + 2,
    "with itself": lambda x, y, z: (x * 2) * (x * 3),
    "with plain ones": lambda x, y, z: x * z,
    "behind plain ones": lambda x, y, z: z * x,
    "with others": lambda x, y, z: x * y,
    "sign": lambda x, y, z: -x,
    "root": lambda x, y, z: np.sqrt(x),
    "absolute": lambda x, y, z: abs(x),
    "square": lambda x, y, z: x**2,
    "maximum": lambda x, y, z: np.maximum(x, 0),
    "clip": lambda x, y, z: x.clip(0, 2),
    "round": lambda x, y, z: np.round(x),
    "sum": lambda x, y, z: x.reshape(20, -1).sum(0),
    "maxima": lambda x, y, z: x.reshape(20, -1).max(1),
    "mean": lambda x, y, z: x.reshape(20, -1).mean(1),
    "running sum": lambda x, y, z: x.cumsum(),
    "where": lambda x, y, z: np.where(z > 0, x, z),
    "where of two": lambda x, y, z: np.where(z > 0, x, x),
    "taken": lambda x, y, z: x[np.arange(5)],
    "masked": lambda x, y, z: x[z > 0],
    "joined": lambda x, y, z: np.concatenate([x, x]),
    "joined with plain ones": lambda x, y, z: np.concatenate([x, z]),
    "stacked": lambda x, y, z: np.stack([x, x]),
    "rolled": lambda x, y, z: np.roll(x, 1),
    "flipped": lambda x, y, z: np.flip(x) * 1,
    "sorted": lambda x, y, z: np.sort(x),
    "cast": lambda x, y, z: x.astype(z.dtype),
    "cast to it": lambda x, y, z: z.astype(x.dtype),
    "zeros": lambda x, y, z: np.zeros_like(x),
    "copy": lambda x, y, z: x.reshape(20, -1).T.copy(),
    "repeated": lambda x, y, z: np.repeat(x, 2),
    "tiled": lambda x, y, z: np.tile(x, 2),
    "product": lambda x, y, z: x.reshape(20, -1) @ x.reshape(20, -1).T,
    "products": lambda x, y, z: np.einsum("i,i->i", x, x),
    "differences": lambda x, y, z: np.diff(x),
    "written": lambda x, y, z: np.add(z, z, out=x.copy()),
    "summed in it": lambda x, y, z: z.reshape(20, -1).sum(0, dtype=x.dtype),
    "made in it": lambda x, y, z: np.zeros(z.shape, x.dtype),
}


@pytest.mark.parametrize("n", [400, 40_000])
@pytest.mark.parametrize("dtype", ["f8", "i4", "c8"])
@pytest.mark.parametrize("call", CALLS)
def test_results_have_the_metadata_that_numpys_have(call: str, dtype: str, n: int) -> None:
    told = np.dtype(dtype, metadata={"unit": "m"})
    x, y = np.ones(n, told), np.full(n, 3, np.dtype(dtype, metadata={"unit": "s"}))
    z, f = np.ones(n, dtype), CALLS[call]
    expected = f(x, y, z)
    with na.accelerate():
        within = [f(x, y, z) for _ in range(3)]
    for found in (*within, f(*map(na.asarray, (x, y, z)))):
        assert found.dtype == expected.dtype
        assert found.dtype.metadata == expected.dtype.metadata
        assert np.array_equal(found, expected)
