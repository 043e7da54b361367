"""Compiled maps against the interpreter: dtypes, sizes, strides, masks, flags, aliases."""

from dataclasses import replace

import numpy as np
import pytest

from npaccel.backends.base import Grid
from npaccel.ir.nodes import Flag, FlagKind, Leaf, Store
from npaccel.ir.scalar import DTYPES, Core, Pool

from .support import B, S, U, Z, check, compile_kernel, edge_values, kernel, param, run_step

SIZES = (0, 1, 2, 15, 16, 17, 64, 100, 333)


def _combine(x, y):
    """Some value of the operands' dtype that shows both."""
    kind = x.dtype[0]
    if kind == "b":
        return x.binary(Core.XOR, y)
    if kind == "c":
        pool = x.pool
        return pool.complex(x.real() + y.imag(), x.imag() * y.real())
    return x * y + x


@pytest.mark.parametrize("dtype", DTYPES)
def test_flat_map_of_every_dtype_and_size(machine, dtype):
    pool = Pool()
    x, y = pool.load(dtype, 0), pool.load(dtype, 1)
    made = kernel(
        [param(dtype), param(dtype), param(dtype, out=True)],
        [Leaf(False, (Store(2, _combine(x, y)),))],
        split=True,
    )
    compiled = compile_kernel(made, machine)
    for n in SIZES:
        arrays = [edge_values(dtype, n, 1), edge_values(dtype, n, 2), edge_values(dtype, n, 3)]
        check(machine, made, (n,), arrays, compiled=compiled)


@pytest.mark.parametrize("dtype", DTYPES)
def test_strides_of_every_kind(machine, dtype):
    pool = Pool()
    x, y = pool.load(dtype, 0), pool.load(dtype, 1)
    made = kernel(
        [param(dtype, S), param(dtype, Z), param(dtype, S, out=True)],
        [Leaf(False, (Store(2, _combine(x, y)),))],
    )
    compiled = compile_kernel(made, machine)
    for n in (1, 5, 70):
        source, target = edge_values(dtype, 3 * n, 1), edge_values(dtype, 2 * n, 2)
        one = np.broadcast_to(edge_values(dtype, 1, 7), (n,))
        check(machine, made, (n,), [source[::-3], one, target[::2]], compiled=compiled)
        check(machine, made, (n,), [source[:n], one, target[1::2][::-1]], compiled=compiled)


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_that_go_back(machine, dtype):
    pool = Pool()
    x, y = pool.load(dtype, 0), pool.load(dtype, 1)
    made = kernel(
        [param(dtype, B), param(dtype), param(dtype, B, out=True)],
        [Leaf(False, (Store(2, _combine(x, y)),))],
        split=True,
    )
    compiled = compile_kernel(made, machine)
    for n in SIZES:
        source, other, target = (edge_values(dtype, n + 1, seed) for seed in (1, 2, 3))
        arrays = [source[:0:-1], other[1:], target[:0:-1]]
        check(machine, made, (n,), arrays, compiled=compiled)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["b1", "f4", "c16"])
def test_masked_stores_that_go_back(machine, dtype):
    pool = Pool()
    x, mask = pool.load(dtype, 0), pool.load("b1", 2)
    made = kernel(
        [param(dtype, B), param(dtype, B, out=True), param("b1", B)],
        [Leaf(False, (Store(1, _combine(x, x), mask),))],
    )
    for n in (1, 17, 130):
        arrays = [edge_values(dtype, n, 1), edge_values(dtype, n, 2), edge_values("b1", n, 3)]
        check(machine, made, (n,), [array[::-1] for array in arrays])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["b1", "i1", "u2", "f4", "f8", "c8", "c16"])
def test_masked_stores_leave_the_rest_alone(machine, dtype):
    pool = Pool()
    x, mask = pool.load(dtype, 0), pool.load("b1", 1)
    for vector in (U, S):
        made = kernel(
            [param(dtype), param("b1"), param(dtype, vector, out=True)],
            [Leaf(False, (Store(2, x, mask),))],
        )
        n = 77
        arrays = [edge_values(dtype, n, 1), edge_values("b1", n, 2), edge_values(dtype, 2 * n, 3)]
        arrays[2] = arrays[2][:n] if vector is U else arrays[2][::2]
        check(machine, made, (n,), arrays)


