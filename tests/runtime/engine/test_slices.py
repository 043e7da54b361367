"""Short of memory, temporary arrays are computed piece by piece, with the same bits."""

from __future__ import annotations

import ctypes
import gc
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npaccel

pytestmark = [
    pytest.mark.pending,
    pytest.mark.room,
    pytest.mark.skipif(npaccel.config.check != "off", reason="all results are looked at"),
]

ROWS, COLUMNS = 300, 700
ONE = 8 * ROWS * COLUMNS  # bytes of a temporary array


def field(x, y):
    return np.exp(-((x[:, None] - y) ** 2))


def of_all(x, y):
    t = field(x, y)
    return (t / t.sum(keepdims=True)).max(axis=1)


def of_columns(x, y):
    t = field(x, y)
    return (t / t.sum(axis=0)).max(axis=1)


def of_rows(x, y):
    t = field(x, y)
    t = t / t.sum(axis=1, keepdims=True)
    return (t[1:] * t[:-1]).max(axis=1)


def stencil(x, y):
    t = field(x, y)
    u = t[1:-1, 1:-1] * -4 + t[2:, 1:-1] + t[:-2, 1:-1] + t[1:-1, 2:] + t[1:-1, :-2]
    u = u[1:] - u[:-1]
    return np.sqrt(u * u + 1.0).sum(axis=1)


def transposed(x, y):
    t = field(x, y)[:, :ROWS]
    return (t + t.T).max(axis=1)


def backwards(x, y):
    t = field(x, y)
    return (t * t[::-1, ::-1] - t[:, ::-1]).sum(axis=1)


def flat(x, y):
    t = field(x, y).reshape(-1)
    return (t[1:] - t[:-1])[: 2 * ROWS] * 2.0


def scanned(x, y):
    t = np.cumsum(field(x, y), axis=1)
    return (t[:, 1:] - 0.5 * t[:, :-1]).max(axis=1)


def places(x, y):
    t = field(x, y)
    return (t[:, ::2] - t[:, 1::2]).argmax(axis=1)


def chosen(x, y):
    t = field(x, y)
    return np.where(t > 0.5, t[:, ::-1], np.float32(1) * t).astype(np.float32).sum(axis=1)


def in_place(x, y):
    t = field(x, y)
    t += 1.0
    t *= x[:, None]
    return (t[1:] - t[:-1]).sum(axis=1)


WORKS = [of_all, of_columns, of_rows, stencil, transposed, backwards, flat, scanned, places]
WORKS += [chosen, in_place]


@pytest.fixture
def limit(setting: Callable[[str, object], None]) -> Iterator[Callable[[float], None]]:
    """From now on results may take so many bytes more than they do."""
    setting("nursery", 0)
    setting("host_memory", 0)

    def allow(more: float) -> None:
        gc.collect()
        npaccel.evaluate()
        setting("host_memory", npaccel.stats()["used_bytes"] + int(more))
        npaccel.stats(reset=True)

    yield allow
    npaccel.config.host_memory = 0


def inputs(seed=0):
    r = np.random.default_rng(seed)
    return npaccel.asarray(r.random(ROWS)), npaccel.asarray(r.random(COLUMNS))


@pytest.mark.parametrize("tiering", ["eager", "off"])
@pytest.mark.parametrize("work", WORKS)
def test_where_no_temporary_array_fits(work, tiering, limit, setting) -> None:
    setting("tiering", tiering)
    x, y = inputs()
    want = np.array(npaccel.evaluate(work(x, y)))
    limit(0.8 * ONE)
    found = npaccel.evaluate(work(x, y))
    np.testing.assert_array_equal(np.asarray(found), want, strict=True)
    assert npaccel.stats()["sliced"] <= 1
    if tiering == "off" and work in (of_columns, stencil, transposed, scanned):
        assert npaccel.stats()["pieces"] > 1


