"""What a thread does while another one plans or evaluates: it neither waits nor disturbs it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native, this_process
from npaccel.dispatch.fallback import FALLBACKS

pytestmark = pytest.mark.usefixtures("deferred")
N = 40_000
WAIT_S = 60.0
REASON = "another thread was evaluating"
PATIENCE = 8  # operations that are left to NumPy while another thread has something pending


def operand(seed: int = 0) -> Any:
    return npaccel.asarray(np.random.default_rng(seed).uniform(0.5, 2.0, N))


def passed() -> int:
    return sum(count for (_, reason, _), count in FALLBACKS.counts().items() if reason == REASON)


def in_thread(work: Callable[[], object]) -> list[object]:
    """Results of `work` in another thread."""
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join(WAIT_S)
    return results


@dataclass
class Planning:
    keys: list[bytes] = field(default_factory=list)  # that were to be planned
    entered: threading.Event = field(default_factory=threading.Event)
    leave: threading.Event = field(default_factory=threading.Event)


@contextmanager
def another_thread_plans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Planning]:
    """Inside, a thread is planning `x * 3.0`, until the end or `leave`."""
    engine, state = this_process.engine, Planning()
    program = engine._program

    def slow(pending: _native.Pending) -> Any:
        state.keys.append(pending.key)
        state.entered.set()
        state.leave.wait(WAIT_S)
        return program(pending)

    engine.traces.clear()
    monkeypatch.setattr(engine, "_program", slow)
    x = operand()
    values: list[float] = []
    thread = threading.Thread(target=lambda: values.append(float((x * 3.0)[7])))
    thread.start()
    assert state.entered.wait(WAIT_S)
    try:
        yield state
    finally:
        state.leave.set()
        thread.join(WAIT_S)
    assert values == [float(np.asarray(x)[7] * 3.0)]


def test_an_operation_that_needs_nothing_of_the_queue_is_numpy_s(monkeypatch) -> None:
    npaccel.evaluate()
    y, before = operand(1), passed()
    plain = np.array(y)
    with another_thread_plans(monkeypatch) as state:
        results = [y + 1.0, -y, y < 1.0, y**2, np.sin(y), y.sum(axis=0), np.where(y > 1, y, 0.0)]
        assert not any(_native.is_pending(r) for r in results if isinstance(r, np.ndarray))
        assert isinstance(results[0], npaccel.Array)  # the next operation on it is recorded
        assert passed() - before >= 6
    assert len(state.keys) == 1, "the plan was for a queue that did not change"
    wants = [plain + 1, -plain, plain < 1, plain**2, np.sin(plain), plain.sum(axis=0)]
    for result, want in zip(results, wants, strict=False):
        np.testing.assert_allclose(result, want, rtol=4e-16)
    recorded = [np.array(x) for x in (np.sin(y), y.sum(axis=0))]
    assert [results[4].tobytes(), results[5].tobytes()] == [x.tobytes() for x in recorded]


def test_what_writes_waits_for_the_run(monkeypatch) -> None:
    npaccel.evaluate()
    y, z, before = operand(1), npaccel.asarray(np.empty(N)), passed()
    with another_thread_plans(monkeypatch) as state:
        threading.Timer(0.02, state.leave.set).start()
        np.multiply(y, 2.0, out=z)
        assert passed() == before
    assert np.array_equal(z, np.asarray(y) * 2.0)


def test_what_another_thread_left_is_joined_after_a_while() -> None:
    """It may have ended, or never look at it."""
    npaccel.evaluate()
    x, y = operand(), operand(1)
    (left,) = in_thread(lambda: x * 2.0)
    before = passed()
    results = [y + float(i) for i in range(PATIENCE + 3)]
    assert passed() - before == PATIENCE
    assert [_native.is_pending(r) for r in results] == [False] * PATIENCE + [True] * 3
    assert _native.is_pending(left)
    for i, result in enumerate(results):
        assert np.array_equal(result, np.asarray(y) + i)
    assert np.array_equal(left, np.asarray(x) * 2.0)


def test_what_another_thread_left_may_be_used_at_once() -> None:
    npaccel.evaluate()
    x = operand()
    (left,) = in_thread(lambda: x * 2.0)
    assert _native.is_pending(left + 1.0)
    assert np.array_equal(left + 1.0, np.asarray(x) * 2.0 + 1.0)
