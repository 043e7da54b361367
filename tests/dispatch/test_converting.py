"""Functions that convert their arguments first: in blocks their own code runs on what waits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

from .at_once import same

Array = np.ndarray[Any, Any]
Call = Callable[[Array], Any]

# Calls with whole numbers in rows of three.


def filled(t: Array, value: Any, **named: Any) -> Array:
    t = t.copy()
    np.fill_diagonal(t, value, **named)
    return t


EXACT: dict[str, Call] = {
    "fill_diagonal": lambda t: filled(t, 7),
    "fill_diagonal by turns": lambda t: filled(t, [1, 2], wrap=True),
    "fill_diagonal of a line": lambda t: filled(t[0], 1),
    "fill_diagonal of the transposed": lambda t: filled(t.T, 2.5),
    "cross": lambda t: np.cross(t, t[::-1]),
    "cross, axes": lambda t: np.cross(t.T, t, axisa=0, axisc=0),
    "cross, one vector": lambda t: np.cross(t, np.array([1, 2, 3])),
    "cross, other type": lambda t: np.cross(t, t.astype("i4")),
    "cross of pairs": lambda t: np.cross(t[:, :2], t),
    "cross of fours": lambda t: np.cross(np.tile(t, (1, 2))[:, :4], t),
    "cross, wrong axis": lambda t: np.cross(t, t, axis=5),
    "linalg.cross": lambda t: np.linalg.cross(t, t + 1),
    "ediff1d": lambda t: np.ediff1d(t, to_end=[7, 8], to_begin=t[0, 0]),
    "ediff1d, wrong end": lambda t: np.ediff1d(t.astype("i4"), to_end=1.5),
    "kron": lambda t: np.kron(t[:20], t[:3]),
    "kron of a number": lambda t: np.kron(t, 3.0),
    "vander": lambda t: np.vander(t[:, 0], 4, increasing=True),
    "vander of a matrix": np.vander,
    "block": lambda t: np.block([[t, t + 1], [t[:2], t[:2]]]),
    "block of unlike parts": lambda t: np.block([[t, t[:2]]]),
    "insert": lambda t: np.insert(t, [1, 3], t[:2], axis=0),
    "insert, out of bounds": lambda t: np.insert(t, 10**7, 1),
    "delete": lambda t: np.delete(t, [1, -1], axis=0),
    "delete, out of bounds": lambda t: np.delete(t, 10**7),
    "resize": lambda t: np.resize(t, (7, 5)),
    "real_if_close": lambda t: np.real_if_close(t + 0j),
    "diag": lambda t: (np.diag(t), np.diag(t[:9, 0]), np.diag(t, -1)),
    "diag of three axes": lambda t: np.diag(t[None]),
    "piecewise": lambda t: np.piecewise(t, [t < 3, t > 5], [lambda v: -v, 9, 1]),
    "piecewise, wrong count": lambda t: np.piecewise(t, [t < 3], [1, 2, 3]),
    "apply_over_axes": lambda t: np.apply_over_axes(np.sum, t, [0, 1]),
    "nancumsum": lambda t: np.nancumsum(np.where(t > 5, np.nan, t), axis=0),
    "column_stack": lambda t: np.column_stack([t[:, 0], t, t[:, 1] * 2]),
    "column_stack of unlike rows": lambda t: np.column_stack([t[:, 0], t[:5, 0]]),
    "more axes": lambda t: (np.array(t[:, 0], ndmin=3), np.array(t[::-2, 1], copy=None, ndmin=2)),
    "fewer axes": lambda t: np.array(t, ndmin=1),
    "an array of them": lambda t: np.add(t, 1, out=...),
    "an array of one": lambda t: type(np.add(t[0, 0], 1, out=...)) in (np.ndarray, npaccel.Array),
    "out and out": lambda t: np.add(t, 1, t.copy(), out=...),
    "elsewhere": lambda t: np.add(t, 1, where=t > 4, out=...)[t > 4],
    "elsewhere, no warning": lambda t: np.add(t, 1, out=None, where=t > 4)[t > 4],
    "two elsewhere": lambda t: [y[t > 4] for y in np.divmod(t, 3, out=(None,) * 2, where=t > 4)],
    "in another type": lambda t: np.multiply(t, 2, dtype="f4", out=..., casting="same_kind"),
    "of two results": lambda t: np.divmod(t, 3, out=...),
}
ROUNDED: dict[str, Call] = {
    "std": lambda t: t.std(axis=0),
    "var": lambda t: np.var(t, axis=1, ddof=1, keepdims=True),
    "std of all": np.std,
    "unwrap": lambda t: np.unwrap(t, axis=0),
    "unwrap, period": lambda t: np.unwrap(t[:, 1], period=7),
    "i0": lambda t: np.i0(t / 9),
    "cov": lambda t: np.cov(t.T),
    "corrcoef": lambda t: np.corrcoef(t, rowvar=False),
    "nanstd": lambda t: np.nanstd(np.where(t > 5, np.nan, t), axis=0),
}
WAITING = (
    "cross", "fill_diagonal", "linalg.cross", "kron", "vander", "block", "resize", "diag",
    "column_stack", "an array of them", "of two results",
)  # fmt: skip


def rows(n: int, dtype: str = "f8") -> Array:
    return np.random.default_rng(n).integers(0, 10, (n, 3)).astype(dtype)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", EXACT)
def test_results_errors_and_warnings_are_numpys(name: str) -> None:
    for n, dtype in ((5, "f8"), (40, "f4"), (40, "i8"), (30_000, "f8")):
        call, t = EXACT[name], rows(n, dtype)
        same(call, t)
        same(lambda t, call=call: call(t * 1), t)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ROUNDED)
def test_rounded_results_are_numpys(name: str) -> None:
    for n in (5, 40, 30_000):
        t = rows(n)
        want = ROUNDED[name](t)
        with npaccel.accelerate():
            have = ROUNDED[name](t), ROUNDED[name](t * 1)
        for found in have:
            assert (found.dtype, found.shape) == (want.dtype, want.shape)
            assert getattr(found, "strides", None) == getattr(want, "strides", None)
            np.testing.assert_allclose(np.array(found), want, rtol=1e-12, atol=1e-12)


@pytest.mark.pending
@pytest.mark.parametrize("name", WAITING)
def test_what_waits_goes_on_waiting(name: str) -> None:
    if (
        name in ("an array of them", "of two results")
        and np.lib.NumpyVersion(np.__version__) < "2.3.0"
    ):
        pytest.skip("NumPy has out=... since 2.3")
    t = rows(30_000)
    with npaccel.config(tiering="eager"), npaccel.accelerate():
        waiting = t * 1 + 0
        flushes = npaccel.stats()["flushes"]
        result = EXACT[name](waiting)
        assert npaccel.stats()["flushes"] == flushes
        del result
