"""The last bits of sums do not hang on whether their array waits, lies there or is plain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native

THRESHOLD = 1 << 18
Function = Callable[[np.ndarray], Any]
FUNCTIONS: dict[str, Function] = {
    "sum": np.sum,
    "prod": lambda y: np.prod(1 + y * 1e-6),
    "mean": np.mean,
    "var": np.var,
    "var, ddof": lambda y: y.var(ddof=1),
    "std": lambda y: y.std(),
    "var of columns": lambda y: rows(y).var(axis=0),
    "std of rows": lambda y: np.std(rows(y), axis=1, keepdims=True),
    "var of a box": lambda y: y.reshape(-1, 10, 10).var(axis=(0, 2)),
    "means of columns": lambda y: rows(y).mean(axis=0),
    "sums of what is turned": lambda y: rows(y).T.sum(axis=1),
    "average": np.average,
    "average, weights": lambda y: np.average(y, weights=np.arange(y.size) + 1.0),
    "nansum": np.nansum,
    "nanmean": np.nanmean,
    "nanmean of rows": lambda y: np.nanmean(rows(y), axis=1),
    "nanvar": np.nanvar,
    "nanstd of columns": lambda y: np.nanstd(rows(y), axis=0),
    "cov": lambda y: np.cov(y.reshape(10, -1)),
    "corrcoef": lambda y: np.corrcoef(y.reshape(10, -1)),
    "norm": np.linalg.norm,
    "norm of all": lambda y: np.linalg.norm(rows(y), "fro"),
    "norms of rows": lambda y: np.linalg.norm(rows(y), axis=1),
    "norm of another order": lambda y: np.linalg.norm(y, 3),
    "trapezoid": lambda y: np.trapezoid(rows(y), axis=0),
    "cumsum": np.cumsum,
    "where": lambda y: np.sum(y, where=np.arange(y.size) % 3 == 0),
    "var, where": lambda y: np.var(y, where=np.arange(y.size) % 3 == 0),
    "nanstd, where": lambda y: np.nanstd(y, where=np.arange(y.size) % 3 == 0),
    "a product": lambda y: np.dot(y, y),
    "median": np.median,
    "histogram": lambda y: np.histogram(y.real, 20, density=True)[0],
    "softmax": lambda y: np.exp((y - y.max()) / 9) / np.exp((y - y.max()) / 9).sum(),
    "scores": lambda y: (y - y.mean()) / y.std(),
    "polyfit": lambda y: np.polyfit(np.arange(y.size) / y.size, y, 2),
}


def rows(y: np.ndarray) -> np.ndarray:
    return y.reshape(-1, 100)


@pytest.fixture(autouse=True)
def threshold() -> Iterator[None]:
    npaccel.config.threshold = THRESHOLD
    npaccel.evaluate()
    yield
    _native.trials(npaccel.config.tiering == "adaptive")


def numbers(kind: str, items: int) -> np.ndarray:
    x = np.random.default_rng(1).random(items) * 50 + 1
    return (x + 1j * x[::-1]).astype(kind) if kind == "c16" else x.astype(kind)


def bits(value: Any) -> bytes:
    return np.ascontiguousarray(value).tobytes()


@pytest.mark.one_in(4)
@pytest.mark.parametrize("kind", ["f8", "f4", "c16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_last_bits(name: str, kind: str) -> None:
    x, function = numbers(kind, 100_000), FUNCTIONS[name]
    if kind == "c16" and name in ("median", "softmax"):
        x = x.real.copy()
    expected = function(x * 1.5)
    plain = x * 1.5
    with npaccel.accelerate():
        seen = {bits(function(x * 1.5)), bits(function(plain))}
        y = x * 1.5
        npaccel.evaluate(y)
        seen.add(bits(function(y)))
        found = np.asarray(function(y))
    assert len(seen) == 1
    y = npaccel.asarray(x) * 1.5
    waits = bits(function(npaccel.asarray(x) * 1.5))
    npaccel.evaluate(y)
    assert bits(function(y)) == waits
    assert np.allclose(found, expected, rtol=2e-3 if kind == "f4" else 1e-10)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_last_bits_in_trials(name: str) -> None:
    """In rounds of NumPy's nothing waits."""
    if npaccel.config.check != "off":
        pytest.skip("everything is recorded, to be compared")
    x, function = numbers("f8", 40_000), FUNCTIONS[name]
    seen = set()
    for paces in ((1000, 1), (1, 1000)):
        _native.trials(True, *paces, 0)
        with npaccel.accelerate():
            for _ in range(70):
                seen.add(bits(function(x * 1.5)))
    assert len(seen) == 1


@pytest.mark.parametrize("kind", ["c8", "c16"])
def test_last_bits_of_complex_factors_that_go_back(kind: str) -> None:
    z = (numbers("f8", 70_000) + 1j * numbers("f8", 70_000)[::-1]).astype(kind)
    calls: tuple[Callable[[], np.ndarray], ...] = (
        lambda: z * z[::-1],
        lambda: z[::-1] * z,
        lambda: z[::-2] * z[:35_000],
        lambda: np.square(z[::-1]),
        lambda: z.reshape(7, -1)[::-1] * z.reshape(7, -1),
    )
    for call in calls:
        want = bits(call())
        for tiering in ("off", "eager"):
            with npaccel.config(tiering=tiering), npaccel.accelerate(min_size=0):
                assert bits(call()) == want
