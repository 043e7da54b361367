"""The helper process: plans and compiles what it is sent.

It reads jobs from its standard input and writes replies to its standard output, and ends with its
input, or after a while without work. It outlives its parent only where the parent's last words ask
for that: then it compiles what they name, with what no other process wants of the processor.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import queue
import threading
import time
import traceback
from typing import Any, NoReturn

from npaccel import system
from npaccel.backends.base import Backend, Compiled, Loaded
from npaccel.backends.registry import HOST, open_backend
from npaccel.caches.identity import package_identity
from npaccel.caches.startup_profile import StartupProfile
from npaccel.caches.store import Store
from npaccel.errors import BackendUnavailable, CompileError, NpaccelError
from npaccel.ir import text
from npaccel.ir.nodes import Kernel, Plan, Trace
from npaccel.ir.passes import plan
from npaccel.runtime.helper.frames import Unpacker, pack
from npaccel.runtime.programs.jobs import LINGERING, Job, Reply, Rest, again
from npaccel.runtime.programs.kernels import Image, kernel_key, pack_image, unpack_image
from npaccel.runtime.programs.past_cache import Streams
from npaccel.runtime.programs.program import Draft, draft
from npaccel.runtime.programs.smaller import Made, cut_until, first_rejected
from npaccel.runtime.programs.stored import Outcome, StoredPrograms, pack_outcome
from npaccel.runtime.programs.templates import Template, pack_template, template_of
from npaccel.runtime.programs.trace import decode

__all__ = ["IDLE_S", "lower_priority", "main"]

IDLE_S = 60.0
# Niceness, and that of the scheduling group. On a processor that a thread of the program's has
# left: two thirds of what another process gets. With less, processes that have nothing to do with
# this program leave it none. Else a tenth of what the program gets: on one core that takes 1.1
# times as long while we compile.
LENT_PRIORITY, LENT_GROUP_PRIORITY = 2, 2
PRIORITY, GROUP_PRIORITY, LAST_GROUP_PRIORITY = 15, 10, 19


class Worker:
    """What stays between jobs."""

    def __init__(self, loops: str) -> None:
        self.backend: Backend = open_backend(HOST)
        self.identity = package_identity(("llvmlite",), loops)
        self._streams: Streams = {}
        self._store: Store | None = None
        self._known: dict[str, Image] = {}
        self._rejected: dict[str, str] = {}  # what the compiler said
        self._compiled = 0

    def warm(self) -> None:
        """Load the compiler, before there is a job."""
        with contextlib.suppress(BackendUnavailable):  # each job tells that
            self.backend.fingerprint  # noqa: B018

    def reply(self, job: Job) -> Reply:
        """Do one job; what a compiler may reject is told, all else ends the process."""
        begin = time.monotonic()
        self._begin(job)
        trace = decode(job.requests)
        planned = plan(trace)
        count = len(trace.requests)

        def make(planned: Plan) -> Draft:
            return draft(trace, planned, self._kernel, job.threads, self._streams)

        try:
            found = cut_until(trace, planned, make)
        except NpaccelError as error:
            rejected, dump = first_rejected(error, planned), _dump(trace, planned)
            return Reply(job.number, None, {}, 0, 0.0, count, str(error), dump, None, rejected)
        rejected, dump = (-1, ""), ""
        if found.rejected is not None:
            rejected, dump = first_rejected(found.rejected, planned), _dump(trace, planned)
        outcome, template = self._kept(job, trace, found)
        return Reply(
            job.number,
            pack_outcome(outcome, whole=False),
            dict(self._known),
            self._compiled,
            time.monotonic() - begin,
            count,
            str(found.rejected or ""),
            dump,
            template,
            rejected,
        )

    def _begin(self, job: Job) -> None:
        """Turn to the job's folder, and forget the last job."""
        wanted = job.folder, job.limit
        if self._store is None or (self._store.folder, self._store.limit) != wanted:
            self._store = Store(*wanted, lambda text: None) if job.folder else None
        self._streams.clear()
        self._known.clear()
        self._compiled = 0

    def _kept(
        self, job: Job, trace: Trace, found: Made[Draft]
    ) -> tuple[Outcome, tuple[str, bytes | None] | None]:
        """The program and the template that a job has made, which are stored if they can be."""
        outcome = Outcome(found.plan.consumed, found.made.recipe(), job.requests, found.cuts)
        programs = StoredPrograms(
            lambda: self._store, self._identity, lambda key: None, lambda: job.threads
        )
        programs.keep(job.key, outcome)
        # Of other sizes the same kernels would be taken, for which there are no cuts.
        if not job.template or found.cuts:
            return outcome, None
        rules = tuple(job.requests.rules.values())
        made = template_of(trace, found.plan, found.made, rules)
        return outcome, self._template(job, made)

    def finish(self, rest: Rest) -> None:
        """Do what nobody waits for any more."""
        store = Store(rest.folder, rest.limit, lambda text: None)
        entry = store.get(rest.entry, hit=False)
        jobs = StartupProfile(*marshal.loads(entry)).jobs if entry is not None else ()
        if store.claim(LINGERING) is None:
            return  # one at a time, however many programs end at once
        for job in jobs:
            if not os.path.isdir(rest.folder):
                return  # who removed it wants none of it
            self.reply(again(job, rest.threads, rest.folder, rest.limit, 0))

    def _template(self, job: Job, made: Template | None) -> tuple[str, bytes | None] | None:
        if made is None:
            return None
        packed = pack_template(made)
        kept = self._store is not None and self._store.put(job.template, packed)
        return job.template, None if kept else packed

    def _identity(self) -> str:
        return self.identity + self.backend.identity

    def _kernel(self, kernel: Kernel) -> tuple[str, Compiled]:
        key = kernel_key(self.identity, self.backend, kernel)
        image = self._known.get(key) or self._stored(key)
        if image is None:
            if key in self._rejected:
                raise CompileError(self._rejected[key])
            self._compiled += 1
            code = self._emit(key, kernel)
            image = self.backend.symbols(kernel), self.backend.vector_bytes, code
            if self._store is not None:
                self._store.put(key, pack_image(image))
        self._known[key] = image
        # Nothing runs here, so nothing is loaded; whether there is a second function matters.
        return key, self.backend.bind(kernel, Loaded(1, len(image[0]) - 1, image[1], 0, None))

    def _emit(self, key: str, kernel: Kernel) -> bytes:
        try:
            return self.backend.emit_object(kernel)
        except CompileError as error:
            self._rejected[key] = str(error)
            raise

    def _stored(self, key: str) -> Image | None:
        entry = self._store.get(key) if self._store is not None else None
        return None if entry is None else unpack_image(entry)


