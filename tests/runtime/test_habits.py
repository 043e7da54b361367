"""A process has ready what the last one with its command used, and computes the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Says: how many programs are in the table at import; values; how many kernels ran, came from disk,
# were compiled; bytes that were new; a child's exit status; how often Python was asked for a
# program; the most memory that was ready, and how much of it was after a while; how many rules were
# ready, and how many of them nobody took; how many programs are ready to be found.
PROGRAM = """
import os, time
import numpy as np
import npaccel
from npaccel import _native, api
from npaccel.dispatch import rules
stored = api._engine.stored
from npaccel.runtime.engine import Engine
planned, plan = [], Engine._program
Engine._program = lambda *args: planned.append(1) or plan(*args)
given, ready, ready_rules = len(stored._given), len(stored._ready), len(rules._ready)
nursery, end = [0], time.monotonic() + float(os.environ["WAIT"])
while time.monotonic() < end:
    nursery.append(npaccel.stats()["nursery_bytes"])
    time.sleep(0.01)
x = npaccel.asarray(np.arange({n}, dtype="f8"))
y = np.sqrt(x * 2.0 + 1.0)
total = float((y / 8.0).sum()) + float(y[7])
stats = npaccel.stats()
child = os.fork() if {fork} else 0
if {fork} and child == 0:
    os._exit(int(float(np.sum(y * 0 + 1)) != {n}))
status = os.waitpid(child, 0)[1] if child else 0
print(given, total, stats["kernels"], stats["kernels_loaded"], stats["compiles"],
      sum(_native.new_sizes()), status, len(planned), max(nursery), nursery[-1],
      ready_rules, len(rules._ready), ready)
"""
N = 1 << 20


def run(folder: Path, wait: float = 0.0, fork: bool = False, **more: str) -> list[str]:
    settings = {"NPACCEL_CACHE_DIR": str(folder), "NPACCEL_TIERING": "eager"} | more
    code = PROGRAM.format(n=N, fork=fork)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | settings | {"WAIT": str(wait)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.pending
def test_programs_are_ready_and_memory_is_touched(tmp_path: Path) -> None:
    first, second, third, fourth = (run(tmp_path) for _ in range(4))
    assert first[0] == second[0] == "0" and int(first[4]) > 0  # compiled, nothing found on disk
    assert int(second[7]) > 0 and second[4] == "0"  # found on disk
    assert int(third[0]) > 0 and third[4] == "0" and third[7] == "0"
    assert first[1:3] == second[1:3] == third[1:3] == fourth[1:3]
    assert first[10] == second[10] == "0" and int(third[10]) > 3 and third[11] == "0"
    assert third[3] == second[3]  # what was ready counts as loaded, once
    # How much is new in a process's first second depends on how much of it the process gets.
    assert all(int(words[5]) >= 8 * N for words in (second, third, fourth))
    assert second[6] == third[6] == fourth[6]
    assert second[8:10] == third[8:10] == fourth[8:10]


@pytest.mark.pending
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_programs_for_other_threads_are_not_given(tmp_path: Path) -> None:
    words = [run(tmp_path) for _ in range(3)][-1]
    assert int(words[0]) > 0  # all, if rules could be made in the time that there is for it
    other = run(tmp_path, NPACCEL_NUM_THREADS="1")
    assert other[0] == "0" and int(other[12]) > 0 and int(other[7]) > 0
    assert float(other[1]) == float(words[1])


@pytest.mark.pending
def test_forks_in_the_middle_of_it(tmp_path: Path) -> None:
    """Python warns about forking with threads; here that would be an error."""
    found = [run(tmp_path, fork=True) for _ in range(3)]
    assert [words[6] for words in found] == ["0"] * 3
    assert len({words[1] for words in found}) == 1


@pytest.mark.pending
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one processor")
def test_what_is_not_taken_is_given_back(tmp_path: Path) -> None:
    """And is not touched where that is not allowed."""
    words = [run(tmp_path, wait=2.8) for _ in range(3)][-1]
    assert int(words[5]) >= 8 * N and int(words[8]) >= int(words[5]) and words[9] == "0"
    words = run(tmp_path, wait=0.3, NPACCEL_NUM_THREADS="1")
    assert words[8] == "0"


@pytest.mark.parametrize("setting", ["NPACCEL_CACHE=off", "NPACCEL_TIERING=off"])
def test_settings(tmp_path: Path, setting: str) -> None:
    for _ in range(2):
        expected = run(tmp_path)[1]
    name, value = setting.split("=")
    words = run(tmp_path, **{name: value})
    assert words[0] == "0" and float(words[1]) == pytest.approx(float(expected), rel=1e-14)


# Says: how many jobs the helper has at import, whether there is one by then, and how many
# are left when they were waited for.
LEAVING = """
import os, time
import numpy as np
import npaccel
from npaccel import api
from npaccel.runtime import tiers as module
from npaccel.runtime.cost import Costs
Costs.compiling_pays = lambda self, spent_s, requests: True
module.AGAIN_S = float(os.environ["AGAIN"])
module.REST_S = 0.0  # each run asks
tiers = api._engine.tiers
started = tiers.helper is not None
at_import = len(tiers.unfinished())
x = npaccel.asarray(np.arange(1 << 17, dtype="f8"))
for _ in range(int(os.environ["ROUNDS"])):
    y = npaccel.evaluate(np.sqrt(x * 2.0 + 1.0) / 8.0)
end = time.monotonic() + float(os.environ["WAIT"])
while tiers.unfinished() and time.monotonic() < end:
    api._engine.answers.take()
    time.sleep(0.01)
print(at_import, started, len(tiers.unfinished()), y.sum())
"""


def leave(folder: Path, rounds: int, wait: float, again: float = 0.0) -> list[str]:
    settings = {"NPACCEL_CACHE_DIR": str(folder), "NPACCEL_TIERING": "adaptive"}
    more = {"ROUNDS": str(rounds), "WAIT": str(wait), "NPACCEL_THRESHOLD": "1024"}
    more["AGAIN"] = str(again)
    command = [sys.executable, "-c", LEAVING]
    environment = os.environ | settings | more
    done = subprocess.run(
        command, check=False, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return done.stdout.split()


@pytest.mark.pending
def test_a_job_that_was_not_done_is_the_next_process_s_first(tmp_path: Path) -> None:
    """And where none was left, no helper is started before there is one."""
    first, second = leave(tmp_path, 4, 0.0), leave(tmp_path, 1, 60.0)
    assert first[:3] == ["0", "False", "1"] and second[:3] == ["1", "True", "0"]
    third, fourth = leave(tmp_path, 3, 60.0), leave(tmp_path, 3, 60.0)
    assert third[:2] == ["0", "False"] and fourth[:3] == ["0", "False", "0"]
    assert first[3] == second[3] == third[3] == fourth[3]


@pytest.mark.pending
def test_a_job_of_what_takes_no_time_is_not_kept(tmp_path: Path) -> None:
    assert [leave(tmp_path, 4, 0.0, 60.0)[0] for _ in range(2)] == ["0", "0"]


@pytest.mark.pending
def test_a_job_that_is_never_done_is_given_up(tmp_path: Path) -> None:
    found = [leave(tmp_path, 4, 0.0)[0]] + [leave(tmp_path, 1, 0.0)[0] for _ in range(3)]
    assert found == ["0", "1", "1", "0"]
