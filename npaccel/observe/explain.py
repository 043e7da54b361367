"""What ran, as which kernels, from which lines; what will run; and what NumPy did instead."""

from __future__ import annotations

import linecache
import math
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from npaccel import _native
from npaccel.ir.nodes import (
    ArrayParam,
    Binding,
    Kernel,
    KernelStep,
    Reduce,
    Request,
    Stride,
    Trace,
    View,
)
from npaccel.ir.scalar import item_size
from npaccel.ir.text import plan_text, trace_text
from npaccel.observe import graph, html, report
from npaccel.observe.found import Access, Fallback, Found, Home, Reduction, Step
from npaccel.observe.hindrances import Hindrance
from npaccel.observe.operations import Operation, asked, at, named
from npaccel.observe.ran import Ran, Tried, given_up, programs, tried
from npaccel.observe.words import count, short
from npaccel.runtime.devices.choice import HOST
from npaccel.runtime.engine.engine import Engine
from npaccel.runtime.programs.kernels import c_text
from npaccel.runtime.programs.program import PlanInfo, StepInfo

__all__ = [
    "Access",
    "Explanation",
    "Fallback",
    "Hindrance",
    "Home",
    "Operation",
    "Ran",
    "Reduction",
    "Step",
    "Tried",
    "explain",
]

# The C core's `history`.
REMEMBERED_RUNS = 16
READ_RAW = (
    "its memory was read directly, and no program was known yet, so NumPy's loops computed it"
)


# Program.missed
MISSED = {
    1: "there was no room for what it reads and writes",
    2: "a launch failed",
    3: "its result's memory was touched",
}
IN_PARTS, DIVIDED = 4, 5
# In pictures.
KERNEL, LOOP = "#2e9e5b", "#7a67c7"


@dataclass(frozen=True, repr=False)
class Explanation(Found):
    """What `npaccel.explain` found; `str()` is for reading, the attributes are for programs.

    Attributes
    ----------
    heading : one sentence on what this is about.
    run : number of the run, the first is 0; None when there is none to tell of.
    pending : it has not run yet; the steps are those that would run now.
    steps : in the order in which they run.
    dropped : operations that were never computed, since nothing could see their results.
    fused_away : how many temporary arrays never got any memory.
    plan_known : whether an earlier run of the same operations had been planned; None: no plan.
    fallbacks : since the start, or since ``npaccel.stats(reset=True)``; the most frequent first.
    ir : text of the recorded operations and of the plan; empty when there is no plan.
    estimates : what a run takes on each backend of which that is known, measured or predicted;
        of NumPy's loops only where measured.
    choice : why `auto` runs it there; empty where nothing has been decided.
    moved : bytes that moved to devices for the run, and from them.
    moving_s : seconds that this took, of both.
    unguarded : why nothing is recorded, so that NumPy computes everything; empty otherwise.
    brought_home : what came from devices to the host, whatever for; since when `fallbacks` are.
    hindrances : what kept lines of the program from gaining, the longest first; since when
        `fallbacks` are.
    no_helper : why kernels are compiled in this process, while their operations wait; empty where
        they are not.
    runs : all runs by what ran, the longest first; since when `fallbacks` are. Only where this is
        about the last run.
    tried : loops that were recorded and left to NumPy by turns, and which way is kept. Only where
        this is about the last run.
    svg : a picture of it: operations, which of them are fused, and the arrays between them.
    """

    def __str__(self) -> str:
        return report.text(self)

    @property
    def c(self) -> str:
        """The kernels as C, a file each, whatever compiled them."""
        return "\n".join(map(c_text, dict.fromkeys(self.kernels)))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """For notebooks."""
        return html.explanation(self)


Counts = Mapping[tuple[str, str, str], int]


