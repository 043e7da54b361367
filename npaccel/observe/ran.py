"""All runs since counts were reset: of which operations, how often, how long, and against what."""

from __future__ import annotations

from typing import Final, NamedTuple

from npaccel import _native
from npaccel.observe.operations import Operation, asked
from npaccel.runtime.process.warn import line_of

__all__ = ["Ran", "Tried", "given_up", "programs", "tried"]

GONE: Final = "their programs are gone, or were not known when they ran"
BY_LOOPS: Final = "its operations run one by one"


class Ran(NamedTuple):
    """All runs of the same operations.

    Attributes
    ----------
    operations : with the lines that they came from; empty where that is not known.
    elsewhere : other lines had them run, too.
    runs, seconds : how often, and how long all of that took, without planning.
    best_s : of the shortest run ever; 0: not known.
    numpy_s : what a run takes by NumPy's loops, where that was measured; else 0.
    reason : why those loops ran; empty for kernels.
    """

    operations: tuple[Operation, ...]
    elsewhere: bool
    runs: int
    seconds: float
    best_s: float = 0.0
    numpy_s: float = 0.0
    reason: str = ""


class Tried(NamedTuple):
    """A loop that was recorded and left to NumPy by turns.

    Attributes
    ----------
    file, line : at which a round begins.
    recorded_s, numpys_s : the shortest round of the latest trial, either way.
    numpys : NumPy's calls are kept.
    """

    file: str
    line: int
    recorded_s: float
    numpys_s: float
    numpys: bool


def programs() -> tuple[Ran, ...]:
    """One for each program that ran since counts were reset, the longest first; the runs without
    one, and those whose program is gone, are told as one without operations."""
    rows, runs, seconds = _native.ledger()
    rules = _native.rules()
    found = [
        Ran(
            asked(operations, rules),
            elsewhere,
            times,
            took,
            program.timing[1],
            program.baseline,
            _why(program),
        )
        for program, times, took, operations, elsewhere in rows
    ]
    if runs:
        found.append(Ran((), False, runs, seconds, reason=GONE))
    return tuple(sorted(found, key=lambda one: -one.seconds))


def tried() -> tuple[Tried, ...]:
    """Loops that were recorded and left to NumPy by turns, and what came of it; the longest rounds
    first."""
    found = [
        Tried(code.co_filename, line_of(code, lasti), *times)
        for code, lasti, times in _native.tried()
        if times is not None
    ]
    return tuple(sorted(found, key=lambda one: -one.numpys_s))


def _why(program: _native.Program) -> str:
    """Why NumPy's loops run it; its plan is not made again to know."""
    if isinstance(program.info, str):
        return program.info
    if not program.single:
        return ""
    return given_up(program) if program.lost else BY_LOOPS


def given_up(program: _native.Program) -> str:
    """Why it has kernels and does not run them."""
    times = f"{program.lost * 1e3:.3g} ms against {program.baseline * 1e3:.3g} ms"
    return f"its kernels were slower than NumPy's loops ({times})"
