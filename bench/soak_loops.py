"""Random loops in an `accelerate` block, each against NumPy: a wrong value, word or warning?

    python bench/soak_loops.py [--programs 20000] [--seed 0] [--backend auto] [--check off]
                               [--threshold 4096] [--smaller] [--processes 2] [--show SEED]

Each program makes its arrays by NumPy's functions inside the block, and is a loop (perhaps two, one
in the other) over statements on them: expressions, writes in place through moving slices, masks and
indices, `out=`, new arrays, other sizes, swaps. Now and then a value is read: as a number, through
a pointer, a memoryview, a file, bytes, a list, a pickle, in a thread, in a forked child. Some
rounds raise, warn, write through a pointer or end the loop. What the program returns must be
NumPy's to the bit: values, dtypes, shapes, words of errors and warnings. Operations are exact, so
that results of ours and of NumPy's have the same bits; sums are of small integers. No number grows
to infinity, for the sign of what comes of two NaNs is not NumPy's, and zeros of a maximum lose
their sign.

A tenth of the programs runs a second time in the process, when there may be code. Exits with 1
where anything differs, and prints the program.

With --smaller arrays have 64 to 256 KiB and the threshold is 256: operators are recorded where a
trial finds that it wins. What trials find is made up: that it wins, that it loses, or either.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import ctypes
import faulthandler
import io
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import npaccel
from npaccel import _native

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "runtime"))
sys.path.insert(0, str(Path(__file__).parents[1]))
import loops
from telling import comparable

MAKERS = (
    "np.zeros({n})",
    "np.ones({n})",
    "np.full({n}, 0.375)",
    "np.linspace(-1, 1, {n})",
    "np.arange({n}) * 0.25",
    "np.cumsum(np.ones({n})) % 7.0",
    "np.array([k * 0.125 for k in range({n})])",
    "np.random.default_rng({n}).random({n})",
    "np.random.RandomState({n}).standard_normal({n})",
    "np.tile(np.array([0.5, -1.5, 2.0]), {n} // 3 + 1)[:{n}].copy()",
    "np.frombuffer(bytes(8 * {n})).copy()",
    "np.fromfunction(lambda k: k / 16 - 2, ({n},))",
    "np.concatenate((np.zeros({n} - 9), np.ones(9)))",
    "np.load(io.BytesIO(saved))[:{n}].copy()",
)
BINARY = (
    "{} + {}",
    "{} - {}",
    "np.clip({} * {}, -64, 64)",
    "np.maximum({}, {}) + 0.0",
    "np.fmin({}, {}) + 0.0",
)
UNARY = (
    "np.sqrt(np.abs({}))",
    "-{}",
    "{} * 0.5",
    "{} - 0.25 * t",
    "np.where({0} > 0, {0}, 0.125)",
    "np.clip({}, -2, 2)",
    "np.roll({}, t % 5 - 2)",
    "np.concatenate(({0}[-1:], {0}, {0}[:1]))[2 * (t % 2) :][:n]",
    "np.stack(({0}, -{0}), axis=t % 2).ravel()[:n]",
    "np.pad({}[1:-1], (t % 3, 2 - t % 3), mode='edge')",
    "np.pad({}[4:-4], 4, mode='wrap')",
    "np.pad({0}, 1, mode='reflect')[2:] - np.pad({0}, 1)[:-2]",
    "np.pad({}, (0, 3), 'symmetric')[3:]",
    "np.repeat({}[: n // 2 + 1], 2)[:n]",
    "np.tile({}[:7], n // 7 + 1)[:n]",
    "np.tile({}[:5, None], (1, n))[t % 5]",
    "{}[::-1]",
    "{0} / (1.0 + {0} * {0})",
    "np.floor({})",
    "np.clip(np.resize({0}[:81].reshape(9, 9)[: t % 9 + 1] @ {0}[1:10], n), -64, 64)",
    "np.clip(np.resize({0}[:64].reshape(8, 8) @ {0}[9:41].reshape(8, -1), n), -64, 64)",
    "np.clip(np.resize({0}[:60].reshape(5, 4, 3) @ {0}[9:15].reshape(3, 2), n), -64, 64)",
)
WRITES = (
    "{x}[1:-1] += 0.125 * ({y}[2:] - 2 * {y}[1:-1] + {y}[:-2])",
    "{x}[t % 5 : n - 9 + t % 5] = 0.5 * {y}[9:n]",
    "{x}[: n - t % 7] -= 0.25 * {y}[t % 7 : n]",
    "{x} *= 0.75",
    "{x} += 0.5 * ({y} - {x})",
    "np.add({x}, 0.125 * {y}, out={x})",
    "np.multiply({x}[::2], 0.5, out={x}[::2])",
    "{x}[{y} > 0.5] = 0.25",
    "{x}[{y} < 0] *= 0.5",
    "{x}[places] = {y}[places[::-1]]",
    "np.add.at({x}, places, 0.5)",
    "np.copyto({x}, 0.5, where={y} > 1)",
    "m = {y} > -1; {x}[m] = 0.5 * {x}[m] + 0.25 * {y}[m]",
    "m = {x} < 1; value = 0.5 * {x}[m]; {y}[m] = value; {x}[m] -= 0.5 * value",
    "m = np.abs({x}) >= 0.25; {y}[m] = {x}[m]; m[t % n] ^= True; {x}[m] = 0.25",
    "m = {y} < 2; part = {x}[m]; part *= 0.5; {y}[t % n] = 0.5; {x}[m] = part",
    "m = {x} > 0; np.multiply({x}, 0.5, out={x}, where=m); kept[3:] = [{x}[m]]",
    "{x}[...] = {y}",
    "{x}.fill(0.25 * (t % 3))",
    "view = {x}[3:-3]; view *= 0.5",
    "{x}[t % n] = t",
    "{x}.sort()",
)
NEW = (
    "{x} = {y}.copy()",
    "{x} = np.zeros_like({y}); {x}[1:] -= {y}[:-1]",
    "old = {y}; {x} = np.empty_like(old); {x}[...] = 0.5 * old",
    "{x} = np.array({y})",
    "{x}, {y} = {y}, {x}",
    "{x} = 0.5 * {y} + 0.25 * rows[t % 5]",
    "rows[t % 6] = 0.5 * {x}",
    "{x} = ({y} * 4).astype(np.int32) * 0.25",
    "{x} = {y}.astype(np.float32).astype(np.float64)",
    "{x} = np.diff({y}, append=0.0)",
)
READS = (
    "out.append(float({x}[3]))",
    "out.append(float({x}.max()) + 0.0)",
    "out.append(int(np.clip(np.floor({x}), -9, 9).sum()))",
    "out.append(np.asarray({x})[::17].copy())",
    "out.append(memoryview({x})[5])",
    "out.append({x}.tobytes()[:64])",
    "out.append({x}[::50].tolist())",
    "out.append(pickle.dumps({x}[:9].copy()))",
    "out.append(pointed({x}, 7))",
    "out.append(written({x}))",
    "out.append({x}.shape); out.append({x}.dtype.str)",
    "kept.append({x})",
    "kept.append({x}[2:9])",
    "out.append(int(np.count_nonzero({x} > 0)))",
    "out.append(sum(1 for v in {x}[:20] if v > 0))",
    "put({x}, 11, 0.5)",
    "out.append(threaded(lambda: float({x}[1]) + float(np.ones(n).sum())))",
    "dead = weakref.ref({x} * 1.0); out.append(dead() is None)",
    "out.append(warned(lambda: float(({x} / (0 * {x}))[2])))",
    "out.append(warned(lambda: float(np.sqrt(-1 - np.abs({x}))[2])))",
    "out.append(raised(lambda: {x}[n + 5]))",
    "out.append(raised(lambda: {x} + {x}[:-1]))",
    "out.append(raised(lambda: operate({x})))",
)
SMALLER = (8300, 12_000, 20_000, 32_000)
PACES = ((1000, 1), (1, 1000), (0, 0))  # what rounds are said to take, recorded and by NumPy
COUNTS = ("requests", "flushes", "kernels", "write_faults")
RARE = ("out.append(forked(lambda: int(({x} + 1.0)[4] * 1024) % 251))",)


class Program(loops.Writer):
    """Writes one program."""

    MOST_READS = 3
    SIZES: tuple[int, ...] = (600, 1000, 2048, 5000)

    def filled(self, texts: tuple[str, ...]) -> str:
        x, y = self.name(), self.name()
        return self.random.choice(texts).replace("{x}", x).replace("{y}", y)

    def operation(self, depth: int) -> None:
        kind, x, y, z = self.random.random(), self.name(), self.name(), self.name()
        if kind < 0.35:
            # Halved, so that nothing overflows however many rounds there are.
            self.add(depth, f"{x} = 0.5 * ({self.random.choice(BINARY).format(y, z)})")
        elif kind < 0.5:
            self.add(depth, f"{x} = {self.random.choice(UNARY).format(y)}")
        elif kind < 0.8:
            self.add(depth, self.filled(WRITES))
        else:
            self.add(depth, self.filled(NEW))

    def read(self, depth: int) -> None:
        rare = self.random.random() < 0.01
        self.add(depth, self.filled(RARE if rare else READS))

    def body(self, depth: int) -> None:
        super().body(depth)
        if self.random.random() < 0.1:
            self.add(depth, f"if t == {self.random.randint(5, 60)}:")
            self.add(depth + 1, "n -= 10; a, b, c, d = resized()")

    def program(self) -> str:
        n = self.random.choice(self.SIZES)
        self.add(0, "def run():")
        self.add(1, f"out, kept, n = [], [], {n}")
        for x in loops.NAMES:
            self.add(1, f"{x} = " + self.random.choice(MAKERS).replace("{n}", "n"))
        self.add(1, "rows = np.ones((6, n))[:, :n] * np.arange(6.0)[:, None]")
        self.add(1, "places = np.arange(3, n - 20, 7)")
        self.add(1, "def resized():")
        self.add(2, "nonlocal rows, places")
        self.add(2, "rows, places = rows[:, :n].copy(), np.arange(3, n - 20, 7)")
        self.add(2, "return tuple(x[:n].copy() for x in (a, b, c, d))")
        for _ in range(self.random.randint(1, 2)):
            self.add(1, f"for t in range({self.random.randint(20, 120)}):")
            self.body(2)
        self.add(1, "return [a, b, c, d, rows, *kept, *out]")
        return "\n".join(self.lines)


# ------------------------------------------------------------------------- what programs call


def pointed(x: np.ndarray, k: int) -> float:
    """An element, through its address."""
    return ctypes.c_double.from_address(x.ctypes.data + k * x.strides[0]).value


def put(x: np.ndarray, k: int, value: float) -> None:
    """Write an element through its address."""
    ctypes.c_double.from_address(x.ctypes.data + k * x.strides[0]).value = value


def written(x: np.ndarray) -> bytes:
    """What a system call finds."""
    with tempfile.TemporaryFile() as file:
        os.pwrite(file.fileno(), np.ascontiguousarray(x), 0)
        return os.pread(file.fileno(), 80, 160)


def threaded(call: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


def forked(call: Callable[[], int]) -> int:
    child = os.fork()
    if child == 0:
        try:
            os._exit(call())
        finally:
            os._exit(252)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def warned(call: Callable[[], float]) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        value = call()
    return [repr(value), *(f"{w.category.__name__}: {w.message}" for w in found)]


def raised(call: Callable[[], Any]) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def operate(x: np.ndarray) -> None:
    with np.errstate(all="raise"):
        float((1.0 / (0.0 * x))[0])


SAVED = io.BytesIO()
np.save(SAVED, np.arange(6000) * 0.5 - 20)
KNOWN = {
    "np": np, "io": io, "pickle": pickle, "weakref": weakref, "saved": SAVED.getvalue(),
    "pointed": pointed, "put": put, "written": written, "threaded": threaded, "forked": forked,
    "warned": warned, "raised": raised, "operate": operate,
}  # fmt: skip


# --------------------------------------------------------------------------------- comparing


def outcome(code: Any, **more: Any) -> list[Any]:
    """What the program returns, or raises, as what can be compared."""
    names = {**KNOWN, **more}
    exec(code, names)
    try:
        with np.errstate(all="ignore"):
            returned = names["run"]()
    except Exception as error:
        return ["raised", type(error).__name__, str(error)]
    shown = []
    for value in returned:
        promised = isinstance(value, concurrent.futures.Future)
        shown.append(comparable(value.result(60) if promised else value))
    return shown


def differences(seed: int) -> str:
    """How npaccel's outcome differs from NumPy's; empty: not at all."""
    text = Program(seed).program()
    code = compile(text, f"<program {seed}>", "exec")
    expected = outcome(code)
    for turn in range(2 if seed % 10 == 0 else 1):
        with npaccel.accelerate():
            found = outcome(code)
        if found != expected:
            return told(seed, turn, found, expected, text)
    return ""


def told(seed: int, turn: int, found: list[Any], expected: list[Any], text: str) -> str:
    """The first difference, in words."""
    where = [k for k, (x, y) in enumerate(zip(found, expected, strict=False)) if x != y]
    first = where[0] if where else min(len(found), len(expected))
    return (
        f"program {seed}, turn {turn}: {len(found)} items, {len(expected)} expected, "
        f"first at {first}: {str(found[first])[:200]} instead of "
        f"{str(expected[first])[:200]}\n{text}\n"
    )


def work(options: argparse.Namespace) -> int:
    """The programs, in this process."""
    faulthandler.enable()
    npaccel.config.threshold = options.threshold
    npaccel.config.backend = options.backend
    npaccel.config.check = options.check
    wrong = 0
    if options.smaller:
        npaccel.config.threshold = 1 << 18
    for seed in range(options.seed, options.seed + options.programs):
        if options.smaller:
            _native.trials(True, *PACES[seed % 3], 1)
        else:
            npaccel.config.tiering = ("adaptive", "eager", "off")[seed % 3]
        print(seed, file=sys.stderr, flush=True)
        try:
            text = differences(seed)
        except Exception:
            text = f"program {seed}: {traceback.format_exc()}"
        if text:
            wrong += 1
            print(text, flush=True)
    counts = npaccel.stats()
    print({k: counts[k] for k in COUNTS}, flush=True)
    return WRONG if wrong else 0


PART, WRONG = 100, 7


def part(first: int, count: int, options: argparse.Namespace) -> tuple[int, str]:
    """Programs first, first + 1 ... in a process of their own, of which a crash is told."""
    command = [sys.executable, "-P", sys.argv[0], "--alone", "--seed", str(first)]
    command += ["--programs", str(count), "--threshold", str(options.threshold)]
    command += ["--backend", options.backend, "--check", options.check]
    command += ["--smaller"] if options.smaller else []
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout
    if done.returncode not in (0, WRONG):
        said += f"programs from {first} on: ended with {done.returncode}: {done.stderr[-9000:]}"
    return done.returncode, said


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--check", default="off")
    parser.add_argument("--threshold", type=int, default=4096, help="bytes, see npaccel.config")
    parser.add_argument("--smaller", action="store_true", help="arrays of 64 to 256 KiB")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--show", type=int, help="print the program of that seed, and end")
    parser.add_argument("--alone", action="store_true", help="in this process")
    options = parser.parse_args()
    if options.smaller:
        Program.SIZES = SMALLER
    if options.show is not None:
        print(Program(options.show).program())
        return 0
    if options.alone:
        return work(options)
    begin, done, failures = time.monotonic(), 0, 0
    end = options.seed + options.programs
    pool = concurrent.futures.ThreadPoolExecutor(options.processes)
    try:
        firsts = range(options.seed, end, PART)
        jobs = [pool.submit(part, k, min(PART, end - k), options) for k in firsts]
        for job in concurrent.futures.as_completed(jobs):
            code, said = job.result()
            done = min(done + PART, options.programs)
            failures += code != 0
            print(said, end="")
            print(f"{done} programs, {failures} parts wrong, {time.monotonic() - begin:.0f} s")
            sys.stdout.flush()
    finally:
        pool.shutdown(cancel_futures=True)  # it would run all parts after an interrupt
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
