"""What one node has and many need: along a tree, with the bits of one process."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from clusters import both, place
from test_planner import numbers

import npaccel
from npaccel import Map
from npaccel.cluster import planner
from npaccel.cluster.boxes import contains
from npaccel.cluster.plans import ClusterPlan

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("deferred")]
NODES = 40
SHAPE = (80, 300)


@pytest.fixture(autouse=True)
def no_kernels(setting: Any) -> None:
    """Bits are the same with and without them, which takes less time."""
    setting("tiering", "off")


def most_sent(plan: ClusterPlan) -> int:
    """To how many others a node sends in a stage."""
    counts = [Counter(source for source, _ in stage.pairs()) for stage in plan.stages]
    return max(max(count.values(), default=0) for count in counts)


def checked(plan: ClusterPlan) -> ClusterPlan:
    """Who sends something that it does not own has got it in a stage before."""
    held: dict[tuple[int, int], list[Any]] = {}
    for stage in plan.stages:
        for one in stage.transfers:
            owners = {node for node, _ in plan.placed[one.buffer].split(one.box)}
            there = held.get((one.buffer, one.source), ())
            assert owners == {one.source} or any(contains(box, one.box) for box in there)
        for one in stage.transfers:
            held.setdefault((one.buffer, one.target), []).append(one.box)
    return plan


@pytest.mark.parametrize("owner", [0, 7, NODES - 1])
def test_a_row_for_all(owner: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = place(numbers(1, SHAPE), Map.block(SHAPE, NODES))

    def program() -> Any:
        return x * x[2 * owner] - x[2 * owner + 1]

    plan = checked(both(program))
    npaccel.evaluate()
    monkeypatch.setattr(planner, "spread", lambda plan: plan)
    apart = both(program)
    assert plan.messages == apart.messages == NODES - 1
    assert plan.moved_bytes == apart.moved_bytes
    assert most_sent(apart) == NODES - 1 and len(apart.stages) == 1
    assert most_sent(plan) <= 7 and 1 < len(plan.stages) <= 4


def test_a_sum_for_all() -> None:
    """There along one tree, and back along another."""
    x = place(numbers(2, SHAPE), Map.block(SHAPE, NODES))
    plan = checked(both(lambda: x / np.add.reduce(x, axis=None, keepdims=True)))
    assert not plan.alone and most_sent(plan) <= 7
    assert plan.messages == 2 * (NODES - 1)


def test_what_all_send_to_all_shares_messages() -> None:
    """Of each node a part of the row: two of a node in each level, not thirty-nine."""
    shape = (NODES, 100 * NODES)
    x = place(numbers(3, shape), Map.block(shape, NODES))
    y = place(numbers(4, shape[1:]), Map.block(shape[1:], NODES))
    plan = checked(both(lambda: x * y))
    assert plan.moved_bytes == 8 * shape[1] * (NODES - 1)
    assert most_sent(plan) <= 7 and plan.messages <= NODES * 3 * 7 < NODES * (NODES - 1)


def test_some_of_the_nodes() -> None:
    """And what is sent is written in between."""
    x = place(numbers(5, SHAPE), Map.block(SHAPE, NODES))
    y = place(numbers(6, SHAPE), Map.block(SHAPE, NODES))

    def program() -> Any:
        first = y[10:70] * x[3]
        x[3] = first[0] + y[3]
        return first, y[20:] + x[3] * x[2:2:-1][:0].sum(), x[3] * 2.0

    checked(both(program, x))


def test_few_are_sent_to_each() -> None:
    shape = (6, 3000)
    x = place(numbers(7, shape), Map.block(shape, 6))
    plan = both(lambda: x * x[0])
    assert len(plan.stages) == 1 and most_sent(plan) == 5
