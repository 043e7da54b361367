"""Nothing waits for a compiler: NumPy's loops run at once, and kernels when they are there."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiering import WAIT_S, N, cold, operand, runs_a_kernel, until

import npaccel
from npaccel import _native, this_process
from npaccel.errors import NpaccelWarning
from npaccel.later import Once
from npaccel.runtime.devices.cost import Costs
from npaccel.runtime.engine import tiers as tiers_module
from npaccel.runtime.engine.tiers import Sequence, Tiers
from npaccel.runtime.programs.kernels import Kernels
from npaccel.runtime.programs.stored import StoredPrograms
from npaccel.runtime.programs.templates import Templates

pytestmark = pytest.mark.usefixtures("deferred")


@pytest.mark.usefixtures("adaptive")
def test_numpy_s_loops_first_and_kernels_when_they_are_there() -> None:
    x = operand()
    want = np.asarray(x) * 2.0 + np.asarray(x) / 3.0
    y = npaccel.evaluate(x * 2.0 + x / 3.0)
    assert np.array_equal(y, want)
    counts = npaccel.stats()
    assert (counts["tier0_runs"], counts["kernels"], counts["compiles"]) == (1, 0, 0)
    assert "until it has run long enough" in str(npaccel.explain(y))
    y = npaccel.evaluate(x * 2.0 + x / 3.0)
    y = npaccel.evaluate(x * 2.0 + x / 3.0)
    assert "while it compiles" in str(npaccel.explain(y))
    until(lambda: runs_a_kernel(lambda: x * 2.0 + x / 3.0))
    y = npaccel.evaluate(x * 2.0 + x / 3.0)
    assert np.array_equal(y, want)
    said = npaccel.explain(y)
    assert [step.backend for step in said.steps] == ["llvm"] and said.plan_known
    counts = npaccel.stats()
    assert counts["compiles"] == 1 and counts["tier0_runs"] >= 2


@pytest.mark.usefixtures("adaptive")
def test_an_answer_is_taken_over_in_steps_where_it_takes_long(monkeypatch) -> None:
    monkeypatch.setattr("npaccel.runtime.engine.answers.TAKING_S", -1.0)  # one step each
    loaded: list[int] = []
    add = Kernels.add
    monkeypatch.setattr(Kernels, "add", lambda self, *a: loaded.append(flushes) or add(self, *a))
    x, y = operand(), operand(N // 2)
    want = np.sqrt(np.asarray(x)) * 2.0
    tiers, flushes = this_process.engine.tiers, 0
    asked = tiers._number

    def step() -> bool:
        nonlocal flushes
        flushes += 1
        before = npaccel.stats()["kernels"]
        found, _ = npaccel.evaluate(np.sqrt(x) * 2.0, y * y + 1.0)
        assert np.array_equal(found, want)
        return npaccel.stats()["kernels"] > before

    until(step)
    assert len(loaded) > 1 and loaded == list(range(loaded[0], loaded[0] + len(loaded)))
    assert flushes == loaded[-1] + 1  # which made the program
    assert tiers._number == asked + 1


@pytest.mark.usefixtures("adaptive")
def test_what_only_touches_begin_is_compiled_by_the_helper_too() -> None:
    x = operand()
    want = (np.asarray(x) * 2.0 + 1.0) / np.asarray(x)

    def touched() -> bool:
        y = (x * 2.0 + 1.0) / x
        assert np.array_equal(np.asarray(y) * 1.0, want)  # read by NumPy, through its pointer
        return npaccel.stats()["fault_programs"] > 0

    times = until(touched)
    counts = npaccel.stats()
    assert (counts["compiles"], counts["kernels"]) == (1, 1)
    assert counts["tier0_runs"] == times == counts["fault_evaluations"] - 1
    assert [step.backend for step in npaccel.explain().steps] == ["llvm"]


def test_what_ran_a_moment_ago_does_not_ask_python_again(adaptive, monkeypatch) -> None:
    monkeypatch.setattr(tiers_module, "REST_S", 1e6)
    x = operand()
    for _ in range(5):
        npaccel.evaluate(x * 2 + 1)
    assert npaccel.stats()["plan_misses"] == 1
    assert npaccel.stats()["tier0_runs"] == 5
    npaccel.config.tiering = "eager"  # a setting asks about everything anew
    npaccel.evaluate(x * 2 + 1)
    assert npaccel.stats()["compiles"] == 1


def test_it_asks_again_when_it_has_taken_its_time(adaptive, monkeypatch) -> None:
    monkeypatch.setattr(tiers_module, "REST_S", 1e-9)
    x = operand()
    for _ in range(3):
        npaccel.evaluate(x * 2 + 1)
    assert npaccel.stats()["plan_misses"] == 3


@pytest.mark.usefixtures("adaptive")
def test_the_structure_of_what_comes_again_is_worked_out_once(monkeypatch) -> None:
    asked = []
    name = Templates.name
    monkeypatch.setattr(Templates, "name", lambda self, of: asked.append(0) or name(self, of))
    x = operand()
    for _ in range(3):  # looked for on disk, then sent to the helper
        npaccel.evaluate(x * 2 + 1)
    assert this_process.engine.tiers.busy or npaccel.stats()["compiles"]
    assert len(asked) == 1
    npaccel.evaluate(operand(N // 2) * 2 + 1)
    assert len(asked) == 2


@pytest.mark.usefixtures("adaptive")
def test_after_many_that_were_not_on_disk_new_ones_are_looked_for_when_they_come_again(
    monkeypatch,
) -> None:
    monkeypatch.setattr(tiers_module, "MOST_MISSED", 2)
    looked: list[bytes] = []
    find = StoredPrograms.find

    def found(self, pending, **options):
        looked.append(pending.key)
        return find(self, pending, **options)

    monkeypatch.setattr(StoredPrograms, "find", found)
    x = operand()
    until(lambda: runs_a_kernel(lambda: x - 7.0))
    this_process.engine.traces.clear()  # the next one is found on disk
    this_process.engine.tiers.forget()
    looked.clear()
    for body in (lambda: x * 2.0, lambda: x + 1.0, lambda: x / 3.0):
        npaccel.evaluate(body())
    assert len(looked) == 2  # and not the third
    npaccel.stats(reset=True)
    npaccel.evaluate(x - 7.0)
    assert (len(looked), npaccel.stats()["tier0_runs"]) == (2, 1)
    npaccel.evaluate(x - 7.0)
    assert (len(looked), npaccel.stats()["kernels"]) == (3, 1)
    npaccel.evaluate(abs(x))  # one was there, so new ones are looked for again
    assert len(looked) == 4


@pytest.mark.usefixtures("adaptive")
def test_the_collector_waits_while_a_flush_is_in_python(monkeypatch) -> None:
    on = []
    single = tiers_module.Tiers.single
    monkeypatch.setattr(
        tiers_module.Tiers,
        "single",
        lambda self, *args: on.append(gc.isenabled()) or single(self, *args),
    )
    npaccel.evaluate(operand() * 3 + 1)
    assert on == [False]
    assert gc.isenabled()


@pytest.mark.usefixtures("adaptive")
def test_what_runs_once_is_never_compiled() -> None:
    x = operand()
    for i in range(8):
        z = x
        for bit in range(3):
            z = z * 2.0 if i >> bit & 1 else z + 1.0
        npaccel.evaluate(z)
    counts = npaccel.stats()
    assert (counts["tier0_runs"], counts["compiles"]) == (8, 0)
    assert this_process.engine.tiers.helper is None


@pytest.mark.usefixtures("adaptive")
def test_new_scalars_and_sizes_run_the_same_kernel() -> None:
    until(lambda: runs_a_kernel(lambda: operand() * 2.0 + 1.0))
    # Once planned here, for a size that the helper did not see; then moved to any other.
    until(lambda: runs_a_kernel(lambda: operand(N + 1) * 2.0 + 1.0))
    npaccel.stats(reset=True)
    for i in range(20):
        y = npaccel.evaluate(operand(N + 10 + i) * (0.5 + i) + 1.0)
        assert np.array_equal(y, np.asarray(operand(N + 10 + i)) * (0.5 + i) + 1.0)
    counts = npaccel.stats()
    assert (counts["tier0_runs"], counts["compiles"], counts["kernels"]) == (0, 0, 20)


@pytest.mark.parametrize("cache", ["on", "off"])
def test_what_an_answer_leaves_out_is_found(adaptive, setting, cache: str) -> None:
    """The trace in the asker's words; the template for other sizes on disk, if it is there."""
    setting("cache", cache)
    until(lambda: runs_a_kernel(lambda: operand() * 2.0 + 1.0))
    (step,) = npaccel.explain().steps
    assert [operation.name for operation in step.operations] == ["multiply", "add"]
    engine = this_process.engine
    (known,) = [engine.templates._known[name] for name in engine.templates._known]
    assert (known.stored, known.packed is None) == (cache == "on", cache == "on")
    filled = engine.counters.moved
    until(lambda: runs_a_kernel(lambda: operand(N + 1) * 2.0 + 1.0))
    assert engine.counters.moved == filled + 1 and len(known.templates) == 1


