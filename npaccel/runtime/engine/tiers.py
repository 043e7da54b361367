"""Which requests run with NumPy's loops, at once, and which are worth compiling; and when.

Requests that no compiled program is known for run one by one, with NumPy's own loops and without
being planned: tier 0. Such a program that comes again, and has taken long enough for compiling to
pay, is sent to the helper process; it is exchanged when the code is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from cachetools import LRUCache

from npaccel import _native, system
from npaccel.later import Once
from npaccel.runtime.devices.cost import POINT_S, Costs
from npaccel.runtime.helper.helper import Helper
from npaccel.runtime.process.failures import Sites
from npaccel.runtime.programs.jobs import Job, Kept, Rest, kept
from npaccel.runtime.programs.templates import structure_of
from npaccel.runtime.programs.trace import Requests

__all__ = ["COMPILING", "TOO_LITTLE", "Asked", "Ran", "Sequence", "Tiers"]

SEQUENCES = 4096
# Sizes of one sequence of operations whose times are known.
SIZES = 16
COMPILING = "running block by block while it compiles"
NOT_YET = "running block by block until it has run long enough for compiling to pay"
TOO_LITTLE = "running block by block: planning for a new size would take longer"
# What a program that runs block by block takes until there is something new to choose: asking
# costs a twentieth of a millisecond.
REST_S = 1e-3
# After so many in a row that were not on disk, the next are looked for when they come again:
# looking takes a thirtieth of a millisecond, and what never comes again gains nothing.
MOST_MISSED = 32
# So many requests that nobody has compiled are kept for the process's end, those that took longest;
# and if so many processes like it, which find code then, would gain what compiling takes.
MOST_LEFT, PROCESSES = 64, 4
NEVER = "running block by block, as the setting tiering says"
ONLY_NUMPY = "the setting backend is 'numpy'"


# Requests that plan alike: an outline, and a hash of the structure.
_Kind = tuple[int, int]
# What tier 0 has run.
Ran = tuple[_native.Pending, _native.Program]


@dataclass(slots=True, eq=False, repr=False)
class Sequence:
    """Operations in order, whatever their sizes.

    programs : tier 0, per key; they measure their time.
    ready : code for these operations is there, for one size at least.
    named : the key that was looked for last, and the name of its structure's templates.
    unlike : how often the helper was asked since no known template fitted.
    last : the last of `programs` to run, and how many elements it runs over.
    refused : why they are never compiled, or ''.
    put_off : it has run without being looked for on disk.
    """

    programs: LRUCache[bytes, _native.Program] = field(default_factory=lambda: LRUCache(SIZES))
    last: tuple[_native.Program, float] | None = None
    forgotten_s: float = 0.0  # what programs took that are no longer among them
    forgotten_runs: int = 0
    asked: bool = False
    ready: bool = False
    named: tuple[bytes, str] | None = None
    unlike: int = 0
    refused: str = ""
    put_off: bool = False

    @property
    def seconds(self) -> float:
        """What tier 0 has taken."""
        return self.forgotten_s + sum(program.timing[2] for program in self.programs.values())

    @property
    def runs(self) -> int:
        """How often tier 0 has run it."""
        return self.forgotten_runs + sum(p.timing[0] for p in self.programs.values())

    def spent(self, key: bytes, points: float) -> float:
        """What tier 0 took for this size, and is expected to take for the run at hand."""
        program = self.programs.get(key)
        if program is not None:
            runs, _, total = program.timing
            return total * (runs + 1) / max(1, runs)
        if self.last is not None and self.last[0].timing[0]:
            return self.last[0].timing[1] / self.last[1] * points
        return POINT_S * points

    def add(self, key: bytes, program: _native.Program) -> None:
        """Keep a program of one more size; the oldest one goes if there are too many."""
        if len(self.programs) >= SIZES:
            self.count(self.programs.popitem()[1])
        self.programs[key] = program

    def count(self, program: _native.Program) -> None:
        """Note what a program has taken that is not kept."""
        runs, _, seconds = program.timing
        self.forgotten_s += seconds
        self.forgotten_runs += runs


class Asked(NamedTuple):
    """A job that the helper has: requests, and of which sequence; the macro section's `Waiting`,
    if it is one's, and else the job; where the program has them, as far as that is known."""

    requests: Requests
    sequence: Sequence
    section: Any = None
    job: Job | None = None
    sites: Sites = ()


