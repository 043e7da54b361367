"""np.roll is recorded without NumPy's code for it, and read in place by what follows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

from .differential import DTYPES, FOREIGN, check, edge_values

Array = np.ndarray[Any, Any]

CALLS: dict[str, Callable[[Array], Any]] = {
    "flat": lambda x: np.roll(x, 2),
    "flat, back": lambda x: np.roll(x, -7),
    "flat, far": lambda x: np.roll(x, 10**12 + 1),
    "flat, named": lambda x: np.roll(x, 1, axis=None),
    "flat, none at all": lambda x: np.roll(x, 0),
    "first": lambda x: np.roll(x, 1, 0),
    "last": lambda x: np.roll(x, -1, axis=-1),
    "all around": lambda x: np.roll(x, x.shape[0], axis=0),
    "both": lambda x: np.roll(x, (1, -2), axis=(0, -1)),
    "one for both": lambda x: np.roll(x, 1, axis=(0, -1)),
    "several along one": lambda x: np.roll(x, (1, 2), axis=0),
    "an axis twice": lambda x: np.roll(x, (1, -3), axis=(0, 0)),
    "one in a tuple": lambda x: np.roll(x, (1,), axis=(0,)),
    "shift by name": lambda x: np.roll(a=x, shift=1),
    "a list": lambda x: np.roll(x, [1, 2], axis=[0, -1]),
    "a NumPy number": lambda x: np.roll(x, np.int64(1), axis=0),
    "a truth value": lambda x: np.roll(x, True),
    "too far": lambda x: np.roll(x, 2**70),
    "no such axis": lambda x: np.roll(x, 1, axis=7),
    "no such axis below": lambda x: np.roll(x, 1, axis=-7),
    "not so many": lambda x: np.roll(x, (1, 2, 3), axis=(0, 1)),
    "nothing": lambda x: np.roll(x, (), axis=()),
    "a fraction": lambda x: np.roll(x, 1.5),
    "a word": lambda x: np.roll(x, "a"),
    "of a part": lambda x: np.roll(x[1:], 1, axis=0),
    "of columns": lambda x: np.roll(x.T, 1, axis=0),
    "of what is reversed": lambda x: np.roll(x[::-1], 1),
    "of a roll": lambda x: np.roll(np.roll(x, 1, axis=0), 2, axis=-1),
    "of a roll along the same": lambda x: np.roll(np.roll(x, 1, axis=0), 2, axis=0),
    "facts": lambda x: [(r.flags.owndata, r.flags.writeable, r.base is None) for r in rolls(x)],
}


def rolls(x: Array) -> tuple[Array, ...]:
    return np.roll(x, 1, axis=0), np.roll(x, 0, axis=0)


@pytest.mark.parametrize("shape", [(15,), (3, 5), (5, 3), (1, 15), (15, 1), (3, 1, 5), (0, 3)])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_is_numpy_s(call: Callable[[Array], Any], shape: tuple[int, ...]) -> None:
    values = edge_values("d")
    check(call, lambda: (np.resize(values, shape),))


@pytest.mark.parametrize("dtype", [*DTYPES, *FOREIGN])
def test_each_dtype(dtype: str) -> None:
    values = (
        edge_values(dtype).reshape(5, 3)
        if dtype in DTYPES
        else np.arange(15).astype(dtype).reshape(5, 3)
    )
    check(lambda x: (np.roll(x, 2), np.roll(x, 1, axis=1)), lambda: (values.copy(),))


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "columns": np.asfortranarray,
    "turned": lambda x: x.swapaxes(0, 1),
    "apart": lambda x: x[:, ::2],
    "of columns": lambda x: x[1:].T[::2],
    "back": lambda x: x[::-1, ::-1],
    "still": lambda x: np.broadcast_to(x[:1], x.shape),
}


@pytest.mark.parametrize("shape", [(12, 9), (4, 6, 5), (1, 8), (7, 1, 4)])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_each_layout(layout: Callable[[Array], Array], shape: tuple[int, ...]) -> None:
    values = np.arange(float(np.prod(shape))).reshape(shape)

    def call(x: Array) -> Any:
        y = layout(x)
        results = [np.roll(y, 1, 0), np.roll(y, (2, -1), (0, -1)), np.roll(y, -1, 1) + y]
        return [(r, r.strides) for r in results], np.roll(y, 3)

    check(call, lambda: (values.copy(),))


@pytest.mark.pending
def test_columns_are_recorded() -> None:
    """What NumPy's code for it has made is protected at each use."""
    x = np.arange(12.0).reshape(3, 4).T
    before = npaccel.stats()["requests"]
    with npaccel.accelerate:
        shifted = np.roll(x, 1, axis=0)
        assert npaccel.stats()["requests"] == before + 2
    assert shifted.tolist() == np.roll(x, 1, axis=0).tolist()


