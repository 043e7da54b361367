"""Check mode finds a kernel that computes something wrong, and says where and what."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import npaccel
from npaccel.errors import CheckError

pytestmark = pytest.mark.usefixtures("deferred")
N = 2000


@pytest.fixture(autouse=True)
def checked(deferred, setting) -> None:
    setting("check", "compute")


def falsify(launches, array: int, index: int, value: float) -> None:
    """From now on every kernel's `array` holds `value` at `index` when it is done."""

    def after(launch) -> None:
        first = ctypes.c_double.from_address(launch.address(array) + 8 * index)
        first.value = value

    launches.after = after


def test_right_results_pass(launches) -> None:
    a = npaccel.asarray(np.linspace(-1.0, 2.0, N))
    with np.errstate(invalid="ignore"):
        y = np.log(a)  # NaN equals NaN
    z = (a * 2 + y).sum()
    assert np.isnan(z) and launches.kernels >= 1


def test_a_wrong_element_is_named(launches) -> None:
    a = npaccel.asarray(np.linspace(0.0, 1.0, N))
    falsify(launches, 1, 7, 99.0)
    y = a + 1
    line = 42
    with pytest.raises(CheckError) as error:
        npaccel.evaluate(y)
    text = str(error.value)
    line = test_a_wrong_element_is_named.__code__.co_firstlineno + 3
    assert f"add at {__file__}:{line} differs" in text
    assert "index (7,)" in text and "99.0" in text and repr(np.linspace(0.0, 1.0, N)[7] + 1) in text
    assert f"1 of {N}" in text


def test_a_slip_of_one_bit_is_found_where_results_are_exact(launches) -> None:
    a = npaccel.asarray(np.linspace(0.0, 1.0, N))
    falsify(launches, 1, 3, float(np.nextafter(a[3] * 0.5, 1.0)))
    y = a * 0.5
    with pytest.raises(CheckError, match=r"multiply .* index \(3,\)"):
        npaccel.evaluate(y)


def test_the_program_goes_on_after_a_difference(launches) -> None:
    a = npaccel.asarray(np.linspace(0.0, 1.0, N))
    falsify(launches, 1, 0, 5.0)
    y = a + 1
    with pytest.raises(CheckError):
        npaccel.evaluate(y)
    launches.after = None
    assert np.array_equal(a - 1, np.asarray(a) - 1)
    assert y[0] == 5.0


def test_off_means_off(launches, setting) -> None:
    setting("check", "off")
    a = npaccel.asarray(np.linspace(0.0, 1.0, N))
    falsify(launches, 1, 0, 5.0)
    assert npaccel.evaluate(a + 1)[0] == 5.0
