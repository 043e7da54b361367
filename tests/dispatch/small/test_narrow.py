"""Narrow integers and truth values, whose results are wider than they are, in a block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npaccel

from .test_folds import Fold, outcomes

pytestmark = pytest.mark.usefixtures("heard")

LARGE = 1 << 18  # bytes: what has as many is recorded
NARROW = "?bBhHiI"
SIZES = (1, 65, 3000, 40_000)
LAYOUTS: dict[str, Fold] = {
    "flat": lambda x: x,
    "matrix": lambda x: x[: len(x) // 5 * 5].reshape(-1, 5),
    "wide": lambda x: x[: len(x) // 100 * 100].reshape(-1, 100),
    "Fortran": lambda x: np.asfortranarray(x[: len(x) // 5 * 5].reshape(5, -1)),
    "turned": lambda x: x[: len(x) // 6 * 6].reshape(2, 3, -1).transpose(2, 0, 1),
    "steps": lambda x: x[: len(x) // 10 * 10].reshape(-1, 10)[:, 1::2],
    "backwards": lambda x: x[::-1],
    "single": lambda x: x[: len(x) // 4 * 4].reshape(4, 1, -1),
}
FOLDS: dict[str, Fold] = {
    "sum": lambda x: x.sum(),
    "mean": lambda x: x.mean(),
    "sum first": lambda x: x.sum(axis=0),
    "mean last": lambda x: np.mean(x, axis=-1),
    "sum kept": lambda x: np.sum(x, axis=-1, keepdims=True),
    "mean kept": lambda x: x.mean(axis=0, keepdims=True),
    "all kept": lambda x: x.sum(keepdims=True),
    "reduce": np.add.reduce,
    "two axes": lambda x: x.sum(axis=(0, -1)) if x.ndim > 1 else x.sum(axis=(0,)),
    "cumsum": lambda x: x.cumsum(),
    "deviation": lambda x: (x.std(), x.var(axis=0)),
}


def same(call: Fold, operand: Any, where: object) -> None:
    """The call gives the same in a block, but for the class of large results."""
    (expected, told), *got = outcomes(call, operand)
    for found in got:
        result = (np.ndarray, *found[0][1:]) if found[0][0] is npaccel.Array else found[0]
        assert (result, found[1]) == (expected, told), where


def numbers(char: str, size: int) -> Any:
    """All values of the type, its limits first; truth values also with a byte other than 1."""
    draw = np.random.default_rng(size)
    if char == "?":
        return draw.integers(0, 3, size).astype("B").view("?")
    limits = np.iinfo(char)
    x = draw.integers(limits.min, limits.max, size, dtype=char, endpoint=True)
    x[: size // 2] = limits.max  # whose sums leave 32 bits
    x[-(size // 4) :] = limits.min
    return x


@pytest.mark.parametrize("char", NARROW)
def test_sums_of_narrow_numbers(char: str) -> None:
    for size in SIZES:
        x = numbers(char, size)
        for layout, lay in LAYOUTS.items():
            for name, fold in FOLDS.items():
                if name == "deviation" and size * 8 >= LARGE:
                    continue  # has last bits of its own
                same(fold, lay(x), (char, size, layout, name))


SCANS: dict[str, Fold] = {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "add": np.add.accumulate,
    "multiply": np.multiply.accumulate,
    "maximum": np.maximum.accumulate,
    "minimum": np.minimum.accumulate,
    "logical_or": np.logical_or.accumulate,
    "subtract": np.subtract.accumulate,
    "axis": lambda x: np.maximum.accumulate(x, 0),
}


@pytest.mark.parametrize("char", "?bBhiIlLqQefdgD")
def test_scans(char: str) -> None:
    draw = np.random.default_rng(5)
    for size in (1, 100, 16_000 if char != "g" else 1_600):  # which no loop of ours takes
        x = (draw.random(size) * 3 - 1).astype(char)
        if char in "fd":
            x[:: size // 3 + 1] = np.nan, *[-0.0, 0.0, np.inf][: len(x[:: size // 3 + 1]) - 1]
        for name, scan in SCANS.items():
            same(scan, x, (char, size, name))
            same(scan, x[::-1], (char, size, name, "backwards"))
            same(scan, x[: size // 4 * 4].reshape(-1, 4), (char, size, name, "matrix"))


MIXED: dict[str, Fold] = {
    "number": lambda x: x + 1.5,
    "halves": lambda x: x / 2,
    "by itself": lambda x: x / x,
    "other": lambda x: x * x.astype("f4"),
    "wider": lambda x: np.add(x, x.astype("l")),
    "float64": lambda x: np.subtract(np.float64(0.25), x),
    "compared": lambda x: x < 3.5,
    "raises": lambda x: np.divide(x, x, where=True),
    "inexact": np.exp,
    "in place": lambda x: np.add(y := np.ones(x.shape), x, out=y),
}


@pytest.mark.parametrize("char", NARROW)
@pytest.mark.parametrize("state", ["warn", "raise", "ignore"])
def test_results_wider_than_their_operands(char: str, state: Any) -> None:
    """Which may be large where no operand is."""
    for size in (5, 1500, 40_000):
        x = numbers(char, size)
        for name, call in MIXED.items():
            with np.errstate(all=state):
                same(call, x, (char, size, name))
                same(call, x[: size // 5 * 5].reshape(5, -1), (char, size, name, "matrix"))


@pytest.mark.parametrize("char", "?bhifdFDlg")
def test_where_of_each_size_of_element(char: str) -> None:
    for size in (1, 33, 60_000):
        x = (np.random.default_rng(1).random(size) * 50).astype(char)
        mask = numbers("?", size)
        chosen: dict[str, Fold] = {
            "both": lambda x, m=mask: np.where(m, x, x[::-1].copy()),
            "first": lambda x, m=mask: np.where(m, x, 0),
            "second": lambda x, m=mask: np.where(m, 1.5, x),
            "numbers": lambda x, m=mask: np.where(m, 1, 0),
            "floats": lambda x, m=mask: np.where(m, 1.0, -0.0),
        }
        for name, call in chosen.items():
            same(call, x, (char, size, name))


@pytest.mark.parametrize("row", ["B", "3B", "h", "2h", "f", "3f", "d", "2d", "3d", "D", "2D", "5d"])
@pytest.mark.parametrize("index", "bhil")
def test_rows_by_integers(row: str, index: str) -> None:
    x = np.zeros(90, row)
    x.reshape(-1)[:] = np.arange(x.size) % 100
    draw = np.random.default_rng(2)
    at = draw.integers(-90, 90, 700).astype(index)
    same(lambda x: x[at], x, (row, index))
    same(lambda x: x[at.reshape(7, 100)], x, (row, index, "matrix"))
    same(lambda x: x[1:][at], x, (row, index, "out of bounds"))


@pytest.mark.parametrize("char", "bBhHiIlL")
def test_integers_divided_by_one_number(char: str) -> None:
    x = numbers(char, 500)
    for by in (1, 3, 7, 100, 0):
        same(lambda x, by=by: x // by, x, (char, by))
        same(lambda x, by=by: x % by, x, (char, by))
        same(lambda x, by=by: x // np.full(x.shape, by, x.dtype), x, (char, by, "array"))


@pytest.mark.parametrize("index", "bBhHiIlLqQ")
def test_tables(index: str) -> None:
    """Elements and rows by many integers, by one thread or several; some out of bounds."""
    draw = np.random.default_rng(3)
    most = min(np.iinfo(index).max, 999)
    several = (300_000,) if index in "BhlQ" else ()  # each size of an integer, and each sign
    for size in (1, 1000, 35_000, *several):
        at = draw.integers(0, most, size).astype(index)
        for table in (
            (draw.random(1000) * 100).astype("B"),
            draw.random(1000).astype("f")[: most + 1],
            draw.random(1000),
            draw.random((1000, 3)),
        ):
            calls: dict[str, Fold] = {
                "subscript": lambda x, at=at: x[at],
                "take": lambda x, at=at: np.take(x, at),
                "along": lambda x, at=at: np.take(x, at, axis=0),
                "method": lambda x, at=at: x.take(at, 0),
                "modes": lambda x, at=at: np.take(x, at, mode="wrap"),
            }
            for name, call in calls.items():
                same(call, table, (index, size, name, table.dtype))
            for wrong in (most, -1001 if index in "hilq" else most):
                at[-1] = wrong
                for name in ("subscript", "take", "along"):
                    same(calls[name], table[:most], (index, size, name, wrong))
            at[-1] = -1 if index in "bhilq" else 0
            same(calls["subscript"], table, (index, size, "last"))


FIRST: dict[str, Fold] = {
    "floor": lambda x: x // 3,
    "remainder": lambda x: x % 7,
    "by zero": lambda x: x // (x - x),
    "sign": np.sign,
    "root": lambda x: np.sqrt(x - 20),
    "quotient": lambda x: x / x[::-1].copy(),
    "half": lambda x: x + 1.5,
    "logical": lambda x: np.logical_and(x, x[::-1].copy()),
    "copysign": lambda x: np.copysign(x, -1.0),
}


@pytest.mark.parametrize("char", "?BhilfdFD")
@pytest.mark.parametrize("state", ["warn", "raise"])
def test_first_calls_on_large_arrays(char: str, state: Any) -> None:
    """Before anything is recorded they are NumPy's, by loops that are faster where there are."""
    size = 400_000 // np.dtype(char).itemsize
    x = (np.random.default_rng(4).random(size) * 50).astype(char)
    x[7] = 0
    for name, call in FIRST.items():
        with np.errstate(all=state):
            same(call, x, (char, name))
    for other in (0, x[::-1].copy()):
        expected = np.where(x > 20, x, other), np.where(x > 20, 1.5, 0)
        with npaccel.accelerate():
            for _ in range(3):
                for want, got in zip(
                    expected, (np.where(x > 20, x, other), np.where(x > 20, 1.5, 0)), strict=True
                ):
                    assert (got.dtype, got.strides) == (want.dtype, want.strides)
                    assert got.tobytes() == want.tobytes()
