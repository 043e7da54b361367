"""Single elements written in Python loops, of whatever type: as NumPy has it."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import npaccel

LIMITS = [0, 1, -3, 255, 2**31 - 1, 2**31, 2**53 + 1, 2**62, 2**63 - 1, 2**63, -(2**63), 10**400]
FLOATS = [0.0, -0.0, 0.7, -2.9, 1e-40, 1e-46, 1.1754943e-38, 3e38, 3.5e38, 9.3e18, 2.0**62, 5e9]
FLOATS += [2147483646.5, 2147483647.0, -2147483648.5, math.inf, -math.inf, math.nan, 1e300]
SMALL = (1, -1, 0, 7)
VALUES: list[object] = [*LIMITS, *FLOATS, True, False, *map(np.float64, FLOATS)]
VALUES += [t(v) for t in (np.int64, np.int32, np.int16, np.float32, np.bool_) for v in SMALL]
VALUES += [np.int64(2**53 + 1), np.int64(2**40), np.float32(1e-40), np.float32(np.nan), 1j, "1"]
VALUES += [np.int64(16777217), 16777217, np.uint8(3), np.longdouble(0.1), None, [4], np.ones(1)]


def told(write: Callable[[np.ndarray], None], dtype: str) -> tuple[object, ...]:
    """What an array holds then, what was raised, and the warnings."""
    a = np.full((3, 4), 1).astype(dtype)
    raised = ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            write(a)
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
    return a.tobytes(), a.dtype, raised, [(str(w.message), w.category) for w in caught]


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "?", "i2", "u8", "c16", "f2", ">f8"])
@pytest.mark.parametrize("value", VALUES, ids=lambda v: f"{type(v).__name__} {v}"[:40])
def test_a_value_of_another_type_is_written(value: object, dtype: str) -> None:
    def write(a: np.ndarray) -> None:
        a[1, 2] = value
        a[0][3] = value
        a[np.int64(-1)][1] = value
        a[2, np.int64(0)] = value
        a[1, 1] = 1

    expected = told(write, dtype)
    with npaccel.accelerate():
        found = told(write, dtype)
    assert found == expected


def test_an_integer_of_numpys_as_a_key() -> None:
    x, i, n = np.arange(10.0), np.int64(3), np.int64(-11)
    with npaccel.accelerate():
        assert type(x[i]) is np.float64 and x[i] == 3.0
        x[i] = 5
        assert x[i] == 5.0
        for key in (n, np.int64(10)):
            with pytest.raises(IndexError, match="out of bounds for axis 0 with size 10"):
                x[key]
            with pytest.raises(IndexError, match="out of bounds for axis 0 with size 10"):
                x[key] = 1
        fixed = x.copy()
        fixed.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            fixed[i] = 1
