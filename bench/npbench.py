"""NPBench's and numpy-benchmarks' programs as they are, in `npaccel.accelerate()`.

NPBench (https://github.com/spcl/npbench; Ziogas et al., ICS 2021) has some fifty programs with
sizes S, M, L; numpy-benchmarks (https://github.com/serge-sans-paille/numpy-benchmarks) some thirty
with one size, most of them small. They are not part of this project: give the path of a checkout.

    python bench/npbench.py ../npbench --preset M --only fdtd_2d,softmax
    python bench/npbench.py ../numpy-benchmarks --open

Each call is in a block of its own; `--open`: what opening it costs is left out, as under
`npaccel run`, where one block is around all.

Each program runs in two processes of its own, NumPy's and npaccel's, by turns, on fresh copies of
the same inputs: what one does to the memory of its process is no gain of the other's. `first` is
NumPy's first call over npaccel's, with a cold cache; the other columns are of medians once what is
compiled in the background is there (or the time for that is over). The last column says by how
much results differ, in units of the last place of the largest element.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import importlib.util
import json
import math
import os
import pickle
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

TIMEOUT_S = 300
# Sums in another order than NumPy's, and what is computed from them.
MOST_APART = 1000
# Where numpy-benchmarks has its programs.
PLAIN = Path("numpy_benchmarks", "benchmarks")


def function_of(folder: Path, module: str, name: str) -> Callable[..., Any]:
    """The function `name` of `folder/module.py`."""
    spec = importlib.util.spec_from_file_location(module, folder / f"{module}.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"npbench: {folder / module}.py is not there")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    spec.loader.exec_module(loaded)
    return getattr(loaded, name)


def programs_of(checkout: Path) -> list[str]:
    """Their names."""
    return sorted(
        [path.stem for path in (checkout / "bench_info").glob("*.json")]
        or [path.stem for path in (checkout / PLAIN).glob("*.py")]
    )


def plain_program(path: Path) -> tuple[Callable[..., Any], list[Any]]:
    """A file of numpy-benchmarks: comments say how arguments are made and what is called."""
    text = path.read_text()
    setup, call = (
        re.findall(rf"^#{word}: *(.*)$", text, re.MULTILINE)[0] for word in ("setup", "run")
    )
    scope: dict[str, Any] = {}
    exec(setup, scope)
    function, arguments = call.strip().rstrip(")").split("(", 1)
    run = function_of(path.parent, path.stem, function)
    return run, list(eval(f"({arguments},)", scope))


def program_of(checkout: Path, name: str, preset: str) -> tuple[Callable[..., Any], list[Any]]:
    """A program and its arguments."""
    if not (checkout / "bench_info").exists():
        return plain_program(checkout / PLAIN / f"{name}.py")
    sys.path.insert(0, str(checkout))
    facts = json.loads((checkout / "bench_info" / f"{name}.json").read_text())["benchmark"]
    folder = checkout / "npbench" / "benchmarks" / facts["relative_path"]
    values = dict(facts["parameters"][preset])
    made = facts.get("init")
    if made:
        make = function_of(folder, facts["module_name"], made["func_name"])
        results = make(*[values[key] for key in made["input_args"]])
        names = made["output_args"]
        values |= zip(names, (results,) if len(names) == 1 else results, strict=True)
    run = function_of(folder, facts["module_name"] + "_numpy", facts["func_name"])
    return run, [values[key] for key in facts["input_args"]]


def called(run: Callable[..., Any], arguments: list[Any]) -> list[Any]:
    results = run(*arguments)
    return list(results) if isinstance(results, tuple | list) else [results]


def in_numpy(run: Callable[..., Any], arguments: list[Any]) -> tuple[float, list[Any]]:
    """Seconds of one call on copies of the arguments; its results and what it wrote."""
    own = copy.deepcopy(arguments)
    begin = time.perf_counter()
    results = called(run, own)
    return time.perf_counter() - begin, [x for x in (*results, *own) if x is not None]


def in_block(
    run: Callable[..., Any], arguments: list[Any], opened: bool
) -> tuple[float, list[Any]]:
    """The same in `accelerate()`; opened: the block is open before the clock starts."""
    import npaccel

    own = copy.deepcopy(arguments)
    begin = time.perf_counter()
    with npaccel.accelerate():
        if opened:
            begin = time.perf_counter()
        results = called(run, own)
    npaccel.evaluate(*[x for x in (*results, *own) if isinstance(x, np.ndarray)])
    return time.perf_counter() - begin, [x for x in (*results, *own) if x is not None]


def serve(checkout: Path, name: str, preset: str) -> None:
    """NumPy's process: a call for each line that comes, and its seconds; inputs and results go
    where the line says."""
    run, arguments = program_of(checkout, name, preset)
    for where in sys.stdin:
        seconds, results = in_numpy(run, arguments)
        if where.strip():
            Path(where.strip()).write_bytes(pickle.dumps((arguments, results)))
        print(seconds, flush=True)


def difference(expected: list[Any], found: list[Any]) -> float:
    """The largest one, in units of the last place; infinite where dtypes or shapes differ."""
    worst = 0.0
    for one, other in zip(expected, found, strict=True):
        x, y = np.asarray(one), np.asarray(other)
        if x.dtype != y.dtype or x.shape != y.shape:
            return math.inf
        if x.dtype.kind in "biufc" and not np.array_equal(x, y, equal_nan=x.dtype.kind in "fc"):
            with np.errstate(all="ignore"):
                apart = np.nanmax(np.abs(x.astype("c16") - y))
                unit = np.finfo(x.dtype).eps if x.dtype.kind in "fc" else 1
                worst = max(worst, float(apart / (np.nanmax(np.abs(x)) or 1) / unit))
    return worst


@contextlib.contextmanager
def numpys(checkout: Path, name: str, preset: str) -> Iterator[Callable[[str], float]]:
    """A process that has NumPy alone; what is called has it call the program once."""
    words = [sys.executable, "-W", "ignore", __file__, str(checkout), "--serve"]
    words += ["--preset", preset, "--only", name]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None and process.stdout is not None

        def call(where: str = "") -> float:
            assert process.stdin is not None and process.stdout is not None
            print(where, file=process.stdin, flush=True)
            return float(process.stdout.readline())

        yield call
        process.stdin.close()


def measure(checkout: Path, name: str, preset: str, seconds: float, opened: bool) -> dict[str, Any]:
    """All that a row says of one program; runs in a process of its own."""
    import npaccel

    run, _ = program_of(checkout, name, preset)
    with numpys(checkout, name, preset) as plain_once, tempfile.TemporaryDirectory() as folder:
        where = Path(folder, "results")
        first_plain = plain_once(str(where))
        arguments, expected = pickle.loads(where.read_bytes())
        ours_once = functools.partial(in_block, run, arguments, opened)
        first, found = ours_once()
        apart = difference(expected, found)
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:  # until the helper has nothing to do
            before = npaccel.stats()["compiles"], npaccel.stats()["tier0_runs"]
            plain_once("")
            _, found = ours_once()
            apart = max(apart, difference(expected, found))
            if (npaccel.stats()["compiles"], npaccel.stats()["tier0_runs"]) == before:
                break
        plain: list[float] = []
        ours: list[float] = []
        end = time.perf_counter() + seconds
        while len(ours) < 3 or (time.perf_counter() < end and len(ours) < 100):
            plain.append(plain_once(""))
            took, found = ours_once()
            ours.append(took)
    return {
        "first_plain": first_plain,
        "first": first,
        "plain": statistics.median(plain),
        "ours": statistics.median(ours),
        "difference": max(apart, difference(expected, found)),
    }


def line(name: str, row: dict[str, Any]) -> str:
    """A row of the table."""
    apart = "" if row["difference"] == 0 else f"{row['difference']:.1f}"
    return (
        f"{name:26}{1e3 * row['plain']:9.1f}{1e3 * row['ours']:9.1f}"
        f"{row['plain'] / row['ours']:8.2f}{row['first_plain'] / row['first']:8.2f}  {apart}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description="NPBench's programs in npaccel.accelerate()")
    parser.add_argument("checkout", type=Path, help="a checkout of NPBench")
    parser.add_argument("--preset", default="S", choices=("S", "M", "L", "paper"))
    parser.add_argument("--only", default="", help="names of programs, with commas")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each, and for warming up")
    parser.add_argument(
        "--open", action="store_true", help="blocks are open before the clock starts"
    )
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = programs_of(options.checkout)
    if not names:
        parser.error(
            f"{options.checkout} has no programs; clone https://github.com/spcl/npbench"
            " or https://github.com/serge-sans-paille/numpy-benchmarks"
        )
    unknown = {*filter(None, options.only.split(","))} - {*names}
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    names = [name for name in names if not options.only or name in options.only.split(",")]
    if options.serve:
        serve(options.checkout, names[0], options.preset)
        return 0
    if options.one:
        row = measure(options.checkout, names[0], options.preset, options.seconds, options.open)
        print(json.dumps(row))
        return 0
    print(f"{'':26}{'NumPy':>9}{'npaccel':>9}{'times':>8}{'first':>8}  difference      (ms)")
    speedups, wrong = [], False
    for name in names:
        command = [sys.executable, "-W", "ignore", __file__, str(options.checkout), "--one"]
        command += ["--open"] * options.open + [
            "--preset",
            options.preset,
            "--only",
            name,
            "--seconds",
            str(options.seconds),
        ]
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as cache:
            environment = os.environ | {"NPACCEL_CACHE_DIR": cache}
            try:
                done = subprocess.run(
                    command,
                    env=environment,
                    capture_output=True,
                    text=True,
                    timeout=TIMEOUT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                print(f"{name:26}took more than {TIMEOUT_S} s")
                continue
        if done.returncode != 0:
            print(f"{name:26}{(done.stderr.strip().splitlines() or ['failed'])[-1]}")
            continue
        row = json.loads(done.stdout.splitlines()[-1])
        speedups.append(row["plain"] / row["ours"])
        wrong |= not row["difference"] <= MOST_APART
        print(line(name, row), flush=True)
    if speedups:
        mean = statistics.geometric_mean(speedups)
        print(f"geometric mean {mean:.2f}, slowest {min(speedups):.2f}, of {len(speedups)}")
    return int(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
