"""What one node has and many need goes along a tree: who has got it sends it on.

    stage   node 0 ──► all others            levels   0 ──► 4, 8, 12
            at once: as many messages                 0 ──► 1, 2, 3; 4 ──► 5, 6, 7; 8 ──► ...

The levels are stages without work before the one that needs it. Nodes are numbered from the sender
on, so where each has something for all, what several send on between two nodes is one message.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from npaccel.cluster.boxes import Box, overlap
from npaccel.cluster.costs import Machine, Model
from npaccel.cluster.plans import ClusterPlan, Stage, Transfer

__all__ = ["spread"]

FAN_OUTS = (2, 4, 8)  # to how many, and itself, a node has it come in a level
STAGE_S = 200e-6  # what a stage takes beside its messages and work
FEWEST = 4  # nodes that need it
Sent: TypeAlias = tuple[int, int, Box]  # source, buffer, box


class _Group(NamedTuple):
    """What one node sends to many: to whom."""

    sent: Sent
    targets: list[int]


def spread(plan: ClusterPlan) -> ClusterPlan:
    """The plan with trees wherever that takes less time."""
    groups = [_groups(stage) for stage in plan.stages]
    if not any(groups):
        return plan
    model = Model(plan, Machine())
    stages = [
        one
        for stage, found in zip(plan.stages, groups, strict=True)
        for one in (_best(stage, found, model) if found else [stage])
    ]
    return replace(plan, stages=stages)


def _groups(stage: Stage) -> list[_Group]:
    by_sent: dict[Sent, list[int]] = {}
    for one in stage.transfers:
        by_sent.setdefault((one.source, one.buffer, one.box), []).append(one.target)
    return [
        _Group(sent, targets)
        for sent, targets in by_sent.items()
        if len(set(targets)) >= FEWEST and not _sends_other(stage, sent, targets)
    ]


def _sends_other(stage: Stage, sent: Sent, targets: Sequence[int]) -> bool:
    """Whether one of those who get it sends something else from the same place."""
    _, buffer, box = sent
    return any(
        one.buffer == buffer and one.source in targets and overlap(one.box, box)
        for one in stage.transfers
    )


def _best(stage: Stage, groups: Sequence[_Group], model: Model) -> list[Stage]:
    """The stage, with levels before it or without, whatever takes least."""
    apart = [[stage], *(_along_trees(stage, groups, n) for n in FAN_OUTS)]
    return min(apart, key=lambda s: sum(map(model.messages_s, s)) + len(s) * STAGE_S)


def _along_trees(stage: Stage, groups: Sequence[_Group], fan_out: int) -> list[Stage]:
    gone = {group.sent for group in groups}
    rest = [one for one in stage.transfers if (one.source, one.buffer, one.box) not in gone]
    levels: list[list[Transfer]] = []  # the last is first
    for group in groups:
        for number, transfer in _tree(group, fan_out):
            while len(levels) <= number:
                levels.append([])
            levels[number].append(transfer)
    before = [Stage(transfers=one) for one in reversed(levels[1:])]
    return [*before, replace(stage, transfers=[*rest, *levels[0]])]


def _tree(group: _Group, fan_out: int) -> Iterator[tuple[int, Transfer]]:
    """The messages of a tree, and how many levels are behind each."""
    source, buffer, box = group.sent
    nodes = sorted({source, *group.targets})
    first = nodes.index(source)
    nodes = nodes[first:] + nodes[:first]
    for place in range(1, len(nodes)):
        level, step = 0, 1
        while place % (step * fan_out) == 0:
            level, step = level + 1, step * fan_out
        before = place - place % (step * fan_out)
        yield level, Transfer(nodes[before], nodes[place], buffer, box)
