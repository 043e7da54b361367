"""Stages that are made one: a node computes more than its own, and less is sent.

A stage ends where a node needs what another has written in it. Instead it can compute that itself,
by the same requests for some more indices: back to the beginning of the stage, where what they read
is sent. So several sweeps of a stencil take one message from each neighbour, with a halo as deep as
there are sweeps, and borders are computed twice. Whether that takes less time says the cost model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from npaccel.cluster.boxes import Box, contains, hull, meet, overlap, size, whole, without
from npaccel.cluster.costs import Machine, Model
from npaccel.cluster.placing import shown_box, touched_by
from npaccel.cluster.plans import ClusterPlan, Run, Stage, Transfer, Work
from npaccel.ir.nodes import Kind, Request, View

__all__ = ["deepened"]

Held: TypeAlias = dict[int, list[tuple[int, Box]]]  # per buffer what nodes have of others'


class _Blocked(Exception):
    """Stages can't be made one."""


def deepened(plan: ClusterPlan) -> ClusterPlan:
    """The plan with stages made one wherever that takes less time."""
    if len(plan.stages) < 2:
        return plan
    found = _Deepening(plan).stages()
    return replace(plan, stages=found)


class _Timed(NamedTuple):
    stage: Stage
    messages_s: float
    compute_s: float


class _Deepening:
    """Makes stages of a plan one."""

    def __init__(self, plan: ClusterPlan) -> None:
        self._plan, self._model = plan, Model(plan, Machine())

    def stages(self) -> list[Stage]:
        """Those of the plan, or fewer."""
        rest = [*map(self._timed, self._plan.stages)]
        runs: list[tuple[list[_Timed], _Joint | None]] = []
        while rest:
            joint, first = self._joined(rest)
            runs.append((rest[first:], joint))
            del rest[first:]
        found: list[_Timed] = []
        held: Held = {}
        for run, joint in reversed(runs):
            best = self._best(run, held, joint)
            held = self._held_behind(best, held)
            found += best
        return [one.stage for one in found]

    def _timed(self, stage: Stage) -> _Timed:
        return _Timed(stage, self._model.messages_s(stage), self._model.compute_s(stage))

    def _best(self, run: list[_Timed], held: Held, joint: _Joint | None = None) -> list[_Timed]:
        """A run of stages as it is, or parts of it made one: all, or halves, and so on."""
        if len(run) == 1:
            return run
        joint = joint or self._joined(run)[0]
        if joint is None:
            return run
        one, half = self._timed(joint.stage(run[0].stage, held)), len(run) // 2
        least = run[0].messages_s + run[half].messages_s + sum(part.compute_s for part in run)
        if _total(one) <= least:
            return [one]
        parts = self._best(run[:half], held)
        parts += self._best(run[half:], self._held_behind(parts, held))
        return [one] if _total(one) < sum(map(_total, parts)) else parts

    def _joined(self, run: list[_Timed]) -> tuple[_Joint | None, int]:
        """Stages as one; or None, and which is the first that can be one with all behind it."""
        joint = _Joint(self._plan)
        for first in reversed(range(len(run))):
            try:
                joint.put_first(run[first].stage)
            except _Blocked:
                return None, first + 1
            if run[first].stage.partials and first:
                return None, first
        return joint, 0

    def _held_behind(self, stages: Iterable[_Timed], held: Held) -> Held:
        """What is held of others' when stages end: what they have not written."""
        held = {buffer: [*boxes] for buffer, boxes in held.items()}
        for one in stages:
            for move in one.stage.transfers:
                held.setdefault(move.buffer, []).append((move.target, move.box))
            for request in _requests(one.stage):
                for view in request.outputs:
                    if view.buffer in held:
                        written = _written(self._plan, request, view)
                        held[view.buffer] = [
                            (node, box)
                            for node, box in held[view.buffer]
                            if not any(overlap(part, box) for part in written)
                        ]
        return held


def _total(one: _Timed) -> float:
    return one.messages_s + one.compute_s


def _written(plan: ClusterPlan, request: Request, view: View) -> list[Box]:
    layout = plan.placed[view.buffer].layout
    return list(touched_by(layout, view, request.shape, whole(request.shape)))


def _requests(stage: Stage) -> list[Request]:
    found = {part.request.index: part.request for work in stage.work.values() for part in work}
    return [found[index] for index in sorted(found) if 0 not in found[index].shape]


