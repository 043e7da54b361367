"""cross, isclose, median and others, of few numbers: NumPy's to the bit, and in its words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import npaccel

from ..differential import DTYPES, FOREIGN, THOROUGH, edge_values
from .comparison import Case, all_same
from .test_makers import arrays
from .test_transforms import _python_of

LINE = np.arange(6.0)
OTHERS: tuple[Any, ...] = (0, 1.5, True, None, "x", 2j, 10**400, [1.0, 2.0], np.float64(0.1))
TOLERANCES: tuple[dict[str, Any], ...] = (
    {},
    {"rtol": 0.5},
    {"atol": 1},
    {"rtol": 0, "atol": 0.25},
    {"rtol": np.nan},
    {"atol": np.inf},
    {"rtol": LINE},
    {"equal_nan": True},
    {"what": 1},
)


def _pairs(a: Any, b: Any) -> Iterator[Case]:
    for function in (np.cross, np.isclose, np.allclose, np.append):
        yield (function, a, b), function, lambda: (a, b)
    for given in TOLERANCES:
        for function in (np.isclose, np.allclose):
            yield (
                (function, a, b, given),
                lambda x, y, f=function, g=given: f(x, y, **g),
                lambda: (a, b),
            )
    yield ("tolerances", a, b), np.isclose, lambda: (a, b, 0.25, 0.5)
    for wide in (2**62, 2**63, 2**70, -(2**70), 10**400):
        yield (wide, a, b), np.isclose, lambda wide=wide: (a, b, wide)
        yield ("absolute", wide, a, b), np.allclose, lambda wide=wide: (a, b, 0, wide)
        yield ("number", wide, a), np.allclose, lambda wide=wide: (a, wide)
        yield ("step", wide, a), np.gradient, lambda wide=wide: (a, wide)
    yield ("along", a, b), lambda x, y: np.append(x, y, axis=0), lambda: (a, b)
    yield ("axis", a, b), lambda x, y: np.cross(x, y, axis=0), lambda: (a, b)


def _alone(a: Any) -> Iterator[Case]:
    for function in (np.median, np.gradient):
        yield (function, a), function, lambda: (a,)
        yield (function, a, "axis"), lambda x, f=function: f(x, axis=0), lambda: (a,)
    for step in (2, 0.5, 0, 0.0, -1e-300, np.float64(0.3), np.float32(0.3), None, LINE, "x", 1j):
        yield ("gradient", a, step), np.gradient, lambda step=step: (a, step)
    yield ("median, kept", a), lambda x: np.median(x, keepdims=True), lambda: (a,)
    yield ("edge", a), lambda x: np.gradient(x, edge_order=2), lambda: (a,)


@pytest.mark.parametrize("dtype", [*DTYPES, *FOREIGN])
def test_of_one_array(dtype: str) -> None:
    for array in arrays(dtype):
        all_same(_alone(array))


def test_of_lines() -> None:
    random = np.random.default_rng(4)
    for size in (1, 2, 3, 4, 9, 10, 511, 512, 513, 700):
        line = random.standard_normal(size)
        for a in (
            line,
            line[::-1],
            np.clip(line, -1, 1) * 1e308,
            np.where(line > 1, np.nan, line),
            line * 1e-310,
        ):
            all_same(_alone(a))
        all_same(_alone(np.where(line > 0, np.inf, line)))
        all_same(_alone(np.resize([0.0, -0.0], size)))
        all_same(_alone(np.resize(line, (size, 3))))


@pytest.mark.one_in(2)
@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors")
@pytest.mark.parametrize("dtype", [*DTYPES, *FOREIGN])
def test_of_an_array(dtype: str) -> None:
    for array in arrays(dtype):
        for other in (array, LINE[: array.size], *OTHERS[:3]):
            all_same(_pairs(array, other))


@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors")
def test_of_others() -> None:
    for other in OTHERS:
        all_same(_pairs(LINE[:3].copy(), other))
        all_same(_pairs(other, LINE[:3].copy()))


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "c16"])
def test_of_vectors(dtype: str) -> None:
    random = np.random.default_rng(3)
    shapes: list[tuple[int, ...]] = [(3,), (1, 3), (7, 3), (2, 7, 3), (3, 3), (7, 1), (1,), (0, 3)]
    made = [(random.random(shape) * 9 - 4).astype(dtype) for shape in shapes]
    made += [made[2][::-1], made[4].T, np.asfortranarray(made[4]), made[2][:, ::-1]]
    for number, a in enumerate(made):
        for b in made if THOROUGH else made[number % 3 :: 3]:
            all_same(_pairs(a, b))
            all_same(_pairs(a, a + np.asarray(1e-9).astype(a.dtype)))


@pytest.mark.parametrize("errors", ["ignore", "warn", "raise"])
def test_what_is_told_of(errors: Any) -> None:
    edges = np.resize(edge_values("f8"), 30)
    with np.errstate(all=errors):
        for a in (edges, edges.reshape(10, 3), *edges.reshape(10, 3), np.full(3, 1e-200)):
            for b in (a, a[::-1].copy(), np.full(a.shape, 1e308), 0.0, np.nan, np.inf):
                all_same(_pairs(a, b))


@pytest.mark.pending
def test_no_python_code_runs() -> None:
    a, b = LINE[:3] + 0.5, LINE[3:] * 2.0
    with npaccel.accelerate():
        for call in (
            lambda: np.cross(a, b),
            lambda: np.isclose(a, b),
            lambda: np.allclose(a, b, atol=1.0),
            lambda: np.append(a, 1.0),
            lambda: np.append(a, b),
            lambda: np.median(a),
            lambda: np.gradient(a),
            lambda: np.gradient(a, 0.5),
        ):
            named = {"cross", "isclose", "allclose", "append", "median", "gradient"}
            assert not named & _python_of(call)
        assert "cross" in _python_of(lambda: np.cross(a, b, axis=0))
