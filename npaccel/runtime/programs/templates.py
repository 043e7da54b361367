"""Programs for any size: what planning came to, as plain data, into which a size's numbers are put.

A template comes from the helper, or from disk, and is filled by the core in some microseconds, with
neither a plan nor the planner in this process, and without Python but for the first time. A plan
that was made here is moved by the same numbers.
"""

from __future__ import annotations

import dataclasses
import marshal
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from cachetools import LRUCache

from npaccel import _native
from npaccel.backends.tasks import Tasks
from npaccel.caches.store import Store, digest
from npaccel.ir.limits import DEFAULT_LIMITS, worth_splitting
from npaccel.ir.scalar import item_size
from npaccel.later import later
from npaccel.runtime.programs.past_cache import (
    LINE_BYTES,
    ROW_BYTES,
    STREAM_BYTES,
    PastCache,
    fits_lines,
)
from npaccel.runtime.programs.program import Draft, Recipe, assemble
from npaccel.runtime.programs.trace import RuleText, rule_text
from npaccel.runtime.programs.wire_format import Step, add_kernel, pack_words

if TYPE_CHECKING:
    from npaccel.ir import nodes
    from npaccel.ir.passes import form
else:
    nodes = later("npaccel.ir.nodes")
    form = later("npaccel.ir.passes.form")

__all__ = [
    "Template",
    "Templates",
    "pack_template",
    "structure_of",
    "template_of",
    "unpack_template",
]

# Templates of one structure: which one fits depends on sizes.
VARIANTS = 4
_PLACE = struct.Struct("=3i")


class _Array(NamedTuple):
    """An argument of a kernel. offset, strides: places of numbers, which are in bytes."""

    buffer: int
    offset: int
    strides: tuple[int, ...]
    item: int
    read: bool
    written: bool
    may_stream: int


class _Step(NamedTuple):
    """A kernel's step. extents: per axis the places of the numbers whose product it is.

    gathered : bytes that are read by indices, per point.
    past : which arrays are stored past the cache; other sizes that want others need another kernel.
    same : as `packed.Step` has it.
    """

    may_be_split: bool
    extents: tuple[tuple[int, ...], ...]
    arrays: tuple[_Array, ...]
    past: tuple[int, ...]
    gathered: int
    tasks: Tasks
    same: tuple[tuple[int, ...], tuple[int, ...]]


