"""Compiled reductions and row sequences against the interpreter, bit for bit."""

import numpy as np
import pytest

from npaccel.backends.base import Grid
from npaccel.ir import processor
from npaccel.ir.nodes import (
    Flag,
    FlagKind,
    Fold,
    Leaf,
    Reduce,
    RowParam,
    Store,
    StoreRow,
    StoreScratch,
)
from npaccel.ir.scalar import Core, Pool

from .support import S, U, X, Z, check, compile_kernel, edge_values, kernel, param, run_step

FLOATS, INTEGERS = ("f2", "f4", "f8"), ("i1", "u2", "i4", "u8")
FOLDS = [
    *[(fold, d) for fold in (Fold.SUM, Fold.PRODUCT) for d in (*FLOATS, "i2", "u8", "c8", "c16")],
    *[(f, d) for f in (Fold.MIN, Fold.MAX, Fold.FMIN, Fold.FMAX) for d in (*FLOATS, *INTEGERS)],
    *[(f, d) for f in (Fold.MIN, Fold.MAX) for d in ("b1",)],
    *[(f, d) for f in (Fold.AND, Fold.OR, Fold.XOR) for d in ("b1", "i1", "u4", "i8")],
    *[(f, d) for f in (Fold.ARGMIN, Fold.ARGMAX) for d in ("b1", *FLOATS, *INTEGERS)],
]


def _result(fold, dtype):
    return "i8" if fold in (Fold.ARGMIN, Fold.ARGMAX) else dtype


def _reduction(fold, dtype, *, vector=U, out=Z, masked=False, **fields):
    """rows[0] = fold(array 0), stored by a row leaf to array 1."""
    pool, result = Pool(), _result(fold, dtype)
    mask = pool.load("b1", 2) if masked else None
    arrays = [param(dtype, vector), param(result, out, out=True, band_only=True)]
    arrays += [param("b1", vector)] if masked else []
    leaves = [
        Leaf(False, (Reduce(0, fold, pool.load(dtype, 0), mask),)),
        Leaf(True, (Store(1, pool.row(result, 0)),)),
    ]
    return kernel(arrays, leaves, rows=(RowParam(result),), **fields)


def _out(dtype, shape, rank):
    """An output that does not move along the last `rank` axes."""
    band = np.zeros(shape[: len(shape) - rank], dtype)
    return np.lib.stride_tricks.as_strided(band, shape, band.strides + (0,) * rank)


def _ordinary(dtype, n, seed=0):
    """Values whose sums and products show their order, without NaNs."""
    rng = np.random.default_rng(seed)
    if dtype[0] == "f":
        return (1 + rng.standard_normal(n) / 8).astype(dtype)
    return edge_values(dtype, n, seed)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("fold", "dtype"), FOLDS)
def test_folds_over_one_axis(machine, fold, dtype):
    made = _reduction(fold, dtype, band_rank=1)
    compiled = compile_kernel(made, machine)
    argument = fold in (Fold.ARGMIN, Fold.ARGMAX)
    for n in (1, 7, 33, 600):
        for make in (_ordinary, edge_values):
            data = make(dtype, 3 * n, n).reshape(3, n)
            if fold in (Fold.MIN, Fold.MAX, Fold.FMIN, Fold.FMAX) and dtype[0] == "f":
                data = np.where(data == 0, np.asarray(0, dtype), data)
            arrays = [data, _out(_result(fold, dtype), (3, n), 1)]
            check(machine, made, (3, n), arrays, compiled=compiled)
    if not argument:
        empty = [np.empty((3, 0), dtype), np.zeros((3, 1), dtype)]
        launched = run_step(compiled, (3, 0), empty)
        assert launched == []
        identity = run_identity(fold, dtype)
        np.testing.assert_array_equal(empty[1].ravel(), identity)
        assert fold is not Fold.SUM or not np.signbit(empty[1].real).any()


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("fold", [Fold.MIN, Fold.FMAX])
def test_folds_for_aarch64_take_the_lower_or_the_higher_zero(machine, monkeypatch, fold, dtype):
    """As NumPy's loops there, in whatever order."""
    monkeypatch.setattr(processor, "_MADE_FOR", ["aarch64"])
    compiled = compile_kernel(_reduction(fold, dtype, band_rank=1), machine)
    for n in (2, 9, 600):
        data, out = np.zeros((3, n), dtype), _out(dtype, (3, n), 1)
        data[1, 1::2] = data[2] = -0.0
        run_step(compiled, (3, n), [data, out])
        assert np.signbit(out[:, 0]).tolist() == [False, fold is Fold.MIN, True]


