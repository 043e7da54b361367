"""Programs of macro sections: known, compiled here, or by the helper while NumPy's loops run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from npaccel import _native
from npaccel.backends.registry import is_device
from npaccel.errors import BackendUnavailable, CompileError
from npaccel.ir.nodes import Plan
from npaccel.ir.passes import plan
from npaccel.runtime.collector import uncollected
from npaccel.runtime.jobs import Job
from npaccel.runtime.program import Built, build, one_by_one
from npaccel.runtime.stored import Found, program_key, values_of
from npaccel.runtime.tiers import COMPILING, NEVER, Sequence
from npaccel.runtime.trace import RawTrace, decode, portable

if TYPE_CHECKING:
    from npaccel.runtime.engine import Engine

__all__ = ["Code", "SectionCode", "Waiting"]

ONLY_NUMPY: Final = "the setting backend is 'numpy'"
ENDED: Final = "its section ended early"


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
    raw : its requests, without objects of this process.
    code : what has come.
    """

    __slots__ = ("code", "key", "raw", "sequence")

    def __init__(self, raw: RawTrace) -> None:
        self.raw = portable(raw)[0]
        self.key = b"section " + repr(self.raw).encode()
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

    def make(self, raw: RawTrace, once: bool) -> tuple[Code, Waiting | None]:
        """What a section of these requests runs. once: for one time, so nothing is compiled."""
        engine = self._engine
        numpy = engine._backend_here() == "numpy"
        if once or numpy or engine.config.tiering == "off":
            return _single(raw, ONLY_NUMPY if numpy else ENDED if once else NEVER), None
        with engine._alone():
            if engine.config.tiering == "eager":
                return self._compile(raw), None
            waiting = Waiting(raw)
            found = engine.stored.find(waiting.key, lambda places: values_of(raw, places))
            if found is not None:
                return _code(found), None
            return _single(raw, COMPILING), waiting

    def attend(self, waiting: Waiting) -> bool:
        """It has run once more: have it compiled if nobody does; True once it waits no longer."""
        engine, sequence = self._engine, waiting.sequence
        with engine._alone(), uncollected():
            engine.tiers.runs += 1
            engine.answers.take()
            idle = not (sequence.asked or sequence.refused or engine.tiers.busy)
            if waiting.code is None and idle and not self._ask(waiting):
                waiting.code = self._compile(waiting.raw)
            return waiting.code is not None or bool(sequence.refused)

    def elsewhere(self) -> str:
        """Why sections do not run by what is asked for here, or ''."""
        backend = self._engine._backend_here()
        return f"sections do not run on the backend {backend!r}" if is_device(backend) else ""

    def _ask(self, waiting: Waiting) -> bool:
        def job(number: int) -> Job:
            limit = int(engine.config.cache_limit)
            folder, threads = engine.disk.folder(), engine.threads
            key = program_key(waiting.key)
            return Job(number, key, b"", {}, threads, folder, limit, waiting.raw)

        engine = self._engine
        return engine.tiers.ask(waiting.sequence, waiting.key, job, waiting)

    def _compile(self, raw: RawTrace) -> Code:
        engine, trace = self._engine, decode(raw)
        planned = plan(trace)

        def make(planned: Plan) -> Built:
            return build(trace, planned, engine.kernels.get, engine.threads, engine._streams)

        try:
            (recipe, _, program), planned, _, _ = engine.made(trace, planned, make)
        except (CompileError, BackendUnavailable) as error:
            return _single(raw, f"not compiled: {error}")
        return Code(program, frozenset(recipe.buffers), frozenset(planned.consumed))


def _single(raw: RawTrace, reason: str) -> Code:
    """NumPy's loops, request by request."""
    return Code(one_by_one(decode(raw), reason), frozenset(range(len(raw[0]))), frozenset())


def _code(found: Found) -> Code:
    positions, _, program, buffers = found
    pairs = frozenset(zip(positions[::2], positions[1::2], strict=True))
    return Code(program, frozenset(buffers), pairs)
