"""ufunc.reduceat of large arrays, on all threads: NumPy's to the last bit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

N = 300_000  # more than are left to NumPy
Array = np.ndarray[Any, Any]
rng = np.random.default_rng(7)
VALUES = rng.normal(size=N) * 50
STARTS: dict[str, Any] = {
    "few": [0, N // 3, N // 2],
    "uneven": [0, 5, 100],
    "many": np.arange(0, N, 7),
    "short": np.sort(rng.integers(0, N, 3000)),
    "unsorted": rng.integers(0, N, 500),
    "one": [5],
    "last": [N - 1, 0, N - 1],
    "tuple": (0, 100, 100, 7),
    "narrow": np.arange(0, N, 50, dtype="i4"),
    "outside": [0, N],
    "below": [0, -1],
    "none": [],
    "floats": [0.0, 3.0],
}


def seen(call: Callable[[], Any]) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = call()
        except Exception as error:  # any of NumPy's, which is compared
            return type(error), str(error)
    told = [str(w.message) for w in caught]
    return found.dtype, found.shape, found.strides, np.array(found).tobytes(), told


def same(call: Callable[[], Any]) -> None:
    expected = seen(call)
    before = npaccel.config.threads
    for threads in (1, 3):
        npaccel.config.threads = threads
        try:
            with npaccel.accelerate():
                assert seen(call) == expected
        finally:
            npaccel.config.threads = before


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "dtype", ["?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
)
@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "bitwise_or", "fmax"])
def test_types(name: str, dtype: str) -> None:
    values = VALUES.astype(dtype)
    for starts in (STARTS["few"], STARTS["short"], STARTS["unsorted"]):
        same(lambda: getattr(np, name).reduceat(values, starts))  # noqa: B023


@pytest.mark.parametrize("name", STARTS)
def test_starts(name: str) -> None:
    for values in (VALUES, VALUES[::-1].copy(), VALUES[::2], np.abs(VALUES).astype(int)):
        same(lambda: np.add.reduceat(values, STARTS[name]))  # noqa: B023


def test_axes_and_calls() -> None:
    cube = VALUES.reshape(40, 60, 125)
    for axis in (0, 1, 2, -1, -2, 3, 1.0, None):
        for starts in ([0, 3, 7], [5], [39, 2, 2]):
            same(lambda: np.add.reduceat(cube, starts, axis))  # type: ignore[arg-type]  # noqa: B023
            same(lambda: np.minimum.reduceat(cube, starts, axis=axis))  # type: ignore[arg-type]  # noqa: B023
    same(lambda: np.add.reduceat(cube.T, [0, 3], axis=1))
    same(lambda: np.add.reduceat(VALUES, [0, 3], dtype="f4"))
    same(lambda: np.add.reduceat(VALUES, [0, 3], out=np.zeros(2)))
    same(lambda: np.add.reduceat(list(VALUES), [0, 3]))
    same(lambda: np.add.reduceat(VALUES, [[0, 3]]))


@pytest.mark.parametrize("state", ["ignore", "warn", "raise"])
def test_errors_are_told(state: Any) -> None:
    large = np.full(N, 1e307)
    strange = VALUES.copy()
    strange[::1000] = np.resize([np.nan, np.inf, -np.inf, -0.0], strange[::1000].size)
    for values in (large, strange, VALUES * 1e-307):
        with np.errstate(all=state):
            for ufunc in (np.add, np.multiply, np.maximum, np.minimum):
                same(lambda: ufunc.reduceat(values, STARTS["short"]))  # noqa: B023


def test_what_waits_is_computed_first() -> None:
    expected = np.add.reduceat(VALUES * 2, STARTS["short"])
    with npaccel.accelerate():
        found = np.add.reduceat(npaccel.asarray(VALUES) * 2, STARTS["short"])
        np.testing.assert_array_equal(np.asarray(found), expected)
        before = npaccel.stats()["fallbacks"]
        np.add.reduceat(VALUES, STARTS["short"])
        assert npaccel.stats()["fallbacks"] == before