@pytest.mark.usefixtures("adaptive")
def test_a_new_size_is_planned_for_once_its_loops_have_taken_as_long(monkeypatch) -> None:
    until(lambda: runs_a_kernel(lambda: operand() * 2.0 + 1.0))
    spent: list[float] = []

    def pays(self: Costs, spent_s: float, requests: int) -> bool:
        spent.append(spent_s)
        return len(spent) > 3

    monkeypatch.setattr(Costs, "planning_pays", pays)
    monkeypatch.setattr(this_process.engine.templates, "known", lambda name: [])
    monkeypatch.setattr(this_process.engine.templates, "load", lambda name: False)
    for run in range(4):
        result = npaccel.evaluate(operand(N + 1) * 2.0 + 1.0)
        assert np.array_equal(result, np.asarray(operand(N + 1)) * 2.0 + 1.0)
        assert ("planning for a new size" in str(npaccel.explain(result))) == (run < 3)
    # What k runs took, and one more like them: it adds up.
    assert len(spent) == 4
    totals = [expected * k / (k + 1) for k, expected in enumerate(spent)]
    assert 0 < totals[1] < totals[2] < totals[3]
    spent.clear()
    npaccel.evaluate(operand(10 * N) * 2.0 + 1.0)
    assert spent[0] > 0  # of a size that never ran


