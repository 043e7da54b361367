"""ufunc.at on rows: NumPy's results, errors and warnings, whatever its indices are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

from ..differential import DTYPES, FOREIGN, edge_values
from .test_folds import described, same

Array = np.ndarray[Any, Any]
UFUNCS = ("add", "subtract", "multiply", "maximum", "minimum", "fmax", "power", "divide")
UFUNCS += ("arctan2", "bitwise_or", "less", "logical_and", "floor_divide", "hypot", "negative")


def rows(dtype: str, columns: int = 3) -> Array:
    values = edge_values(dtype) if dtype in DTYPES else np.arange(15).astype(dtype)
    return np.resize(values, (5, columns)).copy()


INDICES: dict[str, Any] = {
    "repeated": np.array([0, 1, 0, 4, 4, 4, -1]),
    "none": np.array([], int),
    "all": np.arange(7) % 5,
    "strided": np.arange(14)[::2] % 5,
    "backward": np.arange(7)[::-1] % 5,
    "too large": np.array([0, 1, 2, 5, 0, 0, 0]),
    "too small": np.array([0, 1, 2, -6, 0, 0, 0]),
    "short integers": np.arange(7, dtype="i4") % 5,
    "a list": [0, 1, 0, 4, 4, 4, -1],
    "a mask": np.array([True, False, True, True, False]),
    "a number": 3,
    "two of them": (np.array([0, 1]), np.array([2, 2])),
    "other bytes": np.arange(7, dtype=">i8") % 5,
}


def values_for(index: Any, target: Array) -> list[Any]:
    count = len(target[index]) if not isinstance(index, int) else 1
    full = np.resize(target[::-1], (count, *target.shape[1:])).copy()
    wide = np.resize(full, (2 * count, *target.shape[1:]))
    return [full, wide[::2], full[::-1], full[:, ::-1], np.asfortranarray(full), full[:1], 3, 1.5]


def into(ufunc: str, index: Any, value: Any) -> Callable[[Array], Any]:
    def call(given: Array) -> Any:
        target = given.copy()
        try:
            if getattr(np, ufunc).nin == 1:
                found = getattr(np, ufunc).at(target, index)
            else:
                found = getattr(np, ufunc).at(target, index, value)
        except (IndexError, TypeError, ValueError) as error:
            return type(error), str(error), described(target)
        return found, described(target)

    return call


@pytest.mark.parametrize("ufunc", UFUNCS)
@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_indices_and_values(ufunc: str, index: Any) -> None:
    target = rows("d")
    bad = isinstance(index, np.ndarray) and index.size and abs(index).max() > 4
    for value in values_for(np.arange(7) % 5 if bad else index, target):
        same(into(ufunc, index, value), target, (ufunc, value))


@pytest.mark.parametrize("dtype", [*DTYPES, *FOREIGN])
@pytest.mark.parametrize("ufunc", ["add", "subtract", "multiply", "maximum", "divide"])
def test_each_dtype(ufunc: str, dtype: str) -> None:
    """With its warnings, and under each errstate."""
    target = rows(dtype)
    index = np.array([0, 1, 0, 4, 4, 4, -1])
    for state in ("warn", "ignore"):
        with np.errstate(all=state):
            same(into(ufunc, index, np.resize(target[::-1], (7, 3))), target, state)


@pytest.mark.parametrize("shape", [(5, 1), (5, 40), (5, 2, 3), (1, 3), (0, 3), (5, 0)])
def test_shapes(shape: tuple[int, ...]) -> None:
    target = np.ones(shape)
    index = np.array([0, 0, -1])
    same(into("add", index, np.full((3, *shape[1:]), 0.1)), target)


def test_arrays_that_share_memory_and_those_that_must_not_be_written() -> None:
    index = np.array([0, 1, 0, 3])

    def itself(given: Array) -> Any:
        target = given.copy()
        np.add.at(target, index, target[:4])
        np.add.at(target[::-1], index, target[1:])
        np.add.at(target.T, np.array([0, 1]), np.ones((2, 5)))
        return target

    def read_only(given: Array) -> Any:
        target = given.copy()
        target.flags.writeable = False
        np.add.at(target, index, np.ones((4, 3)))

    def own_index(given: Array) -> Any:
        target = given.astype(int)
        np.add.at(target, target[:, 0] % 5, np.ones((5, 3), int))
        return target

    for call in (itself, read_only, own_index):
        same(call, rows("d")[:, :3].clip(-3, 3).copy())


def test_classes_have_their_say() -> None:
    class Mine(np.ndarray[Any, Any]):
        pass

    def call(given: Array) -> Any:
        target = given.copy().view(Mine)
        np.add.at(target, np.array([0, 1, 0]), np.ones((3, 3)))
        return np.asarray(target)

    same(call, rows("i"))


def test_raising() -> None:
    """What an errstate makes an error leaves the target as NumPy leaves it."""

    def call(given: Array) -> Any:
        target = given.copy()
        with np.errstate(all="raise"), pytest.raises(FloatingPointError) as caught:
            np.multiply.at(target, np.array([0, 1, 1]), np.full((3, 3), 1e300))
        return str(caught.value), described(target)

    same(call, np.full((5, 3), 1e200))


def test_pending_arrays() -> None:
    npaccel.config.threshold = 0
    target, index = np.ones((400, 3)), np.arange(600) % 400
    expected = target * 2
    np.add.at(expected, index, np.full((600, 3), 0.5) * 3)
    with npaccel.accelerate():
        found = target * 2
        np.add.at(found, index, np.full((600, 3), 0.5) * 3)
        np.testing.assert_array_equal(found, expected)
