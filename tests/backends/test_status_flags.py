"""Kernels that leave warnings to the processor's flags: what sets them, and the masks' function."""

import ctypes
import platform

import numpy as np
import pytest

from npaccel import _native
from npaccel.backends.base import Loaded
from npaccel.backends.emit.machine import Guard
from npaccel.backends.emit.skeletons import may_use_status
from npaccel.backends.launch import Launch
from npaccel.backends.llvm.compile import bind
from npaccel.backends.llvm.printer import write_module
from npaccel.ir.nodes import Flag, FlagKind, Fold, Leaf, Reduce, RowParam, Store, StoreScratch
from npaccel.ir.scalar import Core, Pool

from .support import U, Z, kernel, param, same_bits

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="not the flags of an x86")
KINDS = {FlagKind.INVALID: 1, FlagKind.DIVIDE: 4, FlagKind.OVER: 8}  # as <fenv.h> has them
ALL = sum(KINDS.values())
LIBM = ctypes.CDLL("libm.so.6")


def _launch(host, made, guard, extents, arrays):
    """Run with a guard; the processor's flags, and those of the slots."""
    text = write_module([(("main",), made)], host.vector_bytes, fence=host.fence, guard=guard)
    code = _native.Code(host.emit_object(text), ("main",))
    loaded = Loaded(code.addresses[0], 0, host.vector_bytes, code.size, code)
    launch = Launch(bind(made, loaded), extents, arrays, ())
    limits, scratch = np.array([0, 1, 0, extents[-1]], "i8"), np.empty(1 << 16, "u1")
    aligned = -(-scratch.ctypes.data // 64) * 64
    arguments = launch.words.ctypes.data, limits.ctypes.data, aligned, launch.flags.ctypes.data
    LIBM.feclearexcept(ALL)
    launch._main(*arguments)
    return LIBM.fetestexcept(ALL), [int(bits) for bits in launch.flags[: made.slots]]


def _quotient(dtype, *, hidden=False):
    """x / y, or only where y is not 0, which hides no warning of NumPy's."""
    pool = Pool()
    x, y = pool.load(dtype, 0), pool.load(dtype, 1)
    value = x / y
    zero = y.eq(0.0)
    shown = (~zero).select(value, y) if hidden else value
    finite = abs(x) < np.inf
    flags = (
        Flag(0, FlagKind.DIVIDE, zero & finite & x.ne(0.0)),
        Flag(0, FlagKind.INVALID, (value.ne(value)) & x.eq(x) & y.eq(y)),
    )
    leaf = Leaf(False, (Store(2, shown),), (value.nonfinite(),), flags)
    return kernel([param(dtype), param(dtype), param(dtype, out=True)], [leaf], slots=1)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("n", [1, 7, 64, 333])
def test_each_lane_is_seen(host, dtype, hidden, n):
    made = _quotient(dtype, hidden=hidden)
    assert may_use_status(made)
    rng = np.random.default_rng(n)
    for at in {0, n // 2, n - 1}:
        for x, y, kind in ((1, 0, FlagKind.DIVIDE), (0, 0, FlagKind.INVALID), (1, 2, None)):
            arrays = [rng.uniform(1, 2, n).astype(dtype) for _ in range(3)]
            arrays[0][at], arrays[1][at] = x, y
            raised, _ = _launch(host, made, Guard.STATUS, (n,), arrays)
            assert raised == (KINDS[kind] if kind else 0)
            with np.errstate(all="ignore"):
                want = arrays[0] / arrays[1]
            want = np.where(arrays[1] == 0, arrays[1], want) if hidden else want
            assert same_bits(arrays[2], want)
            before = arrays[2].copy()
            _, slots = _launch(host, made, Guard.MASKS, (n,), arrays)
            assert slots == [int(kind) if kind else 0]
            assert same_bits(arrays[2], before), "the masks' function stores nothing"


def test_an_overflow_within_is_seen_and_ordinary_numbers_are_not(host):
    """Ten steps, of which one overflows; the result is finite again."""
    pool = Pool()
    x = pool.load("f8", 0)
    value = 1.0 / (x * x * x) + abs(x).unary(Core.SQRT)
    made = kernel([param("f8"), param("f8", out=True)], [Leaf(False, (Store(1, value),))])
    for n in (5, 100):
        data = np.linspace(1, 2, n)
        assert _launch(host, made, Guard.STATUS, (n,), [data, np.empty(n)])[0] == 0
        data[n // 2] = 1e200
        assert _launch(host, made, Guard.STATUS, (n,), [data, np.empty(n)])[0] == 8


def test_masks_of_what_a_sum_comes_to(host):
    pool = Pool()
    x = pool.load("f8", 0)
    ratio = x / pool.row("f8", 0)
    leaves = [
        Leaf(False, (Reduce(0, Fold.SUM, x),)),
        Leaf(
            False,
            (Store(1, ratio),),
            (ratio.nonfinite(),),
            (Flag(0, FlagKind.DIVIDE, pool.row("f8", 0).eq(0.0) & x.ne(0.0)),),
        ),
    ]
    made = kernel([param("f8"), param("f8", out=True)], leaves, rows=(RowParam("f8"),), slots=1)
    assert may_use_status(made)
    for data, bits in (([1.0, 2.0, 3.0], 0), ([1.0, -1.0], 4)):
        arrays = [np.array(data), np.full(len(data), 7.0)]
        assert _launch(host, made, Guard.STATUS, (len(data),), arrays)[0] == bits
        arrays[1][:] = 7.0
        assert _launch(host, made, Guard.MASKS, (len(data),), arrays)[1] == [bits // 4]
        assert (arrays[1] == 7.0).all()


def test_what_keeps_masks_from_values():
    def may(dtype, op):
        pool = Pool()
        value = pool.make(op, dtype, (pool.load(dtype, 0), pool.load(dtype, 0)))
        return may_use_status(kernel([param(dtype)], [Leaf(False, (Store(0, value),))]))

    assert may("f8", Core.DIV) and may("i4", Core.ADD)
    assert not may("f2", Core.ADD) and not may("i4", Core.DIV) and not may("u1", Core.REM)
    pool = Pool()
    leaves = [
        Leaf(False, (Store(0, pool.load("f8", 0) * 2.0), StoreScratch(0, pool.load("f8", 0)))),
        Leaf(False, (Store(1, pool.load("f8", 0) + pool.scratch("f8", 0)),)),
    ]
    arrays = [param("f8", U, out=True, read=True), param("f8", Z, out=True, band_only=True)]
    assert not may_use_status(kernel(arrays, leaves, scratch=("f8",)))
