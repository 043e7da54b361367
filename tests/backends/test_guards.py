"""Guards: whatever is not finite in whatever lane is told, and nothing else is asked about."""

from __future__ import annotations

import numpy as np
import pytest

from npaccel.backends.emit.guards import as_a_rule, finite, looked_back_at, rare_folds, watched
from npaccel.backends.llvm.target import Host
from npaccel.ir.nodes import Flag, FlagKind, Fold, Leaf, Reduce, RowParam, Store, Stride
from npaccel.ir.reference.kernels import run_kernel
from npaccel.ir.scalar import Pool

from .support import Llvm, check, compile_kernel, kernel, param, run_step

INF, NAN = float("inf"), float("nan")
DTYPES = ("f8", "f4", "f2", "f8")
SIZES = (1, 7, 33, 130)


def watched_kernel():
    """Four arrays whose elements nothing uses but guards; and a guard that is no value's."""
    pool = Pool()
    loads = [pool.load(dtype, k) for k, dtype in enumerate(DTYPES)]
    below = loads[3] < 0.0
    flags = [Flag(k, FlagKind.INVALID, x.nonfinite()) for k, x in enumerate(loads)]
    guards = (loads[0].nonfinite() | loads[1].nonfinite(), loads[2].nonfinite(), below)
    shown = below.select(loads[0].like(1.0), 2.0)
    guards = (*guards, loads[3].nonfinite())
    flags.append(Flag(4, FlagKind.OVER, below))
    leaf = Leaf(False, (Store(4, shown),), guards, tuple(flags))
    return kernel([*map(param, DTYPES), param("f8", out=True)], [leaf], slots=5)


