"""Which backend runs a program under `auto`: by what a run takes, measured or else predicted.

Programs begin on the host. One that has run for a while is reviewed: where it has run on another
backend too, or is predicted to take so much less there that building for it pays, both run it by
turns, and the faster one from then on. Where nothing but the host is known, nothing is asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from cachetools import LRUCache

from npaccel import _native
from npaccel.backends.registry import HOST
from npaccel.backends.speeds import Speeds, work_of
from npaccel.later import later
from npaccel.runtime.programs.program import Information, PlanInfo, StepInfo, accesses

if TYPE_CHECKING:
    from npaccel.ir import nodes
else:
    nodes = later("npaccel.ir.nodes")

__all__ = [
    "REVIEW_RUNS",
    "REVIEW_S",
    "Auto",
    "Estimate",
    "Machines",
    "Residence",
    "anywhere",
    "predict",
]

PROGRAMS = 512
# When a program is looked at, and the runs from which on a time counts as measured: under a load
# the best of three may be ten times the best.
REVIEW_RUNS, REVIEW_S = 8, 0.25
MEASURED_RUNS = 8
# Runs of each of two backends, by turns, that decide between them; twice as many the next time, up
# to the second number. Their median counts: by its shortest runs a driver wins whose threads wait
# for one another in most.
TURNS, MOST_TURNS = 12, 96
# So many in a row count, after some that do not: where the other one's threads have just run, they
# keep the processors awake.
ROW, FIRST = 4, 1
# Fewer do where each run of one takes so much longer than any of the other; and none where the best
# times differ by even more.
CLEAR_TURNS, CLEAR, NEVER_BETTER = 3, 1.5, 3.0
# What comparing again costs beyond the faster one's runs: at most this part of what these take.
COMPARING = 0.01
# A decision of an earlier process is not looked at before.
RECALLED_S = 30.0
# Another backend must take so much less, predicted or measured: or data would go to and fro.
MARGIN, MEASURED_MARGIN = 1.25, 1.05
# What a driver's compiler takes for a kernel.
BUILD_S = 0.5

# Buffer of the requests, device, bytes that are right there, bytes that are right there alone.
Residence = Sequence[tuple[int, str, int, int]]


class Estimate(NamedTuple):
    """What a run takes on a backend, in seconds.

    measured : it ran there, `runs` times: the median of those by turns, or the shortest. Else
        predicted, of these parts: of a kernel the longer of memory and arithmetic counts.
    """

    backend: str
    seconds: float
    measured: bool
    launch_s: float = 0.0
    moving_s: float = 0.0
    memory_s: float = 0.0
    arithmetic_s: float = 0.0
    runs: int = 0


class Machines(Protocol):
    """What is known of backends."""

    def candidates(self) -> Iterable[str]:
        """Backends besides the host that may be chosen by what is predicted."""

    def speeds(self, name: str) -> Speeds | None:
        """Of a backend, the host's too, if it was measured; measures nothing."""

    def moves(self, name: str) -> bool:
        """Whether the backend has memory of its own."""

    def recall(self, pending: _native.Pending) -> str:
        """The backend that an earlier process has decided for, for these requests; or ''."""

    def keep(self, pending: _native.Pending, name: str) -> None:
        """What this one has decided for them."""


def predict(
    name: str, speeds: Speeds, info: PlanInfo, moving_s: float, *, moves: bool = False
) -> Estimate:
    """What a run is predicted to take where kernels have these speeds.

    moving_s : for what lies elsewhere. moves : what NumPy's loops do moves, too.
    """
    launch_s = memory_s = arithmetic_s = longer_s = 0.0
    for step in info.steps:
        memory = (step.bytes_read + step.bytes_written) / speeds.copy_bytes_s
        memory_s += memory
        if step.kernel is None:
            longer_s += memory
            moving_s += moves * (step.bytes_read + step.bytes_written) / speeds.transfer_bytes_s
            continue
        arithmetic = _arithmetic(step.kernel, step, speeds)
        launch_s += speeds.launch_s
        arithmetic_s += arithmetic
        longer_s += max(memory, arithmetic)
    seconds = launch_s + moving_s + longer_s
    return Estimate(name, seconds, False, launch_s, moving_s, memory_s, arithmetic_s)


