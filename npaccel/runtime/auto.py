"""Which backend runs a program under `auto`: by what a run takes, measured or else predicted.

Programs begin on the host. One that has run for a while is reviewed: a backend that is known to
take less, or predicted to take so much less that building for it pays, runs it from then on, and
what it takes there is measured in turn. Where nothing but the host is known, nothing is asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cachetools import LRUCache

from npaccel import _native
from npaccel.backends.speeds import Speeds, work_of
from npaccel.ir.nodes import Kernel, KernelStep
from npaccel.runtime.program import Information, PlanInfo, StepInfo, accesses

__all__ = [
    "REVIEW_RUNS",
    "REVIEW_S",
    "TRIAL_RUNS",
    "Auto",
    "Estimate",
    "Machines",
    "Residence",
    "predict",
]

PROGRAMS = 512
# When a program is looked at; runs of one that was put on another backend by prediction, and from
# which on a time counts as measured: under a load the best of three may be ten times the best.
REVIEW_RUNS, REVIEW_S = 8, 0.25
TRIAL_RUNS = MEASURED_RUNS = 8
# Another backend must take so much less, predicted or measured: or data would go to and fro.
MARGIN, MEASURED_MARGIN = 1.25, 1.05
# What a driver's compiler takes for a kernel.
BUILD_S = 0.5
HOST = "llvm"

# Buffer of the requests, device, bytes that are right there, bytes that are right there alone.
Residence = Sequence[tuple[int, str, int, int]]


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a run takes on a backend, in seconds.

    measured : it ran there. Else predicted, of these parts: of a kernel the longer of memory and
        arithmetic counts.
    """

    backend: str
    seconds: float
    measured: bool
    launch_s: float = 0.0
    moving_s: float = 0.0
    memory_s: float = 0.0
    arithmetic_s: float = 0.0


class Machines(Protocol):
    """What is known of backends."""

    def candidates(self) -> Iterable[str]:
        """Backends besides the host that may be chosen by what is predicted."""

    def speeds(self, name: str) -> Speeds | None:
        """Of a backend, the host's too, if it was measured; measures nothing."""

    def moves(self, name: str) -> bool:
        """Whether the backend has memory of its own."""


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


def _arithmetic(kernel: Kernel, step: StepInfo, speeds: Speeds) -> float:
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
        if not isinstance(step, KernelStep):
            continue
        for buffer, _, written, low, end in accesses(step):
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


@dataclass(slots=True)
class _Record:
    """Programs for the same requests on data in the same places, by their backend."""

    programs: dict[str, _native.Program] = field(default_factory=dict)

    def seconds(self, name: str) -> float | None:
        """What a run takes there, bringing results home included; None: it has not run enough."""
        program = self.programs.get(name)
        if program is None or program.timing[0] < MEASURED_RUNS:
            return None
        runs, best_s, _ = program.timing
        return best_s + program.home / runs


class Auto:
    """Chooses; one per engine."""

    def __init__(self, machines: Machines) -> None:
        self._machines = machines
        self._records: LRUCache[bytes, _Record] = LRUCache(PROGRAMS)
        self._refused: set[str] = set()

    def _record(self, key: bytes, here: Residence) -> _Record:
        # The last word of a key is the backend that is asked for, and where the data lies.
        name = key[:-8] + (here[0][1].encode() if here else b"")
        found = self._records.get(name)
        if found is None:
            found = self._records[name] = _Record()
        return found

    def note(self, key: bytes, here: Residence, backend: str, program: _native.Program) -> None:
        """A program was built for a backend; those of others are looked at once it has run."""
        programs = self._record(key, here).programs
        programs[backend] = program
        for name, other in programs.items():
            if name != backend:
                other.review(MEASURED_RUNS, 0.0)

    def program(self, key: bytes, here: Residence, backend: str) -> _native.Program | None:
        """What was noted."""
        return self._record(key, here).programs.get(backend)

    def refuse(self, backend: str) -> None:
        """It can't be used after all."""
        self._refused.add(backend)

    def forget(self) -> None:
        """After a change of settings that changes what runs take."""
        self._records.clear()

    def review(self, key: bytes, here: Residence, program: _native.Program) -> str | None:
        """The backend that `program`, which is due, is to run with from now on; None: its own."""
        record = self._record(key, here)
        current = next((n for n, p in record.programs.items() if p is program), HOST)
        record.programs[current] = program
        candidates = [name for name in self._machines.candidates() if name not in self._refused]
        others = {*candidates, *record.programs} - {current} - self._refused
        program.review(0, 0.0)
        if not others or isinstance(program.info, str):
            return None
        mine = record.seconds(current)
        if mine is None or any(n in record.programs and record.seconds(n) is None for n in others):
            program.review(2 * MEASURED_RUNS, 0.0)
        if mine is None:
            return None
        total_s = program.timing[2]
        info: Information = program.info
        found = self._estimates(record, info.plan_info(), here, others)
        best = min(found, key=lambda estimate: estimate.seconds, default=None)
        if best is None or best.seconds * (MEASURED_MARGIN if best.measured else MARGIN) >= mine:
            return None
        if best.measured:
            return best.backend
        building_s = BUILD_S * sum(step.kernel is not None for step in info.plan_info().steps)
        if total_s * (1 - best.seconds / mine) < building_s:
            program.review(REVIEW_RUNS, total_s)
            return None
        return best.backend

    def stays(self, key: bytes, here: Residence, info: PlanInfo) -> bool:
        """Whether requests on data that lies on a device run there. Where nothing says what they
        would take, they do."""
        name = here[0][1]
        there = self._estimates(self._record(key, here), info, here, {name})
        record = self._record(key, ())
        measured = record.seconds(HOST)
        host = self._predicted(HOST, info, here)
        if measured is not None:
            moving = self._home_s(here)
            return not there or there[0].seconds <= MARGIN * (measured + moving)
        return not there or host is None or there[0].seconds <= MARGIN * host.seconds

    def estimates(self, info: PlanInfo, program: _native.Program | None) -> list[Estimate]:
        """What a run takes on each backend of which that is known; the host first."""
        known = (r for r in self._records.values() if program in r.programs.values())
        record = next(known, _Record()) if program is not None else _Record()
        if program is not None and not record.programs:
            used = {step.backend for step in info.steps if step.kernel is not None}
            record = _Record({used.pop() if len(used) == 1 else HOST: program})
        names = {*record.programs, *self._machines.candidates()} - self._refused - {HOST}
        found = self._estimates(record, info, (), [HOST, *sorted(names)])
        if program is not None and program.rival:
            found.append(Estimate("numpy", program.rival, True))
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
            seconds = record.seconds(name)
            if seconds is not None:
                found.append(Estimate(name, seconds, True))
            elif name not in record.programs or name == HOST:
                predicted = self._predicted(name, info, here)
                found += [predicted] if predicted is not None else []
        return found

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
