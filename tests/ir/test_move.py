"""A plan moved to other sizes is the plan that these sizes would get from scratch."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import Recorder, compare

from npaccel.ir.nodes import KernelStep, Plan, Trace
from npaccel.ir.passes import Limits, plan
from npaccel.ir.passes.move import move
from npaccel.ir.passes.structure import structure

Array = np.ndarray[Any, Any]
UNARY = ("negative", "absolute", "square", "floor", "rint", "copy", "sqrt")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
FOLDS = ("maximum", "minimum", "add", "argmax")
# Limits that these small programs come near to.
NEAR = Limits(
    nodes=40, arrays=6, scratch_bytes=500, band_points=24, inner_points=30, column_points=26
)


@dataclasses.dataclass
class Author:
    """Writes one program for given sizes; the same `seed` makes the same choices."""

    seed: int
    sizes: tuple[int, int, int]

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.recorder = Recorder(self.random.choice((0, 0x45)))
        self.pool: list[Array] = []

    def write(self) -> Recorder:
        n, m, k = self.sizes
        r, choose = self.recorder, self.random.choice
        shapes = ((n,), (m, n), (m, 1), (1, n), (k, m, n), (n, 3), (n, 1))
        for _ in range(self.random.randint(1, 3)):
            shape = choose(shapes)
            values = (np.arange(int(np.prod(shape))) * 3 % 7 - 3.0).reshape(shape)
            self.pool.append(r.array(values.astype(choose(("f8", "f8", "f4", "i8")))))
        for _ in range(self.random.randint(1, 9)):
            self.step()
        r.keep(*(array for array in self.pool if self.random.random() < 0.5))
        return r

    def window(self, array: Array) -> Array:
        key = []
        for n in array.shape:
            few = [slice(None), slice(None), slice(None, None, -1), slice(0, max(1, n - 1))]
            key.append(self.random.choice([*few, slice(min(1, n - 1), n), slice(0, n, 2)]))
        part = array[tuple(key)]
        return part.T if self.random.random() < 0.2 else part

    def pick(self) -> Array:
        array = self.random.choice(self.pool[-5:])
        return self.window(array) if self.random.random() < 0.4 else array

    def step(self) -> None:
        r, choose, x = self.recorder, self.random.choice, self.pick()
        kind = choose(("unary", "binary", "binary", "into", "into", "fold", "power", "gather"))
        axis = self.random.randint(0, 2)
        y, op = self.pick(), choose(BINARY)
        number = choose((2.0, 2.5, 4.0))
        if kind == "unary" or (kind == "power" and x.dtype.kind != "f"):
            self.pool.append(r.map(choose(UNARY[:-1]), x))
        elif kind == "power":
            self.pool.append(r.map("power", x, number))
        elif kind == "gather":
            along = axis % x.ndim
            index = r.array(np.arange(self.sizes[1]) * 5 % x.shape[along])
            self.pool.append(r.gather(x, index, along))
        elif kind == "fold":
            self.pool.append(r.reduce(choose(FOLDS), x, axis if axis < x.ndim else None))
        else:
            try:
                shape = np.broadcast_shapes(x.shape, y.shape)
            except ValueError:
                shape = ()
            other: Any = y if shape else number
            if kind == "binary":
                self.pool.append(r.map(op, x, other))
            elif shape in ((), x.shape):
                r.map(op, x, other, out=x)


def pair(seed: int, first: tuple[int, int, int], second: tuple[int, int, int]) -> list[Trace]:
    return [Author(seed, sizes).write().trace() for sizes in (first, second)]


def same(a: Plan, b: Plan) -> None:
    """Equal but for where numbers come from, and the bounds of rows."""
    assert len(a.steps) == len(b.steps)
    for x, y in zip(a.steps, b.steps, strict=True):
        wanted = y
        if isinstance(x, KernelStep) and isinstance(y, KernelStep):
            assert x.kernel.name == y.kernel.name  # which is made of all that is in it
            wanted = dataclasses.replace(y, kernel=x.kernel, origin=x.origin)
        assert x == wanted
    assert (a.buffers, a.dropped, a.consumed) == (b.buffers, b.dropped, b.consumed)


SIZES = st.tuples(st.integers(16, 40), st.integers(16, 40), st.integers(16, 20))


@pytest.mark.parametrize("limits", [Limits(), NEAR], ids=["usual", "near"])
@settings(max_examples=250, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1 << 30), first=SIZES, second=SIZES)
def test_a_moved_plan_is_the_plan_made_afresh(
    limits: Limits,
    seed: int,
    first: tuple[int, int, int],
    second: tuple[int, int, int],
) -> None:
    a, b = pair(seed, first, second)
    if structure(a, limits) != structure(b, limits):
        return
    afresh = plan(b, limits=limits)
    moved = move(plan(a, limits=limits), b, limits)
    if moved is not None:
        same(moved, afresh)


def test_most_sizes_have_the_same_structure() -> None:
    """The property above would hold, and be worth nothing, if structures were never equal."""
    moved = 0
    for seed in range(200):
        a, b = pair(seed, (37, 21, 17), (39, 23, 19))
        if structure(a, Limits()) == structure(b, Limits()):
            moved += move(plan(a), b, Limits()) is not None
    assert moved > 150


def test_a_moved_plan_computes() -> None:
    for seed in range(20):
        a = Author(seed, (37, 21, 17)).write()
        b = Author(seed, (41, 22, 18)).write()
        if structure(a.trace(), Limits()) == structure(b.trace(), Limits()):
            moved = move(plan(a.trace()), b.trace(), Limits())
            if moved is not None:
                with np.errstate(all="ignore"):
                    compare(b, moved)


# ------------------------------------------------------------------- what is told apart, and why


def of(shape: tuple[int, ...], *keys: Any, op: str = "add") -> Trace:
    """y = op of two windows of one array, written into a third place of it if there is one."""
    r = Recorder()
    x = r.array(np.ones(shape))
    views = [x[key] for key in keys]
    r.keep(r.map(op, views[0], views[1], out=views[2] if len(views) > 2 else None))
    return r.trace()


def alike(a: Trace, b: Trace) -> bool:
    return structure(a, Limits()) == structure(b, Limits())


def test_offsets_and_lengths_are_not_told_apart() -> None:
    s = slice
    assert alike(of((400,), s(0, 90), s(100, 190)), of((900,), s(3, 83), s(500, 580)))
    assert alike(of((40, 50), s(0, 20), s(20, 40)), of((60, 90), s(0, 30), s(30, 60)))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        # overlapping, or apart
        (of((99,), *[slice(0, 30), slice(30, 60), slice(60, 90)]),
         of((99,), *[slice(0, 30), slice(30, 60), slice(50, 80)])),
        # equal views
        (of((99,), slice(0, 30), slice(30, 60)), of((99,), slice(0, 30), slice(0, 30))),
        # unit stride, or another
        (of((99,), slice(0, 30), slice(30, 60)), of((99,), slice(0, 60, 2), slice(30, 90, 2))),
        # rows that continue each other
        (of((40, 50), slice(0, 20), slice(20, 40)),
         of((40, 50), (slice(0, 20), slice(0, 49)), (slice(20, 40), slice(0, 49)))),
        # an axis of one element
        (of((40, 50), slice(0, 20), slice(20, 40)), of((40, 50), slice(0, 1), slice(20, 21))),
        # equal extents
        (of((40, 50), slice(0, 20), slice(20, 40)), of((40, 20), slice(0, 20), slice(20, 40))),
    ],
    ids=["overlap", "equal", "strided", "collapse", "one", "square"],
)  # fmt: skip
def test_what_plans_depend_on_is_told_apart(a: Trace, b: Trace) -> None:
    assert not alike(a, b)


def softmax(rows: int, columns: int) -> Trace:
    r = Recorder(0)
    x = r.array(np.ones((rows, columns)))
    e = r.map("exp", r.map("subtract", x, r.reduce("maximum", x, 1)))
    r.keep(r.map("divide", e, r.reduce("add", e, 1)))
    return r.trace()


def test_rows_that_outgrow_scratch_need_another_plan() -> None:
    a = softmax(100, 5000)
    made = plan(a)
    assert made.ranges and made.ranges[0].low == 0
    longest = made.ranges[0].high - 1
    assert longest == Limits().scratch_bytes // 8
    for columns, fits in ((longest, True), (longest + 1, False)):
        b = softmax(100, columns)
        assert alike(a, b)
        moved = move(made, b, Limits())
        assert (moved is not None) is fits
        if moved is not None:
            same(moved, plan(b))
