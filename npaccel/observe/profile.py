"""Reads what was counted by line and by program, as lines, kernels and graphs of a profile."""

from __future__ import annotations

import binascii
import struct
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from npaccel.ir.kinds import Kind
from npaccel.observe import weights
from npaccel.observe.profile_data import (
    Call,
    Event,
    Flush,
    Group,
    Kernel,
    Line,
    Node,
    Obstacle,
    Profile,
)
from npaccel.observe.profile_file import Recorded, load, no_profile
from npaccel.observe.weights import SCALAR, Machine, Request, Rule
from npaccel.own import os, time
from npaccel.runtime.engine.first import REASON as BEFORE_PLANNING
from npaccel.runtime.engine.tiers import COMPILING, NOT_YET
from npaccel.runtime.programs.stored import Planned

__all__ = ["made", "read"]

# native/base/times.c and profile.c, in order.
ACTIVITIES: Final = ("python", "recording", "planning", "running", "functions", "loops", "numpy")
STEPS: Final = {9: "kernels", 10: "blocks", 11: "loops"}
ALONE: Final = {"kernels": "cluster"}  # of requests without a plan: whose
EVENT: Final = struct.Struct("=QQQiihBB4x")
# Plans are made again to be read, for so long: the longest runs' come first.
READING_S: Final = 10.0
MOST_SITES: Final = 8  # that a kernel is told to be of
MOST_FLUSHES: Final = 64  # whose graphs are kept
MOST_NODES: Final = 400
LEAST_S: Final = 1e-6
SHARED: Final = 1 << 16  # elements that several threads compute
BEFORE: Final = -2
FEW: Final = 2  # runs of which nothing is gained by compiling


class Step(NamedTuple):
    """Of a plan. name : of the kernel, or ''."""

    requests: tuple[int, ...]
    name: str
    backend: str
    bytes_read: int
    bytes_written: int


class Run(NamedTuple):
    """A program that ran from the same lines each time. steps : (kind, nanoseconds, requests; of
    those with kernels, how many steps ran together up to this one, which has their time).
    why : there are no kernels. plan : its steps; again : what they can be made of."""

    single: bool
    runs: int
    ns: int
    requests: Sequence[Request]
    steps: Sequence[tuple[int, int, int]]
    why: str
    plan: Sequence[Step] | None
    again: str

    def lines(self) -> frozenset[int]:
        return frozenset(request.line for request in self.requests)

    def kept_bytes(self) -> float:
        """Of arrays that it reads or writes, less as many as it may have from the run before it."""
        read = {link: size for one in self.requests for link, size in one.reads() if link < SCALAR}
        written = [one.bytes for one in self.requests if one.seen and one.bytes]
        sizes = sorted((sorted(read.values()), sorted(written)), key=len)
        return float(sum(sizes[1][: len(sizes[1]) - len(sizes[0])]))

    def steps_ns(self) -> int:
        return sum(ns for _, ns, _ in self.steps)

    def together(self) -> Iterator[tuple[range, int, int]]:
        """Of kernels, those that ran together as a rule: their numbers, kind and nanoseconds."""
        end = len(self.steps)
        found: list[range] = []
        while end > 0:
            begin = max(end - max(self.steps[end - 1][2], 1), 0)
            found.append(range(begin, end))
            end = begin
        for own in reversed(found):
            yield own, self.steps[own[-1]][0], sum(self.steps[k][1] for k in own)


def _run(row: Sequence[Any], rules: dict[int, Rule]) -> Run:
    single, runs, ns, requests, steps, plan = row
    own = [
        Request(line, rules[rule], n, tuple(links), bool(seen), rule)
        for line, rule, n, links, seen in requests
    ]
    why, known, again = "", None, ""
    if isinstance(plan, str):
        why = plan
    elif "again" in plan:
        again = plan["again"]
    else:
        known = [Step(tuple(of), *rest) for of, *rest in plan["steps"]]
    return Run(bool(single), runs, ns, own, [(k, t, n) for k, t, n in steps], why, known, again)


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
    work: float = 0.0
    operations: str = ""
    sites: dict[str, None] = field(default_factory=dict)


def read(path: str | os.PathLike[str]) -> Profile:
    """The profile in a file.

    Raises
    ------
    ProfileError : there is no such file, or it is no profile, of another version or truncated.
    """
    found = load(path)
    try:
        return made(found)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, struct.error) as error:
        raise no_profile(path, f"a line is not as it was written ({error})") from error


def made(found: Recorded) -> Profile:
    """What was found, read out."""
    head = found.head
    reader = _Reader(found)
    made = Profile(dict(head["about"]), head["wall_s"], dict(head["usage"]), reader.waits(),
                   dict(head["counts"]), head["every"])  # fmt: skip
    reader.read()
    made.lines = reader.lines()
    made.kernels = reader.kernels()
    made.flushes = list(reader.flushes())
    made.events = list(reader.events(found.events))
    made.calls = [Call(*row) for row in found.calls]
    made.obstacles = [Obstacle(*row) for row in found.obstacles]
    made.waited_s = float((head.get("scheduled_s") or (0, 0))[1])
    moved = head.get("bytes_s") or ()
    made.memory_bytes_s = 1 / moved[-1][1] if moved and moved[-1][1] else 0.0
    made.source = {file: dict(texts) for file, texts in found.source}
    return made


