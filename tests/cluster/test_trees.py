"""Partial results along a tree: the bits of one process, whatever the tree, and few at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from clusters import both, place
from test_planner import numbers

import npaccel
from npaccel import Map
from npaccel.cluster import folding, trees
from npaccel.cluster.folding import Unit, merged
from npaccel.cluster.plans import ClusterPlan
from npaccel.cluster.recorded import plan_pending
from npaccel.cluster.simulation import Simulation

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("deferred")]
SHAPES = [(300, 700), (700, 300), (40, 9, 33), (400_000,), (9, 33000)]


@pytest.fixture(autouse=True)
def no_kernels(setting: Any) -> None:
    """Bits are the same with and without them, which takes less time."""
    setting("tiering", "off")


def most_heard(plan: ClusterPlan) -> int:
    """From how many others a node gets partial results in a stage."""
    counts = [
        Counter(target for source, target in {p[:2] for p in stage.partials} if source != target)
        for stage in plan.stages
    ]
    return max(max(count.values(), default=0) for count in counts)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "nodes", [8, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3, 4))]
)
@pytest.mark.parametrize("dtype", ["f8", "i4", pytest.param("f2", marks=pytest.mark.slow)])
def test_reductions(
    shape: tuple[int, ...], nodes: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "FAN_IN", 2)
    made = [Map.block(shape, nodes), Map.block(shape, nodes, axis=-1), Map.row_block(shape, nodes)]
    for one in made[: 1 if len(shape) == 1 else 3]:
        x = place(numbers(nodes, shape, dtype), one)
        for axis in (*range(len(shape)), None):

            def program(x: Any = x, axis: Any = axis) -> Any:
                top = np.maximum.reduce(x, axis=axis, keepdims=True)
                return top, np.add.reduce(x, axis=axis, keepdims=True), x - top

            plan = both(program)
            assert not plan.alone and (axis is not None or most_heard(plan) < 3)
            npaccel.evaluate()


def test_messages_to_a_node_are_few_with_many() -> None:
    """Of 300 nodes: each hears of fifteen others, three times."""
    x = place(numbers(1, (900, 20), "i8"), Map.block((900, 20), 300))
    plan = both(lambda: np.add.reduce(x, axis=None, keepdims=True))
    assert most_heard(plan) <= 16 and len(plan.stages) == 4
    assert plan.messages == 299 and plan.moved_bytes == 299 * 8


def test_what_is_joined_gets_less() -> None:
    n = 20 * folding.CHUNK
    x = place(numbers(1, (n,)), Map.block((n,), 20))
    plan = both(lambda: np.add.reduce(x, keepdims=True))
    assert len(plan.stages) == 3 and most_heard(plan) == 15
    last = [one for one in plan.stages[-1].partials if one.source != one.target]
    assert [one.number for one in last] == [1]  # of four chunks; sixteen are another one


def test_overflow_where_results_are_joined_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "FAN_IN", 2)
    values = np.zeros(8 * folding.CHUNK)
    values[:: folding.CHUNK] = 1e308
    x = place(values, Map.block(values.shape, 8))
    npaccel.evaluate()
    with pytest.warns(RuntimeWarning, match="overflow"):
        total = np.add.reduce(x, keepdims=True)
        plan, contents = plan_pending()
        simulation = Simulation(plan, {k: bytes(read()) for k, read in contents.items()})
        simulation.run()
        npaccel.evaluate(total)
    assert len(plan.stages) == 4
    assert simulation.raised == {0: folding.OVERFLOW}


def test_units_with_neighbours() -> None:
    chunks = [Unit(0, 2, 3, 5), Unit(0, 2, 0, 3), Unit(2, 3, 0, 5), Unit(4, 6, 0, 5)]
    assert merged(chunks) == [Unit(0, 3, 0, 5), Unit(4, 6, 0, 5)]