class _Joint:
    """Stages as one, from the last to the first.

    needed : by buffer and node what must be there when the stage that was put in last begins. What
        a node owns may be among that, and is there.
    """

    def __init__(self, plan: ClusterPlan) -> None:
        self._plan = plan
        self._alone = {one.request for one in plan.alone}
        self._ended = False  # a scan goes from node to node in the stage that was put in last
        self._needed: dict[int, dict[int, list[Box]]] = {}
        self._sent: list[Transfer] = []  # when that stage begins
        self._work: dict[int, list[list[Work]]] = {}

    def put_first(self, stage: Stage) -> None:
        """What is sent behind this stage is computed in it instead, where it is needed."""
        handed_on = any(request.index in self._plan.handed_on for request in _requests(stage))
        if self._work and (handed_on or self._ended):
            raise _Blocked
        self._ended = handed_on
        for move in self._sent:
            self._need(move.target, move.buffer, move.box)
        self._sent = stage.transfers
        boxes: dict[int, dict[int, list[Box]]] = {}
        for node, parts in stage.work.items():
            for part in parts:
                if isinstance(part, Run):
                    boxes.setdefault(part.request.index, {}).setdefault(node, []).append(part.box)
        grown: dict[int, dict[int, list[Box]]] = {}
        for request in reversed(_requests(stage)):
            there = boxes.get(request.index, {})
            for node, wanted in self._wanted(request).items():
                grown.setdefault(node, {})[request.index] = self._grow(
                    request, node, there.get(node, ()), wanted
                )
        if any(map(self._is_home, self._sent)):
            raise _Blocked
        for node in {*stage.work, *grown}:
            mine = self._parts(stage.work.get(node, ()), grown.get(node, {}))
            self._work.setdefault(node, []).append(mine)

    def _need(self, node: int, buffer: int, box: Box) -> None:
        boxes = self._needed.setdefault(buffer, {}).setdefault(node, [])
        for other in [*boxes]:
            around = hull(box, other)
            if size(around) <= size(box) + size(other):
                boxes.remove(other)
                box = around
        boxes.append(box)

    def _wanted(self, request: Request) -> dict[int, list[Box]]:
        """Per node the indices at which a request writes what is needed. What it writes is not
        needed before."""
        wanted: dict[int, list[Box]] = {}
        for view in request.outputs:
            needed = self._needed.get(view.buffer)
            if not needed:
                continue
            shown = shown_box(self._plan.placed[view.buffer].layout, view, request.shape)
            written = [shown.box] if shown is not None else _written(self._plan, request, view)
            for node, boxes in needed.items():
                if not any(overlap(one, box) for one in written for box in boxes):
                    continue
                if shown is None or request.kind is not Kind.MAP or request.index in self._alone:
                    raise _Blocked
                there = [part for box in boxes if (part := meet(box, shown.box)) is not None]
                wanted.setdefault(node, []).extend(map(shown.at, there))
                if request.mask is None:
                    needed[node] = [rest for box in boxes for rest in without(box, shown.box)]
        return wanted

    def _grow(
        self, request: Request, node: int, there: Sequence[Box], wanted: Iterable[Box]
    ) -> list[Box]:
        """The boxes in which a node computes a request, with some more; it needs what they read."""
        found = [*there]
        for box in wanted:
            found = _grown(found, box)
        for box in found:
            if box not in there:
                for view in request.reads:
                    layout = self._plan.placed[view.buffer].layout
                    for touched in touched_by(layout, view, request.shape, box):
                        self._need(node, view.buffer, touched)
        return found

    def _is_home(self, move: Transfer) -> bool:
        """Whether it goes to who owns it, and others need it from there at once."""
        owners = self._plan.placed[move.buffer].split(move.box)
        if not self._alone or all(node != move.target for node, _ in owners):
            return False
        needed = self._needed.get(move.buffer, {}).values()
        return any(overlap(box, move.box) for boxes in needed for box in boxes)

    def _parts(self, work: Sequence[Work], grown: dict[int, list[Box]]) -> list[Work]:
        """What a node does in a stage, in order."""
        parts = [
            part for part in work if not (isinstance(part, Run) and part.request.index in grown)
        ]
        requests = self._plan.trace.requests
        parts += [Run(requests[index], box) for index, boxes in grown.items() for box in boxes]
        return sorted(parts, key=lambda part: part.request.index)

    def stage(self, first: Stage, held: Held) -> Stage:
        """All as one, of which `first` is the first."""
        work = {
            node: [part for one in reversed(parts) for part in one]
            for node, parts in self._work.items()
        }
        return Stage(self._transfers(held), first.partials, work)

    def _transfers(self, held: Held) -> list[Transfer]:
        """What is sent when the first stage begins."""
        there: dict[tuple[int, int], list[Box]] = {}
        for move in self._sent:
            there.setdefault((move.buffer, move.target), []).append(move.box)
        for buffer, boxes in held.items():
            for node, box in boxes:
                there.setdefault((buffer, node), []).append(box)
        new = [one for one in self._from_owners() if not _is_in(one, there)]
        wider: dict[tuple[int, int], list[Box]] = {}
        for move in new:
            wider.setdefault((move.buffer, move.target), []).append(move.box)
        return [*(one for one in self._sent if not _is_in(one, wider)), *new]

    def _from_owners(self) -> Iterator[Transfer]:
        for buffer, by_node in self._needed.items():
            placed = self._plan.placed[buffer]
            for node, boxes in by_node.items():
                for box in boxes:
                    for owner, part in placed.split(box):
                        if owner != node:
                            yield Transfer(owner, node, buffer, part)


def _is_in(move: Transfer, boxes: Mapping[tuple[int, int], list[Box]]) -> bool:
    return any(contains(box, move.box) for box in boxes.get((move.buffer, move.target), ()))


def _grown(boxes: Sequence[Box], more: Box) -> list[Box]:
    """Boxes that share nothing, and cover `more`, too: that one grows which grows least."""
    if not boxes:
        return [more]
    nearest = min(boxes, key=lambda box: size(hull(box, more)) - size(box))
    around, rest = hull(nearest, more), [box for box in boxes if box is not nearest]
    while any(overlap(around, box) for box in rest):
        for box in [box for box in rest if overlap(around, box)]:
            around = hull(around, box)
            rest.remove(box)
    return [*rest, around]
