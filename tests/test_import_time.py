"""Starting is cheap: little time over NumPy's import, and nothing loaded that can come later."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LIMIT_S = 0.1
PROCESS = ("core", "disk", "guarding", "neighbours", "scopes", "thread_limits", "warn")
# All of npaccel that `import npaccel` loads. What is missing here is loaded by who first needs it
# (npaccel/later.py); a module that is added here must be worth its time in each process.
START = frozenset(
    {"npaccel"}
    | {
        f"npaccel.{name}"
        for name in (
            *("_native", "api", "blocks", "config", "debugging", "errors", "later"),
            *("macros", "notebook", "own", "reports", "system", "this_process"),
            *("backends", "backends.registry"),
            *("caches", "caches.startup_profile", "caches.identity", "caches.store"),
            *("dispatch", "dispatch.array", "dispatch.composed", "dispatch.creation"),
            *("dispatch.draws", "dispatch.einsum"),
            *("dispatch.fallback", "dispatch.flat", "dispatch.function", "dispatch.gather"),
            *("dispatch.indexing", "dispatch.method", "dispatch.operands", "dispatch.redirect"),
            *("dispatch.rules", "dispatch.special", "dispatch.ufunc"),
            *("ir", "ir.kinds", "ir.names", "ir.differences"),
            *("runtime", "runtime.engine", "runtime.engine.first", "runtime.process"),
            *(f"runtime.process.{name}" for name in PROCESS),
        )
    }
)
# And the command `npaccel run`.
RUN = START | {
    f"npaccel.{name}" for name in ("children", "cli", "launch", "runtime.process.shadowed")
}
# Of others, unless NumPy itself loads them.
LATE = (
    *("llvmlite", "pyopencl", "rich", "cachetools", "platformdirs", "numba", "scipy"),
    *("argparse", "cProfile", "dataclasses", "hashlib", "importlib.metadata", "inspect", "json"),
    *("logging", "multiprocessing", "pickle", "random", "runpy", "shutil", "signal", "socket"),
    *("subprocess", "tempfile", "tokenize", "zipfile"),
)

TIMED = """
import time
start = time.thread_time()  # OpenBLAS's threads turn for a while after NumPy's import
import numpy
middle = time.thread_time()
import npaccel
print(middle - start, time.thread_time() - middle)
"""
MODULES = "import sys; print(*sys.modules)"
COMMAND = "import sys; from npaccel.cli import main; sys.exit(main())"


def python(*words: str, bytecode: Path | None = None) -> str:
    """What a new process writes, in a folder of its own, as installed."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    if bytecode is not None:
        environment["PYTHONPYCACHEPREFIX"] = str(bytecode)
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=environment,
    )
    return done.stdout


def too_many(loaded: set[str], allowed: frozenset[str]) -> list[str]:
    """What is loaded beyond what a start needs."""
    numpys = set(python("-c", f"import numpy; {MODULES}").split())
    ours = {name for name in loaded if name.split(".")[0] == "npaccel"}
    late = {name for name in loaded if name.split(".")[0] in LATE or name in LATE}
    assert "npaccel.api" in ours
    return sorted((ours - allowed) | (late - numpys))


def test_import_loads_what_it_needs() -> None:
    loaded = set(python("-c", f"import npaccel; {MODULES}").split())
    assert too_many(loaded, START) == []


def test_run_loads_what_it_needs(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(MODULES)
    assert too_many(set(python("-c", COMMAND, "run", str(program)).split()), RUN) == []


def test_who_switched_the_guard_off_needs_no_engine() -> None:
    program = f"""
import os
os.environ["NPACCEL_GUARD"] = "off"
import numpy as np, npaccel
with npaccel.accelerate():
    np.ones(1 << 17) * 2.0
npaccel.asarray(np.ones(1 << 17)) * 2.0
{MODULES}
"""
    assert too_many(set(python("-c", program).split()), START) == []


def test_import_is_quick(tmp_path: Path) -> None:
    """100 ms, or on a slow machine no more than NumPy takes."""
    times = []
    for _ in range(9):  # the first one writes byte code
        numpys, ours = map(float, python("-c", TIMED, bytecode=tmp_path).split())
        if ours < max(LIMIT_S, numpys):
            return
        times.append((numpys, ours))
    raise AssertionError(f"CPU seconds of importing NumPy, and npaccel after it: {times}")


def test_how_long_blas_waits_is_left_to_others() -> None:
    """What NumPy is loaded with is gone afterwards, unless somebody else has set it."""
    shown = "import os; print(os.environ.get('OPENBLAS_THREAD_TIMEOUT'))"
    assert python("-c", f"import npaccel; {shown}").strip() == "None"
    given = "import os; os.environ['OPENBLAS_THREAD_TIMEOUT'] = '24'"
    assert python("-c", f"{given}; import npaccel; {shown}").strip() == "24"
    seen = """
import os, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "numpy":
            print(os.environ.get("OPENBLAS_THREAD_TIMEOUT"))
sys.meta_path.insert(0, Finder())
"""
    assert python("-c", f"{seen}\nimport npaccel").split() == ["20"]
    assert python("-c", f"{seen}\nimport numpy, npaccel").split() == ["None"]
