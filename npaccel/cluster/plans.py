"""What a plan for several nodes consists of: stages, each some messages and then some work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from npaccel.cluster.boxes import Box, extents, size
from npaccel.cluster.folding import Unit
from npaccel.cluster.placing import Placed
from npaccel.ir.nodes import Request, Trace, View

__all__ = [
    "ClusterPlan",
    "FoldEnd",
    "FoldJoin",
    "FoldPart",
    "Keep",
    "PartialSums",
    "Ramp",
    "Run",
    "Stage",
    "Transfer",
    "Work",
    "restricted",
]


class Transfer(NamedTuple):
    """A box of a buffer (of its layout's index space) that one node sends to another."""

    source: int
    target: int
    buffer: int
    box: Box


class PartialSums(NamedTuple):
    """What a node has made of its part of a reduction, on its way to who has the result.

    band : the part of the result that it is for, in indices of the request; of : what the source
    has partial results for; points : elements of the result in it; number : how many values there
    are for each of them.
    """

    source: int
    target: int
    request: int
    band: Box
    of: Box
    number: int
    item: int
    points: int
    level: int = 0

    @property
    def key(self) -> tuple[int, int, Box]:
        """Of a request's partial results, whose these are."""
        return self.level, self.source, self.of

    @property
    def size_bytes(self) -> int:
        return self.points * self.number * self.item


class Run(NamedTuple):
    """A request at the indices in a box."""

    request: Request
    box: Box


class Ramp(NamedTuple):
    """IOTA for these indices alone."""

    request: Request
    part: range


class FoldPart(NamedTuple):
    """Partial results of a reduction: for `band` (a box of the request, whole along reduced axes),
    of the elements in `boxes`, which are boxes of the request. sent: to whoever has the result;
    else they stay."""

    request: Request
    band: Box
    boxes: tuple[Box, ...]
    sent: bool


class FoldJoin(NamedTuple):
    """Partial results of others for `band` become those of all of them, of units of a float sum,
    and are sent on. level : how often they are joined then."""

    request: Request
    band: Box
    units: tuple[Unit, ...]
    level: int


class FoldEnd(NamedTuple):
    """Partial results become the result, in `band`."""

    request: Request
    band: Box


class Keep(NamedTuple):
    """A box of a buffer is copied to another one, in which it lies alike."""

    source: int
    target: int
    box: Box


Work = Run | Ramp | FoldPart | FoldJoin | FoldEnd


@dataclass(slots=True)
class Stage:
    """Messages, then copies, then work; per node in order. There is one message for each pair of
    nodes."""

    transfers: list[Transfer] = field(default_factory=list)
    partials: list[PartialSums] = field(default_factory=list)
    work: dict[int, list[Work]] = field(default_factory=dict)
    copies: dict[int, list[Keep]] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not (self.transfers or self.partials or self.work)

    def pairs(self) -> set[tuple[int, int]]:
        """Who sends to whom."""
        moved = {(one.source, one.target) for one in self.transfers}
        return moved | {(p.source, p.target) for p in self.partials if p.source != p.target}


class Whole(NamedTuple):
    """A request that one node runs alone, and why."""

    request: int
    node: int
    reason: str


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """How the requests of a trace run on some nodes.

    placed : per buffer its layout and who has which part. alone : requests that are not shared out.
    handed_on : scans that go from node to node, a part in a stage.
    """

    trace: Trace
    nodes: int
    placed: Mapping[int, Placed]
    stages: Sequence[Stage]
    alone: Sequence[Whole] = ()
    handed_on: frozenset[int] = frozenset()

    @property
    def uses(self) -> dict[int, int]:
        """Of each buffer that is new and that nobody sees in the end: how many requests use it; but
        not of those that are written in several stages."""
        found = {info.index: 0 for info in self.trace.buffers if info.dead and info.fresh}
        for index in self.handed_on:
            for view in self.trace.requests[index].outputs:
                found.pop(view.buffer, None)
        for request in self.trace.requests:
            operands = (*request.inputs, *request.outputs, request.mask)
            for buffer in {view.buffer for view in operands if isinstance(view, View)}:
                if buffer in found:
                    found[buffer] += 1
        return found

    @property
    def messages(self) -> int:
        """All of them, one for each pair of nodes and stage."""
        return sum(len(stage.pairs()) for stage in self.stages)

    @property
    def moved_bytes(self) -> int:
        """In these messages."""
        return sum(n for stage in self.stages for _, n in self.traffic(stage))

    def traffic(self, stage: Stage) -> Iterator[tuple[tuple[int, int], int]]:
        """Per pair of nodes the bytes of each thing sent."""
        for move in stage.transfers:
            yield (move.source, move.target), size(move.box) * self.placed[move.buffer].layout.item
        for sums in stage.partials:
            if sums.source != sums.target:
                yield (sums.source, sums.target), sums.size_bytes

    def __str__(self) -> str:
        lines = [
            f"{_count(len(self.trace.requests), 'operation')} on {_count(self.nodes, 'node')}: "
            f"{_count(len(self.stages), 'stage')}, {_count(self.messages, 'message')}, "
            f"{_count(self.moved_bytes, 'byte')}"
        ]
        for number, stage in enumerate(self.stages):
            sent: dict[tuple[int, int], int] = {}
            for pair, n in self.traffic(stage):
                sent[pair] = sent.get(pair, 0) + n
            parts = sum(map(len, stage.work.values()))
            lines.append(
                f"stage {number}: {_count(len(sent), 'message')}, "
                f"{_count(sum(sent.values()), 'byte')}, then {_count(parts, 'part')} of operations "
                f"on {_count(len(stage.work), 'node')}"
            )
        for one in self.alone:
            op = self.trace.requests[one.request].op
            lines.append(f"operation {one.request} ({op}) on node {one.node} alone: {one.reason}")
        return "\n".join(lines)


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def restricted(request: Request, box: Box) -> Request:
    """The part of a request at the indices in `box`, which has no gaps."""

    def moved(view: View) -> View:
        further = sum(part.start * step for part, step in zip(box, view.strides, strict=True))
        return View(view.buffer, view.dtype, view.offset + further, view.strides)

    return Request(
        request.index,
        request.kind,
        request.op,
        extents(box),
        request.axes,
        tuple(moved(one) if isinstance(one, View) else one for one in request.inputs),
        tuple(map(moved, request.outputs)),
        request.loop,
        None if request.mask is None else moved(request.mask),
        request.errstate,
        request.numpys,
        request.fast,
    )
