"""Runs the installed tests of NumPy, or of libraries around it, with the plugin beside this file,
file by file, in several modes."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SITE = Path(np.__file__).parents[1]
NUMPY = ("_core", "lib", "linalg", "fft", "random", "ma", "polynomial", "matrixlib")
# Of the libraries around it, what works on arrays: folders with a folder "tests", or in one.
SUITES = {
    "scipy": """ndimage fft fft/_pocketfft integrate linalg interpolate signal optimize spatial
        special stats sparse cluster""",
    "pandas": """tests/arithmetic tests/window tests/reductions tests/series/methods tests/series
        tests/frame/methods tests/frame tests/reshape tests/groupby tests/apply""",
    "sklearn": """preprocessing metrics decomposition cluster linear_model neighbors mixture
        covariance gaussian_process feature_selection impute utils""",
    "xarray": "tests",
    "skimage": """tests/filters tests/morphology tests/transform tests/measure tests/feature
        tests/segmentation tests/restoration tests/registration tests/metrics tests/exposure
        tests/color tests/draw tests/graph tests/util""",
    "astropy": """convolution stats modeling nddata timeseries units utils/masked coordinates time
        wcs""",
    "statsmodels": """regression tsa nonparametric robust stats multivariate genmod discrete
        distributions""",
    "dask": "array",
}
# These first: they say most.
FIRST = ("umath", "multiarray", "numeric", "ufunc", "indexing", "regression", "function_base")
BAD = frozenset(("failed", "crashed", "slow"))  # outcomes
CRASHES = 20  # in one file; beyond it the file is given up
# Every operation is compiled before its first run, so that kernels are what is judged; PoCL builds
# no second variant of each, in half the time.
SETTINGS = {
    "NPACCEL_TIERING": "eager",
    "OMP_NUM_THREADS": "2",
    "POCL_WORK_GROUP_SPECIALIZATION": "0",
}
# Of libraries around NumPy: as a user has it, kernels when they have come, from one folder for all.
# Short tests end before; "eager" judges kernels.
AROUND = {"OMP_NUM_THREADS": "2"}
AROUND_MODES = ("npaccel", "eager", "users")
BACKENDS = {"npaccel": "llvm", "eager": "llvm", "users": "auto", "opencl": "opencl"}  # of modes
TIERING = {"eager": "eager", "users": "adaptive"}  # of modes that set it


def files(names: Sequence[str], library: str = "numpy") -> Iterator[str]:
    """Test files that one of `names` ("lib", "_core/tests/test_umath.py") is part of.

    library : "numpy", whose files are named from its folder on; or one of `SUITES`, if it is
        installed, whose files are named with it ("scipy/fft/tests/test_helper.py").
    """
    root = SITE / "numpy" if library == "numpy" else SITE
    parts = NUMPY if library == "numpy" else SUITES[library].split()
    found = [
        path.relative_to(root).as_posix()
        for part in parts
        for path in sorted((SITE / library / _tests(part)).glob("test_*.py"))
    ]
    first = [f"_core/tests/test_{name}.py" for name in FIRST]
    for name in (*first, *(name for name in found if name not in first)):
        if name in found and (not names or any(part in name for part in names)):
            yield name


def _tests(part: str) -> str:
    return part if part.startswith("tests") else f"{part}/tests"


def _around(name: str) -> bool:
    """Whether it is a file of a library around NumPy."""
    return name.partition("/")[0] in SUITES


def run(
    name: str,
    mode: str,
    folder: Path,
    seconds: int,
    extra: Sequence[str],
    keep: str = "",
    whole: float = math.inf,
) -> Path:
    """The notes of one file in one mode; resumed after a crash.

    keep : of an earlier run: nothing; "all", and what is missing is run; "passed", and what failed
        is run again.
    whole : seconds after which the file is stopped.
    """
    path = (SITE if _around(name) else SITE / "numpy") / name
    folder.mkdir(parents=True, exist_ok=True)
    notes = folder / (name.replace("/", ".") + ".jsonl")
    if not keep:
        notes.unlink(missing_ok=True)
    _forget_unfinished(notes)
    if ends(notes) and not (keep == "passed" and _forget_failures(notes)):
        return notes
    before = ends(notes)
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    shared = {"NPACCEL_CACHE_DIR": str(folder.parent / "cache")}
    environment = (
        (AROUND | shared if _around(name) else SETTINGS)
        | {"NPACCEL_BACKEND": BACKENDS.get(mode, "numpy")}
        | os.environ
        | ({"NPACCEL_TIERING": TIERING[mode]} if mode in TIERING else {})
        | {
            "JUDGE_MODE": mode,
            "JUDGE_NOTES": str(notes),
            # Absolute, since the tests run in another folder.
            "PYTHONPATH": os.pathsep.join([str(HERE), *map(os.path.abspath, filter(None, given))]),
        }
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "plugin", "-p", "no:cacheprovider"]
    command += ["-c", os.devnull, f"--rootdir={SITE}", f"--timeout={seconds}", *extra]
    until = time.time() + whole
    for _ in range(CRASHES):
        status = _watched([*command, str(path)], environment, notes, 2 * seconds, until)
        if ends(notes) > before and status < 0 and status != -signal.SIGINT:
            with notes.open("a") as more:
                more.write(json.dumps({"test": f"{name}::at_exit", "outcome": "crashed"}) + "\n")
        over = ends(notes) > before or time.time() > until
        if over or status in (0, 1, 2, 5, -signal.SIGINT):
            break
    return notes


def _watched(
    command: Sequence[str],
    environment: Mapping[str, str],
    notes: Path,
    seconds: int,
    until: float,
) -> int:
    """The exit status; interrupted at the time `until`, and killed if nothing is noted for so many
    seconds, for pytest can't stop C code."""
    with (
        notes.with_suffix(".log").open("wb") as log,
        subprocess.Popen(
            command, env=environment, stdout=log, stderr=subprocess.STDOUT, cwd=notes.parent
        ) as process,
    ):
        began = time.time()  # notes may be of an earlier run
        interrupted = False
        while True:
            try:
                return process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                if time.time() > until and not interrupted:
                    interrupted = True
                    process.send_signal(signal.SIGINT)
                last = max(began, notes.stat().st_mtime if notes.exists() else began)
                if time.time() - last > seconds:
                    process.kill()


