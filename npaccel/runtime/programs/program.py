"""From a Plan to the native Program: kernels compiled, arguments laid out, tasks cut."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, cast

from npaccel import _native
from npaccel.backends.layout import CHUNK, reductions_of
from npaccel.backends.registry import HOST
from npaccel.errors import CompileError
from npaccel.ir.scalar import Core, item_size, topological
from npaccel.later import later
from npaccel.runtime.programs.past_cache import LINE_BYTES, PastCache, Streams
from npaccel.runtime.programs.smaller import Rejected
from npaccel.runtime.programs.wire_format import (
    ACROSS,
    LOADED,
    WRITTEN,
    Elsewhere,
    Packed,
    Step,
    pack_code,
    pack_steps,
)

if TYPE_CHECKING:
    from npaccel.ir import nodes, text
else:
    text = later("npaccel.ir.text")
    nodes = later("npaccel.ir.nodes")

__all__ = [
    "Built",
    "Information",
    "PlanInfo",
    "Recipe",
    "StepInfo",
    "accesses",
    "assemble",
    "build",
    "describe",
    "draft",
    "one_by_one",
    "single_requests",
    "traffic",
]


class StepInfo(NamedTuple):
    """What explain() says of a step. `kernel` None: one request by NumPy's loop, with `reason`."""

    requests: tuple[int, ...]
    kernel: nodes.Kernel | None
    extents: tuple[int, ...]
    bytes_read: int
    bytes_written: int
    backend: str
    reason: str = ""


class PlanInfo(NamedTuple):
    """What a Program remembers of its plan.

    steps : one per step of `plan`.
    first_flush : number of the flush that it was planned for; later ones found it known.
    """

    trace: nodes.Trace
    plan: nodes.Plan
    steps: tuple[StepInfo, ...]
    first_flush: int

    def plan_info(self) -> PlanInfo:
        return self

    def plain(self) -> dict[str, list[list[Any]]]:
        """For a profile: of each step its requests, kernel, backend, and bytes."""
        steps = [
            [list(s.requests), s.kernel.name if s.kernel is not None else "", s.backend,
             s.bytes_read, s.bytes_written]
            for s in self.steps
        ]  # fmt: skip
        return {"steps": steps}


class Recipe(NamedTuple):
    """A Program but for the addresses of its code: plain data, for another process or the disk.

    steps : as wire_format.py writes them.
    kernels : keys of their code.
    buffers : those that need memory.
    """

    steps: bytes
    dropped: int
    kernels: tuple[str, ...]
    buffers: tuple[int, ...]


class Draft(NamedTuple):
    """What a recipe is made of.

    compiled : of the kernels; behind those, of what another backend runs on the host; devices : of
    what runs elsewhere. infos : per step, for explain().
    """

    steps: list[Packed]
    dropped: int
    kernels: tuple[str, ...]
    buffers: tuple[int, ...]
    compiled: list[Any]
    infos: list[StepInfo]
    devices: Sequence[Any] = ()

    def recipe(self) -> Recipe:
        """The plain data."""
        return Recipe(pack_steps(self.steps), self.dropped, self.kernels, self.buffers)


class Information(Protocol):
    """What a Program remembers of its plan, perhaps only how to make it again."""

    def plan_info(self) -> PlanInfo: ...
    def plain(self) -> object: ...


# A view as buffer, offset and strides in bytes, and the size of an element.
Touch = tuple[int, int, tuple[int, ...], int]
# Returns the key of a kernel and what is compiled of it.
Compile: TypeAlias = "Callable[[nodes.Kernel], tuple[str, Any]]"


class Place(Protocol):
    """A backend other than the host's own, which kernels may run with.

    owner : its number among those whose launches the core counts.
    """

    @property
    def owner(self) -> int: ...
    def place(self, kernel: nodes.Kernel, info: StepInfo) -> tuple[Any, str]:
        """What it has compiled of a kernel and its name; or None and why it has not."""

    def of_step(self, reads: Sequence[int], writes: Sequence[int]) -> Place:
        """That for the next step, which uses these buffers: itself, or one of several."""


# What was laid out, and the Program that the C core runs.
Built = tuple[Draft, _native.Program]


