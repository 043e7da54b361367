"""Nothing waits for a compiler: NumPy's loops run at once, and kernels when they are there."""

from __future__ import annotations

import ast
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native, api
from npaccel.errors import NpaccelWarning
from npaccel.runtime import tiers as tiers_module
from npaccel.runtime.cost import Costs
from npaccel.runtime.helper import Helper
from npaccel.runtime.kernels import Kernels
from npaccel.runtime.patterns import Patterns

pytestmark = pytest.mark.usefixtures("deferred")
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
    engine = api._engine
    engine.tiers.stop()
    engine.tiers._helper = None
    cold()


def cold() -> None:
    npaccel.evaluate()
    engine = api._engine
    engine.traces.clear()
    engine.kernels.clear()
    engine.planner.clear()
    engine.patterns.clear()
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
    monkeypatch.setattr("npaccel.runtime.answers.TAKING_S", -1.0)  # one step each
    loaded: list[int] = []
    add = Kernels.add
    monkeypatch.setattr(Kernels, "add", lambda self, *a: loaded.append(flushes) or add(self, *a))
    x, y = operand(), operand(N // 2)
    want = np.sqrt(np.asarray(x)) * 2.0
    tiers, flushes = api._engine.tiers, 0
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
    name = Patterns.name
    monkeypatch.setattr(Patterns, "name", lambda self: asked.append(0) or name(self))
    x = operand()
    for _ in range(3):  # looked for on disk, then sent to the helper
        npaccel.evaluate(x * 2 + 1)
    assert api._engine.tiers.busy or npaccel.stats()["compiles"]
    assert len(asked) == 1
    npaccel.evaluate(operand(N // 2) * 2 + 1)
    assert len(asked) == 2


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
    assert api._engine.tiers.helper is None


@pytest.mark.usefixtures("adaptive")
def test_new_scalars_and_sizes_run_the_same_kernel() -> None:
    until(lambda: runs_a_kernel(lambda: operand() * 2.0 + 1.0))
    # Once planned here, for a size that the helper did not see; then moved to any other.
    until(lambda: runs_a_kernel(lambda: operand(N + 1) * 2.0 + 1.0))
    npaccel.stats(reset=True)
    for i in range(20):
        x = operand(N + 10 + i)
        y = npaccel.evaluate(x * (0.5 + i) + 1.0)
        assert np.array_equal(y, np.asarray(x) * (0.5 + i) + 1.0)
    counts = npaccel.stats()
    assert (counts["tier0_runs"], counts["compiles"], counts["kernels"]) == (0, 0, 20)


@pytest.mark.parametrize("cache", ["on", "off"])
def test_what_an_answer_leaves_out_is_found(adaptive, setting, cache: str) -> None:
    """The trace in the asker's words; the pattern for other sizes on disk, if it is there."""
    setting("cache", cache)
    until(lambda: runs_a_kernel(lambda: operand() * 2.0 + 1.0))
    (step,) = npaccel.explain().steps
    assert [operation.name for operation in step.operations] == ["multiply", "add"]
    engine = api._engine
    (known,) = [engine.patterns._known[name] for name in engine.patterns._known]
    assert (known.stored, known.packed is None) == (cache == "on", cache == "on")
    filled = engine.filled
    until(lambda: runs_a_kernel(lambda: operand(N + 1) * 2.0 + 1.0))
    assert engine.filled == filled + 1 and len(known.patterns) == 1


@pytest.mark.usefixtures("adaptive")
def test_a_new_size_is_planned_for_once_its_loops_have_taken_as_long(monkeypatch) -> None:
    until(lambda: runs_a_kernel(lambda: operand() * 2.0 + 1.0))
    spent: list[float] = []

    def pays(self: Costs, spent_s: float, requests: int) -> bool:
        spent.append(spent_s)
        return len(spent) > 3

    monkeypatch.setattr(Costs, "planning_pays", pays)
    for run in range(4):
        result = npaccel.evaluate(operand(N + 1) * 2.0 + 1.0)
        assert np.array_equal(result, np.asarray(operand(N + 1)) * 2.0 + 1.0)
        assert ("planning for a new size" in str(npaccel.explain())) == (run < 3)
    # What k runs took, and one more like them: it adds up.
    assert len(spent) == 5 and spent[4] == tiers_module.CLEARLY * spent[3]  # and it is clear
    totals = [expected * k / (k + 1) for k, expected in enumerate(spent[:4])]
    assert 0 < totals[1] < totals[2] < totals[3]
    spent.clear()
    npaccel.evaluate(operand(10 * N) * 2.0 + 1.0)
    assert spent[0] > 0  # of a size that never ran


@pytest.mark.usefixtures("adaptive")
def test_where_planning_hardly_pays_loops_are_looked_at_again(monkeypatch) -> None:
    until(lambda: runs_a_kernel(lambda: operand() * 2.0 + 1.0))
    monkeypatch.setattr(Costs, "planning_pays", lambda self, spent_s, requests: spent_s > 0)
    monkeypatch.setattr(tiers_module, "CLEARLY", 0)
    looked = []
    for more in range(1, 2 * tiers_module.LOOK_EVERY + 1):
        result = npaccel.evaluate(operand(N + more) * 2.0 + 1.0)
        assert np.array_equal(result, np.asarray(operand(N + more)) * 2.0 + 1.0)
        looked += [more] * (tiers_module.LOOKING in str(npaccel.explain()))
    assert looked == [tiers_module.LOOK_EVERY, 2 * tiers_module.LOOK_EVERY]


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


# ---------------------------------------------------------------------------- trouble with helpers


@pytest.mark.usefixtures("adaptive")
def test_a_killed_helper_is_started_again() -> None:
    x = operand()
    for _ in range(2):
        npaccel.evaluate(np.tanh(x) * x)
    npaccel.evaluate(np.tanh(x) * x)
    helper = api._engine.tiers.helper
    assert helper is not None and helper.pid
    os.kill(helper.pid, signal.SIGKILL)
    # Before it said that it is there, the job is asked again; after that it is given up.
    until(lambda: npaccel.evaluate(np.tanh(x) * x) is not None and helper.restarts == 1)
    until(lambda: runs_a_kernel(lambda: np.sqrt(x) * x + 1.0))


@pytest.mark.usefixtures("adaptive")
def test_a_helper_that_left_for_want_of_work_is_started_again() -> None:
    x = operand()
    until(lambda: runs_a_kernel(lambda: np.sqrt(x) * x + 2.0))
    helper = api._engine.tiers.helper
    assert helper is not None and not helper.busy
    os.kill(helper.pid, signal.SIGKILL)
    os.waitpid(helper.pid, 0)
    until(lambda: runs_a_kernel(lambda: np.sqrt(x) * x - 3.0 * x))  # refused, if it counted as lost


@pytest.mark.usefixtures("adaptive")
def test_an_answer_for_settings_of_before_is_passed_over(setting) -> None:
    """The numbers of jobs go on; the helper does not know that nobody waits any more."""
    x, tiers = operand(), api._engine.tiers
    while not tiers._jobs:
        npaccel.evaluate(x * 2.0 + 1.0)
    setting("threads", 1)  # forgets them
    assert until(lambda: runs_a_kernel(lambda: np.sqrt(x) * 3.0 + 1.0)) > 0


def test_one_thread_at_a_time_plans(monkeypatch) -> None:
    """A job of one thread was kept under the key of another one's: a kernel for other requests."""
    engine, events, entered, leave = api._engine, [], threading.Event(), threading.Event()

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
def test_a_helper_that_never_works_leaves_compiling_to_us(monkeypatch) -> None:
    monkeypatch.setattr("npaccel.runtime.helper.PROGRAM", "import sys; sys.exit(0)")
    x = operand()
    until(lambda: runs_a_kernel(lambda: x * 5.0 - 2.0))
    broken = api._engine.tiers.broken
    assert "failed several times" in broken and np.array_equal(x * 5.0 - 2.0, np.asarray(x) * 5 - 2)


@pytest.mark.usefixtures("adaptive")
def test_without_an_interpreter_there_is_no_helper(monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/editor/bin/editor")
    x = operand()
    until(lambda: runs_a_kernel(lambda: x * 7.0 - 2.0))
    assert "editor" in api._engine.tiers.broken


@pytest.fixture
def stuck(tmp_path: Path, monkeypatch) -> Iterator[Path]:
    """A helper's start lasts until somebody reads this pipe, its standard error."""
    path = tmp_path / "errors"
    os.mkfifo(path)
    monkeypatch.setattr("npaccel.runtime.helper.ERRORS", os.fsencode(path))
    yield path
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))


@contextlib.contextmanager
def reader(path: Path, after_s: float) -> Iterator[Callable[[], bool]]:
    """A process that reads the pipe after that time; yields whether it does."""
    mark = path.with_suffix(".read")
    code = f"import sys, time; time.sleep({after_s}); "
    code += "file = open(sys.argv[1]); open(sys.argv[2], 'w').close(); file.read()"
    with subprocess.Popen([sys.executable, "-c", code, str(path), str(mark)]) as process:
        try:
            yield mark.exists
        finally:
            process.kill()


@pytest.mark.usefixtures("adaptive")
def test_no_flush_waits_for_the_start_of_a_helper(stuck: Path) -> None:
    x = operand()
    with reader(stuck, 1.5) as started:
        want = np.asarray(x) * 3.0 - 2.0
        for _ in range(5):  # starts one, and asks it
            assert np.array_equal(npaccel.evaluate(x * 3.0 - 2.0), want)
        helper = api._engine.tiers.helper
        assert helper is not None and helper.busy and not started()
        until(lambda: runs_a_kernel(lambda: x * 3.0 - 2.0))  # what was asked meanwhile was kept
        assert helper.pid and helper.restarts == 0


def test_a_fork_waits_for_the_start_of_a_helper(stuck: Path) -> None:
    """Or the child had ends of the helper's pipes, which would then never end for the helper."""
    before = set(os.listdir("/proc/self/fd"))
    helper = Helper(npaccel.config.helper_environment(), "another")
    with reader(stuck, 0.3) as started:
        helper.start()
        child = os.fork()
        if child == 0:
            left = set(os.listdir("/proc/self/fd")) - before
            os._exit(0 if helper.pid == 0 and not left else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0 and started()
        assert len(set(os.listdir("/proc/self/fd")) - before) == 2
        helper.stop()
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_helper_gets_our_environment_but_for_our_settings(monkeypatch, tmp_path: Path) -> None:
    code = "import os, sys; os.write(2, repr(dict(os.environ)).encode()); sys.exit(0)"
    monkeypatch.setattr("npaccel.runtime.helper.PROGRAM", code)
    said = tmp_path / "said"
    said.touch()
    monkeypatch.setattr("npaccel.runtime.helper.ERRORS", os.fsencode(said))
    monkeypatch.setenv("NPACCEL_THREADS", "1")
    monkeypatch.setenv("OF_THE_USER", "a=b \udcff")
    helper = Helper(npaccel.config.helper_environment(), "another")
    helper.start()
    os.waitpid(helper.pid, 0)
    helper.stop()
    found = ast.literal_eval(said.read_text())
    ours = {k: v for k, v in found.items() if k.startswith("NPACCEL_")}
    assert ours == {"NPACCEL_GUARD": "off", "NPACCEL_TIERING": "off"}
    assert found["OF_THE_USER"] == "a=b \udcff" and found["PATH"] == os.environ["PATH"]


@pytest.mark.usefixtures("adaptive")
@pytest.mark.parametrize("reason", ["No such file", "Permission denied"])
def test_explain_tells_why_no_helper_can_be_started(reason: str, monkeypatch, tmp_path) -> None:
    program = tmp_path / "python"
    if reason == "Permission denied":
        program.write_text("")
    descriptors = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(sys, "executable", str(program))
    x = operand()
    assert "compiled while" not in str(npaccel.explain())
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # some programs have it so
    try:
        until(lambda: runs_a_kernel(lambda: x * 6.0 - 2.0))
    finally:
        signal.signal(signal.SIGPIPE, before)
    told = npaccel.explain()
    assert reason in told.no_helper and str(program) in told.no_helper
    assert "Kernels are compiled while operations wait: no helper process" in str(told)
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.usefixtures("adaptive")
def test_a_hook_that_refuses_processes_is_told(monkeypatch) -> None:
    refused: list[Any] = []

    def refuse(event: str, *args: Any) -> None:
        if event == "os.posix_spawn":
            refused.append(args)
            raise RuntimeError("a test refuses")

    monkeypatch.setattr(sys, "audit", refuse)  # a hook stays for good
    x = operand()
    until(lambda: runs_a_kernel(lambda: x * 6.5 - 2.0))
    assert "a test refuses" in npaccel.explain().no_helper and len(refused) == 1


@pytest.mark.usefixtures("adaptive")
def test_a_job_that_takes_too_long_is_given_up(monkeypatch) -> None:
    monkeypatch.setattr("npaccel.runtime.helper.LIMIT_S", 0.0)
    x = operand()
    until(lambda: bool(npaccel.evaluate(x * 9.0 - 2.0) is not None and api._engine.tiers.broken))
    assert np.array_equal(npaccel.evaluate(x * 9.0 - 2.0), np.asarray(x) * 9.0 - 2.0)


@pytest.mark.usefixtures("adaptive")
def test_what_the_compiler_rejects_is_told_once(monkeypatch) -> None:
    monkeypatch.setattr(api._engine, "_warned", set())
    monkeypatch.setattr(
        "npaccel.runtime.helper.PROGRAM",
        "import sys; sys.path[:] = sys.argv[1:]\n"
        "from npaccel.backends.llvm.backend import LlvmBackend\n"
        "from npaccel.errors import CompileError\n"
        "def refuse(self, kernel): raise CompileError('llvm: a test refuses')\n"
        "LlvmBackend.emit_object = refuse\n"
        "from npaccel.runtime.worker import main; main()",
    )
    x = operand()
    with pytest.warns(NpaccelWarning, match="a test refuses; the requests run") as seen:
        until(lambda: bool(npaccel.evaluate(x * 11.0 - 2.0) is not None and seen.list))
    y = npaccel.evaluate(x * 11.0 - 2.0)
    assert "not compiled: llvm: a test refuses" in str(npaccel.explain(y))
    assert len(seen) == 1


# ------------------------------------------------------------------------- processes and their ends

BUSY = """
import os, sys, time
import numpy as np
import npaccel
from npaccel import api
from npaccel.runtime import tiers
from npaccel.runtime.cost import Costs
Costs.compiling_pays = lambda self, spent_s, requests: True
tiers.REST_S = 0.0
npaccel.config.threshold = 0
x = npaccel.asarray(np.linspace(0.1, 1.0, 5000))
for _ in range(4):
    npaccel.evaluate(np.exp(x) * np.log(x) + np.sin(x))
helper = api._engine.tiers.helper
assert helper is not None and helper.pid and helper.busy
print(helper.pid, flush=True)
"""


def gone(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.pending
@pytest.mark.parametrize(
    ("ending", "status"),
    [
        ("", 0),
        ("sys.exit(3)", 3),
        ("os.kill(os.getpid(), 9)", -signal.SIGKILL),
        ("os._exit(4)", 4),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("time.sleep(0.3); npaccel.evaluate(x * 2)", 0),
        ("pid = os.fork(); npaccel.evaluate(x + 1); pid and os.waitpid(pid, 0)", 0),
    ],
)
def test_the_helper_ends_with_its_parent(ending: str, status: int, tmp_path: Path) -> None:
    environment = {"NPACCEL_TIERING": "adaptive", "NPACCEL_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BUSY + ending],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == status, done.stderr
    assert "Warning" not in done.stderr
    until(lambda: gone(int(done.stdout.split()[0])))


FORKED = (
    BUSY
    + """
pid = os.fork()
if pid == 0:
    mine = api._engine.tiers.helper
    assert mine.pid == 0 and not mine.busy
    end = time.monotonic() + 60
    while not npaccel.stats()["kernels"] and time.monotonic() < end:
        y = npaccel.evaluate(np.exp(x) * np.log(x) + np.sin(x))
        time.sleep(0.005)
    v = np.asarray(x)
    good = np.allclose(y, np.exp(v) * np.log(v) + np.sin(v), rtol=1e-14)
    os._exit(0 if good and npaccel.stats()["kernels"] else 5)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert helper.pid
"""
)


@pytest.mark.pending
def test_a_forked_child_has_a_helper_of_its_own(tmp_path: Path) -> None:
    environment = {"NPACCEL_TIERING": "adaptive", "NPACCEL_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", FORKED],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_helper_yields_to_the_program_in_a_session_of_its_own() -> None:
    if not Path("/proc/self/autogroup").exists():
        pytest.skip("this kernel has no scheduling groups of sessions")
    code = (
        "import os; from npaccel.runtime.worker import lower_priority; lower_priority();"
        "print(os.nice(0), open('/proc/self/autogroup').read().split()[-1])"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        start_new_session=True,
    )
    assert said.stdout.split() == [str(min(19, os.nice(0) + 15)), "10"]


def test_a_helper_of_another_version_is_not_used() -> None:
    helper = Helper(npaccel.config.helper_environment(), "another")
    assert helper.ask(1, None)
    lost: list[int] = []
    until(lambda: bool(lost.extend(helper.listen()[1]) or lost))
    assert lost == [1] and "another version" in helper.broken and helper.pid == 0


# --------------------------------------------------------------------------------- never slower


def test_kernels_that_lose_are_given_up() -> None:
    x = operand()
    _native.plans().clear()
    want = npaccel.evaluate(x * 13.0 + 1.0)
    (program,) = _native.plans().values()
    program.rival = 1e-9  # nothing is that fast
    for _ in range(9):
        y = npaccel.evaluate(x * 13.0 + 1.0)
    assert program.single and np.array_equal(y, want)
    assert "slower than NumPy's loops" in str(npaccel.explain(y))
    _native.plans().clear()


def test_kernels_that_win_stay() -> None:
    x = operand()
    _native.plans().clear()
    npaccel.evaluate(x * 13.0 + 1.0)
    (program,) = _native.plans().values()
    program.rival = 1e3
    for _ in range(20):
        npaccel.evaluate(x * 13.0 + 1.0)
    runs, best, total = program.timing
    assert not program.single and runs == 21 and 0 < best <= total


def test_reasons_are_words_for_the_user() -> None:
    reasons = (
        tiers_module.COMPILING,
        tiers_module.LOOKING,
        tiers_module.NEVER,
        tiers_module.TOO_LITTLE,
    )
    assert all("NumPy's loops" in words for words in reasons)
