"""Programs of macro sections: known, compiled here, or by the helper while NumPy's loops run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from npaccel import _native
from npaccel.backends.registry import is_device
from npaccel.errors import BackendUnavailable, CompileError
from npaccel.later import later
from npaccel.runtime.devices.choice import Device
from npaccel.runtime.engine.tiers import COMPILING, NEVER, ONLY_NUMPY, Sequence
from npaccel.runtime.process.collector import uncollected
from npaccel.runtime.programs.jobs import Job
from npaccel.runtime.programs.program import Built, build, one_by_one
from npaccel.runtime.programs.stored import Found, program_key
from npaccel.runtime.programs.trace import Words, decode, portable

if TYPE_CHECKING:
    from npaccel.ir import nodes, passes
    from npaccel.runtime.engine.engine import Engine
else:
    nodes = later("npaccel.ir.nodes")
    passes = later("npaccel.ir.passes")

__all__ = ["Code", "Place", "SectionCode", "Waiting"]

ENDED: Final = "its section ended early"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a section runs.

    device : None: on the host. memory : the device's, if that is why it runs there.
    anywhere : wherever its arguments live; else where the first of those that are on one does.
    """

    device: Device | None = None
    memory: _native.DeviceMemory | None = None
    anywhere: bool = True


@dataclass(frozen=True, slots=True)
class Code:
    """What a replay runs.

    buffers : those that need memory.
    consumed : (request, input) of the scalars for whose values alone it holds.
    """

    program: _native.Program
    buffers: frozenset[int]
    consumed: frozenset[tuple[int, int]]


class Waiting:
    """A section that runs with NumPy's loops until its code has come.

    Attributes
    ----------
    requests : its own, without objects of this process.
    code : what has come.
    """

    __slots__ = ("code", "requests", "sequence")

    def __init__(self, pending: _native.Pending) -> None:
        self.requests = portable(pending)
        self.sequence = Sequence()
        self.code: Code | None = None

    def take(self, found: Found | None) -> None:
        """What the helper's answer came to; None: its code is missing."""
        if found is None:
            self.sequence.refused = "not compiled: its code did not come"
        else:
            self.code = _code(found)


class SectionCode:
    """Makes them; one per engine, whose helper, caches and lock it uses."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.tell_unguarded = engine.tell_unguarded

    def place(self, arrays: list[Any]) -> Place:
        """Where a section with these arguments runs: by what is asked for, or where they live."""
        engine, named = self._engine, self._engine.backend_asked()
        if named != "auto":
            return Place(engine.machines.device(named) if is_device(named) else None)
        memory = _native.place_of(arrays)
        device = engine.machines.device(memory.name) if memory is not None else None
        return Place(device, memory, anywhere=False)

    def make(
        self, pending: _native.Pending, once: bool, place: Place
    ) -> tuple[Code, Waiting | None]:
        """What a section of these requests runs. once: for one time, so nothing is compiled."""
        engine = self._engine
        numpy = engine.backend_asked() == "numpy"
        if once or numpy or (engine.config.tiering == "off" and place.device is None):
            return _single(pending, ONLY_NUMPY if numpy else ENDED if once else NEVER), None
        with engine.alone():
            if engine.config.tiering == "eager" or place.device is not None:
                return self._compile(pending, place.device), None
            found = engine.stored.find(pending, in_queue=False)
            if found is not None:
                return _code(found), None
            return _single(pending, COMPILING), Waiting(pending)

    def attend(self, waiting: Waiting) -> bool:
        """It has run once more: have it compiled if nobody does; True once it waits no longer."""
        engine, sequence = self._engine, waiting.sequence
        with engine.alone(), uncollected():
            engine.tiers.runs += 1
            engine.answers.take()
            idle = not (sequence.asked or sequence.refused or engine.tiers.busy)
            if waiting.code is None and idle and not self._ask(waiting):
                waiting.code = self._compile(waiting.requests)
            return waiting.code is not None or bool(sequence.refused)

    def _ask(self, waiting: Waiting) -> bool:
        def job(number: int) -> Job:
            limit = int(engine.config.cache_limit)
            folder, threads = engine.disk.folder(), engine.threads
            key = program_key(waiting.requests.key)
            return Job(number, key, waiting.requests, threads, folder, limit)

        engine = self._engine
        return engine.tiers.ask(waiting.sequence, job, waiting)

    def _compile(self, words: Words, device: Device | None = None) -> Code:
        engine, trace = self._engine, decode(words)
        planned = passes.plan(trace, wraps=device is None)
        sites = getattr(words, "sites", ())

        def make(planned: nodes.Plan) -> Built:
            kernels, streams = engine.kernels.get, engine.streams
            return build(trace, planned, kernels, engine.threads, streams, device)

        try:
            (made, program), planned, _, _ = engine.telling.made(trace, planned, make, sites=sites)
        except (CompileError, BackendUnavailable) as error:
            if device is not None:
                return self._compile(words)
            return _single(words, f"not compiled: {error}")
        return Code(program, frozenset(made.buffers), frozenset(planned.consumed))


def _single(words: Words, reason: str) -> Code:
    """NumPy's loops, request by request."""
    trace = decode(words)
    return Code(one_by_one(trace, reason), frozenset(range(len(trace.buffers))), frozenset())


def _code(found: Found) -> Code:
    return Code(found.program, frozenset(found.buffers), frozenset(found.consumed))
