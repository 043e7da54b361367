"""What the helper has compiled is taken over in steps, of which a flush does some.

Reading an answer, loading its kernels and making its program take as long as there are kernels and
requests; a flush should not wait for that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from npaccel import _native
from npaccel.errors import BackendUnavailable, CompileError
from npaccel.runtime import failures
from npaccel.runtime.jobs import Reply
from npaccel.runtime.smaller import CUT, LOOPS
from npaccel.runtime.stored import unpack_outcome
from npaccel.runtime.tiers import Asked
from npaccel.runtime.trace import decode

if TYPE_CHECKING:
    from npaccel.runtime.engine import Engine

__all__ = ["Answers"]

# In one flush; a step that has begun is done. More waits for the next flush, which costs a run with
# NumPy's loops.
TAKING_S = 0.5e-3


class Answers:
    """Takes them over; one per engine, whose helper, caches and lock it uses.

    Attributes
    ----------
    busy : the flush at hand has had something to take over.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._left: list[tuple[Asked, Iterator[None]]] = []
        self.busy = False

    def take(self) -> None:
        """Exchange what the helper has compiled for what ran with NumPy's loops."""
        end = time.monotonic() + TAKING_S
        if not self._left:
            found = self._engine.tiers.listen()
            self._left = [(asked, self._steps(asked, reply)) for asked, reply in found]
        self.busy = bool(self._left)
        while self._left:
            asked, steps = self._left.pop()  # a warning may lead here again
            asked.sequence.asked = False
            for _ in steps:
                if time.monotonic() > end:
                    asked.sequence.asked = True
                    self._left.append((asked, steps))
                    return

    def forget(self) -> None:
        """After a change of settings: what is left was compiled for others."""
        for asked, _ in self._left:
            asked.sequence.asked = False
        self._left.clear()

    def _steps(self, asked: Asked, reply: Reply) -> Iterator[None]:
        engine = self._engine
        engine.disk.folder()  # where the helper could not make it this says so
        if reply.error:
            number, kernel = reply.rejected
            about = failures.of_kernel(decode(asked.requests), number, asked.sites, kernel)
            instead = LOOPS if reply.outcome is None else CUT
            engine._warn_once(CompileError(reply.error), reply.text, instead, about)
        if reply.outcome is None:
            return
        engine.kernels.compiled += reply.compiled
        engine.costs.note_compile(reply.requests, reply.seconds)
        for name, image in reply.images.items():
            yield
            try:
                if not engine.kernels.has(name):
                    engine.kernels.add(name, image)
            except (CompileError, BackendUnavailable) as error:
                asked.sequence.refused = f"not loaded: {error}"
                return
        yield
        following = _native.serial(None) or 0
        outcome = unpack_outcome(reply.outcome, asked.requests)
        found = engine.stored.program(outcome, following)
        if reply.pattern is not None:
            engine.patterns.add_packed(*reply.pattern)
        if found is not None:
            engine.stored.note(outcome, found[2], in_queue=asked.section is None)
        if asked.section is not None:
            asked.section.take(found)
        elif found is not None:
            asked.sequence.ready = True
            found[2].rival = engine.tiers.rival_seconds(asked)
            engine._take_over(asked.requests.key, found)