class Tiers:
    """Chooses; one per engine.

    Parameters
    ----------
    helper : made when it is first needed.

    Attributes
    ----------
    runs : how often tier 0 ran.
    """

    def __init__(self, helper: Once[Helper], costs: Costs) -> None:
        self._helper = helper
        self._costs = costs
        self._sequences: LRUCache[int, Sequence] = LRUCache(SEQUENCES)
        self._jobs: dict[int, Asked] = {}
        self._left: dict[_Kind, _native.Pending] = {}  # the last one's time is not known
        self._times: LRUCache[int | _Kind, int] = LRUCache(SEQUENCES)  # each was met without code
        self._number = 0
        self._missed = 0  # that were not on disk, since one was
        self.runs = 0
        system.at_fork(after_in_child=self._forked)

    def sequence(self, pending: _native.Pending) -> Sequence:
        """That of these requests."""
        return self._sequence(pending.outline)

    def _sequence(self, outline: int) -> Sequence:
        found = self._sequences.get(outline)
        if found is None:
            found = self._sequences[outline] = Sequence()
        return found

    def puts_off(self, sequence: Sequence) -> bool:
        """Whether it runs at once, and is looked for on disk if it comes again."""
        new = sequence.last is None and sequence.forgotten_runs == 0
        if not new or self._missed < MOST_MISSED:
            return False
        sequence.put_off = True
        return True

    def looked_up(self, sequence: Sequence, found: bool) -> None:
        """A program was looked for on disk."""
        sequence.put_off = False
        self._missed = _native.looked_up(found)

    def single(
        self, sequence: Sequence, pending: _native.Pending, reason: str = ""
    ) -> _native.Program:
        """The tier 0 program of these requests, which are about to run; the caller keeps it under
        their key, so that nobody is asked about them until it has run for a while."""
        program = sequence.programs.get(pending.key)
        if program is None:
            program = _native.Program(None, 0, None, "")
            sequence.add(pending.key, program)
        sequence.last = program, max(1.0, pending.points)
        reason = reason or sequence.refused or (COMPILING if sequence.asked else NOT_YET)
        program.info = reason
        self.runs += 1
        program.review(1, REST_S)
        return program

    def take_over(self, programs: Iterable[Ran]) -> None:
        """Count what ran before there was an engine; the disk has not been asked about it yet."""
        for pending, program in programs:
            self.sequence(pending).count(program)
            self.note(pending)

    def pays(self, sequence: Sequence, pending: _native.Pending) -> bool:
        """Whether compiling is worth its cost by now: what comes again will come as often again."""
        if sequence.runs < 2 or sequence.asked or sequence.refused:
            return False
        spent = sequence.seconds - self._held_up(len(pending))
        return self._costs.compiling_pays(spent, len(pending))

    def _held_up(self, requests: int) -> float:
        """What products of matrices would lose, in seconds, while the helper compiles that."""
        if _native.threads() == 1:
            return 0.0
        return _native.held_up(self._costs.compiling(requests), self._helper.made is None)

    def planning_pays(self, sequence: Sequence, pending: _native.Pending) -> bool:
        """Whether to plan for a new size of what has code already takes less than it does."""
        spent = sequence.spent(pending.key, pending.points)
        return self._costs.planning_pays(spent, len(pending))

    def ask(
        self,
        sequence: Sequence,
        job: Callable[[int], Job],
        section: Any = None,
        sites: Sites = (),
    ) -> bool:
        """Have requests compiled; False: there is no helper. sites: of the requests."""
        self._number += 1
        number = self._number
        asked = job(number)
        if not self._helper().ask(number, asked):
            return False
        own = asked if section is None else None
        self._jobs[number] = Asked(asked.requests, sequence, section, own, sites)
        sequence.asked = True
        return True

    def listen(self) -> list[tuple[Asked, Any]]:
        """Replies of the helper that have come, with what they are about, which stays asked for
        until the reply has been taken over."""
        helper = self._helper.made
        if helper is None or not (self._jobs or helper.starting):
            return []
        replies, lost = helper.listen()
        for number in lost:
            asked = self._jobs.pop(number, None)
            if asked is None:
                continue  # of settings that are no longer in force
            asked.sequence.asked = False
            if not helper.broken:
                asked.sequence.refused = "not compiled: the helper process failed at it"
        found = []
        for reply in replies:
            asked = self._jobs.pop(reply.number, None)
            if asked is None:
                continue
            if reply.outcome is None:
                asked.sequence.refused = f"not compiled: {reply.error}"
            found.append((asked, reply))
        return found

    def note(self, pending: _native.Pending) -> None:
        """These requests are about to run without code: the next process will want some for them,
        if they take long enough that code pays. What has run since the last call is looked at."""
        self._judge()
        kind = pending.outline, hash(structure_of(pending))
        for met in (kind[0], kind):
            self._times[met] = self._times.get(met, 0) + 1
        self._left.pop(kind, None)
        self._left[kind] = pending

    def _judge(self) -> None:
        left = self._left
        if not left:
            return
        last, pending = next(reversed(left.items()))
        if not self._costs.compiling_pays(PROCESSES * self._seconds(last), len(pending)):
            del left[last]
        elif len(left) > MOST_LEFT:
            del left[min(left, key=self._seconds)]

    def _seconds(self, kind: _Kind) -> float:
        """What tier 0 has taken for requests of the kind: their part of the sequence's time."""
        found, times = self._sequences.get(kind[0]), self._times
        part = times.get(kind, 1) / max(1, times.get(kind[0], 1))
        return 0.0 if found is None else found.seconds * part

    def unfinished(self, job: Callable[[_native.Pending], Job | None]) -> list[Kept]:
        """What the next process with the same command will want code for, and nobody has compiled:
        what the helper has not answered, and what else took long enough; the longest first.

        job : of requests; None: there is code for them, or for others that plan alike.
        """
        self._judge()
        asked = [one.job for one in self._jobs.values() if one.job is not None]
        for kind in sorted(self._left, key=self._seconds, reverse=True):
            sequence = self._sequence(kind[0])
            made = None if sequence.asked or sequence.refused else job(self._left[kind])
            if made is not None:
                asked.append(made)
        return [kept(one) for one in asked]

    def leave(self, rest: Rest) -> None:
        """Have it done by the helper after the end of this process."""
        self._helper().leave(rest)

    @property
    def busy(self) -> bool:
        """Whether the helper has enough to do: one job at a time, so that the next one to be chosen
        is the one that matters most by then."""
        return bool(self._jobs)

    @property
    def broken(self) -> str:
        """Why there is no helper, or ''."""
        return self._helper.made.broken if self._helper.made is not None else ""

    @property
    def helper(self) -> Helper | None:
        """The helper, once one was needed."""
        return self._helper.made

    def baseline_seconds(self, asked: Asked) -> float:
        """The best time of tier 0 for what was asked; 0: it is not known any more."""
        program = asked.sequence.programs.get(asked.requests.key)
        return 0.0 if program is None else program.timing[1]

    def forget(self) -> None:
        """After a change of settings: look at everything anew."""
        self._sequences.clear()
        self._left.clear()
        self._times.clear()
        self._missed = _native.looked_up(True)  # as if one had been there
        self._forked()

    def _forked(self) -> None:
        # The helper is the parent's, and so are its answers.
        for asked in self._jobs.values():
            asked.sequence.asked = False
        self._jobs.clear()