def test_what_fits_is_not_cut(limit) -> None:
    x, y = inputs()
    want = np.array(npaccel.evaluate(stencil(x, y)))
    limit(8 * ONE)
    np.testing.assert_array_equal(np.asarray(npaccel.evaluate(stencil(x, y))), want)
    assert npaccel.stats()["sliced"] == npaccel.stats()["pieces"] == 0


def test_many_that_live_at_once(limit) -> None:
    """Sixteen of them, all of which NumPy has at a time."""

    def work(x, y):
        many = [np.sqrt(field(x, y) + i) for i in range(16)]
        total = sum(t.sum(axis=0) for t in many)
        return sum((t * total).max(axis=1) for t in many)

    x, y = inputs()
    want = np.array(npaccel.evaluate(work(x, y)))
    limit(0.8 * ONE)
    np.testing.assert_array_equal(np.asarray(npaccel.evaluate(work(x, y))), want)


def test_what_somebody_holds_has_to_fit(limit) -> None:
    """Then memory is short; nothing is lost, and it is there once there is more."""
    x, y = inputs()
    want = np.array(npaccel.evaluate(field(x, y)))
    limit(0.8 * ONE)
    held, sums = field(x, y), field(x, y).sum(axis=1)
    with pytest.raises(MemoryError, match=r"exp at .*test_slices.py"):
        npaccel.evaluate(held)
    with pytest.raises(MemoryError):
        npaccel.evaluate(held)
    npaccel.config.host_memory = 0
    np.testing.assert_array_equal(np.asarray(npaccel.evaluate(held)), want)
    np.testing.assert_allclose(np.asarray(sums), want.sum(axis=1))


def test_a_run_that_stopped_goes_on(limit) -> None:
    """What was computed for others before it is not there any more, and is computed again."""
    x, y = inputs()
    z = npaccel.asarray(np.ones(ROWS)) + 0.0

    def work():
        t = stencil(x, y)
        z.__iadd__(1.0)
        u = field(x, y)
        return t, (u / u.sum(axis=0)).max(axis=1), u[::-1] * 2.0

    want = [np.array(w) for w in npaccel.evaluate(*work())]
    limit(0.8 * ONE)
    found = work()
    for _ in range(2):
        with pytest.raises(MemoryError):
            npaccel.evaluate()
    npaccel.config.host_memory = 0
    for f, w in zip(npaccel.evaluate(*found), want, strict=True):
        np.testing.assert_array_equal(np.asarray(f), w)
    assert z[0] == 3.0


def test_who_reads_memory_gets_it(limit) -> None:
    """A read through a pointer can't be told that memory is short."""
    x, y = inputs()
    want = np.array(npaccel.evaluate(field(x, y)))
    limit(0.8 * ONE)
    held = field(x, y)
    with pytest.raises(MemoryError):
        npaccel.evaluate(held)
    header = 2 * ctypes.sizeof(ctypes.c_void_p)  # of an object; its address follows
    address = ctypes.c_void_p.from_address(id(held) + header).value
    found = np.frombuffer(ctypes.string_at(address, held.nbytes)).reshape(want.shape)
    np.testing.assert_array_equal(found, want)


def test_results_that_would_not_fit_wait(limit, setting) -> None:
    """They may be dead before anybody wants them, so no limit of what waits makes them run."""
    x, y = inputs()
    setting("memory_limit", 2 * ONE)

    def work():
        chain = [field(x, y)]
        for i in range(12):
            chain.append(chain[-1] * 0.5 + i)
        return chain[-1].sum(axis=1)

    want = np.array(npaccel.evaluate(work()))
    limit(1.5 * ONE)
    np.testing.assert_array_equal(np.asarray(npaccel.evaluate(work())), want)


def test_runs_in_flight_are_waited_for(limit) -> None:
    x, y = inputs()
    want = np.array(npaccel.evaluate(stencil(x, y)))
    limit(1.6 * ONE)
    futures = [npaccel.evaluate(stencil(x, y), wait=False) for _ in range(6)]
    np.testing.assert_array_equal(np.asarray(npaccel.evaluate(stencil(x, y))), want)
    for future in futures:
        np.testing.assert_array_equal(np.asarray(future.result()), want)


