"""Whatever reads a deferred array finds its values; whatever writes into what a recorded operation
reads does not change its result: readers.py and writers.py in fresh processes.

Each process runs all that fits in it, under one arrangement of BLAS threads and of faulthandler
(which takes SIGSEGV too): never enabled, before npaccel is imported, or after. One that takes more
than 20 s by itself is ended by an alarm.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npaccel import _native

from . import foreign, readers, writers
from .fresh import HERE, environment

# These take seconds to import: a process of their own for all of them.
LARGE_READERS = ["numba_function", "pandas_frame", "scikit_learn", "matplotlib_image"]
LARGE_WRITERS = [
    "numba_function",
    "numba_function_with_gil",
    "pandas_values_made_writable",
    "scikit_learn_without_copy",
]
PROGRAMS = {
    "readers": [n for n in (*readers.RAW, *readers.HOOKED) if n not in LARGE_READERS],
    "writers": [n for n in (*writers.RAW, *writers.HOOKED) if n not in LARGE_WRITERS],
    "large readers": LARGE_READERS,
    "large writers": LARGE_WRITERS,
}
RAW = {"readers": readers.RAW, "writers": writers.RAW}
CHOSEN = (("never", 1), ("before", 2), ("after", 1))
REST = (("never", 2), ("before", 1), ("after", 2))
WATCHDOG_S = 120.0  # with all that is imported and compiled


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the Cython module is, once for all processes."""
    folder = tmp_path_factory.mktemp("built")
    if not foreign.unmet("Cython"):
        foreign.build_cython(folder)
    return folder


def run(program: str, built: Path, blas_threads: int, faulthandler: str) -> list[list[str]]:
    variables = {
        "OPENBLAS_NUM_THREADS": str(blas_threads),
        "TEST_FAULTHANDLER": faulthandler,
        "TEST_BUILT": str(built),
    }
    flags = ["-X", "faulthandler"] if faulthandler == "before" else []
    script = HERE / f"{program.rsplit(maxsplit=1)[-1]}.py"
    done = subprocess.run(
        [sys.executable, *flags, str(script), *PROGRAMS[program]],
        env=environment(variables),
        capture_output=True,
        text=True,
        timeout=WATCHDOG_S,
        check=False,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [line[1] for line in lines] == PROGRAMS[program]
    return lines


def ways() -> Iterator[Any]:
    """What takes long to import is there without faulthandler; in the other modes it is slow."""
    for program in PROGRAMS:
        for case in (*CHOSEN, *REST):
            slow = case in REST or (program.startswith("large") and case != CHOSEN[0])
            yield pytest.param(program, *case, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize(("program", "faulthandler", "blas_threads"), list(ways()))
def test_they_find_and_leave_the_values(
    program: str, faulthandler: str, blas_threads: int, built: Path
) -> None:
    missing = set()
    for state, name, detail in run(program, built, blas_threads, faulthandler):
        if state == "skipped":
            missing.add(detail)
        elif name in RAW[program.rsplit(maxsplit=1)[-1]]:
            assert int(detail) > 0 or not _native.guarded(), f"{name} touched nothing"
    if missing:
        pytest.skip(f"the others did; not installed: {', '.join(sorted(missing))}")
