"""From requests and maps to a plan: who computes what, what is sent before, in which stages.

The owner of a result computes it. What it needs of others is sent at the beginning of a stage, as
it is then; a stage ends where something is needed that was written in it. So many operations take
one message from each neighbour; and stages are made one where that is cheaper (deepening.py).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from npaccel.cluster import folding, scanning
from npaccel.cluster.boxes import Box, contains, overlap, size, whole
from npaccel.cluster.costs import Machine
from npaccel.cluster.deepening import deepened
from npaccel.cluster.fold_requests import has_same_order
from npaccel.cluster.inferring import place_all
from npaccel.cluster.placing import Placed, Share, owned_by, touched_by
from npaccel.cluster.plans import (
    ClusterPlan,
    FoldEnd,
    FoldPart,
    PartialSums,
    Ramp,
    Run,
    Stage,
    Transfer,
    Whole,
    Work,
    restricted,
)
from npaccel.cluster.spreading import spread
from npaccel.cluster.trees import Tree, Units, tree_of
from npaccel.ir.nodes import Kind, Request, Trace, View
from npaccel.ir.ops import find
from npaccel.ir.scalar import item_size
from npaccel.ir.views import gathered, overlaps, region

__all__ = ["plan_requests"]


def plan_requests(trace: Trace, placed: Mapping[int, Placed], nodes: int) -> ClusterPlan:
    """Share requests out among nodes.

    Parameters
    ----------
    placed : per buffer that has a map; the others are placed beside these.
    """
    planner = _Planner(trace, place_all(trace, placed, nodes), nodes)
    for request in trace.requests:
        if math.prod(request.shape) or request.kind is Kind.REDUCE:
            planner.add(request)
    return spread(deepened(planner.done()))


class _Entry:
    """A request in a stage: its work per node, and what it writes, as boxes of layouts."""

    __slots__ = ("index", "work", "writes")

    def __init__(self, index: int) -> None:
        self.index = index
        self.work: list[tuple[int, Work]] = []
        self.writes: list[tuple[int, list[Box]]] = []


class _Planner:
    """Builds the stages, one request after another.

    entries : what is in the last stage. written : per buffer what that has written.
    held : per buffer what nodes have of others', as long as it is not written.
    folds : reductions of which all parts are made in this stage, and who has the result.
    home : what a node that ran a request alone sends back.
    handed_on : scans that go from node to node.
    """

    def __init__(self, trace: Trace, placed: dict[int, Placed], nodes: int) -> None:
        self.trace, self.placed, self.nodes = trace, placed, nodes
        self.stages: list[Stage] = [Stage()]
        self.alone: list[Whole] = []
        self.entries: list[_Entry] = []
        self.written: dict[int, list[Box]] = {}
        self.held: dict[int, list[tuple[int, Box]]] = {}
        self.folds: dict[int, tuple[Request, list[Share], Tree]] = {}
        self.home: list[Transfer] = []
        self.handed_on: set[int] = set()
        self._lives = _lives(trace)

    @property
    def stage(self) -> Stage:
        return self.stages[-1]

    def done(self) -> ClusterPlan:
        """The plan, once all requests are in it."""
        if self.folds or self.home:
            self.close(len(self.entries))
        self._settle(self.entries)
        stages = [stage for stage in self.stages if not stage.empty]
        return ClusterPlan(
            self.trace,
            self.nodes,
            self.placed,
            stages,
            tuple(self.alone),
            frozenset(self.handed_on),
        )

    def _settle(self, entries: Sequence[_Entry]) -> None:
        for entry in entries:
            for node, work in entry.work:
                self.stage.work.setdefault(node, []).append(work)

    def close(self, first: int) -> None:
        """End the stage behind its first so many entries; the others begin a new one, behind what
        is due there."""
        self._settle(self.entries[:first])
        rest = self.entries[first:]
        moved = {entry.index for entry in rest}
        home, folds = self.home, self.folds
        self.home = []
        self.folds = {k: one for k, one in folds.items() if one[0].index in moved}
        self.stages.append(Stage())
        self._join([tree for buffer, (*_, tree) in folds.items() if buffer not in self.folds])
        self.written, self.entries = {}, []
        if home:
            self.entries.append(_Entry(self.alone[-1].request))
        for move in home:
            self.stage.transfers.append(move)
            self._write(move.buffer, [move.box])
        for buffer, (request, shares, tree) in folds.items():
            if buffer not in self.folds:
                self.stage.partials.extend(tree.sums)
                self.entries.append(_Entry(request.index))
                for node, band in shares:
                    self._work(node, FoldEnd(request, band))
                self._wrote(request)
        for entry in rest:
            self.entries.append(entry)
            for buffer, boxes in entry.writes:
                self.written.setdefault(buffer, []).extend(boxes)

    def _join(self, trees: list[Tree]) -> None:
        """Stages in which partial results are joined."""
        for levels in itertools.zip_longest(*(tree.levels for tree in trees)):
            for sums, joins in filter(None, levels):
                self.stage.partials.extend(sums)
                for node, join in joins:
                    self.stage.work.setdefault(node, []).append(join)
            self.stages.append(Stage())

    def _behind(self, last: int) -> int:
        """Where the stage may end, behind entry `last`: where fewest temporaries are alive, which
        would have to be in memory. Reductions stay together, to be finished in one stage."""
        parts = {request.index for request, _, _ in self.folds.values()}
        last = max([last, *(k for k, e in enumerate(self.entries) if e.index in parts)])
        index = self.entries[-1].index + 1
        ends = [entry.index for entry in self.entries[last + 1 :]] + [index]
        alive = [sum(first < end <= stop for first, stop in self._lives) for end in ends]
        best = min(alive)
        return last + 1 + max(k for k, n in enumerate(alive) if n == best)

    def add(self, request: Request) -> None:
        """Plan a request behind all others."""
        due = {self.folds[v.buffer][0].index for v in request.views if v.buffer in self.folds}
        if due:
            self.close(self._behind(max(k for k, e in enumerate(self.entries) if e.index in due)))
        self.entries.append(_Entry(request.index))
        if not math.prod(request.shape):
            self._alone(request, "there is nothing to reduce")
        elif request.kind in (Kind.REDUCE, Kind.ARG):
            self._reduction(request)
        else:
            self._shared(request)

    # Requests whose results' owners compute them.

    def _shared(self, request: Request) -> None:
        shares, reason = self._shares(request)
        if shares is not None and scanning.is_split(request, shares):
            if self._handed_on(request, shares):
                return
            shares, reason = None, "it goes along an axis that is split"
        if shares is None:
            self._alone(request, reason)
            return
        self._fetch(request, shares)
        for node, box in shares:
            work: Work = Ramp(request, box[0]) if request.kind is Kind.IOTA else Run(request, box)
            self._work(node, work)
        self._wrote(request)

    def _shares(self, request: Request) -> tuple[list[Share] | None, str]:
        """Per node the indices that it computes; None, and why."""
        first, *others = request.outputs
        shares = owned_by(self.placed[first.buffer], first, request.shape)
        if shares is None:
            return None, "nodes' parts of the result are no boxes of it"
        if _overlapping(request):
            return None, "it reads what it writes, elsewhere"
        if any(owned_by(self.placed[v.buffer], v, request.shape) != shares for v in others):
            return None, "its results are placed differently"
        return shares, ""

    # Scans from node to node.

    def _handed_on(self, request: Request, shares: list[Share]) -> bool:
        """Have each node go on where others end, if that takes less time than one alone does."""
        parts = scanning.parts_of(request, shares)
        if parts is None or not self._is_cheaper(request, shares, parts):
            return False
        self.handed_on.add(request.index)
        copied = scanning.copied(request)
        if copied is not None:
            self._fetch(copied, shares)
            for node, box in shares:
                self._work(node, Run(copied, box))
            self._wrote(copied)
        for part in parts:
            for one in filter(None, (part.carry, part.scan)):
                self.entries.append(_Entry(request.index))
                self._fetch(one, [Share(part.node, whole(one.shape))])
                self._work(part.node, Run(one, whole(one.shape)))
                self._wrote(one)
        return True

    def _is_cheaper(
        self, request: Request, shares: list[Share], parts: list[scanning.Part]
    ) -> bool:
        machine, node = Machine(), self._largest(request)
        copied = scanning.copied(request)
        moves = self._missing(copied, shares) if copied is not None else []
        hops = set[int]()
        for part in parts:
            one = part.carry
            sent = self._missing(one, [Share(part.node, whole(one.shape))]) if one else []
            moves += sent
            hops |= {part.start} if sent else set()
        alone = self._missing(request, [Share(node, whole(request.shape))])
        back = sum(size(box) for owner, box in shares if owner != node)
        item = item_size(request.outputs[0].dtype)
        instead = (self._cost(alone) + back * item) / machine.network_bytes_s
        handed = self._cost(moves) / machine.network_bytes_s
        return handed + len(hops) * machine.latency_s <= instead + 2 * machine.latency_s

    def _alone(self, request: Request, reason: str) -> None:
        """One node gets all that the request touches, runs it, and sends the results back."""
        node = self._largest(request)
        everything = whole(request.shape)
        if 0 not in request.shape:
            self._fetch(request, [Share(node, everything)], (*request.reads, *request.outputs))
        self._work(node, Run(request, everything))
        self.alone.append(Whole(request.index, node, reason))
        self._wrote(request)
        for view in request.outputs:
            placed = self.placed[view.buffer]
            shape = tuple(max(1, n) for n in request.shape)
            for box in touched_by(placed.layout, view, shape, whole(shape)):
                parts = placed.split(box)
                away = [Transfer(node, n, view.buffer, part) for n, part in parts if n != node]
                self.home.extend(away)
                self.held.setdefault(view.buffer, []).extend((node, m.box) for m in away)
        if self.home:
            self.close(len(self.entries))

    def _largest(self, request: Request) -> int:
        """The node that has most of what a request reads, or else writes."""
        found = [0] * self.nodes
        for view in request.reads or request.outputs:
            for node, box in self.placed[view.buffer].shares:
                found[node] += size(box) * self.placed[view.buffer].layout.item
        return found.index(max(found))

    # What is sent.

    def _fetch(
        self, request: Request, shares: Sequence[Share], views: Sequence[View] | None = None
    ) -> None:
        """Have sent what nodes need for their boxes; a new stage if some of it is not there yet."""
        self._send(lambda: self._missing(request, shares, views))

    def _send(self, needed: Callable[[], list[Transfer]]) -> None:
        missing = needed()
        last = max(map(self._writer, missing), default=-1)
        if last >= 0:
            entry = self.entries.pop()
            self.close(self._behind(last))
            self.entries.append(entry)
            missing = needed()
        for move in missing:
            held = self.held.setdefault(move.buffer, [])
            if (move.target, move.box) not in held:
                held.append((move.target, move.box))
                self.stage.transfers.append(move)

    def _writer(self, move: Transfer) -> int:
        """The last entry of the stage that writes what is to be sent; -1: none."""
        if not any(overlap(box, move.box) for box in self.written.get(move.buffer, ())):
            return -1
        writers = (
            k
            for k in reversed(range(len(self.entries)))
            for buffer, boxes in self.entries[k].writes
            if buffer == move.buffer and any(overlap(box, move.box) for box in boxes)
        )
        return next(writers)

    def _missing(
        self, request: Request, shares: Sequence[Share], views: Sequence[View] | None = None
    ) -> list[Transfer]:
        found: list[Transfer] = []
        for view in request.reads if views is None else views:
            shape, seen = request.shape, view
            table = gathered(request) if view is request.inputs[0] else None
            if table is not None:
                seen, shape = table
            held: dict[int, list[Box]] = {}
            for node, box in self.held.get(view.buffer, ()):
                held.setdefault(node, []).append(box)
            for node, box in shares:
                inside = (*box, range(shape[-1])) if table is not None else box
                found.extend(self._from_others(node, seen, shape, inside, held.get(node, ())))
        return found

    def _from_others(
        self, node: int, view: View, shape: tuple[int, ...], box: Box, held: Sequence[Box]
    ) -> Iterator[Transfer]:
        placed = self.placed[view.buffer]
        for touched in touched_by(placed.layout, view, shape, box):
            for owner, part in placed.split(touched):
                if owner != node and not any(contains(there, part) for there in held):
                    yield Transfer(owner, node, view.buffer, part)

    def _wrote(self, request: Request) -> None:
        shape = tuple(max(1, n) for n in request.shape)
        for view in request.outputs:
            layout = self.placed[view.buffer].layout
            self._write(view.buffer, list(touched_by(layout, view, shape, whole(shape))))

    def _write(self, buffer: int, boxes: list[Box]) -> None:
        self.written.setdefault(buffer, []).extend(boxes)
        self.entries[-1].writes.append((buffer, boxes))
        held = self.held.get(buffer)
        if held:
            self.held[buffer] = [
                (node, there)
                for node, there in held
                if not any(overlap(box, there) for box in boxes)
            ]

    def _work(self, node: int, work: Work) -> None:
        self.entries[-1].work.append((node, work))

    # Reductions.

    def _reduction(self, request: Request) -> None:
        shares, reason = self._shares(request)
        ordered = folding.is_ordered(request)
        if ordered and (request.numpys or len(request.inputs) > 1 or request.mask is not None):
            shares, reason = None, "it is a sum with a mask, a first value, or NumPy's own order"
        if shares is None:
            self._alone(request, reason)
            return
        there = self._parts(request, ordered=ordered)
        if there is not None and self._in_parts(request, shares, there, ordered=ordered):
            return
        self._fetch(request, shares)
        for node, band in shares:
            if not ordered or has_same_order(request, restricted(request, band)):
                self._work(node, Run(request, band))
                continue
            self._work(node, FoldPart(request, band, (band,), False))
            self._work(node, FoldEnd(request, band))
        self._wrote(request)

    def _parts(self, request: Request, *, ordered: bool) -> list[Share] | None:
        """Where the operand lies, if its parts can be reduced there."""
        (view, *rest) = request.inputs
        if rest or request.mask is not None or not isinstance(view, View):
            return None
        rule = find(request.op, request.loop)
        exact = rule is not None and rule.fold is not None and request.kind is Kind.REDUCE
        if not (exact or ordered):
            return None
        return owned_by(self.placed[view.buffer], view, request.shape)

    def _in_parts(
        self, request: Request, shares: list[Share], there: list[Share], *, ordered: bool
    ) -> bool:
        """Reduce where the operand lies, and send what that gives, if that is less."""
        sums, units, work, fetches = self._sums(request, shares, there, ordered=ordered)
        cost = sum(one.size_bytes for one in sums if one.source != one.target)
        instead = self._cost(self._missing(request, shares))
        if cost + self._cost(self._needs(request, fetches)) >= instead:
            return False
        self._send(lambda: self._needs(request, fetches))
        for node, part in work:
            self._work(node, part)
        (view,) = request.outputs
        self.folds[view.buffer] = request, shares, tree_of(request, sums, units)
        return True

    def _needs(self, request: Request, fetches: list[Share]) -> list[Transfer]:
        return self._missing(request, fetches, [v for v in request.inputs if isinstance(v, View)])

    def _cost(self, moves: list[Transfer]) -> int:
        return sum(size(m.box) * self.placed[m.buffer].layout.item for m in set(moves))

    def _sums(
        self, request: Request, shares: list[Share], there: list[Share], *, ordered: bool
    ) -> tuple[list[PartialSums], Units, list[tuple[int, FoldPart]], list[Share]]:
        """What is sent, of which units, who makes it, and which boxes of the operand they need."""
        order = folding.order_of(request) if ordered else None
        item = max(4, item_size(request.loop[-1])) if ordered else item_size(request.loop[-1])
        grouped: dict[tuple[int, Box], list[Box]] = {}
        for node, box in there:
            grouped.setdefault((node, _band(request, box)), []).append(box)
        sums: list[PartialSums] = []
        work: list[tuple[int, FoldPart]] = []
        fetches: list[Share] = []
        units: dict[tuple[int, int, Box], list[folding.Unit]] = {}
        for (node, band), boxes in grouped.items():
            count, mine = len(boxes), list[folding.Unit]()
            if order is not None:
                mine = folding.units_in(order, boxes)
                count = folding.counted(order, mine)
                parts = folding.unit_boxes(order, band, mine)
                fetches.extend(Share(node, part) for part in parts)
            if not count:
                continue
            units[0, node, band] = mine
            work.append((node, FoldPart(request, band, tuple(boxes), True)))
            for target, box in shares:
                shared = _common(band, box)
                if shared is not None:
                    n = math.prod(len(p) for k, p in enumerate(shared) if k not in request.axes)
                    sums.append(
                        PartialSums(node, target, request.index, shared, band, count, item, n)
                    )
        return sums, units, work, fetches


def _lives(trace: Trace) -> list[tuple[int, int]]:
    """Of each buffer that nobody sees in the end: its first and last request."""
    found: dict[int, tuple[int, int]] = {}
    dead = {info.index for info in trace.buffers if info.dead}
    for request in trace.requests:
        for view in request.views:
            if view.buffer in dead:
                first, _ = found.get(view.buffer, (request.index, 0))
                found[view.buffer] = first, request.index
    return list(found.values())


def _band(request: Request, box: Box) -> Box:
    """A box of the request made whole along the axes that are reduced."""
    return tuple(
        range(request.shape[axis]) if axis in request.axes else part
        for axis, part in enumerate(box)
    )


def _common(a: Box, b: Box) -> Box | None:
    found = tuple(
        range(max(x.start, y.start), min(x.stop, y.stop)) for x, y in zip(a, b, strict=True)
    )
    return found if all(map(len, found)) else None


def _overlapping(request: Request) -> bool:
    """Whether it writes what it reads at another index."""
    for out in request.outputs:
        for view in request.reads:
            if view.buffer != out.buffer:
                continue
            same = (view.offset, view.strides, view.dtype) == (out.offset, out.strides, out.dtype)
            if not same and overlaps(region(view, request.shape), region(out, request.shape)):
                return True
    return False