def test_warnings_come_once(limit) -> None:
    x, y = inputs()

    def work():
        t = 1.0 / np.rint(field(x, y))
        unseen = np.sqrt(-t)  # for its warning only
        del unseen
        return (t - t.max(axis=0)).max(axis=1)

    def heard():
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            npaccel.evaluate(work())
        return sorted((str(w.message), w.lineno) for w in found)

    want = heard()
    assert want
    limit(0.8 * ONE)
    assert heard() == want


# What random programs are made of: each takes two arrays of one shape.
STEPS = [
    lambda x, y: x + y,
    lambda x, y: x * y - 1.5,
    lambda x, y: np.sqrt(np.abs(x) + 1.0),
    lambda x, y: x[::-1] * 0.5 + y,
    lambda x, y: x[:, ::-1] + 1.0,
    lambda x, y: x - x.mean(axis=1, keepdims=True),
    lambda x, y: x - y.max(axis=0),
    lambda x, y: x / (np.abs(y).sum(keepdims=True) + 1.0),
    lambda x, y: np.cumsum(x, axis=1) * 1e-3,
    lambda x, y: np.cumsum(x, axis=0) * 1e-3,
    lambda x, y: np.roll(x, 3, axis=0),
    lambda x, y: np.where(x > y, x, y),
    lambda x, y: (x.T * 0.25 + 1.0).T,
    lambda x, y: x.reshape(-1)[::-1].reshape(x.shape) * 1.0,
    lambda x, y: x.astype(np.float32) * np.float32(0.3),
    lambda x, y: np.concatenate([np.maximum(x[1:], x[:-1]), x[:1]]),
]


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(STEPS), st.integers(0, 5), st.integers(0, 5)), max_size=9
    ),
    shape=st.tuples(st.integers(90, 250), st.integers(70, 300)),
    arrays=st.floats(0.5, 3.5),
    seed=st.integers(0, 9),
)
def test_random_programs(steps, shape, arrays, seed) -> None:
    sources = np.random.default_rng(seed).standard_normal((2, *shape))

    def work():
        made = [npaccel.asarray(s) for s in sources]
        for step, i, k in steps:
            made.append(step(made[i % len(made)], made[k % len(made)]))
            del made[: len(made) - 6]
        last, other = made[-1], made[-2]
        return [last.sum(axis=1), other.max(axis=0), (last * 1.0).sum(keepdims=True)]

    before, npaccel.config.nursery = npaccel.config.nursery, 0
    try:
        want = [np.array(w) for w in npaccel.evaluate(*work())]
        gc.collect()
        more = int(arrays * sources[0].nbytes) + (1 << 17)
        npaccel.config.host_memory = npaccel.stats()["used_bytes"] + more
        found = work()
        try:
            npaccel.evaluate(*found)
        except MemoryError:  # what is rolled is not cut; all goes on with more
            npaccel.config.host_memory = 0
            npaccel.evaluate(*found)
        for f, w in zip(found, want, strict=True):
            np.testing.assert_array_equal(np.asarray(f), w, strict=True)
    finally:
        npaccel.config.host_memory = 0
        npaccel.config.nursery = before


def test_settings_are_put_back_where_what_waits_needs_the_memory(setting) -> None:
    """Each change has what waits run, which needs the limit that was put back."""
    setting("nursery", 0)
    x = npaccel.asarray(np.arange(500_000.0))
    threads = npaccel.config.threads
    npaccel.evaluate()
    limit = npaccel.stats()["used_bytes"] + 4 * x.nbytes
    with npaccel.config(threads=threads + 1, host_memory=limit):
        rolled = [np.roll(x, k) * 2 for k in range(12)]
        with pytest.raises(MemoryError):
            npaccel.evaluate(*rolled)
    assert npaccel.config.threads == threads
    for k, found in enumerate(rolled):
        np.testing.assert_array_equal(np.asarray(found), np.roll(np.asarray(x), k) * 2)