def around(x: Array) -> Array:
    total = -2 * x.ndim * x
    for axis in range(x.ndim):
        total = total + np.roll(x, 1, axis=axis) + np.roll(x, -1, axis=axis)
    return total


STENCILS: dict[str, Callable[[Array], Any]] = {
    "neighbours": around,
    "corners": lambda x: np.roll(x, (1, 1), (0, 1)) - np.roll(x, (-1, 1), (0, 1)) * x,
    "corners in steps": lambda x: np.roll(np.roll(x, 1, axis=0), 1, axis=1) + x,
    "in place": lambda x: (
        np.add(x, np.roll(x, 1, axis=0), out=x),
        np.subtract(x, np.roll(x, 1, 1), out=x),
    ),
    "changed between": lambda x: (np.roll(x, 1, axis=0), np.multiply(x, 2, out=x))[0] + x,
    "a part": lambda x: np.roll(x, 1, axis=1)[1:, 2:] + x[1:, 2:],
    "a mask": lambda x: np.where(np.roll(x > 0, 1, axis=1), np.roll(x, -1, axis=0), x),
    "warnings": lambda x: (
        1 / (np.roll(x, 1, axis=1) - np.roll(x, -1, axis=1)) + np.sqrt(np.roll(x, 1, 0))
    ),
    "the largest of it": lambda x: (np.roll(x, 1, axis=1) * x).max(axis=0),
    "as other numbers": lambda x: (
        np.roll(x, 1, axis=0).view("i8") + 1,
        np.roll(x, 1, axis=0).view("u4")[:, : x.shape[1]] + 1,
        np.roll(x.ravel(), 1).view("u4")[: x.size] + 1,
    ),
    "seen": lambda x: [r := np.roll(x, 1, axis=1), r + x],
    "written": lambda x: [r := np.roll(x, 1, axis=1), r.__setitem__(0, 7.0), r + x],
}


def read_before_it_is_full(x: Array) -> list[Array]:
    """Memory with content, half of which is written, read, and written: nobody sees the whole."""
    y = x * 3 - 1
    if isinstance(y, npaccel.Array):
        npaccel.evaluate(y)
    n = len(x) // 2
    y[:n] = x[len(x) - n :]
    before = y[n:] * 2
    y[n:] = x[: len(x) - n]
    return [before, y + 1]


@pytest.mark.parametrize("shape", [(8,), (300,), (9, 7), (40, 33)])
def test_a_read_before_the_last_copy(shape: tuple[int, ...]) -> None:
    values = np.arange(float(np.prod(shape))).reshape(shape)
    check(read_before_it_is_full, lambda: (values.copy(),))


@pytest.mark.parametrize("shape", [(3, 3), (4, 9), (40, 33), (70, 5), (3, 300)])
@pytest.mark.parametrize("stencil", STENCILS.values(), ids=STENCILS)
def test_stencils(stencil: Callable[[Array], Any], shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(7).normal(size=shape).round(1)
    check(stencil, lambda: (values.copy(),), ulp=1)


@pytest.mark.pending
def test_a_step_of_a_stencil_moves_each_element_once() -> None:
    if npaccel.config.backend == "numpy" or npaccel.config.check != "off":
        pytest.skip("as kernels compute it")
    x = npaccel.asarray(np.random.default_rng(7).normal(size=(300, 200)))
    npaccel.evaluate(x + 1)
    npaccel.stats(reset=True)
    npaccel.evaluate(around(x))
    found = npaccel.stats()
    assert found["kernels"] == 1 and found["bytes_written"] == x.nbytes
    assert found["bytes_read"] <= 2 * x.nbytes


def test_threads_and_long_loops() -> None:
    """Boxes are cut into tasks like any domain."""
    u = np.random.default_rng(7).normal(size=(700, 513))
    expected, found = u, npaccel.asarray(u)
    for _ in range(20):
        expected, found = expected + 0.1 * around(expected), found + 0.1 * around(found)
    np.testing.assert_array_equal(np.asarray(found), expected)
