"""What of its arguments and surroundings a macro section's recording holds for."""

from __future__ import annotations

import numpy as np
import pytest
from sections import plain_sizes, rand, replayed, same

import npaccel

__all__ = ["plain_sizes"]

pytestmark = pytest.mark.usefixtures("deferred")


# ------------------------------------------------------------------- numbers and control values


def test_floats_are_taken_anew():
    @npaccel.macro
    def step(x, f, k):
        return x * f - (f + k) * x + 2 * k, f * k - 1

    stats = replayed(step, *[(rand(8), 0.1 * i, 0.3 - i) for i in range(5)])
    assert stats["recordings"] == 1


def test_a_float_whose_value_is_used_is_a_control_value():
    @npaccel.macro
    def step(x, f):
        return x * 2 if f > 0 else x * 3 - f

    replayed(step, (rand(4), 1.0), (rand(4), -1.0), (rand(4), 2.0), (rand(4), -1.0))
    assert step.stats()["variants"] == 3


def test_mathematics_on_a_float_argument():
    import math

    @npaccel.macro
    def step(x, f):
        return x * math.sqrt(f) + np.exp(f) + f**2 + round(f) + abs(-f)

    replayed(step, *[(rand(4), f) for f in (1.5, 2.5, 1.5)])


def test_zero_division_is_raised():
    @npaccel.macro
    def step(x, f):
        return x * (1.0 / f)

    replayed(step, (rand(4), 2.0), (rand(4), 4.0))
    with pytest.raises(ZeroDivisionError):
        step(rand(4), 0.0)


def test_integers_and_bools_are_control_values():
    @npaccel.macro
    def step(x, n, flag):
        for _ in range(n):
            x = x * 2
        return -x if flag else x

    replayed(step, (rand(4), 1, True), (rand(4), 3, False), (rand(4), 1, True))
    assert step.stats()["variants"] == 2
    assert step(rand(4), True, True).dtype == np.float64
    assert step.stats()["variants"] == 3  # True is not 1


def test_marked_integers_are_taken_anew():
    @npaccel.macro
    def step(x, n):
        return x * n

    for i in range(4):
        same(step(rand(4), npaccel.scalar(i)), rand(4) * i)
        same(step(np.arange(4, dtype="i2"), npaccel.scalar(i)), np.arange(4, dtype="i2") * i)
    assert step.stats()["recordings"] == 2
    with pytest.raises(OverflowError):
        step(np.arange(4, dtype="i2"), npaccel.scalar(100_000))


def test_numpy_scalars_are_taken_anew():
    @npaccel.macro
    def step(x, alpha):
        return x * alpha + alpha * alpha, alpha

    calls = [(rand(4).astype("f4"), np.float64(i)) for i in range(4)]
    assert replayed(step, *calls)["recordings"] == 1


def test_a_numpy_scalar_whose_value_is_used():
    @npaccel.macro
    def step(x, alpha):
        return x * 2 if alpha > 0 else x * 3

    replayed(step, (rand(4), np.float64(1)), (rand(4), np.float64(-1)))
    assert step.stats()["variants"] == 2


def test_keywords_and_defaults():
    @npaccel.macro
    def step(x, *, rate=0.5, name="a"):
        return x * rate if name == "a" else x - rate

    for i in range(3):
        x = rand(5, seed=i)
        same(step(x), x * 0.5)
        same(step(x, rate=0.1 * i), x * (0.1 * i))
        same(step(x, name="b", rate=2.0), x - 2.0)
    assert step.stats()["recordings"] == 3


def test_globals_and_closures_are_looked_up():
    rate = 2.0
    table = {"k": 1.0}
    offset = rand(5)

    @npaccel.macro
    def step(x):
        return x * rate + table["k"] + offset

    same(step(rand(5)), rand(5) * 2.0 + 1.0 + offset)
    rate = 3.0
    same(step(rand(5)), rand(5) * 3.0 + 1.0 + offset)
    table["k"] = 7.0
    same(step(rand(5)), rand(5) * 3.0 + 7.0 + offset)
    offset[:] = 9  # read anew at each call
    same(step(rand(5)), rand(5) * 3.0 + 7.0 + 9)
    offset = rand(5, seed=8)
    same(step(rand(5)), rand(5) * 3.0 + 7.0 + offset)


def test_arrays_from_outside_that_numpy_computes_with():
    weights, first = rand(5), np.array([2.0, 3.0])
    wrapped = npaccel.asarray(rand(5, seed=1))

    @npaccel.macro
    def step(x):
        return x * (weights * 2) + first[0] + wrapped.sum()

    for i in range(6):
        expected = rand(5) * (weights * 2) + first[0] + np.asarray(wrapped).sum()
        same(step(rand(5)), expected)
        if i % 2:
            (weights, first, wrapped)[i // 2][:] += 1.0
    assert step.stats()["recordings"] == 3 and step.stats()["bodies"] == 0


def test_a_large_array_from_outside():
    table = rand(100_000)

    @npaccel.macro
    def recorded(x):
        return x + table

    @npaccel.macro
    def computed(x):
        return x + table[3]

    for _ in range(3):
        same(np.asarray(recorded(table * 2)), table * 2 + table)
        same(computed(rand(4)), rand(4) + table[3])
        table += 1
    assert recorded.stats()["recordings"] == 1
    assert computed.stats()["reasons"] == [
        "it uses a large array otherwise than with its arguments"
    ]


def test_methods():
    class Model:
        @npaccel.macro
        def step(self, x):
            return x * 2

    model = Model()
    for i in range(3):
        same(model.step(rand(4, seed=i)), rand(4, seed=i) * 2)
    assert Model.step.stats()["recordings"] == 1