def test_mixed_dtypes_scalars_and_indices(machine):
    pool = Pool()
    total = pool.load("i2", 0).convert("f8") + pool.load("f4", 1).convert("f8")
    total = total + pool.scalar("f8", 0) * pool.index(1).convert("f8") + pool.index(0).convert("f8")
    pair = pool.scalar("c8", 2)
    made = kernel(
        [param("i2"), param("f4", Z), param("f8", out=True), param("c8", out=True)],
        [
            Leaf(
                False,
                (
                    Store(2, total),
                    Store(3, pool.scalar("b1", 1).select(pair, pool.const("c8", 1j))),
                ),
            )
        ],
        band_rank=1,
        scalars=("f8", "b1", "c8"),
    )
    arrays = [
        edge_values("i2", 3 * 41).reshape(3, 41),
        np.broadcast_to(edge_values("f4", 3)[:, None], (3, 41)),
        np.zeros((3, 41)),
        np.zeros((3, 41), "c8"),
    ]
    for flag in (True, False):
        check(machine, made, (3, 41), arrays, [0.25, flag, 3 - 2j])


@pytest.mark.parametrize("inner_rank", [1, 2, 3])
def test_many_axes_and_any_grid(machine, inner_rank):
    pool = Pool()
    x, y = pool.load("f8", 0), pool.load("f8", 1)
    made = kernel(
        [param("f8", S), param("f8"), param("f8", out=True)],
        [Leaf(False, (Store(2, x - y * 3.0),))],
        band_rank=4 - inner_rank,
        inner_rank=inner_rank,
    )
    shape = (3, 2, 4, 21)
    x = edge_values("f8", 504).reshape(21, 2, 4, 3).transpose(3, 1, 2, 0)
    y = np.broadcast_to(edge_values("f8", 84, 1).reshape(4, 21), shape)
    n_band = int(np.prod(shape[: 4 - inner_rank]))
    compiled = compile_kernel(made, machine)
    for step in (1, 2, 5, n_band):
        grid = Grid(n_band, step, 1, 1)
        check(machine, made, shape, [x, y, np.zeros(shape)], grid=grid, compiled=compiled)
    empty = (3, 0, 4, 21)
    check(machine, made, empty, [np.empty(empty)] * 3, compiled=compiled)


@pytest.mark.parametrize("nontemporal", [False, True])
def test_split_maps_cover_every_element_once(machine, nontemporal):
    pool = Pool()
    x = pool.load("f4", 0)
    made = kernel(
        [param("f4"), param("f4", out=True, read=True, nontemporal=nontemporal)],
        [Leaf(False, (Store(1, pool.load("f4", 1) + x),))],
        split=True,
    )
    compiled = compile_kernel(made, machine)
    if machine.name == "llvm":
        assert ("!nontemporal" in compiled.text) == nontemporal
    n = 1000
    raw = np.zeros(4 * n + 64, "u1")
    start = -raw.ctypes.data % 64
    out = raw[start : start + 4 * n].view("f4")
    data = np.arange(n, dtype="f4")
    for step in (64, 192, 1024):
        out[...] = 1
        run_step(compiled, (n,), [data, out], grid=Grid(1, 1, n, step))
        np.testing.assert_array_equal(out, data + 1)


@pytest.mark.parametrize("dtype", ["b1", "u2", "f4", "f8", "c16"])
def test_rows_past_the_cache_begin_anywhere(machine, dtype):
    pool = Pool()
    x, y = pool.load(dtype, 0), pool.load(dtype, 1)
    made = kernel(
        [param(dtype), param(dtype), param(dtype, out=True, nontemporal=True)],
        [Leaf(False, (Store(2, _combine(x, y)),))],
        band_rank=1,
    )
    compiled = compile_kernel(made, machine)
    for n in (1, 3, 17, 70, 517):
        for first in (0, 1, 5):
            x, y = edge_values(dtype, 3 * n, n), edge_values(dtype, n, 1)
            room = edge_values(dtype, 3 * (n + 1) + first, 2)[first:]
            out = room.reshape(3, n + 1)[:, :n]
            arrays = [x.reshape(3, n), np.broadcast_to(y, (3, n)), out]
            check(machine, made, (3, n), arrays, compiled=compiled)


