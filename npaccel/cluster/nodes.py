"""A node: memory of its own, and what it does with its part of a plan.

Each buffer has its whole address space on every node, of which a node touches what it owns and what
it was sent; pages that nobody touches are no memory. So a view is the same view everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np

from npaccel.cluster import folding
from npaccel.cluster.boxes import Box, extents
from npaccel.cluster.fold_requests import Piece, partial_results, pieces_of
from npaccel.cluster.folding import Partial
from npaccel.cluster.placing import Layout
from npaccel.cluster.plans import (
    FoldEnd,
    FoldJoin,
    FoldPart,
    Keep,
    PartialSums,
    Ramp,
    Run,
    Transfer,
    Work,
    restricted,
)
from npaccel.ir.nodes import (
    BufferInfo,
    KernelStep,
    Plan,
    Request,
    ScalarOperand,
    Trace,
    View,
)
from npaccel.ir.passes import plan
from npaccel.ir.reference.kernels import run_kernel
from npaccel.ir.reference.requests import kept, run_request, show
from npaccel.runtime.checking.splitting import Launch, launch_step
from npaccel.runtime.programs.past_cache import PastCache
from npaccel.runtime.programs.program import traffic

__all__ = ["Message", "Node", "interpret", "new_memory", "shown", "with_values"]

Array = np.ndarray[Any, Any]


PAGE: Final = 4096
NOTHING: Final[Mapping[int, int]] = MappingProxyType({})


class Message(NamedTuple):
    """All that one node sends another in a stage: boxes of buffers, and partial results."""

    boxes: list[tuple[int, Box, Array]]
    partials: list[tuple[int, Partial]]

    @property
    def size_bytes(self) -> int:
        sums = sum(partial.values.nbytes for _, partial in self.partials)
        return sum(content.nbytes for _, _, content in self.boxes) + sums


def interpret(step: KernelStep, arrays: list[Array], scalars: list[Any]) -> list[int]:
    """Launch a kernel by the reference: slow, and with the bits of what is compiled of it."""
    return run_kernel(step.kernel, step.extents, arrays, scalars)


def new_memory(size: int) -> Array:
    """So many bytes, that begin with a page."""
    found: Array = np.empty(size + PAGE, "u1")
    first = -found.ctypes.data % PAGE
    return found[first : first + size]


def shown(memory: Array, layout: Layout, box: Box) -> Array:
    """A box of what lies in these bytes; a view."""
    item = np.dtype(f"V{layout.item}")
    whole: Array = np.ndarray(layout.shape, item, memory, layout.offset, layout.strides)
    where: Any = (*(slice(p.start, p.stop, p.step) for p in box), ...)
    found: Array = whole[where]
    return found


class _Fold(NamedTuple):
    """A part of a reduction that runs with others, and the memory of what its pieces make."""

    part: FoldPart
    pieces: list[tuple[int, Piece]]


class _Group(NamedTuple):
    """Parts of a stage that run together as a program; or one that does not."""

    requests: list[Request]
    folds: list[_Fold]
    alone: Work | None = None


class _Planned(NamedTuple):
    """Requests of a stage that are one program, and its plan."""

    trace: Trace
    plan: Plan


def with_values(request: Request, values: Mapping[tuple[int, int], Any]) -> Request:
    """The request with other values of scalars, by (request, position)."""
    inputs = tuple(
        replace(one, value=values[request.index, place])
        if isinstance(one, ScalarOperand) and (request.index, place) in values
        else one
        for place, one in enumerate(request.inputs)
    )
    return replace(request, inputs=inputs)


def _holds(planned: _Planned, trace: Trace) -> bool:
    """Whether a plan made for other values of scalars is one for these."""
    return all(
        repr(planned.trace.requests[request].inputs[place])
        == repr(trace.requests[request].inputs[place])
        for request, place in planned.plan.consumed
    )


class Node:
    """One of a cluster's.

    Parameters
    ----------
    number : its own
    buffers : of the trace; layouts : of each
    launch : what runs kernels here
    uses : of each buffer that nobody sees in the end, how many requests use it (`ClusterPlan.uses`)

    Attributes
    ----------
    memory : per buffer its bytes; a run may be given others.
    values : of scalars that have changed since the plan was made, by (request, position).
    raised : per request the kinds of floating-point warnings since the run began.
    """

    def __init__(
        self,
        number: int,
        buffers: Sequence[BufferInfo],
        layouts: Mapping[int, Layout],
        launch: Launch = interpret,
        uses: Mapping[int, int] = NOTHING,
    ) -> None:
        self.number, self.layouts = number, layouts
        self._uses = uses
        self._launch = launch
        self._buffers = tuple(
            replace(info, fresh=False, dead=False, owned=True) for info in buffers
        )
        self.memory = {info.index: new_memory(info.size_bytes) for info in buffers}
        self.values: Mapping[tuple[int, int], Any] = {}
        self.raised: dict[int, int] = {}
        self._made: dict[tuple[int, int, Box], list[Partial]] = {}  # by request and level
        self._arrived: dict[int, list[Partial]] = {}
        self._requests: dict[int, Request] = {}
        self._first: dict[tuple[int, int], Trace] = {}  # as recorded, by stage and place
        self._plans: dict[tuple[int, int], _Planned] = {}
        self._grouped: dict[int, list[_Group]] = {}

    def begin(self) -> None:
        """A run begins: nothing is left of an earlier one."""
        self._made.clear()
        self._arrived.clear()
        self.raised = {}

    def at(self, buffer: int, box: Box) -> Array:
        """A box of a buffer, as bytes; a view."""
        return shown(self.memory[buffer], self.layouts[buffer], box)

    def prepare(self, stages: Sequence[Sequence[Work]]) -> list[KernelStep]:
        """Plan all that it will do; the kernels that it will launch."""
        found = []
        for stage, parts in enumerate(stages):
            for place, group in enumerate(self._groups(parts, stage)):
                if group.alone is not None:
                    continue
                planned = self._planned(group.requests, (stage, place))
                found += [step for step in planned.plan.steps if isinstance(step, KernelStep)]
        return found

    # Messages.

    def pack(self, transfers: Iterable[Transfer], partials: Iterable[PartialSums]) -> Message:
        """What goes to one node, as it is now."""
        boxes = [(one.buffer, one.box, self.at(one.buffer, one.box).copy()) for one in transfers]
        sums = [pair for one in partials for pair in self._part_of(one)]
        return Message(boxes, sums)

    def _part_of(self, sums: PartialSums) -> Iterable[tuple[int, Partial]]:
        request = self._requests[sums.request]
        kept_axes = [axis for axis in range(len(sums.of)) if axis not in request.axes]
        shape = tuple(len(sums.of[axis]) for axis in kept_axes)
        where: Any = tuple(
            slice(
                sums.band[axis].start - sums.of[axis].start,
                sums.band[axis].stop - sums.of[axis].start,
            )
            for axis in kept_axes
        )
        where = (*where, ...)
        for partial in self._made[sums.request, sums.level, sums.of]:
            values = partial.values.reshape(shape)[where].ravel()
            yield sums.request, partial._replace(band=sums.band, values=values)

    def unpack(self, message: Message) -> None:
        """Take in what another node has sent."""
        for buffer, box, content in message.boxes:
            self.at(buffer, box)[...] = content
        for request, partial in message.partials:
            self._arrived.setdefault(request, []).append(partial)

    def copy(self, parts: Iterable[Keep]) -> None:
        """From one buffer to another."""
        for one in parts:
            self.at(one.target, one.box)[...] = self.at(one.source, one.box)

    # Work.

    def _groups(self, parts: Sequence[Work], stage: int) -> list[_Group]:
        """The parts of a stage, by what runs together."""
        if stage in self._grouped:
            return self._grouped[stage]
        pieces = [pieces_of(part) if isinstance(part, FoldPart) else None for part in parts]
        apart = {
            part.request.index
            for part, made in zip(parts, pieces, strict=True)
            if isinstance(part, FoldPart) and made is None
        }
        found: list[_Group] = []
        for part, made in zip(parts, pieces, strict=True):
            if not isinstance(part, Run | FoldPart) or part.request.index in apart:
                found.append(_Group([], [], part))
                continue
            if not found or found[-1].alone is not None:
                found.append(_Group([], []))
            if isinstance(part, Run):
                found[-1].requests.append(restricted(part.request, part.box))
            else:
                numbered = [(self._room(piece), piece) for piece in made or ()]
                found[-1].requests.extend(piece.into(buffer) for buffer, piece in numbered)
                found[-1].folds.append(_Fold(part, numbered))
        self._grouped[stage] = found
        return found

    def _room(self, piece: Piece) -> int:
        """A buffer for what a piece makes."""
        size = math.prod(piece.shape) * piece.dtype.itemsize
        buffer = len(self._buffers)
        self._buffers += (BufferInfo(buffer, size, False, False, True),)
        self.memory[buffer] = new_memory(size)
        return buffer

    def work(self, parts: Sequence[Work], stage: int) -> None:
        """Do this node's part of a stage."""
        for place, group in enumerate(self._groups(parts, stage)):
            part = group.alone
            if part is None:
                self._run(group.requests, (stage, place))
                for fold in group.folds:
                    self._folded(fold)
            elif isinstance(part, Ramp):
                self._ramp(part)
            elif isinstance(part, FoldPart):
                self._fold(part)
            elif isinstance(part, FoldJoin):
                self._join(part)
            elif isinstance(part, FoldEnd):
                self._finish(part)

    def _folded(self, fold: _Fold) -> None:
        found = [
            self.memory[buffer].view(piece.dtype).reshape(piece.shape).copy()
            for buffer, piece in fold.pieces
        ]
        self._keep(fold.part, partial_results(fold.part, found))

    def _run(self, requests: Sequence[Request], place: tuple[int, int]) -> None:
        """Plan and run requests, or parts of them, as one program."""
        planned = self._planned(requests, place)
        trace = planned.trace
        for step in planned.plan.steps:
            if isinstance(step, KernelStep):
                found = launch_step(step, trace, self.memory, self._launch)
                for request, kinds in zip(step.slots, found, strict=True):
                    self._note(requests[request], kinds)
            else:
                kinds = run_request(trace.requests[step.request], self.memory)
                self._note(requests[step.request], kinds)

    def _note(self, request: Request, kinds: int) -> None:
        if kinds:
            self.raised[request.index] = self.raised.get(request.index, 0) | kinds

    def _planned(self, requests: Sequence[Request], place: tuple[int, int]) -> _Planned:
        """Their plan, with the values of this run."""
        first = self._first.get(place)
        if first is None:
            numbered = tuple(replace(request, index=k) for k, request in enumerate(requests))
            first = Trace(self._passing(requests), numbered)
            self._first[place] = first
            self._plans[place] = self._plan(first)
        trace = self._with_values(first, requests) if self.values else first
        found = self._plans[place]
        if found.trace is trace or _holds(found, trace):
            return found._replace(trace=trace)
        self._plans[place] = self._plan(trace)
        return self._plans[place]

    def _with_values(self, first: Trace, requests: Sequence[Request]) -> Trace:
        changed = {index for index, _ in self.values}
        found = tuple(
            replace(with_values(request, self.values), index=one.index)
            if request.index in changed
            else one
            for one, request in zip(first.requests, requests, strict=True)
        )
        return Trace(first.buffers, found)

    def _plan(self, trace: Trace) -> _Planned:
        """Planned for this processor; large results go past its cache."""
        made = plan(trace, wraps=False)
        past = PastCache(trace, made, {})
        steps = tuple(
            replace(step, kernel=past.kernel(step, traffic(step)[1]))
            if isinstance(step, KernelStep)
            else step
            for step in made.steps
        )
        return _Planned(trace, replace(made, steps=steps))

    def _passing(self, requests: Sequence[Request]) -> tuple[BufferInfo, ...]:
        """The buffers; those that nothing else uses need not be in memory."""
        here: dict[int, set[int]] = {}
        for request in requests:
            for view in (*request.inputs, *request.outputs, request.mask):
                if isinstance(view, View) and view.buffer in self._uses:
                    here.setdefault(view.buffer, set()).add(request.index)
        gone = {buffer for buffer, found in here.items() if len(found) == self._uses[buffer]}
        return tuple(
            replace(info, fresh=True, dead=True) if info.index in gone else info
            for info in self._buffers
        )

    def _ramp(self, part: Ramp) -> None:
        request = restricted(with_values(part.request, self.values), (part.part,))
        dtype = np.dtype(request.loop[-1])
        work = np.dtype("f4") if dtype == np.dtype("f2") else dtype
        start, step = (
            np.asarray(one.value, one.dtype).astype(dtype).astype(work)
            for one in request.inputs
            if not isinstance(one, View)
        )
        index = np.arange(part.part.start, part.part.stop).astype(work)
        (view,) = request.outputs
        target = show(view, request.shape, self.memory[view.buffer])
        target[...] = (start + index * step).astype(dtype)

    def _fold(self, part: FoldPart) -> None:
        request, band = part.request, part.band
        view = request.inputs[0]
        assert isinstance(view, View)
        whole = show(view, request.shape, self.memory[view.buffer])
        order = folding.order_of(request)
        units = folding.unit_values(
            request, order, band, folding.units_in(order, part.boxes), whole
        )
        made = list(folding.partials(request, order, band, units))
        self._note(request, folding.raised(request, part.boxes, whole, made))
        self._keep(part, made)

    def _keep(self, part: FoldPart, made: list[Partial]) -> None:
        self._requests[part.request.index] = part.request
        if part.sent:
            self._made[part.request.index, 0, part.band] = made
        else:
            self._arrived.setdefault(part.request.index, []).extend(made)

    def _join(self, part: FoldJoin) -> None:
        request, there = part.request, self._arrived.pop(part.request.index)
        found = [one for one in there if one.band == part.band]
        self._arrived[request.index] = [one for one in there if one.band != part.band]
        made = folding.joined(request, part.band, part.units, found)
        values = np.concatenate([one.values for one in made])
        self._note(request, folding.raised_at_end(request, found, values))
        self._requests[request.index] = request
        self._made[request.index, part.level, part.band] = made

    def _finish(self, part: FoldEnd) -> None:
        request = part.request
        found = self._arrived[request.index]
        value = folding.finish(request, part.band, found)
        self._note(request, folding.raised_at_end(request, found, value))
        (output,) = restricted(request, part.band).outputs
        here = replace(request, shape=extents(part.band))
        view, shape = kept(here, output)
        target = show(view, shape, self.memory[view.buffer])
        np.copyto(target, value, casting="unsafe")
