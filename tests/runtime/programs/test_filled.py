"""A template serves requests of other sizes that lie elsewhere, without Python, and no others."""

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
    assert counted("plans_moved") <= 4 and counted("native_requests") <= 8


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


def lags(x: Array, y: Array, first: int, last: int) -> list[Array]:
    """Ever shorter slices."""
    found = []
    for k in range(first, last):
        d = x[k:] - x[:-k]
        y[: len(d)] += d * d
        found.append(npaccel.evaluate(d / 3.0))
    return found


@pytest.mark.room
def test_sizes_need_few_programs() -> None:
    x, y = np.sin(np.arange(3000.0)), np.zeros(3000)
    mine = ours(x), ours(y)
    lags(*mine, 1, 5), lags(x, y, 1, 5)
    npaccel.stats(reset=True)
    got, expected = lags(*mine, 5, 300), lags(x, y, 5, 300)
    assert counted("plan_misses") <= 2 and counted("plans_moved") >= 290
    assert all(map(np.array_equal, got, expected))
    assert np.array_equal(np.asarray(mine[1]), y)


def elimination(a: Array) -> Array:
    for k in range(len(a) - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[k, k + 1 :]
    return a


@pytest.mark.room
def test_what_gets_smaller_in_two_dimensions() -> None:
    a = np.random.default_rng(1).normal(size=(60, 60)) + 60 * np.eye(60)
    x = ours(a)
    npaccel.stats(reset=True)
    assert np.array_equal(np.asarray(elimination(x)), elimination(a))
    assert counted("plans_moved") >= 20


@pytest.mark.room
def test_lengths_of_sums_that_are_cut_otherwise() -> None:
    """Rows are split from some length on, and numbers of parts hang on lengths."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        n = int(rng.choice([900, 1001, 40000, 65536, 70000, 131072, 140001]))
        x = rng.integers(-99, 99, n) * 1.0  # so sums are exact
        y = ours(x)
        assert (y * 2.0).sum() == (x * 2.0).sum()
        rows = int(rng.choice([63, 64, 65, 70])), int(rng.choice([900, 1001, 66000]))
        x = rng.normal(size=rows)
        y = ours(x)
        assert np.array_equal(np.asarray((y * 2.0).max(axis=1)), (x * 2.0).max(axis=1))


@pytest.mark.room
def test_what_ran_over_other_sizes_is_told_by_its_own() -> None:
    x = ours(np.arange(9000.0))
    for n in (1000, 2000, 3000, 4000):
        kept = npaccel.evaluate(x[:n] * 2.0 + x[-n:])
    report = str(npaccel.explain())
    assert "4000" in report and "3000" not in report
    assert float(kept[1]) == 5003.0


@pytest.mark.room
def test_another_number_of_threads(setting) -> None:
    x = ours(np.arange(300000.0))
    for threads in (1, 2, 1, 3):
        setting("threads", threads)
        for n in (200000, 250000, 299999):
            assert np.array_equal(np.asarray(x[:n] + x[-n:]), np.arange(n) + np.arange(3e5)[-n:])


@pytest.mark.room
def test_words_of_no_template_are_refused() -> None:
    x = npaccel.asarray(np.arange(5000.0))
    y = x[1:] * 2.0 + x[:-1]
    pending = _native.pending()
    npaccel.evaluate(y)
    blank = _native.plans()[pending.key]
    for words in (b"", bytes(8), bytes(80), b"\xff" * 88, b"\x01" + bytes(879)):
        with pytest.raises(ValueError, match="not those of a template"):
            blank.fill(pending, words, False)
