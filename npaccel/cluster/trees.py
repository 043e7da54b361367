"""Partial results on their way to who has the result: along a tree, where they are from many nodes.

Some of the nodes collect what others have, join it, and send that on; so a node hears of a few
others at a time. What is joined are neighbours, in the order of the sum (folding.py), so it gets
less on the way, and has the bits that it has without a tree.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from npaccel.cluster.boxes import Box
from npaccel.cluster.costs import Machine
from npaccel.cluster.folding import Unit, counted, is_ordered, merged, order_of
from npaccel.cluster.plans import FoldJoin, PartialSums
from npaccel.ir.nodes import Request

__all__ = ["Level", "Tree", "Units", "tree_of"]

FAN_IN = Machine().fan_out
Units: TypeAlias = Mapping[tuple[int, int, Box], list[Unit]]  # by `PartialSums.key`


class Level(NamedTuple):
    """What is sent when a stage begins, and joined in it."""

    sums: list[PartialSums]
    joins: list[tuple[int, FoldJoin]]


class Tree(NamedTuple):
    """Levels, and what is sent behind them to who has the result."""

    levels: list[Level]
    sums: list[PartialSums]


def tree_of(request: Request, sums: list[PartialSums], units: Units) -> Tree:
    """The way of partial results. sums : without a tree."""
    levels, known = list[Level](), dict(units)
    while True:
        by_band: dict[tuple[int, Box], dict[int, list[PartialSums]]] = {}
        for one in sums:
            by_band.setdefault((one.target, one.band), {}).setdefault(one.source, []).append(one)
        if all(len(by_source) <= FAN_IN for by_source in by_band.values()):
            return Tree(levels, sums)
        levels.append(Level([], []))
        sums = []
        for by_source in by_band.values():
            found = sorted(by_source.values(), key=lambda mine: known[mine[0].key][:1])
            if len(found) <= FAN_IN:
                sums += itertools.chain(*found)
                continue
            for first in range(0, len(found), FAN_IN):
                group = [*itertools.chain(*found[first : first + FAN_IN])]
                one, join = _join(request, group, len(levels), known)
                levels[-1].sums.extend(mine._replace(target=one.source) for mine in group)
                levels[-1].joins.append((one.source, join))
                known[one.key] = [*join.units]
                sums.append(one)


def _join(
    request: Request, group: Sequence[PartialSums], level: int, units: Units
) -> tuple[PartialSums, FoldJoin]:
    """What is sent on of a group, and how that is made: by who needs it, if it is one of them."""
    target, band = group[0].target, group[0].band
    head = target if any(one.source == target for one in group) else group[0].source
    mine = merged(unit for one in group for unit in units[one.key])
    number = counted(order_of(request), mine) if is_ordered(request) else 1
    sent = group[0]._replace(source=head, of=band, number=number, level=level)
    return sent, FoldJoin(request, band, tuple(mine), level)
