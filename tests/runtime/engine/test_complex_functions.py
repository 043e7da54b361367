"""Functions of complex numbers in kernels: NumPy's special values, one value everywhere."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import npaccel

pytestmark = pytest.mark.pending  # NumPy's own functions are of no tier
FUNCTIONS = [np.exp, np.log, np.sqrt, np.sinh, np.cosh, np.tanh, np.sin, np.cos, np.tan]
UNITS = {np.tanh: 6, np.tan: 6}
DTYPES = ["c8", "c16"]
PARTS = [0.0, 5e-324, 1e-310, 1e-40, 1e-20, 0.5, 0.6, 0.8, 1.0, 1 - 2**-53, 1 + 2**-52, 2.0,
         88.0, 89.0, 90.0, 349.0, 351.0, 699.0, 701.0, 709.0, 710.0, 711.0, 746.0, 1500.0, 2200.0,
         1e10, 1e38, 1e154, 1.7e308, np.inf, np.nan]  # fmt: skip


def special(dtype: str) -> np.ndarray:
    parts = [*PARTS, *(-x for x in PARTS)]
    with np.errstate(all="ignore"):
        pairs = np.array(list(itertools.product(parts, parts))).astype(f"f{int(dtype[1:]) // 2}")
    z = np.empty(len(pairs), dtype)
    z.real, z.imag = pairs[:, 0], pairs[:, 1]
    return z


def common(dtype: str) -> np.ndarray:
    x, y, r = np.random.default_rng(2).uniform(-1, 1, (3, 60_000))
    near_one = np.exp(1j * np.pi * x) * (1 + 0.1 * r**9)
    quarters = 1j * np.pi / 2 * np.round(9 * x) + r**21 + 1j * y**21
    parts = [20 * x + 80j * y, near_one, x**15 + 1j * y**15, 3 * (x + 1j * y), quarters]
    z = np.concatenate(parts).astype(dtype)
    return z[z != 0]


def evaluated(function, z: np.ndarray) -> np.ndarray:
    return np.asarray(npaccel.evaluate(function(npaccel.asarray(z))))


@pytest.mark.parametrize("tiering", ["off", "eager"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_special_values_are_numpys(function, dtype, tiering, setting) -> None:
    setting("tiering", tiering)
    z = special(dtype)
    with np.errstate(all="ignore"):
        want, got = function(z), evaluated(function, z)
    last = np.finfo(want.real.dtype).smallest_subnormal
    for ours, numpys in ((got.real, want.real), (got.imag, want.imag)):
        edge = ~np.isfinite(numpys) | (numpys == 0)
        apart = np.abs(ours[~edge] - numpys[~edge])
        assert (apart <= 1e-5 * np.abs(numpys[~edge]) + last).all()
        # Where NumPy's halves a quotient, the last subnormal is lost, which is not 0 here.
        alike = (ours == numpys) | (np.isnan(ours) & np.isnan(numpys))
        alike |= (numpys == 0) & (np.abs(ours) <= last)
        assert alike[edge].all(), z[edge][~alike[edge]]
        assert np.array_equal(np.signbit(ours), np.signbit(numpys))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("tiering", ["off", "eager"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_special_value_warns_as_numpys(function, dtype, tiering, setting) -> None:
    setting("tiering", tiering)
    for z in special(dtype)[::7]:
        array, said = np.full(40, z), []
        for run in (function, lambda x: evaluated(function, x)):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                run(array)
            said.append({str(warning.message) for warning in found})
        assert said[0] == said[1], (z, said)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["c16", pytest.param("c8", marks=pytest.mark.slow)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_tier_has_the_same_bits_within_the_bound(function, dtype, setting) -> None:
    z, found = common(dtype), set()
    for tiering in ("off", "eager"):
        setting("tiering", tiering)
        found.add(evaluated(function, z).tobytes())
        with npaccel.accelerate():
            found.add(function(z).tobytes())
        found.add(evaluated(function, np.repeat(z, 2)[::2]).tobytes())
        got = evaluated(lambda x: function(x) * 1, z)
    (bits,) = found
    want = function(z.astype(np.clongdouble))
    unit = np.spacing(np.abs(want).astype(got.real.dtype))
    assert (np.abs(np.frombuffer(bits, dtype) - want) <= UNITS.get(function, 3) * unit).all()
    assert np.array_equal(got, np.frombuffer(bits, dtype) * 1)
