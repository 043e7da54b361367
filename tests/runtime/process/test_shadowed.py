"""Programs whose modules have the names of Python's own, or of a dependency of npaccel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import npaccel
from npaccel import system
from npaccel.runtime.process.shadowed import DEPENDENCIES

# What NumPy does not import, and npaccel does when it is needed. Each says so when it is imported.
NAMES = ("cachetools", "copy", "dataclasses", "heapq", "pdb", "queue", "runpy", "difflib", "array")
PROGRAM = """
import sys, time
import numpy as np
x = np.linspace(0.1, 1.0, 100_000)
want = np.sqrt(x) * x + 1.0
end = time.monotonic() + (60 if "npaccel" in sys.modules else 0)
kernels = 0
while True:
    y = np.sqrt(x) * x + 1.0
    assert y[5] == want[5]
    if "npaccel" in sys.modules:
        kernels = sys.modules["npaccel"].stats()["kernels"]
    if kernels or time.monotonic() > end:
        break
import heapq, queue
print(bool(kernels), heapq.whose, queue.whose, "dataclasses" in sys.modules)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(
            "import sys; whose = 'mine'; print(__name__, 'was imported', file=sys.stderr)"
        )
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"}
    own = {"NPACCEL_CACHE_DIR": str(folder / "cache"), "NPACCEL_TIERING": "adaptive"}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment | own | {"PYTHONPATH": str(Path(npaccel.__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.pending
@pytest.mark.parametrize("option", ["--report", "--min-size=1000"])
def test_a_program_finds_its_own_and_npaccel_pythons(folder: Path, option: str) -> None:
    plain = run(folder, "program.py")
    launcher = str(folder.parent / "launcher.py")
    Path(launcher).write_text("from npaccel.cli import main; raise SystemExit(main())")
    done = run(folder, launcher, "run", option, "program.py")
    assert plain.stdout.startswith("False mine mine ")
    assert done.stdout == plain.stdout.replace("False", "True", 1), done.stderr
    told = [line for line in done.stderr.splitlines() if "was imported" in line]
    assert told == plain.stderr.splitlines() == ["heapq was imported", "queue was imported"]


def test_the_programs_folder_comes_last_for_other_processes(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", ["", os.getcwd(), "/elsewhere", str(tmp_path), "/another"])
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__file__", str(tmp_path / "a.py"), raising=False)
    assert system.module_path() == ["/elsewhere", "/another", "", os.getcwd(), str(tmp_path)]


def test_all_dependencies_are_known() -> None:
    """Those that are imported late: NumPy is there before."""
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    names = text.partition("\ndependencies = [")[2].partition("]")[0]
    found = {line.strip(' ",').split(">")[0] for line in names.splitlines() if line.strip()}
    assert {name for name in found if name != "numpy"} <= DEPENDENCIES
