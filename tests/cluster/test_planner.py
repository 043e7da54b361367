"""Plans run on nodes that share nothing: the bits of one process, and the messages as foreseen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from clusters import both, place

import npaccel
from npaccel import Map, MapError
from npaccel.cluster.recorded import plan_pending

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("deferred")]
SHAPE = (96, 60)  # 16 KiB and less are copied when they are recorded, and have no map then
MAPS = {
    "rows": Map.block(SHAPE, 4),
    "columns": Map.block(SHAPE, 3, axis=1),
    "grid": Map.grid(SHAPE, (2, 2)),
    "cyclic": Map.block_cyclic(SHAPE, 4, (32, 20)),
    "flat": Map.row_block(SHAPE, 5),
    "irregular": Map.split(SHAPE, [(5, 6, 50), (1, 17)], 3, assign="cyclic"),
    "pieces": Map.from_segments(
        SHAPE, [(0, (0, 0), (20, 60)), (2, (20, 0), (76, 9)), (1, (20, 9), (76, 51))]
    ),
    "unequal": Map.block(SHAPE, 3, weights=(4, 2, 1)),
}


@pytest.fixture(autouse=True)
def no_kernels(setting: Any) -> None:
    """Bits are the same with and without them, which takes less time."""
    setting("tiering", "off")


@pytest.fixture(params=MAPS)
def made(request: pytest.FixtureRequest) -> Map:
    return MAPS[request.param]


def numbers(seed: int = 0, shape: tuple[int, ...] = SHAPE, dtype: str = "f8") -> Any:
    values = np.random.default_rng(seed).normal(size=shape)
    return values.astype(dtype) if dtype[0] == "f" else (100 * values).astype(dtype)


# ------------------------------------------------------------------------------ element by element


def test_element_wise_programs_send_nothing(made: Map) -> None:
    x, y = place(numbers(1), made), place(numbers(2), made)

    def program() -> Any:
        z = np.sin(x) * y + np.exp(-(x**2)) / (1 + y)
        w = np.where(z > 0.5, np.sqrt(abs(z)), x - 3)
        return z, np.hypot(w, y).astype("f4"), (z > w)

    plan = both(program)
    assert (plan.messages, len(plan.stages), plan.alone) == (0, 1, ())


def test_in_place_and_masked(made: Map) -> None:
    x, y = place(numbers(1), made), place(numbers(2), made)

    def program() -> Any:
        nonlocal x
        x += y
        np.multiply(x, 2.0, out=x, where=y > 0)
        x[::2] -= 1
        x[:, 3] = y[:, 3] * 5
        return y * x

    assert both(program, x).messages == 0


def test_several_results(made: Map) -> None:
    x = place(numbers(1), made)
    assert both(lambda: (*np.modf(x), *np.frexp(x), *np.divmod(x, 0.7))).messages == 0


@pytest.mark.parametrize("dtype", ["f4", "i4", "u1", "i8", "f2", "c16"])
def test_other_types(made: Map, dtype: str) -> None:
    values = numbers(1) * 30 if dtype != "c16" else numbers(1) + 1j * numbers(2)
    x = place(values.astype(dtype), made)

    def program() -> Any:
        z = x * x + dtype_one
        return z, z.astype("f8") if dtype != "c16" else z.real * 2

    dtype_one = np.dtype(dtype).type(1)
    both(program)


def test_broadcasting_sends_what_is_small(made: Map) -> None:
    x, row = place(numbers(1), made), numbers(2, (60,))

    def program() -> Any:
        shared = npaccel.asarray(row) * 2
        return x * shared + 1

    plan = both(program)
    assert plan.moved_bytes <= 8 * 60 * plan.nodes * 2


# ---------------------------------------------------------------------------------------- stencils


def heat(x: Any, y: Any) -> None:
    inner = (slice(1, -1), slice(1, -1))
    up, down, left, right = x[:-2, 1:-1], x[2:, 1:-1], x[1:-1, :-2], x[1:-1, 2:]
    y[inner] = x[inner] + 0.1 * (up + down + left + right - 4 * x[inner])


def test_stencils_send_halos(made: Map) -> None:
    x, y = place(numbers(1), made), place(numbers(2), made)
    plan = both(lambda: (heat(x, y), y)[1], y)
    assert not plan.alone and len(plan.stages) == 1


def test_halos_of_rows_are_counted() -> None:
    """Two rows of 58 elements between each of four nodes and its neighbour."""
    x, y = place(numbers(1), MAPS["rows"]), place(numbers(2), MAPS["rows"])
    plan = both(lambda: (heat(x, y), y)[1], x, y)
    assert len(plan.stages) == 1 and not plan.alone
    assert plan.messages == 2 * 3
    assert plan.moved_bytes == 2 * 3 * 58 * 8


def test_messages_do_not_grow_with_operations() -> None:
    """30 operations and 300, on 256 segments and four nodes: the same messages."""
    shape = (256, 64)
    made = Map.block_block(shape, 4, (16, 4))
    x = place(numbers(1, shape), made)
    assert len(made) == 256

    def chain(n: int) -> Any:
        z = x
        for k in range(n):
            z = z * 0.5 + (x[::1] if k % 3 else 1.0)
        y = npaccel.asarray(np.zeros(shape)) + z
        y[1:] += z[:-1]
        return y

    few = both(lambda: chain(3))
    npaccel.evaluate()
    z = chain(30)
    many = plan_pending().plan
    del z
    assert len(many.trace.requests) > 60 and len(few.trace.requests) < 20
    assert few.messages == many.messages <= 3 * 2 + 3
    assert few.moved_bytes == many.moved_bytes


def test_along_other_axes_and_backwards(made: Map) -> None:
    x, y = place(numbers(1), made), place(numbers(2), made)

    def program() -> Any:
        z = x[::-1] + y
        w = z[2:, ::2] - z[:-2, 1::2]
        return z, w, np.roll(x, 3, axis=1), x[::3, ::-2] * 2

    both(program)


# -------------------------------------------------------------------------------------- reductions


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "i8", "c16"])
def test_sums(axis: Any, dtype: str) -> None:
    for made in MAPS.values():
        x = place(numbers(1).astype(dtype), made)
        plan = both(lambda x=x: np.add.reduce(x, axis=axis, keepdims=True))
        assert not plan.alone


@pytest.mark.parametrize("shape", [(300, 700), (700, 300), (9, 33000), (40000, 6), (9, 33, 600)])
@pytest.mark.parametrize("kind", ["rows", "last", "flat"])
def test_large_sums_in_chunks(shape: tuple[int, ...], kind: str) -> None:
    made = {
        "rows": Map.block(shape, 3),
        "last": Map.block(shape, 3, axis=-1),
        "flat": Map.row_block(shape, 3),
    }[kind]
    x = place(numbers(1, shape), made)
    for axis in (*range(len(shape)), None):
        plan = both(lambda axis=axis: np.add.reduce(x * x, axis=axis, keepdims=True))
        assert not plan.alone
        if axis is None and kind == "rows" and shape[-1] > 512:
            assert plan.moved_bytes < 1000  # a few partial sums from each node
        npaccel.evaluate()


def test_a_sum_in_one_axis_that_is_cut_in_chunks() -> None:
    n = 200_000
    x = place(numbers(1, (n,)), Map.row_block((n,), 3))
    plan = both(lambda: np.add.reduce(x, keepdims=True))
    # Who has a chunk's first element gets the rest: less than a chunk, over each of two borders.
    assert 0 < plan.moved_bytes < 2 * 32768 * 8 + 1000


@pytest.mark.parametrize("order", ["F", "swapped"])
def test_sums_of_other_layouts(order: str) -> None:
    values = numbers(1, (40, 30, 50))
    own = npaccel.evaluate(npaccel.asarray(np.asfortranarray(values)) * 1.0)
    assert own.flags.f_contiguous
    x = npaccel.agile(own, Map.grid((40, 30, 50), (2, 1, 2)))
    y = x if order == "F" else x.swapaxes(0, 2)
    for axis in (0, 2, (0, 1), None):
        both(lambda axis=axis: np.add.reduce(y, axis=axis, keepdims=True))
        npaccel.evaluate()


@pytest.mark.parametrize("op", ["maximum", "minimum", "logical_or", "bitwise_xor", "multiply"])
def test_exact_reductions_send_partial_results(op: str) -> None:
    for made in MAPS.values():
        x = place(numbers(1, dtype="i8"), made)
        both(lambda x=x: tuple(getattr(np, op).reduce(x, axis=axis) for axis in (0, 1)))
        whole = lambda x=x: getattr(np, op).reduce(x, axis=None, keepdims=True)  # noqa: E731
        both(whole)


def test_partial_results_are_few() -> None:
    x = place(numbers(1), MAPS["rows"])
    plan = both(lambda: np.max(x, axis=0))
    assert (plan.messages, plan.moved_bytes) == (3, 3 * 60 * 8)
    assert len(plan.stages) == 2


def test_reductions_are_finished_together(made: Map) -> None:
    x = place(numbers(1), made)

    def program() -> Any:
        high, low, total = x.max(axis=0), x.min(axis=0), np.add.reduce(x, axis=0)
        return (x - low) / (high - low) + total

    plan = both(program)
    assert len(plan.stages) <= 4


@pytest.mark.parametrize("axis", [0, 1])
def test_where_and_softmax_and_arg(made: Map, axis: int) -> None:
    x = place(numbers(1), made)

    def program() -> Any:
        e = np.exp(x - np.maximum.reduce(x, axis=axis, keepdims=True))
        return (
            e / np.add.reduce(e, axis=axis, keepdims=True),
            np.argmax(x, axis=axis),
            np.add.reduce(x, axis=axis, where=x > 0),
            np.add.reduce(x, axis=axis, initial=3.5),
        )

    both(program)


# ------------------------------------------------------ transposes, scans, gathers, redistribution


def test_sum_with_a_transpose_moves_what_the_source_says() -> None:
    """Nine segments on four nodes: 1, 5, 9 stay, and 3 and 7, which are on one node."""
    shape = (288, 288)
    made = Map.block_cyclic(shape, 4, (96, 96))
    a, b = place(numbers(1, shape), made), place(numbers(2, shape), made)
    c = place(numbers(3, shape), made)

    def program() -> Any:
        np.add(a, b.T, out=c)
        return c

    plan = both(program)
    # 2 and 4, 6 and 8 take each other's: 1 <-> 3 both times.
    assert plan.messages == 2 and plan.moved_bytes == 4 * 96 * 96 * 8
    assert {pair for stage in plan.stages for pair in stage.pairs()} == {(1, 3), (3, 1)}


def test_from_one_map_to_another(made: Map) -> None:
    for other in MAPS.values():
        x, y = place(numbers(1), made), place(numbers(2), other)

        def program(x: Any = x, y: Any = y) -> Any:
            y[...] = x
            return y

        plan = both(program)
        moved = made.moves_to(other, 8)
        assert (plan.moved_bytes, plan.messages) == (moved.moved_bytes, moved.messages)
        npaccel.evaluate()


def test_scans_reshapes_and_gathers(made: Map) -> None:
    x = place(numbers(1), made)

    def program() -> Any:
        return (
            np.cumsum(x, axis=0),
            np.cumsum(x, axis=1),
            x.reshape(60, 96) + 1,
            x.reshape(-1)[5:-7] * 2,
            x[np.array([90, 0, 3, 3])],
            np.arange(30.0) + x[0, :30],
            x.view("i8") + 1,
        )

    both(program)


def test_what_one_node_does_alone_is_named() -> None:
    x = place(numbers(1), MAPS["rows"])
    plan = both(lambda: np.cumsum(x, axis=0) * 2)
    assert [one.reason for one in plan.alone] == ["it goes along an axis that is split"]
    assert "operation 0 (add) on node 0 alone: it goes along an axis that is split" in str(plan)


# --------------------------------------------------------------------------------- random programs


def _step(rng: Any, arrays: list[Any]) -> None:
    """One operation on arrays of one shape, perhaps in place."""

    def one() -> Any:
        return arrays[rng.integers(len(arrays))]

    kind, x, y = rng.integers(20), one(), one()
    axis, back = int(rng.integers(2)), int(rng.integers(1, 9))
    if kind < 3:
        arrays.append([np.add, np.maximum, np.subtract][kind](x, y))
    elif kind == 3:
        arrays.append(np.exp(-abs(x)) + np.argmax(y, axis=1)[:, None])
    elif kind == 4:
        arrays.append(np.sin(x) * 2.0)
    elif kind == 5:
        x[1:-1] = (y[:-2] + y[2:]) * 0.5
    elif kind == 6:
        x[:, 1:] -= y[:, :-1]
    elif kind == 7:
        arrays.append(x - np.add.reduce(y, axis=axis, keepdims=True))
    elif kind == 8:
        arrays.append(np.where(x > y, x, y * 0.5))
    elif kind == 9:
        arrays.append(x + y[::-1])
    elif kind == 10:
        arrays.append(y + np.maximum.reduce(x, axis=1, keepdims=True))
    elif kind == 11:
        arrays.append(np.cumsum(x, axis=axis))
    elif kind == 12:
        arrays.append(np.multiply(x, y, where=y > 0, out=one()))
    elif kind == 13:
        arrays.append(np.add.reduce(x, axis=None, keepdims=True) + y)
    elif kind == 14:
        x[back:] = y[:-back]  # of the same array it is a shift
    else:
        _move(rng, kind, arrays, (x, y), (axis, back))


def _move(rng: Any, kind: int, arrays: list[Any], pair: Any, how: tuple[int, int]) -> None:
    """Elements that lie elsewhere afterwards."""
    (x, y), (axis, back) = pair, how
    n, m = x.shape
    if kind == 15:
        a, b = sorted(rng.integers(0, n, 2))
        x[a : b + 1, : m // 2] = y[a : b + 1, m // 2 : m // 2 + m // 2] * 3.0
    elif kind == 16:
        arrays.append(x[rng.integers(-n, n, n)] + y)
    elif kind == 17:
        arrays.append(x.T.reshape(n, m) * 2.0)
    elif kind == 18:
        arrays.append(np.roll(x, back, axis=axis) - x.reshape(-1)[::-1].reshape(n, m))
    else:
        x += x[::-1, ::-1]


@pytest.mark.parametrize(
    "seed", [*range(10), *(pytest.param(n, marks=pytest.mark.slow) for n in range(10, 25))]
)
def test_random_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = list(MAPS.values())
    inputs = [place(numbers(seed + k), kinds[rng.integers(len(kinds))]) for k in range(3)]
    arrays = list(inputs)

    def program() -> Any:
        for _ in range(12):
            _step(rng, arrays)
        return tuple(arrays[3:])

    with np.errstate(all="ignore"):
        both(program, *inputs)


def test_a_plan_for_too_few_nodes_is_refused() -> None:
    x = place(numbers(1), MAPS["rows"])
    y = x + 1
    with pytest.raises(MapError, match="a plan for 2 nodes, where maps of its arrays have 4"):
        plan_pending(2)
    assert plan_pending(6).plan.nodes == 6
    del y
