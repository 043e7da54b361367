"""Powers with the exponents 0 and -1 are no general powers, whichever tier computes them."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import npaccel

pytestmark = pytest.mark.pending  # NumPy's own powers are not exact
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e300, 1e-108, -5e-324, 1.0, -1.0]


@pytest.mark.parametrize("tiering", ["off", "eager"])
@pytest.mark.parametrize("function", [np.power, np.float_power])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_low_powers(dtype: str, function: np.ufunc, tiering: str, setting) -> None:
    """x ** -1 is 1 / x and x ** 0 is 1, to the bit, in every tier; the warnings are NumPy's."""
    setting("tiering", tiering)
    x = np.random.default_rng(1).normal(size=1 << 18)
    with np.errstate(all="ignore"):
        x[: len(SPECIAL)] = np.array(SPECIAL).astype(dtype)
        x = x.astype(dtype)
        inverse = (x.dtype.type(1) / x) if function is np.power else 1 / x.astype("f8")
    for exponent, expected in ((-1.0, inverse), (0.0, np.ones_like(inverse)), (-0.0, None)):
        with warnings.catch_warnings(record=True) as numpys:
            warnings.simplefilter("always")
            other = function(x, x.dtype.type(exponent))
        with warnings.catch_warnings(record=True) as ours:
            warnings.simplefilter("always")
            got = np.asarray(npaccel.evaluate(function(npaccel.asarray(x), x.dtype.type(exponent))))
        np.testing.assert_array_equal(got, np.ones_like(inverse) if expected is None else expected)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(other))
        assert {str(w.message) for w in ours} == {str(w.message) for w in numpys}


def test_low_powers_have_plans_of_their_own(setting) -> None:
    """Exponents that no rewrite uses share one, with none of these."""
    setting("tiering", "eager")
    x = npaccel.asarray(np.random.default_rng(1).uniform(0.5, 2.0, 1 << 18))
    plain = np.asarray(x)
    for exponent in (0.3, 0.0, -0.0, -1.0, 0.7, -1.5):
        got = np.asarray(npaccel.evaluate(x**exponent * 1))
        np.testing.assert_allclose(got, plain**exponent, rtol=1e-15)


SIGNS = """
import numpy as np, npaccel
npaccel.config.tiering = "eager"
x = np.array([np.nan, -np.nan] * (1 << 16))
for dtype in ("f4", "f8"):
    of = x.astype(dtype)
    for exponent in (-1.0, 1.0, 3.0, -3.0, 2.0):
        y = of.dtype.type(exponent)
        got = np.asarray(npaccel.evaluate(np.power(npaccel.asarray(of), y)))
        assert np.array_equal(np.signbit(got), np.signbit(np.power(of, y))), (dtype, exponent)
    outside = np.full(1 << 17, 2.0, dtype)
    for f, y in ((np.log, -outside), (np.log2, -outside), (np.log10, -outside),
                 (np.arcsin, outside), (np.arccos, outside)):
        got = np.asarray(npaccel.evaluate(f(npaccel.asarray(y))))
        assert np.array_equal(np.signbit(got), np.signbit(f(y))), (dtype, f)
print("same")
"""


@pytest.mark.parametrize("level", ["X86_V4 AVX512", "X86_V3 X86_V4 AVX AVX2 AVX512 FMA"])
def test_signs_of_nans_are_those_of_numpys_loops_for_other_processors(level: str) -> None:
    """Which call the C library, where those for AVX-512 don't."""
    known = np._core._multiarray_umath.__cpu_dispatch__
    less = [one for one in known if one.startswith(tuple(level.split()))]
    env = {**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(less), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-W", "ignore", "-c", SIGNS]
    run = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert run.stdout == "same\n", run.stderr
