"""x[mask] and x[mask] = value of many elements, on all threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native

Array = np.ndarray[Any, Any]
SIZES = (0, 7, 65_535, 65_537, 200_003, 5_000_001)


@pytest.fixture(autouse=True)
def usual_threshold() -> None:
    npaccel.config.threshold = 1 << 16


def masks(n: int) -> Iterator[Array]:
    rng = np.random.default_rng(6)
    yield rng.random(n) < 0.3
    yield np.arange(n) < n // 2
    if n < 1_000_000:
        yield rng.random(n) < 0.001
        yield rng.random(n) > 0.001
        yield np.zeros(n, bool)
        yield np.ones(n, bool)
        yield (rng.random(n) < 0.5).view("u1").repeat(2)[::2].view(bool)  # not in one piece
        yield (2 * (rng.random(n) < 0.5).astype("u1")).view(bool)  # true is not 1


def of(n: int, dtype: str) -> Array:
    return (np.arange(n) * 7 % 1001).astype(dtype)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", ["d", "f", "b", "H", "D", "?", "S3"])
def test_picks_and_stores(n: int, dtype: str) -> None:
    if n > 1_000_000 and dtype not in "dH":
        return
    x = of(n, dtype)
    for mask in masks(n):
        picked, stored, filled = x[mask], x.copy(), x.copy()
        stored[mask] = picked[::-1].copy()
        filled[mask] = x[3] if n else 1
        one, two = x.copy(), x.copy()
        with npaccel.accelerate():
            np.testing.assert_array_equal(np.asarray(x[mask]), picked)
            one[mask] = picked[::-1].copy()
            two[mask] = x[3] if n else 1
        np.testing.assert_array_equal(one, stored)
        np.testing.assert_array_equal(two, filled)


@pytest.mark.parametrize(
    "value", [1, 1.5, True, 2**70, "7", None, np.float32(0.1), 1j, np.array(3.0)]
)
@pytest.mark.parametrize("dtype", ["d", "f", "b", "D", "?"])
def test_numbers(value: Any, dtype: str) -> None:
    """What NumPy stores, or raises and warns of."""
    mask = next(masks(200_003))

    def call() -> Any:
        x = of(200_003, dtype)
        try:
            x[mask] = value
        except (OverflowError, TypeError, ValueError) as error:
            return type(error), str(error)
        return np.array(x).tobytes()

    with np.errstate(all="ignore"):
        expected = call()
        with npaccel.accelerate():
            assert call() == expected


def test_rows_and_what_does_not_fit() -> None:
    x, mask = of(400_000, "d").reshape(100_000, 4), next(masks(100_000))
    expected = x.copy()
    expected[mask] = expected[mask][:, ::-1] * 2
    expected[expected > 900] = -1
    with npaccel.accelerate():
        found = x.copy()
        found[mask] = found[mask][:, ::-1] * 2
        found[found > 900] = -1
        for key, value in ((mask[:-1], 1.0), (mask, np.ones(3)), (mask, np.ones((7, 4)))):
            with pytest.raises((IndexError, ValueError)):
                found[key] = value
        np.testing.assert_array_equal(np.asarray(found), expected)


def test_memory_that_must_not_be_written() -> None:
    x = of(100_000, "d")
    x.flags.writeable = False
    with npaccel.accelerate(), pytest.raises(ValueError, match="read-only"):
        x[x > 3] = 0.0


def test_masks_that_lie_in_their_array() -> None:
    x = of(200_000, "?")
    expected = x.copy()
    expected[expected] = False
    with npaccel.accelerate():
        x[x] = False
    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize("dtype", ["d", "H"])
def test_more_than_small(dtype: str) -> None:
    """Arrays that are large, but left to NumPy after some calls."""
    n = 100_000 // np.dtype(dtype).itemsize
    x, mask = of(n, dtype), np.random.default_rng(3).random(n) < 0.5
    picked = x[mask]
    expected = x.copy()
    expected[mask] = picked[::-1].copy()
    with npaccel.accelerate():
        for k in range(60):
            target, other = x.copy(), x * 1
            target[mask] = picked[::-1].copy()
            np.testing.assert_array_equal(np.asarray(x[mask]), picked)
            np.testing.assert_array_equal(target, expected)
            other[mask] = k
            np.testing.assert_array_equal(np.asarray(other[mask]), np.full(len(picked), k, dtype))


@pytest.mark.parametrize("n", [64 * k + 3 for k in (1, 2, 130, 1_100)])
@pytest.mark.parametrize("dtype", ["b", "h", "f", "d", "D"])
def test_lines_that_are_all_in(n: int, dtype: str) -> None:
    """Some lines of 64 places whole, some not; what is picked ends anywhere."""
    rng = np.random.default_rng(n)
    lines = rng.integers(0, 3, n // 64 + 1).repeat(64)[:n]
    mask = (lines == 2) | ((lines == 1) & (rng.random(n) < 0.5))
    x, values = of(n, dtype), of(n, dtype)[::-1].copy()
    expected = x.copy()
    expected[mask] = values[mask]
    with npaccel.accelerate(min_size=0):
        np.testing.assert_array_equal(np.asarray(x[mask]), np.asarray(values[::-1])[mask])
        x[mask] = values[mask]
    np.testing.assert_array_equal(x, expected)


@pytest.mark.pending
def test_a_hidden_mask_is_recorded_on() -> None:
    """What was computed and not looked at need not be shown, though it is small."""
    x = np.random.default_rng(2).random(40_000)
    expected = ~(x > 0.5)
    with npaccel.accelerate():
        mask = x > 0.5
        kept = x[mask]  # the mask has run, for its elements are counted
        assert not _native.is_pending(mask)
        np.logical_not(mask, mask)
        assert _native.is_pending(mask)
        dropped = x[mask]
    np.testing.assert_array_equal(mask, expected)
    np.testing.assert_array_equal(kept, x[~expected])
    np.testing.assert_array_equal(dropped, x[expected])


def test_a_part_of_a_hidden_result_is_numpys() -> None:
    x = np.random.default_rng(2).random(40_000)
    with npaccel.accelerate():
        mask = x > 0.5
        npaccel.evaluate(mask)
        assert not _native.is_pending(~mask[:100])
        np.testing.assert_array_equal(~mask[:100], ~(x[:100] > 0.5))


def test_sets_that_shrink() -> None:
    """Several arrays are picked from by one mask in each round."""

    def escape(n: int) -> list[Array]:
        c = (np.linspace(-2, 0.5, n)[:, None] + 1j * np.linspace(-1.2, 1.2, n)).ravel()
        z, where, times = np.zeros_like(c), np.arange(n * n), np.zeros(n * n, int)
        for i in range(25):
            np.multiply(z, z, z)
            np.add(z, c, z)
            left = abs(z) > 2
            times[where[left]] = i + 1
            np.logical_not(left, left)
            z, c, where = z[left], c[left], where[left]
        return [z, c, where, times]

    expected = escape(150)
    with npaccel.accelerate():
        found = escape(150)
    for one, other in zip(expected, found, strict=True):
        np.testing.assert_array_equal(one, other)