def build(
    trace: nodes.Trace,
    plan: nodes.Plan,
    compile_kernel: Compile,
    threads: int,
    streams: Streams,
    place: Place | None = None,
    first_flush: int = 0,
) -> Built:
    """Compile what the plan needs and return the Program that the C core runs; before it what it
    was made of for the host.

    Parameters
    ----------
    streams : kernels whose stores bypass the cache, kept between calls.
    compile_kernel : returns what is compiled for a kernel (cached by the caller).
    threads : how many threads the tasks of a kernel should keep busy.
    first_flush : as PlanInfo has it.

    Raises
    ------
    Rejected : kernels were; all others are compiled.
    """
    made = draft(trace, plan, compile_kernel, threads, streams)
    placed = made if place is None else _placed(made, place, trace, plan, threads)
    info = PlanInfo(trace, plan, tuple(placed.infos), first_flush)
    return made, assemble(placed.recipe(), placed.compiled, info, placed.devices)


def _placed(made: Draft, place: Place, trace: nodes.Trace, plan: nodes.Plan, threads: int) -> Draft:
    """The same steps, those that `place` takes with its code.

    On a device, and the host's code if that fails; or code of its own for the host.
    """
    steps, code, told = list(made.steps), list(made.compiled), list(made.infos)
    devices: list[Any] = []
    releases = _releases(trace, plan)
    rejected: list[tuple[tuple[int, ...], str]] = []
    for number, (step, info) in enumerate(zip(plan.steps, made.infos, strict=True)):
        laid_out = steps[number]
        if (
            info.kernel is None
            or not isinstance(step, nodes.KernelStep)
            or not isinstance(laid_out, Step)
            or laid_out.wraps
        ):
            continue
        try:
            here = place.of_step(*_used(step))
            found, name_or_reason = here.place(step.kernel, info)
        except CompileError as error:
            rejected.append((step.requests, str(error)))
            continue
        if found is None:
            told[number] = info._replace(reason=name_or_reason)
            continue
        launcher = getattr(found, "launcher", None)
        if launcher is not None:
            grid = found.task_grid(step.extents, 1)
            scratch = found.scratch_bytes(step.extents)
            steps_there, cuts = (grid.band_step, grid.inner_step), may_cut(step.kernel)
            last = len(devices)
            there = Elsewhere(here.owner, last, steps_there, scratch, accesses(step), cuts)
            devices.append(found)
        else:
            there = Elsewhere(here.owner)
            laid_out = _kernel_step(len(code), step, info, releases[number], found, threads)
            code.append(found)
        steps[number] = laid_out._replace(elsewhere=there)
        told[number] = info._replace(backend=name_or_reason)
    if rejected:
        raise Rejected(rejected)
    return made._replace(steps=steps, compiled=code, infos=told, devices=devices)


def draft(
    trace: nodes.Trace, plan: nodes.Plan, compile_kernel: Compile, threads: int, streams: Streams
) -> Draft:
    """Lay out the steps.

    Raises
    ------
    Rejected : kernels were; all others are compiled.
    """
    rejected: list[tuple[tuple[int, ...], str]] = []
    steps: list[Packed] = []
    infos: list[StepInfo] = []
    found: dict[str, Any] = {}
    past = PastCache(trace, plan, streams)
    for step, releases in zip(plan.steps, _releases(trace, plan), strict=True):
        if isinstance(step, nodes.RequestStep):
            steps.append((step.request, releases))
            infos.append(_request_info(trace, step))
            continue
        info = _kernel_info(step, past)
        assert info.kernel is not None
        try:
            key, compiled = compile_kernel(info.kernel)
        except CompileError as error:
            rejected.append((step.requests, str(error)))
            continue
        place = list(found).index(key) if key in found else len(found)
        found[key] = compiled
        steps.append(_kernel_step(place, step, info, releases, compiled, threads))
        infos.append(info)
    if rejected:
        raise Rejected(rejected)
    compiled_all = list(found.values())
    return Draft(steps, len(plan.dropped), tuple(found), plan.buffers, compiled_all, infos)


def assemble(
    recipe: Recipe, code: Sequence[Any], info: object, devices: Sequence[Any] = ()
) -> _native.Program:
    """Return the Program of `recipe`, with what has the addresses of its kernels' code."""
    keep, launchers = [*code, *devices], tuple([one.launcher for one in devices])
    return _native.Program(recipe.steps, recipe.dropped, keep, info, pack_code(code), launchers)


def one_by_one(trace: nodes.Trace, reason: str, first_flush: int = 0) -> _native.Program:
    """Return a Program that runs each request by itself with NumPy's inner loop."""
    plan = single_requests(trace, reason)
    releases = _releases(trace, plan)
    steps = [(request.index, done) for request, done in zip(trace.requests, releases, strict=True)]
    return _native.Program(pack_steps(steps), 0, None, describe(trace, plan, first_flush))