def test_time_expected_of_a_size_follows_that_of_another() -> None:
    class Timed:
        timing = (2, 0.5, 1.25)

    sequence = tiers_module.Sequence()
    unknown = sequence.spent(b"any", 1e9)
    assert 0.1 < unknown < 10
    timed: Any = Timed()
    sequence.add(b"one", timed)
    sequence.last = timed, 1000.0
    assert sequence.spent(b"another", 3000.0) == 1.5
    assert sequence.spent(b"one", 1000.0) == 1.25 * 3 / 2


@pytest.mark.usefixtures("adaptive")
def test_time_of_sizes_that_were_forgotten_counts() -> None:
    """A loop in which every size is new spends time all the same, and compiling comes to pay."""

    class Timed:
        timing = (1, 0.5, 0.25)

    sequence = tiers_module.Sequence()
    for number in range(1000):
        sequence.add(b"%d" % number, Timed())  # type: ignore[arg-type]
    assert len(sequence.programs) == tiers_module.SIZES
    assert sequence.seconds == 250.0


def test_values_that_a_plan_used_belong_to_it() -> None:
    x = operand()
    for exponent in (2, 3, 2, 3):
        until(lambda e=exponent: runs_a_kernel(lambda: x**e + 1.0))
        np.testing.assert_allclose(
            npaccel.evaluate(x**exponent + 1.0), np.asarray(x) ** exponent + 1.0, rtol=1e-14
        )


@pytest.mark.usefixtures("adaptive")
def test_a_known_program_runs_its_kernels_at_once() -> None:
    x = operand()
    until(lambda: runs_a_kernel(lambda: np.sqrt(x) + x))
    cold()
    y = npaccel.evaluate(np.sqrt(x) + x)
    counts = npaccel.stats()
    assert (counts["tier0_runs"], counts["kernels"], counts["kernels_loaded"]) == (0, 1, 1)
    said = npaccel.explain(y)
    assert said.steps[0].kernel and [op.name for op in said.steps[0].operations] == ["sqrt", "add"]


def test_off_compiles_nothing(setting) -> None:
    setting("tiering", "off")
    cold()
    x = operand()
    for _ in range(5):
        y = npaccel.evaluate(x * 3.0 + 1.0)
    counts = npaccel.stats()
    assert (counts["compiles"], counts["kernels"], counts["tier0_runs"]) == (0, 0, 5)
    assert "as the setting tiering says" in str(npaccel.explain(y))


@pytest.mark.usefixtures("adaptive")
def test_warnings_are_those_of_the_loops() -> None:
    x = npaccel.asarray(np.array([1.0, 0.0, -1.0] * 100))
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="divide by zero encountered in divide") as seen:
            npaccel.evaluate(2.0 / x)
        assert [warning.filename for warning in seen] == [__file__]


@pytest.mark.usefixtures("adaptive")
def test_an_answer_for_settings_of_before_is_passed_over(setting) -> None:
    """The numbers of jobs go on; the helper does not know that nobody waits any more."""
    x, tiers = operand(), this_process.engine.tiers
    while not tiers._jobs:
        npaccel.evaluate(x * 2.0 + 1.0)
    setting("threads", 1)  # forgets them
    assert until(lambda: runs_a_kernel(lambda: np.sqrt(x) * 3.0 + 1.0)) > 0


