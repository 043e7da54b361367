"""Reads what the C core counted by line and by program, as lines and kernels of a profile."""

from __future__ import annotations

import linecache
import os
import struct
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from npaccel.ir import ops
from npaccel.ir.kinds import Kind
from npaccel.observe.profile_file import Call, Event, Kernel, Line, Obstacle, Profile
from npaccel.runtime.program import PlanInfo, StepInfo
from npaccel.runtime.tiers import COMPILING, NOT_YET

__all__ = ["Counted", "made"]

# native/times.c and profile.c, in order.
ACTIVITIES: Final = ("python", "recording", "planning", "running", "functions", "loops", "numpy")
STEPS: Final = {9: "kernels", 10: "blocks", 11: "loops"}
EVENT: Final = struct.Struct("=QQQiihBB4x")
# Plans are made again to be read, for so long: the longest runs' come first.
READING_S: Final = 1.0
OURS: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep
MOST_SITES: Final = 8  # that a kernel is told to be of
# Of files with more lines, only those around lines that took time are kept.
MOST_SOURCE, AROUND = 3000, 2
LEAST_S: Final = 1e-6


class Run(NamedTuple):
    """A program that ran from the same lines each time. requests : (line, rule, elements). steps :
    (kind, nanoseconds, requests)."""

    program: Any
    single: bool
    runs: int
    ns: int
    requests: Sequence[tuple[int, Any, int]]
    steps: Sequence[tuple[int, int, int]]

    def lines(self) -> frozenset[int]:
        return frozenset(line for line, _, _ in self.requests)

    def steps_ns(self) -> int:
        return sum(ns for _, ns, _ in self.steps)


Counts = Mapping[tuple[str, str, str], float]


class Counted(NamedTuple):
    """What others count: per (function, reason, site) calls that NumPy ran and their seconds; what
    hinders by (kind, file, line); `npaccel.stats()`."""

    calls: Counts
    seconds: Counts
    hindrances: Mapping[tuple[str, str, int], tuple[float, float, float]]
    stats: Mapping[str, Any]


@dataclass
class _Place:
    """A line that is being filled."""

    file: str
    line: int
    function: str
    calls: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    operations: float = 0.0
    bytes: float = 0.0

    @property
    def site(self) -> str:
        return f"{self.file}:{self.line}" if self.line else "elsewhere"


@dataclass
class _Launched:
    """A kernel that is being filled."""

    launches: int = 0
    seconds: float = 0.0
    bytes: float = 0.0
    operations: str = ""
    sites: dict[str, None] = field(default_factory=dict)


def made(wall_s: float, counted: tuple[Any, ...], before: Counted, after: Counted) -> Profile:
    """What was found.

    counted : what the C core says. before, after : what others had counted when it began, and when
        it was over.
    """
    _, lines, runs, events, every, _ = counted
    found = _Reader(lines, runs)
    made = Profile({}, wall_s, waits=found.waits(), every=every)
    found.read()
    made.lines = found.lines()
    made.kernels = found.kernels()
    made.events = list(found.events(events))
    _add_counts(made, before, after)
    made.source = _source(made.lines)
    return made


def _add_counts(made: Profile, before: Counted, after: Counted) -> None:
    for key, calls in after.calls.items():
        more = int(calls - before.calls.get(key, 0))
        seconds = after.seconds.get(key, 0.0) - before.seconds.get(key, 0.0)
        if more > 0:
            made.calls.append(Call(*key, more, max(seconds, 0.0)))
    for place, amounts in after.hindrances.items():
        old = before.hindrances.get(place, (0.0, 0.0, 0.0))
        new, seconds, size = (a - b for a, b in zip(amounts, old, strict=True))
        if new > 0:
            made.obstacles.append(Obstacle(*place, int(new), seconds, size))
    made.calls.sort(key=lambda call: -call.seconds)
    made.obstacles.sort(key=lambda obstacle: -obstacle.seconds)
    for name, value in after.stats.items():
        if isinstance(value, int) and value != before.stats.get(name, 0):
            made.counts[name] = value - before.stats.get(name, 0)


