"""Small arrays that lie backwards, and those whose dtype is an object of its own."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

from .comparison import all_same

Array = np.ndarray[Any, Any]
CALLS: dict[str, Callable[[Array, Array], Any]] = {
    "add": lambda x, y: x + y,
    "number": lambda x, y: 2 * x - 1,
    "in place": operator.iadd,
    "compare": lambda x, y: x < y,
    "root": lambda x, y: np.sqrt(abs(x)),
    "exp": lambda x, y: np.exp(-abs(x)),
    "chosen": lambda x, y: (np.maximum(x * 0, -y * 0), np.clip(x * 0, -y * 0, y * 0)),
    "floor": lambda x, y: np.maximum(x, y) // 3,
    "where": lambda x, y: np.where(x > y, x, y),
    "clip": lambda x, y: x.clip(-1, 1),
    "fold": lambda x, y: (x.sum(), x.max(axis=0), np.mean(x)),
    "copy": lambda x, y: (x.copy(), x.astype(np.float32), x.ravel()),
    "join": lambda x, y: (np.concatenate((x, y)), np.stack([x, y]), np.concatenate((x[:1], y))),
    "diff": lambda x, y: (np.diff(x), np.roll(x, 2)),
    "product": lambda x, y: (np.dot(x[:, ...], y.T), x @ y.T),
    "masks": lambda x, y: (x[x > 0], x[[0, 2]]),
    "put": lambda x, y: (operator.setitem(x, slice(1, 3), y[1:3]), operator.setitem(x, 0, 5)),
    "add.at": lambda x, y: np.add.at(x, np.array([0, 1, 1]), y[:3]),
    "cumsum": lambda x, y: np.cumsum(x, axis=-1),
}
VIEWS: dict[str, Callable[[Array], Array]] = {
    "as it is": lambda x: x,
    "backwards": lambda x: x[::-1],
    "each second, backwards": lambda x: x[::-2],
    "rows": lambda x: x.reshape(4, -1)[::-1],
    "columns": lambda x: x.reshape(4, -1)[:, ::-1],
    "both": lambda x: x.reshape(4, -1)[::-1, ::-1],
    "columns down": lambda x: x.reshape(4, -1).T[::-1],
}


def pickled(x: Array) -> Array:
    return pickle.loads(pickle.dumps(x))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("own", [False, True])
def test_calls_are_numpys(name: str, own: bool) -> None:
    call = CALLS[name]
    made = pickled if own else np.copy

    def operands(dtype: str, first: str, second: str) -> tuple[Array, Array]:
        x = np.linspace(-4, 5, 48).astype(dtype)
        return VIEWS[first](made(x)), VIEWS[second](made(x[::-1].copy()))

    all_same(
        (f"{dtype} {first} {second}", call, lambda d=dtype, f=first, s=second: operands(d, f, s))
        for dtype in ("f8", "f4", "i8", "i2", "?", "c16")
        for first in VIEWS
        for second in (first, "backwards" if first.startswith(("as", "back")) else first)
    )


@pytest.mark.pending
def test_dtypes_of_their_own_take_the_short_way() -> None:
    """NumPy's own loop would pass the object on."""
    x = pickled(np.arange(9.0))
    numpys = np.dtype("f8")
    assert x.dtype is not numpys and (x + x).dtype is x.dtype
    with npaccel.accelerate():
        assert all(y.dtype is numpys for y in (x + x, x * 2.0, np.sqrt(x), x[::-1] - x))


def test_what_is_noted_with_a_dtype_stays() -> None:
    noted = np.dtype("f8", metadata={"unit": "m"})
    x = np.arange(9.0).astype(noted)
    with npaccel.accelerate():
        for y in (x + x, x * 2, x.copy(), x[::-1] - x, x.sum(keepdims=True)):
            assert y.dtype.metadata == {"unit": "m"}
        assert x.dtype.metadata == {"unit": "m"}


def test_dead_arrays_outlive_their_dtypes() -> None:
    """Their memory is used again when nobody has that object any more."""
    with npaccel.accelerate():
        for n in range(200):
            x = pickled(np.arange(10.0 + n % 3))
            y = x.copy() + x
            assert y.dtype == "f8" and y[3] == 6.0
            del x, y
    assert (np.arange(10.0) + 1).sum() == 55.0
