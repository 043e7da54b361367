"""What tests of tiers and of the helper share: an adaptive engine that begins cold."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import npaccel
from npaccel import this_process
from npaccel.runtime.devices.cost import Costs
from npaccel.runtime.engine import tiers as tiers_module

N = 20_000


WAIT_S = 60.0


@pytest.fixture
def adaptive(setting, tmp_path: Path, monkeypatch) -> Iterator[None]:
    """Adaptive from a cold start; compiling always pays from the second run on, planning always;
    each run asks."""
    monkeypatch.setattr(tiers_module, "REST_S", 0.0)
    setting("cache_dir", str(tmp_path / "cache"))
    setting("tiering", "adaptive")
    monkeypatch.setattr(Costs, "compiling_pays", lambda self, spent_s, requests: True)
    monkeypatch.setattr(Costs, "planning_pays", lambda self, spent_s, requests: True)
    cold()
    yield
    this_process.helper().stop()
    this_process.helper.made = None
    cold()


def cold() -> None:
    npaccel.evaluate()
    engine = this_process.engine
    engine.traces.clear()
    engine.kernels.clear()
    engine.templates.clear()
    engine.tiers.forget()
    engine.answers.forget()
    npaccel.stats(reset=True)


def operand(n: int = N, seed: int = 0) -> npaccel.Array:
    return npaccel.asarray(np.random.default_rng(seed).uniform(0.5, 2.0, n))


def until(step: Callable[[], bool]) -> int:
    """Repeat `step` until it is true; how often it was not."""
    end = time.monotonic() + WAIT_S
    for times in range(10**9):
        if step():
            return times
        assert time.monotonic() < end, "it never came"
        time.sleep(0.002)
    raise AssertionError


def runs_a_kernel(program: Callable[[], object]) -> bool:
    before = npaccel.stats()["kernels"]
    npaccel.evaluate(program())
    return npaccel.stats()["kernels"] > before
