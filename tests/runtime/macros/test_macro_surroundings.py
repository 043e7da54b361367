"""What a macro section's body finds besides its arguments is what is there at each call."""

from __future__ import annotations

import collections
import functools
import itertools
import os
import random
import sys
import time
import types
from dataclasses import dataclass

import numpy as np
import pytest
from sections import plain_sizes, rand, same

import npaccel

__all__ = ["plain_sizes"]

pytestmark = pytest.mark.usefixtures("deferred")

settings = types.SimpleNamespace(rate=2.0)
table = {"rate": [2.0]}
module = types.ModuleType("parameters")
queue = collections.deque([2.0])
Pair = collections.namedtuple("Pair", "rate")


class Base:
    shared = 2.0


class Model(Base):
    def __init__(self):
        self.rate, self.weights = 2.0, np.ones(4)
        self.inner = types.SimpleNamespace(rate=2.0)
        self.numbers = [2.0]

    @property
    def twice(self):
        return self.rate * 2

    def get(self):
        return self.rate

    @staticmethod
    def helper(x):
        return x * settings.rate

    def __call__(self, x):
        return x * self.rate


class Derived(Model):
    shared = 1.0

    def both(self):
        return self.shared * super().shared


class Named(str):
    rate = 2.0


class Lazy:
    def __init__(self):
        self.rate = 2.0

    @functools.cached_property
    def cached(self):
        return self.rate


class Slots:
    __slots__ = ("rate",)

    def __init__(self):
        self.rate = 2.0


def defaults(x, numbers=[2.0]):  # noqa: B006
    return x * numbers[0]


def put(where, name, value):
    if isinstance(where, (dict, list)):
        where[name] = value
    else:
        setattr(where, name, value)


def imports(x):
    from parameters_of_tests import rate

    return x * rate


