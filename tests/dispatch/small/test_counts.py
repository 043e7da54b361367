"""count_nonzero, bincount, inner and vdot of few elements: as NumPy has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import npaccel

from ..differential import DTYPES, FOREIGN
from .comparison import Case, all_same
from .test_makers import arrays
from .test_transforms import _python_of

PLACES = np.array([3, 0, 7, 3, 3, 1])
WEIGHTS = np.array([0.1, -0.0, np.nan, 1e300, 2.5, np.inf])
MORE: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...] = (
    ((), {}),
    ((WEIGHTS,), {}),
    ((WEIGHTS, 9), {}),
    ((None, 20), {}),
    ((None, 2), {}),
    ((), {"minlength": 20}),
    ((), {"weights": WEIGHTS, "minlength": 4}),
    ((), {"weights": WEIGHTS[:3]}),
    ((), {"weights": np.ones(6, "f4")}),
    ((), {"weights": WEIGHTS[::-1]}),
    ((), {"weights": list(WEIGHTS)}),
    ((WEIGHTS,), {"weights": WEIGHTS}),
    ((), {"minlength": -1}),
    ((), {"minlength": 2.5}),
    ((), {"minlength": None}),
    ((), {"minlength": 5000}),
    ((), {"what": 1}),
    ((None, 1, 2), {}),
)


def _counts(a: Any) -> Iterator[Case]:
    yield ("count", a), np.count_nonzero, lambda: (a,)
    yield ("count along", a), lambda x: np.count_nonzero(x, axis=0), lambda: (a,)
    yield ("count kept", a), lambda x: np.count_nonzero(x, keepdims=True), lambda: (a,)
    for places, named in MORE:
        yield (
            ("bins", a, places, named),
            lambda x, p=places, g=named: np.bincount(x, *p, **g),
            lambda: (a,),
        )


def _products(a: Any, b: Any) -> Iterator[Case]:
    for function in (np.inner, np.vdot, np.dot):
        yield (function, a, b), function, lambda: (a, b)


@pytest.mark.parametrize("dtype", [*DTYPES, *FOREIGN])
def test_of_an_array(dtype: str) -> None:
    for array in arrays(dtype):
        all_same(_counts(array % 5 if array.dtype.kind in "iu" else array))
        all_same(list(_counts(array))[:3])
        with np.errstate(all="ignore"):
            for other in (array, array[::-1] if array.ndim else array, np.arange(3.0)):
                all_same(_products(array, other))


@pytest.mark.parametrize("dtype", ["i8", "i4", "u1", "u8", "?", ">i8"])
def test_bins(dtype: str) -> None:
    for places in (PLACES, PLACES[:0], PLACES[:1], PLACES[::-1], PLACES.reshape(2, 3)):
        all_same(_counts(places.astype(dtype)))
    for places in (
        PLACES - 1,
        PLACES * 1365,
        np.array([2**15 - 2]),  # the last of a small array
    ):
        all_same(_counts(places))


@pytest.mark.parametrize("most", [2**15 - 2, 2**15 - 1, 2**18 - 1, 2**18])
def test_of_one_and_many_bins(most: int) -> None:
    """From so many on the result is a large one."""
    with npaccel.accelerate():
        counts, sums = np.bincount(np.array([most])), np.bincount(np.array([most]), np.array([0.5]))
    assert counts.shape == sums.shape == (most + 1,) and counts.sum() == counts[most] == 1
    assert sums.sum() == sums[most] == 0.5


def test_many() -> None:
    random = np.random.default_rng(8)
    for size in (63, 64, 300, 9000, 20_000):
        places, weights = random.integers(0, size, size), random.normal(size=size)
        all_same(_counts(random.random(size) < 0.5))
        all_same(_counts(places))
        all_same(
            [
                ("weighed", np.bincount, lambda x=places, w=weights: (x, w)),
                ("one is negative", np.bincount, lambda x=places: (np.append(x, -1),)),
                ("too great", np.bincount, lambda x=places: (np.append(x, 2**62),)),
            ]
        )


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i8"])
def test_last_bits_of_products(dtype: str) -> None:
    random = np.random.default_rng(6)
    for size in (1, 7, 8, 33, 100, 1000):
        wide = random.standard_normal((size, 2)) * 9
        a, b = (wide[:, k].astype(dtype) for k in (0, 1))
        for x in (a, a[::-1], wide.astype(dtype)[:, 0]):
            for y in (b, b[::-1], wide.astype(dtype)[:, 1], b[:-1]):
                all_same(_products(x, y))


@pytest.mark.pending
def test_no_python_code_runs() -> None:
    finite = WEIGHTS[:2]  # of products that overflow, some BLAS tell, and NumPy warns
    with npaccel.accelerate():
        for call in (
            lambda: np.count_nonzero(PLACES),
            lambda: np.bincount(PLACES, minlength=9),
            lambda: np.inner(finite, finite),
            lambda: np.vdot(PLACES, PLACES),
        ):
            assert _python_of(call) == {"<lambda>"}
