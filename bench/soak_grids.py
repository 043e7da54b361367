"""Random programs on grids that no cache holds, where everything meets: each against NumPy.

    python bench/soak_grids.py [--programs 1000] [--seed 0] [--seconds 0] [--mode all] [--runs 3]
                               [--show SEED] [--text FILE]

The programs are `random_grids.py`'s: stencils in place, scans, folds, sorts, picks and puts, copies
that shift, products, transforms, draws, held views, sections, other dtypes, on parts of arrays of
0.3 to 8 MiB; what reads, writes and runs meanwhile (`npaccel.evaluate(..., wait=False)`). Each runs
in NumPy, then two or three times in blocks, or outside of them on wrapped arrays, in a process with
some others; and so do two more processes with the same command line and the same cache folder. What
a process is set to, its *mode*, is that of its place in the list MODES. The number of threads and
what the block is follow from the seed.

Compared are, of all arrays at the end and of all that was read: values, dtypes, shapes, strides,
flags, which share memory and where; errors, and warnings with their lines. Sums of floats are near.
Not compared: the signs of NaNs, strides as in `soak_mixed.py`, and what ends in MemoryError where
memory is short. Of a program that fails, what is left of it when lines are taken away is printed.
Exits with 1 where anything differs.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import faulthandler
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import npaccel
from npaccel import _native
from npaccel.runtime.devices import cost

sys.path.insert(0, str(Path(__file__).parent))
import soak_loops
import soak_mixed
import soak_programs
from random_grids import ARRAYS, Grids

PART, WRONG = 8, 7  # programs of a process; its status where one differs
MOST_S = 300  # of a program: more is taken to hang
SHORT = "MemoryError", "('out', ('int', '252'))"  # of the program, of its child
RAISED = "it raises"  # in NumPy as well
MOST_TRIALS = 150  # of texts that are shorter
SOON = {name: lambda *_: True for name in soak_programs.PAYS}
MODES: dict[str, dict[str, Any]] = {
    "eager": {"tiering": "eager"},
    "usual": {},
    "soon": {"soon": True},
    "waiting": {"tiering": "eager", "trials": False},
    "tight": {"tiering": "eager", "tight": 16, "trials": False},
    "short": {"soon": True, "tight": 9},
    "check": {"tiering": "eager", "check": "compute"},
    "beside": {"soon": True, "check": "beside"},
    "opencl": {"tiering": "eager", "backend": "opencl"},
    "c": {"soon": True, "backend": "c"},
    "blocks": {"tiering": "off"},
    "small": {"tiering": "eager", "threshold": 1 << 12},
    "numpy": {"backend": "numpy"},
}


class Near:
    """Floats whose last bits are ours; equal to others that are as near as sums are."""

    def __init__(self, x: Any) -> None:
        self.x = np.array(x)

    def __eq__(self, other: object) -> bool:
        x, y = self.x, getattr(other, "x", None)
        if y is None or x.dtype != y.dtype or x.shape != y.shape:
            return False
        finite = np.abs(y[np.isfinite(y)])
        off = 1e-9 * finite.max() if finite.size else 0.0
        return np.allclose(x, y, rtol=1e-9, atol=off + 1e-12, equal_nan=True)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"near {self.x}"


def counts(x: Any) -> Any:
    """What can become integers."""
    return np.nan_to_num(np.clip(x, -99, 99))


def raw(x: np.ndarray) -> Any:
    """The memory, by its buffer."""
    return np.asarray(memoryview(x))


def own(seed: int) -> Any:
    """A generator of NumPy's class over the words of npaccel's."""
    return np.random.Generator(npaccel.random.Philox(seed))


def ending(names: dict[str, Any]) -> list[Any]:
    """What a program comes to."""
    found = [(k, soak_mixed.facts(names[k])) for k in ARRAYS]
    for one in names["out"]:
        found.append(("out", one if isinstance(one, Near) else soak_mixed.facts(one)))
    arrays = {k: names[k] for k in ARRAYS if isinstance(names[k], np.ndarray)}
    for k, x in arrays.items():
        for j, y in arrays.items():
            if k < j and np.may_share_memory(x, y):
                place, other = (a.__array_interface__["data"][0] for a in (x, y))
                found.append((k + j, place - other))
    states = str(names["rng"].bit_generator.state), names["old_rng"].get_state()[2]
    return [*found, states, ("told", sorted(map(str, names["told"])))]


FLIGHTS: list[Any] = []


def begin(*arrays: Any) -> None:
    """Run what these need, or all, while the program goes on."""
    FLIGHTS.append(npaccel.evaluate(*arrays, wait=False))


def settle() -> None:
    while FLIGHTS:
        FLIGHTS.pop().result(60)


def nothing(*_: Any) -> None:
    """Likewise, in NumPy."""


def threaded(call: Callable[[], Any]) -> Any:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


MORE = {
    "threaded": threaded,
    "near": Near,
    "counts": counts,
    "raw": raw,
    "ending": ending,
    "own": own,
}
NUMPY = {**soak_mixed.NUMPY, **MORE, "begin": nothing, "settle": nothing}
NUMPY["accel"] = soak_programs.Nothing
OURS = {**soak_mixed.OURS, **MORE, "begin": begin, "settle": settle}
OURS["own"] = lambda seed: npaccel.random.Generator(npaccel.random.Philox(seed))


def outcome(code: Any, names: dict[str, Any]) -> Any:
    """What the program comes to; where it raises, that."""
    try:
        return soak_mixed.outcome(code, names)
    finally:
        FLIGHTS.clear()


@contextlib.contextmanager
def settings(mode: dict[str, Any], chance: random.Random, size: int) -> Iterator[Callable[[], Any]]:
    """Those of the mode; the block in which a program with grids of `size` bytes runs."""
    names = ("tiering", "check", "backend", "threshold")
    values = {name: mode[name] for name in names if name in mode}
    values["threads"] = chance.choice((1, 2, 2, 3, 5))
    if "tight" in mode:
        npaccel.evaluate()
        values["host_memory"] = npaccel.stats()["used_bytes"] + mode["tight"] * size
    for name, usual in soak_programs.PAYS.items():
        setattr(cost.Costs, name, SOON[name] if mode.get("soon") else usual)
    _native.trials(mode.get("trials", "tiering" not in mode))
    with npaccel.config(**values):
        yield chance.choice(
            (*[npaccel.accelerate] * 3, soak_programs.enabled, soak_programs.Nothing)
        )


def differences(seed: int, text: str, mode: dict[str, Any], size: int) -> str:
    """How npaccel's outcome differs from NumPy's; empty: not at all."""
    code, chance = compile(text, f"<program {seed}>", "exec"), random.Random(seed)
    faulthandler.dump_traceback_later(MOST_S, exit=True)
    expected = outcome(code, NUMPY)
    with settings(mode, chance, size) as block:
        for turn in range(2 + (seed % 3 == 0)):
            with block():
                found = outcome(code, OURS)
            if found == expected or "SectionError" in str(found[:1]):
                continue
            if "tight" in mode and any(word in str(found) for word in SHORT):
                continue
            if outcome(code, NUMPY) != expected:
                return ""  # NumPy itself gives this or that
            return f"in {block}, " + soak_loops.told(seed, turn, found, expected, "")
    return RAISED if len(expected) == 2 else ""


def work(options: argparse.Namespace) -> int:
    """The programs, in this process."""
    faulthandler.enable()
    wrong = raised = 0
    for seed in range(options.seed, options.seed + options.programs):
        writer = Grids(seed)
        text = Path(options.text).read_text() if options.text else writer.program()
        print(seed, file=sys.stderr, flush=True)
        try:
            size = 8 * int(np.prod(writer.shape))
            said = differences(seed, text, MODES[options.mode], size)
        except Exception:
            said = f"program {seed}: {traceback.format_exc()}"
        raised += said == RAISED
        if said and said != RAISED:
            wrong += 1
            print(said, flush=True)
    told = npaccel.stats()
    print(
        {k: told[k] for k in (*soak_loops.COUNTS, "chained_kernels", "sliced")}, raised, flush=True
    )
    return WRONG if wrong else 0


# ------------------------------------------------------------------------------- many processes


def processes(seed: int, count: int, mode: str, runs: int, text: str = "") -> tuple[bool, str]:
    """Programs seed, seed + 1 ... in processes that follow each other. Whether all was right, and
    what the last one said."""
    command = [sys.executable, "-P", sys.argv[0], "--alone", "--mode", mode, "--seed", str(seed)]
    command += ["--programs", str(count), *(["--text", text] if text else [])]
    with tempfile.TemporaryDirectory(prefix="npaccel-grids-") as folder:
        for run in range(runs):
            environment = {**os.environ, "NPACCEL_CACHE_DIR": folder}
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, env=environment
            )
            if done.returncode != 0:
                said = done.stdout + (done.stderr[-4000:] if done.returncode != WRONG else "")
                return False, f"{mode}, process {run}, status {done.returncode}: {said}"
    return True, done.stdout


def blocks(lines: list[str]) -> list[tuple[int, int]]:
    """Each line with those that are further in, the longest first."""

    def depth(line: str) -> int:
        return len(line) - len(line.lstrip())

    found = []
    for k, line in enumerate(lines):
        end = k + 1
        while end < len(lines) and depth(lines[end]) > depth(line):
            end += 1
        found.append((k, end))
    return sorted(found, key=lambda b: b[0] - b[1])


def shrunk(seed: int, mode: str, runs: int, text: str) -> str:
    """What is left of the program when all lines are gone without which it fails, too."""
    with tempfile.TemporaryDirectory(prefix="npaccel-grids-") as folder:
        file = Path(folder, "program")

        def fails(lines: list[str]) -> bool:
            file.write_text("\n".join(lines))
            return not processes(seed, 1, mode, runs, str(file))[0]

        lines, trials, place = text.split("\n"), 0, 0
        if not fails(lines):
            return "it does not fail alone\n"
        while place < len(lines) and trials < MOST_TRIALS:
            first, end = blocks(lines)[place]
            fewer = lines[:first] + lines[end:]
            gone = is_program(fewer) and fails(fewer)
            lines, place, trials = (
                (fewer, place, trials + 1) if gone else (lines, place + 1, trials + 1)
            )
    return "\n".join(lines) + "\n"


def is_program(lines: list[str]) -> bool:
    try:
        compile("\n".join(lines), "<program>", "exec")
    except SyntaxError:
        return False
    return bool(lines) and lines[-1].endswith("return ending(locals())")


def failing(said: str, first: int) -> int:
    """The seed of the program that failed."""
    words = said.partition("program ")[2].partition(",")[0].partition(":")[0]
    if words.isdigit():
        return int(words)
    seeds = [int(line) for line in said.split() if line.isdigit()]
    return next((k for k in reversed(seeds) if first <= k < first + PART), first)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=0.0, help="end after so many; 0: none")
    parser.add_argument("--mode", default="all", help=f"all, or of {', '.join(MODES)}")
    parser.add_argument("--runs", type=int, default=3, help="processes with the same folder")
    parser.add_argument("--show", type=int, help="print the program of that seed, and end")
    parser.add_argument("--text", help="a file with a program, instead of one of that seed")
    parser.add_argument("--alone", action="store_true", help="in this process")
    options = parser.parse_args()
    if options.show is not None:
        print(Grids(options.show).program())
        return 0
    if options.alone:
        return work(options)
    return campaign(options)


def campaign(options: argparse.Namespace) -> int:
    begun, failures, done = time.monotonic(), 0, 0
    modes = list(MODES) if options.mode == "all" else options.mode.split(",")
    while done < options.programs:
        mode, seed = modes[done // PART % len(modes)], options.seed + done
        count = min(PART, options.programs - done)
        right, said = processes(seed, count, mode, options.runs, options.text or "")
        done += count
        if not right:
            failures, wrong = failures + 1, failing(said, seed)
            text = Path(options.text).read_text() if options.text else Grids(wrong).program()
            print(f"{said}\nshortened, program {wrong} in mode {mode}:")
            print(shrunk(wrong, mode, options.runs, text))
        took = time.monotonic() - begun
        print(
            f"{mode}: {done} programs, {failures} parts wrong, {took:.0f} s, {said[-200:].strip()}"
        )
        sys.stdout.flush()
        if 0 < options.seconds < took:
            break
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