class Template(NamedTuple):
    """A Program for all traces of one structure.

    Parameters
    ----------
    places : of the numbers, as `Pending.numbers` takes them; `constants` follow.
    ranges : places whose numbers' product, times lanes, lies in [low, high).
    steps : words of a request's, or a kernel's.
    kernels : keys of their code.
    rules : what the structure means.
    """

    places: bytes
    constants: tuple[int, ...]
    ranges: tuple[tuple[tuple[int, ...], int, int, int], ...]
    steps: tuple[tuple[Any, ...], ...]
    dropped: int
    kernels: tuple[str, ...]
    buffers: tuple[int, ...]
    rules: tuple[RuleText, ...]

    def _numbers(self, pending: _native.Pending) -> list[int] | None:
        """Those of requests whose structure it is for; None: it does not fit."""
        numbers = pending.numbers(self.places)
        numbers += self.constants
        for axes, lanes, low, high in self.ranges:
            if not low <= math.prod([numbers[axis] for axis in axes]) * lanes < high:
                return None
        return numbers

    def moved(self, planned: nodes.Plan, pending: _native.Pending) -> nodes.Plan | None:
        """The plan that it is of, for these requests; None: it does not fit."""
        numbers = self._numbers(pending)
        if numbers is None:
            return None
        steps: list[nodes.KernelStep | nodes.RequestStep] = []
        for step, made in zip(planned.steps, self.steps, strict=True):
            if isinstance(step, nodes.KernelStep) and isinstance(made, _Step):
                extents = _extents(made, numbers)
                if extents is None:
                    return None
                arrays = tuple([_binding(array, numbers) for array in made.arrays])
                steps.append(dataclasses.replace(step, extents=extents, arrays=arrays))
            else:
                steps.append(step)
        return dataclasses.replace(planned, steps=tuple(steps))

    def program(
        self, pending: _native.Pending, code: Sequence[Any], info: object, *, keep: bool = True
    ) -> _native.Program | None:
        """The Program of these requests, whose structure it is for; None: it does not fit.

        code : of the kernels. keep : the core makes those of other sizes by itself, from now on.
        """
        blank = Recipe(self._blank(), self.dropped, self.kernels, self.buffers)
        return assemble(blank, code, info).fill(pending, self._filling(), keep)

    def _blank(self) -> bytes:
        """The steps, without numbers."""
        words = [len(self.steps)]
        for step in self.steps:
            if not isinstance(step, _Step):
                words += step
                continue
            arrays: list[int] = []
            for array in step.arrays:
                arrays += (array.buffer, 0, *(0 for _ in array.strides))
            ones = [1] * len(step.extents)
            add_kernel(words, step.same, (1, 1, 1, 1, 0), (0, 0, 0, 0), ones, arrays)
        return pack_words(words)

    def _filling(self) -> bytes:
        """Where numbers go, as native/run/fill.c reads it."""
        limits = DEFAULT_LIMITS
        words = [limits.band_points, limits.inner_points, limits.column_points, limits.long_points]
        words += (LINE_BYTES, STREAM_BYTES, ROW_BYTES)
        places = struct.unpack(f"={len(self.places) // 4}i", self.places)
        words += (len(places) // 3, *places)
        words += (len(self.constants), *self.constants, len(self.ranges))
        for axes, lanes, low, high in self.ranges:
            words += (lanes, low, high, len(axes), *axes)
        words.append(len(self.steps))
        for step in self.steps:
            words += _words(step) if isinstance(step, _Step) else (0,)
        return struct.pack(f"={len(words)}q", *words)


def _extents(step: _Step, numbers: list[int]) -> tuple[int, ...] | None:
    extents = tuple([math.prod([numbers[i] for i in axes]) for axes in step.extents])
    tasks = step.tasks
    long = tasks.across > 0 or worth_splitting(extents, tasks.band_rank, DEFAULT_LIMITS)
    return extents if (step.may_be_split and long) is tasks.split else None


def _binding(array: _Array, numbers: list[int]) -> nodes.Binding:
    strides = tuple([numbers[axis] // array.item for axis in array.strides])
    return nodes.Binding(array.buffer, numbers[array.offset] // array.item, strides)


def _words(step: _Step) -> list[int]:
    """Of a step in a filling."""
    tasks = step.tasks.words()
    words = [1, step.may_be_split, step.gathered, len(step.extents), len(step.arrays)]
    words += (len(tasks), *tasks)
    for axes in step.extents:
        words += (len(axes), *axes)
    for place, (buffer, at, axes, *rest) in enumerate(step.arrays):
        words += (buffer, at, *rest, place in step.past, *axes)
    return words


def structure_of(pending: _native.Pending) -> bytes | None:
    """What the plan of these requests depends on, sizes aside; None: that is not known."""
    limits = DEFAULT_LIMITS
    return pending.structure(limits.band_points, limits.inner_points, limits.column_points)


class _Numbers:
    """Gives numbers their places; constants come behind them."""

    def __init__(self) -> None:
        self.known: dict[tuple[int, int, int], int] = {}
        self.constants: list[int] = []

    def extents(self, request: int, axes: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.place(request, -1, axis) for axis in axes)

    def place(self, request: int, operand: int, axis: int) -> int:
        return self.known.setdefault((request, operand, axis), len(self.known))


def _operand(request: nodes.Request, position: int | None) -> int:
    """The core's number of an operand: inputs, outputs, mask."""
    if position is None:
        return len(request.inputs) + len(request.outputs)
    return position if position >= 0 else len(request.inputs) - 1 - position


def template_of(
    trace: nodes.Trace,
    planned: nodes.Plan,
    made: Draft,
    rules: Sequence[RuleText],
) -> Template | None:
    """The template of a plan that was laid out as `made`, with the host's kernels; None: where its
    arrays lie is not known for other sizes, since some are read where they came from."""
    if not all(isinstance(s, nodes.RequestStep) or _reads_its_own(s, trace) for s in planned.steps):
        return None
    numbers, past = _Numbers(), PastCache(trace, planned, {})
    steps: list[tuple[Any, ...]] = []
    for step, laid_out in zip(planned.steps, made.steps, strict=True):
        if not isinstance(step, nodes.KernelStep) or not isinstance(laid_out, Step):
            steps.append((laid_out[0], len(laid_out[1]), *laid_out[1]))
            continue
        tasks = made.compiled[laid_out.kernel].tasks
        steps.append(_step(step, laid_out, trace, numbers, tasks, past.may(step)))
    ranges = tuple(
        (numbers.extents(bounds.request, bounds.extents), bounds.lanes, bounds.low, bounds.high)
        for bounds in planned.ranges
    )
    # Constants stand behind the numbers, however many those have become.
    count = len(numbers.known)
    steps = [_settle(step, count) if isinstance(step, _Step) else step for step in steps]
    return Template(
        b"".join([_PLACE.pack(*place) for place in numbers.known]),
        tuple(numbers.constants),
        ranges,
        tuple(steps),
        made.dropped,
        made.kernels,
        made.buffers,
        tuple(rules),
    )


def _reads_its_own(step: nodes.KernelStep, trace: nodes.Trace) -> bool:
    """Whether its arrays are where the operands are that they are said to be, as they are not where
    what a request reads is only shifted (`ir/passes/shifts.py`)."""
    for binding, source in zip(step.arrays, step.origin.arrays, strict=True):
        request = trace.requests[source.request]
        operands = *request.inputs, *request.outputs, request.mask
        view = operands[_operand(request, source.position)]
        place = binding.buffer, binding.offset, ()
        if not isinstance(view, nodes.View) or place != (view.buffer, view.offset, binding.wraps):
            return False
    return True


def _step(
    step: nodes.KernelStep,
    laid_out: Step,
    trace: nodes.Trace,
    numbers: _Numbers,
    tasks: Tasks,
    may_stream: Sequence[int],
) -> _Step:
    kernel, origin = step.kernel, step.origin
    arrays, past = [], []
    for place, (param, binding, source, may) in enumerate(
        zip(kernel.arrays, step.arrays, origin.arrays, may_stream, strict=True)
    ):
        item = item_size(param.dtype)
        operand = _operand(trace.requests[source.request], source.position)
        strides = []
        for axis, stride in zip(source.axes, binding.strides, strict=True):
            if axis is None:  # -1, -2 ...: constants, until it is known how many numbers there are
                numbers.constants.append(stride * item)
                strides.append(-len(numbers.constants))
            else:
                strides.append(numbers.place(source.request, operand, axis))
        if fits_lines(may, param, binding, step.extents):
            past.append(place)
        offset = numbers.place(source.request, operand, -1)
        read = param.read and not param.gathered
        arrays.append(
            _Array(binding.buffer, offset, tuple(strides), item, read, param.written, may)
        )
    return _Step(
        form.may_be_split(kernel.leaves, kernel.inner_rank),
        tuple(numbers.extents(origin.request, axes) for axes in origin.extents),
        tuple(arrays),
        tuple(past) if laid_out.sizes[3] > STREAM_BYTES else (),
        sum(item_size(param.dtype) for param in kernel.arrays if param.gathered),
        tasks,
        laid_out.same(),
    )


def _settle(step: _Step, count: int) -> _Step:
    def placed(axes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(axis if axis >= 0 else count - 1 - axis for axis in axes)

    arrays = tuple(array._replace(strides=placed(array.strides)) for array in step.arrays)
    return step._replace(arrays=arrays)


# ----------------------------------------------------------------------------------- kept as bytes


def pack_template(template: Template) -> bytes:
    """The bytes of a Template."""
    steps = tuple(map(_plain, template.steps))
    return marshal.dumps(tuple(template._replace(steps=steps, rules=_plain(template.rules))))


def _plain(value: Any) -> Any:
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


def unpack_template(packed: bytes) -> Template:
    """What `pack_template` packed."""
    found = Template(*marshal.loads(packed))
    steps = tuple(_kernel_step(*s) if isinstance(s[-1], tuple) else s for s in found.steps)
    return found._replace(steps=steps, rules=tuple(RuleText(*rule) for rule in found.rules))


def _kernel_step(*fields: Any) -> _Step:
    step = _Step(*fields)
    arrays = tuple(_Array(*array) for array in step.arrays)
    return step._replace(arrays=arrays, tasks=Tasks(*step.tasks))


@dataclass(slots=True, eq=False, repr=False)
class _Known:
    """plans: made here, each with its template. packed: one template more, as the helper sent it;
    stored: one more is on disk."""

    templates: list[Template]
    plans: list[tuple[Template, nodes.Plan]] = field(default_factory=list)
    packed: bytes | None = None
    stored: bool = False


class Templates:
    """Known templates by structure, in memory and on disk.

    Parameters
    ----------
    limit : structures that are kept in memory.
    store : the cache on disk as it is now; None: there is none.
    identity : what entries depend on besides the structure.
    """

    def __init__(
        self, limit: int, store: Callable[[], Store | None], identity: Callable[[], str]
    ) -> None:
        self._known: LRUCache[str, _Known] = LRUCache(limit)
        self._store = store
        self._identity = identity

    def name(self, pending: _native.Pending) -> str:
        """Of the structure of these requests; '' where they have none."""
        found = structure_of(pending)
        return "" if found is None else digest("template", self._identity(), found)

    def known(self, name: str) -> list[Template]:
        """Those in memory; the latest one is the first."""
        found = self._known.get(name)
        if found is None:
            return []
        if found.packed is not None:
            packed, found.packed = found.packed, None
            self.add(name, unpack_template(packed))
        if found.stored:
            found.stored = False
            self.load(name)
        return found.templates

    def moved(self, name: str, pending: _native.Pending) -> nodes.Plan | None:
        """The plan of these requests by one of others with this structure; None: none fits."""
        found = self._known.get(name)
        made = (template.moved(p, pending) for template, p in found.plans) if found else ()
        return next((plan for plan in made if plan is not None), None)

    def add_plan(self, name: str, template: Template, planned: nodes.Plan) -> None:
        """Keep a plan in memory."""
        known = self._known.setdefault(name, _Known([]))
        known.plans.insert(0, (template, planned))
        del known.plans[VARIANTS:]

    def load(self, name: str) -> bool:
        """Bring those on disk into memory; whether there are any."""
        store = self._store()
        entry = store.get(name) if store is not None and name else None
        return entry is not None and self.add(name, unpack_template(entry))

    def add(self, name: str, template: Template) -> bool:
        """Keep one in memory; False where its rules are not this process's."""
        rules = _native.rules()
        for text in template.rules:
            rule = rules.get(text.id)
            if rule is None or rule_text(rule) != text:
                return False
        known = self._known.setdefault(name, _Known([])).templates
        if template not in known:
            known.insert(0, template)
            del known[VARIANTS:]
        return True

    def add_packed(self, name: str, packed: bytes | None) -> None:
        """Keep one in memory, for when somebody asks; None: it is on disk."""
        known = self._known.setdefault(name, _Known([]))
        known.packed, known.stored = packed, packed is None

    def keep(self, name: str, template: Template) -> None:
        """Store one on disk, if there is a cache."""
        store = self._store()
        if store is not None:
            store.put(name, pack_template(template), tidy=False)

    def clear(self) -> None:
        """Forget those in memory."""
        self._known.clear()