sys.modules["parameters_of_tests"] = module
model, slots, derived, lazy, named = Model(), Slots(), Derived(), Lazy(), Named("n")
# The body, and how what it finds is set to a number.
FOUND = {
    "attribute": (lambda x: x * model.rate, lambda v: put(model, "rate", v)),
    "array of an object": (
        lambda x: x * model.weights,
        lambda v: put(model, "weights", np.full(4, v)),
    ),
    "its content": (lambda x: x * model.weights, lambda v: np.copyto(model.weights, v)),
    "its sum by NumPy": (lambda x: x * model.weights.sum(), lambda v: np.copyto(model.weights, v)),
    "object in an object": (lambda x: x * model.inner.rate, lambda v: put(model.inner, "rate", v)),
    "list in an object": (lambda x: x * model.numbers[0], lambda v: put(model.numbers, 0, v)),
    "property": (lambda x: x * model.twice, lambda v: put(model, "rate", v)),
    "method": (lambda x: x * model.get(), lambda v: put(model, "rate", v)),
    "static method": (model.helper, lambda v: put(settings, "rate", v)),
    "attribute of a class": (lambda x: x * model.shared, lambda v: put(Base, "shared", v)),
    "of its class": (lambda x: x * type(model).shared, lambda v: put(Base, "shared", v)),
    "slot": (lambda x: x * slots.rate, lambda v: put(slots, "rate", v)),
    "by its name": (lambda x: x * getattr(model, "rate"), lambda v: put(model, "rate", v)),  # noqa: B009
    "module": (lambda x: x * module.rate, lambda v: put(module, "rate", v)),
    "by an import": (imports, lambda v: put(module, "rate", v)),
    "of a base": (lambda x: x * derived.both(), lambda v: put(Base, "shared", v)),
    "of a string": (lambda x: x * named.rate, lambda v: put(named, "rate", v)),
    "cached property": (lambda x: x * lazy.cached, lambda v: put(lazy, "cached", v)),
    "list in a dict": (lambda x: x * table["rate"][0], lambda v: put(table["rate"], 0, v)),
    "default": (defaults, lambda v: put(defaults.__defaults__[0], 0, v)),
    "callable object": (model, lambda v: put(model, "rate", v)),
    "deque": (lambda x: x * queue[0], lambda v: queue.__setitem__(0, v)),
    "environment": (
        lambda x: x * float(os.environ["NPA_TEST"]),
        lambda v: os.environ.update(NPA_TEST=str(v)),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_the_body_finds_is_what_is_there(name):
    body, change = FOUND[name]
    section = npaccel.macro(body)
    for value in (2.0, 3.0, 3.0, 2.0):
        change(value)
        same(section(rand(4)), body(rand(4)))


def test_what_stays_is_replayed():
    section = npaccel.macro(lambda x: model.get() * x + model.numbers[0] + settings.rate)
    for _ in range(4):
        section(rand(4))
    assert section.stats()["recordings"] == 1 and section.stats()["bodies"] == 0


def test_functions_of_one_code_and_other_closures():
    def maker(rate):
        return lambda x: x * rate[0]

    rates = [[1.0], [2.0]]
    functions = [maker(rate) for rate in rates]
    section = npaccel.macro(lambda x: sum(function(x) for function in functions))
    for i in (1.0, 3.0):
        for rate in rates:
            rate[0] += i
            same(section(rand(3)), section.__wrapped__(rand(3)))


def test_types_and_signs_count():
    numbers = [1]
    section = npaccel.macro(lambda x, control=None: x * numbers[0])
    for value in (1, 1.0, True):
        numbers[0] = value
        same(section(np.arange(4)), np.arange(4) * value)

    @npaccel.macro
    def signed(x, zero):
        return np.copysign(x, float(zero)) if zero == 0 else x

    for zero in (np.float64(0.0), np.float64(-0.0), 0.0, -0.0):
        same(signed(rand(3), zero), signed.__wrapped__(rand(3), zero))


@dataclass(frozen=True)
class Frozen:
    rate: float


class Alike:
    """Equal to others of its name, whatever else they hold."""

    def __init__(self, rate):
        self.rate = rate

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


@pytest.mark.parametrize("kind", [Frozen, Alike, Pair])
def test_equal_arguments_that_are_others(kind):
    section = npaccel.macro(lambda x, parameters: x * parameters.rate)
    for value in (2, 2.0, 3.0):
        same(section(np.arange(4), kind(value)), np.arange(4) * value)


def test_what_the_body_changes_is_changed_once_per_call():
    class Simulation:
        def __init__(self):
            self.state, self.steps, self.log = np.ones(4), 0, []

        def run(self, x):
            self.steps += 1
            self.log.append(self.steps)
            self.state = self.state + x
            self.last = self.state * 2
            return self.last

    one, other = Simulation(), Simulation()
    step = npaccel.macro(one.run)
    for i in range(3):
        same(step(rand(4, seed=i)), other.run(rand(4, seed=i)))
    assert one.steps == 3 and one.log == [1, 2, 3]
    same(one.state, other.state)


def test_what_the_body_changed_before_it_was_stopped_is_put_back():
    class Simulation:
        steps = 0

        def run(self, x):
            self.steps += 1
            self.total = float(x.sum())
            return x

    simulation = Simulation()
    step = npaccel.macro(simulation.run, on_illegal="warn")
    with pytest.raises(npaccel.errors.SectionError):
        npaccel.macro(simulation.run)(rand(3))
    assert vars(simulation) == {}
    with pytest.warns(npaccel.errors.NpaccelWarning):
        step(rand(3))
    assert simulation.steps == 1


def test_a_counter_that_is_an_array():
    counts, large = np.zeros(3), np.zeros(20_000)

    def body(x):
        counts[1] += 1
        large[1] += 1
        return x + 1

    step = npaccel.macro(body)
    for i in range(3):
        same(step(rand(4)), rand(4) + 1)
        assert counts[1] == large[1] == i + 1


def test_arguments_that_the_body_changes():
    def body(x, names):
        names.append("x")
        return x * len(names)

    step, one, other = npaccel.macro(body), [], []
    for _ in range(3):
        same(step(rand(3), one), body(rand(3), other))
    assert one == other


endless = itertools.count()
TELLING = {
    "clock": (lambda x: x * time.perf_counter(), "perf_counter"),
    "random": (lambda x: x * random.random(), "Random"),
    "iterator": (lambda x: x * next(endless), "count"),
    "output": (lambda x: print("here") or x, "print"),
    "entropy": (lambda x: x * np.random.default_rng().random(), "calls"),
}


@pytest.mark.parametrize("name", TELLING)
def test_what_is_new_at_each_call_runs(name, capsys):
    body, why = TELLING[name]
    step = npaccel.macro(body)
    results = [step(np.ones(2))[0] for _ in range(3)]
    assert step.stats()["bodies"] == 3 and why in step.stats()["reasons"][0]
    if name == "output":
        assert capsys.readouterr().out == "here\n" * 3
    else:
        assert len(set(results)) == 3


def test_functions_of_pythons_that_only_compute_are_recorded():
    import decimal
    import math

    half = decimal.Decimal("0.5")

    @functools.lru_cache
    def factor(n):
        return math.factorial(n)

    def body(x, names):
        scale = sum(len(name) for name in sorted(names)) + max(1, 2) + factor(3) + float(half)
        return {name: x * scale + len(name) for name in names}

    step = npaccel.macro(body)
    for i in range(3):
        same(step(rand(3, seed=i), ("a", "bc")), body(rand(3, seed=i), ("a", "bc")))
    assert step.stats()["bodies"] == 0


def test_a_module_that_is_imported_in_the_body():
    def body(x):
        y = x - 2.5 if "some text" else x
        import colorsys

        return y * colorsys.ONE_THIRD

    step = npaccel.macro(body)
    for _ in range(2):
        same(step(rand(3)), body(rand(3)))
    assert step.stats()["bodies"] == 0


def test_a_profiler_hears_of_the_calls_all_the_same():
    import cProfile

    profiler = cProfile.Profile()
    step = npaccel.macro(lambda x: abs(x) + 1)
    profiler.runcall(step, rand(3))
    assert any("<lambda>" in str(entry.code) for entry in profiler.getstats())
    same(step(rand(3)), rand(3) + 1)
