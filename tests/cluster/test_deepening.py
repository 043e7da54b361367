"""Several sweeps in one stage: one message from each neighbour, and the bits of one process."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from clusters import both, place
from test_planner import SHAPE, heat, numbers

import npaccel
from npaccel import Map, _native
from npaccel.cluster.boxes import hull, size, without

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("deferred")]
NODES = (1, 2, 4, 8)


@pytest.fixture(autouse=True)
def no_kernels(setting: Any) -> None:
    """Bits are the same with and without them, which takes less time."""
    setting("tiering", "off")


def maps(nodes: int) -> list[Map]:
    return [
        Map.block(SHAPE, nodes),
        Map.block(SHAPE, nodes, axis=1),
        Map.grid(SHAPE, (max(1, nodes // 2), min(2, nodes))),
        Map.block_cyclic(SHAPE, nodes, (16, 20)),
        Map.row_block(SHAPE, nodes),
        Map.block(SHAPE, nodes, weights=range(1, nodes + 1)),
    ]


def moved(x: Any, rows: int, columns: int) -> Any:
    """All but the two outermost elements at each end, moved by some rows and columns."""
    n, m = x.shape
    return x[2 + rows : n - 2 + rows, 2 + columns : m - 2 + columns]


# ------------------------------------------------------------------------------- what is sent


@pytest.mark.parametrize("nodes", NODES)
def test_a_halo_is_as_deep_as_there_are_sweeps(nodes: int) -> None:
    made = Map.block(SHAPE, nodes)
    x, y = place(numbers(1), made), place(numbers(2), made)

    def sweeps() -> Any:
        for _ in range(2):
            heat(x, y)
            heat(y, x)
        return x

    plan = both(sweeps, x, y)
    assert len(plan.stages) == 1 and plan.messages == 2 * (nodes - 1)
    # Four rows of x, and of y the elements at the ends of three, which no sweep writes.
    assert plan.moved_bytes <= plan.messages * 8 * (4 * 60 + 3 * 60)


def test_what_nodes_have_is_not_sent_again() -> None:
    """Coefficients, in sweeps before and behind a sum, which ends a stage."""
    made = Map.block(SHAPE, 2)
    x, c = place(numbers(1), made), place(numbers(2), made)
    number = -1

    def program() -> Any:
        nonlocal number
        for _ in range(2):
            for _ in range(2):
                moved(x, 0, 0)[...] = moved(x, 1, 0) * moved(c, 1, 0) + moved(x, -1, 0)
            x[...] = x / np.maximum.reduce(x, axis=None, keepdims=True)
        number = _native.place(c)[0]
        return x

    plan = both(program, x, c)
    sent = [[m for m in stage.transfers if m.buffer == number] for stage in plan.stages]
    assert sent[0] and not any(sent[1:]) and len(sent) > 3


def test_boxes_without_others() -> None:
    a = (range(0, 12, 2), range(3, 9))
    b = (range(3, 9), range(5, 20))
    rest = list(without(a, b))
    assert sum(map(size, rest)) == size(a) - 3 * 4
    points = {(i, j) for box in rest for i in box[0] for j in box[1]}
    assert points == {(i, j) for i in a[0] for j in a[1] if not (i in b[0] and j in b[1])}
    assert list(without((), ())) == [] and list(without(b, (range(9), range(5)))) == [b]
    assert hull(a, b) == (range(0, 11), range(3, 20))


# ------------------------------------------------------------------------------------ bits


def _sweep(rng: Any, arrays: list[Any]) -> None:
    """A statement that reads neighbours of what was written."""
    x, y, z = (arrays[k] for k in rng.integers(len(arrays), size=3))
    kind, rows, columns = rng.integers(9), *rng.integers(-2, 3, 2)
    if kind < 2:
        moved(x, 0, 0)[...] = moved(y, rows, columns) * 0.5 + moved(z, -rows, 0)
    elif kind == 2:
        heat(x, y)
    elif kind == 3:
        value = moved(x, 0, rows) - moved(y, columns, 0)
        moved(x, 0, 0)[...] += value * 0.25
    elif kind == 4:
        np.add(
            moved(x, 0, 0), moved(y, rows, columns), out=moved(z, 0, 0), where=moved(x, 0, 1) > 0
        )
    elif kind == 5:
        x[1:-1:2, 1:-1] = (y[:-2:2, 1:-1] + z[2::2, 1:-1]) * 0.5
    elif kind == 6:
        x[5:40, 7:] = y[6:41, 6:-1] - 1.0
    elif kind == 7:
        arrays.append(np.where(moved(x, 0, 0) > 0, moved(y, rows, 0), moved(z, 0, columns)))
        x[2:-2, 2:-2] *= arrays.pop()
    else:
        y[:, 0], y[:, -1] = y[:, 1], x[:, -2]
        y[-1] = x[-2]


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(n, marks=pytest.mark.slow) for n in range(4, 40))]
)
def test_random_sweeps(seed: int, nodes: int) -> None:
    rng = np.random.default_rng(100 * seed + nodes)
    kinds = maps(nodes)
    chosen = [kinds[rng.integers(len(kinds))]] * 3
    if seed % 3 == 0:
        chosen = [kinds[k] for k in rng.integers(len(kinds), size=3)]
    arrays = [place(numbers(seed + k), made) for k, made in enumerate(chosen)]

    def program() -> Any:
        for _ in range(8):
            _sweep(rng, arrays)
            if rng.random() < 0.1:
                arrays[0] += np.add.reduce(arrays[1], axis=int(rng.integers(2)), keepdims=True)
        heat(arrays[0], arrays[1])
        return tuple(arrays)

    with np.errstate(all="ignore"):
        both(program, *arrays)


@pytest.mark.parametrize("nodes", [2, 4])
def test_sums_and_scans_between_sweeps(nodes: int) -> None:
    made = Map.block(SHAPE, nodes)
    x, y = place(numbers(1), made), place(numbers(2), made)

    def program() -> Any:
        heat(x, y)
        heat(y, x)
        total = np.add.reduce(x, axis=0)
        y[1:-1] = np.cumsum(x, axis=0)[1:-1] * 1e-3 + total
        heat(y, x)
        heat(x, y)
        top = np.maximum.reduce(y, axis=None, keepdims=True)
        return y / top, total

    both(program, x, y)
    npaccel.evaluate()
