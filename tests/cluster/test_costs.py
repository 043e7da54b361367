"""What the model says of plans whose cost can be told by hand; the page's pictures."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from npaccel import Map
from npaccel.cluster import planner
from npaccel.cluster.costs import Machine, predict
from npaccel.cluster.placing import Layout, Placed, dense_strides
from npaccel.cluster.planner import plan_requests
from npaccel.cluster.scaling import amount, scaled
from npaccel.cluster.wires import AT_ONCE

ROOT = Path(__file__).parent.parent.parent
sys.path.append(str(ROOT / "bench"))
import weak_scaling as scaling  # noqa: E402

SIDE = scaling.SIDE
MIB_512 = 8 * SIDE * SIDE
MACHINE = Machine(memory_bytes_s=25e9, network_bytes_s=1.25e9, latency_s=1e-3, order_s=1e-5)


def planned(make, counts: tuple[int, int]):
    shape = (SIDE * counts[0], SIDE * counts[1])
    layout = Layout(shape, dense_strides(shape, 8), 0, 8)
    placed = Placed.by(layout, Map.grid(shape, counts))
    return plan_requests(make(shape).trace(), {0: placed, 1: placed}, counts[0] * counts[1])


@pytest.fixture
def flat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages are not made one."""
    monkeypatch.setattr(planner, "deepened", lambda plan: plan)


def test_temporaries_cost_nothing() -> None:
    found = predict(planned(scaling.elementwise, (1, 1)), MACHINE)
    assert found.compute_s == pytest.approx(2 * MIB_512 / 25e9)
    assert (found.messages_s, found.begin_s) == (0, 1e-5)


@pytest.mark.usefixtures("flat")
def test_a_sweep_is_a_pass_and_two_halos() -> None:
    """Ten sweeps on four nodes in a row: the inner ones send to two neighbours."""
    found = predict(planned(scaling.stencil, (4, 1)), MACHINE)
    sweep = 2 * MIB_512 / 25e9
    assert found.compute_s == pytest.approx(10 * sweep, rel=0.01)
    halo = 2 * (1e-3 + 8 * (SIDE - 2) / 1.25e9)
    assert found.messages_s == pytest.approx(10 * halo, rel=1e-6)
    assert found.begin_s == pytest.approx(1e-3 + 4e-5)
    assert found.total_s == pytest.approx(sum(found))


def test_of_many_nodes_some_tell_the_others() -> None:
    """The driver 32 of a thousand, each of these 32."""
    few, many = (predict(planned(scaling.elementwise, (n, 1)), MACHINE) for n in (16, 1000))
    assert few.begin_s == pytest.approx(1e-3 + 16e-5)
    assert many.begin_s == pytest.approx(2e-3 + (32 + 32) * 1e-5)


def test_what_one_node_took_is_shared() -> None:
    """Four nodes on two cores take half of it, and their messages."""
    one, four = (planned(scaling.elementwise, (n, 1)) for n in (1, 4))
    machine = Machine(flush_s=1e-3, order_s=1e-4)
    found = scaled(four, one, 0.4 + 1e-3 + 1e-4, machine, 2)
    assert found.compute_s == pytest.approx(2 * 0.4)  # each has as much to do as one had
    assert found.begin_s == pytest.approx(1e-3 + 4e-4 + machine.latency_s)
    assert scaled(four, one, 0.0, machine, 2).compute_s == 0


def test_what_is_shared_shrinks() -> None:
    """Bytes and arithmetic of a node's part; memory and cores take longer where all are at it."""
    one = planned(scaling.elementwise, (1, 1))
    shape = (SIDE, SIDE)
    placed = Placed.by(Layout(shape, dense_strides(shape, 8), 0, 8), Map.block(shape, 2))
    two = plan_requests(scaling.elementwise(shape).trace(), {0: placed, 1: placed}, 2)
    assert amount(one).memory_bytes == 2 * amount(two).memory_bytes == 2 * MIB_512
    assert amount(one).elements == 2 * amount(two).elements
    machine = Machine(order_s=1e-4, streams=1.5, computes=1.1)
    memory_s = 2 * MIB_512 / machine.memory_bytes_s
    found = scaled(two, one, 3 * memory_s + 1e-4, machine, 2)
    assert found.compute_s == pytest.approx(1.5 * memory_s / 2 + 1.1 * memory_s)
    bound = scaled(two, one, memory_s / 2 + 1e-4, machine, 2)  # nothing but memory
    assert bound.compute_s == pytest.approx(1.5 * memory_s / 4)


@pytest.mark.usefixtures("flat")
def test_large_messages_and_partial_results_cost_more() -> None:
    plan = planned(scaling.stencil, (4, 1))
    rows = 8 * (SIDE - 2)  # bytes of a message
    plain, large = (predict(plan, Machine(large_s=s)).messages_s for s in (0.0, 1e-3))
    assert rows > AT_ONCE and large - plain == pytest.approx(10 * 2 * 1e-3)
    total = planned(scaling.total, (4, 1))
    none, some = (predict(total, Machine(partial_s=s)).messages_s for s in (0.0, 1e-3))
    assert some - none == pytest.approx(4 * 1e-3)


@pytest.mark.usefixtures("flat")
@pytest.mark.parametrize("counts", [(2, 1), (1, 2), (4, 4)])
def test_no_temporary_crosses_a_stage(counts: tuple[int, int]) -> None:
    plan = planned(scaling.stencil, counts)
    assert len(plan.stages) == 10
    assert predict(plan, MACHINE).compute_s == pytest.approx(10 * 2 * MIB_512 / 25e9, rel=0.01)


@pytest.mark.parametrize("counts", [(2, 1), (4, 1), (4, 4)])
def test_stages_are_one_where_that_is_cheaper(
    counts: tuple[int, int], request: pytest.FixtureRequest
) -> None:
    deep = planned(scaling.stencil, counts)
    request.getfixturevalue("flat")
    apart = planned(scaling.stencil, counts)
    assert len(apart.stages) == 10 > len(deep.stages)
    assert predict(deep, Machine()).total_s < predict(apart, Machine()).total_s
    assert 2 * deep.messages < apart.messages
    assert counts == (4, 4) or len(deep.stages) > 1  # rows are long: ten at once would be dear


def test_the_pages_pictures_are_what_maps_draw() -> None:
    made = {
        "row_block": Map.row_block((6, 6), 4),
        "block_cyclic": Map.block_cyclic((6, 6), 4, (2, 2)),
        "grid": Map.grid((60, 90), (2, 3)),
        "split": Map.split((36, 36), [(16,), (10, 28)], 3, assign="cyclic"),
    }
    for name, one in made.items():
        assert (ROOT / f"docs/maps/{name}.svg").read_text() == one._repr_svg_() + "\n"
