"""Runs that a limit forces end with whole rounds of a loop; what is left stays right."""

from __future__ import annotations

import threading
import warnings

import numpy as np
import pytest

import npaccel
from npaccel import _native
from npaccel.runtime.engine.engine import Engine

pytestmark = pytest.mark.usefixtures("deferred")
N = 200


def loop(period: int):
    """A function of `period` operations, each on a line of its own."""
    lines = ["def step(x, y):"]
    for i in range(period - 1):
        target, source = "xy"[i % 2], "xy"[i % 3 == 0]
        lines.append(f"    {target} = {source} * {1 + i / 1000}")
    lines += ["    x = (x", "        + y)", "    return x, y"]
    scope: dict[str, object] = {}
    exec("\n".join(lines), scope)
    return scope["step"]


def rounds(step, wrap, n: int):
    x, y = wrap(np.linspace(-1.0, 1.0, N)), wrap(np.full(N, 0.5))
    x = x - 0.25  # what comes before the loop belongs to no round
    y = y * 2.0
    for _ in range(n):
        x, y = step(x, y)
        x = x * 0.125
    return x, y


@pytest.mark.parametrize(("period", "n"), [(37, 120), (369, 12)])
def test_a_long_loop_is_planned_three_times_at_most(period, n, setting) -> None:
    setting("backend", "numpy")  # kernels of so many operations take seconds to compile
    setting("queue_limit", 1000)
    step = loop(period - 1)
    _native.plans().clear()
    npaccel.stats(reset=True)
    found = npaccel.evaluate(*rounds(step, npaccel.asarray, n))
    counts = npaccel.stats()
    assert counts["requests"] == n * period + 2
    assert counts["flushes"] >= n * period // 1000
    assert counts["plan_misses"] <= 3
    for a, b in zip(found, rounds(step, np.asarray, n), strict=True):
        assert np.array_equal(a, b)


def test_kernels_of_rounds_are_the_same(setting) -> None:
    setting("queue_limit", 20)
    step = loop(6)
    npaccel.stats(reset=True)
    found = npaccel.evaluate(*rounds(step, npaccel.asarray, 40))
    counts = npaccel.stats()
    assert counts["flushes"] >= 40 * 7 // 20 and counts["plan_misses"] <= 3
    for a, b in zip(found, rounds(step, np.asarray, 40), strict=True):
        assert np.array_equal(a, b)


def test_a_memory_limit_cuts_between_rounds_too(setting) -> None:
    setting("memory_limit", 10 * N * 8)
    step = loop(6)
    kept = []
    npaccel.stats(reset=True)
    x, y = npaccel.asarray(np.ones(N)), npaccel.asarray(np.ones(N))
    for _ in range(40):
        x, y = step(x, y)
        kept.append(x)  # or memory would not grow
    found = [np.array(npaccel.evaluate(k)) for k in kept]
    counts = npaccel.stats()
    assert counts["flushes"] > 2
    x, y = np.ones(N), np.ones(N)
    for result in found:
        x, y = step(x, y)
        assert np.array_equal(result, x)


def test_what_is_left_pending_is_guarded(setting) -> None:
    """Results of the part that ran, which the rest reads, are right for raw readers and writers."""
    setting("queue_limit", 20)
    step = loop(6)
    for _ in range(3):
        arrays = [npaccel.asarray(np.linspace(0.0, 1.0, N)) for _ in "xy"]
        plain = [np.linspace(0.0, 1.0, N) for _ in "xy"]
        history, wanted = [], []
        for _ in range(9):  # 54 operations: two runs of whole rounds, and some left
            arrays, plain = step(*arrays), step(*plain)
            history.append(arrays[1])
            wanted.append(plain[1])
        assert _native.is_pending(arrays[0])
        raw = [_native.view_plain(array) for array in history]
        for a, b in zip(reversed(raw), reversed(wanted), strict=True):
            assert np.array_equal(a, b)
        raw[0][:] = 7.0  # nothing recorded before it may see this
        assert np.array_equal(npaccel.evaluate(arrays[0]), plain[0])


