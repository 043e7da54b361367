"""Folds of all of an array to a number, where it waits or nobody has looked at it."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native

from .at_once import seen
from .tried import shows

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("usual_threshold")]

Array = np.ndarray[Any, Any]
Fold = Callable[[Any], Any]
N = 40_000
TYPES = ["f8", "f4", "i8", "i4", "u1", "?", "c16", "f2"]
FOLDS: dict[str, Fold] = {
    "max": lambda x: x.max(),
    "np.max": np.max,
    "np.amin": np.amin,
    "min of None": lambda x: x.min(None),
    "min of both": lambda x: np.min(x, axis=(0, 1)),
    "kept": lambda x: x.max(keepdims=True),
    "rows": lambda x: x.max(axis=1, keepdims=True),
    "columns": lambda x: np.min(x, 0),
    "initial": lambda x: x.max(initial=1),
    "ptp": np.ptp,
    "reduce": lambda x: np.maximum.reduce(x, axis=None),
    "argmax": lambda x: x.argmax(),
    "np.argmin": np.argmin,
    "argmin of rows": lambda x: x.argmin(1),
    "any": lambda x: x.any(),
    "np.all": np.all,
    "all of columns": lambda x: x.all(axis=0),
    "sum": lambda x: x.sum(),
    "sum of rows": lambda x: np.sum(x, -1),
    "sum kept": lambda x: x.sum(keepdims=True),
    "sum of a type": lambda x: x.sum(dtype=complex),
    "mean": lambda x: x.mean(),
    "np.mean": np.mean,
    "mean of columns": lambda x: x.mean(0),
    "mean of a type": lambda x: x.mean(dtype="f8"),
    "prod": lambda x: x[:3].prod(),
    "count": np.count_nonzero,
    "count of what is more": lambda x: np.count_nonzero(x > 1),
    "count along": lambda x: np.count_nonzero(x > 1, axis=0),
    "wrong axis": lambda x: x.max(axis=2),
    "wrong axes": lambda x: np.sum(x, axis=(0, 0)),
    "wrong keepdims": lambda x: x.sum(keepdims="yes"),
    "too many": lambda x: x.argmax(1, None, False),
}


def numbers(dtype: str, special: bool = False) -> Array:
    rng = np.random.default_rng(5)
    x = rng.integers(0, 9, (200, N // 200)) - (0 if dtype in ("u1", "?") else 4)
    if special:
        x = np.where(x == 1, np.nan, np.where(x == 2, -0.0, np.where(x == -3, np.inf, x)))
    return x.astype(dtype)


def _same(x: Any) -> Any:
    """The same, recorded."""
    return x | False if x.dtype == bool else np.positive(x)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("how", ["waits", "hidden", "block waits", "block hidden"])
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", FOLDS)
def test_folds_are_numpys(name: str, dtype: str, how: str) -> None:
    for special in (False, True) if np.dtype(dtype).kind in "fc" else (False,):
        values = numbers(dtype, special)
        fold = FOLDS[name]
        want = seen(lambda values=values, fold=fold: fold(values.copy()))
        x: Any = _same(npaccel.asarray(values))
        if "hidden" in how:
            npaccel.evaluate()
        with npaccel.accelerate() if "block" in how else contextlib.nullcontext():
            have = seen(lambda x=x, fold=fold: fold(x))
        assert have == want


@pytest.mark.parametrize("name", ["max", "np.max", "np.amin", "reduce", "argmax", "np.argmin"])
def test_what_is_hidden_stays_so(name: str) -> None:
    if npaccel.config.check != "off":
        pytest.skip("what is compared is shown")
    values = numbers("f8")
    with npaccel.accelerate():
        x = npaccel.asarray(values) * 1.0
        npaccel.evaluate()
        assert FOLDS[name](x) == FOLDS[name](values)
    assert not shows(_address(x))


def _address(x: Any) -> int:
    """Where it will be seen, without looking."""
    return int(_native.view_plain(x).__array_interface__["data"][0])


def test_a_number_is_not_shown() -> None:
    if npaccel.config.check != "off":
        pytest.skip("what is compared is shown")
    a, b = (npaccel.asarray(numbers("f8")) for _ in range(2))
    with npaccel.accelerate():
        before = npaccel.stats()["published"]
        for _ in range(5):
            worst = float(np.abs(a - b).max())
            error = ((a - b) ** 2).mean()
            many = np.count_nonzero(a > b)
            place = (a * 2 - b).argmax()
        assert npaccel.stats()["published"] == before
    assert (worst, error, many) == (0, 0, 0) and place == numbers("f8").argmax()


def raw(x: Any) -> float:
    """Read by its address, as a library of C's might."""
    return ctypes.c_double.from_address(_address(x)).value