def test_one_thread_at_a_time_plans(monkeypatch) -> None:
    """A job of one thread was kept under the key of another one's: a kernel for other requests."""
    engine, events, entered, leave = this_process.engine, [], threading.Event(), threading.Event()

    def slow(key: bytes) -> bytes:
        events.append(("in", key))
        entered.set()
        leave.wait(WAIT_S)
        events.append(("out", key))
        return key

    monkeypatch.setattr(engine, "_program", slow)
    threads = [threading.Thread(target=engine, args=(key,)) for key in (b"a", b"b")]
    for thread in threads:
        thread.start()
    entered.wait(WAIT_S)
    time.sleep(0.02)  # for the other one
    leave.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert [what for what, _ in events] == ["in", "out"] * 2


@pytest.mark.usefixtures("adaptive")
def test_what_the_compiler_rejects_is_told_once(monkeypatch, helper_of) -> None:
    monkeypatch.setattr(this_process.engine.telling, "told", set())
    helper_of(
        "from npaccel.backends.llvm.backend import LlvmBackend\n"
        "from npaccel.errors import CompileError\n"
        "def refuse(self, kernel): raise CompileError('llvm: a test refuses')\n"
        "LlvmBackend.emit_object = refuse\n"
    )
    x = operand()
    told: list[npaccel.Failure] = []
    warned = pytest.warns(NpaccelWarning, match="a test refuses; the requests run")
    with warned as seen, npaccel.on_error(told.append):
        until(lambda: bool(npaccel.evaluate(x * 11.0 - 2.0) is not None and seen.list))
    (failure,) = told  # of what the helper was asked for, long ago
    assert failure[1:3] == ("multiply", __file__) and failure.kernel and failure.goes_on
    assert "x * 11.0" in Path(__file__).read_text().splitlines()[failure.line - 1]
    y = npaccel.evaluate(x * 11.0 - 2.0)
    assert "not compiled: llvm: a test refuses" in str(npaccel.explain(y))
    assert len(seen) == 1


def test_kernels_that_lose_are_given_up() -> None:
    x = operand()
    _native.plans().clear()
    want = npaccel.evaluate(x * 13.0 + 1.0)
    (program,) = _native.plans().values()
    program.baseline = 1e-9  # nothing is that fast
    for _ in range(9):
        y = npaccel.evaluate(x * 13.0 + 1.0)
    assert program.single and np.array_equal(y, want)
    assert program.lost > program.baseline
    for _ in range(3):  # by the loops, whose times are not those of the kernels
        y = npaccel.evaluate(x * 13.0 + 1.0)
    times = f"({program.lost * 1e3:.3g} ms against {program.baseline * 1e3:.3g} ms)"
    told = " ".join(str(npaccel.explain(y)).split())
    assert f"its kernels were slower than NumPy's loops {times}" in told
    _native.plans().clear()


def test_kernels_that_win_stay() -> None:
    x = operand()
    _native.plans().clear()
    npaccel.evaluate(x * 13.0 + 1.0)
    (program,) = _native.plans().values()
    program.baseline = 1e3
    for _ in range(20):
        npaccel.evaluate(x * 13.0 + 1.0)
    runs, best, total = program.timing
    assert not program.single and runs == 21 and 0 < best <= total


def test_reasons_are_words_for_the_user() -> None:
    reasons = (
        tiers_module.COMPILING,
        tiers_module.NEVER,
        tiers_module.TOO_LITTLE,
    )
    assert all(words.startswith("running block by block") for words in reasons)


def test_products_of_matrices_put_compiling_off(setting, monkeypatch) -> None:
    """BLAS's threads wait for each other while the helper has a processor: what that costs is a
    part of the price, and no more than that."""
    setting("threads", 2)
    monkeypatch.setattr(_native, "held_up", lambda works, starts: 0.0)
    tiers, sequence, requests = Tiers(Once(lambda: None), Costs()), Sequence(), [None] * 6
    sequence.forgotten_s, sequence.forgotten_runs = 0.2, 5
    assert tiers.pays(sequence, requests)
    monkeypatch.setattr(_native, "held_up", lambda works, starts: 6 * (works + 0.25 * starts))
    assert not tiers.pays(sequence, requests)
    sequence.forgotten_s = 5.0
    assert tiers.pays(sequence, requests)
    sequence.forgotten_s = 0.2
    setting("threads", 1)
    assert tiers.pays(sequence, requests)


@pytest.mark.pending
def test_products_are_timed() -> None:
    script = """if True:
        import numpy as np, npaccel
        from npaccel import _native
        before = _native.held_up(1.0, False)
        x = npaccel.asarray(np.ones((300, 200))) * 2.0
        with npaccel.accelerate():
            assert float((x @ x.T)[0, 0]) == 800.0
        assert before == 0 < _native.held_up(1.0, False) < _native.held_up(1.0, True)
    """
    subprocess.run([sys.executable, "-c", script], check=True)