def explain(
    x: Any,
    engine: Engine,
    fallen: Counts,
    homes: Counts,
    home_bytes: Mapping[Any, float],
    hindrances: Sequence[Hindrance] = (),
) -> Explanation:
    """Tell how `x` was or will be computed (None or a NumPy scalar: the last run).

    fallen : (function, reason, site) to number of calls that NumPy did.
    homes, home_bytes : (device, reason, site) to how often something came home, and how much.
    """
    rows = sorted(fallen.items(), key=lambda item: -item[1])
    fallbacks = tuple(Fallback(*key, times) for key, times in rows)
    moves = [Home(*key, times, int(home_bytes[key])) for key, times in homes.items()]
    moves.sort(key=lambda home: -home.bytes)
    found = _explain(x, engine, fallbacks)
    return replace(
        found,
        brought_home=tuple(moves),
        hindrances=tuple(hindrances),
        unguarded=engine.unguarded,
        no_helper=engine.tiers.broken,
    )


def _explain(x: Any, engine: Engine, fallbacks: tuple[Fallback, ...]) -> Explanation:
    if isinstance(x, _native.Macro):
        return _section(x, fallbacks)
    if x is None or isinstance(x, np.generic):
        return replace(_last_run(fallbacks, engine), runs=programs(), tried=tried())
    if not isinstance(x, np.ndarray):
        raise TypeError(f"explain takes an array or nothing, not {type(x).__name__}")
    if _native.is_pending(x):
        place = _native.place_of([x])
        if place in _native.clusters():
            waiting = count(len(_native.pending()), "operation")
            heading = f"Not computed yet: {waiting} pending, to run on {place.name}."
            return Explanation(heading, fallbacks, pending=True)
        return _pending(engine, fallbacks)
    run, following = _native.serial(x), _native.serial(None)
    if run is None or following is None or run > following:
        return Explanation("The memory of this array was not computed by npaccel.", fallbacks)
    return _run(run, fallbacks, engine)


# -------------------------------------------------------------------------------------- which run


def _section(macro: _native.Macro, fallbacks: tuple[Fallback, ...]) -> Explanation:
    """The latest variant of a macro section, and why bodies ran."""
    counts = macro.stats()
    reasons = "; ".join(counts["reasons"])
    bodies = f"; {count(counts['bodies'], 'body')} run ({reasons})" if reasons else ""
    heading = (
        f"Macro section {macro._section.where}: {count(counts['variants'], 'variant')}, "
        f"{count(counts['replays'], 'replay')}{bodies}"
    )
    variants = macro._section.variants
    if not variants:
        return Explanation(f"{heading}.", fallbacks)
    sites = [(code, lasti) for _, code, lasti in variants[0].section.sites()]
    heading += f". The latest variant: {count(len(sites), 'operation')} in"
    info = variants[0].program.info
    if isinstance(info, str):
        return Explanation(f"{heading} NumPy's loops: {info}.", fallbacks)
    return _planned(info.plan_info(), sites, heading, fallbacks, None, pending=True)


def _last_run(fallbacks: tuple[Fallback, ...], engine: Engine) -> Explanation:
    following = _native.serial(None) or 0
    if following == 0:
        waiting = len(_native.pending())
        more = f" {waiting} operations are pending." if waiting else ""
        return Explanation(f"Nothing has run yet.{more}", fallbacks)
    return _run(following - 1, fallbacks, engine)


def _pending(engine: Engine, fallbacks: tuple[Fallback, ...]) -> Explanation:
    pending = _native.pending()
    heading = f"Not computed yet: {count(len(pending), 'operation')} pending, to run as"
    info = engine.preview(pending)
    found = _planned(info, pending.sites, heading, fallbacks, pending.serial, pending=True)
    return replace(found, estimates=tuple(engine.estimates(info, None)))