def _dump(trace: Trace, planned: Plan) -> str:
    """What the user gets to see of a program whose kernels are rejected."""
    return text.trace_text(trace) + "\n" + text.plan_text(planned)


def _read_jobs(jobs: queue.SimpleQueue[Any]) -> None:
    unpacker = Unpacker()
    while unpacker.read(0):
        if (job := unpacker.take()) is not None:
            jobs.put(job)
            if isinstance(job, Rest):
                _linger(job.seconds)
    os._exit(0)  # the parent is gone, or wants no more; perhaps in the middle of a compilation


def _linger(seconds: float) -> NoReturn:
    """Have what is asked for done by the main thread, with what no other process wants, in time."""
    system.idle(threading.main_thread().native_id or 0, LAST_GROUP_PRIORITY)
    os.chdir(os.sep)  # nobody is kept from removing the folder
    time.sleep(seconds)
    os._exit(0)


def _next_job(jobs: queue.SimpleQueue[Any]) -> Any:
    """The next job; ends the process when there is none."""
    with contextlib.suppress(queue.Empty):
        return jobs.get(timeout=IDLE_S)
    os._exit(0)


def _tell(out: int, message: Any) -> None:
    left = memoryview(pack(message))
    with contextlib.suppress(BrokenPipeError):  # who asked has ended; his last words say what then
        while left:
            left = left[os.write(out, left) :]


def lower_priority(lent: bool) -> None:
    """Leave the program its processors, but for one that is lent."""
    if lent:
        system.nice(LENT_PRIORITY, LENT_GROUP_PRIORITY)
    else:
        system.nice(PRIORITY, GROUP_PRIORITY)


def main(loops: str, lent: bool) -> None:
    """Serve until the input ends or nothing was asked for a while."""
    lower_priority(lent)
    out = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no reply
    worker = Worker(loops)
    _tell(out, worker.identity)
    jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_read_jobs, args=(jobs,), daemon=True).start()
    worker.warm()
    while True:
        job = _next_job(jobs)
        if isinstance(job, Rest):
            worker.finish(job)
            os._exit(0)
        try:
            reply = worker.reply(job)
        except Exception as error:  # told to the user, as everything that keeps code from running
            words = f"internal error of the helper process: {error!r}"
            reply = Reply(job.number, None, {}, 0, 0.0, 0, words, traceback.format_exc())
        _tell(out, reply)
