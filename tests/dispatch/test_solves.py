"""Small systems and inverses by loops of ours: LAPACK's bits, NumPy's errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.usefixtures("threads")
COUNT = 60


def told(call: Callable[[], Any]) -> tuple[Any, ...]:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            x = call()
            seen: tuple[Any, ...] = (x.shape, x.strides, x.dtype, np.ascontiguousarray(x).tobytes())
        except np.linalg.LinAlgError as error:
            seen = (type(error), str(error))
        return (*seen, [str(w.message) for w in heard])


def usual(a: Array, b: Array) -> tuple[Array, Array]:
    return a, b


def whole(a: Array, b: Array) -> tuple[Array, Array]:
    return np.round(a), np.round(b)


def special(a: Array, b: Array) -> tuple[Array, Array]:
    a[5, 0, 0], a[9, 1, 1], a[11, 0, 1] = np.nan, np.inf, -0.0
    b.reshape(-1)[::97] = -np.inf
    b.reshape(-1)[1::97] = -0.0
    return a, b


def tiny(a: Array, b: Array) -> tuple[Array, Array]:
    return a * 1e-200, b * 1e-200


def turned(a: Array, b: Array) -> tuple[Array, Array]:
    return a.swapaxes(1, 2), np.asfortranarray(b)


def strided(a: Array, b: Array) -> tuple[Array, Array]:
    return a[::2], b[::2]


def backwards(a: Array, b: Array) -> tuple[Array, Array]:
    return a[:, ::-1], b[:, ::-1]


def one(a: Array, b: Array) -> tuple[Array, Array]:
    return a[:1], b


def singular(a: Array, b: Array) -> tuple[Array, Array]:
    a[7] = 0
    return a, b


SORTS = (usual, whole, special, tiny, turned, strided, backwards, one, singular)


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("columns", [1, 2, 5, 130])
@pytest.mark.parametrize("m", [2, 3, 4, 5])
def test_stacks(m: int, columns: int, sort: Callable[..., Any]) -> None:
    rng = np.random.default_rng(m)
    a, b = sort(rng.normal(size=(COUNT, m, m)), rng.normal(size=(COUNT, m, columns)))
    calls: tuple[Callable[[], Any], ...] = (
        lambda: np.linalg.solve(a, b),
        lambda: np.linalg.solve(a, b[0]),
        lambda: np.linalg.solve(a[0], b),
        lambda: np.linalg.solve(a[0], b[0]),
        lambda: np.linalg.solve(a[:, None], b[None, :4]),
        lambda: np.linalg.solve(a, b[0, :, 0]),
        lambda: np.linalg.inv(a),
        lambda: np.linalg.inv(a[0]),
        lambda: np.linalg.inv(np.linalg.inv(a)),
    )
    expected = [told(call) for call in calls]
    with npaccel.accelerate():
        assert [told(call) for call in calls] == expected


@pytest.mark.parametrize("m", [2, 3, 4])
def test_one_matrix_and_many_columns(m: int) -> None:
    rng = np.random.default_rng(m)
    a, b = rng.normal(size=(m, m)), rng.normal(size=(m, 30_000))
    sides = (b, b[:, ::3], b[:, ::-1], b.T.copy().T, np.where(b > 3.5, np.nan, b))
    expected = [told(lambda side=side: np.linalg.solve(a, side)) for side in sides]
    with npaccel.accelerate():
        mine = [np.add(side, 0.0) for side in sides]
        assert [told(lambda side=side: np.linalg.solve(a, side)) for side in sides] == expected
        found = [np.linalg.solve(a, side).tobytes() for side in mine]
    assert found == [np.linalg.solve(a, side).tobytes() for side in sides]


@pytest.mark.parametrize("dtype", ["f4", "c16", ">f8", "i8"])
def test_other_types_are_numpys(dtype: str) -> None:
    a = (np.random.default_rng(3).normal(size=(COUNT, 3, 3)) * 9).astype(dtype)
    expected = [told(lambda: np.linalg.inv(a)), told(lambda: np.linalg.solve(a, a))]
    with npaccel.accelerate():
        assert [told(lambda: np.linalg.inv(a)), told(lambda: np.linalg.solve(a, a))] == expected
