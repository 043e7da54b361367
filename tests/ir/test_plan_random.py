"""Random programs: the plan of any trace computes what its requests do one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from traces import Recorder, compare

from npaccel.ir.passes import Limits, plan

Array = np.ndarray[Any, Any]
UNARY = ("negative", "absolute", "square", "floor", "rint", "copy")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
FOLDS = ("maximum", "minimum", "add", "argmax")
SMALL = Limits(nodes=40, arrays=6, scratch_bytes=96, band_points=3, inner_points=6, recent=3)
SHAPES = ((6,), (4, 5), (4, 1), (5,), (1, 5), (3, 4, 5))


def windows(draw: st.DrawFn, array: Array) -> Array:
    """A part of the array: any slices, perhaps reversed or transposed."""
    key = []
    for n in array.shape:
        choices = [slice(None), slice(None), slice(None, None, -1), slice(0, max(1, n - 1))]
        choices += [slice(min(1, n - 1), n), slice(0, n, 2), slice(min(1, n - 1), n, 2)]
        key.append(draw(st.sampled_from(choices)))
    part = array[tuple(key)]
    return part.T if draw(st.integers(0, 5)) == 0 else part


def fits(a: Array, b: Array) -> bool:
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return False
    return True


def pick(draw: st.DrawFn, pool: list[Array]) -> Array:
    array = draw(st.sampled_from(pool[-6:] if draw(st.booleans()) else pool))
    return windows(draw, array) if draw(st.integers(0, 2)) == 0 else array


def step(draw: st.DrawFn, r: Recorder, pool: list[Array]) -> None:
    x = pick(draw, pool)
    kinds = ("unary", "binary", "binary", "into", "into", "fold", "masked", "gather")
    kind = draw(st.sampled_from(kinds))
    if kind == "unary":
        pool.append(r.map(draw(st.sampled_from(UNARY)), x))
        return
    if kind == "gather":
        gather(draw, r, pool, x)
        return
    if kind == "fold":
        op = draw(st.sampled_from(FOLDS))
        axis = draw(st.sampled_from([None, *range(x.ndim)])) if x.ndim else None
        pool.append(r.reduce(op, x, axis))
        return
    partners = [y for y in (pick(draw, pool) for _ in range(4)) if fits(x, y)]
    y: Any = draw(st.sampled_from([*partners, 2.0, 3.0]))
    op = draw(st.sampled_from(BINARY))
    if kind == "binary":
        pool.append(r.map(op, x, y))
        return
    out = x
    if kind == "into":
        targets = [t for t in (pick(draw, pool) for _ in range(3)) if t.shape == x.shape]
        out = draw(st.sampled_from([x, *targets]))
    y = y if isinstance(y, float) or np.broadcast_shapes(x.shape, y.shape) == x.shape else 2.0
    where = r.map("greater", x, 0.0) if kind == "masked" else None
    r.map(op, x, y, out=out, where=where)


def gather(draw: st.DrawFn, r: Recorder, pool: list[Array], x: Array) -> None:
    """Pick by indices that are there or computed, into fresh memory or a part of an array."""
    if x.ndim == 0:
        return
    axis = draw(st.integers(0, x.ndim - 1))
    n = x.shape[axis]
    shape = draw(st.sampled_from([(n,), (4,), (2, 3)]))
    values = np.arange(int(np.prod(shape))).reshape(shape) * 5 % (2 * n) - n
    index = r.array(values.astype(draw(st.sampled_from(("i8", "i4", "i1")))))
    if draw(st.booleans()):
        index = r.map("maximum", index, draw(st.integers(-n, n - 1)))
    result_shape = (*x.shape[:axis], *shape, *x.shape[axis + 1 :])
    targets = [t for t in pool if t.shape == result_shape and t.dtype == x.dtype]
    out = draw(st.sampled_from([None, *targets]))
    result = r.gather(x, index, axis, out)
    if out is None:
        pool.append(result)


@st.composite
def programs(draw: st.DrawFn) -> Recorder:
    r = Recorder(draw(st.sampled_from((0, 0x45))))
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=4))
    pool: list[Array] = []
    for place, shape in enumerate(shapes):
        # Small whole numbers: sums are exact in any order.
        n = int(np.prod(shape))
        values = (np.arange(n) * (place + 3) % 7 - 3.0).reshape(shape)
        dtype = draw(st.sampled_from(("f8", "f8", "f8", "f4", "i4", "i8")))
        pool.append(r.array(values.astype(dtype)))
    for _ in range(draw(st.integers(1, 14))):
        step(draw, r, pool)
    r.keep(*(array for array in pool if draw(st.booleans())))
    return r


@settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(programs(), st.sampled_from((Limits(), SMALL)))
def test_plans_compute_what_requests_do(r: Recorder, limits: Limits) -> None:
    compare(r, plan(r.trace(), limits=limits, check=True))
