"""`npaccel run`: child processes of the program are accelerated, too; other programs are not."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

import npaccel
from npaccel import later

HERE = str(Path(npaccel.__file__).parent.parent)
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONSAFEPATH"} | {"PYTHONPATH": HERE}

# What is asked for is passed on, so small arrays are recorded, too.
KIND = """
import sys
import numpy as np

def kind(size=1000):
    return "ndarray" if type(np.ones(size) + 1) is np.ndarray else "Array"

"""
POOL = """
import multiprocessing

if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        print(pool.apply(kind), pool.apply(kind, (1,)))
"""


def run(where: Path, source: str, *words: str, name: str = "program.py") -> str:
    """What the program prints, run with all arrays of eight bytes or more recorded."""
    (where / name).write_text(KIND + textwrap.dedent(source))
    done = subprocess.run(
        [sys.executable, "-m", "npaccel", "run", "--min-size=16", *words],
        cwd=where,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.pending
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("program", [["program.py"], ["-m", "program"]], ids=["file", "module"])
def test_pools(tmp_path: Path, method: str, program: list[str]) -> None:
    assert run(tmp_path, POOL, *program, method) == "Array ndarray\n"


@pytest.mark.pending
def test_a_default_that_is_set_by_the_program_and_executors(tmp_path: Path) -> None:
    source = """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    if __name__ == "__main__":
        multiprocessing.set_start_method("spawn")
        with ProcessPoolExecutor(2) as pool:
            print(*pool.map(kind, [1000, 1, 1000]))
    """
    assert run(tmp_path, source, "program.py") == "Array ndarray Array\n"


@pytest.mark.pending
def test_children_of_children(tmp_path: Path) -> None:
    source = """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    def deeper(depth):
        if depth == 0:
            return kind()
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(deeper, depth - 1).result()

    if __name__ == "__main__":
        print(deeper(2))
    """
    assert run(tmp_path, source, "program.py") == "Array\n"


@pytest.mark.pending
def test_loky(tmp_path: Path) -> None:
    pytest.importorskip("joblib")
    source = """
    import joblib

    if __name__ == "__main__":
        print(*joblib.Parallel(n_jobs=2)(joblib.delayed(kind)(n) for n in (1000, 1, 1000)))
    """
    assert run(tmp_path, source, "program.py") == "Array ndarray Array\n"


def test_other_programs_are_left_alone(tmp_path: Path) -> None:
    source = """
    import subprocess
    subprocess.run([sys.executable, "-c", "import sys; print('npaccel' in sys.modules)"])
    """
    assert run(tmp_path, source, "program.py") == "False\n"


def test_an_interpreter_without_npaccel_computes_with_numpy(tmp_path: Path) -> None:
    """It says so, and is a working child."""
    source = """
    import multiprocessing, os
    import npaccel.children

    if __name__ == "__main__":
        npaccel.children.OPENING = npaccel.children.OPENING.replace("enter", "nothing_there")
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.apply(kind))
    """
    (tmp_path / "program.py").write_text(KIND + textwrap.dedent(source))
    done = subprocess.run(
        [sys.executable, "-m", "npaccel", "run", "program.py"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "ndarray\n")
    assert "this child process is not accelerated: cannot import name" in done.stderr


def test_nothing_is_imported_for_it(tmp_path: Path) -> None:
    assert run(tmp_path, "print('multiprocessing' in sys.modules)", "program.py") == "False\n"


def test_an_awaited_module_is_loaded_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing, "spawn", importlib.import_module("multiprocessing.spawn"))
    monkeypatch.delitem(sys.modules, "multiprocessing.spawn")
    monkeypatch.setattr(sys, "meta_path", sys.meta_path.copy())
    monkeypatch.setattr(later, "_WATCH", later._Watch())
    seen: list[ModuleType] = []
    later.when_imported("multiprocessing.spawn", seen.append)
    assert later._WATCH.find_spec("multiprocessing.pool") is None
    assert not seen
    module = importlib.import_module("multiprocessing.spawn")
    assert seen == [module]
    assert "exec_module" not in vars(module.__loader__)
    later.when_imported("multiprocessing.spawn", seen.append)
    assert seen == [module, module]


@pytest.mark.pending
def test_what_of_numpy_is_imported_later_is_seen(tmp_path: Path) -> None:
    """The block is open before the program begins."""
    source = """
    import numpy as np
    made = np.random.default_rng(1).normal(size=200_000)
    print("ndarray" if type(made) is np.ndarray else "Array")
    """
    assert run(tmp_path, "print('numpy.random' in sys.modules)", "program.py") == "False\n"
    assert run(tmp_path, source, "program.py") == "Array\n"
