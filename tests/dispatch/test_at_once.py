"""Calls that NumPy does at once up to a size, while nothing waits for their arrays."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native

from .small.test_transforms import _python_of

pytestmark = pytest.mark.usefixtures("usual_threshold")

N = 40_000  # 320 KB; `many` are 32 times as much
CALLS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum(),
    "mean": np.mean,
    "max": lambda x: x.max(),
    "minimum.reduce": lambda x: np.minimum.reduce(x.reshape(-1)),
    "both axes": lambda x: np.add.reduce(x, axis=None, keepdims=True),
    "sums of rows": lambda x: x.sum(1),
    "means of columns": lambda x: x.mean(axis=0),
    "minima of rows": lambda x: np.min(x, -1),
    "argmin": lambda x: x.argmin(),
    "argmin of rows": lambda x: np.argmin(x, axis=1),
    "maxima of what is transposed": lambda x: x.T.max(0),
    "argmax of what is transposed": lambda x: x.T.argmax(axis=0),
    "any": np.any,
    "all of it": lambda x: np.logical_and.reduce(x, axis=None),
    "argmax": lambda x: np.argmax(x, keepdims=True),
    "var": lambda x: x.var(),
    "cov": np.cov,
    "corrcoef": lambda x: np.corrcoef(x, rowvar=False),
    "std": lambda x: np.std(x, axis=0, ddof=1),
    "nanstd": lambda x: np.nanstd(x, axis=0),
    "concatenate": lambda x: np.concatenate((x, x)),
    "stack": lambda x: np.stack([x, x], -1),
    "tril": np.tril,
    "triu by name": lambda x: np.triu(x, k=-3),
    "insert": lambda x: np.insert(x.reshape(-1), 3, 1.0),
    "isin": lambda x: np.isin(x, [0.25, 0.5]),
    "median": np.median,
    "unique": lambda x: np.unique(x, return_counts=True),
}

# Float sums at once are ours: their last bits are those that they have where they are recorded.
OURS = (
    "sum",
    "mean",
    "both axes",
    "sums of rows",
    "means of columns",
    "var",
    "cov",
    "corrcoef",
    "std",
    "nanstd",
)


def square(count: int = N) -> np.ndarray[Any, Any]:
    return np.sin(np.arange(float(count))).reshape(200, -1)


def same(have: Any, want: Any) -> None:
    if isinstance(want, tuple):
        for one, other in zip(have, want, strict=True):
            same(one, other)
        return
    assert np.asarray(have).dtype == np.asarray(want).dtype
    np.testing.assert_array_equal(have, want)


def same_but_for_rounding(have: Any, want: Any) -> None:
    if isinstance(want, tuple):
        for one, other in zip(have, want, strict=True):
            same_but_for_rounding(one, other)
        return
    np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_recorded(name: str) -> None:
    plain, want = square(), CALLS[name](square())
    with npaccel.accelerate():
        for x in (plain, npaccel.asarray(plain)):
            before = npaccel.stats()["requests"]
            have = CALLS[name](x)
            compared = name in OURS and npaccel.config.check != "off"  # what is ours is recorded
            assert compared or npaccel.stats()["requests"] == before
            (same_but_for_rounding if name in OURS else same)(have, want)
            if isinstance(have, np.ndarray) and have.nbytes >= 1 << 18 and _native.guarded():
                assert type(have) is npaccel.Array


@pytest.mark.pending
@pytest.mark.parametrize("name", CALLS)
def test_what_waits_is_not_evaluated_before(name: str) -> None:
    x, want = square(), CALLS[name](square() * 2)
    with npaccel.accelerate():
        y = x * 2
        before = npaccel.stats()["requests"]
        have = CALLS[name](y)
        if name in ("sum", "max", "concatenate", "stack"):
            assert npaccel.stats()["requests"] > before
        same_but_for_rounding(have, want)


@pytest.mark.pending
@pytest.mark.parametrize("name", OURS)
def test_sums_at_once_have_the_bits_of_recorded_ones(name: str) -> None:
    x = npaccel.asarray(square())
    same(np.array(CALLS[name](x)), np.array(CALLS[name](x * 1.0)))


def test_truth_values_are_counted_at_once() -> None:
    x = square(8 * N)
    mask, want = x > 0.5, np.count_nonzero(x > 0.5)
    with npaccel.accelerate():
        before = npaccel.stats()["requests"]
        assert np.count_nonzero(mask) == want
        assert npaccel.stats()["requests"] == before
        assert np.count_nonzero(x > 0.5) == want


@pytest.mark.pending
def test_long_rows_are_folded_at_once_where_short_ones_are_not() -> None:
    x = square(8 * N)
    want = x.sum(axis=0)
    with npaccel.accelerate():
        before = npaccel.stats()["requests"]
        same_but_for_rounding(x.sum(axis=0), want)
        assert npaccel.stats()["requests"] == before or npaccel.config.check != "off"
        between = npaccel.stats()["requests"]
        x.reshape(-1, 40).sum(axis=0)
        assert npaccel.stats()["requests"] > between


@pytest.mark.pending
def test_what_meets_the_array_again_is_recorded() -> None:
    x = square()
    with npaccel.accelerate():
        before = npaccel.stats()["requests"]
        have = x - x.max(axis=1, keepdims=True)
        assert npaccel.stats()["requests"] == before + 2
    same(have, x - x.max(axis=1, keepdims=True))


@pytest.mark.pending
def test_what_is_large_is_recorded() -> None:
    x = square(40 * N)
    with npaccel.accelerate():
        for name in ("max", "sums of rows", "var", "concatenate"):
            before = npaccel.stats()["requests"]
            have = CALLS[name](x)
            assert npaccel.stats()["requests"] > before, name
            np.testing.assert_allclose(have, CALLS[name](x), rtol=1e-12)


@pytest.mark.pending
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_all_of_a_large_array_is_added_at_once(kind: str) -> None:
    """With the bits that it has where it is recorded, however it lies."""
    x = square(40 * N).astype(kind)
    with npaccel.accelerate():
        for a in (x, x.T, npaccel.asarray(x)):
            for fold in (np.add, np.multiply):
                before = npaccel.stats()["requests"]
                have = fold.reduce(a, axis=None)
                at_once = npaccel.stats()["requests"] == before
                assert at_once or npaccel.config.check != "off"
                same(np.array(have), np.array(fold.reduce(a * 1, axis=None)))
        before = npaccel.stats()["requests"]
        (x * 1).sum()
        assert npaccel.stats()["requests"] > before


@pytest.mark.pending
def test_what_is_written_is_read_before() -> None:
    x = np.round(64 * square())  # sums and their quotient are exact in any order
    other, want = x.copy(), x + 1
    with npaccel.accelerate():
        y = x + 1  # pending; reads x
        np.nanmean(other, axis=0, out=x[0])
        z = x * 2
        np.median(x, axis=0, overwrite_input=True)
    np.testing.assert_array_equal(y, want)
    np.testing.assert_array_equal(z[0], np.nanmean(other, axis=0) * 2)
    np.testing.assert_array_equal(z[1:], other[1:] * 2)


def test_an_argument_that_comes_back_is_the_callers() -> None:
    plain = square()
    with npaccel.accelerate():
        for x in (plain, npaccel.asarray(plain)):
            assert np.nan_to_num(x, copy=False) is x
            out = np.empty(200)
            assert np.nanmean(x, axis=0, out=out) is out


def test_warnings_name_the_callers_line() -> None:
    plain = square() * np.nan
    with npaccel.accelerate(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for x in (plain, npaccel.asarray(plain)):
            line = sys._getframe().f_lineno + 1
            np.nanmean(x)
            assert (caught[-1].filename, caught[-1].lineno) == (__file__, line)
    assert len(caught) == 2


def test_errors_are_numpys() -> None:
    plain = square()
    with npaccel.accelerate():
        for x in (plain, npaccel.asarray(plain)):
            with pytest.raises(np.exceptions.AxisError):
                np.nanmean(x, axis=5)
            with pytest.raises(TypeError):
                x.var(3, 4, 5, 6, 7, 8, 9)
            with pytest.raises(TypeError):
                np.add.reduce(x, axis=None, nonsense=3)
            with pytest.raises(ValueError, match=r"same shape|must match"):
                np.stack([x, x[:3]])


@pytest.mark.pending
@pytest.mark.parametrize("dtype", ["f8", "i2", "c8", "bool"])
def test_parts_of_a_large_matrix_are_copied_without_numpys_python(dtype: str) -> None:
    plain = (square(4 * N) * 3).astype(dtype)
    for k in (0, 1, -7, 10**5, -(10**5)):
        for function in (np.tril, np.triu):
            want = function(plain, k)
            with npaccel.accelerate():
                for x in (plain, npaccel.asarray(plain)):
                    same(function(x, k=k), want)
                    python = _python_of(lambda f=function, x=x, k=k: f(x, k))
                    assert "tri" not in python  # which NumPy's code calls


FILLED: dict[str, Callable[[Any], Any]] = {
    "full": lambda x: np.full(x.shape, 2.5),
    "ones": lambda x: np.ones(x.shape, "i4"),
    "zeros_like": np.zeros_like,
    "full_like": lambda x: np.full_like(x, True),
    "overflow": lambda x: np.full(x.shape, 1e300, "f4"),
}


@pytest.mark.parametrize("name", FILLED)
def test_what_is_made_is_filled(name: str) -> None:
    x = np.arange(N * 1.0).reshape(200, -1)
    make = FILLED[name]
    with warnings.catch_warnings(record=True) as expected:
        warnings.simplefilter("always")
        plain = make(x)
    with warnings.catch_warnings(record=True) as found, npaccel.accelerate(min_size=1 << 17):
        warnings.simplefilter("always")
        made = make(x)
    assert [str(w.message) for w in found] == [str(w.message) for w in expected]
    assert made.dtype == plain.dtype
    assert np.array_equal(made, plain)


@pytest.mark.pending
def test_what_waits_is_filled_after_what_reads_it() -> None:
    x = np.arange(N * 1.0)
    with npaccel.accelerate(min_size=1 << 18):
        a = np.multiply(x, 2.0)
        b = a + 1
        np.copyto(a, 7)
        np.copyto(x, 3.0)
        c = a + x
    assert np.array_equal(b, np.arange(N) * 2.0 + 1)
    assert np.array_equal(c, np.full(N, 10.0))


@pytest.mark.pending
@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_bools_of_any_number_but_in_short_rows(name: str, axis: int | None) -> None:
    """NumPy ends at the first that decides."""
    rng = np.random.default_rng(3)
    for shape in ((50_000, 40), (200_000, 5)):
        plain = rng.random(shape) < 0.3
        want = getattr(plain, name)(axis)
        with npaccel.accelerate():
            for x in (plain, npaccel.asarray(plain)):
                before = npaccel.stats()["requests"]
                have = getattr(x, name)(axis)
                short = axis in (1, -1) and shape[1] < 16
                assert (npaccel.stats()["requests"] > before) is short
                same(have, want)
