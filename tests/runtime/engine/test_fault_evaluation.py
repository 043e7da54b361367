"""What a touch of raw memory begins runs by the program that is known, and comes to have one."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
import threading
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from steps import unpack_steps

import npaccel
from npaccel import _native, this_process
from npaccel.runtime.programs.wire_format import Elsewhere, Step, pack_steps

pytestmark = pytest.mark.usefixtures("deferred")
N = 20_000
ROUNDS = 30
# The first touch is planned before the second.
UNPLANNED = 1


@pytest.fixture(autouse=True)
def nothing_known() -> None:
    npaccel.evaluate()
    this_process.engine.traces.clear()
    npaccel.config.threshold = 0  # a setting that is set makes the core forget what was touched
    npaccel.stats(reset=True)


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Callable[..., object]) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *args: object) -> object:
        self.calls += 1
        return self.function(*args)


def plain(n: int = N, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 2.0, n)


def touch(x: npaccel.Array) -> np.ndarray:
    """As code does that has never heard of npaccel."""
    raw = np.asarray(x)
    assert type(raw) is np.ndarray
    return raw * 1.0


def rounds(program: Callable[[], npaccel.Array], want: np.ndarray, n: int = ROUNDS) -> None:
    for _ in range(n):
        assert np.array_equal(touch(program()), want)


def counts(*names: str) -> tuple[int, ...]:
    found = npaccel.stats()
    return tuple(found[name] for name in names)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_loop_of_touches_comes_to_run_kernels(setting, threads: int) -> None:
    setting("threads", threads)
    npaccel.stats(reset=True)
    source = plain()
    x = npaccel.asarray(source)
    rounds(lambda: (x * 2.0 + 1.0) / (x + 3.0), (source * 2.0 + 1.0) / (source + 3.0))
    later = ROUNDS - UNPLANNED
    assert counts("fault_evaluations", "fault_programs", "kernels") == (ROUNDS, later, later)
    assert counts("plan_hits", "plan_misses", "tier0_runs") == (later, UNPLANNED, UNPLANNED)
    assert npaccel.stats()["native_requests"] == 4 * UNPLANNED


def test_it_says_so() -> None:
    x = npaccel.asarray(plain())
    for said in ("read directly", "llvm", "llvm"):
        y = x * 2.0 + 1.0
        touch(y)
        assert said in str(npaccel.explain(y))


def test_a_program_planned_by_calls_serves_touches_and_the_other_way_round() -> None:
    source = plain()
    x = npaccel.asarray(source)
    want = np.sqrt(source) * 3.0 + 1.5
    first = npaccel.evaluate(np.sqrt(x) * 3.0 + 1.5)
    assert np.array_equal(first, want)
    rounds(lambda: np.sqrt(x) * 3.0 + 1.5, want, 5)
    assert counts("fault_evaluations", "fault_programs") == (5, 5)
    rounds(lambda: np.sqrt(x) * 3.0 + 2.5, np.sqrt(source) * 3.0 + 2.5, 3)  # other scalars
    assert counts("fault_evaluations", "fault_programs") == (8, 8)
    npaccel.stats(reset=True)
    rounds(lambda: x - 1.25, source - 1.25, 3)
    assert np.array_equal(npaccel.evaluate(x - 1.25), source - 1.25)
    assert counts("plan_hits", "plan_misses") == (3, 1)


def test_what_was_visible_and_what_was_not_are_two_programs() -> None:
    """The temporary is dead in one and needed in the other: never the wrong one's result."""
    source = plain()
    x = npaccel.asarray(source)
    for _ in range(6):
        unseen = touch((x * 2.0) + 1.0)  # in an assertion pytest would keep the temporary
        assert np.array_equal(unseen, source * 2.0 + 1.0)
        kept = x * 2.0
        assert np.array_equal(touch(kept + 1.0), source * 2.0 + 1.0)
        assert np.array_equal(touch(kept), source * 2.0)
    assert counts("fault_programs") == (2 * (6 - UNPLANNED),)


def test_values_that_a_plan_used_belong_to_it() -> None:
    source = plain()
    x = npaccel.asarray(source)
    for exponent in [2.5, 9.0, 0.5] * 4:
        y = touch(x**exponent + 1.0)
        np.testing.assert_allclose(y, source**exponent + 1.0, rtol=1e-14)
    assert npaccel.stats()["fault_programs"] > 0


@pytest.mark.usefixtures("adaptive")
def test_what_never_comes_again_runs_block_by_block() -> None:
    for n in range(N, N + 20):
        source = plain(n)
        assert np.array_equal(touch(npaccel.asarray(source) * 2.0 + 1.0), source * 2.0 + 1.0)
    assert counts("fault_evaluations", "fault_programs", "tier0_runs") == (20, 0, 20)