def _releases(trace: nodes.Trace, plan: nodes.Plan) -> list[list[int]]:
    """Per step the dead buffers that no later step uses: their memory serves the next ones."""
    last: dict[int, int] = {}
    for number, step in enumerate(plan.steps):
        used: list[int] = []
        if isinstance(step, nodes.KernelStep):
            used = [binding.buffer for binding in step.arrays]
        else:
            request = trace.requests[step.request]
            views = (*request.inputs, *request.outputs, request.mask)
            used = [view.buffer for view in views if isinstance(view, nodes.View)]
        last.update(dict.fromkeys(used, number))
    releases: list[list[int]] = [[] for _ in plan.steps]
    for buffer, number in last.items():
        if trace.buffers[buffer].dead:
            releases[number].append(buffer)
    return releases


def single_requests(trace: nodes.Trace, reason: str) -> nodes.Plan:
    """Return the plan in which nothing is fused."""
    return nodes.Plan(
        steps=tuple(nodes.RequestStep(request.index, reason) for request in trace.requests),
        buffers=tuple(buffer.index for buffer in trace.buffers),
    )


def describe(
    trace: nodes.Trace, plan: nodes.Plan, first_flush: int = 0, backend: str = HOST
) -> PlanInfo:
    """Return what `build` would note of `plan`, compiling nothing; `backend` is to run kernels."""
    past = PastCache(trace, plan, {})
    steps = tuple(
        _request_info(trace, step)
        if isinstance(step, nodes.RequestStep)
        else _kernel_info(step, past)._replace(backend=backend)
        for step in plan.steps
    )
    return PlanInfo(trace, plan, steps, first_flush)


def _request_info(trace: nodes.Trace, step: nodes.RequestStep) -> StepInfo:
    request = trace.requests[step.request]
    inputs = [view for view in request.inputs if isinstance(view, nodes.View)]
    read, written = _touched(inputs, request.shape), _touched(request.outputs, request.shape)
    return StepInfo((step.request,), None, request.shape, read, written, "numpy", step.reason)


def _kernel_info(step: nodes.KernelStep, past: PastCache) -> StepInfo:
    read, written = traffic(step)
    kernel = past.kernel(step, written)
    return StepInfo(step.requests, kernel, step.extents, read, written, HOST)


def _kernel_step(
    place: int,
    step: nodes.KernelStep,
    info: StepInfo,
    releases: list[int],
    compiled: Any,
    threads: int,
) -> Step:
    kernel = compiled.kernel
    arrays: list[int] = []
    for param, binding in zip(kernel.arrays, step.arrays, strict=True):
        size = item_size(param.dtype)
        arrays += (binding.buffer, binding.offset * size)
        arrays += [stride * size for stride in binding.strides]
    parts = compiled.parts(step.extents)
    grid = compiled.task_grid(step.extents, threads)
    writes = {b.buffer for p, b in zip(kernel.arrays, step.arrays, strict=True) if p.written}
    return Step(
        place,
        (grid.n_band, grid.band_step, grid.n_inner, grid.inner_step, parts),
        (
            compiled.scratch_bytes(step.extents),
            compiled.partial_bytes(step.extents),
            info.bytes_read,
            info.bytes_written,
        ),
        step.extents,
        arrays,
        len(step.requests),
        [number for pair in step.scalars for number in pair],
        step.slots,
        sorted(writes),
        releases,
        wraps=_wraps(step),
        uses=_uses(kernel, not kernel.vector_band and compiled.tasks.group == 1),
    )


def _uses(kernel: nodes.Kernel, by_rows: bool) -> list[int]:
    """As `Step` has them."""
    effects = [effect for leaf in kernel.leaves for effect in leaf.effects]
    if any(param.gathered for param in kernel.arrays) or any(
        isinstance(effect, nodes.Store) and effect.offset is not None for effect in effects
    ):
        return []
    masked = {e.array for e in effects if isinstance(e, nodes.Store) and e.mask is not None}
    return [
        8 * item_size(param.dtype)
        + WRITTEN * param.written
        + LOADED * (param.read or place in masked)
        + ACROSS * (by_rows and param.lies_across)
        for place, param in enumerate(kernel.arrays)
    ]


def _wraps(step: nodes.KernelStep) -> list[int]:
    words = []
    for place, (param, binding) in enumerate(zip(step.kernel.arrays, step.arrays, strict=True)):
        for wrap in binding.wraps:
            words += [place, wrap.axis, wrap.cut, wrap.step * item_size(param.dtype)]
    return [step.kernel.band_rank, *words] if words else words