def _run(number: int, fallbacks: tuple[Fallback, ...], engine: Engine) -> Explanation:
    found = _native.history(number)
    if found is None:
        text = f"Computed by run {number}, of which nothing is known any more"
        text += f" (the last {REMEMBERED_RUNS} are remembered)."
        return Explanation(text, fallbacks, run=number)
    _, program, sites, moved, there, run_there = found
    heading = f"Run {number}: {count(len(sites), 'operation')} in"
    if there is not None:
        step = Step("", there.name, asked(sites, _native.rules()), reason=_told(there, run_there))
        heading = f"Run {number}: {count(len(sites), 'operation')}"
        told = Explanation(heading, fallbacks, run=number, steps=(step,))
        return replace(told, moved=moved[:2], moving_s=moved[2:])
    reason = READ_RAW if program is None else _why_single(program)
    if program is not None and not reason:
        places = [(code, lasti) for _, code, lasti in sites]
        info = program.info.plan_info()
        told = _planned(info, places, heading, fallbacks, number)
        estimates = tuple(engine.estimates(info, program))
        choice = engine.auto.reason(program)
        steps = _missed(told, program)
        return replace(
            told,
            steps=steps,
            estimates=estimates,
            choice=choice,
            moved=moved[:2],
            moving_s=moved[2:],
        )
    own = asked(sites, _native.rules())
    steps = tuple(Step("", "numpy", (one,), reason=reason) for one in own)
    return Explanation(
        heading,
        fallbacks,
        run=number,
        steps=steps,
        links=tuple(graph.Operation(one.name, _where(one), 0) for one in own),
        together=tuple(_together((i,), "", "numpy") for i in range(len(own))),
    )


def _told(there: _native.DeviceMemory, run: int) -> str:
    """The plan of a run, as the process that drives the cluster has it."""
    try:
        status, body = there.call(pickle.dumps(("told", run)))
    except ConnectionError as error:
        return str(error)
    return str(pickle.loads(body)) if status == 0 else body.decode()


def _missed(told: Explanation, program: _native.Program) -> tuple[Step, ...]:
    """The steps, those that the host did instead of a device with the reason."""
    return tuple(_ran(step, *how) for step, how in zip(told.steps, program.missed, strict=True))


def _ran(
    step: Step, why: int, share: float, trial: tuple[float, float, bool] | None = None
) -> Step:
    tried = ""
    if trial is not None:
        alone, both, _ = (f"{1e3 * seconds:.3g}" for seconds in trial)
        tried = f"tried: the device alone {alone} ms, with the host {both} ms"
    if why == DIVIDED:
        text = f"divided: {share:.0%} of it there, the rest by the host"
        return step._replace(reason=f"{text}; {tried}" if tried else text)
    if not why and tried:
        return step._replace(reason=f"not divided; {tried}")
    if why == IN_PARTS:
        return step._replace(reason="there was no room for all that it uses: it ran in parts")
    if why:
        reason = f"{step.backend}: {MISSED[why]}; the host did it"
        return step._replace(backend=HOST, reason=reason)
    return step


def _why_single(program: _native.Program) -> str:
    """Why a Program runs its requests one by one; '' if it does not."""
    if isinstance(program.info, str):
        return program.info
    if not program.single or not any(step.kernel for step in program.info.plan_info().steps):
        return ""  # the steps say why
    return given_up(program)


def _planned(
    info: PlanInfo,
    sites: Sequence[tuple[Any, int]],
    heading: str,
    fallbacks: tuple[Fallback, ...],
    run: int | None,
    *,
    pending: bool = False,
) -> Explanation:
    operations = [
        at(_operation(request), *site)
        for request, site in zip(info.trace.requests, sites, strict=False)
    ]
    steps = zip(info.steps, info.plan.steps, strict=True)
    return Explanation(
        heading,
        fallbacks,
        run=run,
        pending=pending,
        steps=tuple(
            _kernel_step(about, about.kernel, step, operations)
            if isinstance(step, KernelStep) and about.kernel is not None
            else _request_step(about, info.trace, operations)
            for about, step in steps
        ),
        dropped=tuple(operations[index] for index in info.plan.dropped),
        links=tuple(_linked(info.trace, operations)),
        together=tuple(
            _together(about.requests, about.kernel.name if about.kernel else "", about.backend)
            for about in info.steps
        ),
        fused_away=_fused_away(info),
        plan_known=None if pending else run != info.first_flush,
        ir=trace_text(info.trace) + "\n" + plan_text(info.plan),
        kernels=tuple(about.kernel for about in info.steps if about.kernel is not None),
    )


