"""The helper process: how it is started, what it inherits, and how it ends."""

from __future__ import annotations

import ast
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tiering import operand, runs_a_kernel, until

import npaccel
from npaccel import _native, this_process
from npaccel.runtime.helper import helper as helper_module
from npaccel.runtime.helper.helper import Helper

pytestmark = pytest.mark.usefixtures("deferred")


def gone(pid: int) -> bool:
    """Whether all threads of a process have ended, so that its ends of pipes are closed."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            ended = file.read().rpartition(")")[2].split()[0] == "Z"
        return ended and len(os.listdir(f"/proc/{pid}/task")) == 1
    except OSError:
        return True


@pytest.mark.usefixtures("adaptive")
def test_a_killed_helper_is_started_again() -> None:
    x = operand()
    for _ in range(2):
        npaccel.evaluate(np.tanh(x) * x)
    npaccel.evaluate(np.tanh(x) * x)
    helper = this_process.engine.tiers.helper
    assert helper is not None and helper.pid
    os.kill(helper.pid, signal.SIGKILL)
    # Before it said that it is there, the job is asked again; after that it is given up.
    until(lambda: npaccel.evaluate(np.tanh(x) * x) is not None and helper.restarts == 1)
    until(lambda: runs_a_kernel(lambda: np.sqrt(x) * x + 1.0))


@pytest.mark.usefixtures("adaptive")
def test_a_processor_is_lent_while_it_works(monkeypatch) -> None:
    lent: list[int] = []
    monkeypatch.setattr(
        helper_module, "_native", SimpleNamespace(**{**vars(_native), "lend": lent.append})
    )
    x = operand()
    until(lambda: runs_a_kernel(lambda: np.sqrt(x) * x + 7.0))
    assert lent[0] >= 0 and lent[-1] == -1
    helper = this_process.engine.tiers.helper
    assert helper is not None
    lent.clear()
    for _ in range(3):
        npaccel.evaluate(np.tanh(x) * x - 7.0)
    assert lent[-1] >= 0 and helper.busy
    helper.stop()
    assert lent[-1] == -1


@pytest.mark.usefixtures("adaptive")
def test_a_processor_comes_back_though_nobody_asks_the_helper_any_more() -> None:
    """As where all code is known: nothing is taken over from then on."""
    helper = Helper(npaccel.config.helper_environment(), this_process.disk.identity())
    helper.start()
    assert _native.lends() and helper.starting
    until(lambda: not _native.lends())
    assert helper.starting  # as far as is known here
    helper.stop()


def test_a_processor_is_lent_until_there_is_something_to_read() -> None:
    before, after = os.pipe()
    try:
        _native.lend(before)
        time.sleep(0.01)
        assert _native.lends()
        os.write(after, b"x")
        time.sleep(0.01)
        assert not _native.lends()
        assert not _native.lends()
    finally:
        _native.lend(-1)
        os.close(before)
        os.close(after)


@pytest.mark.usefixtures("adaptive")
def test_a_helper_that_left_for_want_of_work_is_started_again() -> None:
    x = operand()
    until(lambda: runs_a_kernel(lambda: np.sqrt(x) * x + 2.0))
    helper = this_process.engine.tiers.helper
    assert helper is not None and not helper.busy
    os.kill(helper.pid, signal.SIGKILL)
    until(lambda: gone(helper.pid))
    until(lambda: runs_a_kernel(lambda: np.sqrt(x) * x - 3.0 * x))  # refused, if it counted as lost


@pytest.mark.usefixtures("adaptive")
def test_a_helper_that_never_works_leaves_compiling_to_us(monkeypatch, tmp_path: Path) -> None:
    (tmp_path / "start.py").write_text("import sys; sys.exit(0)")
    monkeypatch.setattr("npaccel.runtime.helper.helper.SCRIPT", str(tmp_path / "start.py"))
    x = operand()
    until(lambda: runs_a_kernel(lambda: x * 5.0 - 2.0))
    broken = this_process.engine.tiers.broken
    assert "failed several times" in broken and np.array_equal(x * 5.0 - 2.0, np.asarray(x) * 5 - 2)


@pytest.mark.usefixtures("adaptive")
def test_without_an_interpreter_there_is_no_helper(monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/editor/bin/editor")
    x = operand()
    until(lambda: runs_a_kernel(lambda: x * 7.0 - 2.0))
    assert "editor" in this_process.engine.tiers.broken


@pytest.fixture
def stuck(tmp_path: Path, monkeypatch) -> Iterator[Path]:
    """A helper's start lasts until somebody reads this pipe, its standard error."""
    path = tmp_path / "errors"
    os.mkfifo(path)
    monkeypatch.setattr("npaccel.runtime.helper.helper.ERRORS", os.fsencode(path))
    yield path
    os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))


