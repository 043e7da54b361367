"""`import npaccel` is cheap: little time over NumPy's, and no compiler loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LIMIT_S = 0.1
# Loaded on first use only.
LATE = ("llvmlite", "pyopencl", "rich", "numba", "scipy", "multiprocessing", "importlib.metadata")

TIMED = """
import sys, time
start = time.thread_time()  # OpenBLAS's threads turn for a while after NumPy's import
import numpy
middle = time.thread_time()
before = set(sys.modules)
import npaccel
print(middle - start, time.thread_time() - middle)
print(*sorted(set(sys.modules) - before))
"""


def fresh_import(bytecode: Path) -> tuple[float, float, list[str]]:
    """CPU seconds of NumPy's import and of ours after it, and our new modules, in a new process."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
    process = subprocess.run(
        [sys.executable, "-c", TIMED],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=environment,
    )
    seconds, modules = process.stdout.split("\n")[:2]
    numpys, ours = map(float, seconds.split())
    return numpys, ours, modules.split()


def test_import_loads_no_compiler(tmp_path: Path) -> None:
    _, _, modules = fresh_import(tmp_path)
    assert "npaccel" in modules
    assert [name for name in modules if name.split(".")[0] in LATE or name in LATE] == []


def test_import_is_quick(tmp_path: Path) -> None:
    """100 ms, or on a slow machine no more than NumPy takes."""
    fresh_import(tmp_path)  # writes byte code
    times = []
    for _ in range(8):
        numpys, ours, _ = fresh_import(tmp_path)
        if ours < max(LIMIT_S, numpys):
            return
        times.append((numpys, ours))
    raise AssertionError(f"CPU seconds of importing NumPy, and npaccel after it: {times}")