class _Reader:
    """What the C core tells, shared out among lines.

    A step's time goes to its requests by their work: elements times what the operation costs.
    """

    def __init__(self, lines: Sequence[Any], runs: Sequence[Any]) -> None:
        self._runs = [Run(*run) for run in runs]
        self._places: list[_Place] = []
        for *where, calls, spent in lines:
            file, number, function = ("", 0, "") if where[0].startswith(OURS) else where
            seconds = {n: 1e-9 * ns for n, ns in zip(ACTIVITIES, spent, strict=True) if ns}
            self._places.append(_Place(file, number, function, calls, seconds))
        self._kernels: dict[tuple[str, str], _Launched] = {}
        self._infos: dict[Any, PlanInfo | None] = {}
        self._until = 0.0

    def waits(self) -> dict[str, float]:
        """Seconds of runs that had no kernels yet, by why: those that wait for the compiler."""
        compiled = {run.lines() for run in self._runs if not run.single}
        waits = {"compiling": 0.0, "not yet": 0.0}
        for run in self._runs:
            if run.single and run.program is not None:
                known = run.program.info == COMPILING or run.lines() in compiled
                if known or run.program.info == NOT_YET:
                    waits["compiling" if known else "not yet"] += 1e-9 * run.steps_ns()
        return waits

    def read(self) -> None:
        """Share out what runs took."""
        self._until = time.perf_counter() + READING_S
        for run in sorted(self._runs, key=lambda run: -run.ns):
            if run.single:
                self._read_single(run)
            else:
                self._read_compiled(run)

    def _read_single(self, run: Run) -> None:
        for first, (kind, ns, count) in enumerate(run.steps):
            if count > 0:
                own = run.requests[first : first + count]
                self._share(own, 1e-9 * ns, STEPS.get(kind, "loops"), 0, run.runs)

    def _read_compiled(self, run: Run) -> None:
        info = self._info(run.program)
        for number, (kind, ns, _) in enumerate(run.steps):
            known = info.steps[number] if info is not None else None
            own: Sequence[Any] = run.requests
            moved = 0
            if known is not None:
                own = [own[i] for i in known.requests if i < len(own)]
                moved = run.runs * (known.bytes_read + known.bytes_written)
            self._share(own, 1e-9 * ns, STEPS.get(kind, "kernels"), moved, run.runs)
            if known is not None and known.kernel is not None and ns:
                self._launched(known, own, run.runs, 1e-9 * ns, moved)

    def _info(self, program: Any) -> PlanInfo | None:
        if program not in self._infos:
            late = time.perf_counter() > self._until
            known = not late and hasattr(program.info, "plan_info")
            self._infos[program] = program.info.plan_info() if known else None
        return self._infos[program]

    def _share(
        self, requests: Sequence[Any], seconds: float, what: str, moved: int = 0, runs: int = 1
    ) -> None:
        weights = [_cost(rule) * points for _, rule, points in requests]
        whole = sum(weights) or 1
        for (place, _, points), weight in zip(requests, weights, strict=True):
            at = self._places[place]
            at.seconds[what] = at.seconds.get(what, 0.0) + seconds * weight / whole
            at.operations += points * runs
            at.bytes += moved * weight / whole

    def _launched(
        self, step: StepInfo, requests: Sequence[Any], runs: int, seconds: float, moved: int
    ) -> None:
        assert step.kernel is not None
        found = self._kernels.setdefault((step.kernel.name, step.backend), _Launched())
        found.launches += runs
        found.seconds += seconds
        found.bytes += moved
        if not found.operations:
            names = Counter(_name(rule) for _, rule, _ in requests)
            found.operations = ", ".join(
                f"{name} ({times}x)" if times > 1 else name for name, times in names.items()
            )
        for place, _, _ in requests:
            found.sites[self._places[place].site] = None

    def lines(self) -> list[Line]:
        """All lines, the longest first; what several instructions of a line took together."""
        merged: dict[tuple[str, int], _Place] = {}
        for place in self._places:
            at = merged.setdefault(
                (place.file, place.line), _Place(place.file, place.line, place.function)
            )
            at.calls += place.calls
            for what, seconds in place.seconds.items():
                at.seconds[what] = at.seconds.get(what, 0.0) + seconds
            at.operations += place.operations
            at.bytes += place.bytes
        made = [
            Line(p.file, p.line, p.function, p.calls, dict(p.seconds), p.operations, p.bytes)
            for p in merged.values()
        ]
        return sorted((m for m in made if m.total_s > LEAST_S), key=lambda m: -m.total_s)

    def kernels(self) -> list[Kernel]:
        """All kernels, the longest first."""
        made = [
            Kernel(*key, k.launches, k.seconds, k.bytes, k.operations, tuple(k.sites)[:MOST_SITES])
            for key, k in self._kernels.items()
        ]
        return sorted(made, key=lambda kernel: -kernel.seconds)

    def events(self, packed: bytes) -> Iterator[Event]:
        """In the order in which they began. A run's steps lie within it."""
        number = {}
        for index, line in enumerate(self.lines()):
            number[line.file, line.line] = index
        for start, ns, live, here, run, step, kind, thread in EVENT.iter_unpack(packed):
            place = here
            if run >= 0:
                requests = self._runs[run].requests
                single = self._runs[run].single and step >= 0
                place = requests[step if single else 0][0] if requests else 0
            at = self._places[place]
            what, name = STEPS.get(kind, "run"), at.site
            if run < 0:
                what = ACTIVITIES[kind]
            elif step >= 0:
                name = self._step_name(self._runs[run], step) or name
            index = number.get((at.file, at.line), -1)
            yield Event(1e-9 * start, 1e-9 * ns, what, name, index, thread, live)

    def _step_name(self, run: Run, step: int) -> str:
        if run.single:
            return _name(run.requests[step][1])
        info = self._infos.get(run.program)
        kernel = info.steps[step].kernel if info is not None else None
        return kernel.name if kernel is not None else ""


def _cost(rule: Any) -> int:
    op = ops.find(rule.name, rule.loop) if rule.loop else None
    return op.cost if op is not None else 1


def _name(rule: Any) -> str:
    return f"{rule.name}.reduce" if rule.kind == Kind.REDUCE else str(rule.name)


def _source(lines: Sequence[Line]) -> dict[str, dict[int, str]]:
    """Texts of the files that lines are of."""
    source: dict[str, dict[int, str]] = {}
    for file in dict.fromkeys(line.file for line in lines):
        texts = dict(enumerate((t.rstrip("\n") for t in linecache.getlines(file)), 1))
        if len(texts) > MOST_SOURCE or "site-packages" in file or "/lib/python" in file:
            near = {n + k for f, n, *_ in lines if f == file for k in range(-AROUND, AROUND + 1)}
            texts = {n: text for n, text in texts.items() if n in near}
        if texts:
            source[file] = texts
    return source