def _arithmetic(kernel: nodes.Kernel, step: StepInfo, speeds: Speeds) -> float:
    points, rows = math.prod(step.extents), math.prod(step.extents[: kernel.band_rank])
    return sum(
        speeds.arithmetic_s(work_of(leaf.roots, rows if leaf.row else points))
        for leaf in kernel.leaves
    )


def moved_bytes(info: PlanInfo, name: str, here: Residence) -> int:
    """Bytes that move for a run on a device with memory of its own: what it reads and is not there,
    and what it makes that somebody may read."""
    there = {buffer: valid for buffer, device, valid, _ in here if device == name}
    used: dict[int, tuple[int, int]] = {}
    made: dict[int, tuple[int, int]] = {}
    for step in info.plan.steps:
        if not isinstance(step, nodes.KernelStep):
            continue
        for buffer, _, written, _, low, end in accesses(step):
            high = end if end >= 0 else info.trace.buffers[buffer].size_bytes
            spans = [used, made] if written else [used]
            for span in spans:
                before = span.get(buffer, (low, high))
                span[buffer] = min(low, before[0]), max(high, before[1])
    buffers = info.trace.buffers
    up = sum(
        max(0, high - low - there.get(buffer, 0))
        for buffer, (low, high) in used.items()
        if not buffers[buffer].fresh
    )
    return up + sum(high - low for b, (low, high) in made.items() if not buffers[b].dead)


