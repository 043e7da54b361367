"""The interpreter of Kernel trees against NumPy and against the order that the IR states."""

import math

import numpy as np
import pytest

from npaccel.ir.nodes import (
    ArrayParam,
    Flag,
    FlagKind,
    Fold,
    Kernel,
    Leaf,
    Reduce,
    RowParam,
    Store,
    StoreRow,
    StoreScratch,
    Stride,
)
from npaccel.ir.reference.expressions import convert, evaluate
from npaccel.ir.reference.kernels import reduce_inner, run_kernel
from npaccel.ir.scalar import Core, Pool


def _counter(items):
    stack = []
    for item in items:
        size, value = 1, item
        while stack and stack[-1][0] == size:
            value = stack.pop()[1] + value
            size *= 2
        stack.append((size, value))
    value = stack.pop()[1]
    while stack:
        value = stack.pop()[1] + value
    return value


def _scalar_sum(x):
    """Note [Reduction order] for SUM, one element at a time."""
    chunks = []
    for chunk in range(0, len(x), 32768):
        blocks = []
        part = x[chunk : chunk + 32768]
        for block in range(0, len(part), 512):
            lanes = np.zeros(32, x.dtype)
            for k, element in enumerate(part[block : block + 512]):
                lanes[k % 32] += element
            blocks.append(lanes)
        lanes = _counter(blocks)
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = lanes[:half] + lanes[half:]
        chunks.append(lanes[0])
    return _counter(chunks)


@pytest.mark.parametrize("n", [1, 31, 33, 511, 513, 1700, 32769, 70001])
def test_sum_keeps_the_stated_order(n):
    x = np.random.default_rng(n).standard_normal(n).astype("f4") * 1e3
    result = reduce_inner(Fold.SUM, x, np.ones(n, bool), 1, vector_band=False)
    assert result.tobytes() == _scalar_sum(x).tobytes()


def test_empty_and_negative_zero_sums():
    empty = reduce_inner(Fold.SUM, np.empty((2, 0)), np.ones((2, 0), bool), 1, vector_band=False)
    assert not np.signbit(empty).any() and empty.tolist() == [0, 0]
    zeros = np.full((2, 5), -0.0)  # as in NumPy
    assert not np.signbit(reduce_inner(Fold.SUM, zeros, zeros == 0, 1, vector_band=False)).any()


@pytest.mark.parametrize("vector_band", [False, True])
def test_rows_combine_as_a_counter(vector_band):
    x = np.random.default_rng(0).standard_normal((3, 5, 40))
    where = np.ones(x.shape, bool)
    whole = reduce_inner(Fold.SUM, x, where, 2, vector_band=vector_band)
    rows = reduce_inner(Fold.SUM, x, where, 1, vector_band=vector_band)
    expected = ((rows[:, 0] + rows[:, 1]) + (rows[:, 2] + rows[:, 3])) + rows[:, 4]
    assert whole.tobytes() == expected.tobytes()


@pytest.mark.parametrize("fold", [Fold.MIN, Fold.MAX, Fold.FMIN, Fold.FMAX])
def test_extrema_treat_nans_as_numpy(fold):
    x = np.array([[1.0, np.nan, -3.0], [2.0, 5.0, 4.0], [np.nan] * 3])
    name = {Fold.MIN: "minimum", Fold.MAX: "maximum"}.get(fold, fold.value)
    expected = getattr(np, name).reduce(x, axis=1)
    np.testing.assert_array_equal(
        reduce_inner(fold, x, np.ones(x.shape, bool), 1, vector_band=False), expected
    )


def test_fma_has_one_rounding():
    pool = Pool()
    x, y, z = (pool.load("f8", i) for i in range(3))
    cases = [
        (1 + 2.0**-52, 1 - 2.0**-53, -1.0),
        (2.0**-600, 2.0**-500, 1.0),
        (2.0**600, 2.0**600, -np.inf),
        (0.1, 10.0, -1.0),
        (5e-324, 0.5, 5e-324),
        (1e308, 10.0, -1e308),
        (3.0, 7.0, -0.0),
    ]
    exact = getattr(math, "fma", None)
    expected = [2.0**-52 - 2.0**-53 - 2.0**-105, 1.0, -np.inf, 2.0**-54, 1e-323, np.inf, 21.0]
    columns = np.array(cases).T
    result = evaluate([x.fma(y, z)], lambda n: columns[n.attr])[x.fma(y, z)]
    assert result.tolist() == expected
    assert exact is None or result[:2].tolist() == [exact(*case) for case in cases[:2]]


