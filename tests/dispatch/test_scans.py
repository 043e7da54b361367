"""Accumulating along rows and columns: recorded, computed by kernels, bit for bit NumPy's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import npaccel

from .differential import check

Array = np.ndarray[Any, Any]
CASES = [("add", kind) for kind in "?BhiIlLefd"]
CASES += [(op, kind) for op in ("maximum", "minimum") for kind in "ilefd"]
CASES += [("multiply", kind) for kind in "flL"]
CASES += [("bitwise_xor", "i"), ("logical_or", "d"), ("multiply", "d"), ("fmin", "f")]


def values(kind: str, rows: int = 70, n: int = 9) -> Array:
    rng = np.random.default_rng(2)
    shape = rows, n
    x = rng.normal(0.0, 3.0, shape) if kind in "efd" else rng.integers(0, 100, shape)
    x = x.astype(kind)
    if kind in "efd":
        x[3, 4], x[5, 0], x[6, 1], x[6, 5], x[7, 0] = np.nan, -0.0, np.inf, -np.inf, np.nan
    return x


def told(x: Array, op: str) -> tuple[list[Array], list[str]]:
    """What is accumulated along either axis, alone and in company, and the warnings."""
    ufunc = getattr(np, op)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = []
        for axis in (0, 1):
            rows = ufunc.accumulate(x, axis=axis)
            found += [rows, ufunc.accumulate(x[::-1, ::-1], axis=axis)]
            again = ufunc.accumulate(rows + x, axis=axis)
            found += [rows[1:] == rows[:-1], again.max(axis=axis)]
        found += [ufunc.accumulate(x.ravel()), ufunc.accumulate(x.ravel()[::-2])]
        npaccel.evaluate(*found)
    return found, sorted({str(warning.message) for warning in caught})


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("op", "kind"), CASES)
def test_rows_and_columns(op: str, kind: str) -> None:
    check_scans(values(kind), op)


@pytest.mark.parametrize(("op", "kind"), [("add", "d"), ("maximum", "f"), ("add", "l")])
@pytest.mark.parametrize("n", [128, 129])
def test_rows_that_have_a_lane_and_longer_ones(
    op: str, kind: str, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other, so that no plan for the one is taken for the other."""
    monkeypatch.setattr(npaccel.config, "tiering", "eager")
    check_scans(values(kind, 30, n), op)


def check_scans(x: Array, op: str) -> None:
    kind = x.dtype.char
    expected, warned = told(x, op)
    npaccel.stats(reset=True)
    results, noticed = told(npaccel.asarray(x), op)
    for want, have in zip(expected, results, strict=True):
        assert have.dtype == want.dtype
        np.testing.assert_array_equal(np.asarray(have), want)
        if kind in "efd" and op not in ("maximum", "minimum", "fmax", "fmin"):
            known = ~np.isnan(want)
            np.testing.assert_array_equal(np.signbit(have)[known], np.signbit(want)[known])
    assert noticed == warned


@pytest.mark.parametrize("name", ["add", "multiply", "maximum"])
def test_what_is_cast_first_is_said_so(name: str) -> None:
    ufunc = getattr(np, name)
    for x in (np.full((3, 4), 1e200), np.full((3, 4), 1e30), np.full((3, 4), 2000)):
        for axis in (0, 1):
            check(lambda x, a=axis: ufunc.accumulate(x, a, dtype="f"), lambda x=x: (x,))
            check(lambda x, a=axis: ufunc.accumulate(x, a, dtype="e"), lambda x=x: (x,))


@pytest.mark.pending
def test_scans_run_in_kernels() -> None:
    if npaccel.config.backend == "numpy" or npaccel.config.check != "off":
        pytest.skip("no kernels")
    npaccel.stats(reset=True)
    x = npaccel.asarray(values("l"))
    npaccel.evaluate(np.cumsum(x, axis=1), np.cumsum(x, axis=0), np.maximum.accumulate(x * 2))
    assert npaccel.stats()["native_requests"] == 0


@pytest.mark.pending
def test_sizes_of_one_structure() -> None:
    for rows, columns in ((70, 9), (200, 33), (3, 40), (20, 3), (1, 50), (90, 1)):
        x = np.arange(float(rows * columns)).reshape(rows, columns) % 7
        total = np.cumsum(npaccel.asarray(x) * 2, axis=1) + 1
        np.testing.assert_array_equal(np.asarray(total), np.cumsum(x * 2, axis=1) + 1)
