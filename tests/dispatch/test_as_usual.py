"""Functions of arrays that kernels can't read as they lie: the other byte order, unaligned, and
complex fields of records; which are copied first."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

Array = np.ndarray[Any, Any]
SHAPE = (5, 4, 6)


def swapped(x: Array) -> Array:
    return x.astype(x.dtype.newbyteorder(">"))


def field(x: Array, gap: int) -> Array:
    """Elements so many bytes apart, and as far from the start."""
    records = np.zeros(x.shape, [("gap", f"S{gap}"), ("x", x.dtype)])
    records["x"] = x
    found: Array = records["x"]
    return found


ODD: dict[str, Callable[[Array], Array]] = {
    "swapped": swapped,
    "unaligned": lambda x: field(x, 3),
    "half a step": lambda x: field(x, x.dtype.alignment),
}
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "as it is": lambda x: x,
    "transposed": lambda x: x.T,
    "axes exchanged": lambda x: x.swapaxes(0, 1),
    "backwards": lambda x: x[::-1, :, ::-1],
    "parts": lambda x: x[::2, 1:, ::3],
    "broadcast": lambda x: np.broadcast_to(x[:, :1], (5, 4, 6)),
    "one": lambda x: x[:1, :1],
    "none": lambda x: x[:0],
}
CALLS: dict[str, Callable[[Array], Any]] = {
    "sin": np.sin,
    "exp of twice": lambda x: np.exp(2 * x),
    "power": lambda x: x**2.5,
    "hypot": lambda x: np.hypot(x.real, x.imag),
    "beside a usual one": lambda x: np.power(x, np.ones(x.shape)),
    "into an output": lambda x: np.tanh(x, out=np.zeros(x.shape, np.sin(x[:0]).dtype)),
    "where": lambda x: np.sin(x, out=np.zeros(x.shape, np.sin(x[:0]).dtype), where=x.real > 1),
    "order": lambda x: np.sin(x, order="F"),
}


def values(dtype: str) -> Array:
    rng = np.random.default_rng(1)
    x = rng.uniform(0.1, 3, SHAPE)
    return (x + 1j * rng.normal(size=SHAPE) if dtype[0] == "c" else x).astype(dtype)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16", "f2", "i4"])
def test_results_are_as_those_of_usual_arrays(dtype: str, odd: str, layout: str) -> None:
    x = LAYOUTS[layout](ODD[odd](values(dtype)))
    for name, call in CALLS.items():
        want = call(x)
        with npaccel.accelerate():
            got, usual = call(x), call(x.astype(dtype, order="K"))
        assert (got.dtype, got.shape, got.strides) == (want.dtype, want.shape, want.strides), name
        assert got.tobytes() == usual.tobytes(), name
        np.testing.assert_allclose(got, want, rtol=4 * np.finfo(want.dtype).eps)


@pytest.mark.parametrize("layout", ["as it is", "transposed", "axes exchanged", "none"])
@pytest.mark.parametrize("odd", ODD)
def test_any_order_is_told_by_what_was_given(odd: str, layout: str) -> None:
    x = LAYOUTS[layout](ODD[odd](values("f4")))
    want = np.sin(x, order="A")
    with npaccel.accelerate():
        assert np.sin(x, order="A").strides == want.strides


@pytest.mark.parametrize("odd", ODD)
def test_warnings_and_errors_are_numpys(odd: str) -> None:
    x = ODD[odd](np.linspace(-2, 2, 8))
    for call in (np.log, np.arcsin, lambda x: np.exp(400 * x)):
        told = []
        for inside in (False, True):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                if inside:
                    with npaccel.accelerate():
                        np.asarray(call(x)).tobytes()
                else:
                    call(x)
            told.append(sorted(str(one.message) for one in caught))
        assert told[0] == told[1] != []
    with npaccel.accelerate(), pytest.raises(ValueError, match="could not be broadcast"):
        np.arctan2(x, np.ones(3))
    with npaccel.accelerate(), np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        np.log(x)


@pytest.mark.pending
def test_what_has_numpys_bits_anyway_is_not_copied() -> None:
    x = field(np.ones(1000), 3)
    for call, left in [(np.add, 1), (np.arctan2, 0)]:
        before = npaccel.stats()["fallbacks"]
        with npaccel.accelerate():
            call(x, x)
        assert npaccel.stats()["fallbacks"] == before + left