class _Reader:
    """What was counted, shared out among lines."""

    def __init__(self, found: Recorded) -> None:
        rules = {n: Rule(name, kind, tuple(loop)) for n, name, kind, loop in found.rules}
        self._runs = [_run(row, rules) for row in found.runs]
        ours = sys.modules["npaccel"].__version__
        self._machine = Machine.of(found.head)
        self._threads = max(int(found.head["about"].get("threads") or 1), 1)
        ran, waited = found.head.get("scheduled_s") or (0.0, 0.0)
        self._stretched = 1 + waited / ran if ran > 0 else 1.0
        self._same = found.head["about"].get("npaccel") == ours
        self._places: list[_Place] = []
        for file, line, function, calls, spent in found.lines:
            seconds = {n: 1e-9 * ns for n, ns in zip(ACTIVITIES, spent, strict=True) if ns}
            self._places.append(_Place(file, line, function, calls, seconds))
        self._kernels: dict[tuple[str, str], _Launched] = {}
        self._plans: dict[str, Sequence[Step] | None] = {}
        self._until = time.perf_counter() + READING_S

    def waits(self) -> dict[str, float]:
        """Seconds of runs that had no kernels yet, by why: those that wait for the compiler, those
        that have not run long enough, and those that came once or twice."""
        compiled = {run.lines() for run in self._runs if not run.single}
        waits = {"compiling": 0.0, "not yet": 0.0, "once": 0.0}
        for run in self._runs:
            if run.single and run.why:
                known = run.why == COMPILING or run.lines() in compiled
                why = "once" if run.runs <= FEW and run.why in (NOT_YET, BEFORE_PLANNING) else ""
                why = "not yet" if run.why == NOT_YET and not why else why
                if known or why:
                    waits["compiling" if known else why] += 1e-9 * run.steps_ns()
        return waits

    def read(self) -> None:
        """Share out what runs took."""
        for run in self._longest():
            if run.single:
                self._read_single(run)
            else:
                self._read_compiled(run)

    def _read_single(self, run: Run) -> None:
        for first, (kind, ns, count) in enumerate(run.steps):
            if count > 0:
                own = run.requests[first : first + count]
                shares = weights.alone(own, self._machine)
                self._share(own, shares, 1e-9 * ns, STEPS.get(kind, "loops"), 0, run.runs)

    def _read_compiled(self, run: Run) -> None:
        plan = self._plan(run)
        readers = _later_readers(run.requests)
        for steps, kind, ns in run.together():
            known = [plan[k] for k in steps] if plan is not None else []
            numbers: Sequence[int] = range(len(run.requests))
            if known:
                numbers = [i for step in known for i in step.requests if i < len(run.requests)]
            moved = sum(step.bytes_read + step.bytes_written for step in known)
            own = [run.requests[i] for i in numbers]
            here = set(numbers)
            later = {i for i in numbers if not here.issuperset(readers.get(i, ()))}
            most = max((request.points for request in own), default=0)
            of_each = moved / self._among(most)
            shares = weights.fused(own, numbers, later, of_each, self._machine)
            what = STEPS.get(kind, "kernels")
            self._share(own, shares, 1e-9 * ns, what, run.runs * moved, run.runs)
            took = dict(zip(numbers, shares, strict=True))
            for step in known if ns else ():
                part = sum(took[i] for i in step.requests if i in took) / (sum(shares) or 1)
                if step.name:
                    self._launched(step, run, 1e-9 * ns * part)

    def _longest(self) -> list[Run]:
        return sorted(self._runs, key=lambda run: -run.ns)

    def _plan(self, run: Run) -> Sequence[Step] | None:
        """Its steps, made again where they have to be; None: they can't be known."""
        if run.plan is not None or not run.again:
            return run.plan
        if run.again not in self._plans:
            late = time.perf_counter() > self._until
            made = None if late or not self._same else _made_again(run.again)
            self._plans[run.again] = made
        return self._plans[run.again]

    def _share(
        self,
        requests: Sequence[Request],
        shares: Sequence[float],
        seconds: float,
        what: str,
        moved: int,
        runs: int,
    ) -> None:
        whole = sum(shares) or 1
        for request, weight in zip(requests, shares, strict=True):
            at = self._places[request.line]
            at.seconds[what] = at.seconds.get(what, 0.0) + seconds * weight / whole
            at.operations += request.points * runs
            at.bytes += moved * weight / whole

    def _launched(self, step: Step, run: Run, seconds: float) -> None:
        requests = [run.requests[i] for i in step.requests if i < len(run.requests)]
        found = self._kernels.setdefault((step.name, step.backend), _Launched())
        found.launches += run.runs
        found.seconds += seconds
        found.bytes += run.runs * (step.bytes_read + step.bytes_written)
        found.work += run.runs * sum(
            self._machine.cost(request.rule) * request.points for request in requests
        )
        if not found.operations:
            found.operations = _names(requests)
        for request in requests:
            found.sites[self._places[request.line].site] = None

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
            Kernel(
                *key,
                k.launches,
                k.seconds,
                k.bytes,
                k.operations,
                tuple(k.sites)[:MOST_SITES],
                k.work,
            )
            for key, k in self._kernels.items()
        ]
        return sorted(made, key=lambda kernel: -kernel.seconds)

    def _numbers(self) -> list[int]:
        """Of each place the number of its line, or -1."""
        known = {(line.file, line.line): index for index, line in enumerate(self.lines())}
        return [known.get((place.file, place.line), -1) for place in self._places]

    def flushes(self) -> Iterator[Flush]:
        """The longest runs, as graphs."""
        numbers = self._numbers()
        for run in self._longest()[:MOST_FLUSHES]:
            own = run.requests[:MOST_NODES]
            nodes = tuple(
                Node(
                    str(request.rule),
                    numbers[request.line],
                    float(request.bytes),
                    tuple(max(link, BEFORE) for link in request.links if link != SCALAR),
                )
                for request in own
            )
            groups = self._groups(run, len(own))
            made = tuple(g for g in groups if g.nodes)
            yield Flush(run.runs, 1e-9 * run.ns, nodes, made, self._paced_s(run))

    def _paced_s(self, run: Run) -> float:
        """What its operations take in registers, and arrays that stay, in all of these runs, on
        processors as busy with others as they were; 0: not known."""
        if any(request.rule.kind == Kind.GATHER for request in run.requests):
            return 0.0
        each = (
            self._machine.cost(request.rule) * request.points / self._among(request.points)
            for request in run.requests
        )
        kept = run.kept_bytes() / self._threads
        moved = self._machine.byte(kept) * kept if kept else 0.0
        return run.runs * self._stretched * self._machine.addition_s * (sum(each) + moved)

    def _among(self, points: int) -> int:
        """How many threads share operations on so many elements."""
        return self._threads if points >= SHARED else 1

    def _groups(self, run: Run, most: int) -> Iterator[Group]:
        plan = None if run.single else self._plan(run)
        spent = [float(ns) for _, ns, _ in run.steps]
        for own, _, together_ns in () if run.single else run.together():
            for k in own:  # in equal parts
                spent[k] = together_ns / len(own)
        for number, (kind, _, count) in enumerate(run.steps):
            of: Sequence[int] = range(number, number + count) if run.single else range(most)
            what = STEPS.get(kind, "loops" if run.single else "kernels")
            name, backend = "", "" if not run.single else ALONE.get(what, "numpy")
            if plan is not None:
                of, name, backend = plan[number][:3]
            yield Group(what, name, backend, 1e-9 * spent[number], tuple(i for i in of if i < most))

    def events(self, packed: bytes) -> Iterator[Event]:
        """In the order in which they began. A run's steps lie within it."""
        numbers = self._numbers()
        for start, ns, live, here, run, step, kind, thread in EVENT.iter_unpack(packed):
            place = here
            if run >= 0:
                requests = self._runs[run].requests
                single = self._runs[run].single and step >= 0
                place = requests[step if single else 0].line if requests else 0
            what, name = STEPS.get(kind, "run"), self._places[place].site
            backend = ""
            if run < 0:
                what = ACTIVITIES[kind]
            elif step >= 0:
                name, backend = self._step(self._runs[run], step)
                name = name or self._places[place].site
            yield Event(1e-9 * start, 1e-9 * ns, what, name, numbers[place], thread, live, backend)

    def _step(self, run: Run, step: int) -> tuple[str, str]:
        """Its name, and where it runs."""
        if run.single:
            return str(run.requests[step].rule), ""
        plan = self._plan(run)
        return (plan[step].name, plan[step].backend) if plan is not None else ("", "")


def _later_readers(requests: Sequence[Request]) -> dict[int, set[int]]:
    """Of each operation those that read what it writes."""
    found: dict[int, set[int]] = {}
    for number, request in enumerate(requests):
        for link in request.links:
            found.setdefault(link, set()).add(number)
    return found


def _made_again(text: str) -> Sequence[Step]:
    info = Planned.of(binascii.a2b_base64(text)).plan_info()
    return [
        Step(
            step.requests,
            step.kernel.name if step.kernel is not None else "",
            step.backend,
            step.bytes_read,
            step.bytes_written,
        )
        for step in info.steps
    ]


def _names(requests: Sequence[Request]) -> str:
    """Of operations, with how often."""
    names = Counter(str(request.rule) for request in requests)
    return ", ".join(f"{name} ({times}x)" if times > 1 else name for name, times in names.items())