def test_casts_out_of_range_are_those_of_x86():
    x = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 300.7, -1.5, 1e19])
    assert convert(x, "i4").tolist() == [-(2**31)] * 5 + [300, -1, -(2**31)]
    assert convert(x, "u1").tolist() == [0, 0, 0, 0, 0, 44, 255, 0]
    assert convert(x, "u4").tolist()[3:7] == [3000000000, 1294967296, 300, 2**32 - 1]
    assert convert(x, "u8").tolist()[6:] == [2**64 - 1, 10**19]
    assert convert(x, "u8").tolist()[:2] == [2**63, 0]
    assert convert(x, "b1").all()
    assert convert(np.array([65519, 65520, 2**63 - 1]), "f2").tolist() == [65504, np.inf, np.inf]


def test_bits_and_truncating_division():
    pool = Pool()
    x, y = pool.load("i4", 0), pool.load("i4", 1)
    data = [np.array([7, -7, 7, -8], "i4"), np.array([2, 2, -2, 3], "i4")]
    nodes = [x / y, x.binary(Core.REM, y), x.unary(Core.CLZ), x.unary(Core.POPCOUNT)]
    nodes.append(x.binary(Core.LSHR, 1))
    values = evaluate(nodes, lambda n: data[n.attr])
    assert values[nodes[0]].tolist() == [3, -3, -3, -2]
    assert values[nodes[1]].tolist() == [1, -1, 1, -2]
    assert values[nodes[2]].tolist() == [29, 0, 29, 0]
    assert values[nodes[3]].tolist() == [3, 30, 3, 29]
    assert values[nodes[4]].tolist() == [3, 2**31 - 4, 3, 2**31 - 4]
    big = [np.array([2**64 - 1, 2**63, 12345678901234567], "u8")] * 2
    u = pool.load("u8", 0)
    high = u.binary(Core.MULHI, pool.load("u8", 1))
    assert evaluate([high], lambda n: big[n.attr])[high].tolist() == [
        int(v) ** 2 >> 64 for v in big[0]
    ]


def test_rows_scratch_flags_and_masks_of_a_normalising_kernel():
    pool = Pool()
    x, out, total = pool.load("f8", 0), 1, pool.row("f8", 0)
    guard = total.eq(0)
    kernel = Kernel(
        name="normalise",
        band_rank=1,
        inner_rank=1,
        arrays=(
            ArrayParam("f8", Stride.UNIT, True, False),
            ArrayParam("f8", Stride.UNIT, False, True),
            ArrayParam("f8", Stride.ZERO, False, True, band_only=True),
        ),
        scalars=("f8",),
        rows=(RowParam("f8"), RowParam("f8")),
        scratch=("f8",),
        leaves=(
            Leaf(False, (StoreScratch(0, x * pool.scalar("f8", 0)), Reduce(0, Fold.SUM, x))),
            Leaf(True, (StoreRow(1, total + 1), Store(2, total))),
            Leaf(
                False,
                (Store(out, pool.scratch("f8", 0) / total, x > 0),),
                (guard,),
                (Flag(0, FlagKind.INVALID, guard),),
            ),
        ),
        slots=1,
    )
    data = np.array([[1.0, 2.0, -1.0], [1.0, -1.0, 0.0]])
    result, sums = np.full((2, 3), 9.0), np.empty((2, 1))
    assert run_kernel(kernel, (2, 3), [data, result, sums], [10.0]) == [int(FlagKind.INVALID)]
    assert sums.ravel().tolist() == [2, 0]
    assert result.tolist() == [[5, 10, 9], [np.inf, 9, 9]]


def test_stores_do_not_change_what_was_loaded():
    pool = Pool()
    both = tuple(ArrayParam("i4", Stride.UNIT, True, True) for _ in range(2))
    swap = Leaf(False, (Store(0, pool.load("i4", 1)), Store(1, pool.load("i4", 0))))
    kernel = Kernel("swap", 0, 1, both, (), (), (), (swap,))
    a, b = np.arange(3, dtype="i4"), np.arange(3, dtype="i4") + 10
    run_kernel(kernel, (3,), [a, b], [])
    assert (a.tolist(), b.tolist()) == ([10, 11, 12], [0, 1, 2])