def check_lanes(machine) -> None:
    compiled = compile_kernel(watched_kernel(), machine)
    for n in SIZES:
        usual = [np.linspace(1, 2, n).astype(dtype) for dtype in DTYPES]
        for x in usual:
            x[::3] = np.finfo(x.dtype).max  # sums of these are no reason to say anything
        usual[0][::3] *= -1.0
        assert run_step(compiled, (n,), [*usual, np.empty(n)]) == [0] * 5
        for which, value, lane in [(w, v, p) for w in range(4) for v in (INF, -INF, NAN)
                                   for p in sorted({0, n // 2, n - 1})]:  # fmt: skip
            arrays = [x.copy() for x in usual]
            arrays[which][lane] = value
            other = [x.copy() for x in arrays]
            other[which][-1 - lane] = -value  # sums of both are NaN, too
            for given in (arrays, other):
                flags = run_step(compiled, (n,), [*given, np.empty(n)])
                raised = [int(FlagKind.INVALID) * (k == which) for k in range(4)]
                below = which == 3 and bool((given[3] < 0).any())
                assert flags == [*raised, int(FlagKind.OVER) * below], (n, which, value, lane)


def test_every_lane_of_every_value(machine) -> None:
    check_lanes(machine)


@pytest.mark.parametrize(("cpu", "size"), [("x86-64-v3", 32), ("x86-64-v2", 16)])
def test_every_lane_of_narrow_vectors(cpu, size, host) -> None:
    if not host.triple.startswith("x86_64") or host.vector_bytes < size:
        pytest.skip(f"this processor is no {cpu}")
    check_lanes(Llvm(Host(cpu, size)))


def test_guards_of_values_need_no_masks() -> None:
    pool = Pool()
    x, y, h = pool.load("f8", 0), pool.load("f4", 1), pool.load("f2", 2)
    others = [x < 0.0, h.nonfinite(), ~(abs(x) < 5.0), ~(x < INF)]
    given = [x.nonfinite() | y.nonfinite(), others[0] | x.nonfinite(), *others[1:]]
    looked = finite(given)
    assert (looked.values, looked.masks) == ((x, y), tuple(others))


def largest_kernel(second=Stride.UNIT, **fields):
    """A sum; and the largest of those elements, as integers, that are not finite."""
    pool = Pool()
    value = pool.load("f8", 0) * pool.load("f8", 1)
    guard, none = value.nonfinite(), np.iinfo("i8").min
    chosen = guard.select(value.bitcast("i8") & int(np.iinfo("i8").max), int(none))
    folds = (Reduce(0, Fold.SUM, value), Reduce(1, Fold.MAX, chosen))
    stores = (Store(2, pool.row("f8", 0)), Store(3, pool.row("i8", 1)))
    flags = (Flag(0, FlagKind.INVALID, value.isnan() & (pool.load("f8", 0) > 1.0)),)
    along = Stride.UNIT if fields.get("vector_band") else Stride.ZERO
    outputs = [param(d, along, out=True, band_only=True) for d in ("f8", "i8")]
    return kernel(
        [param("f8"), param("f8", second), *outputs],
        [Leaf(False, folds, (guard,), flags), Leaf(True, stores)],
        rows=(RowParam("f8"), RowParam("i8")), slots=1, **fields,
    )  # fmt: skip


def bad_places(n):
    values = [
        (v, at) for v in (INF, -INF, NAN) for at in sorted({0, n // 2, min(n, 512) - 1, n - 1})
    ]
    return [(1.0, 0), *values]


@pytest.mark.parametrize("split", [False, True])
def test_folds_of_what_is_not_finite(machine, split) -> None:
    made = largest_kernel(split=split)
    leaf = made.leaves[0]
    assert [fold.index for fold in rare_folds(leaf)] == [1]
    assert [effect.index for effect in as_a_rule(leaf).effects] == [0]
    compiled = compile_kernel(made, machine)
    ones = [np.zeros(1, dtype) for dtype in ("f8", "i8")]
    for n in (1, 31, 100, 1300):
        for value, at in bad_places(n):
            x, y = np.linspace(1.0, 2.0, n), np.full(n, 1.5)
            x[at] = value
            y[-1 - at] = 0.0 if value else 1.0
            out = [np.lib.stride_tricks.as_strided(one, (n,), (0,)) for one in ones]
            check(machine, made, (n,), [x, y, *out], compiled=compiled)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("along", ["rows", "columns", "rows that y lies across"])
def test_folds_of_rows_and_columns(machine, along) -> None:
    vector_band = along == "columns"
    second = Stride.ACROSS if "across" in along else Stride.UNIT
    made = largest_kernel(second, band_rank=1, vector_band=vector_band)
    compiled = compile_kernel(made, machine)
    for points, n in ((1, 3), (3, 40), (70, 33), (2, 1100)):
        for value, at in bad_places(n):
            shape = (n, points) if vector_band else (points, n)
            x = np.linspace(1.0, 2.0, n * points).reshape(shape)
            y = np.full(shape, 1.5)
            if vector_band:
                x, y = x.T, y.T
            x[points // 2, at] = value
            y[points // 2, -1 - at] = 0.0
            y = np.asfortranarray(y) if second is Stride.ACROSS else y
            out = [np.lib.stride_tricks.as_strided(np.zeros(points, d), (points, n), (8, 0))
                   for d in ("f8", "i8")]  # fmt: skip
            check(machine, made, (points, n), [x, y, *out], compiled=compiled)


def test_what_sums_tell_of_is_not_looked_at_before() -> None:
    leaf = largest_kernel().leaves[0]
    first, again = looked_back_at(leaf)
    assert again is not None and not first.guards and not first.flags
    assert ([e.index for e in first.effects], [e.index for e in again.effects]) == ([0], [1])
    assert again.guards == leaf.guards and again.flags == leaf.flags
    pool = Pool()
    value = pool.load("f8", 0) * 2.0
    folds = Reduce(0, Fold.SUM, value), Store(0, value)  # which overwrites what it reads
    leaf = Leaf(False, folds, (value.nonfinite(),), (Flag(0, FlagKind.OVER, value.isnan()),))
    assert looked_back_at(leaf) == (leaf, None)


def rounds(pool, dtype, n):
    """z = where(|z|**2 <= 4, z**2 + c, z), n times, by real parts; and what warns in it."""
    x, y, two = pool.load(dtype, 0), pool.load(dtype, 1), pool.scalar(dtype, 0)
    re, im, guards, flags = x, y, [], []
    for _ in range(n):
        squares = re * re, im * im
        size = squares[0] + squares[1]
        inside = size <= 4.0
        steps = squares[0] - squares[1] + x, two * re * im + y
        for value in (size, *steps):
            guards.append(value.nonfinite())
            flags.append(Flag(len(flags), FlagKind.OVER, value.nonfinite()))
        re, im = (inside.select(a, b) for a, b in zip(steps, (re, im), strict=True))
    return (re, im), guards, flags


def rounds_kernel(dtype, n):
    pool = Pool()
    values, guards, flags = rounds(pool, dtype, n)
    stores = tuple(Store(2 + k, value) for k, value in enumerate(values))
    leaf = Leaf(False, stores, tuple(guards), tuple(flags))
    arrays = [*(param(dtype) for _ in range(2)), *(param(dtype, out=True) for _ in range(2))]
    return kernel(arrays, [leaf], scalars=(dtype,), slots=len(flags))


def test_few_values_are_looked_at_for_many_that_warn() -> None:
    for dtype, most in (("f8", 12), ("f4", 22)):
        (leaf,) = rounds_kernel(dtype, 10).leaves
        looked = watched(leaf.guards)
        assert looked.bounded and len(looked.values) <= most and len(looked.fixed) == 1
        assert len(finite(leaf.guards).values) == 30


def test_what_is_large_is_no_reason_to_say_anything(machine) -> None:
    given = rounds_kernel("f8", 10)
    compiled = compile_kernel(given, machine)
    for n in (5, 70):
        for big, two in ((1e3, 2.0), (1e60, 2.0), (-1e150, 2.0), (1e160, 2.0), (1e-300, 1e300),
                         (INF, 2.0), (NAN, 2.0), (1.0, INF), (1.0, NAN), (-0.0, INF)):  # fmt: skip
            for lane in (0, n // 2, n - 1):
                x, y = np.linspace(-1, 0.5, n), np.linspace(0.1, 1.0, n)
                for at in (x, y):
                    at[lane] = big
                    arrays = [x, y, np.empty(n), np.empty(n)]
                    wanted = [a.copy() for a in arrays]
                    flags = run_step(compiled, (n,), arrays, (two,))
                    with np.errstate(all="ignore"):
                        assert flags == run_kernel(given, (n,), wanted, (two,)), (n, big, two, lane)
                    for got, right in zip(arrays[2:], wanted[2:], strict=True):
                        np.testing.assert_array_equal(got, right)
