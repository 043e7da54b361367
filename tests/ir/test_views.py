"""Laws of npaccel.ir.views, with sets of bytes and NumPy as the model."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from npaccel.ir.nodes import View
from npaccel.ir.views import collapse_axes, overlaps, region

AXES = st.lists(st.tuples(st.integers(1, 4), st.integers(-9, 9)), max_size=3)
VIEWS = st.tuples(st.sampled_from(("f4", "f8")), st.integers(30, 60), AXES)


def elements(offset: int, axes: list[tuple[int, int]]) -> np.ndarray:
    places = np.array(offset)
    for extent, stride in axes:
        places = places[..., None] + np.arange(extent) * stride
    return places


def touched(dtype: str, offset: int, axes: list[tuple[int, int]]) -> list[int]:
    item = int(dtype[1:])
    return [p * item + b for p in elements(offset, axes).ravel().tolist() for b in range(item)]


def as_view(dtype: str, offset: int, axes: list[tuple[int, int]]) -> tuple[View, list[int]]:
    return View(0, dtype, offset, tuple(s for _, s in axes)), [n for n, _ in axes]


@settings(derandomize=True, deadline=None, max_examples=400)
@given(VIEWS, VIEWS)
def test_disjoint_means_disjoint(first: tuple, second: tuple) -> None:
    a, b = region(*as_view(*first)), region(*as_view(*second))
    assert (min(touched(*first)), max(touched(*first)) + 1) == (a.low, a.high)
    if not overlaps(a, b):
        assert not set(touched(*first)) & set(touched(*second))
        assert not overlaps(b, a)


def test_what_must_be_told_apart() -> None:
    def of(array: np.ndarray, base: np.ndarray) -> object:
        offset = (array.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // 8
        return region(View(0, "f8", offset, tuple(s // 8 for s in array.strides)), array.shape)

    x = np.zeros((6, 10))
    pairs = [
        (x[::2], x[1::2]),
        (x[:, :4], x[:, 4:]),
        (x[:, 3], x[:, 4]),
        (x[:, ::2], x[:, 1::2]),
        (x[:3], x[3:]),
        (x[::-2], x[::2]),
    ]
    for first, second in pairs:
        assert not overlaps(of(first, x), of(second, x))
    assert overlaps(of(x[1:], x), of(x[:-1], x))
    assert of(x.T, x) == of(x, x)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(st.lists(st.integers(2, 4), min_size=1, max_size=4), st.integers(0, 3), st.booleans())
def test_collapsed_axes_keep_elements(shape: list[int], cut: int, whole: bool) -> None:
    base = np.arange(5**5)[: int(np.prod([n + 1 for n in shape]))].reshape([n + 1 for n in shape])
    if whole:
        base = np.arange(int(np.prod(shape))).reshape(shape)
    else:
        base = base[tuple(slice(0, n) for n in shape)]
    strides = [s // 8 for s in base.strides]
    runs = collapse_axes(shape, [strides])
    extents = [int(np.prod([shape[a] for a in run])) for run in runs]
    steps = [strides[run[-1]] for run in runs]
    assert elements(0, list(zip(extents, steps, strict=True))).ravel().tolist() == (
        base.ravel().tolist()
    )
    if whole:
        assert len(runs) == 1
