"""Compiled scans against the interpreter: operations, tails, flags, lanes along the band."""

import numpy as np
import pytest

from npaccel.ir.nodes import Flag, FlagKind, Leaf, Store, StoreScratch
from npaccel.ir.scalar import SCANNED, Pool

from .support import S, U, check, compile_kernel, edge_values, kernel, param

LOGIC = [name for name in SCANNED if name.startswith("logical")]
BITS = [name for name in SCANNED if name.startswith("bitwise")]
CASES = [(name, "b1") for name in LOGIC]
CASES += [(name, dtype) for name in BITS for dtype in ("i4", "u8")]
CASES += [
    (name, dtype)
    for name in SCANNED
    if name not in LOGIC + BITS
    for dtype in ("i2", "u8", "f2", "f4", "f8")
]


def _scan(name, dtype, vector, *, vector_band):
    """The results, and those of the index before."""
    pool = Pool()
    scan = pool.scan(name, pool.load(dtype, 0))
    arrays = [param(dtype, vector), param(dtype, vector, out=True), param(dtype, out=True)]
    stores = Store(1, scan), Store(2, pool.before(scan))
    return kernel(arrays, [Leaf(False, stores)], band_rank=1, vector_band=vector_band)


def _arrays(dtype, shape, vector, *, vector_band):
    rows, columns = shape[::-1] if vector_band else shape
    step = 1 if vector is U else 2
    made = [edge_values(dtype, rows * columns * step, k) for k in range(3)]
    wide = [array.reshape(rows, -1)[:, ::step] for array in made[:2]]
    wide.append(made[2][: rows * columns].reshape(rows, columns))
    return [array.T for array in wide] if vector_band else wide


@pytest.mark.one_in(5)
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_scans_along_rows_and_down_columns(machine, name, dtype):
    for vector_band in (False, True):
        made = _scan(name, dtype, U, vector_band=vector_band)
        compiled = compile_kernel(made, machine)
        for shape in ((3, 1), (1, 77), (40, 19), (70, 5)):
            arrays = _arrays(dtype, shape, U, vector_band=vector_band)
            check(machine, made, shape, arrays, compiled=compiled)


@pytest.mark.parametrize("vector_band", [False, True])
def test_scans_of_elements_apart(machine, vector_band):
    made = _scan("add", "f8", S, vector_band=vector_band)
    arrays = _arrays("f8", (21, 45), S, vector_band=vector_band)
    check(machine, made, (21, 45), arrays)


@pytest.mark.parametrize("vector_band", [False, True])
def test_flags_and_scratch_of_scans(machine, vector_band):
    """An overflow is noticed where it begins; a later loop reads what the first one left."""
    pool = Pool()
    scan = pool.scan("multiply", pool.load("f8", 0))
    infinite = ~(abs(scan) < np.inf)
    begins = infinite & (abs(pool.before(scan)) < np.inf)
    leaves = [
        Leaf(False, (StoreScratch(0, scan),), (infinite,), (Flag(0, FlagKind.OVER, begins),)),
        Leaf(False, (Store(1, pool.scratch("f8", 0) * 0.5),)),
    ]
    arrays = [param("f8"), param("f8", out=True)]
    fields = {"band_rank": 1, "vector_band": vector_band, "scratch": ("f8",), "slots": 1}
    made = kernel(arrays, leaves, **fields)
    compiled = compile_kernel(made, machine)
    for factor in (1.5, 1e9):
        data = [np.full((35, 37), factor), np.zeros((35, 37))]
        data = [array.T for array in data] if vector_band else data
        check(machine, made, data[0].shape, data, compiled=compiled)


@pytest.mark.parametrize("dtype", ["f8", "i4"])
def test_scans_of_many_and_of_long_rows(machine, dtype):
    """Of bands of two axes; of what is computed, and computed with; over what is read."""
    pool = Pool()
    x, y = pool.load(dtype, 0), pool.load(dtype, 1)
    scan = pool.scan("add", x + y)
    stores = Store(2, scan + y), Store(1, pool.before(scan))
    arrays = [param(dtype), param(dtype, read=True, out=True), param(dtype, out=True)]
    made = kernel(arrays, [Leaf(False, stores)], band_rank=2)
    compiled = compile_kernel(made, machine)
    for shape in ((3, 7, 130), (1, 33, 64), (2, 1, 65), (5, 16, 300)):
        data = [edge_values(dtype, int(np.prod(shape)), k).reshape(shape) for k in range(3)]
        if dtype == "f8":
            data = [np.where(np.isfinite(one), one, 1.0) for one in data]
        check(machine, made, shape, data, compiled=compiled)