# ------------------------------------------------------------------------------- parts of a plan


def _operation(request: Request) -> Operation:
    name = named(request.op, request.kind, request.loop)
    return Operation(name, request.loop, len(request.loop) - len(request.outputs))


def _linked(trace: Trace, operations: Sequence[Operation]) -> Iterator[graph.Operation]:
    """For a picture: who wrote what each of them reads."""
    writers: dict[int, int] = {}
    for request, operation in zip(trace.requests, operations, strict=False):
        read = [view.buffer for view in request.inputs if isinstance(view, View)]
        size = sum(item_size(view.dtype) for view in request.outputs)
        links = tuple(writers.get(buffer, -1) for buffer in read)
        written = float(size * math.prod(request.shape))
        yield graph.Operation(operation.name, _where(operation), written, links)
        writers.update((view.buffer, request.index) for view in request.outputs)


def _where(operation: Operation) -> str:
    if not operation.line:
        return ""
    source = linecache.getline(operation.file, operation.line).strip()
    return f"{short(operation.file, 24)}:{operation.line} {source}"


def _together(requests: Sequence[int], kernel: str, backend: str) -> graph.Together:
    if kernel:
        return graph.Together(f"kernel {kernel} ({backend})", KERNEL, tuple(requests))
    return graph.Together("NumPy's loop", LOOP, tuple(requests))


def _request_step(about: StepInfo, trace: Trace, operations: Sequence[Operation]) -> Step:
    (index,) = about.requests
    request = trace.requests[index]
    return Step(
        "",
        about.backend,
        (operations[index],),
        inner=request.shape,
        bytes_read=about.bytes_read,
        bytes_written=about.bytes_written,
        reason=about.reason,
    )


def _kernel_step(
    about: StepInfo, kernel: Kernel, step: KernelStep, operations: Sequence[Operation]
) -> Step:
    pairs = list(zip(kernel.arrays, step.arrays, strict=True))
    effects = [effect for leaf in kernel.leaves for effect in leaf.effects]
    return Step(
        kernel.name,
        about.backend,
        tuple(operations[index] for index in about.requests),
        band=about.extents[: kernel.band_rank],
        inner=about.extents[kernel.band_rank :],
        loads=tuple(_access(param, place) for param, place in pairs if param.read),
        stores=tuple(_access(param, place) for param, place in pairs if param.written),
        reductions=tuple(
            Reduction(effect.fold.value, effect.value.dtype)
            for effect in effects
            if isinstance(effect, Reduce)
        ),
        scratch=kernel.scratch,
        bytes_read=about.bytes_read,
        bytes_written=about.bytes_written,
        reason=about.reason,
    )


_HOW = {
    Stride.UNIT: "contiguous",
    Stride.BACK: "reversed",
    Stride.ANY: "strided",
    Stride.ACROSS: "across",
    Stride.ZERO: "repeated",
}


def _access(param: ArrayParam, place: Binding) -> Access:
    how = _HOW[param.vector]
    how = "streamed" if param.nontemporal else "shifted" if place.wraps else how
    return Access(place.buffer, param.dtype, how)


def _fused_away(info: PlanInfo) -> int:
    """Buffers that the operations which were computed would have filled, had they run alone."""
    kept = set(info.plan.buffers)
    dropped = set(info.plan.dropped)
    written = Counter(
        view.buffer
        for request in info.trace.requests
        if request.index not in dropped
        for view in request.outputs
    )
    return sum(info.trace.buffers[buffer].fresh and buffer not in kept for buffer in written)
