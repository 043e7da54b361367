"""Whatever threads there are, each task of a launch runs once; who runs it decides no bit."""

from __future__ import annotations

import numpy as np
import pytest

import npaccel

pytestmark = pytest.mark.usefixtures("deferred")


@pytest.mark.parametrize("tiering", ["eager", "off"])
@pytest.mark.parametrize("threads", [1, 2, 3, 16, 17, 40])
def test_tasks_are_shared_out(threads, tiering, setting) -> None:
    """Also among more threads than a launch has stretches of tasks, and than it has tasks."""
    setting("tiering", tiering)
    rng = np.random.default_rng(1)
    for n in (1000, 40_000, 1_000_001):
        x, y = rng.random(n), rng.random(n)
        with npaccel.config(threads=1):
            total = float((npaccel.asarray(x) * 1.25 + y).sum())
        with npaccel.config(threads=threads):
            for _ in range(3):
                u = npaccel.asarray(x.copy())
                u *= 1.25
                u += y
                assert np.array_equal(u, x * 1.25 + y)
                assert float((npaccel.asarray(x) * 1.25 + y).sum()) == total
