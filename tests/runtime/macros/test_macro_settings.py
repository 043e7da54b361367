"""Macro sections nested, in threads, under settings; statistics and bounds."""

from __future__ import annotations

import gc
import os
import sys
import threading

import numpy as np
import pytest
from sections import plain_sizes, rand, replayed, same

import npaccel

__all__ = ["plain_sizes"]

pytestmark = pytest.mark.usefixtures("deferred")


# ---------------------------------------------------------------------- nesting, threads, settings


def test_sections_nest():
    @npaccel.macro
    def inner(x, f):
        return x * f

    @npaccel.macro
    def outer(x, f):
        return inner(x, f) + inner(x, f + 1.0)

    for f in (0.5, 1.5):
        same(outer(rand(4), f), rand(4) * f + rand(4) * (f + 1.0))
    assert outer.stats()["recordings"] == 1
    assert inner.stats()["recordings"] == 0
    same(inner(rand(4), 2.0), rand(4) * 2)


def test_threads_call_one_section():
    @npaccel.macro
    def step(x, f):
        y = x * f
        return y + y.sum(), y

    wrong = []

    def work(seed):
        for i in range(60):
            n = 100 if i % 2 else 40_000
            x = rand(n, seed=seed)
            total, y = step(x, float(i))
            if not np.allclose(np.asarray(total), x * i + (x * i).sum()):
                wrong.append((seed, i))
            del total, y

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and step.stats()["variants"] <= 8


def test_threads_record_into_a_small_cache(setting):
    setting("macro_cache", 3)
    wrong = []

    def work(seed):
        try:
            for i in range(25):
                section = npaccel.macro(lambda x, f: (x * f + x.sum(), x[1:]))
                for j in range(2):
                    x = rand(5 + i, seed=seed)
                    same(section(x, float(j)), (x * float(j) + x.sum(), x[1:]))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork():
    @npaccel.macro
    def step(x):
        return x * 2 + 1

    same(step(rand(10)), rand(10) * 2 + 1)
    child = os.fork()
    if child == 0:
        good = np.array_equal(step(rand(10, seed=1)), rand(10, seed=1) * 2 + 1)
        good = good and np.array_equal(step(rand(7)), rand(7) * 2 + 1)
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    same(step(rand(10)), rand(10) * 2 + 1)


@pytest.mark.parametrize(("name", "value"), [("guard", "off"), ("check", "compute")])
def test_settings_under_which_bodies_run(setting, name, value):
    @npaccel.macro
    def step(x):
        return np.sin(x) + 1, x.sum()

    setting(name, value)
    for i in range(2):
        same(step(rand(10, seed=i)), step.__wrapped__(rand(10, seed=i)))
    assert step.stats()["bodies"] == 2


def test_a_section_that_is_first_called_in_a_block(setting):
    setting("threshold", 0)
    generator = np.random.default_rng(1)

    @npaccel.macro
    def step(x, unused):
        return np.sqrt(x * x) + 1, x.sum()

    with npaccel.accelerate():
        for i in range(3):
            y, total = step(np.arange(4.0) + i, generator)
            assert np.array_equal(y, np.arange(4.0) + i + 1) and total == 6.0 + 4 * i
    assert step.stats()["recordings"] == 1 and step.stats()["bodies"] == 0


def test_the_reference_backend(setting):
    setting("backend", "numpy")

    @npaccel.macro
    def step(x, f):
        y = x * f
        return np.cumsum(y), y.max(), np.where(y > 1, y, 0)

    replayed(step, (rand(10), 2.0), (rand(10, seed=1), 3.0))


def test_the_cache_is_bounded(setting):
    setting("macro_cache", 4)

    @npaccel.macro
    def step(x):
        return x + 1

    for _ in range(2):
        for n in range(1, 9):
            same(step(rand(n)), rand(n) + 1)
    assert step.stats()["variants"] == 4
    npaccel.macro.clear()
    assert step.stats()["variants"] == 0
    same(step(rand(3)), rand(3) + 1)
    assert any("test_the_cache_is_bounded" in name for name in npaccel.macro.stats())


def test_counts_outlive_what_is_forgotten(setting):
    setting("macro_cache", 2)

    @npaccel.macro
    def step(x):
        return x + 1

    for n in (3, 4, 5, 6):
        for _ in range(4):  # recorded once, replayed three times
            same(step(rand(n)), rand(n) + 1)
    found = step.stats()
    assert found["variants"] == 2
    assert found["recordings"] == 4 and found["replays"] == 4 * 4 and found["bodies"] == 0
    npaccel.macro.clear()
    assert step.stats()["replays"] == found["replays"]
    step.clear()
    assert step.stats()["replays"] == found["replays"]


def test_nothing_is_leaked():
    @npaccel.macro
    def step(x, f):
        y = x * f
        return y, (y[1:], y.sum()), {"x": x}

    x = rand(100)
    step(x, 1.0)
    gc.collect()
    before = sys.getrefcount(x), npaccel.stats()["live_ranges"]
    for i in range(100):
        step(x, float(i))
    gc.collect()
    assert (sys.getrefcount(x), npaccel.stats()["live_ranges"]) == before


def test_a_section_keeps_its_name():
    @npaccel.macro
    def step(x):
        """Doc."""
        return x

    assert (step.__name__, step.__doc__) == ("step", "Doc.")


def test_explain_shows_a_section():
    @npaccel.macro
    def step(x):
        return np.sin(x) + 1, np.sort(x) if x.ndim > 1 else None

    assert "0 variants" in str(npaccel.explain(step))
    step(rand(5))
    step(rand(5, 2))
    explanation = npaccel.explain(step)
    assert [op.name for s in explanation.steps for op in s.operations] == ["sin", "add"]
    assert explanation.steps[0].operations[0].line == step.__wrapped__.__code__.co_firstlineno + 2
    assert "1 variant" in explanation.heading and "NumPy has to compute" in explanation.heading
