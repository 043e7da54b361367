"""How long a plan takes on machines that nobody has here: bytes and messages, by their speeds.

A model, not a measurement. What it leaves out: sending beside computing, kernels that are bound by
arithmetic, nodes that wait for a slow one, and a network that others use, too. scaling.py knows how
long one node took; so it says only what becomes of that with several.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from npaccel.cluster.boxes import Box, overlap, size
from npaccel.cluster.placing import touched_by
from npaccel.cluster.plans import ClusterPlan, FoldEnd, FoldJoin, FoldPart, Ramp, Run, Stage, Work
from npaccel.cluster.wires import AT_ONCE
from npaccel.ir.nodes import Request, View

__all__ = ["MANY", "Machine", "Model", "Prediction", "group_size", "predict"]


# Nodes of which some tell the others what to run (relays.py): for so many a second message takes
# less than to tell each, by `latency_s` and `order_s` of a Machine (0.43 and 0.59 ms).
MANY = 17


@dataclass(frozen=True, slots=True)
class Machine:
    """Speeds of nodes and of what connects them.

    memory_bytes_s : what a node reads and writes; network_bytes_s : what it sends or receives.
    latency_s : of a message, whatever is in it; fan_out : nodes from which one hears at a time,
        of parts of a sum. flush_s : of a flush, whatever is in it; order_s : for each node, which
        are told, and heard, one after another. large_s : besides, of a message with more than
        `AT_ONCE` bytes, which goes in pieces. partial_s : of a partial result, to be packed, taken
        in and put together. streams, computes : what is bound by memory, and by arithmetic, takes
        so many times its share of the cores when all nodes are at it.
    """

    memory_bytes_s: float = 25e9
    network_bytes_s: float = 1.25e9
    latency_s: float = 80e-6
    fan_out: int = 16
    flush_s: float = 0.0
    order_s: float = 30e-6
    large_s: float = 0.0
    partial_s: float = 0.0
    streams: float = 1.0
    computes: float = 1.0


class Prediction(NamedTuple):
    """Seconds, for all stages together: until all nodes are told and heard, in messages, in
    memory."""

    begin_s: float
    messages_s: float
    compute_s: float

    @property
    def total_s(self) -> float:
        return sum(self)


def predict(plan: ClusterPlan, machine: Machine) -> Prediction:
    """What a plan takes."""
    model = Model(plan, machine)
    messages = sum(map(model.messages_s, plan.stages))
    compute = sum(map(model.compute_s, plan.stages))
    return Prediction(machine.flush_s + _begin_s(plan.nodes, machine), messages, compute)


def group_size(nodes: int) -> int:
    """How many nodes one of them tells what to run."""
    return math.isqrt(max(0, nodes - 1)) + 1


def _begin_s(nodes: int, machine: Machine) -> float:
    """To tell all nodes, and to hear them."""
    if nodes < MANY:
        return (nodes > 1) * machine.latency_s + nodes * machine.order_s
    size = group_size(nodes)
    return 2 * machine.latency_s + (-(-nodes // size) + size) * machine.order_s


class Model:
    """What a plan's stages take, or others of the same requests. In each the node that takes
    longest counts."""

    def __init__(self, plan: ClusterPlan, machine: Machine) -> None:
        self._plan, self._machine = plan, machine

    @functools.cached_property
    def _kept(self) -> frozenset[int]:
        return _kept(self._plan)

    def messages_s(self, stage: Stage) -> float:
        """Sending and receiving go on at once; what a node sends goes one after another."""
        machine = self._machine
        sizes = dict.fromkeys(stage.pairs(), 0)
        for pair, n in self._plan.traffic(stage):
            sizes[pair] += n
        sent: dict[tuple[int, int], float] = {}
        for pair, n in sizes.items():
            takes = (
                machine.latency_s + n / machine.network_bytes_s + (n > AT_ONCE) * machine.large_s
            )
            for key in enumerate(pair):
                sent[key] = sent.get(key, 0.0) + takes
        partials: dict[int, float] = {}
        for one in stage.partials:
            partials[one.target] = partials.get(one.target, 0.0) + machine.partial_s
        return max(sent.values(), default=0.0) + max(partials.values(), default=0.0)

    def compute_s(self, stage: Stage) -> float:
        """What is read and written."""
        loads = [_touched(self._plan, work, self._kept) for work in stage.work.values()]
        return max(loads, default=0) / self._machine.memory_bytes_s


def _kept(plan: ClusterPlan) -> frozenset[int]:
    """Buffers that are in memory at all: seen by somebody, or used in several stages."""
    used: dict[int, set[int]] = {}
    for number, stage in enumerate(plan.stages):
        for work in stage.work.values():
            for part in work:
                ended = isinstance(part, FoldEnd | FoldJoin)
                for view in part.request.outputs if ended else part.request.views:
                    used.setdefault(view.buffer, set()).add(number)
    dead = {info.index for info in plan.trace.buffers if info.dead}
    return frozenset(index for index, where in used.items() if index not in dead or len(where) > 1)


def _boxes(part: Work) -> tuple[Request, Iterable[Box]]:
    """A request, and at which of its indices the work is."""
    if isinstance(part, Run):
        return part.request, [part.box]
    if isinstance(part, Ramp):
        return part.request, [(part.part,)]
    return part.request, part.boxes if isinstance(part, FoldPart) else [part.band]


def _touched(plan: ClusterPlan, work: list[Work], kept: frozenset[int]) -> int:
    """Bytes that a node reads and writes in a stage."""
    total, here = 0, _Pass(plan, kept)
    for part in work:
        if not here.took(part):
            total += here.size_bytes
            here = _Pass(plan, kept)
            here.took(part)
    return total + here.size_bytes


class _Pass:
    """Operations that are fused, so that each of their arrays goes through memory once.

    They end where one reads what another has written at another index, or the reverse.
    """

    def __init__(self, plan: ClusterPlan, kept: frozenset[int]) -> None:
        self._plan, self._kept = plan, kept
        self._boxes: dict[int, list[Box]] = {}
        self._read: list[_Access] = []
        self._written: list[_Access] = []

    def _accesses(self, part: Work, views: Iterable[View]) -> Iterator[_Access]:
        request, boxes = _boxes(part)
        for view in views:
            if view.buffer in self._kept and 0 not in request.shape:
                layout = self._plan.placed[view.buffer].layout
                for box in boxes:
                    for touched in touched_by(layout, view, request.shape, box):
                        yield _Access(view.buffer, (view.offset, view.strides), touched)

    def _both(self, part: Work) -> tuple[list[_Access], list[_Access]]:
        request = part.request
        reads = () if isinstance(part, FoldEnd | FoldJoin) else request.reads
        writes = () if isinstance(part, FoldPart | FoldJoin) else request.outputs
        return list(self._accesses(part, reads)), list(self._accesses(part, writes))

    def took(self, part: Work) -> bool:
        """Whether it can be done in the same loop; then it is."""
        read, written = self._both(part)
        if (
            _apart(self._written, read)
            or _apart(self._read, written)
            or _apart(self._written, written)
        ):
            return False
        self._read += read
        self._written += written
        for one in (*read, *written):
            self._boxes.setdefault(one.buffer, []).append(one.box)
        return True

    @property
    def size_bytes(self) -> int:
        """Each element once."""
        total = 0
        for buffer, boxes in self._boxes.items():
            distinct = set(boxes)
            hull = math.prod(
                max(part.stop for part in axis) - min(part.start for part in axis)
                for axis in zip(*distinct, strict=True)
            )
            item = self._plan.placed[buffer].layout.item
            total += item * min(hull, sum(map(size, distinct)))
        return total


class _Access(NamedTuple):
    buffer: int
    view: tuple[int, tuple[int, ...]]
    box: Box


def _apart(before: list[_Access], now: list[_Access]) -> bool:
    """Whether some of the same elements are used at other indices."""
    return any(
        a.buffer == b.buffer and a.view != b.view and overlap(a.box, b.box)
        for a in before
        for b in now
    )