def run_identity(fold, dtype):
    """NumPy's value of an empty reduction, or what the IR says where NumPy has none."""
    if fold in (Fold.SUM, Fold.PRODUCT):
        return int(fold is Fold.PRODUCT)
    if fold in (Fold.AND, Fold.OR, Fold.XOR):
        ones = True if dtype == "b1" else np.invert(np.zeros(1, dtype))[0]
        return ones if fold is Fold.AND else 0
    low = fold in (Fold.MIN, Fold.FMIN)
    if dtype[0] == "f":
        ends = (np.inf, -np.inf) if fold in (Fold.MIN, Fold.MAX) else (np.nan, np.nan)
        return ends[0] if low else ends[1]
    if dtype == "b1":
        return low
    return np.iinfo(dtype).max if low else np.iinfo(dtype).min


@pytest.mark.one_in(2)
@pytest.mark.parametrize("fold", [Fold.SUM, Fold.MAX, Fold.ARGMIN])
@pytest.mark.parametrize("dtype", ["f8", "f2"])
def test_chunks_and_grids_give_the_same_bits(machine, fold, dtype):
    plain = compile_kernel(_reduction(fold, dtype), machine)
    split = compile_kernel(_reduction(fold, dtype, split=True), machine)
    if machine.name == "llvm":
        assert split.finish and not plain.finish
    for n in (1, 32768, 32769, 100_003, 262_144):
        data = _ordinary(dtype, n, n)
        arrays = [data, _out(_result(fold, dtype), (n,), 1)]
        expected = check(machine, plain.kernel, (n,), arrays, compiled=plain)
        for step in (32768, 65536, 1 << 20):
            grid = Grid(1, 1, n, step)
            ours = check(machine, split.kernel, (n,), arrays, grid=grid, compiled=split)
            assert ours[1].tobytes() == expected[1].tobytes()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("fold", [Fold.SUM, Fold.MIN, Fold.ARGMAX])
@pytest.mark.parametrize("vector_band", [False, True])
def test_several_inner_axes_with_and_without_split(machine, fold, vector_band):
    shape = (2, 37, 5, 3, 19) if vector_band else (2, 5, 3, 45)
    rank = 3 if vector_band else 2
    fields = {"band_rank": len(shape) - rank, "inner_rank": rank, "vector_band": vector_band}
    data = _ordinary("f4", int(np.prod(shape))).reshape(shape)
    if vector_band:
        data = np.moveaxis(np.moveaxis(data, 1, -1).copy(), -1, 1)
    out = _out(_result(fold, "f4"), shape, rank)
    results = []
    for split in (False, True):
        made = _reduction(fold, "f4", out=U if vector_band else Z, split=split, **fields)
        compiled = compile_kernel(made, machine)
        n_band = int(np.prod(shape[:-rank]))
        n_inner = int(np.prod(shape[-rank:-1])) if split else 1
        for band_step, inner_step in ((n_band, n_inner), (1, 1), (3, 4)):
            grid = Grid(n_band, band_step, n_inner, inner_step)
            results.append(
                check(machine, made, shape, [data, out], grid=grid, compiled=compiled)[1]
            )
    assert len({r.tobytes() for r in results}) == 1


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("fold", "dtype"), FOLDS)
def test_folds_with_lanes_along_the_band(machine, fold, dtype):
    made = _reduction(fold, dtype, out=U, band_rank=1, vector_band=True, split=True)
    compiled = compile_kernel(made, machine)
    for m, n in ((1, 1), (70, 40), (130, 17)):
        data = _ordinary(dtype, m * n, n).reshape(n, m).T
        out = _out(_result(fold, dtype), (m, n), 1)
        check(machine, made, (m, n), [data, out], compiled=compiled)
        check(machine, made, (m, n), [data, out], grid=Grid(m, 33, n, 32768), compiled=compiled)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("fold", "dtype"), FOLDS)
