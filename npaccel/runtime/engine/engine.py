"""Joins the IR, the caches and the backends behind the C core's queue.

The C core calls `Engine.plan` when requests must run whose key it has not seen; the Program that
comes back is kept under that key, and later flushes with it never meet Python.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from cachetools import LRUCache

from npaccel import _native, system
from npaccel.backends.base import Backend
from npaccel.backends.registry import HOST, is_device
from npaccel.caches.startup_profile import StartupProfile
from npaccel.caches.trace import TraceCache
from npaccel.config import Config
from npaccel.errors import BackendUnavailable, CompileError
from npaccel.later import Once, later
from npaccel.own import os, time
from npaccel.runtime.checking.comparing import Comparing
from npaccel.runtime.devices.auto import REVIEW_RUNS, REVIEW_S, Auto, Estimate
from npaccel.runtime.devices.choice import Device, Several
from npaccel.runtime.devices.cost import Costs
from npaccel.runtime.devices.machines import Machines
from npaccel.runtime.engine.answers import Answers
from npaccel.runtime.engine.counters import Counters
from npaccel.runtime.engine.telling import Telling
from npaccel.runtime.engine.tiers import NEVER, ONLY_NUMPY, TOO_LITTLE, Sequence, Tiers
from npaccel.runtime.process.collector import uncollected
from npaccel.runtime.process.core import Core
from npaccel.runtime.process.disk import Disk
from npaccel.runtime.process.guarding import UNGUARDED
from npaccel.runtime.programs.jobs import LINGERING, Job, Kept, Rest
from npaccel.runtime.programs.kernels import Kernels, MissingCode
from npaccel.runtime.programs.past_cache import Streams
from npaccel.runtime.programs.program import (
    Built,
    Compile,
    PlanInfo,
    StepInfo,
    build,
    describe,
    one_by_one,
    single_requests,
)
from npaccel.runtime.programs.smaller import LOOPS, Made
from npaccel.runtime.programs.stored import Found, Outcome, Planned, StoredPrograms, program_key
from npaccel.runtime.programs.templates import Templates, template_of
from npaccel.runtime.programs.trace import Requests, decode, portable

if TYPE_CHECKING:
    from npaccel.ir import nodes, passes, text
    from npaccel.runtime.checking import check as checks
    from npaccel.runtime.helper.helper import Helper
else:
    nodes = later("npaccel.ir.nodes")
    text = later("npaccel.ir.text")
    passes = later("npaccel.ir.passes")

__all__ = ["Engine"]

Pending = _native.Pending

# Different sequences of operations whose plans are kept to be moved to other sizes.
PLANNED_SEQUENCES = 512
# How often the helper is asked about sizes that no known template fits; then they are planned here.
UNLIKE = 4
LONGEST_S = 10.0  # to wait for another thread's planning
# What a process may do before it is asked to, as the last one with its command did it later: bytes
# of memory that a thread touches, and time to read programs and to make rules.
PREPARED_BYTES = 128 << 20
PREPARING_S = 4e-3
RULES_S = 2e-3


class Engine:
    """One per process: settings, backend, compiled kernels.

    Parameters
    ----------
    helper : made when it is first needed, perhaps before there is an engine.
    backend : what has run everything until now.
    """

    def __init__(
        self, config: Config, core: Core, disk: Disk, helper: Once[Helper], backend: str
    ) -> None:
        self._unlock()
        system.at_fork(after_in_child=self._forked)
        self.config, self.core, self.disk = config, core, disk
        self.kernels = Kernels(
            lambda: self.backend(HOST), disk.store, disk.identity, config.code_limit
        )
        self.stored = StoredPrograms(
            disk.store, disk.full_identity, self.kernels.find, _native.threads
        )
        self.telling = Telling()
        self.costs = Costs()
        self.tiers = Tiers(helper, self.costs)
        self.templates = Templates(PLANNED_SEQUENCES, disk.store, disk.full_identity)
        self.answers = Answers(
            self.tiers,
            self.disk,
            self.kernels,
            self.costs,
            self.stored,
            self.templates,
            self.telling.warn,
            self._take_over,
        )
        self.traces = TraceCache(_native.plans(), config.trace_cache, config.trace_cache_bytes)
        self.streams: Streams = LRUCache(PLANNED_SEQUENCES)
        self.machines = Machines(
            config, disk.store, disk.folder, disk.identity, disk.processor, self.telling.tell
        )
        self.auto = Auto(self.machines)
        self._backend_in_force = backend
        self.comparing = Comparing(config, self.backend)
        self.counters = Counters(
            self.kernels, self.machines, self.tiers, self.comparing, self.traces
        )
        config.subscribe(self._changed)

    # One thread at a time plans, changes settings and hears the helper. The core's lock is never
    # held by who comes here, but may be taken inside.

    @contextmanager
    def alone(self) -> Iterator[None]:
        """One thread at a time is in here, but for one that has waited too long."""
        lock = self._lock
        # A thread that the interpreter's end stopped in here never leaves; and a finalizer that
        # runs in here may wait for a lock of the user's whose holder waits for ours. Two at once
        # mean only that something is planned twice.
        ours = not sys.is_finalizing() and lock.acquire(timeout=LONGEST_S)
        try:
            yield
        finally:
            if ours:
                lock.release()

    def _unlock(self) -> None:
        self._lock = threading.RLock()  # warnings are issued inside: the user's code may come back

    def _forked(self) -> None:
        self._unlock()

    # What the C core calls.

    def __call__(self, pending: Pending) -> _native.Program:
        """Choose how these requests run; a compiled Program is kept under their key."""
        # Compiling here may take seconds, in which other threads run and record.
        with self.alone(), uncollected(self.config.tiering != "eager"):
            return self._program(pending)

    def _program(self, pending: Pending) -> _native.Program:
        config, backend = self.config, self._backend_for(pending)
        if backend == "numpy":
            program = one_by_one(decode(pending), ONLY_NUMPY, pending.serial)
            self.traces.add(pending.key, program)
            return program
        due = self._planned(pending)
        if due is not None and due.due:
            return self._review(pending, due)
        if is_device(backend):
            return self._compile(pending, device=self._device(pending, backend))
        if pending.residence and backend == "auto":
            there = self._there(pending)
            if there is not None:
                return there
        eager = config.tiering == "eager" or config.check == "compute"
        if not eager:
            self.answers.take()
            known = self._planned(pending)
            if known is not None:
                return known
        return self._on_host(pending, eager=eager)

    def _on_host(self, pending: Pending, *, eager: bool) -> _native.Program:
        """By code that there is in memory or on disk, or block by block until there is."""
        sequence = self.tiers.sequence(pending)
        if self.config.tiering == "off":
            return self._single(sequence, pending, NEVER)
        if not eager and self.tiers.puts_off(sequence):
            self.tiers.note(pending)
            return self._single(sequence, pending)
        name = self._name(pending, sequence) if sequence.ready or eager else ""
        known = bool(self.templates.known(name))
        if known and not eager and (filled := self._fill(pending, name)) is not None:
            return filled
        if sequence.ready and not eager and not self.tiers.planning_pays(sequence, pending):
            return self._single(sequence, pending, TOO_LITTLE)
        if sequence.put_off or not (pending.key in sequence.programs or known):
            stored = self.stored.find(pending)
            self.tiers.looked_up(sequence, stored is not None)
            if stored is not None:
                sequence.ready = True
                stored.program.compares = not eager
                return self._keep(pending, stored.program)
            name = self._name(pending, sequence)
            if self.templates.load(name):
                sequence.ready = True
                if not eager and (filled := self._fill(pending, name)) is not None:
                    return filled
        if eager:
            return self._compile(pending, name)
        return self._choose(pending, name, sequence)

    def touched(self, pending: Pending) -> _native.Program:
        """Plan what a touch ran block by block, for the next one."""
        with self.alone(), uncollected(self.config.tiering != "eager"):
            runs = self.tiers.runs
            program = self._planned(pending) or self._program(pending)
            self.tiers.runs = runs  # the core counts them
            return program

    def _choose(self, pending: Pending, name: str, sequence: Sequence) -> _native.Program:
        """At once with NumPy's loops, unless there is code; whether to have it compiled. name: of
        the structure's templates, or ''."""
        tiers, missing = self.tiers, False
        if sequence.ready:
            begin = time.monotonic()
            program = self._for_size(pending, name, sequence)
            if program is not None:
                self.costs.note_plan(len(pending), time.monotonic() - begin)
                return program
            missing = True
        if not (tiers.busy or self.answers.busy) and (missing or tiers.pays(sequence, pending)):
            sequence.unlike += missing
            named = self._name(pending, sequence)

            def job(number: int) -> Job:
                return self._job(number, pending, named)

            if not tiers.ask(sequence, job, None, pending.sites):
                return self._compile(pending, named)
        tiers.note(pending)
        return self._single(sequence, pending)

    def _single(self, sequence: Sequence, pending: Pending, reason: str = "") -> _native.Program:
        """Block by block, which is known under their key until there is something to choose."""
        program = self.tiers.single(sequence, pending, reason)
        self.traces.add(pending.key, program)
        return program

    def _name(self, pending: Pending, sequence: Sequence) -> str:
        """Of the structure's templates: what has the same key has the same."""
        if sequence.named is None or sequence.named[0] != pending.key:
            sequence.named = pending.key, self.templates.name(pending)
        return sequence.named[1]

    def _for_size(self, pending: Pending, name: str, sequence: Sequence) -> _native.Program | None:
        """By a plan made now and code for other sizes; None where some lacks, or the helper may
        have a template that fits."""
        if name and sequence.unlike < UNLIKE:
            return None
        try:
            return self._compile(pending, name, self.kernels.known)
        except MissingCode:
            return None

    def _fill(self, pending: Pending, name: str) -> _native.Program | None:
        """The Program by a template of these requests; None: none is known, fits and has code."""
        for template in self.templates.known(name):
            code = [self.kernels.find(kernel) for kernel in template.kernels]
            kept = Requests(pending.key, pending.scalars, pending.rules)
            info = Planned(kept, pending.serial)
            program = template.program(pending, code, info) if all(code) else None
            if program is not None:
                self.counters.moved += 1
                return self._keep(pending, program)
        return None

    def _review(self, pending: Pending, program: _native.Program) -> _native.Program:
        """Exchange a program that has run for a while for another backend's, if that takes less."""
        if self._backend_for(pending) != "auto":
            program.review(REVIEW_RUNS, REVIEW_S)  # later: `auto` may run it, too
            return program
        chosen = self.auto.review(pending, program)
        if chosen is None:
            return program
        known = self.auto.program(pending, chosen)
        if known is None:
            try:
                known = self._compile(pending, device=self.machines.device(chosen))
            except BackendUnavailable as error:
                self.telling.tell(f"{error}; kernels run with llvm instead", error)
                known = None
            if known is None or not any(s.backend == chosen for s in known.info.plan_info().steps):
                self.auto.refuse(chosen)
                known = program
            else:
                self.auto.built(pending, chosen, program)
        return self._keep(pending, known, review=False)

    def _there(self, pending: Pending) -> _native.Program | None:
        """For the device on which data lies, where nobody said so; None: the host's is wanted."""
        trace = decode(pending)
        moved = self.templates.moved(self.templates.name(pending), pending)
        planned = moved or passes.plan(trace, wraps=False)
        if not self.auto.stays(pending, describe(trace, planned)):
            return None
        return self._compile(pending, device=self._device(pending, pending.residence[0][1]))

    def _compile(
        self,
        pending: Pending,
        name: str = "",
        kernel: Compile | None = None,
        device: Device | Several | None = None,
    ) -> _native.Program:
        """Plan and compile now, unless a template fits. name: of the structure's, or ''."""
        known = self._fill(pending, name) if kernel is None and name else None
        if known is not None:
            return known
        trace = decode(pending)
        name = name or self.templates.name(pending)
        moved = self.templates.moved(name, pending)
        self.counters.moved += moved is not None
        planned = moved or passes.plan(trace, wraps=device is None)
        compile_kernel = kernel or self.kernels.get

        def make(planned: nodes.Plan) -> Built:
            streams, first = self.streams, pending.serial
            return build(trace, planned, compile_kernel, self.threads, streams, device, first)

        try:
            instead = f"kernels run with {HOST} instead" if device is not None else LOOPS
            found = self.telling.made(trace, planned, make, instead, pending.sites)
        except (CompileError, BackendUnavailable) as error:
            if device is not None:
                return self._compile(pending, name, kernel)
            program = one_by_one(trace, f"not compiled: {error}", pending.serial)
            return self._keep(pending, program)
        tidy = kernel is None
        return self._keep_made(pending, name, trace, found, device, anew=moved is None, tidy=tidy)

    def _keep_made(
        self,
        pending: Pending,
        name: str,
        trace: nodes.Trace,
        found: Made[Built],
        device: Device | Several | None,
        *,
        anew: bool,
        tidy: bool,
    ) -> _native.Program:
        """Keep a Program, for these requests, for other sizes, and on disk.

        name : of the structure's templates. anew : its plan is no other's, moved to these sizes.
        tidy : the store may be tidied: who has waited for a compiler waits for that, too.
        """
        (made, program), planned, cuts, _ = found
        requests, template = portable(pending), None
        if name and not cuts and (anew or device is None):
            rules = list(requests.rules.values())
            template = template_of(trace, planned, made, rules)
            if anew and template is not None:
                self.templates.add_plan(name, template, planned)
        if device is not None:
            self.auto.note(pending, device.name, program)
            return self._keep(pending, program)
        self.tiers.sequence(pending).ready = True
        if anew:  # those that were moved are as many as there are sizes
            outcome = Outcome(planned.consumed, made.recipe(), requests, cuts)
            self.stored.keep(program_key(pending.key), outcome, tidy=tidy)
        if template is not None:
            self.templates.add(name, template)
            self.templates.keep(name, template)
        return self._keep(pending, program)

    def _planned(self, pending: Pending) -> _native.Program | None:
        """What was planned for these requests."""
        program: _native.Program | None = self.traces.find(pending.key)
        return program

    def _keep(
        self, pending: Pending, program: _native.Program, *, review: bool = True
    ) -> _native.Program:
        if review and self._backend_for(pending) == "auto":
            program.review(REVIEW_RUNS, REVIEW_S)
        self.traces.add(pending.key, program)
        return program

    def _take_over(self, key: bytes, found: Found) -> None:
        """Keep what the helper or a profile had for requests that were to run on the host."""
        if self.backend_asked() == "auto":
            found.program.review(REVIEW_RUNS, REVIEW_S)
        found.program.compares = not found.program.baseline and self.config.tiering != "eager"
        self.traces.add(key, found.program)

    def _job(self, number: int, pending: Pending, name: str) -> Job:
        named, requests = program_key(pending.key), portable(pending)
        return Job(number, named, requests, self.threads, *self._cache(), name)

    def _cache(self) -> tuple[str, int]:
        # A folder that is not there yet is the helper's to make, which takes as long as asking.
        store, limit = self.disk.store(), int(self.config.cache_limit)
        folder = store.folder if store is not None and (store.missing or store.usable()) else ""
        return folder, limit

    def check(
        self,
        pending: Pending,
        before: list[bytes | None],
        after: list[bytes | None],
        looped: dict[tuple[int, int], bytes],
    ) -> None:
        """In check mode, after a run: compare it with the reference; raises CheckError."""
        self.comparing.settle()  # what is compared beside may wait for our lock
        with self.alone():
            code, name = self._code(pending)
            self.comparing.compare(pending, before, after, looped, code, name)

    def _code(self, pending: Pending) -> tuple[checks.Code | None, str]:
        """What gives check mode the code of kernels, of the backend in force, and its name; None:
        no kernels."""
        name = self._backend_for(pending)
        if name == "numpy":
            return None, name
        resident = pending.residence if name == "auto" else None
        name = resident[0][1] if resident else name
        device = self.machines.device(name) if is_device(name) else None

        def code(step: nodes.KernelStep) -> Any:
            info = StepInfo(step.requests, step.kernel, step.extents, 0, 0, name)
            # A device that does not see the host's memory is compared with the host's code.
            with self.alone():
                found = device and self.machines.shares(name) and device.place(step.kernel, info)[0]
                return found or self.kernels.get(step.kernel)[1]

        return code, HOST if device is None else name

    def preview(self, pending: Pending) -> PlanInfo:
        """What they would run as; compiles and runs nothing."""
        trace, backend = decode(pending), self._backend_for(pending)
        if backend == "numpy":
            return describe(trace, single_requests(trace, ONLY_NUMPY))
        name = self.machines.device(backend).name if is_device(backend) else HOST
        return describe(trace, passes.plan(trace), backend=name)

    # Settings.

    def _changed(self, name: str, value: str | float) -> None:
        with self.alone():
            self._change(name, value)

    def _change(self, name: str, value: str | float) -> None:
        if name == "backend":  # first, since it may fail, and what is pending may run below
            self._choose_backend(str(value))
        self._apply(name)
        if name == "device_memory":
            _native.evaluate()
            self.machines.limit_memory()
            self.traces.clear()
            self.auto.forget()
        if name in ("tiering", "threads"):  # plans hold tasks for threads
            self.traces.clear()
            self.tiers.forget()
            self.answers.forget()
            self.auto.forget()

    def _choose_backend(self, name: str) -> None:
        """Exchange the known programs for those of that backend; raises BackendUnavailable."""
        if is_device(name):
            self.backend(name)
        self.traces.exchange(self._backend_in_force, name)
        self._backend_in_force = name
        self.tiers.forget()
        self.answers.forget()

    @property
    def unguarded(self) -> str:
        """Why nothing may stay pending, so that NumPy computes everything; empty where it may."""
        return self.core.unguarded

    def tell_unguarded(self) -> None:
        """Whoever turns to npaccel hears that once in a process, unless he has set it so."""
        why = self.unguarded
        if why and self.config.guard != "off":
            self.telling.tell(f"npaccel's guard does not work here, so {UNGUARDED}: {why}")

    def _apply(self, changed: str) -> None:
        config = self.config
        self.traces.resize(config.trace_cache, config.trace_cache_bytes)
        self.kernels.resize(config.code_limit)
        self.core.tell(changed)

    @property
    def threads(self) -> int:
        """How many threads run kernels: the setting, or what affinity and quota allow."""
        return _native.threads()

    # Backends.

    def _backend_for(self, pending: Pending) -> str:
        """What the innermost `accelerate` block asks for, or the setting; `auto` follows the data.

        Part of the key.
        """
        named = self.backend_asked()
        return named if named != "auto" else pending.placement or named

    def _device(self, pending: Pending, name: str) -> Device | Several:
        """For what is to run there; if data decides that and lives on several, these."""
        first, homes = self.machines.device(name), pending.homes
        if self.backend_asked() != "auto" or len(set(homes.values())) < 2:
            return first
        return Several(first, {b: self.machines.device(home) for b, home in homes.items()})

    def backend_asked(self) -> str:
        """What the innermost `accelerate` block asks for, or the setting, wherever data lives."""
        return _native.block_backend() or str(self.config.backend)

    def backend(self, name: str) -> Backend:
        """Open the backend, once; raises BackendUnavailable."""
        return self.machines.backend(name)

    def device_failed(self) -> None:
        """What the C core calls after a run in which a launch on a device failed."""
        self.machines.note_failure()

    # What is stored on disk.

    def prepare(
        self, profile: StartupProfile, make_rules: Callable[[tuple[Any, ...], float], None]
    ) -> None:
        """Have ready what the last process with this command used.

        make_rules : from what `end` was told, until so many seconds are over.
        """
        _native.smaller(profile.smaller)
        if _native.prepare(profile.sizes, PREPARED_BYTES):
            system.at_fork(before=_native.prepare_end)
        make_rules(profile.rules, RULES_S)
        with self.alone(), suppress(BackendUnavailable):
            self.backend(HOST)  # loads what loads programs, before their time begins
            programs = (*profile.programs, *self.stored.done(profile.jobs))
            self.stored.prepare(programs, PREPARING_S, self._take_over)

    def end(self, rules: tuple[tuple[Any, ...], ...], *, linger: bool) -> None:
        """At the process's end: note what it used, for the next one. linger: and what that one will
        want code for, which the helper is left to compile."""
        folder, limit = self._cache()
        seconds = self.config.linger if linger and folder else 0.0
        jobs = self._unfinished() if seconds else []
        entry = self.disk.startup_profiles.keep(
            self.stored.used, _native.new_sizes(), rules, jobs, _native.smaller(False)
        )
        if entry and jobs and self._nobody_lingers():
            self.tiers.leave(Rest(entry, self.threads, folder, limit, seconds))
        self.disk.end()

    def _nobody_lingers(self) -> bool:
        store = self.disk.store()
        claim = store.claim(LINGERING) if store is not None else None
        if claim is not None:
            os.close(claim)  # it is the helper's to have
        return claim is not None

    def _unfinished(self) -> list[Kept]:
        def job(pending: Pending) -> Job | None:
            name = self.templates.name(pending)
            made = self._planned(pending) is not None or (name and self.templates.known(name))
            return None if made else self._job(0, pending, name)

        return self.tiers.unfinished(job)

    def estimates(self, info: PlanInfo, program: _native.Program | None) -> list[Estimate]:
        """What a run takes on each backend of which that is known."""
        return self.auto.estimates(info, program)
