"""How many kernels programs become, and that they compute what NumPy does."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest
from traces import Recorder, compare, inner_leaves, kernels

from npaccel.ir.kinds import FlagKind
from npaccel.ir.nodes import Fold, KernelStep, Plan, Reduce, RequestStep, Trace
from npaccel.ir.passes import Limits, plan
from npaccel.ir.scalar import Core, topological

RNG = np.random.default_rng(3)


def planned(recorder: Recorder, **options: Any) -> Plan:
    result = plan(recorder.trace(), check=True, **options)
    compare(recorder, result)
    return result


def test_flat_map_is_one_kernel_with_one_guard() -> None:
    r = Recorder()
    a, b, c = (r.array(RNG.normal(size=1000)) for _ in range(3))
    t = r.map("multiply", r.map("add", r.map("multiply", a, 2.0), b), c)
    r.keep(r.map("subtract", t, r.map("divide", a, 3.0)))
    result = planned(r)
    (kernel,) = kernels(result)
    (leaf,) = kernel.leaves
    assert len(leaf.guards) == 1
    assert len(leaf.effects) == 1
    assert len(kernel.arrays) == 4
    assert kernel.split
    assert len(result.buffers) == 4


def test_guard_stays_where_a_value_can_vanish() -> None:
    r = Recorder()
    a, b = (r.array(RNG.normal(size=100)) for _ in range(2))
    r.keep(r.map("divide", a, r.map("multiply", b, 2.0)))
    (kernel,) = kernels(planned(r))
    assert len(kernel.leaves[0].guards) == 2


@pytest.mark.parametrize(("apart", "count"), [(0, 1), (4, 2), (2, 6)])
def test_rounds_apart_have_kernels_of_their_own(apart, count) -> None:
    """Of two rounds of four requests; a request that joins two groups joins none of others'."""
    r = Recorder()
    x, y = (r.array(RNG.normal(size=(2, 100))[0]) for _ in range(2))
    for _ in range(2):
        left, right = r.map("multiply", x, 2.0), r.map("negative", y)
        x, y = r.map("add", left, right), r.map("subtract", left, 1.0)
    r.keep(x), r.keep(y)
    trace = dataclasses.replace(r.trace(), apart=apart)
    result = plan(trace, check=True)
    compare(r, result)
    assert len(kernels(result)) == count
    made = [step.kernel for step in result.steps if isinstance(step, KernelStep)]
    assert apart != 4 or len(set(made)) == 1


def test_rms_is_one_kernel() -> None:
    r = Recorder()
    x = r.array(RNG.normal(size=1000))
    mean = r.map("divide", r.reduce("add", r.map("multiply", x, x)), 1000.0)
    r.keep(r.map("sqrt", mean))
    (kernel,) = kernels(planned(r))
    assert kernel.split
    assert kernel.band_rank == 0
    assert inner_leaves(kernel) == 1


def test_squared_distance_needs_no_temporary() -> None:
    r = Recorder()
    a, b = (r.array(RNG.normal(size=1000)) for _ in range(2))
    d = r.map("subtract", a, b)
    total = r.reduce("add", r.map("multiply", d, d))
    r.keep(total)
    result = planned(r)
    assert len(kernels(result)) == 1
    assert len(result.buffers) == 3