@contextlib.contextmanager
def reader(path: Path, after_s: float = 0.0) -> Iterator[tuple[Callable[[], int], Path]]:
    """A process that reads the pipe once it is told so, after that time; yields what tells it, and
    a file that it makes before."""
    mark = path.with_suffix(".read")
    code = f"import sys, time; sys.stdin.read(1); time.sleep({after_s}); "
    code += "open(sys.argv[2], 'w').close(); open(sys.argv[1]).read()"
    command = [sys.executable, "-c", code, str(path), str(mark)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        try:
            yield partial(os.write, process.stdin.fileno(), b"x"), mark
        finally:
            process.kill()


@pytest.mark.usefixtures("adaptive")
def test_no_flush_waits_for_the_start_of_a_helper(stuck: Path) -> None:
    x = operand()
    with reader(stuck) as (start, started):
        want = np.asarray(x) * 3.0 - 2.0
        for _ in range(5):  # starts one, and asks it
            assert np.array_equal(npaccel.evaluate(x * 3.0 - 2.0), want)
        helper = this_process.engine.tiers.helper
        assert helper is not None and helper.busy and not started.exists()
        start()
        until(lambda: runs_a_kernel(lambda: x * 3.0 - 2.0))  # what was asked meanwhile was kept
        assert helper.pid and helper.restarts == 0


def test_a_fork_waits_for_the_start_of_a_helper(stuck: Path) -> None:
    """Or the child had ends of the helper's pipes, which would then never end for the helper."""
    helper = Helper(npaccel.config.helper_environment(), "another")
    with reader(stuck, 0.3) as (start, started):
        before = set(os.listdir("/proc/self/fd"))
        helper.start()
        start()
        child = os.fork()
        if child == 0:
            left = set(os.listdir("/proc/self/fd")) - before
            os._exit(0 if helper.pid == 0 and not left else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert started.exists()
        assert len(set(os.listdir("/proc/self/fd")) - before) == 2
        helper.stop()
        assert set(os.listdir("/proc/self/fd")) == before


def test_a_helper_gets_our_environment_but_for_our_settings(monkeypatch, tmp_path: Path) -> None:
    script = tmp_path / "start.py"
    script.write_text("import os, sys; os.write(2, repr(dict(os.environ)).encode()); sys.exit(0)")
    monkeypatch.setattr("npaccel.runtime.helper.helper.SCRIPT", str(script))
    said = tmp_path / "said"
    said.touch()
    monkeypatch.setattr("npaccel.runtime.helper.helper.ERRORS", os.fsencode(said))
    monkeypatch.setenv("NPACCEL_THREADS", "1")
    monkeypatch.setenv("OF_THE_USER", "a=b \udcff")
    helper = Helper(npaccel.config.helper_environment(), "another")
    helper.start()
    until(lambda: gone(helper.pid))
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
    monkeypatch.setattr("npaccel.runtime.helper.helper.LIMIT_S", 0.0)
    x = operand()
    until(
        lambda: bool(
            npaccel.evaluate(x * 9.0 - 2.0) is not None and this_process.engine.tiers.broken
        )
    )
    assert np.array_equal(npaccel.evaluate(x * 9.0 - 2.0), np.asarray(x) * 9.0 - 2.0)


BUSY = """
import os, sys, time
import numpy as np
import npaccel
from npaccel import this_process
from npaccel.runtime.engine import tiers
from npaccel.runtime.devices.cost import Costs
Costs.compiling_pays = lambda self, spent_s, requests: True
tiers.REST_S = 0.0
npaccel.config.threshold = 0
x = npaccel.asarray(np.linspace(0.1, 1.0, 5000))
npaccel.stats()  # makes the engine
for _ in range(4):
    npaccel.evaluate(np.exp(x) * np.log(x) + np.sin(x))
helper = this_process.engine.tiers.helper
assert helper is not None and helper.pid and helper.busy
print(helper.pid, flush=True)
"""


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


WAITS = (
    BUSY
    + """
import signal
ends = []
signal.signal(signal.SIGCHLD, lambda *_: ends.append(1))
child = os.fork()
if child == 0:
    os._exit(7)
assert os.wait() == (child, 7 << 8)
try:
    os.wait()
except ChildProcessError:
    pass
else:
    raise AssertionError("there is a child that the program has not made")
helper.stop()
time.sleep(0.1)
assert len(ends) == 1
"""
)


@pytest.mark.pending
def test_a_program_that_waits_for_its_children_does_not_meet_the_helper(tmp_path: Path) -> None:
    environment = {"NPACCEL_TIERING": "adaptive", "NPACCEL_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run(
        [sys.executable, "-c", WAITS],
        env=os.environ | environment,
        capture_output=True,
        timeout=50,
        check=True,
    )


CLOSES = (
    BUSY
    + """
os.closerange(3, 256)
files = [open(os.path.join(sys.argv[1], str(i)), "w+b", buffering=0) for i in range(30)]
for file in files:
    file.write(b"mine")
    file.seek(0)
before = npaccel.stats()["kernels"]
end = time.monotonic() + 40
while npaccel.stats()["kernels"] == before and time.monotonic() < end:
    npaccel.evaluate(np.tanh(x) * 3.0 - np.sqrt(x))
assert npaccel.stats()["kernels"] > before
this_process.helper().stop()
assert [file.read() for file in files] == [b"mine"] * 30
"""
)


@pytest.mark.pending
def test_a_program_that_closes_all_descriptors_has_its_files_for_itself(tmp_path: Path) -> None:
    environment = {"NPACCEL_TIERING": "adaptive", "NPACCEL_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run(
        [sys.executable, "-c", CLOSES, str(tmp_path)],
        env=os.environ | environment,
        timeout=100,
        check=True,
    )


# What children of the program inherit the helper, which stays, does not: an end of a pipe whose
# reader waits until all are closed, or a lock. Nor does it take the places of standard streams.
INHERITS = (
    BUSY
    + """
import select
helper.stop()
for i in range(3):
    os.close(i)
reads, writes = (os.dup2(end, end + 50) for end in os.pipe())
os.closerange(0, 2)
helper.start()
assert helper.pid
assert [os.open(os.devnull, os.O_RDWR) for i in range(3)] == [0, 1, 2]
os.close(writes)
assert select.select([reads], [], [], 20)[0] == [reads] and os.read(reads, 1) == b""
assert helper.pid
"""
)


@pytest.mark.pending
def test_the_helper_inherits_nothing(tmp_path: Path) -> None:
    environment = {"NPACCEL_TIERING": "adaptive", "NPACCEL_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run(
        [sys.executable, "-c", INHERITS], env=os.environ | environment, timeout=100, check=True
    )


# As a program's tests do while they run.
MOCKED = (
    BUSY
    + """
import contextlib
from unittest import mock
names = ["open", "read", "write", "close", "fstat", "stat", "replace", "unlink", "getpid"]
before = npaccel.stats()["kernels"]
end = time.monotonic() + 40
while npaccel.stats()["kernels"] == before:
    assert time.monotonic() < end
    with contextlib.ExitStack() as stack:
        mocks = [stack.enter_context(mock.patch("os." + name)) for name in names]
        mocks += [stack.enter_context(mock.patch("time." + n)) for n in ("time", "monotonic")]
        npaccel.evaluate(np.tanh(x) * 3.0 - np.sqrt(x))
    assert not any(m.called for m in mocks)
helper.stop()
assert os.fstat(0) and os.fstat(1) and os.fstat(2)
"""
)


@pytest.mark.pending
def test_functions_that_a_program_puts_into_modules_are_its_own(tmp_path: Path) -> None:
    environment = {"NPACCEL_TIERING": "adaptive", "NPACCEL_CACHE_DIR": str(tmp_path / "cache")}
    subprocess.run(
        [sys.executable, "-c", MOCKED], env=os.environ | environment, timeout=100, check=True
    )


FORKED = (
    BUSY
    + """
pid = os.fork()
if pid == 0:
    mine = this_process.engine.tiers.helper
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


@pytest.mark.parametrize(("lent", "own", "ours"), [(True, 2, 2), (False, 15, 10)])
def test_the_helper_yields_to_the_program_in_a_session_of_its_own(
    lent: bool, own: int, ours: int
) -> None:
    if not Path("/proc/self/autogroup").exists():
        pytest.skip("this kernel has no scheduling groups of sessions")
    code = (
        "import os; from npaccel.runtime.helper.worker import lower_priority;"
        f"lower_priority({lent});"
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
    assert said.stdout.split() == [str(min(19, os.nice(0) + own)), str(ours)]


def test_a_helper_of_another_version_is_not_used() -> None:
    helper = Helper(npaccel.config.helper_environment(), "another")
    assert helper.ask(1, None)
    lost: list[int] = []
    until(lambda: bool(lost.extend(helper.listen()[1]) or lost))
    assert lost == [1] and "another version" in helper.broken and helper.pid == 0