@dataclass(slots=True, eq=False, repr=False)
class _Turns:
    """Two backends that run a program by turns; the first is the one that stays if they are alike.

    seconds : of their runs.
    wanted : runs of each, unless it is clear before.
    next_s : seconds of runs after which they are compared again.
    row : runs of one since the other's last.
    """

    seconds: dict[str, list[float]]
    wanted: int
    next_s: float
    row: int = 0

    def over(self) -> bool:
        first, second = self.seconds.values()
        number = min(len(first), len(second))
        if number < min(self.wanted, CLEAR_TURNS):
            return False
        clear = min(first) > CLEAR * max(second) or min(second) > CLEAR * max(first)
        return number >= self.wanted or clear

    def taken(self, name: str) -> float:
        """What a run takes there."""
        times = sorted(self.seconds[name])
        return times[len(times) // 2]


@dataclass(slots=True, eq=False, repr=False)
class _Record:
    """Programs for the same requests on data in the same places, by their backend.

    turns : the comparison that is under way, or was the last.
    decided : what is known on disk; None: nobody has looked yet.
    """

    programs: dict[str, _native.Program] = field(default_factory=dict)
    turns: _Turns | None = None
    decided: str | None = None

    def seconds(self, name: str) -> float | None:
        """What a run takes there, bringing results home included; None: it has not run enough."""
        if self.turns is not None and self.turns.over() and name in self.turns.seconds:
            return self.turns.taken(name)
        program = self.programs.get(name)
        if program is None or program.timing[0] < MEASURED_RUNS:
            return None
        return program.timing[1] + _home_s(program)

    def ran(self, name: str) -> bool:
        """Whether it ran there at all."""
        return self.programs[name].timing[0] > 0

    def last_s(self, name: str) -> float:
        """What the last run took there."""
        program = self.programs[name]
        return program.last + _home_s(program)


def _home_s(program: _native.Program) -> float:
    runs = program.timing[0]
    return program.home / runs if runs else 0.0


def anywhere(pending: _native.Pending) -> bytes:
    """The key without its last word: the backend that is asked for, and where the data lies."""
    return pending.key[:-8]


def _seconds(estimate: Estimate) -> float:
    return estimate.seconds


class Auto:
    """Chooses; one per engine."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._records: LRUCache[bytes, _Record] = LRUCache(PROGRAMS)
        self._refused: set[str] = set()

    def _record(self, pending: _native.Pending, *, home: bool = False) -> _Record:
        """home: as if nothing lay on a device."""
        here = () if home else pending.residence
        name = anywhere(pending) + (here[0][1].encode() if here else b"")
        found = self._records.get(name)
        if found is None:
            found = self._records[name] = _Record()
        return found

    def note(self, pending: _native.Pending, backend: str, program: _native.Program) -> None:
        """A program was built for a backend; those of others are looked at once it has run."""
        record = self._record(pending)
        record.programs[backend] = program
        record.turns = None
        for name, other in record.programs.items():
            if name != backend:
                other.review(MEASURED_RUNS, 0.0)

    def program(self, pending: _native.Pending, backend: str) -> _native.Program | None:
        """What was noted."""
        return self._record(pending).programs.get(backend)

    def refuse(self, backend: str) -> None:
        """It can't be used after all."""
        self._refused.add(backend)

    def forget(self) -> None:
        """After a change of settings that changes what runs take."""
        self._records.clear()

    def review(self, pending: _native.Pending, program: _native.Program) -> str | None:
        """The backend that `program`, which is due, is to run with from now on; None: its own."""
        record, here = self._record(pending), pending.residence
        current = next((n for n, p in record.programs.items() if p is program), HOST)
        record.programs[current] = program
        program.review(0, 0.0)
        turns = record.turns
        if turns is not None and not turns.over() and current in turns.seconds:
            return self._turn(record, turns, current, pending if not here else None)
        if record.decided is None and not here:
            record.decided = self._machines.recall(pending)
            if record.decided and record.decided not in self._refused:
                program.review(TURNS, RECALLED_S)
                return record.decided if record.decided != current else None
        return self._compare(record, current, here)

    def built(self, pending: _native.Pending, backend: str, instead_of: _native.Program) -> None:
        """What `review` chose has been built."""
        record = self._record(pending)
        program = record.programs[backend]
        if backend == record.decided:
            program.review(TURNS, RECALLED_S)
            return
        current = next((n for n, p in record.programs.items() if p is instead_of), HOST)
        record.turns = self._turns(current, backend, TURNS, REVIEW_S)
        program.review(1, 0.0)

    def _turns(self, current: str, rival: str, wanted: int, next_s: float) -> _Turns:
        """Two that are to run by turns. The one that runs now stays if they are alike, since data
        lies there; where none has memory of its own the host does, whose threads the others share.
        """
        names = [current, rival]
        if HOST in names and not any(self._machines.moves(n) for n in names if n != HOST):
            names.sort(key=HOST.__ne__)
        return _Turns({name: [] for name in names}, wanted, next_s)

    def _compare(self, record: _Record, current: str, here: Residence) -> str | None:
        """Whether another backend may take less, and so runs it next."""
        program = record.programs[current]
        candidates = [name for name in self._machines.candidates() if name not in self._refused]
        others = {*candidates, *record.programs} - {current} - self._refused
        if not others or isinstance(program.info, str):
            return None
        before, mine = record.turns, record.seconds(current)
        if mine is None:
            program.review(MEASURED_RUNS, 0.0)
            return None
        unknown = others.difference(record.programs)
        chosen = self._worth_building(record, program, here, unknown, mine) if unknown else None
        if chosen is not None:
            return chosen
        rivals = {n: record.programs[n].timing[1] for n in others - unknown if record.ran(n)}
        if len(rivals) < len(others):
            program.review(REVIEW_RUNS, program.timing[2])
        rival = min(rivals, key=rivals.__getitem__, default=None)
        if rival is None or rivals[rival] > NEVER_BETTER * mine:
            return None
        wanted = min(2 * before.wanted, MOST_TURNS) if before is not None else TURNS
        next_s = 2 * before.next_s if before is not None else REVIEW_S
        record.turns = self._turns(current, rival, wanted, next_s)
        record.programs[rival].review(1, 0.0)
        return rival

    def _worth_building(
        self,
        record: _Record,
        program: _native.Program,
        here: Residence,
        names: Iterable[str],
        mine: float,
    ) -> str | None:
        # The plan is made again for this: only where there is something to predict.
        info: Information = program.info
        plan = info.plan_info()
        best = min(self._estimates(record, plan, here, names), key=_seconds, default=None)
        if best is None or best.seconds * MARGIN >= mine:
            return None
        total_s = program.timing[2]
        building_s = BUILD_S * sum(step.kernel is not None for step in plan.steps)
        if total_s * (1 - best.seconds / mine) < building_s:
            program.review(REVIEW_RUNS, total_s)
            return None
        return best.backend

    def _turn(
        self, record: _Record, turns: _Turns, current: str, pending: _native.Pending | None
    ) -> str | None:
        """After a run by turns: who runs next. pending: what is decided is kept for them."""
        turns.row += 1
        if turns.row > FIRST:
            turns.seconds[current].append(record.last_s(current))
        first, second = turns.seconds
        other = second if current == first else first
        if not turns.over():
            changes = turns.row == FIRST + ROW
            following = other if changes else current
            turns.row = 0 if changes else turns.row
            record.programs[following].review(1, 0.0)
            return following if changes else None
        changes = turns.taken(second) * MEASURED_MARGIN < turns.taken(first)
        faster, slower = (second, first) if changes else (first, second)
        lost_s = len(turns.seconds[slower]) * (turns.taken(slower) - turns.taken(faster))
        turns.next_s = max(turns.next_s, lost_s / COMPARING)
        record.programs[faster].review(TURNS, turns.next_s)
        if pending is not None and record.decided != faster:
            record.decided = faster
            self._machines.keep(pending, faster)
        return faster if faster != current else None

    def stays(self, pending: _native.Pending, info: PlanInfo) -> bool:
        """Whether requests on data that lies on a device run there. Where nothing says what they
        would take, they do."""
        here = pending.residence
        name = here[0][1]
        there = self._estimates(self._record(pending), info, here, {name})
        record = self._record(pending, home=True)
        measured = record.seconds(HOST)
        host = self._predicted(HOST, info, here)
        if measured is not None:
            moving = self._home_s(here)
            return not there or there[0].seconds <= MARGIN * (measured + moving)
        return not there or host is None or there[0].seconds <= MARGIN * host.seconds

    def _known(self, program: _native.Program | None) -> _Record | None:
        known = (r for r in self._records.values() if program in r.programs.values())
        return next(known, None) if program is not None else None

    def reason(self, program: _native.Program) -> str:
        """Why it runs where it does; '' where nothing has been decided."""
        record = self._known(program)
        if record is None:
            return ""
        if record.turns is None:
            name = next(n for n, p in record.programs.items() if p is program)
            return "an earlier process has compared" if name == record.decided else ""
        both = " and ".join(record.turns.seconds)
        if not record.turns.over():
            return f"{both} run it by turns, until it is known which takes less"
        number = min(map(len, record.turns.seconds.values()))
        return (
            f"{both} ran it by turns, {number} times each; the first is left for a twentieth less"
        )

    def estimates(self, info: PlanInfo, program: _native.Program | None) -> list[Estimate]:
        """What a run takes on each backend of which that is known; the host first."""
        record = self._known(program) or _Record()
        if program is not None and not record.programs:
            used = {step.backend for step in info.steps if step.kernel is not None}
            record = _Record({used.pop() if len(used) == 1 else HOST: program})
        names = {*record.programs, *self._machines.candidates()} - self._refused - {HOST}
        found = self._estimates(record, info, (), [HOST, *sorted(names)])
        if program is not None and program.baseline:
            found.append(Estimate("numpy", program.baseline, True))
        return found

    def _estimates(
        self,
        record: _Record,
        info: PlanInfo,
        here: Residence,
        names: Iterable[str],
    ) -> list[Estimate]:
        found = []
        for name in names:
            measured = self._measured(record, [name])
            if measured:
                found += measured
            elif name not in record.programs or name == HOST:
                predicted = self._predicted(name, info, here)
                found += [predicted] if predicted is not None else []
        return found

    def _measured(self, record: _Record, names: Iterable[str]) -> list[Estimate]:
        times = ((name, record.seconds(name)) for name in names)
        return [
            Estimate(name, seconds, True, runs=record.programs[name].timing[0])
            for name, seconds in times
            if seconds is not None
        ]

    def _predicted(self, name: str, info: PlanInfo, here: Residence) -> Estimate | None:
        speeds = self._machines.speeds(name)
        if speeds is None or not speeds.predicts:
            return None
        if name == HOST:
            return predict(name, speeds, info, self._home_s(here))
        if not self._machines.moves(name):
            return predict(name, speeds, info, 0.0)
        moving_s = moved_bytes(info, name, here) / speeds.transfer_bytes_s
        return predict(name, speeds, info, moving_s, moves=True)

    def _home_s(self, here: Residence) -> float:
        """Seconds to bring home what lies on devices alone."""
        total = 0.0
        for _, device, _, newer in here:
            speeds = self._machines.speeds(device)
            total += newer / speeds.transfer_bytes_s if speeds is not None else 0.0
        return total
