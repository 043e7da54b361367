"""Assignments and ufunc.at by integers, on all threads: values, order, errors, warnings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

N = 200_000
Change = Callable[[Any], None]


def run(change: Change, target: np.ndarray[Any, Any]) -> tuple[Any, Any, list[str]]:
    """What it makes of a copy, its error, its warnings."""
    copy, error = target.copy(), None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            change(copy)
        except Exception as raised:  # any of NumPy's, which is compared
            error = (type(raised), str(raised))
    return copy, error, [str(w.message) for w in caught]


def check(change: Change, target: np.ndarray[Any, Any], *, error: bool | None = False) -> None:
    expected = run(change, target)
    assert error is None or (expected[1] is not None) == error
    for threads in (1, 3):
        npaccel.config.threads = threads
        with npaccel.accelerate():
            found = run(change, target)
            ours = npaccel.asarray(target).copy()  # of npaccel's memory
            waiting, *rest = run(change, ours)
        for result, others in ((found[0], found[1:]), (np.asarray(waiting), tuple(rest))):
            assert result.dtype == target.dtype and result.strides == expected[0].strides
            np.testing.assert_array_equal(
                result.view(np.uint8) if result.ndim else result, expected[0].view(np.uint8)
            )
            assert others == expected[1:]


@pytest.fixture(autouse=True)
def _threads() -> Any:
    before = npaccel.config.threads
    yield
    npaccel.config.threads = before


rng = np.random.default_rng(11)
INDEX = rng.integers(-N, N, 3 * N)  # below 0, too, and repeated
FEW = rng.integers(0, 100, N)
VALUES = rng.normal(size=3 * N)
FLOATING = ("f2", "f4", "f8", "c8", "c16")
ARITHMETIC = ("add", "subtract", "multiply", "divide", "floor_divide")
TRUTH = ("bitwise_or", "bitwise_and", "logical_or", "logical_and")


@pytest.mark.parametrize("dtype", ["?", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"])
def test_the_last_of_repeated_indices_stays(dtype: str) -> None:
    values = (VALUES * 50).astype(dtype)
    target = np.zeros(N, dtype)

    def put(w: Any) -> None:
        w[INDEX] = values

    def number(w: Any) -> None:
        w[INDEX[::7]] = values[0]
        w[FEW] = 1

    check(put, target)
    check(number, target)
    check(lambda w: w.put(INDEX, values), target)
    check(lambda w: np.put(w, FEW, 1), target)


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u4", "i8", "u8", "i2"])
def test_indices_of_any_integer_type(dtype: str) -> None:
    index = (FEW % 100).astype(dtype)

    def put(w: Any) -> None:
        w[index] = VALUES[:N]

    check(put, np.zeros(120))
    check(lambda w: np.add.at(w, index, VALUES[:N]), np.ones(120))


def test_indices_along_several_axes() -> None:
    target = rng.random((300, 40, 25))
    a, b, c = (rng.integers(-n, n, (100, 200)) for n in target.shape)
    values = rng.random((100, 200))
    rows = rng.random((100, 200, 25))

    def each(w: Any) -> None:
        w[a, b, c] = values

    def row(w: Any) -> None:
        w[a, b] = rows

    def broadcast(w: Any) -> None:
        w[a, b[:, :1], 3] = values  # NumPy's: an integer among them
        w[a, b[:, :1], c[:1]] = values

    def turned(w: Any) -> None:
        w[a.T, b.T, c.T] = values.T

    check(each, target)
    check(row, target)
    check(broadcast, target)
    check(turned, target)
    check(lambda w: np.put_along_axis(w, np.argsort(w, axis=1), 1.0, 1), target)
    check(lambda w: np.subtract.at(w, (a, b, c), values), target)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u4", "i8", "u8", *FLOATING])
@pytest.mark.parametrize("name", [*ARITHMETIC, *TRUTH, "maximum", "minimum", "fmax", "bitwise_xor"])
def test_at_goes_in_order(name: str, dtype: str) -> None:
    ufunc = getattr(np, name)
    count = 3 * N if name in ("add", "maximum") else 20_000  # NumPy's way is slow for many
    values = (VALUES[:count] * 50).astype(dtype)
    wide = np.clip(VALUES[:count] * 1e6, -6e4, 6e4).astype(dtype)
    index = rng.integers(-2000, 2000, count)
    error = None  # some have no loop for some types; of divisions versions differ
    check(lambda w: ufunc.at(w, index, values), np.ones(2000, dtype), error=error)
    check(lambda w: ufunc.at(w, INDEX[:count], values), np.ones(N, dtype), error=error)
    if dtype[0] == "f":
        check(lambda w: ufunc.at(w, index, wide), np.ones(2000, dtype), error=error)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_extremes_of_zeros_and_nan(dtype: str) -> None:
    special = np.array([0.0, -0.0, 5e-40, -5e-40, 1, -1, np.inf, -np.inf], dtype)
    index, values = np.arange(64 * 64) // 64 % 64, np.tile(special, 512)
    check(lambda w: np.maximum.at(w, index, values), np.full(64, np.nan, dtype))
    for nan in (np.nan, -np.nan):
        mixed = np.where(np.arange(64 * 64) % 7 == 0, nan, values).astype(dtype)
        check(lambda w, v=mixed: np.minimum.at(w, index, v), np.ones(64, dtype))  # type: ignore[misc]
        check(lambda w, v=mixed: np.maximum.at(w, (index, index % 3), v), np.ones((64, 3), dtype))  # type: ignore[misc]
        check(lambda w, v=nan: np.maximum.at(w, index, v), np.ones(64, dtype))  # type: ignore[misc]
    for target in (np.repeat(special, 8), np.repeat(special, 8)[::-1].copy()):
        check(lambda w: np.maximum.at(w, index[::-1].copy(), values), target)
        check(lambda w: np.minimum.at(w, index, np.roll(values, 3)), target)


def test_truth_values_that_are_not_one() -> None:
    odd = np.arange(N, dtype="u1").view("?")
    for name in ("add", "multiply", "maximum", "minimum", "logical_or", "logical_and"):
        check(lambda w, name=name: getattr(np, name).at(w, FEW, odd), odd[:100].copy(), error=None)  # type: ignore[misc]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["?", "i2", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"])
def test_values_of_another_type(dtype: str) -> None:
    index, values = FEW[:20_000], (VALUES[:20_000] * 50).astype(dtype)
    for target in ("i4", "i8", "f4", "f8", "c16"):
        check(lambda w: np.add.at(w, index, values), np.ones(120, target), error=None)
        check(lambda w: np.maximum.at(w, index, values), np.ones(120, target), error=None)
        check(lambda w: np.subtract.at(w, index, values[3]), np.ones(120, target), error=None)


@pytest.mark.parametrize("count", [1, 63, 64, 5000])
@pytest.mark.parametrize("value", [1, 1.5, True, 2j, np.float32(2), np.int8(3), np.array(4)])
def test_a_number_at_points(count: int, value: Any) -> None:
    at = (FEW[:count] % 30, FEW[-count:] % 20)
    for dtype in ("?", "i4", "i8", "f4", "f8", "c16"):
        check(lambda w: np.add.at(w, at, value), np.ones((30, 20), dtype), error=None)
        check(lambda w: np.bitwise_or.at(w, at, value), np.ones((30, 20), dtype), error=None)


def test_points_are_counted_here() -> None:
    at = (FEW % 30, FEW % 20)
    with npaccel.accelerate():
        before = npaccel.stats()["fallbacks"]
        np.add.at(np.zeros((30, 20)), at, 1)
        np.maximum.at(np.zeros(120), FEW, VALUES[:N])
        assert npaccel.stats()["fallbacks"] == before


def test_a_number_for_all() -> None:
    check(lambda w: np.add.at(w, INDEX, 1.0), np.zeros(N))
    check(lambda w: np.add.at(w, INDEX, 1), np.zeros(N, int))
    check(lambda w: np.add.at(w, INDEX, 1), np.zeros(N))
    check(lambda w: np.add.at(w, INDEX, 0.1), np.zeros(N, "f4"))
    check(lambda w: np.add.at(w, INDEX, True), np.zeros(N, int))
    check(lambda w: np.add.at(w, INDEX, 1.5), np.zeros(N, int), error=None)
    check(lambda w: np.add.at(w, INDEX, 2**63), np.zeros(N, int), error=None)


def test_errors_leave_all_as_it_was() -> None:
    outside = INDEX.copy()
    outside[-3] = N

    def put(w: Any) -> None:
        w[outside] = VALUES

    def short(w: Any) -> None:
        w[INDEX] = VALUES[:-1]

    def apart(w: Any) -> None:
        w.reshape(400, -1)[FEW, FEW[:-1]] = 1.0

    check(put, np.zeros(N), error=True)
    check(short, np.zeros(N), error=True)
    check(apart, np.zeros(N), error=True)
    check(lambda w: np.add.at(w, outside, VALUES), np.zeros(N), error=True)
    check(lambda w: w.put(outside, VALUES), np.zeros(N), error=True)
    for mode in ("clip", "wrap"):
        check(lambda w, mode=mode: w.put(outside, VALUES, mode), np.zeros(N))  # type: ignore[misc]
        check(lambda w, mode=mode: np.put(w, outside, VALUES, mode=mode), np.zeros(N))  # type: ignore[misc]
    fixed = np.zeros(N)
    fixed.flags.writeable = False
    with npaccel.accelerate(), pytest.raises(ValueError, match="read-only"):
        fixed[INDEX] = VALUES
    with npaccel.accelerate(), pytest.raises(ValueError):
        fixed.put(INDEX, VALUES)


def test_empty_and_other_layouts() -> None:
    def empty(w: Any) -> None:
        w[INDEX[:0]] = VALUES[:0]
        w[INDEX[::2]] = VALUES[::2]
        w[::2][FEW] = VALUES[:N]
        w[::-1][FEW] = 3.0

    def itself(w: Any) -> None:
        w[INDEX[:N]] = w
        w[FEW] = w[FEW] + 1

    check(empty, np.zeros(N))
    check(itself, rng.random(N))
    check(lambda w: np.add.at(w, np.arange(N)[::-1], w), rng.random(N))

    def by_itself(w: Any) -> None:
        w[w] = w[::-1]
        np.add.at(w, w % 7, w)

    check(by_itself, rng.integers(0, N, N))


@pytest.mark.parametrize("state", ["ignore", "warn", "raise"])
def test_warnings_of_at(state: Any) -> None:
    large = np.full(N, 1e300)

    def overflow(w: Any) -> None:
        with np.errstate(over=state):
            np.add.at(w, FEW, large)
            np.multiply.at(w, INDEX[:N], large)

    def invalid(w: Any) -> None:
        with np.errstate(invalid=state):
            np.subtract.at(w, FEW, np.full(N, np.inf))
            np.subtract.at(w, FEW, np.full(N, -np.inf))

    check(overflow, np.full(N, 1e308), error=state == "raise")
    check(invalid, np.zeros(N), error=state == "raise")


def test_what_waits_is_computed_first() -> None:
    x = rng.random(N)
    expected = x * 2
    expected[FEW + 1] = (x + 1)[FEW]
    np.add.at(expected, FEW + 1, x * 3)
    with npaccel.accelerate():
        w, index = x * 2, npaccel.asarray(FEW) + 1
        w[index] = (x + 1)[FEW]
        np.add.at(w, index, x * 3)
        found = np.asarray(w).copy()
    np.testing.assert_array_equal(found, expected)