def test_a_write_to_an_input_of_the_rest(setting) -> None:
    setting("queue_limit", 20)
    x = np.linspace(0.0, 1.0, 50_000)
    a, y = npaccel.asarray(x), npaccel.asarray(np.zeros(50_000))
    plain = np.zeros(50_000)
    for _ in range(9):
        y = y * 0.5
        y = y + a
        y = np.sqrt(y)
        plain = np.sqrt(plain * 0.5 + x)
    assert _native.is_pending(y)
    x[:] = -1.0
    assert np.array_equal(npaccel.evaluate(y), plain)


def test_warnings_of_rounds_come_once_each(setting) -> None:
    setting("queue_limit", 20)
    x = npaccel.asarray(np.ones(N))
    zero = npaccel.asarray(np.zeros(N))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(30):
            x = x * 1.0
            y = x / zero
            x = np.where(np.isfinite(y), y, x)
        npaccel.evaluate(x)
    assert len([w for w in seen if "divide" in str(w.message)]) == 30
    assert {w.filename for w in seen} == {__file__}


def test_threads_record_while_another_one_cuts(setting) -> None:
    setting("queue_limit", 50)
    step = loop(6)
    wanted = rounds(step, np.asarray, 30)
    results: dict[int, tuple[np.ndarray, ...]] = {}

    def work(number: int) -> None:
        results[number] = npaccel.evaluate(*rounds(step, npaccel.asarray, 30))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for found in results.values():
        assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_a_plan_of_a_part_while_another_thread_asks_for_all(setting, monkeypatch) -> None:
    """What later requests read is dead for the key of all of them, and not for that of the part."""
    setting("queue_limit", 50)
    step = loop(6)
    wanted = rounds(step, np.asarray, 10)
    asked, planned = threading.Event(), threading.Event()
    calls: list[int] = []
    plan_now = Engine.__call__

    def plan(engine: Engine, key: bytes) -> _native.Program:
        calls.append(threading.get_ident())
        if len(calls) == 1:
            other.start()
            assert asked.wait(30)
            try:
                return plan_now(engine, key)
            finally:
                planned.set()
        if len(calls) == 2:
            asked.set()
            assert planned.wait(30)
        return plan_now(engine, key)

    other = threading.Thread(target=npaccel.evaluate)
    _native.plans().clear()
    monkeypatch.setattr(Engine, "__call__", plan)
    found = npaccel.evaluate(*rounds(step, npaccel.asarray, 10))
    other.join()
    assert len(calls) > 2
    assert calls[0] != calls[1]
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_no_loop_no_cut(setting) -> None:
    setting("queue_limit", 20)
    step = loop(30)  # no line twice
    npaccel.stats(reset=True)
    x, y = step(npaccel.asarray(np.ones(N)), npaccel.asarray(np.ones(N)))
    assert npaccel.stats()["flushes"] == 1
    plain = step(np.ones(N), np.ones(N))
    assert np.array_equal(npaccel.evaluate(x), plain[0])
    assert np.array_equal(npaccel.evaluate(y), plain[1])


def recurrence(y: np.ndarray) -> np.ndarray:
    """Rows from the ones before: many small operations, all of which need `y`."""
    z = y * 0.5 + 1.0
    for i in range(2, len(z)):
        z[i] = 0.25 * z[i - 1] - 0.5 * z[i - 2] + z[i]
    return z


def test_many_small_operations_on_something_pending_are_numpy_s(setting) -> None:
    setting("threshold", 4096)
    x = np.random.default_rng(3).random((300, 40))
    npaccel.stats(reset=True)
    z = recurrence(npaccel.asarray(x))
    assert npaccel.stats()["requests"] < 50
    assert np.array_equal(z, recurrence(x))


def test_few_small_operations_between_large_ones_cut_nothing(setting) -> None:
    setting("threshold", 4096)
    x = np.random.default_rng(3).random((50, 40))
    npaccel.stats(reset=True)
    z, expected = npaccel.asarray(x), x
    for _ in range(8):
        z, expected = z * 0.5 + 1.0, expected * 0.5 + 1.0
        for edge in (z, expected):
            edge[0] = edge[1]
            edge[-1] = 2.0 * edge[-2]
    assert npaccel.stats()["flushes"] == 0
    assert np.array_equal(z, expected)
