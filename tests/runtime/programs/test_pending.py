"""What the planner is given: it does not change, whatever becomes of the queue meanwhile."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native, this_process
from npaccel.runtime.programs.trace import decode

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("deferred")]
N = 40_000
WAIT_S = 60.0


def told(pending: _native.Pending) -> tuple[Any, ...]:
    """All that is known of it."""
    places = np.array([[0, -1, 0], [0, 0, -1], [0, 0, 0]], "i4").tobytes()
    return (
        len(pending),
        pending.key,
        pending.serial,
        pending.placement,
        pending.residence,
        pending.sites,
        pending.outline,
        pending.points,
        pending.scalars,
        pending.rules,
        pending.structure(1, 1, 1),
        pending.numbers(places),
    )


def test_it_stays_as_it_was() -> None:
    npaccel.evaluate()
    x = npaccel.asarray(np.arange(float(N)))
    y = x * 3.0
    pending = _native.pending()
    before = told(pending)
    assert len(pending) == 1 and pending.scalars[:8] == np.float64(3.0).tobytes()
    kept = y + 1.0
    assert told(pending) == before and len(_native.pending()) == 2
    npaccel.evaluate(kept)
    del x, y, kept
    assert told(pending) == before
    assert len(_native.pending()) == 0 and _native.pending().serial > pending.serial


def test_it_says_who_is_dead() -> None:
    npaccel.evaluate()
    x = npaccel.asarray(np.arange(float(N)))
    y = x * 3.0
    z = y + 1.0
    dead = [buffer.dead for buffer in decode(_native.pending()).buffers]
    del y
    dead_now = [buffer.dead for buffer in decode(_native.pending()).buffers]
    assert (dead, dead_now) == ([False] * 3, [False, True, False])
    assert z[7] == 22.0


class Planner:
    """The engine's, which does something before it plans; `keys`: what it was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.keys: list[bytes] = []
        self.meanwhile = lambda: None
        engine = this_process.engine
        engine.traces.clear()
        self._program = engine._program
        monkeypatch.setattr(engine, "_program", self._plan)

    def _plan(self, pending: _native.Pending) -> _native.Program:
        before = told(pending)
        self.keys.append(pending.key)
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        assert told(pending) == before
        return self._program(pending)


def test_a_plan_is_kept_though_its_requests_have_run_meanwhile(monkeypatch) -> None:
    npaccel.evaluate()
    x = npaccel.asarray(np.arange(float(N)))
    planner = Planner(monkeypatch)
    y = x * 3.0
    raw = _native.view_plain(y)
    seen: list[float] = []
    planner.meanwhile = lambda: seen.append(raw[7])  # the evaluator runs what is pending
    npaccel.evaluate(y)
    assert seen == [21.0] and y[8] == 24.0 and len(planner.keys) == 1
    z = x * 3.0
    npaccel.evaluate(z)
    assert len(planner.keys) == 1, "what was planned for the queue as it was is known"
    assert z[9] == 27.0


def test_what_is_recorded_meanwhile_is_planned_for_itself(monkeypatch) -> None:
    # The other thread waits for our planning.
    monkeypatch.setattr("npaccel.runtime.engine.engine.LONGEST_S", 0.3)
    npaccel.evaluate()
    x, w = (npaccel.asarray(np.arange(float(N))) for _ in range(2))
    planner = Planner(monkeypatch)

    def more() -> None:
        thread = threading.Thread(target=np.multiply, args=(w, 5.0), kwargs={"out": w})
        thread.start()
        thread.join(WAIT_S)

    planner.meanwhile = more
    y = x * 3.0
    npaccel.evaluate(y)
    assert y[7] == 21.0 and w[7] == 35.0
    assert len(planner.keys) == 2, "first without, then with what the other thread has recorded"
    z = x * 3.0
    npaccel.evaluate(z)
    assert len(planner.keys) == 2 and z[7] == 21.0


def test_liveness_is_that_of_the_key(monkeypatch) -> None:
    """Though somebody dies meanwhile, and another key of the same requests is made."""
    npaccel.evaluate()
    x = npaccel.asarray(np.arange(float(N)))
    planner = Planner(monkeypatch)
    y = x * 3.0
    z = y + 1.0
    holder = [y]
    del y
    planner.meanwhile = lambda: (holder.clear(), _native.pending())
    npaccel.evaluate(z)
    assert z[7] == 22.0 and not holder
    y = x * 3.0
    z = y + 1.0
    npaccel.evaluate(z)
    assert len(planner.keys) == 1 and (y[7], z[7]) == (21.0, 22.0)
