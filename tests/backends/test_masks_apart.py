"""Masks in a function of their own: each operation's warnings, wherever in a row they arise."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel.backends.llvm.compile import emit_image
from npaccel.ir.nodes import Flag, FlagKind, Kernel, Leaf, Store
from npaccel.ir.scalar import Pool

from .support import kernel, param

Array = np.ndarray[Any, Any]
Program = Callable[[Array, Array], Array]
SIZES = (1, 7, 16, 33, 4100)


@pytest.fixture(autouse=True)
def compiled() -> Iterator[None]:
    before = npaccel.config.tiering, npaccel.config.threshold
    npaccel.config.tiering, npaccel.config.threshold = "eager", 0
    yield
    npaccel.config.tiering, npaccel.config.threshold = before


def chain(x: Array, y: Array) -> Array:
    a = x * y
    b = a * a
    c = b / (y - 1)
    return np.sqrt(c) + (a - b) * x


def stencil(x: Array, y: Array) -> Array:
    z = x.copy()
    z[1:-1] = (x[2:] - x[:-2]) / (y[1:-1] - 1) * x[1:-1]
    return z * z


def selected(x: Array, y: Array) -> Array:
    a = np.where(x > 0, x / y, x * x)
    b = np.where(a > 2, a * a, a - y)
    return np.log(b) + np.exp(a) * b


def gathered(x: Array, y: Array) -> Array:
    at = np.arange(x.size)[::-1] // 2
    a = x[at] * y
    return (a * a) / (y - x[at]) + np.sqrt(a)


def in_place(x: Array, y: Array) -> Array:
    z = x.copy()
    for _ in range(3):
        z *= y
        z /= y - 1
        z += z * z
    return z


def rows(x: Array, y: Array) -> Array:
    a = np.stack([x, y, x - y, x * y])
    b = (a - a.max(axis=1, keepdims=True)) / a.min(axis=1, keepdims=True)
    return (b * b / (a - 1)).ravel()


def sums(x: Array, y: Array) -> Array:
    a = x * y
    return ((a * a) / (y - 1) + np.sqrt(a)).sum(keepdims=True)


def complex_ones(x: Array, y: Array) -> Array:
    z = x + y * 1j
    w = z * z
    return np.abs(w * w + z) / (x - 1)


PROGRAMS = (chain, stencil, selected, gathered, in_place, rows, sums, complex_ones)


def told(program: Program, x: Array, y: Array) -> tuple[set[str], Array]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = np.array(program(x, y))
    return {f"{w.lineno} {w.message}" for w in caught}, result


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("n", SIZES)
def test_each_lane_tells(program: Program, dtype: str, n: int) -> None:
    rng = np.random.default_rng(n)
    huge = float(np.finfo(dtype).max) / 4
    places = {0, 1, n // 2, n - 2, n - 1} & set(range(n))
    # What comes after None is of one element in ordinary surroundings.
    for special in (None, 0.0, 1.0, -2.0, huge, -huge, np.inf, np.nan):
        for at in places if special is not None else {0}:
            x, y = (rng.uniform(1.25, 1.75, n).astype(dtype) for _ in range(2))
            if special is not None:
                x[at] = special
                y[at] = special if at % 2 else 1.0
            want, expected = told(program, x, y)
            with npaccel.accelerate():
                got, result = told(program, x, y)
            assert got == want, (special, at)
            np.testing.assert_allclose(result, expected, rtol=1e-5 if dtype == "f4" else 1e-12)


def quotients(dtype: str, n: int) -> Kernel:
    """n quotients one after the other, each of which may warn."""
    pool = Pool()
    x, value = pool.load(dtype, 0), pool.load(dtype, 1)
    flags, guards = [], []
    for slot in range(n):
        before, value = value, value / (x + 0.5 * slot)
        made = value.nonfinite() & ~before.nonfinite()
        flags.append(Flag(slot, FlagKind.DIVIDE, made))
        guards = [value.nonfinite()]
    leaf = Leaf(False, (Store(2, value),), tuple(guards), tuple(flags))
    return kernel([param(dtype), param(dtype), param(dtype, out=True)], [leaf], slots=n)


def test_few_masks_stay_and_many_are_a_function(host: Any) -> None:
    assert "call void @main_masks" not in emit_image(quotients("f8", 1), host)[1]
    image, text = emit_image(quotients("f8", 40), host)
    assert text.count("define internal void @main_masks") == 1
    assert text.count("call void @main_masks") >= 2  # of a row's vectors, and of its end
    assert len(image) < 40_000
