"""How long a plan takes several nodes, by how long it took one: what is computed is shared out.

    one node took      begin + bytes / speed of memory + the rest, which is arithmetic
    several take       begin, messages, bytes and arithmetic of the node that has most of it

Bytes are those of the kernels that nodes plan for their parts; arithmetic goes by elements.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from npaccel.cluster.boxes import size
from npaccel.cluster.costs import Machine, Prediction, predict
from npaccel.cluster.nodes import Node
from npaccel.cluster.orders import part_of
from npaccel.cluster.plans import ClusterPlan, FoldEnd, FoldJoin, FoldPart, Ramp, Run, Work
from npaccel.runtime.programs.program import traffic

__all__ = ["Amount", "amount", "scaled"]


class Amount(NamedTuple):
    """What a node has to do: elements of operations, and bytes that go through memory."""

    elements: int
    memory_bytes: int


def amount(plan: ClusterPlan) -> Amount:
    """Of the node that has most to do."""
    totals = dict.fromkeys(range(plan.nodes), 0)
    for stage in plan.stages:
        for node, work in stage.work.items():
            totals[node] += _elements(work)
    most = max(totals, key=totals.__getitem__)
    layouts = {index: placed.layout for index, placed in plan.placed.items()}
    one = Node(most, plan.trace.buffers, layouts, uses=plan.uses)
    steps = one.prepare([part_of(stage, most).work for stage in plan.stages])
    return Amount(totals[most], sum(sum(traffic(step)) for step in steps))


def _elements(work: Iterable[Work]) -> int:
    total = 0
    for part in work:
        if isinstance(part, Run):
            total += size(part.box)
        elif isinstance(part, Ramp):
            total += len(part.part)
        elif isinstance(part, FoldPart):
            total += sum(map(size, part.boxes))
        else:
            assert isinstance(part, FoldEnd | FoldJoin)  # of a few values
    return total


def scaled(
    plan: ClusterPlan, alone: ClusterPlan, alone_s: float, machine: Machine, at_once: int
) -> Prediction:
    """What a plan takes, by what the same requests took one node.

    at_once : how many nodes can compute at a time; others share their cores.
    """
    left_s = max(0.0, alone_s - predict(alone, machine).begin_s)
    one, most = amount(alone), amount(plan)
    crowded = plan.nodes > 1
    memory_s = min(left_s, one.memory_bytes / machine.memory_bytes_s)
    found_s = most.elements / max(1, one.elements) * (left_s - memory_s)
    found_s *= machine.computes if crowded else 1.0
    if memory_s:
        share = most.memory_bytes / one.memory_bytes * memory_s
        found_s += share * (machine.streams if crowded else 1.0)
    found_s *= max(1.0, plan.nodes / at_once)
    return predict(plan, machine)._replace(compute_s=found_s)