@pytest.mark.parametrize("split", [False, True])
def test_columns_of_several_tiles(machine, fold, dtype, split):
    """Tiles of 4096 bytes, their last vectors short, a band of two axes, blocks of 16 rows."""
    made = _reduction(fold, dtype, out=U, band_rank=2, vector_band=True, split=split)
    compiled = compile_kernel(made, machine)
    tile = 4096 // np.dtype(dtype).itemsize
    for b, m, n in ((1, tile + 904, 20), (2, 1100, 33)):
        data = np.moveaxis(_ordinary(dtype, b * m * n, n).reshape(b, n, m), 1, 2)
        out = _out(_result(fold, dtype), (b, m, n), 1)
        check(machine, made, (b, m, n), [data, out], compiled=compiled)
        grid = Grid(b * m, 700, n, 32768)
        check(machine, made, (b, m, n), [data, out], grid=grid, compiled=compiled)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("fold", "dtype"), FOLDS)
@pytest.mark.parametrize("inner_rank", [1, 2])
def test_rows_that_an_array_lies_across(machine, fold, dtype, inner_rank):
    """Tiles of rows, the last short: several blocks, turns, and grids that cut tiles."""
    split, masked = inner_rank > 1, fold not in (Fold.ARGMIN, Fold.ARGMAX)
    fields = {"band_rank": 3 - inner_rank, "inner_rank": inner_rank, "split": split}
    made = _reduction(fold, dtype, vector=X, masked=masked, **fields)
    compiled = compile_kernel(made, machine)
    for b, m, n in ((1, 37, 1100), (3, 7, 70), (2, 17, int(not masked))):
        data = np.moveaxis(_ordinary(dtype, b * m * n, n).reshape(b, n, m), 1, 2)
        mask = np.moveaxis(edge_values("b1", b * m * n, 1).reshape(b, n, m), 1, 2)
        out = _out(_result(fold, dtype), (b, m, n), inner_rank)
        arrays = [data, out, mask] if masked else [data, out]
        check(machine, made, (b, m, n), arrays, compiled=compiled)
        grid = Grid(b, 1, m, 10) if split else Grid(b * m, 10, 1, 1)
        check(machine, made, (b, m, n), arrays, grid=grid, compiled=compiled)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("fold", [Fold.SUM, Fold.MAX, Fold.ARGMIN])
def test_long_rows_that_an_array_lies_across(machine, fold):
    """Rows whose chunks are parts."""
    made = _reduction(fold, "f4", vector=X, band_rank=1, split=True)
    compiled = compile_kernel(made, machine)
    m, n = 21, 70_001
    data = _ordinary("f4", m * n).reshape(n, m).T
    arrays = [data, _out(_result(fold, "f4"), (m, n), 1)]
    check(machine, made, (m, n), arrays, compiled=compiled)
    check(machine, made, (m, n), arrays, grid=Grid(m, 5, n, 32768), compiled=compiled)


def test_long_columns_count_chunks(machine):
    made = _reduction(Fold.SUM, "f4", out=U, band_rank=1, vector_band=True)
    data = _ordinary("f4", 3 * 70_000).reshape(70_000, 3).T
    check(machine, made, (3, 70_000), [data, _out("f4", (3, 70_000), 1)])


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("fold", "dtype"),
    [(Fold.SUM, "f8"), (Fold.PRODUCT, "c16"), (Fold.MIN, "f4"), (Fold.OR, "u1"), (Fold.SUM, "i4")],
)
@pytest.mark.parametrize("vector_band", [False, True])
def test_masked_elements_are_left_out(machine, fold, dtype, vector_band):
    made = _reduction(
        fold, dtype, masked=True, out=U if vector_band else Z, band_rank=1, vector_band=vector_band
    )
    shape = (70, 50)
    data, mask = _ordinary(dtype, 3500).reshape(shape), edge_values("b1", 3500, 3).reshape(shape)
    mask[3] = False
    if vector_band:
        data, mask = data.T.copy().T, mask.T.copy().T
    check(machine, made, shape, [data, _out(dtype, shape, 1), mask])


def test_strided_and_broadcast_operands(machine):
    made = _reduction(Fold.SUM, "f8", vector=S, band_rank=1)
    data = _ordinary("f8", 4 * 2000).reshape(2000, 4).T
    check(machine, made, (4, 2000), [data, _out("f8", (4, 2000), 1)])
    check(machine, made, (4, 1000), [data[:, ::-2], _out("f8", (4, 1000), 1)])
    zero = _reduction(Fold.SUM, "f8", vector=Z, band_rank=1)
    one = np.broadcast_to(_ordinary("f8", 4)[:, None], (4, 999))
    check(machine, zero, (4, 999), [one, _out("f8", (4, 999), 1)])