def test_many_programs_by_turns_are_all_planned(setting) -> None:
    setting("backend", "numpy")  # as many kernels would take long to compile
    npaccel.stats(reset=True)
    source = plain()
    x = npaccel.asarray(source)
    for _ in range(3):
        for length in range(1, 41):
            y, want = x, source
            for _ in range(length):
                y, want = y + 1.5, want + 1.5
            assert np.array_equal(touch(y), want)
    assert counts("fault_evaluations", "fault_programs") == (120, 80)


@pytest.mark.parametrize(("rest_s", "asked"), [(1e-9, 100), (1e6, 1)])
def test_what_runs_block_by_block_is_asked_for_when_it_has_run_its_time(
    setting, monkeypatch, rest_s: float, asked: int
) -> None:
    monkeypatch.setattr("npaccel.runtime.engine.tiers.REST_S", rest_s)
    setting("tiering", "off")
    planned = Counted(this_process.engine.touched)
    monkeypatch.setattr(this_process.engine, "touched", planned)
    source = plain(1000)
    x = npaccel.asarray(source)
    npaccel.stats(reset=True)
    rounds(lambda: x * 2.0 + 1.0, source * 2.0 + 1.0, 200)
    assert asked - 1 <= planned.calls <= asked
    assert counts("fault_evaluations", "tier0_runs", "fault_programs") == (200, 200, 0)


def test_a_write_begins_the_known_program() -> None:
    for i in range(6):
        source = plain(1 << 16, seed=i)  # large enough to be protected and not copied
        want = source * 2.0 + 1.0
        y = npaccel.asarray(source) * 2.0 + 1.0
        ctypes.c_double.from_address(source.ctypes.data + 40_000).value = 0.25
        assert source[5000] == 0.25 and np.array_equal(y, want)
    assert counts("fault_evaluations", "fault_programs") == (6, 6 - UNPLANNED)


def test_warnings_come_as_ever_and_at_their_line() -> None:
    source = plain()
    source[7] = -1.0
    x = npaccel.asarray(source)
    lines = set()
    for _ in range(6):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            y = np.sqrt(x) + 1.0
            raw = touch(y)
            npaccel.evaluate()
        assert np.isnan(raw[7]) and np.isnan(raw).sum() == 1
        assert [str(w.message) for w in caught] == ["invalid value encountered in sqrt"]
        lines.add(caught[0].lineno)
    assert len(lines) == 1 and npaccel.stats()["fault_programs"] == 6 - UNPLANNED


def test_errors_are_raised_as_ever() -> None:
    source = plain()
    source[7] = 0.0
    x = npaccel.asarray(source)
    for _ in range(4):
        touch(x * 2.0 + 1.0)
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            touch(1.0 / x)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(RuntimeWarning, match="divide by zero"):
                touch(1.0 / x)


def test_check_mode_takes_no_short_cut(setting) -> None:
    source = plain()
    x = npaccel.asarray(source)
    npaccel.evaluate(x * 2.0 + 1.0)
    setting("check", "compute")
    npaccel.stats(reset=True)
    rounds(lambda: x * 2.0 + 1.0, source * 2.0 + 1.0, 5)
    assert counts("fault_evaluations", "fault_programs", "kernels") == (5, 0, 0)


def test_sizes_that_are_new_to_a_touch_need_no_planning() -> None:
    """A touch has no interpreter lock to make a program with: one is there before."""
    source = plain()
    x = npaccel.asarray(source)

    def round_of(n: int) -> None:
        assert np.array_equal(touch(x[:n] * 2.0 + x[-n:]), source[:n] * 2.0 + source[-n:])

    for n in range(N - 4, N):
        round_of(n)
    npaccel.stats(reset=True)
    for n in range(N - 40, N - 10):
        round_of(n)
    assert counts("fault_evaluations", "fault_programs", "plans_moved") == (30, 30, 30)


def test_code_of_other_packages_never_runs_under_a_touch(monkeypatch) -> None:
    """It may want the interpreter lock, which the thread that touches may hold."""
    program = _native.Program

    def of_another(steps: bytes, *rest: object) -> _native.Program:
        kernels = [step for step in unpack_steps(steps) if isinstance(step, Step)]
        return program(pack_steps([k._replace(elsewhere=Elsewhere(1)) for k in kernels]), *rest)

    monkeypatch.setattr(_native, "Program", of_another)
    monkeypatch.setattr(this_process.engine.templates, "known", lambda name: [])  # for the host's
    source = plain()
    x = npaccel.asarray(source)
    for _ in range(3):
        rounds(lambda: x * 2.0 + 1.0, source * 2.0 + 1.0, 3)
        assert np.array_equal(npaccel.evaluate(x * 2.0 + 1.0), source * 2.0 + 1.0)
    assert counts("fault_evaluations", "fault_programs", "plan_hits") == (9, 0, 2)
    assert npaccel.stats()["kernels"] == 3
    _native.plans().clear()


