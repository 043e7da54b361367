"""No macro section waits for a compiler: NumPy's loops run it until the helper's code is there."""

from __future__ import annotations

import time

import numpy as np
import pytest

import npaccel
from npaccel import this_process
from npaccel.runtime.engine.tiers import COMPILING

pytestmark = pytest.mark.usefixtures("deferred")
WAIT_S = 60.0


def forget() -> None:
    """As in a new process, but for the cache on disk."""
    npaccel.macro.clear()
    this_process.engine.kernels.clear()
    this_process.engine.tiers.forget()
    this_process.engine.answers.forget()
    npaccel.stats(reset=True)


@pytest.fixture
def helper_ends():
    yield
    this_process.helper().stop()
    this_process.helper.made = None


@pytest.fixture
def adaptive(setting, tmp_path, monkeypatch, helper_ends):
    setting("cache_dir", str(tmp_path / "cache"))
    setting("tiering", "adaptive")
    forget()
    monkeypatch.setattr(this_process.engine.kernels, "get", None)  # whoever compiles here fails


def section():
    @npaccel.macro
    def step(u, v, *, f=0.5):
        w = (u * v + f) / 2.0 - u**2
        return w.sum(axis=0), w * 3

    return step


def arguments(seed: int = 0):
    return [np.random.default_rng(seed + k).random((30, 40)) for k in range(2)]


def check(step, f: float, seed: int = 0) -> None:
    u, v = arguments(seed)
    w = (u * v + f) / 2.0 - u**2
    total, tripled = step(*arguments(seed), f=f)
    assert np.allclose(total, w.sum(axis=0), rtol=1e-13) and np.array_equal(tripled, w * 3)


def replace(step) -> None:
    """Call it until its code has come."""
    end, number = time.monotonic() + WAIT_S, 0
    while step._section.early:
        assert time.monotonic() < end
        number += 1
        check(step, 0.1 + number, number)
        time.sleep(0.01)


@pytest.mark.usefixtures("adaptive")
def test_code_comes_while_it_is_called() -> None:
    step = section()
    check(step, 0.25)
    assert [early.waiting.sequence.asked for early in step._section.early] == [False]
    assert COMPILING in str(npaccel.explain(step))
    check(step, 0.5)  # from the second call on it seems to be worth it
    assert [early.waiting.sequence.asked for early in step._section.early] == [True]
    replace(step)
    assert COMPILING not in str(npaccel.explain(step)) and "llvm" in str(npaccel.explain(step))
    for f in (0.5, 2.0, 4.0):  # powers of two, too, are numbers of the call
        check(step, f)
    stats = step.stats()
    assert (stats["variants"], stats["recordings"], stats["bodies"]) == (1, 1, 0)
    _, tripled = step(*arguments())
    assert isinstance(tripled, np.ndarray)

    forget()  # another process finds it on disk
    again = section()
    check(again, 0.25)
    assert again._section.early == []
    assert npaccel.stats()["kernels_loaded"] > 0


@pytest.mark.usefixtures("adaptive")
def test_a_compiler_that_rejects_it(monkeypatch) -> None:
    step = section()
    check(step, 0.25)
    early = step._section.early[0]
    early.waiting.sequence.refused = "not compiled: for a test"
    check(step, 0.5)
    assert step._section.early == [] and step.stats()["variants"] == 1
    assert "for a test" in str(npaccel.explain(step))
    check(step, 0.75)
    assert step.stats()["recordings"] == 1


@pytest.mark.usefixtures("adaptive")
def test_forgetting_while_it_compiles() -> None:
    step = section()
    for f in (0.25, 0.5, 0.75):
        check(step, f)
    step.clear()
    assert step.stats()["variants"] == 0
    for f in (0.25, 0.5):
        check(step, f)
    npaccel.macro.clear()
    npaccel.config.tiering = "eager"
    npaccel.config.tiering = "adaptive"
    check(step, 0.25)
    assert step.stats()["variants"] == 1


@pytest.mark.usefixtures("adaptive")
def test_without_a_helper_it_is_compiled_here(monkeypatch) -> None:
    monkeypatch.undo()
    npaccel.config.tiering = "adaptive"
    monkeypatch.setattr(this_process.engine.tiers, "ask", lambda *args: False)
    step = section()
    check(step, 0.25)
    check(step, 0.5)
    assert step._section.early == []
    check(step, 0.75)


def test_another_backend_has_a_recording_of_its_own(setting) -> None:
    setting("threshold", 1 << 16)
    step = section()
    check(step, 0.25)
    with npaccel.accelerate(backend="numpy"):
        check(step, 0.25)
        assert step.stats()["variants"] == 2
        assert "the setting backend is 'numpy'" in str(npaccel.explain(step))
        check(step, 0.5)
    check(step, 0.5)
    assert step.stats()["recordings"] == 2


@pytest.mark.one_in(2)
@pytest.mark.usefixtures("helper_ends")
@pytest.mark.parametrize("n", [5, 1000, 40_000])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_functions_have_the_same_bits_whether_there_is_code_or_not(setting, n, dtype) -> None:
    x = (np.random.default_rng(3).random(n) * 3 + 0.1).astype(dtype)
    for name in ("sin", "cos", "exp", "log", "tan", "tanh", "cbrt", "arctan"):
        function, bits = getattr(np, name), set()
        for tiering in ("eager", "off", "adaptive", "adaptive"):
            setting("tiering", tiering)
            section = npaccel.macro(lambda a, f=function: f(a * a.dtype.type(0.3)) * 2)
            bits |= {np.array(section(x)).tobytes() for _ in range(3)}
        assert len(bits) == 1, name