def test_sum_of_a_large_body_uses_narrow_vectors(machine):
    pool = Pool()
    x = value = pool.load("f8", 0)
    for k in range(60):
        value = value * x + float(k) / 64
    leaves = [
        Leaf(False, (Reduce(0, Fold.SUM, value),)),
        Leaf(True, (Store(1, pool.row("f8", 0)),)),
    ]
    arrays = [param("f8"), param("f8", Z, out=True, band_only=True)]
    made = kernel(arrays, leaves, rows=(RowParam("f8"),))
    for n in (5, 1000, 40_000):
        check(machine, made, (n,), [np.linspace(-1, 1, n), _out("f8", (n,), 1)])


def _exponential(x):
    """A rough e**x for x <= 0: what matters is that both sides compute the same."""
    k = (x * 1.4426950408889634).unary(Core.RINT)
    r = x - k * 0.6931471805599453
    value = x.like(1.0)
    for divisor in (5.0, 4.0, 3.0, 2.0, 1.0):
        value = value * r / divisor + 1.0
    limited = (k < -1000.0).select(x.like(-1000.0), k)
    power = ((limited.convert("i8") + 1023).binary(Core.SHL, 52)).bitcast("f8")
    return value * power


def _softmax(vector_band):
    pool = Pool()
    x, total, top = pool.load("f8", 0), pool.row("f8", 1), pool.row("f8", 0)
    exponential = _exponential(x - top)
    return kernel(
        [
            param("f8"),
            param("f8", out=True),
            param("f8", S, out=True, band_only=True),
        ],
        [
            Leaf(False, (Reduce(0, Fold.MAX, x),)),
            Leaf(False, (StoreScratch(0, exponential), Reduce(1, Fold.SUM, exponential))),
            Leaf(
                True,
                (StoreRow(2, total.like(1.0) / total), Store(2, total)),
                (total > 3.0,),
                (Flag(0, FlagKind.OVER, total > 3.0),),
            ),
            Leaf(False, (Store(1, pool.scratch("f8", 0) * pool.row("f8", 2)),)),
        ],
        rows=(RowParam("f8"),) * 3,
        scratch=("f8",),
        band_rank=1,
        vector_band=vector_band,
        slots=1,
    )


@pytest.mark.parametrize("vector_band", [False, True])
def test_softmax_is_one_kernel(machine, vector_band):
    made = _softmax(vector_band)
    compiled = compile_kernel(made, machine)
    for m, n in ((3, 1000), (40, 9), (65, 64)):
        data = np.random.default_rng(n).standard_normal((m, n))
        out = np.zeros((m, n))
        if vector_band:
            data, out = data.T.copy().T, out.T.copy().T
        arrays = [data, out, _out("f8", (m, n), 1)]
        ours = check(machine, made, (m, n), arrays, compiled=compiled)
        exact = np.exp(data - data.max(1, keepdims=True))
        np.testing.assert_allclose(ours[1], exact / exact.sum(1, keepdims=True), rtol=1e-3)
        grid = Grid(m, 7, 1, 1)
        check(machine, made, (m, n), arrays, grid=grid, compiled=compiled)


def test_complex_b1_and_f2_rows_and_scratch(machine):
    pool = Pool()
    z, h = pool.load("c8", 0), pool.load("f2", 1)
    first = Leaf(
        False,
        (
            Reduce(0, Fold.SUM, z),
            Reduce(1, Fold.OR, z.real() > 2.0),
            Reduce(2, Fold.SUM, h),
            StoreScratch(0, z),
            StoreScratch(1, z.imag() > 0.0),
            StoreScratch(2, h),
        ),
    )
    row = pool.row("b1", 1).select(pool.row("c8", 0), pool.const("c8", 0))
    scratch = pool.scratch("b1", 1).select(pool.scratch("c8", 0), row)
    second = Leaf(False, (Store(2, scratch), Store(3, pool.scratch("f2", 2) + pool.row("f2", 2))))
    for vector_band in (False, True):
        made = kernel(
            [param("c8"), param("f2"), param("c8", out=True), param("f2", out=True)],
            [first, second],
            rows=(RowParam("c8"), RowParam("b1"), RowParam("f2")),
            scratch=("c8", "b1", "f2"),
            band_rank=1,
            vector_band=vector_band,
        )
        shape = (6, 45)
        rng = np.random.default_rng(1)
        arrays = [
            (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype("c8"),
            rng.standard_normal(shape).astype("f2"),
            np.zeros(shape, "c8"),
            np.zeros(shape, "f2"),
        ]
        if vector_band:
            arrays = [array.T.copy().T for array in arrays]
        check(machine, made, shape, arrays)
