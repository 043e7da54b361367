"""`npaccel bisect`: the first operation with which a program prints something else than NumPy has.

The program runs as NumPy has it, and with npaccel; where that differs, again and again, with fewer
operations recorded each time. Knows processes and what they print; the rest is `npaccel run`'s.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from npaccel.config import child_environment
from npaccel.errors import ConfigError
from npaccel.launch import Options, parse

__all__ = ["HELP", "bisect"]

HELP = """\
usage: npaccel bisect [OPTION ...] SCRIPT [ARGUMENT ...]    and -m, -c as with npaccel run

Find the first operation with which a program prints something else than with NumPy, by running it
about log2(operations) times, with fewer and fewer operations recorded. It must print the same each
time with NumPy. Exit status: 0 nothing differs, 1 an operation was found, 2 none could be.

  --file FILE       compare this file, too, which the program writes (.npy, or text); also repeated
  --scale NUMBER    how far numbers may be off, as a part of the largest of their line, or of the
                    file (default: 1e-6)
  --min-size BYTES  record operations on arrays of at least so many bytes
  --backend NAME    what runs them

Kernels are compiled before they are needed, unless NPACCEL_TIERING says otherwise.
"""
SCALE = 1e-6
ALL = 10**15
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|nan|inf)\b")
SHOWN = 60
DEFAULTS = {"NPACCEL_TIERING": "eager"}


class Outcome(NamedTuple):
    """What a run of the program left."""

    status: int
    printed: str
    errors: str
    files: dict[str, bytes]


def bisect(words: Sequence[str]) -> int:
    """Run the command with these words behind ``npaccel bisect``; the exit status."""
    names, scale, rest = _own(words)
    options = parse(rest, command="npaccel bisect")
    if options is None:
        print(HELP, end="")
        return 0
    if options.kind == "stdin":
        raise ConfigError("npaccel bisect can't read the program from standard input")
    with tempfile.TemporaryDirectory(prefix="npaccel-bisect-") as folder:
        return Bisection(options, names, scale, str(Path(folder) / "last.json")).run()


def _own(words: Sequence[str]) -> tuple[list[str], float, list[str]]:
    """The options that `npaccel run` has not, and the others."""
    names, scale, rest, others = list[str](), SCALE, list(words), list[str]()
    while rest and rest[0].startswith("--") and rest[0] != "--":
        word, _, value = rest[0].partition("=")
        if word not in ("--file", "--scale", "--min-size", "--backend"):
            break
        if not value and not rest[1:]:
            raise ConfigError(f"{word} needs a value")
        used = 1 if value else 2
        value = value or rest[1]
        if word == "--file":
            names.append(value)
        elif word == "--scale":
            scale = _number(value)
        else:
            others.append(f"{word}={value}")
        rest = rest[used:]
    return names, scale, [*others, *rest]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"--scale={text} is not allowed; it must be a number") from None


class Bisection:
    """path : of the file in which a run says what its last operation was."""

    def __init__(self, options: Options, names: list[str], scale: float, path: str) -> None:
        self._options, self._names, self._scale, self._path = options, names, scale, path

    def run(self) -> int:
        reference = self._numpy()
        if why := self._differs(reference, self._numpy()):
            print(f"The program does not do the same each time with NumPy: {why}.")
            return 2
        ends = f"; {_end(reference)}" if reference.status else ""
        print(f"NumPy: the same twice{ends}.", flush=True)
        everything = self._until(ALL)
        total = self._last()["recorded"] if os.path.exists(self._path) else 0
        why = self._differs(reference, everything)
        if not why:
            if why := self._differs(reference, self._until(None)):
                return self._elsewhere(why, "replays of macro sections")
            print(f"npaccel: nothing differs; {total} operations were recorded.")
            return 0
        print(f"npaccel: {why}.\n{total} operations were recorded.", flush=True)
        if why := self._differs(reference, self._until(0)):
            return self._elsewhere(why, "what npaccel computes at the call (sorting, draws, ...)")
        right, wrong = 0, total
        while wrong - right > 1:
            middle = (right + wrong) // 2
            found = self._differs(reference, self._until(middle))
            print(f"  the first {middle}: {'wrong' if found else 'right'}", flush=True)
            right, wrong = (right, middle) if found else (middle, wrong)
        return self._tell(reference, wrong, total)

    def _elsewhere(self, why: str, what: str) -> int:
        print(f"No recorded operation is the cause, but {what}: {why}.")
        return 2

    def _tell(self, reference: Outcome, number: int, total: int) -> int:
        outcome = self._until(number)
        last = self._last()
        typed = zip(last.get("dtypes", ()), last.get("shapes", ()), strict=False)
        arrays = " ".join(f"{dtype}{list(shape)}".replace(" ", "") for dtype, shape in typed)
        print(
            f"\nOperation {number} of {total} is the first that changes it: "
            f"{last.get('operation', 'unknown')} at {last.get('file', 'unknown line')}:"
            f"{last.get('line', 0)}  {arrays}\n  {self._differs(reference, outcome)}"
        )
        if last.get("kernel"):
            others = last["operations"] - 1
            more = f", with {others} other{'s' if others > 1 else ''}" if others else ""
            print(f"  It runs in kernel {last['kernel']} on {last['backend']}{more}.")
            loops = self._differs(reference, self._until(number, {"NPACCEL_BACKEND": "numpy"}))
            verdict = "as wrong: it is not the kernel" if loops else "right: it is the kernel"
            print(f"  With NumPy's loops in the place of kernels it is {verdict}.")
        else:
            print("  No kernel has computed it.")
        mode = {"NPACCEL_CHECK": "compute", "NPACCEL_CHECK_ACTION": "warn"}
        said = re.findall(r"Warning: (check: .*)", self._until(number, mode).errors)
        print(f"  Check mode: {said[0].removeprefix('check: ') if said else 'no difference'}")
        tiering = child_environment(DEFAULTS, {})["NPACCEL_TIERING"]
        print(f"  Again: NPACCEL_TIERING={tiering} {shlex.join(self._words(number, ''))}")
        return 1

    # Processes.

    def _numpy(self) -> Outcome:
        kind = {"module": ["-m"], "code": ["-c"]}.get(self._options.kind, [])
        words = [sys.executable, *kind, self._options.program, *self._options.arguments]
        return self._run(words, {"NPACCEL_GUARD": "off"})

    def _words(self, number: int | None, path: str) -> list[str]:
        options = self._options
        words = ["npaccel", "run"]
        if number is not None:
            words.append(f"--until={number}:{path}" if path else f"--until={number}")
        if options.min_size is not None:
            words.append(f"--min-size={options.min_size}")
        if options.backend is not None:
            words.append(f"--backend={options.backend}")
        kind = {"module": ["-m"], "code": ["-c"]}.get(options.kind, ["--"])
        return [*words, *kind, options.program, *options.arguments]

    def _until(self, number: int | None, environment: dict[str, str] | None = None) -> Outcome:
        """With so many operations recorded; None: as ever."""
        Path(self._path).unlink(missing_ok=True)
        words = [sys.executable, "-m", *self._words(number, self._path)]
        return self._run(words, environment or {})

    def _run(self, words: list[str], environment: dict[str, str]) -> Outcome:
        for name in self._names:
            Path(name).unlink(missing_ok=True)
        there = child_environment(DEFAULTS, environment)
        done = subprocess.run(words, env=there, capture_output=True, text=True, check=False)
        files = {name: Path(name).read_bytes() for name in self._names if os.path.exists(name)}
        return Outcome(done.returncode, done.stdout, done.stderr, files)

    def _last(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(Path(self._path).read_text(encoding="utf-8"))
        return found

    # What differs.

    def _differs(self, reference: Outcome, other: Outcome) -> str:
        """The first difference in words; or ''."""
        if reference.status != other.status:
            return f"{_end(other)} instead of {reference.status}"
        if why := _text_differs(reference.printed, other.printed, self._scale):
            return f"printed: {why}"
        for name in self._names:
            one, two = reference.files.get(name), other.files.get(name)
            if (one is None) != (two is None):
                return f"{name}: is {'there' if one is None else 'missing'}"
            if (
                one is not None
                and two is not None
                and (why := _file_differs(one, two, self._scale))
            ):
                return f"{name}: {why}"
        return ""


def _end(outcome: Outcome) -> str:
    last = (outcome.errors.strip() or "no words").splitlines()[-1][:SHOWN]
    return f"exit status {outcome.status} ({last})"


def _file_differs(expected: bytes, seen: bytes, scale: float) -> str:
    if not expected.startswith(b"\x93NUMPY"):
        text = expected.decode("utf-8", "replace")
        return _text_differs(text, seen.decode("utf-8", "replace"), scale)
    return _array_differs(_array(expected), _array(seen), scale)


def _array(content: bytes) -> np.ndarray[Any, Any]:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.seek(0)
        return np.asarray(np.load(file))


def _array_differs(expected: Any, seen: Any, scale: float) -> str:
    if (expected.shape, expected.dtype) != (seen.shape, seen.dtype):
        return f"{seen.dtype}{list(seen.shape)} instead of {expected.dtype}{list(expected.shape)}"
    wrong = expected != seen
    if expected.dtype.kind in "fc":
        with np.errstate(all="ignore"):
            finite = np.abs(expected[np.isfinite(expected)])
            near = np.abs(expected - seen) <= scale * (finite.max() if finite.size else 0)
            wrong &= ~(near | (np.isnan(expected) & np.isnan(seen)))
    if not wrong.any():
        return ""
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{seen[index]!r} instead of {expected[index]!r} at {index}"


def _text_differs(expected: str, seen: str, scale: float) -> str:
    """Words have to be equal, and numbers near."""
    if expected == seen:
        return ""
    lines, others = expected.splitlines(), seen.splitlines()
    for number, (line, other) in enumerate(zip(lines, others, strict=False), 1):
        if not _is_near(line, other, scale):
            return f"{other[:SHOWN]!r} instead of {line[:SHOWN]!r} in line {number}"
    return f"{len(others)} lines instead of {len(lines)}" if len(lines) != len(others) else ""


def _is_near(line: str, other: str, scale: float) -> bool:
    if NUMBER.split(line) != NUMBER.split(other):
        return False
    numbers = np.array(NUMBER.findall(line), float), np.array(NUMBER.findall(other), float)
    return not numbers[0].size or not _array_differs(*numbers, scale)
