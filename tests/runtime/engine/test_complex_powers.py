"""Whole powers of complex numbers are kernels, with NumPy's bits and warnings."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import npaccel
from npaccel.ir.differences import answer

PARTS = [0.0, -0.0, 5e-324, 1e-40, 0.5, 1.0, -1.0, 2.0, 1e38, 1e154, -1.7e308,
         np.inf, -np.inf, np.nan]  # fmt: skip
POWERS = [1, 2, 3, 4, 5, 7, 8, 20, 99]


def special(dtype: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        pairs = np.array(list(itertools.product(PARTS, PARTS))).astype(f"f{int(dtype[1:]) // 2}")
    z = np.empty(len(pairs), dtype)
    z.real, z.imag = pairs[:, 0], pairs[:, 1]
    return z


def assert_alike(got: np.ndarray, want: np.ndarray) -> None:
    assert got.dtype == want.dtype
    for ours, numpys in ((got.real, want.real), (got.imag, want.imag)):
        there = ~np.isnan(numpys)
        np.testing.assert_array_equal(ours, numpys)
        np.testing.assert_array_equal(np.signbit(ours[there]), np.signbit(numpys[there]))


def evaluated(z: np.ndarray, n: complex) -> np.ndarray:
    return np.asarray(npaccel.evaluate(np.power(npaccel.asarray(z), n)))


@pytest.mark.parametrize("tiering", ["off", "eager"])
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_whole_powers_have_numpys_bits(dtype, tiering, setting) -> None:
    setting("tiering", tiering)
    rng = np.random.default_rng(1)
    ordinary = (rng.normal(size=4000) + 1j * rng.normal(size=4000)).astype(dtype)
    for n in POWERS:
        for z in (ordinary, special(dtype)):
            with np.errstate(all="ignore"):
                assert_alike(evaluated(z, n), np.power(z, n))
    for n in (-1, 0, -7):
        with np.errstate(all="ignore"):
            assert_alike(evaluated(ordinary, n), np.power(ordinary, n))


@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_each_special_value_warns_as_numpys(dtype, setting) -> None:
    setting("tiering", "eager")
    for n in (1, 3, 5):
        for z in special(dtype)[::3]:
            array, said = np.full(40, z), []
            for run in (np.power, evaluated):
                with warnings.catch_warnings(record=True) as found:
                    warnings.simplefilter("always")
                    run(array, n)
                said.append({str(warning.message) for warning in found})
            assert said[0] == said[1], (z, n, said)


@pytest.mark.pending
def test_a_polynomial_with_powers_is_one_kernel(setting) -> None:
    if not answer("complex-products f8"):
        pytest.skip("NumPy fuses the sums of complex products here")
    setting("tiering", "eager")
    z = npaccel.asarray(np.linspace(-1, 1, 1 << 18) + 0.5j)
    got = npaccel.evaluate(z**5 - 2 * z**3 + 1)
    (step,) = npaccel.explain(got).steps
    assert step.kernel
    plain = np.asarray(z)
    assert_alike(np.asarray(got), plain**5 - 2 * plain**3 + 1)