def test_vector_band_map_with_tails_and_broadcast(machine):
    pool = Pool()
    made = kernel(
        [param("f4"), param("f4", band_only=True), param("f4", out=True)],
        [Leaf(False, (Store(2, pool.load("f4", 0) * pool.load("f4", 1)),))],
        band_rank=2,
        vector_band=True,
    )
    compiled = compile_kernel(made, machine)
    for m in (1, 63, 64, 65, 200):
        shape = (2, m, 5)
        x = edge_values("f4", 10 * m).reshape(2, 5, m).transpose(0, 2, 1)
        y = np.broadcast_to(edge_values("f4", 2 * m, 1).reshape(2, m, 1), shape)
        out = np.zeros((2, 5, m), "f4").transpose(0, 2, 1)
        for step in (2 * m, 64, 7):
            grid = Grid(2 * m, step, 1, 1)
            check(machine, made, shape, [x, y, out], grid=grid, compiled=compiled)


def _dividing():
    pool = Pool()
    x, y = pool.load("f8", 0), pool.load("f8", 1)
    zero = y.eq(0.0)
    leaf = Leaf(
        False,
        (Store(2, x / y),),
        (zero, y.isnan()),
        (
            Flag(1, FlagKind.DIVIDE, zero & x.ne(0.0)),
            Flag(1, FlagKind.INVALID, zero & x.eq(0.0)),
            Flag(0, FlagKind.OVER, y.isnan()),
        ),
    )
    return kernel([param("f8"), param("f8"), param("f8", out=True)], [leaf], slots=2, split=True)


@pytest.mark.parametrize("at", [0, 15, 16, 31, 32, 39])
def test_flags_name_slot_and_kind(machine, at):
    made = _dividing()
    compiled = compile_kernel(made, machine)
    for x, y in ((1.0, 0.0), (0.0, 0.0), (0.0, np.nan), (np.inf, np.inf)):
        left, right = np.ones(40), np.ones(40)
        left[at], right[at] = x, y
        check(machine, made, (40,), [left, right, np.empty(40)], compiled=compiled)


def test_lanes_beyond_the_end_never_flag(machine):
    pool = Pool()
    one = pool.load("f8", 0).eq(1.0)
    leaf = Leaf(False, (Store(1, pool.load("f8", 0)),), (one,), (Flag(0, FlagKind.OVER, one),))
    made = kernel([param("f8"), param("f8", out=True)], [leaf], slots=1)
    for n in (0, 1, 17):
        check(machine, made, (n,), [np.zeros(n), np.zeros(n)])


def test_flags_see_what_an_in_place_store_overwrites(machine):
    pool = Pool()
    x = pool.load("f8", 0)
    leaf = Leaf(
        False,
        (Store(0, x * 0.0),),
        (x > 5.0,),
        (Flag(0, FlagKind.INVALID, pool.load("f8", 1) > 5.0),),
    )
    made = kernel([param("f8", out=True, read=True), param("f8")], [leaf], slots=1)
    memory = np.arange(20.0)
    compiled = compile_kernel(made, machine)
    assert run_step(compiled, (20,), [memory, memory]) == [int(FlagKind.INVALID)]


def test_in_place_and_swapped_stores(machine):
    pool = Pool()
    both = [param("i4", out=True, read=True)] * 2
    made = kernel(both, [Leaf(False, (Store(0, pool.load("i4", 1)), Store(1, pool.load("i4", 0))))])
    check(machine, made, (100,), [np.arange(100, dtype="i4"), -np.arange(100, dtype="i4")])


def test_rare_blocks_are_right_when_taken_and_when_not(machine):
    pool = Pool()
    x = pool.load("f8", 0)
    exact = x
    for k in range(12):
        exact = exact * 0.5 + float(k)
    twice = (x > 100.0).rare(exact, x) + (x < -100.0).rare(exact, x * 2.0)
    made = kernel([param("f8"), param("f8", out=True)], [Leaf(False, (Store(1, twice),))])
    compiled = compile_kernel(made, machine)
    assert machine.name != "llvm" or "!prof !0" in compiled.text
    for data in (np.arange(50.0), edge_values("f8", 50), np.linspace(-900, 900, 50)):
        check(machine, made, (50,), [data, np.empty(50)], compiled=compiled)


def test_integer_division_survives_lanes_beyond_the_end(machine):
    pool = Pool()
    for dtype in ("i1", "u2", "i4", "i8", "u8"):
        x, y = pool.load(dtype, 0), pool.load(dtype, 1)
        made = kernel(
            [param(dtype), param(dtype), param(dtype, out=True), param(dtype, out=True)],
            [Leaf(False, (Store(2, x / y), Store(3, x.binary(Core.REM, y))))],
        )
        n = 37
        divisor = edge_values(dtype, n, 2)
        divisor[(divisor == 0) | (divisor == -1 if dtype[0] == "i" else False)] = 3
        arrays = [edge_values(dtype, n), divisor, np.zeros(n, dtype), np.zeros(n, dtype)]
        check(machine, made, (n,), arrays)


