"""Scans that go from node to node: one process's bits, and little that is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from clusters import Array, both, place

import npaccel
from npaccel import Map
from npaccel.cluster.recorded import plan_pending
from npaccel.cluster.simulation import Simulation

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("deferred")]
SHAPE = (480, 160)
NODES = 3


@pytest.fixture(autouse=True)
def no_kernels_here(setting: Any) -> None:
    """Nodes interpret kernels; what they are compared with is NumPy's loops."""
    setting("tiering", "off")


def numbers(dtype: str = "f8", shape: tuple[int, ...] = SHAPE) -> Array:
    rng = np.random.default_rng(7)
    found = rng.normal(size=shape)
    if dtype[0] == "c":
        return (found + 1j * rng.normal(size=shape)).astype(dtype)
    return (found * 9).astype(dtype)


MAPS: dict[str, Callable[[int], Map]] = {
    "rows": lambda n: Map.block(SHAPE, n),
    "columns": lambda n: Map.block(SHAPE, n, axis=1),
    "within rows": lambda n: Map.row_block(SHAPE, n),
    "grid": lambda n: Map.grid(SHAPE, (2, 2)),
}


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", MAPS)
def test_along_any_axis(name: str, axis: int) -> None:
    made = MAPS[name](NODES)
    x = place(numbers(), made)
    plan = both(lambda: np.cumsum(x, axis=axis))
    assert not plan.alone
    along = {("rows", 0): 2, ("columns", 1): 2, ("rows", 1): 0, ("columns", 0): 0}
    if (name, axis) in along:
        slab = 8 * SHAPE[1 - axis]
        assert plan.messages == along[name, axis]
        assert plan.moved_bytes == slab * plan.messages


@pytest.mark.parametrize("dtype", ["f4", "f2", "i4", "u1", "c16", "?"])
def test_sums_of_each_kind(dtype: str) -> None:
    x = place(numbers(dtype), MAPS["rows"](NODES))
    plan = both(lambda: np.cumsum(x, axis=0))
    assert not plan.alone and plan.messages == 2


@pytest.mark.parametrize("scan", [np.multiply, np.maximum, np.fmin, np.logical_and], ids=str)
def test_other_operations(scan: np.ufunc) -> None:
    x = place(np.abs(numbers()) * 0.1, MAPS["rows"](NODES))
    both(lambda: scan.accumulate(x, axis=0))


def test_in_place_and_between_others() -> None:
    """What is scanned is computed before, in the same flush; so is what comes of it."""
    x, y = place(numbers(), MAPS["rows"](NODES)), place(numbers("f4"), MAPS["columns"](NODES))

    def program() -> Any:
        x[...] = np.sin(x) + y
        np.cumsum(x, axis=0, out=x)
        t = np.cumsum(x * 2.0, axis=0) + 1.0  # nobody sees either of them
        x[1:] -= t[:-1]
        return (
            np.cumprod(1.0 + t * 1e-9, axis=0),
            np.cumsum(np.cumsum(y, axis=1), axis=0),
            t.sum(axis=0),
        )

    plan = both(program, x, y)
    assert not plan.alone


def test_one_line() -> None:
    n = 200_000
    x = place(numbers(shape=(n,)), Map.block((n,), 5))
    plan = both(lambda: np.cumsum(x))
    assert (plan.messages, plan.moved_bytes) == (4, 32)


def test_another_type_of_result_is_left_to_one_node() -> None:
    """It is rounded once more, so nobody can go on from it."""
    x = place(numbers(), MAPS["rows"](NODES))
    out = place(numbers("f4"), MAPS["rows"](NODES))
    np.cumsum(x, axis=0, out=out)
    npaccel.evaluate()
    both(lambda: np.add.accumulate(x, axis=0, dtype="f4"))


def test_many_short_parts_are_left_to_one_node() -> None:
    """A message for each would take longer than to move all of it."""
    x = place(numbers(), Map.block_cyclic(SHAPE, NODES, (4, 160)))
    plan = both(lambda: np.cumsum(x, axis=0))
    assert len(plan.alone) == 1 and plan.messages <= 4


def test_what_overflows_is_told() -> None:
    values = numbers()
    values[300:, 5] = 1e308
    x = place(values, MAPS["rows"](NODES))
    with pytest.warns(RuntimeWarning, match="overflow encountered in accumulate"):
        y = np.cumsum(x, axis=0)
        plan, contents = plan_pending(None)
        simulation = Simulation(plan, {k: bytes(read()) for k, read in contents.items()})
        npaccel.evaluate(y)
    simulation.run()
    assert not plan.alone and set(simulation.raised.values()) == {2}