def ends(notes: Path) -> int:
    """How many runs reached the end of the file."""
    return notes.read_text().count('"ended": ') if notes.exists() else 0


def _forget_unfinished(notes: Path) -> None:
    """Remove the note of a test that had begun when an earlier run was stopped."""
    lines = notes.read_text().splitlines(keepends=True) if notes.exists() else []
    if lines and _begun(lines[-1]):
        notes.write_text("".join(lines[:-1]))


def _begun(line: str) -> bool:
    """Whether it notes the begin of a test. As the last line: of one that was stopped, or runs;
    after a crash the next run's lines follow."""
    return json.loads(line).keys() == {"test"}


def _forget_failures(notes: Path) -> bool:
    """Remove the notes of tests that did not pass; whether there are any."""
    bad = {test for test, outcome in outcomes(notes).items() if outcome in BAD}
    lines = notes.read_text().splitlines(keepends=True)
    notes.write_text("".join(line for line in lines if json.loads(line)["test"] not in bad))
    return bool(bad)


def outcomes(notes: Path) -> dict[str, str]:
    """Test id to outcome; "crashed" for one that began and did not end, "slow" at the limit."""
    found: dict[str, str] = {}
    lines = notes.read_text().splitlines() if notes.exists() else []
    if lines and _begun(lines[-1]):
        lines.pop()
    for line in lines:
        entry = json.loads(line)
        if entry["test"]:
            outcome = entry.get("outcome", "crashed")
            if outcome == "failed" and "Timeout (>" in entry["text"]:
                outcome = "slow"
            worst = {"failed"} & {found.get(entry["test"])}
            found[entry["test"]] = "failed" if worst else outcome
    return found


def texts(notes: Path) -> dict[str, str]:
    """Test id to the text of its failure."""
    lines = notes.read_text().splitlines() if notes.exists() else []
    return {e["test"]: e["text"] for e in map(json.loads, lines) if e.get("text")}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of file names; none: all")
    parser.add_argument(
        "--modes",
        default="plain,subclass,npaccel,users",
        help="separated by commas; also: opencl. Libraries around NumPy: npaccel, users, or eager, "
        "where all is compiled before its first run, and plain where something failed",
    )
    parser.add_argument(
        "--library", default="numpy", help="or, separated by commas: " + ", ".join(SUITES)
    )
    parser.add_argument("--out", type=Path, default=Path(".conformance"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=600, help="for one test")
    parser.add_argument("--whole", type=float, default=math.inf, help="seconds for one file")
    parser.add_argument(
        "--keep", choices=("all", "passed"), default="", help="of what an earlier run found"
    )
    parser.add_argument("-k", default="", help="as pytest's")
    arguments = parser.parse_args()
    extra = ["-k", arguments.k] if arguments.k else []
    out = arguments.out.resolve()
    modes = arguments.modes.split(",")
    tasks: list[tuple[str, list[str]]] = []
    for library in arguments.library.split(","):
        for name in files(arguments.names, library):
            if _around(name):
                tasks.append((name, [*(mode for mode in modes if mode in AROUND_MODES), "plain"]))
            else:
                tasks += [(name, [mode]) for mode in modes]

    def told(task: tuple[str, list[str]]) -> list[str]:
        lines, failed = [], False
        for mode in task[1]:
            if _around(task[0]) and mode == "plain" and not failed:
                break
            limits = arguments.seconds, extra, arguments.keep, arguments.whole
            notes = run(task[0], mode, out / mode, *limits)
            found = list(outcomes(notes).values())
            bad = {key: found.count(key) for key in BAD if key in found}
            lines.append(f"{task[0]} {mode}: {found.count('passed')} passed {bad or ''}")
            failed = failed or bool(bad)
        return lines

    with ThreadPoolExecutor(arguments.jobs) as pool:
        results = pool.map(told, tasks)
        try:
            for lines in results:
                print(*lines, sep="\n", flush=True)
        except KeyboardInterrupt:  # which the tests that run got as well
            pool.shutdown(cancel_futures=True)
            print("Stopped; --keep all goes on from here.", flush=True)
            return 128 + signal.SIGINT
    return 0


if __name__ == "__main__":
    sys.exit(main())
