"""Powers with a whole exponent: by squaring, within power's bound, and every special value."""

from __future__ import annotations

import numpy as np
import pytest

import npaccel

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, -1e300, 1e-108, -1e-108, 5e-324, 1.0, -1.0]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("exponent", [1, 2, 3, 4, 5, 6, 7, 8])
def test_whole_powers(dtype: str, exponent: int) -> None:
    rng = np.random.default_rng(exponent)
    with np.errstate(all="ignore"):
        x = np.concatenate([rng.normal(size=5000) * 10 ** rng.uniform(-40, 40, 5000), SPECIAL])
        x = np.resize(x.astype(dtype), 1 << 18)
        got = np.asarray(np.power(npaccel.asarray(x), x.dtype.type(exponent)))
        exact = np.power(x.astype(np.longdouble), exponent)
        expected = exact.astype(dtype)
        ulp = np.abs(got.astype(np.longdouble) - exact) / np.spacing(np.abs(expected))
    plain = np.isfinite(expected) & (expected != 0)
    assert ulp[plain].max() <= 1
    np.testing.assert_array_equal(got[~plain], expected[~plain])
    signs = ~np.isnan(expected) & ~plain
    np.testing.assert_array_equal(np.signbit(got[signs]), np.signbit(expected[signs]))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_half_powers(dtype: str) -> None:
    """NumPy's loops take the root for a single exponent; an array of them is none."""
    with np.errstate(all="ignore"):
        x = np.resize(np.array(SPECIAL).astype(dtype), 1 << 18)
        for half in (x.dtype.type(0.5), np.full(len(x), 0.5, dtype)):
            got, expected = np.asarray(np.power(npaccel.asarray(x), half)), np.power(x, half)
            np.testing.assert_allclose(got, expected, rtol=2 * np.finfo(dtype).eps)
            signs = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(got[signs]), np.signbit(expected[signs]))


@pytest.mark.filterwarnings("ignore")
def test_an_exponent_that_a_section_takes_anew() -> None:
    x = np.resize(SPECIAL, 5000)
    section = npaccel.macro(lambda x, p: np.power(x * 1, p))
    for exponent in (0.3, 0.5, 2.0, -1.5, 0.5, 0.3):
        got, expected = np.asarray(section(x, exponent)), np.power(x, exponent)
        np.testing.assert_allclose(got, expected, rtol=1e-15)
        signs = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got[signs]), np.signbit(expected[signs]))