def test_nothing_is_contracted_or_reassociated(machine):
    pool = Pool()
    x, y, z = (pool.load("f8", k) for k in range(3))
    made = kernel(
        [param("f8")] * 3 + [param("f8", out=True)], [Leaf(False, (Store(3, x * y + z),))]
    )
    compiled = compile_kernel(made, machine)
    assert machine.name != "llvm" or "vfmadd" not in machine.host.emit_assembly(compiled.text)
    rng = np.random.default_rng(0)
    check(machine, made, (500,), [*rng.standard_normal((3, 500)), np.empty(500)], compiled=compiled)


def test_large_bodies_share_one_masked_loop(machine):
    pool = Pool()
    x = value = pool.load("f8", 0)
    for k in range(300):
        value = value * x + float(k)
    made = kernel([param("f8"), param("f8", out=True)], [Leaf(False, (Store(1, value),))])
    compiled = compile_kernel(made, machine)
    assert machine.name != "llvm" or compiled.text.count("store <") < 4
    for n in (1, 8, 29):
        check(machine, made, (n,), [np.linspace(-1, 1, n), np.empty(n)], compiled=compiled)


def test_compilation_is_deterministic(machine):
    first, second = (compile_kernel(_dividing(), machine) for _ in range(2))
    if machine.name == "llvm":
        assert (first.text, first.image) == (second.text, second.image)
    plain = kernel([param("f8")], [Leaf(False, ())])
    assert replace(plain, split=True) != plain


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_of_every_dtype(machine, dtype):
    for vector in (Z, U, S):
        pool = Pool()
        picked = pool.gather(dtype, 0, pool.load("i8", 1) * 2)
        source = replace(param(dtype, vector), gathered=True)
        made = kernel(
            [source, param("i8"), param(dtype, out=True)],
            [Leaf(False, (Store(2, picked),))],
            split=True,
        )
        compiled = compile_kernel(made, machine)
        for n in (1, 5, 16, 33, 100):
            memory = edge_values(dtype, 4 * n + 40, 1)
            one = np.broadcast_to(memory[20:21], (n,))
            table = {Z: one, U: memory[20 : 20 + n], S: memory[20 : 20 + 2 * n : 2]}[vector]
            index = np.arange(n) * 7 % 20 - 10
            target = edge_values(dtype, n, 2)
            check(machine, made, (n,), [table, index, target], compiled=compiled)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_scatter_of_every_dtype(machine, dtype):
    """Of indices that write to one element the last one stays, whatever the lanes."""
    for vector in (Z, U, S):
        pool = Pool()
        x, mask = pool.load(dtype, 0), pool.load("b1", 2)
        target = replace(param(dtype, vector, out=True), gathered=True)
        store = Store(3, x, mask, pool.load("i8", 1) * 2)
        made = kernel([param(dtype), param("i8"), param("b1"), target], [Leaf(False, (store,))])
        compiled = compile_kernel(made, machine)
        for n in (1, 5, 16, 33, 100):
            memory = edge_values(dtype, 4 * n + 40, 1)
            one = np.broadcast_to(memory[20:21], (n,))
            to = {Z: one, U: memory[20 : 20 + n], S: memory[20 : 20 + 2 * n : 2]}[vector]
            offset = np.random.default_rng(n).integers(-6, 7, n)
            arrays = [edge_values(dtype, n, 3), offset, edge_values("b1", n, 4), to]
            check(machine, made, (n,), arrays, compiled=compiled)


def test_gather_of_whole_rows(machine):
    """An index that does not change along the lanes: plain loads from a row of the table."""
    pool = Pool()
    picked = pool.gather("f8", 0, pool.load("i8", 1))
    made = kernel(
        [
            replace(param("f8"), gathered=True),
            param("i8", Z, band_only=True),
            param("f8", out=True),
        ],
        [Leaf(False, (Store(2, picked + 1.0),))],
        band_rank=1,
    )
    table = edge_values("f8", 12 * 37, 1).reshape(12, 37)
    index = np.array([3, 0, 11, 11, 5]) * 37
    base = np.broadcast_to(table[0], (5, 37))
    rows = np.broadcast_to(index[:, None], (5, 37))
    check(machine, made, (5, 37), [base, rows, np.zeros((5, 37))])