def test_what_is_looked_at_each_round_appears_at_once() -> None:
    a = npaccel.asarray(numbers("f8"))
    before = npaccel.stats()["guard_faults"]
    for k in range(200):
        y = a * float(k)
        npaccel.evaluate()
        assert raw(y) == numbers("f8")[0, 0] * k
    assert npaccel.stats()["guard_faults"] - before < 12


def test_what_nobody_looks_at_any_more_is_hidden_again() -> None:
    a = npaccel.asarray(numbers("f8"))
    for k in range(200):
        y = a * 2.0
        npaccel.evaluate()
        if k < 20:
            raw(y)
        if k == 190:
            before = npaccel.stats()["published"]
    assert npaccel.stats()["published"] == before


def test_many_small_results_that_are_read_at_last() -> None:
    a = npaccel.asarray(numbers("f8"))
    rows = []
    with npaccel.accelerate():
        for k in range(300):
            rows.append((a * float(k)).sum(axis=0))
    before = npaccel.stats()["guard_faults"]
    for k, row in enumerate(rows):
        assert raw(row) == pytest.approx((numbers("f8") * float(k)).sum(axis=0)[0])
    # Where they lie hangs on what was freed before.
    assert npaccel.stats()["guard_faults"] - before < 150


def test_what_no_operation_recorded_does_not_appear_with_what_is_looked_at() -> None:
    """Another thread may be writing it, without the lock: products of matrices, sorts."""
    npaccel.config.threshold = 0
    a = npaccel.asarray(numbers("f8")) * 2.0
    made = [a @ a[0] for _ in range(40)]
    before = npaccel.stats()["published"]
    for x in made[10:20]:
        assert raw(x) == float(numbers("f8")[0] @ numbers("f8")[0] * 4)
    assert npaccel.stats()["published"] == before + 10


@pytest.mark.parametrize(
    ("left", "right", "dtype"),
    [
        ("f8", "f8", "f8"),
        ("f8", "f8", float),
        ("f8", 2.0, np.float64),
        ("f4", "f4", np.dtype("f4")),
        ("f4", 2.0, "f4"),
        ("i8", "i8", int),
        ("i8", "f8", "f8"),
        ("f4", "f4", "f8"),
        ("f8", "f8", "f4"),
        ("i8", "i8", "f8"),
        ("i4", "i4", bool),
        ("f8", "f8", "no type"),
        ("?", "?", "?"),
        ("?", "?", "i8"),
    ],
)
@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.true_divide, np.maximum, np.greater])
def test_dtypes_of_ufuncs(ufunc: np.ufunc, left: str, right: Any, dtype: Any) -> None:
    a = numbers(left)
    b = numbers(right)[::-1].copy() if isinstance(right, str) else right
    for more in ({}, {"casting": "unsafe"}, {"casting": "same_kind"}, {"casting": "no"}):

        def call(first: Any, more: dict[str, Any] = more) -> Any:
            return seen(lambda: ufunc(first, b, dtype=dtype, **more))

        want = call(a)
        with npaccel.accelerate():
            assert call(npaccel.asarray(a)) == want


def test_a_ufunc_of_its_own_dtype_is_recorded_by_the_core() -> None:
    a = npaccel.asarray(numbers("f8"))
    before = npaccel.stats()["requests"]
    y = np.multiply(a, 2.0, dtype=float)
    z = np.add(a, y, dtype="f8", out=np.empty_like(a), casting="unsafe")
    assert npaccel.stats()["requests"] == before + 2
    assert np.array_equal(np.asarray(z), numbers("f8") * 3)
