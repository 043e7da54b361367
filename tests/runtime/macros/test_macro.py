"""Macro sections as functions: replays give what NumPy gives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided
from sections import plain_sizes, rand, replayed, same

import npaccel

__all__ = ["plain_sizes"]

pytestmark = pytest.mark.usefixtures("deferred")


# --------------------------------------------------------------------------- values and results


def test_calls_with_the_same_signature_are_replayed():
    @npaccel.macro
    def step(u, v, rate):
        w = u * v + rate
        return w, np.sqrt(w) - u

    calls = [(rand(50, seed=i), rand(50, seed=i + 1), 0.25 * i) for i in range(6)]
    stats = replayed(step, *calls)
    assert (stats["recordings"], stats["replays"], stats["variants"]) == (1, 6, 1)


def test_the_body_runs_once(monkeypatch):
    monkeypatch.setattr(math, "runs", 0, raising=False)  # the modules of Python are not looked into

    @npaccel.macro
    def twice(x):
        math.runs += 1
        return x * 2

    for i in range(4):
        same(twice(np.arange(5.0) + i), (np.arange(5.0) + i) * 2)
    assert math.runs == 1


def test_full_reductions_are_scalars_outside_and_deferred_inside():
    @npaccel.macro
    def normal(x):
        return (x - x.mean()) / x.std(), x.sum(), x.max() - x.min(), (x > 0.5).any(), x.argmax()

    replayed(normal, (rand(100),), (rand(100, seed=3),))


def test_scalars_do_not_change_in_place():
    @npaccel.macro
    def total(x, start):
        s = x.sum()
        before, first = s, x[0]
        s += 1
        kept, first_kept, begun = s, first, start
        s **= 2
        first *= x.max()
        start -= 0.5
        part = before.real
        part += 1
        return before, kept, s, first, first_kept, start, begun, part, x

    replayed(total, *((rand(9, seed=i), np.float64(i)) for i in range(4)))


def test_what_numpy_gives_as_scalars_and_what_as_arrays():
    @npaccel.macro
    def give(x, y):
        total = x.sum()
        z = y.copy()
        z += 1
        scalars = total.copy(), total.astype("f"), total.T, x[1].copy(), y + 1, x.argmax()
        return scalars, z, y.astype("f"), np.copy(total), np.zeros(()), np.full((), 2), x[..., 1]

    replayed(give, *((rand(9, seed=i), np.array(0.5 * i)) for i in range(4)))


@pytest.mark.parametrize(
    "body",
    [
        lambda s: (s.reshape(1), s),
        lambda s: (np.asarray(s), s),
        lambda s: (np.atleast_1d(s).__iadd__(1), s),
    ],
)
def test_views_of_scalars_are_arrays_of_their_own(body):
    section = npaccel.macro(lambda x: body(x.sum()), on_illegal="warn")
    for seed in range(3):
        same(section(rand(9, seed=seed)), section.__wrapped__(rand(9, seed=seed)))


def test_a_scalar_that_does_not_fit():
    @npaccel.macro
    def fill(x, value):
        x[1:] = value
        return x

    fill(np.arange(5), np.float64(3.5))
    with pytest.raises(OverflowError):
        fill(np.arange(5), np.float64(1e300))


NUMBERS = {
    "subscript": lambda x, k: x + k[0],
    "length": lambda x, k: x + len(k),
    "call": lambda x, k: x + k(),
    "attribute": lambda x, k: x + k.other,
    "operator": lambda x, k: x + (k << 1),
    "product": lambda x, k: (k @ 2) * x,
    "range": lambda x, k: [x * s for s in range(k)],
    "index": lambda x, k: x + [1, 2][k],
    "slice": lambda x, k: x[:k],
    "bytes": lambda x, k: (x, bytes(k)),
    "method": lambda x, k: x + k.is_integer(),
    "pair": lambda x, k: x * k.as_integer_ratio()[0],
    "hash": lambda x, k: x + hash(k),
    "class": lambda x, k: x + 1 if isinstance(k, float) else x - 1,
    "written before": lambda x, k: (x.__iadd__(1), k[0]),
}


@pytest.mark.parametrize("body", NUMBERS.values(), ids=NUMBERS)
@pytest.mark.parametrize("number", [0.5, np.float64(0.5), np.float32(0.5)])
def test_what_is_asked_of_a_number_is_answered_by_it(body, number):
    """The recording has others for them, which know less and call themselves otherwise."""

    def outcome(call):
        x = np.arange(5.0)
        try:
            return repr(call(x, number)), x.tolist()
        except Exception as error:
            return type(error), str(error), x.tolist()

    section = npaccel.macro(body)
    for _ in range(3):
        assert outcome(section) == outcome(section.__wrapped__)


def test_views_through_what_is_no_array():
    @npaccel.macro
    def windows(x):
        y = x + 1
        stride = y.strides[0]
        return y, as_strided(y, (3, 5), (0, stride)), as_strided(y, (2,), (2 * stride,))

    for seed in range(3):
        same(windows(rand(5, seed=seed)), windows.__wrapped__(rand(5, seed=seed)))


def test_results_are_nested_as_returned():
    @npaccel.macro
    def nest(x):
        return {"a": (x + 1, [x * 2, None]), "b": {"c": x.sum(), "n": 3}, "s": "text"}

    replayed(nest, (rand(7),), (rand(7, seed=1),))


def test_arguments_may_be_nested():
    @npaccel.macro
    def total(pair, table):
        return pair[0] * table["k"] + pair[1] * table["f"]

    for i in range(3):
        args = ((rand(9, seed=i), rand(9, seed=i + 1)), {"k": rand(9), "f": 1.5 * i})
        same(total(*args), total.__wrapped__(*args))
    assert total.stats()["recordings"] == 1


def test_an_argument_returned_is_the_argument():
    @npaccel.macro
    def step(u, v):
        v += u
        return u, v, v[1:], u.T

    for i in range(3):
        u, v = rand(4, 4, seed=i), rand(4, 4, seed=i + 1)
        expected = v + u
        a, b, part, turned = step(u, v)
        assert a is u and b is v
        assert part.base is v and turned.base is u
        assert np.array_equal(v, expected) and np.array_equal(part, expected[1:])
    assert step.stats()["recordings"] == 1


def test_a_result_returned_twice_is_one_array():
    @npaccel.macro
    def pair(x):
        y = x + 1
        return y, y, y[::2]

    for i in range(2):
        a, b, part = pair(rand(6, seed=i))
        assert a is b and part.base is a


def test_results_of_different_calls_are_different_memory():
    @npaccel.macro
    def double(x):
        return x * 2

    first = double(np.ones(10))
    kept = first.copy()
    second = double(np.zeros(10))
    assert np.array_equal(first, kept) and not np.shares_memory(first, second)


def test_results_lie_as_numpy_lays_them():
    @npaccel.macro
    def step(x):
        return x + 1, x.T * 2, x[:, ::-1] - 1

    replayed(step, (np.asfortranarray(rand(3, 5)),), (np.asfortranarray(rand(3, 5, seed=2)),))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (1, 1), (2, 3, 4)])
def test_shapes(shape):
    @npaccel.macro
    def step(x):
        return x * 2 + 1, np.abs(x)

    for i in range(2):
        x = np.asarray(rand(*shape, seed=i))
        a, b = step(x)
        expected = step.__wrapped__(x)
        if shape == ():
            assert a == expected[0] and b == expected[1] and type(a) is np.float64
        else:
            same((a, b), expected)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"])
def test_dtypes(dtype):
    @npaccel.macro
    def step(x, k):
        return x + x, x * 2, x * k

    for i in range(2):
        x = (rand(20, seed=i) * 10).astype(dtype)
        actual, expected = step(x, 0.5 + i), step.__wrapped__(x, 0.5 + i)
        assert [a.dtype for a in actual] == [e.dtype for e in expected]
        for a, e in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(a, e)
    assert step.stats()["recordings"] == 1


def test_each_signature_is_a_variant():
    @npaccel.macro
    def step(x):
        return x + 1

    inputs = [rand(10), rand(11), rand(10).astype("f4"), rand(20)[::2], rand(2, 5)]
    for _ in range(2):
        for x in inputs:
            same(step(x), x + 1)
    stats = step.stats()
    assert stats["variants"] == len(inputs) and stats["replays"] == 2 * len(inputs)


def test_large_results_are_npaccel_arrays():
    @npaccel.macro
    def step(x):
        y = x * 2
        return y, y.sum(), y[1:]

    for i in range(3):
        x = rand(100_000, seed=i)
        y, total, part = step(x)
        assert type(y) is npaccel.Array and type(part) is npaccel.Array
        assert np.array_equal(np.asarray(y), x * 2) and np.array_equal(np.asarray(part), x[1:] * 2)
        np.testing.assert_allclose(total, (x * 2).sum())
    assert step.stats()["recordings"] == 1


def test_large_intermediates():
    @npaccel.macro
    def step(x):
        return np.cumsum(np.cumsum(x) * 2).sum()

    for i in range(3):
        x = rand(200_000, seed=i)
        np.testing.assert_allclose(step(x), np.cumsum(np.cumsum(x) * 2).sum())


def test_pending_arguments():
    @npaccel.macro
    def step(x):
        return x + 1

    for i in range(3):
        x = npaccel.asarray(rand(100_000, seed=i))
        same(np.asarray(step(x * 3)), np.asarray(x) * 3 + 1)


def test_results_go_back_in():
    @npaccel.macro
    def step(u, v):
        return u * 0.5 + v, v * 0.5 - u

    for n in (100, 100_000):
        u, v = rand(n), rand(n, seed=1)
        a, b = u, v
        for _ in range(20):
            u, v = step(u, v)
            a, b = step.__wrapped__(a, b)
        assert np.array_equal(u, a) and np.array_equal(v, b)


def test_writes_to_arguments_are_replayed_in_place():
    @npaccel.macro
    def relax(u, work):
        work[1:-1] = (u[:-2] + u[2:]) * 0.5
        u[1:-1] = work[1:-1]
        u *= 1.5

    for n in (50, 80_000):
        u, work = rand(n), np.zeros(n)
        e, w = u.copy(), work.copy()
        for _ in range(4):
            assert relax(u, work) is None
            relax.__wrapped__(e, w)
            assert np.array_equal(u, e) and np.array_equal(work, w)


def test_an_npaccel_argument_written_while_something_pending_reads_it():
    @npaccel.macro
    def add(x):
        x += 1

    for i in range(3):
        x = npaccel.asarray(rand(100_000, seed=i)) * 1.0
        before = np.asarray(x).copy()
        pending = x * 2
        add(x)
        assert np.array_equal(np.asarray(pending), before * 2)
        assert np.array_equal(np.asarray(x), before + 1)


# ------------------------------------------------------------------------------------- aliasing


def test_the_same_array_twice():
    @npaccel.macro
    def step(u, v):
        u += 1
        return u * v

    for i in range(3):
        u, v = rand(10, seed=i), rand(10, seed=i + 5)
        e, f = u.copy(), v.copy()
        same(step(u, v), step.__wrapped__(e, f))
        u, e = rand(10, seed=i), rand(10, seed=i)
        same(step(u, u), step.__wrapped__(e, e))
    assert step.stats()["variants"] == 2


@pytest.mark.parametrize("shift", [0, 1, 3, 9, 10, 12])
def test_overlapping_views(shift):
    @npaccel.macro
    def step(u, v):
        u[...] = v * 2 + u
        return v - u

    for i in range(3):
        base, other = rand(40, seed=i), rand(40, seed=i)
        actual = step(base[:10], base[shift : shift + 10])
        same(actual, step.__wrapped__(other[:10], other[shift : shift + 10]))
        assert np.array_equal(base, other)
    separate = step(rand(10), rand(10, seed=1))
    same(separate, step.__wrapped__(rand(10), rand(10, seed=1)))


def test_an_argument_that_is_also_global():
    shared = rand(10)

    @npaccel.macro
    def step(u):
        u += shared
        return u * shared

    e = shared.copy()

    def expected(u):
        u += e
        return u * e

    other, twin = rand(10, seed=4), rand(10, seed=4)
    same(step(other), expected(twin))
    same(step(shared), expected(e))
    same(step(other), expected(twin))


# ----------------------------------------------------------------------------------- random bodies

OPERATIONS = (
    lambda x, y, f: x + y,
    lambda x, y, f: x * y - f,
    lambda x, y, f: np.maximum(x, y * f),
    lambda x, y, f: np.where(x > y, x, y * 2),
    lambda x, y, f: x - x.mean(),
    lambda x, y, f: x / (abs(y).max() + 1.0),
    lambda x, y, f: np.tanh(x) + y[::-1],
    lambda x, y, f: x.copy(),
    lambda x, y, f: np.concatenate([x[:2], y[2:]]),
    lambda x, y, f: x.sum() * y + f * 0.5,
)


def assign(x, y, f):
    x[1:] = y[:-1] * f
    return y


def add_in_place(x, y, f):
    x += y
    return x * 0.5


bodies = given(
    st.lists(
        st.tuples(
            st.sampled_from([*OPERATIONS, assign, add_in_place]),
            st.integers(0, 5),
            st.integers(0, 5),
        ),
        min_size=1,
        max_size=12,
    ),
    st.integers(3, 12),
    st.sampled_from(["f8", "f4"]),
    st.sampled_from(["apart", "same", "overlap"]),
)


def check_body(steps, n, dtype, layout):
    def body(u, v, f):
        values = [u, v]
        for operation, left, right in steps:
            x, y = values[left % len(values)], values[right % len(values)]
            values.append(operation(x, y, f))
        return values[-1], values[len(values) // 2], values[-1].sum()

    section = npaccel.macro(body)
    rtol = 1e-10 if dtype == "f8" else 2e-3
    for i in range(3):
        base = (rand(2 * n, seed=i) - 0.5).astype(dtype)
        twin = base.copy()
        second = {"apart": slice(n, 2 * n), "same": slice(0, n), "overlap": slice(1, n + 1)}[layout]
        f = 0.25 * (i + 1)
        actual = section(base[:n], base[second], f)
        expected = body(twin[:n], twin[second], f)
        for a, e in zip(actual, expected, strict=True):
            assert (type(a), a.dtype, np.shape(a)) == (type(e), e.dtype, np.shape(e))
            np.testing.assert_allclose(a, e, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(base, twin, rtol=rtol, atol=rtol)
    assert section.stats()["bodies"] == 0, section.stats()


@settings(max_examples=20, deadline=None)
@bodies
def test_random_bodies(steps, n, dtype, layout):
    check_body(steps, n, dtype, layout)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@bodies
def test_more_random_bodies(steps, n, dtype, layout):
    check_body(steps, n, dtype, layout)


@pytest.mark.parametrize("axis", [None, 0])
def test_what_numpy_computes_of_two_arrays_that_have_no_values_yet(axis):
    """NumPy's deviation is a difference with `out=...`, of which our arrays are not told."""

    @npaccel.macro
    def spread(x):
        return np.std(x > 0.5, axis=axis), np.var(x * 0.5, axis=axis)

    x = rand(60, 70)
    expected = np.std(x > 0.5, axis=axis), np.var(x * 0.5, axis=axis)
    with npaccel.accelerate():
        for _ in range(3):
            for found, wanted in zip(spread(x), expected, strict=True):
                assert np.allclose(found, wanted, rtol=1e-14)


@pytest.mark.parametrize("order", ["K", "A", "C", "F"])
def test_strides_of_results_along_axes_of_one_element(order):
    """They lie in order of C and of Fortran, whatever the stride of that axis is."""

    @npaccel.macro
    def copies(x):
        return np.zeros_like(x, order=order), x.copy(order), x.astype("f4", order=order), x * 2

    for x in (rand(1, 10).T[::-1], rand(10, 1)[::-1], rand(4, 1, 3).T[::-1], rand(1, 10).T):
        expected = [np.zeros_like(x, order=order), x.copy(order), x.astype("f4", order=order)]
        for _ in range(3):
            found = [a.strides for a in copies(x)]
            assert found == [a.strides for a in [*expected, x * 2]]


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_repeated_elements_own_their_memory(axis):
    section = npaccel.macro(lambda x: np.repeat(x, 3, axis=axis))
    for x in (rand(3, 4), rand(5, 8)[::-1, ::2]):
        found = section(x)
        same(found, np.repeat(x, 3, axis=axis))
        assert found.flags.owndata
