"""A program serves requests that are like its own but lie elsewhere, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("deferred")]

Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def compiled_at_once(setting) -> None:
    setting("tiering", "eager")


def counted(name: str) -> int:
    return int(npaccel.stats()[name])


def steps_of(u: Array) -> Array:
    for t in range(len(u) - 1):
        u[t + 1, 1:-1] = u[t, 1:-1] + 0.2 * (u[t, 2:] - 2 * u[t, 1:-1] + u[t, :-2])
        npaccel.evaluate()
    return u


def ours(a: Array) -> Array:
    """In our memory, so that writes into it may wait."""
    return npaccel.asarray(np.zeros_like(a)) + a


def test_a_history_needs_few_programs() -> None:
    u = np.zeros((60, 1000))
    u[0] = np.sin(np.arange(1000.0))
    x = ours(u)
    npaccel.stats(reset=True)
    assert np.array_equal(np.asarray(steps_of(x)), steps_of(u))
    assert counted("plan_misses") <= 4 and counted("plan_hits") >= 50
    assert counted("native_requests") <= 8


def test_rows_that_begin_with_a_line_or_not() -> None:
    """Results so large are stored past the cache, where they begin with a line."""
    u = np.random.default_rng(1).normal(size=(12, (4 << 17) + 1000 + 1))
    x = ours(u)
    for t in (0, 1, 2, 7, 8, 3, 0, 8, 10):
        x[t + 1] = x[t] * 0.5 + 1.0
        npaccel.evaluate()
        u[t + 1] = u[t] * 0.5 + 1.0
    assert np.array_equal(np.asarray(x), u)


def test_scalars_that_a_plan_uses() -> None:
    u = np.random.default_rng(1).normal(size=(40, 1000)) ** 2
    x = ours(u)
    for t, by in zip(range(30), [2.0, 4.0, 3.0] * 10, strict=True):
        assert np.array_equal(np.asarray(npaccel.evaluate(x[t] / by)), u[t] / by)
        power = np.asarray(npaccel.evaluate(x[t] ** (by - 1)))
        np.testing.assert_allclose(power, u[t] ** (by - 1), rtol=1e-14)


def drawn_offsets(rng: np.random.Generator, n: int) -> Iterator[list[int]]:
    """Of each round: all as far, each by itself, or one of them."""
    how, first = int(rng.integers(0, 4)), rng.integers(0, 3 * n, 4)
    for t in range(int(rng.integers(6, 14))):
        offsets = first + t * (8, 1, 0, 0)[how]
        if how == 2:
            offsets = rng.integers(0, 3 * n, 4)
        elif how == 3:
            offsets[int(rng.integers(0, 4))] += int(rng.integers(0, n))
        yield [int(k) % (3 * n) for k in offsets]


def run(seed: int, x: Array, y: Array, n: int) -> list[float]:
    """A few statements on views of two arrays, which lie elsewhere in each round."""
    rng = np.random.default_rng([seed, 1])
    statements = rng.integers(0, (5, 3, 3), (int(rng.integers(2, 6)), 3)).tolist()
    read = []
    for *places, last in drawn_offsets(rng, n):
        views = [x[i : i + n] for i in places]
        d, back = y[last : last + n], views[1][::-1]
        for kind, p, q in statements:
            if kind == 0:
                views[p][...] = views[q] * 0.5 + d
            elif kind == 1:
                views[p] += views[q] * 0.25
            elif kind == 2:
                y[last : last + n] = np.minimum(views[p], back) + d * 0.5
            elif kind == 3:
                x[places[0] : places[0] + n : 2] = views[q][::2] - d[::2]
            else:
                read.append(float((views[p] - views[q]).max()))
        npaccel.evaluate()
    return read


@pytest.mark.parametrize("seed", range(30))
def test_views_that_lie_to_each_other_in_all_ways(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(100, 900))
    arrays = [rng.normal(size=4 * n + 9) for _ in range(2)]
    plain = [a.copy() for a in arrays]
    expected = run(seed, plain[0], plain[1], n)
    mine = [ours(a) for a in arrays]
    assert run(seed, mine[0], mine[1], n) == expected
    for a, b in zip(mine, plain, strict=True):
        assert np.array_equal(np.asarray(a), b)


def test_what_is_no_place_is_refused() -> None:
    x = npaccel.asarray(np.arange(5000.0))
    y = x[1:] * 2.0 + x[:-1]
    key = _native.pending().key
    npaccel.evaluate(y)
    program = _native.plans()[key]
    for places in (b"", bytes(12), b"\xff" * 36, bytes(12 * 20)):
        assert not program.serve(key, places, (), b"")
    with pytest.raises(ValueError, match="a key, and 16 bytes for each scalar are needed"):
        program.serve(key, b"", (0, 1), b"")
    with pytest.raises(ValueError, match="a key, and 16 bytes for each scalar are needed"):
        program.serve(b"", b"", (), b"")
