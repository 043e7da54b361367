"""Integers of 8 bytes: kernels divide them by estimates in doubles; every quotient is NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npaccel

FUNCTIONS = (np.floor_divide, np.remainder, np.fmod)
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def silence() -> Any:
    with np.errstate(all="ignore"):
        yield


def near_powers(dtype: str) -> Array:
    """All integers next to powers of two and to the ends of the type, with their negatives."""
    info = np.iinfo(dtype)
    numbers = {s * (2**k + e) for k in range(65) for e in range(-3, 4) for s in (1, -1)}
    return np.array(sorted(n for n in numbers if info.min <= n <= info.max), dtype)


def same(x: Array, y: Any) -> None:
    for function in FUNCTIONS:
        found = npaccel.evaluate(function(npaccel.asarray(x), y))
        np.testing.assert_array_equal(np.asarray(found), function(x, y))


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_each_with_each(dtype: str) -> None:
    numbers = near_powers(dtype)
    x, y = (grid.ravel() for grid in np.meshgrid(numbers, numbers))
    same(x, y)


@pytest.mark.parametrize("dtype", ["i8", "u8"])
def test_next_to_multiples(dtype: str) -> None:
    """Where a quotient that is off by little is off by one."""
    rng = np.random.default_rng(1)
    bits = rng.integers(1, 44, 60_000)
    y = (rng.integers(1, 2**62, bits.size) >> bits).astype(dtype)
    factors = (rng.integers(0, 2**62, bits.size) >> (63 - bits)).astype(dtype)
    for off in (-1, 0, 1):
        same(y * factors + np.array(off).astype(dtype), y)
        same(y * factors + np.array(off).astype(dtype), np.maximum(factors, np.array(1, dtype)))


@pytest.mark.parametrize("dtype", ["i8", "u8"])
@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 10**9, 2**53 - 1, 2**53 + 1, 2**62 + 1, 2**63 - 1])
def test_one_divisor(dtype: str, divisor: int) -> None:
    info = np.iinfo(dtype)
    x = np.random.default_rng(2).integers(info.min, info.max, 50_000, dtype, endpoint=True)
    same(x, np.array(divisor).astype(dtype)[()])
    if dtype == "i8":
        same(x, np.int64(-divisor))
