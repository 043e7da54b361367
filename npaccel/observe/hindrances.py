"""What kept a program from gaining more: one sentence, from what was counted and measured."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy._core import umath

from npaccel import _native
from npaccel.ir.kinds import OTHER_UFUNCS, Kind
from npaccel.observe.words import bytes_text, count, short
from npaccel.own import time

__all__ = [
    "FEW_OPERATIONS",
    "OF_RUNS",
    "ON_ARRAYS",
    "RECORD_S",
    "REMEDIES",
    "Hindrance",
    "Hindrances",
    "gained_s",
    "left_reason",
    "limits",
    "reason_of",
    "verdict",
]

# Less than this part of the program's time is little.
LITTLE = 0.1
# What recording an operation costs at most, about; native/run/autotune.c.
RECORD_S = 1e-6
# NumPy's pace is found on so many elements, which takes little, and then on as many as there were,
# for this part of the program's time at most.
FEW_POINTS, MOST_POINTS = 1 << 14, 1 << 20
PACE_SHARE = 0.01
OFTEN = 6  # times that brief calls are looked at, of which the shortest counts
# Doubles in each of two arrays that are added, whose bytes are timed: 256 KiB lie in a processor's
# second cache, 4 MiB past it in most, 16 MiB in the last one or in memory.
ADDED = (FEW_POINTS, 1 << 18, MOST_POINTS)
# Runs of more operations than these are not hindered by what begins them.
FEW_OPERATIONS = 3

Counts = Mapping[tuple[str, str, str], float]

# native/trace/hinder.c: kinds whose size is that of operands, in bytes; the others' is operations.
ON_ARRAYS: Final = {
    "small": "works on arrays of {size}; from {threshold} on they are accelerated",
    "element": "takes elements one by one, at Python's own pace",
    "at once": "does on arrays of {size} what NumPy does as fast",
    "slower": "does single operations on arrays of {size}, which NumPy was found to do as fast",
    "rare": "does something new each time, on arrays of {size} that NumPy is done with sooner",
    "subclass": "works on a subclass of ndarray (memmap ...), of {size}, which stays NumPy's",
}
# The same of what has no operand that is an array.
SINGLE: Final = {
    "small": "calls NumPy's functions on single numbers",
    "rare": "does something new each time, that NumPy is done with sooner",
    "at once": "does what NumPy does as fast",
    "slower": "does single operations, which NumPy was found to do as fast",
}
# Runs, by what began them.
OF_RUNS: Final = {
    "written": "writes in place into memory that is not npaccel's, {operations} at a time",
    "exported": "writes into memory that other code holds a buffer on, {operations} at a time",
    "watched": "reads memory that other code may change unseen, {operations} at a time",
    "strict": "runs {operations} at a time, since warnings are errors",
    "read": "reads a result after every {each}",
    "pointer": "comes after code that reads a result's memory by itself, after every {each}",
    "asked": "has npaccel.evaluate() run every {each}",
    "full": "is where the queue was full, at {operations}",
}
MANY: Final = "has {operations} run at a time, which NumPy does as fast"
# What the program can do about it.
REMEDIES: Final = {
    "small": "do the same for many of them in one call, on one larger array",
    "single": "do the same for many of them in one call; Python's math takes less for one",
    "element": "write the loop as operations on whole arrays",
    "at once": "nothing is lost there",
    "slower": "nothing is lost there",
    "rare": "nothing is lost there; it is recorded once it has come often enough",
    "subclass": "work on np.asarray(x), or on a copy: np.array(x)",
    "written": "work on npaccel.asarray(x, copy=True), and write it back behind the loop",
    "exported": "release the buffer (memoryview, ctypes ...) before",
    "watched": "work on a copy of that array",
    "strict": "have warnings raised elsewhere only",
    "read": "read after the loop, or every tenth time; what x.max(keepdims=True) or x[3:4].copy() "
    "gives can wait in a list",
    "pointer": "have that code read it after the loop, or less often; where a plain array is "
    "indexed or filled there, wrap that with npaccel.asarray",
    "asked": "call it after the loop, or not at all: results are computed when they are read",
    "full": "npaccel.config.queue_limit and memory_limit say how much may wait",
}
LEFT: Final = "calls {function}, which is NumPy's own ({reason})"
ELSEWHERE: Final = "went into Python itself and other libraries, not into array operations"


class Hindrance(NamedTuple):
    """Something that kept lines of one file from gaining, and how long those took.

    Attributes
    ----------
    reason : what the line does, as "works on arrays of 2.0 KiB ...".
    site : the "file:line" of which most of the seconds are.
    lines : how many lines of that file share the reason.
    calls : calls of NumPy's, or runs.
    """

    reason: str
    site: str
    lines: int
    calls: int
    seconds: float

    def __str__(self) -> str:
        others = f" (and {count(self.lines - 1, 'other line')})" if self.lines > 1 else ""
        return f"{short(self.site, 40)}{others} {self.reason}"


@dataclass(frozen=True)
class Amount:
    """Of one kind at one line."""

    calls: int = 0
    seconds: float = 0.0
    size: float = 0.0


class Hindrances:
    """What the C core has counted since the start, or since `clear`."""

    def __init__(self) -> None:
        self._amounts: dict[tuple[str, str, int], Amount] = {}  # by kind, file and line

    def clear(self) -> None:
        _native.take_hindrances()
        self._amounts.clear()

    def _update(self) -> None:
        for kind, _, file, line, calls, seconds, size in _native.take_hindrances():
            old = self._amounts.get((kind, file, line), Amount())
            new = Amount(old.calls + calls, old.seconds + seconds, old.size + size)
            self._amounts[kind, file, line] = new

    def amounts(self) -> dict[tuple[str, str, int], tuple[float, float, float]]:
        """(calls, seconds, size) until now, by kind, file and line."""
        self._update()
        return {key: (a.calls, a.seconds, a.size) for key, a in self._amounts.items()}

    def runs_s(self) -> float:
        """What runs took, with their planning."""
        self._update()
        return sum(a.seconds for (kind, *_), a in self._amounts.items() if kind in OF_RUNS)

    def found(self, calls: Counts, seconds: Counts, *, many: bool = False) -> list[Hindrance]:
        """All of them, the longest first.

        calls, seconds : of what NumPy ran instead, by function, reason and site.
        many : runs of many operations, too, of which it is known that nothing was gained.
        """
        self._update()
        groups: dict[tuple[str, ...], dict[str, Amount]] = {}
        for (kind, file, line), amount in self._amounts.items():
            groups.setdefault((kind, file), {})[f"{file}:{line}" if line else file] = amount
        for key, times in calls.items():
            function, reason, site = key
            left = Amount(int(times), seconds.get(key, 0.0))
            groups.setdefault((function, reason, site.rpartition(":")[0]), {})[site] = left
        hindrances = [_hindrance(key, sites, many) for key, sites in groups.items()]
        return sorted(filter(None, hindrances), key=lambda h: (-h.seconds, h.site))


def _hindrance(key: tuple[str, ...], sites: Mapping[str, Amount], many: bool) -> Hindrance | None:
    calls = sum(amount.calls for amount in sites.values())
    size = sum(amount.size for amount in sites.values()) / max(calls, 1)
    if key[0] in OF_RUNS and size > FEW_OPERATIONS and not many:
        return None
    if len(key) > 2:
        reason = left_reason(key[0], key[1])
    elif key[0] in OF_RUNS and size > FEW_OPERATIONS:
        reason = MANY.format(operations=count(round(size), "operation"))
    else:
        reason = reason_of(key[0], size, _native.threshold())
    longest = max(sites, key=lambda site: sites[site].seconds)
    total = sum(amount.seconds for amount in sites.values())
    return Hindrance(reason, longest, len(sites), calls, total)


def left_reason(function: str, reason: str) -> str:
    """What a line does that calls what NumPy ran instead."""
    return LEFT.format(function=function, reason=reason)


def reason_of(kind: str, size: float, threshold: int) -> str:
    """What a line does that is hindered. size : on average; threshold : in bytes."""
    if kind in SINGLE and round(size) == 0:
        return SINGLE[kind]
    if kind in ON_ARRAYS:
        known = {"size": bytes_text(round(size)), "threshold": bytes_text(threshold)}
        return ON_ARRAYS[kind].format(**known)
    operations = count(max(round(size), 1), "operation")
    return OF_RUNS[kind].format(operations=operations, each=operations.removeprefix("1 "))


# ------------------------------------------------------------------------- what was gained


def verdict(wall_s: float, hindrances: list[Hindrance], gained: Callable[[float], float]) -> str:
    """One line for the end of a program that gained little; empty where it gained.

    gained : seconds saved, as far as that is to be known: see `gained_s`.
    """
    little = LITTLE * wall_s
    if gained(little) >= little:
        return ""
    elsewhere = max(wall_s - sum(hindrance.seconds for hindrance in hindrances), 0.0)
    longest = hindrances[0] if hindrances else None
    if longest is None or longest.seconds < elsewhere:
        return f"npaccel gained little: {_share(elsewhere, wall_s)} {ELSEWHERE}"
    return f"npaccel gained little: {longest} ({_share(longest.seconds, wall_s)})"


def _share(seconds: float, wall_s: float) -> str:
    return f"{min(100 * seconds / wall_s, 100):.0f} % of {wall_s:.1f} s"


def gained_s(enough: float, runs_s: float, wall_s: float) -> float:
    """Seconds that NumPy would have taken for what was recorded, less what it took here.

    NumPy's pace is measured now, for each operation alone: in its cache, which is the least that it
    can have been, and then on as many elements as the recorded ones had on average; no further than
    until `enough` are found.

    runs_s, wall_s : what runs took, and the program.
    """
    until = time.perf_counter() + PACE_SHARE * wall_s
    rules = [rule for rule in _native.rules().values() if rule.counts[0]]
    gained = -runs_s - RECORD_S * sum(rule.counts[0] for rule in rules)
    numpys: dict[_native.Rule, float] = {}
    for most in (FEW_POINTS, MOST_POINTS):
        rules.sort(key=lambda rule: -numpys.get(rule, rule.counts[3]))
        for rule in rules:
            if gained >= enough or time.perf_counter() > until:
                break
            before = numpys.get(rule, 0.0)
            numpys[rule] = max(before, rule.counts[3] * _pace_s(rule, most))
            gained += numpys[rule] - before
    return gained


def limits(most: int) -> dict[str, Any]:
    """What this processor takes, measured once a process, in some milliseconds.

    most : elements of the largest arrays that took part.

    Returns
    -------
    exp_s : what our exp takes for a double; divide_s : of divisions and roots the function, its
        dtype and what it takes for an element; bytes_s : pairs of how many bytes lie near each
        other, and what one thread takes to read or write one of these.
    """
    sizes = [n for k, n in enumerate(ADDED) if k == 0 or most > ADDED[k - 1]]
    moved = [(2 * 8 * n, _byte_s(n)) for n in sizes]
    return {"exp_s": _exp_s(), "divide_s": _divide_s(), "bytes_s": moved}


@functools.cache
def _exp_s() -> float:
    return _native.exp_s()


@functools.cache
def _divide_s() -> list[tuple[str, str, float]]:
    found = []
    for code in ("f8", "f4"):
        x, y = _operand(code, FEW_POINTS), _operand(code, FEW_POINTS)
        divided, root = (
            _taken_s((umath.divide, x, y, y), OFTEN),
            _taken_s((umath.sqrt, x, y), OFTEN),
        )
        found.append(("divide", code, divided / FEW_POINTS))
        found.append(("sqrt", code, root / FEW_POINTS))
    return found


@functools.cache
def _byte_s(n: int) -> float:
    """Of adding so many doubles to as many others."""
    x, y = np.ones(n), np.ones(n)
    times = OFTEN if n == ADDED[0] else 2
    return _taken_s((umath.add, x, y, y), times) / (x.nbytes + 2 * y.nbytes)


def _pace_s(rule: _native.Rule, most: int) -> float:
    """Seconds that NumPy takes for an element, on at most so many; 0: it can't be asked."""
    recorded, *_, points = rule.counts
    n = max(min(points // recorded, most), 1)
    call = _call(rule, n)
    return 0.0 if call is None else _taken_s(call, 2) / n


def _taken_s(call: tuple[Any, ...], times: int) -> float:
    taken = []
    # A large array may be ours, and what it is in would be recorded.
    call = tuple(_native.plain(x) if isinstance(x, _native.ArrayBase) else x for x in call)
    with np.errstate(all="ignore"):
        for _ in range(times):  # the first one finds no memory and nothing in the caches
            start = time.perf_counter()
            _native.call_numpy(*call)
            taken.append(time.perf_counter() - start)
    return min(taken)


def _call(rule: _native.Rule, n: int) -> tuple[Any, ...] | None:
    """The function and its arguments with which NumPy does this operation on n elements."""
    codes = rule.loop
    ufunc = OTHER_UFUNCS.get(rule.name) or getattr(umath, rule.name, None)
    if rule.kind == Kind.IOTA:
        return np.arange, 0, n, 1, codes[-1]
    if rule.kind == Kind.ARG:
        return getattr(np, rule.name), _operand(codes[0], n)
    if rule.kind == Kind.GATHER:
        return np.take, _operand(codes[0], n), np.arange(n)
    if rule.name == "copy":
        if np.dtype(codes[0]).kind == "c" != np.dtype(codes[-1]).kind:
            return None  # would warn
        return np.array, _operand(codes[0], n), codes[-1]
    if rule.name == "where":
        return np.where, *(_operand(code, n) for code in codes[:3])
    if not isinstance(ufunc, np.ufunc):
        return None
    if rule.kind in (Kind.REDUCE, Kind.SCAN):
        fold = ufunc.reduce if rule.kind == Kind.REDUCE else ufunc.accumulate
        return fold, _operand(codes[0], n), 0, codes[-1]
    return ufunc, *(_operand(code, n) for code in codes[: ufunc.nin])


def _operand(code: str, n: int) -> Any:
    """Usual values, neither zeros nor large ones."""
    kind = np.dtype(code).kind
    if kind in "biu":
        return (np.arange(n) % 3 + (kind != "b")).astype(code)
    return np.linspace(0.5, 1.5, n).astype(code)
