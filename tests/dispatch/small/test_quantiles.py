"""Percentiles, partition, convolve, diag, triangles and the like of few: NumPy's to the bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import npaccel

from ..differential import DTYPES, FOREIGN, edge_values
from .comparison import Case, all_same
from .test_makers import arrays
from .test_transforms import _python_of

ASKED: tuple[Any, ...] = (
    *(0, 1, 50, 90, 100, 33.3, 0.5, 0.25, 1.0, 99.99, 101, -1, -0.0, 2.5, 10**400, np.nan, None),
    *(
        True,
        "x",
        1j,
        [10, 90],
        [0.1, 0.9],
        (0.25, 0.5, 0.75),
        [[0.5]],
        [],
        [1, 0.5],
        [1, 2, 3],
        [True],
    ),
    *(np.float64(0.5), np.float32(50), np.int64(50), np.array([0.1, 0.9]), np.array(0.5)),
)
PLACES: tuple[Any, ...] = (0, 1, 3, -1, -3, 14, 15, 10**9, [1, 3], 1.0, True, None, np.int64(2))


def _quantiles(a: Any) -> Iterator[Case]:
    for q in ASKED:
        for function in (np.percentile, np.quantile):
            yield (function, a, q), function, lambda q=q: (a, q)
    for function in (np.percentile, np.quantile):
        for more in ({"axis": 0}, {"method": "lower"}, {"keepdims": True}):
            yield (function, a, more), lambda x, f=function, m=more: f(x, 0.5, **m), lambda: (a,)


def _others(a: Any) -> Iterator[Case]:
    for k in PLACES:
        for function in (np.partition, np.tril, np.triu, np.diag):
            yield (function, a, k), function, lambda k=k: (a, k)
        for function in (np.tril, np.triu):
            yield (function, a, "k", k), lambda x, f=function, k=k: f(x, k=k), lambda: (a,)
        yield ("fill", a, k), _filled, lambda k=k: (np.array(a), k)
    for function in (np.tril, np.triu, np.diag, np.copy, np.where, np.argmax, np.argmin):
        yield (function, a), function, lambda: (a,)
    for method in ("argmax", "argmin"):
        yield (method, a), lambda x, m=method: getattr(x, m)(), lambda: (a,)
    for other in (a, np.arange(3.0), np.arange(40.0), 2.0, [1.0, 2.0], np.zeros(0), "x"):
        yield ("convolve", a, other), np.convolve, lambda o=other: (a, o)
    yield ("same", a), lambda x: np.convolve(x, [1.0, 2.0], "same"), lambda: (a,)


def _filled(a: Any, value: Any) -> Any:
    a.fill(value)
    return a


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [*DTYPES, *FOREIGN])
def test_of_an_array(dtype: str) -> None:
    for array in arrays(dtype):
        all_same(_others(array))
        all_same(_quantiles(array))


def test_of_lines() -> None:
    random = np.random.default_rng(4)
    for size in (1, 2, 3, 4, 9, 10, 100, 101, 255, 256, 257, 258, 3001):
        line = random.standard_normal(size)
        for a in (
            line,
            line[::-1],
            np.round(line),
            line * 1e-310,
            np.clip(line, -1, 1) * 1.7e308,
            np.where(line > 1, np.nan, line),
            np.where(line > 0, np.inf, line),
            np.resize([0.0, -0.0, 1.0], size),
        ):
            all_same(_quantiles(a))
        if size <= 101:  # what comes of more is large
            all_same(_others(line))


@pytest.mark.parametrize("errors", ["ignore", "warn", "raise"])
def test_what_is_told_of(errors: Any) -> None:
    edges = np.resize(edge_values("f8"), 30)
    with np.errstate(all=errors):
        all_same(_quantiles(edges))
        all_same(_others(edges))


@pytest.mark.pending
def test_numpys_python_is_left_out() -> None:
    x, m, large = np.linspace(1, 2, 30), np.ones((3, 3)), np.linspace(1, 2, 5000)
    calls = {
        "nanmax": lambda: np.nanmax(large),
        "median": lambda: np.median(large),
        "quantile": lambda: np.percentile(x, 90),
        "ureduce": lambda: np.quantile(x, [0.1, 0.9]),
        "partition": lambda: np.partition(x, 3),
        "convolve": lambda: np.convolve(x, x),
        "diag": lambda: np.diag(x),
        "tri": lambda: np.triu(m),
        "copy": lambda: np.copy(x),
    }
    for part, call in calls.items():
        with npaccel.accelerate():
            inside = _python_of(call)
        assert any(part in name for name in _python_of(call)), part
        assert not any(part in name for name in inside), (part, inside)
