"""A float sum or product has the same bits in every tier, and whatever is computed beside it."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

import npaccel as na
from npaccel.ir.fold_order import fold_order
from npaccel.ir.views import squeezed_axes

pytestmark = pytest.mark.pending

LANES, BLOCK, BAND_BLOCK, CHUNK = 32, 512, 16, 32768


def _counter(items: Any, combine: Any) -> Any:
    """Equal-sized neighbours combine at once, the rest from the smallest up."""
    stack: list[tuple[int, Any]] = []
    for item in items:
        size, value = 1, item
        while stack and stack[-1][0] == size:
            older = stack.pop()
            size, value = 2 * size, combine(older[1], value)
        stack.append((size, value))
    value = stack.pop()[1]
    while stack:
        value = combine(stack.pop()[1], value)
    return value


def _sequence(x: np.ndarray, ufunc: np.ufunc, *, banded: bool) -> np.ndarray:
    """Rows of elements along the last axis, in the type that is computed with."""
    lanes, block = (1, BAND_BLOCK) if banded else (LANES, BLOCK)

    def one_block(part: np.ndarray) -> np.ndarray:
        sums = np.full((*x.shape[:-1], lanes), ufunc.identity, x.dtype)
        for at in range(0, part.shape[-1], lanes):
            piece = part[..., at : at + lanes]
            here = sums[..., : piece.shape[-1]]
            ufunc(here, piece, out=here)
        return sums

    def one_chunk(part: np.ndarray) -> np.ndarray:
        cuts = range(0, part.shape[-1], block)
        sums = _counter((one_block(part[..., at : at + block]) for at in cuts), ufunc)
        while sums.shape[-1] > 1:
            half = sums.shape[-1] // 2
            sums = ufunc(sums[..., :half], sums[..., half:])
        return sums[..., 0]

    cuts = range(0, x.shape[-1], CHUNK)
    return _counter((one_chunk(x[..., at : at + CHUNK]) for at in cuts), ufunc)


def expected(x: np.ndarray, ufunc: np.ufunc, axes: tuple[int, ...]) -> np.ndarray:
    """What Note [Reduction order] says."""
    kept = squeezed_axes(x.shape)
    squeezed = x.squeeze()
    strides = [step // x.itemsize for step in squeezed.strides]
    places = [place for place, axis in enumerate(kept) if axis in axes]
    order = fold_order(squeezed.shape, strides, places)
    rows = [squeezed.shape[axis] for axis in order.rows]
    lead = [squeezed.shape[axis] for axis in order.band]
    back = [order.band.index(axis) for axis in sorted(order.band)]

    def part(values: np.ndarray) -> np.ndarray:
        moved = values.transpose(*order.band, *order.inner)
        flat = moved.reshape(*lead, int(np.prod(rows, dtype=int)), -1)
        found = _sequence(flat, ufunc, banded=order.banded)
        whole = _counter((found[..., k] for k in range(found.shape[-1])), ufunc)
        return np.asarray(whole).transpose(*back)

    if x.dtype.kind == "c":
        return (part(squeezed.real) + 1j * part(squeezed.imag)).astype(x.dtype)
    return part(squeezed.astype("f4") if x.dtype == np.float16 else squeezed).astype(x.dtype)


def _same(a: Any, b: Any) -> None:
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype and a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def _made(shape: tuple[int, ...], dtype: str, layout: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if layout == "sliced":
        shape = tuple(n + 2 for n in shape)
    x = rng.normal(size=shape).astype(dtype)
    if dtype[0] == "c":
        x = x + 1j * rng.normal(size=shape).astype(dtype)
    x = x.astype(dtype)
    if layout == "sliced":
        return x[(slice(1, -1),) * len(shape)]
    return {"c": x, "f": np.asfortranarray(x), "reversed": x[::-1], "swapped": x.swapaxes(0, -1)}[
        layout
    ]


def _axes(ndim: int) -> st.SearchStrategy[tuple[int, ...]]:
    every = [axes for n in range(1, ndim + 1) for axes in itertools.combinations(range(ndim), n)]
    return st.sampled_from(every)


SHAPES = st.sampled_from(
    [
        (70000,),
        (40000, 3),
        (3, 40000),
        (300, 300),
        (20, 4000),
        (4000, 20),
        (5000, 16),
        (31, 32),
        (20, 30),
        (33, 700, 3),
        (500, 3, 27),
        (9, 5, 1100),
    ]
)


@pytest.fixture(params=["off", "eager"])
def tier(request: pytest.FixtureRequest) -> Any:
    """Everything is recorded, and runs in one tier."""
    before = na.config.tiering, na.config.threshold
    na.config.tiering, na.config.threshold = request.param, 0
    yield request.param
    na.config.tiering, na.config.threshold = before


@pytest.fixture
def every_way() -> Any:
    """Call a function in each tier, with one thread and with two; the results."""

    def run(function: Any) -> list[Any]:
        before = na.config.tiering, na.config.threshold, na.config.threads
        found = []
        for tiering, threads in itertools.product(["off", "eager"], [1, 2]):
            na.config.tiering, na.config.threshold = tiering, 0
            na.config.threads = threads
            found.append(tuple(map(np.array, function())))
        na.config.tiering, na.config.threshold, na.config.threads = before
        return found

    return run


@hypothesis.settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@hypothesis.given(
    data=st.data(),
    shape=SHAPES,
    dtype=st.sampled_from(["f2", "f4", "f8", "c8", "c16"]),
    layout=st.sampled_from(["c", "f", "sliced", "reversed", "swapped"]),
)
def test_the_order_is_the_stated_one(
    data: Any, shape: Any, dtype: str, layout: str, tier: str
) -> None:
    x = _made(shape, dtype, layout, 1)
    axes = data.draw(_axes(x.ndim))
    _same(np.add.reduce(na.asarray(x), axis=axes), expected(x, np.add, axes))


LYING: dict[str, Any] = {
    "back": lambda x: x[::-1],
    "apart": lambda x: x[::3],
    "apart and back": lambda x: x[::-2],
    "windows": lambda x: sliding_window_view(x[:9000], 8),
    "long windows": lambda x: sliding_window_view(x[:2000], 40),
    "windows of a plane": lambda x: sliding_window_view(x[:7000].reshape(70, 100), (3, 3)),
    "parts of rows": lambda x: x[:70000].reshape(-1, 4)[:, :3],
    "rows back": lambda x: x[:70000].reshape(700, 100)[:, ::-1],
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("name", LYING)
def test_the_order_of_what_lies_apart(name: str, dtype: str, tier: str) -> None:
    x = LYING[name](_made((75001,), dtype, "c", 4))
    for axes in (tuple(range(x.ndim)), (x.ndim - 1,)):
        _same(np.add.reduce(na.asarray(x), axis=axes), expected(x, np.add, axes))


def test_what_nothing_waits_for_is_added_at_once(setting) -> None:
    """As a kernel adds short rows one by one."""
    setting("tiering", "eager")
    setting("threshold", 100_000)
    x = _made((300_000,), "f8", "c", 4)
    for lying in (x[::-1], sliding_window_view(x[:60_000], 8), x.reshape(-1, 4)[:, 1:]):
        before = na.stats()["requests"]
        with na.accelerate():
            lying.sum()
        assert na.stats()["requests"] == before or na.config.check != "off", lying.strides


def _beside(x: Any, other: Any) -> Any:
    """A sum whose operand is computed in the same kernel from what lies otherwise in memory."""
    y = x * 1.5 + other
    return y.sum(axis=0), y.sum(axis=1), y.sum(), np.sqrt(np.square(y).mean(axis=1))


@pytest.mark.parametrize("shape", [(300, 700), (4000, 30), (30, 4000), (70000, 3)])
@pytest.mark.parametrize("layout", ["c", "f", "sliced"])
def test_bits_do_not_depend_on_what_shares_the_loop(
    shape: tuple[int, ...], layout: str, every_way: Any
) -> None:
    x, other = _made(shape, "f8", "c", 2), _made(shape, "f8", layout, 3)
    found = every_way(lambda: _beside(na.asarray(x), na.asarray(other)))
    y = x * 1.5 + other
    for way in found:
        for axes, value in zip([(0,), (1,), (0, 1)], way, strict=False):
            _same(value, expected(y, np.add, axes))
        _same(way[3], found[0][3])


@pytest.mark.parametrize("tiering", ["off", "eager"])
def test_an_overflow_is_told_where_a_result_is_infinite(tiering: str, setting) -> None:
    setting("tiering", tiering)
    x = np.ones((40, 3))
    x[:2, 0] = 1e308
    with pytest.warns(RuntimeWarning, match="overflow encountered in reduce"):
        assert np.isinf(np.asarray(np.add.reduce(na.asarray(x), axis=0))[0])


def told(program: Any, x: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        np.array(program(x))
    return [str(each.message) for each in caught]


@pytest.mark.parametrize("tiering", ["off", "eager"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("n", [400, 600, 40_000])
def test_what_lanes_raise_when_they_are_put_together_is_told(
    n: int, dtype: str, tiering: str, setting
) -> None:
    """Infinities of one lane, of two lanes, of two blocks and of two chunks; too much in all."""
    setting("tiering", tiering)
    large = np.ones((3, n), dtype)
    large[:, :10] = np.finfo(dtype).max
    cases = [large]
    for first, second in ((3, 35), (3, 7), (3, n - 1), (n // 2, n // 2 + 5)):
        cases.append(np.ones((3, n), dtype))
        cases[-1][1, first], cases[-1][1, second] = np.inf, -np.inf
    programs = [
        lambda x: (x * x.dtype.type(1)).sum(1),
        lambda x: x.sum(1),
        lambda x: (x + x.dtype.type(0)).mean(),
    ]
    for x, program in itertools.product(cases, programs):
        assert told(program, na.asarray(x)) == told(program, x) != []


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
def test_products_are_numpys(dtype: str) -> None:
    """In another order other parts of one overflow, or vanish: 0 times infinity is no number."""
    n = 3000
    large = np.sqrt(np.finfo(dtype).max)
    for x in (np.arange(n), np.tile([large, 1 / large], n // 2), np.full(n, large), np.ones(n)):
        with np.errstate(all="ignore"):
            y = x.astype(dtype)
            for axes in (None, 0):
                shaped = y.reshape(-1, 30)
                _same(np.prod(na.asarray(shaped) + 0, axis=axes), np.prod(shaped, axis=axes))
                _same((na.asarray(shaped) * 1).prod(axes), shaped.prod(axes))
                with na.accelerate(min_size=0):
                    found = np.nanprod(shaped, axis=axes), np.multiply.reduce(shaped, axis=axes)
                _same(found[0], np.nanprod(shaped, axis=axes))
                _same(found[1], np.multiply.reduce(shaped, axis=axes))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_colours_are_columns(order: tuple[int, ...]) -> None:
    """Results side by side have a lane each, also where the last axis is short."""
    pixels = np.random.default_rng(5).random((300, 40, 3))
    expected = na.evaluate(na.asarray(pixels.reshape(300, 120)).sum(0)).reshape(40, 3)
    found = np.asarray(na.asarray(pixels.transpose(order)).sum(order.index(0)))
    kept = [axis for axis in order if axis != 0]
    assert found.tobytes() == np.asarray(expected).transpose(np.subtract(kept, 1)).tobytes()


VIEWS: dict[str, Any] = {
    "part": lambda x: x[:, :20],
    "apart": lambda x: x[:, ::3],
    "reversed": lambda x: x[:, 20::-1],
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x.ravel()[:9000], 9),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("dtype", "wide"), [("f2", "f2"), ("f4", "f4"), ("f4", "f8"), ("c16", "c16"), ("f4", "c16")]
)
@pytest.mark.parametrize("view", VIEWS)
def test_short_rows_have_the_stated_order(dtype: str, wide: str, view: str, every_way: Any) -> None:
    """They are added several at a time, as they lie or when they are cast."""
    base = _made((4000, 40), dtype, "c", 6)
    x, same = VIEWS[view](base), VIEWS[view](base.astype(wide))
    found = every_way(
        lambda: [np.add.reduce(na.asarray(x), axis=axes, dtype=wide) for axes in (None, -1)]
    )
    for way in found:
        _same(way[0], expected(same, np.add, (0, 1)))
        _same(way[1], expected(same, np.add, (1,)))
