"""A process has no engine before it has run as long as loading one takes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.pending

PROGRAM = """
import sys
import numpy as np
import npaccel
from npaccel import this_process
from npaccel.runtime.engine import first
first.LOADING_S = float(sys.argv[1])
x = npaccel.asarray(np.linspace(0.1, 1.0, 200_000))
for i in range(6):
    y = np.sqrt(x) * 2.0 + (i % 2)
    if i:
        npaccel.evaluate(y)
    assert np.array_equal(np.asarray(y), np.sqrt(np.linspace(0.1, 1.0, 200_000)) * 2.0 + (i % 2))
print(this_process.make_engine.made is not None)
told = str(npaccel.explain())  # which makes one
print(first.REASON in " ".join(told.split()))
y = npaccel.evaluate(np.sqrt(x) * 2.0)
print(first.REASON in " ".join(str(npaccel.explain(y)).split()))
"""


def run(tmp_path: Path, loading_s: float, **settings: str) -> list[str]:
    environment = {"NPACCEL_TIERING": "adaptive", "NPACCEL_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(loading_s)],
        env=os.environ | environment | settings,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.split()


def test_a_short_program_needs_none(tmp_path: Path) -> None:
    """Once there is one, it is asked about what ran before, too."""
    assert run(tmp_path, 60.0) == ["False", "True", "False"]


def test_a_longer_one_makes_one(tmp_path: Path) -> None:
    assert run(tmp_path, 0.0)[0] == "True"


@pytest.mark.parametrize("setting", ["NPACCEL_TIERING=eager", "NPACCEL_TIERING=off"])
def test_settings_that_ask_for_it(tmp_path: Path, setting: str) -> None:
    name, _, value = setting.partition("=")
    assert run(tmp_path, 60.0, **{name: value})[0] == "True"


NO_FILES = """
import resource
import numpy as np
import npaccel
from npaccel.runtime.engine import first
first.LOADING_S = 0.0
x = np.linspace(0.1, 1.0, 200_000)
want = np.sqrt(x) * 2.0
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
with npaccel.accelerate():
    assert np.array_equal(np.sqrt(x) * 2.0, want)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    for k in range(100):
        y = np.sqrt(x) * 2.0 + k
        assert y[7] == want[7] + k
    told = npaccel._native.plans()
    print(any("could not be loaded" in program.info for program in told.values()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    from npaccel import this_process
    for k in range(100):
        assert np.array_equal(np.sqrt(x) * 2.0, want)
print(this_process.make_engine.made is not None)
"""


def test_where_no_descriptors_are_left_nothing_is_loaded(tmp_path: Path) -> None:
    """Loading the engine opens files; an operation of NumPy's opens none, so none fails."""
    environment = {"NPACCEL_TIERING": "adaptive", "NPACCEL_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", NO_FILES],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["True", "True"], done.stderr