def softmax(r: Recorder, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = r.map("exp", r.map("subtract", x, r.reduce("maximum", x, 1)))
    return r.map("divide", e, r.reduce("add", e, 1))


def test_softmax_is_one_kernel_of_three_inner_leaves() -> None:
    r = Recorder()
    x = r.array(RNG.normal(size=(100, 50)))
    r.keep(softmax(r, x))
    result = planned(r)
    (kernel,) = kernels(result)
    assert inner_leaves(kernel) == 3
    assert kernel.scratch == ("f8",)
    assert len(kernel.arrays) == 2
    assert len(result.buffers) == 2


def test_long_rows_are_not_kept_in_scratch() -> None:
    r = Recorder()
    x = r.array(RNG.normal(size=(70, 40000)))
    r.keep(r.map("subtract", x, r.map("divide", r.reduce("add", x, 1), 40000.0)))
    (kernel,) = kernels(planned(r))
    assert kernel.scratch == ()
    assert inner_leaves(kernel) == 2


def test_layer_norm_in_place_is_one_kernel() -> None:
    r = Recorder()
    x = r.array(RNG.normal(size=(80, 30)))
    mean = r.map("divide", r.reduce("add", x, 1), 30.0)
    r.map("subtract", x, mean, out=x)
    var = r.map("divide", r.reduce("add", r.map("multiply", x, x), 1), 30.0)
    r.map("divide", x, r.map("sqrt", r.map("add", var, 1e-5)), out=x)
    result = planned(r)
    assert len(kernels(result)) == 1
    assert len(result.buffers) == 1


@pytest.mark.parametrize("scratch_bytes", [0, 1 << 18])
def test_values_of_overwritten_memory_are_kept(scratch_bytes: int) -> None:
    r = Recorder()
    x = r.array(RNG.normal(size=(80, 30)))
    t = r.map("multiply", x, 2.0)
    r.map("multiply", x, r.reduce("add", t, 1), out=x)
    r.keep(r.map("add", t, r.reduce("add", x, 1)))
    result = kernels(planned(r, limits=Limits(scratch_bytes=scratch_bytes)))
    if scratch_bytes:
        assert len(result) == 1
        assert result[0].scratch == ("f8",)
    else:
        assert len(result) > 1


def test_row_sums_of_an_outer_expression() -> None:
    r = Recorder()
    x = r.array(RNG.normal(size=200))
    m = r.array(RNG.normal(size=200))
    d = r.map("subtract", x[None, :], x[:, None])
    inverse = r.map("divide", 1.0, r.map("sqrt", r.map("add", r.map("multiply", d, d), 0.1)))
    force = r.map("multiply", r.map("multiply", d, inverse), m[None, :])
    r.keep(r.reduce("add", force, 1, keepdims=False))
    result = planned(r)
    assert len(kernels(result)) == 1
    assert len(result.buffers) == 3


def test_columns_run_across_the_band() -> None:
    r = Recorder()
    x = r.array(RNG.normal(size=(50, 100)))
    mean = r.map("divide", r.reduce("add", x, 0), 50.0)
    r.keep(r.map("subtract", x, mean))
    (kernel,) = kernels(planned(r))
    assert kernel.vector_band
    assert inner_leaves(kernel) == 2


def test_full_reduction_ends_its_kernel() -> None:
    r = Recorder()
    x = r.array(RNG.normal(size=(50, 100)))
    r.keep(r.map("subtract", x, r.reduce("add", x)))
    assert len(kernels(planned(r))) == 2


def test_two_reductions_share_a_leaf() -> None:
    r = Recorder()
    x = r.array(RNG.normal(size=1000))
    r.keep(r.reduce("maximum", x), r.reduce("minimum", x))
    (kernel,) = kernels(planned(r))
    assert inner_leaves(kernel) == 1
    folds = {e.fold for e in kernel.leaves[0].effects if isinstance(e, Reduce)}
    assert folds == {Fold.MAX, Fold.MIN}


def test_few_long_rows_are_split() -> None:
    r = Recorder()
    x = r.array(RNG.normal(size=(3, 1 << 17)))
    r.keep(softmax(r, x))
    result = kernels(planned(r))
    assert len(result) == 3
    assert result[0].split
    assert result[0].band_rank == 1


def test_jacobi_sweep() -> None:
    r = Recorder()
    u = r.array(RNG.normal(size=(40, 50)))
    for _ in range(3):
        t = r.map("add", r.map("add", u[2:, 1:-1], u[:-2, 1:-1]), u[1:-1, 2:])
        t = r.map("multiply", r.map("add", t, u[1:-1, :-2]), 0.25)
        r.map("copy", t, out=u[1:-1, 1:-1])
    result = planned(r)
    assert len(kernels(result)) == 6  # a sweep into a temporary, a copy back
    assert len(result.buffers) == 4
    assert len({id(kernel) for kernel in kernels(result)}) == 2


def test_stencil_into_another_buffer_is_one_kernel() -> None:
    r = Recorder()
    u = r.array(RNG.normal(size=(40, 50)))
    v = r.array(RNG.normal(size=(40, 50)))
    t = r.map("multiply", r.map("add", u[2:, 1:-1], u[:-2, 1:-1]), 0.5)
    r.map("copy", t, out=v[1:-1, 1:-1])
    assert len(kernels(planned(r))) == 1


def test_black_scholes_is_one_kernel() -> None:
    r = Recorder()
    s, k, t = (r.array(RNG.uniform(0.5, 2.0, size=300)) for _ in range(3))
    root = r.map("multiply", r.map("sqrt", t), 0.3)
    d1 = r.map("divide", r.map("add", r.map("log", r.map("divide", s, k)), t), root)
    d2 = r.map("subtract", d1, root)
    call = r.map("subtract", r.map("multiply", s, r.map("tanh", d1)), r.map("tanh", d2))
    put = r.map("add", r.map("multiply", k, r.map("exp", r.map("negative", t))), call)
    r.keep(call, put)
    result = planned(r)
    assert len(kernels(result)) == 1
    assert len(result.buffers) == 5


def test_in_place_chain_stores_once() -> None:
    r = Recorder()
    a = r.array(RNG.normal(size=100))
    r.map("multiply", a, 2.0, out=a)
    r.map("add", a, 1.0, out=a)
    r.map("multiply", a, a, out=a)
    (kernel,) = kernels(planned(r))
    assert len(kernel.leaves[0].effects) == 1
    assert len(kernel.arrays) == 1


def test_shifted_in_place_add_is_left_to_numpy() -> None:
    r = Recorder()
    a = r.array(RNG.normal(size=100))
    r.map("add", a[1:], a[:-1], out=a[1:])
    result = planned(r)
    assert result.steps == (RequestStep(0, "result overlaps an operand"),)


def test_residues_are_disjoint() -> None:
    r = Recorder()
    a = r.array(RNG.normal(size=100))
    r.map("multiply", a[::2], 2.0, out=a[::2])
    r.map("add", a[1::2], a[::2], out=a[1::2])
    assert len(kernels(planned(r))) == 1


def test_dead_requests_are_dropped_unless_they_may_warn() -> None:
    for errstate, flags in ((0, 0), (0x45, 1)):
        r = Recorder(errstate)
        a = r.array(np.array([1.0, 0.0, 2.0]))
        r.map("divide", 1.0, a)
        r.keep(r.map("add", a, 1.0))
        result = planned(r)
        (kernel,) = kernels(result)
        assert result.dropped == (() if flags else (0,))
        assert len(result.buffers) == 2
        assert sum(len(leaf.effects) for leaf in kernel.leaves) == 1


def test_of_a_dead_result_only_the_condition_of_its_warning_is_computed() -> None:
    """Not of one whose warning shows in the result, as an overflow."""
    for name, computed in (("log", False), ("sqrt", False), ("exp", True)):
        r = Recorder(0x45)
        a = r.array(RNG.normal(size=10))
        r.map(name, a)
        (kernel,) = kernels(planned(r))
        (leaf,) = kernel.leaves
        assert leaf.flags and leaf.guards and not leaf.effects
        nodes = topological([*leaf.guards, *(flag.mask for flag in leaf.flags)])
        assert (len(nodes) > 12 or Core.SQRT in {node.op for node in nodes}) == computed, name


def test_warnings_that_an_exponent_rules_out_are_not_looked_for() -> None:
    for exponent, kinds in ((2.0, {FlagKind.OVER}), (0.0, set())):
        for kept in (True, False):
            r = Recorder(0x45)
            a = r.array(RNG.normal(size=10))
            result = r.map("power", a, exponent)
            if kept:
                r.keep(result)
            found = planned(r)
            flags = {flag.kind for k in kernels(found) for leaf in k.leaves for flag in leaf.flags}
            assert flags == kinds
            assert found.consumed == ((0, 1),)
            assert found.dropped == ((0,) if not kept and not kinds else ())


def test_overwritten_result_is_dropped() -> None:
    r = Recorder(0)
    a = r.array(RNG.normal(size=10))
    out = r.map("sqrt", a)
    r.map("copy", a, out=out)
    r.keep(out)
    assert planned(r).dropped == (0,)


def test_division_by_a_power_of_two_is_consumed() -> None:
    r = Recorder()
    a = r.array(RNG.normal(size=10))
    r.keep(r.map("divide", a, 8.0), r.map("divide", a, 3.0))
    result = planned(r)
    assert result.consumed == ((0, 1),)
    (kernel,) = kernels(result)
    assert len(kernel.scalars) == 1


def test_masked_requests() -> None:
    r = Recorder()
    a = r.array(np.array([1.0, -1.0, 0.0, 4.0]))
    b = r.array(np.array([5.0, 6.0, 7.0, 8.0]))
    where = r.map("greater", a, 0.0)
    r.map("sqrt", a, out=b, where=where)
    r.map("log", b, out=b, where=where)
    r.keep(r.reduce("add", a, where=where))
    assert len(kernels(planned(r))) == 1


def test_what_nobody_sees_is_not_kept_under_a_mask() -> None:
    """A temporary that holds nothing elsewhere is not read to keep it."""
    r = Recorder()
    a, z = r.array(RNG.normal(size=50)), r.array(RNG.normal(size=50))
    where = r.map("greater", a, 0.0)
    product = r.map("multiply", z, z, where=where)
    r.map("copy", r.map("add", product, a, where=where), out=z, where=where)
    r.keep(z)
    (kernel,) = kernels(planned(r))
    assert len(kernel.arrays) == 2


def test_casts_warn_too() -> None:
    r = Recorder()
    a = r.array(np.array([1.0, 1e300, np.nan]))
    r.keep(r.map("copy", a, out=r.empty((3,), "f4")), r.map("copy", a, out=r.empty((3,), "i4")))
    planned(r)


def test_sums_warn_of_growth_only() -> None:
    for values in ([1e308, 1e308], [np.inf, 1.0], [np.inf, -np.inf], [np.nan, 1.0], [1.0, 2.0]):
        r = Recorder()
        r.keep(r.reduce("add", r.array(np.array(values))))
        planned(r)


def test_initial_value_and_argument() -> None:
    r = Recorder()
    a = r.array(RNG.normal(size=(70, 9)))
    r.keep(r.reduce("add", a, 1, initial=2.0), r.reduce("argmax", a, 1), r.reduce("argmin", a))
    assert len(kernels(planned(r))) == 2


def test_iota() -> None:
    r = Recorder()
    a = r.iota(1000, 0.5, 0.25)
    r.keep(r.map("multiply", a, a), r.reduce("add", a))
    (kernel,) = kernels(planned(r))
    assert len(kernel.arrays) == 2


def test_empty_requests_vanish() -> None:
    r = Recorder()
    a = r.array(np.ones((0, 3)))
    r.keep(r.map("add", a, 1.0), r.reduce("add", a, 0))
    result = planned(r)
    assert result.steps == (RequestStep(1, "empty"),)


def test_dead_reduction_that_cannot_warn_is_dropped() -> None:
    r = Recorder()
    a = r.array(np.ones((1, 5)))
    r.map("add", a, a, out=a)
    r.reduce("add", a.T[::-1], 1)
    assert planned(r).dropped == (1,)


def test_independent_groups_merge_for_their_consumer() -> None:
    r = Recorder()
    a, b = (r.array(RNG.normal(size=100)) for _ in range(2))
    left, right = r.map("sin", a), r.map("cos", b)
    r.keep(r.map("multiply", left, right))
    assert len(kernels(planned(r))) == 1


def test_equal_structure_is_one_kernel_object() -> None:
    r = Recorder()
    for n in (100, 200, 300):
        r.keep(r.map("add", r.array(RNG.normal(size=n)), 1.0))
    result = kernels(planned(r))
    assert len(result) == 3
    assert len({id(kernel) for kernel in result}) == 1


def test_kernel_limit_splits_long_chains() -> None:
    r = Recorder(0)
    a = r.array(RNG.normal(size=10))
    for _ in range(4000):
        a = r.map("add", a, 1.0)
    r.keep(a)
    result = planned(r)
    assert 2 <= len(result.steps) < 20


def long_trace(turns: int) -> Trace:
    r = Recorder(0)
    a = r.array(RNG.normal(size=16))
    b = r.array(RNG.normal(size=16))
    for turn in range(turns):
        t = r.map("add", a, b)
        r.map("multiply", t, 0.5, out=a)
        r.map("add", b[1:], 1.0, out=b[1:])
        r.map("subtract", b[: 8 + turn % 8], 1.0, out=b[: 8 + turn % 8])
    return r.trace()


def lines(trace: Trace) -> int:
    """How many lines planning goes through, each turn of a loop again."""
    count, before = 0, sys.gettrace()

    def counted(frame: FrameType, event: str, _: object) -> Callable[..., Any]:
        nonlocal count
        count += event == "line"
        return counted

    sys.settrace(counted)
    try:
        result = plan(trace)
    finally:
        sys.settrace(before)
    assert all(isinstance(step, KernelStep) for step in result.steps)
    return count


def test_plan_takes_linear_time() -> None:
    # A quadratic step would show as a factor of 16 between the two.
    short, long = lines(long_trace(75)), lines(long_trace(300))
    assert 3 * short < long < 5 * short


@pytest.mark.parametrize(
    ("shape", "dtype", "across"),
    [
        ((20, 3), "u1", True),
        ((20, 7), "u1", True),
        ((20, 8), "u1", False),
        ((20, 4), "f8", True),
        ((20, 5), "f8", False),
        ((15, 3), "f8", False),
    ],
)
def test_many_short_rows_take_a_row_per_lane(
    shape: tuple[int, int], dtype: str, across: bool
) -> None:
    r = Recorder()
    shade = r.array(np.arange(shape[0]).astype(dtype))
    colours = r.array(np.arange(shape[0] * shape[1]).astype(dtype).reshape(shape))
    r.keep(r.map("add", colours, shade[:, None]))
    (kernel,) = kernels(planned(r))
    assert kernel.vector_band is across


@pytest.mark.parametrize(
    ("shape", "axis", "stored", "across"),
    [
        ((90, 3), 1, False, True),
        ((90, 15), 1, False, True),
        ((90, 16), 1, False, False),
        ((90, 8), 1, True, True),
        ((90, 9), 1, True, False),
        ((90, 3, 5), (1, 2), False, True),
        ((90, 4, 4), (1, 2), False, False),
        ((90, 8, 15), 2, False, True),
        ((90, 4, 7), 2, False, True),
        ((90, 4, 15), 2, False, True),
        ((90, 4, 16), 2, False, False),
        ((90, 4, 8), 2, True, True),
        ((90, 4, 9), 2, True, False),
        ((90, 2, 3), 2, False, True),
        ((3, 2, 3), 2, False, True),
        ((3, 2, 12), 2, False, False),
        ((3, 90), 1, False, False),
    ],
)
def test_short_rows_are_reduced_a_row_per_lane(
    shape: tuple[int, ...], axis: int | tuple[int, ...], stored: bool, across: bool
) -> None:
    axes = (axis,) if isinstance(axis, int) else axis
    r = Recorder()
    x = r.array(RNG.normal(size=shape))
    if axis == 2:  # whose bands are no single axis
        x = r.map("subtract", x[:, :1], r.array(RNG.normal(size=shape[1:])))
    total = r.reduce("maximum", x, axes)
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
    r.keep(r.map("subtract", x, total.reshape(kept)) if stored else total)
    (kernel,) = kernels(planned(r))
    assert kernel.vector_band is across


def test_scans_along_rows_are_fused() -> None:
    r = Recorder()
    paths = r.scan("add", r.map("multiply", r.array(RNG.normal(size=(80, 40))), 0.1), 1)
    prices = r.map("exp", paths)
    peaks = r.scan("maximum", prices, 1)
    falls = r.map("divide", r.map("subtract", peaks, prices), peaks)
    r.keep(r.reduce("maximum", falls, 1), r.reduce("add", paths, 1))
    (kernel,) = kernels(planned(r))
    assert inner_leaves(kernel) == 1 and not kernel.split and not kernel.vector_band


def test_scans_down_columns_have_a_column_per_lane() -> None:
    r = Recorder()
    x = r.array(RNG.normal(size=(30, 80)))
    r.scan("add", x, 0, out=x)
    r.keep(r.reduce("minimum", x, 0))
    (kernel,) = kernels(planned(r))
    assert kernel.vector_band and not kernel.split


@pytest.mark.parametrize("scratch_bytes", [0, 1 << 18])
def test_scans_in_several_loops_over_a_row(scratch_bytes: int) -> None:
    r = Recorder()
    x = r.array(RNG.normal(size=(80, 30)))
    total = r.scan("add", r.map("exp", x), 1)
    share = r.map("divide", total, r.reduce("add", r.map("sin", total), 1))
    r.scan("multiply", share, 1, out=x)
    r.keep(r.map("subtract", share, r.reduce("maximum", x, 1)))
    limits = Limits(scratch_bytes=scratch_bytes, recompute_cost=60 if scratch_bytes else 1)
    found = kernels(planned(r, limits=limits))
    assert (len(found) == 1) == bool(scratch_bytes)


def test_scans_warn_of_what_was_before() -> None:
    big = np.full((70, 4), 1e308)
    big[3] = [np.inf, 1.0, -np.inf, 1.0]
    for values in (big, big[:3], np.full((70, 4), np.nan), big[4:] / 16):
        r = Recorder()
        r.keep(r.scan("add", r.array(np.tile(values, (1, 1))), 1))
        planned(r)


def test_a_scan_along_few_rows_is_numpys() -> None:
    for shape, axis in (((1000,), 0), ((2, 1 << 16), 1)):
        r = Recorder()
        r.keep(r.scan("add", r.array(RNG.normal(size=shape)), axis))
        (step,) = planned(r).steps
        assert isinstance(step, RequestStep) and step.reason == "scan along few rows"
