"""What the helper has compiled is taken over in steps, of which a flush does some.

Reading an answer, loading its kernels and making its program take as long as there are kernels and
requests; a flush should not wait for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from npaccel import _native
from npaccel.errors import BackendUnavailable, CompileError
from npaccel.own import time
from npaccel.runtime.devices.cost import Costs
from npaccel.runtime.engine.tiers import Asked, Tiers
from npaccel.runtime.process import failures
from npaccel.runtime.process.disk import Disk
from npaccel.runtime.programs.jobs import Reply
from npaccel.runtime.programs.kernels import Kernels
from npaccel.runtime.programs.smaller import CUT, LOOPS
from npaccel.runtime.programs.stored import Found, StoredPrograms, unpack_outcome
from npaccel.runtime.programs.templates import Templates
from npaccel.runtime.programs.trace import decode

__all__ = ["Answers"]

# In one flush; a step that has begun is done. More waits for the next flush, which costs a run with
# NumPy's loops.
TAKING_S = 0.5e-3


class Answers:
    """Takes them over; one per engine, whose helper, caches and lock it uses.

    Parameters
    ----------
    warn : tells the user of a kernel that was rejected, once.
    keep : keeps a program under its key.

    Attributes
    ----------
    busy : the flush at hand has had something to take over.
    """

    def __init__(
        self,
        tiers: Tiers,
        disk: Disk,
        kernels: Kernels,
        costs: Costs,
        stored: StoredPrograms,
        templates: Templates,
        warn: Callable[..., None],
        keep: Callable[[bytes, Found], None],
    ) -> None:
        self._tiers, self._disk, self._kernels, self._costs = tiers, disk, kernels, costs
        self._stored, self._templates = stored, templates
        self._warn, self._keep = warn, keep
        self._left: list[tuple[Asked, Iterator[None]]] = []
        self.busy = False

    def take(self) -> None:
        """Exchange what the helper has compiled for what ran with NumPy's loops."""
        end = time.monotonic() + TAKING_S
        if not self._left:
            found = self._tiers.listen()
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
        self._disk.folder()  # where the helper could not make it this says so
        if reply.error:
            number, kernel = reply.rejected
            about = failures.of_kernel(decode(asked.requests), number, asked.sites, kernel)
            instead = LOOPS if reply.outcome is None else CUT
            self._warn(CompileError(reply.error), reply.text, instead, about)
        if reply.outcome is None:
            return
        self._kernels.compiled += reply.compiled
        self._costs.note_compile(reply.requests, reply.seconds)
        for name, image in reply.images.items():
            yield
            try:
                if not self._kernels.has(name):
                    self._kernels.add(name, image)
            except (CompileError, BackendUnavailable) as error:
                asked.sequence.refused = f"not loaded: {error}"
                return
        yield
        following = _native.serial(None) or 0
        outcome = unpack_outcome(reply.outcome, asked.requests)
        found = self._stored.program(outcome, following)
        if reply.template is not None:
            self._templates.add_packed(*reply.template)
        if found is not None:
            self._stored.note(outcome, found.program, in_queue=asked.section is None)
        if asked.section is not None:
            asked.section.take(found)
        elif found is not None:
            asked.sequence.ready = True
            found.program.baseline = self._tiers.baseline_seconds(asked)
            self._keep(asked.requests.key, found)