def _touched(views: Iterable[nodes.View], extents: tuple[int, ...]) -> int:
    """As touched_bytes, of views in elements."""
    shown = set()
    for view in views:
        size = item_size(view.dtype)
        strides = tuple(stride * size for stride in view.strides)
        shown.add((view.buffer, view.offset * size, strides, size))
    return touched_bytes(shown, extents)


def touched_bytes(shown: set[Touch], extents: tuple[int, ...]) -> int:
    """Bytes that these show, what several of them show counted once.

    Exact for one view and for equal ones; else at most what lies between the first and last.
    """
    if len(shown) == 1:
        ((_, _, strides, size),) = shown
        return size * math.prod([n for n, step in zip(extents, strides, strict=True) if step])
    buffers: dict[int, list[tuple[int, int, int]]] = {}
    for buffer, offset, strides, size in shown:
        ways = [(n, s) for n, s in zip(extents, strides, strict=True) if s]
        reaches = [s * (n - 1) for n, s in ways]
        low = offset + sum([reach for reach in reaches if reach < 0])
        high = offset + sum([reach for reach in reaches if reach > 0]) + size
        amount = size * math.prod([n for n, _ in ways])
        buffers.setdefault(buffer, []).append((low, high, amount))
    return sum(
        min(max(high for _, high, _ in spans) - min(low for low, _, _ in spans), total)
        for spans in buffers.values()
        for total in [sum(amount for _, _, amount in spans)]
    )


def _used(step: nodes.KernelStep) -> tuple[list[int], list[int]]:
    """The buffers that it reads, and writes."""
    arrays = list(zip(step.kernel.arrays, step.arrays, strict=True))
    read = [place.buffer for param, place in arrays if param.read]
    return read, [place.buffer for param, place in arrays if param.written]


def accesses(step: nodes.KernelStep) -> list[tuple[int, bool, bool, bool, int, int]]:
    """Per array its buffer, whether it is read, and written, whether that is in the kernel's loops,
    and from where to where it lies.

    What is not in loops is used by the finish function alone. Of what is gathered its end is not
    known: -1.
    """
    accesses = []
    looped = _looped(step.kernel)
    for at, (param, place) in enumerate(zip(step.kernel.arrays, step.arrays, strict=True)):
        size = item_size(param.dtype)
        reaches = [s * (n - 1) for n, s in zip(step.extents, place.strides, strict=True)]
        low = place.offset + sum(reach for reach in reaches if reach < 0)
        high = place.offset + sum(reach for reach in reaches if reach > 0) + 1
        span = low * size, high * size
        if param.gathered:
            span = 0, -1
        elif 0 in step.extents:
            span = 0, 0
        accesses.append((place.buffer, param.read, param.written, at in looped, *span))
    return accesses


def _looped(kernel: nodes.Kernel) -> set[int]:
    """Arrays that the kernel uses before its finish function, if it has one."""
    leaves = kernel.leaves[:1] if kernel.split else kernel.leaves
    found: set[int] = set()
    for leaf in leaves:
        used = topological(leaf.all_roots)
        found |= {cast(int, n.attr) for n in used if n.op in (Core.LOAD, Core.GATHER)}
        found |= {effect.array for effect in leaf.effects if isinstance(effect, nodes.Store)}
    return found


def may_cut(kernel: nodes.Kernel) -> tuple[int, int, int]:
    """How a kernel's domain may be cut into parts that are computed one by one.

    The band's axes, of which there are so many; inner ones, from the first on; and of what one of
    those is cut into multiples. Where sums are split these are what leaves a partial result.
    """
    if not kernel.split:
        return kernel.band_rank, 0, 1
    if kernel.inner_rank > 1:
        return kernel.band_rank, kernel.inner_rank - 1, 1
    return kernel.band_rank, 1, CHUNK if reductions_of(kernel) else LINE_BYTES


def _lowest(place: nodes.Binding) -> int:
    """Where an array would begin if it went around no axis."""
    return place.offset + sum(min(0, w.cut * place.strides[w.axis] + w.step) for w in place.wraps)


def traffic(step: nodes.KernelStep) -> tuple[int, int]:
    """Bytes read and written."""
    views = [
        (param, nodes.View(place.buffer, param.dtype, _lowest(place), place.strides))
        for param, place in zip(step.kernel.arrays, step.arrays, strict=True)
    ]
    loaded = (view for param, view in views if param.read and not param.gathered)
    read = _touched(loaded, step.extents)
    # Of what is gathered as many elements as there are indices; which ones is not known.
    points = math.prod(step.extents)
    read += sum(points * item_size(p.dtype) for p, _ in views if p.gathered)
    return read, _touched((view for param, view in views if param.written), step.extents)