def test_a_block_s_backend_is_that_of_its_touches() -> None:
    source = plain()
    x = npaccel.asarray(source)
    for _ in range(5):
        with npaccel.accelerate(backend="numpy"):
            y = x * 2.0 + 1.0
        assert np.array_equal(touch(y), source * 2.0 + 1.0)
    assert npaccel.stats()["kernels"] == 0
    rounds(lambda: x * 2.0 + 1.0, source * 2.0 + 1.0, 5)
    assert npaccel.stats()["kernels"] == 5 - UNPLANNED


def test_other_settings_other_programs(setting) -> None:
    source = plain()
    x = npaccel.asarray(source)
    rounds(lambda: x * 2.0 + 1.0, source * 2.0 + 1.0, 1)  # waits to be planned
    setting("backend", "numpy")
    rounds(lambda: x * 2.0 + 1.0, source * 2.0 + 1.0, 4)
    assert npaccel.stats()["kernels"] == 0
    setting("backend", "auto")
    rounds(lambda: x * 2.0 + 1.0, source * 2.0 + 1.0, 4)
    assert npaccel.stats()["kernels"] > 0


def test_programs_live_as_long_as_somebody_runs_or_remembers_them() -> None:
    source = plain()
    x = npaccel.asarray(source)
    want = source * 2.0 + 1.0
    rounds(lambda: x * 2.0 + 1.0, want, 3)
    (program,) = _native.plans().values()
    npaccel.evaluate(x - 1.0)
    before = sys.getrefcount(program)
    rounds(lambda: x * 2.0 + 1.0, want, 40)
    for i in range(20):  # what explain() remembers goes
        npaccel.evaluate(x - float(i))
    assert sys.getrefcount(program) == before
    del program
    for _ in range(5):
        y = x * 2.0 + 1.0
        touch(y)
        _native.plans().clear()
        gc.collect()
        assert "operations in" in str(npaccel.explain(y))
        npaccel.evaluate(x * 2.0 + 1.0)


def test_without_the_guard_nothing_is_touched_that_is_pending(setting) -> None:
    setting("guard", "off")
    source = plain()
    x = npaccel.asarray(source)
    npaccel.stats(reset=True)
    rounds(lambda: x * 2.0 + 1.0, source * 2.0 + 1.0, 5)
    assert counts("fault_evaluations", "fault_programs") == (0, 0)


def test_threads_that_touch() -> None:
    wrong = []

    def work(seed: int) -> None:
        source = plain(seed=seed)
        x = npaccel.asarray(source)
        for i in range(60):
            if not np.array_equal(touch(x * 2.0 + float(i)), source * 2.0 + float(i)):
                wrong.append((seed, i))

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong and npaccel.stats()["fault_programs"] > 0


def test_the_table_is_a_mapping() -> None:
    table = _native.plans()
    program = _native.Program(None, 0, None, "")
    many = {b"%d" % i: program for i in range(1000)}
    table.update(many)
    assert dict(table) == many and len(table) == 1000 and sorted(table) == sorted(many)
    assert b"7" in table and b"x" not in table and table.get(b"x") is None
    for i in range(0, 1000, 2):
        del table[b"%d" % i]
    assert len(table) == 500 and b"8" not in table and table[b"9"] is program
    with pytest.raises(KeyError):
        del table[b"8"]
    with pytest.raises(KeyError):
        table[b"8"]
    for value in (None, "text", (program,)):
        with pytest.raises(TypeError):
            table[b"9"] = value
    with pytest.raises(TypeError):
        table["9"] = program  # type: ignore[index]
    assert table[b"9"] is program
    other = _native.Program(None, 0, None, "")
    table[b"9"] = other
    assert table[b"9"] is other and len(table) == 500
    before = sys.getrefcount(program)
    del many
    table.clear()
    assert len(table) == 0 and list(table) == [] and sys.getrefcount(program) < before


@pytest.mark.parametrize("within", [False, True])
def test_the_numpy_backend_has_numpy_s_bits_at_the_first_touch_too(setting, within: bool) -> None:
    source = plain(200_000)
    x = npaccel.asarray(source)
    if not within:
        setting("backend", "numpy")
    for function in (np.sin, np.tanh, np.cbrt):
        want = function(source) + 0.0
        for _ in range(3):
            with npaccel.accelerate(backend="numpy") if within else contextlib.nullcontext():
                y = function(x) + 0.0
            assert np.array_equal(touch(y), want)
