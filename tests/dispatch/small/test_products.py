"""Products of small vectors, and single elements: as NumPy gives them, by whatever way."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

from ..differential import THOROUGH
from .comparison import Case, all_same
from .test_parts import seen

FUNCTIONS: tuple[Callable[[Any, Any], Any], ...] = (
    lambda x, y: x @ y,
    np.dot,
    np.matmul,
    lambda x, y: x.dot(y),
    lambda x, _: np.linalg.norm(x),
)


def bits(value: Any) -> Any:
    whole = np.asarray(value)
    return (
        type(value),
        whole.dtype,
        repr(whole.tolist()) if whole.dtype.char in "Og" else whole.tobytes(),
    )


def compare(jobs: list[Callable[[], Any]]) -> None:
    expected = [seen(job) for job in jobs]
    with npaccel.accelerate():
        got = [seen(job) for job in jobs]
    for position, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
        assert ours == theirs, position


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "c16", "?", "f2", "O", ">f8"])
def test_products(dtype: str) -> None:
    draw = np.random.default_rng(0)
    jobs: list[Callable[[], Any]] = []
    for n in (0, 1, 2, 3, 5, 8, 31, 100, 1000):
        a = np.asarray(draw.random(3 * n) * 8 - 3).astype(dtype)
        b = np.asarray(draw.random(3 * n) * 8).astype(dtype)
        for x in (a[:n], a[::3], a[:n][::-1], np.broadcast_to(a[:1], n if n else 0)):
            for y in (b[:n], b[::3], b[: n + 1], b[::-1][:n]):
                for f in FUNCTIONS:
                    jobs.append(lambda f=f, x=x, y=y: bits(f(x, y)))  # type: ignore[misc]
    compare(jobs)


def test_products_of_special_values() -> None:
    values = (np.nan, np.inf, 1e200, -0.0, 1e-200)
    jobs: list[Callable[[], Any]] = []
    for v in values:
        for w in values:
            for f in FUNCTIONS:
                x, y = np.full(5, v), np.full(5, w)
                jobs.append(lambda f=f, x=x, y=y: bits(f(x, y)))  # type: ignore[misc]
    compare(jobs)


def whole(value: Any) -> Any:
    return (*bits(value), np.shape(value), getattr(value, "strides", None))


def whole_of(f: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    return whole(f(x, y))


# Extents of the operands, of which none, one or both are a vector or many matrices.
SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((3, 3), (3,)),
    ((3,), (3, 4)),
    ((40, 40), (40, 1)),
    ((1, 40), (40, 7)),
    ((1, 5), (5, 1)),
    ((5, 1), (1, 5)),
    ((1, 1), (1, 1)),
    ((1, 1), (1,)),
    ((4, 4), (4, 4)),
    ((2, 6), (6, 3)),
    ((33, 20), (20, 17)),
    ((90, 100), (100, 110)),
    ((7, 3, 3), (7, 3, 3)),
    ((7, 3, 3), (3, 3)),
    ((3, 9), (7, 9, 2)),
    ((1, 3, 3), (7, 3, 3)),
    ((1, 3, 9), (9, 2)),
    ((7, 3, 3), (3,)),
    ((3,), (7, 3, 3)),
    ((40, 20, 20), (40, 20, 20)),
    ((2, 2, 3, 3), (3, 3)),
    ((3, 3), (4, 3)),
    ((3, 3), (4,)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 2)),
)


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i8", "u1", "?", "f2", "g", "O", ">f8"])
def test_products_of_matrices(dtype: str) -> None:
    draw = np.random.default_rng(1)

    def forms(shape: tuple[int, ...]) -> list[Any]:
        a = np.asarray(draw.random(shape) * 8 - 3).astype(dtype)
        wide = np.asarray(draw.random((*shape, 2)) * 8 - 3).astype(dtype)
        forms = [a, a.T.copy().T, a[::-1], a[..., ::-1], wide[..., 0]]
        return forms + [np.broadcast_to(a[:1], shape)] * (shape[0] > 0)

    slow = dtype in ("f2", "g", "O", ">f8")  # NumPy's loops without BLAS; size is nothing to us
    jobs: list[Callable[[], Any]] = []
    for left, right in SHAPES:
        if slow and np.prod(left) > 5000:
            continue
        pairs = itertools.product(enumerate(forms(left)), enumerate(forms(right)))
        for (i, x), (j, y) in pairs:
            if THOROUGH or dtype == "f8" or (i + j) % 3 == 0:  # all dtypes lie alike
                for f in (FUNCTIONS[0], np.matmul):
                    jobs.append(functools.partial(whole_of, f, x, y))
    compare(jobs)


def test_a_product_of_a_matrix_with_itself() -> None:
    a = np.random.default_rng(2).random((9, 30))
    compare([lambda: whole(a @ a.T), lambda: whole(a.T @ a), lambda: whole(a[:, :9] @ a[:, :9])])


@pytest.mark.parametrize("how", ["ignore", "warn", "raise"])
def test_products_of_small_matrices(how: Any) -> None:
    """All extents that npaccel multiplies itself; terms that vanish, of both signs, too."""
    draw = np.random.default_rng(4)
    jobs: list[Callable[[], Any]] = []
    for rows, terms, columns in itertools.product(range(1, 8), repeat=3):
        for dtype, scale in (("f8", 1.0), ("f8", 1e-200), ("f4", 1e-30), ("f8", 0.0)):
            a = ((draw.random((rows, terms)) - 0.4) * scale).astype(dtype)
            b = ((draw.random((terms, columns)) - 0.4) * scale).astype(dtype)
            many = np.stack([a, -a, a])
            turned = [x.T.copy().T for x in (a, b)]
            pairs = [(a, b), (many, b), (many, turned[1]), (turned[0], b), (a, a.T)]
            pairs += [(many, np.stack([b, b, -b])), (turned[0], turned[1]), (a[::-1], b)]
            apart = [np.repeat(x, 2, axis=1)[:, ::2] for x in (a, b)]
            pairs += [(apart[0], b), (apart[0], turned[1]), (turned[0], apart[1]), tuple(apart)]
            pairs += [(many, many.transpose(0, 2, 1)), (many[::-1], many.transpose(0, 2, 1))]
            jobs += [functools.partial(whole_of, operator.matmul, x, y) for x, y in pairs]
    with np.errstate(all=how):
        compare(jobs)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_many_products_of_small_matrices(dtype: str) -> None:
    """As many as are worth all threads, with results that lie in all ways."""
    draw = np.random.default_rng(5)
    jobs: list[Callable[[], Any]] = []

    def into(out: Any, x: Any, y: Any) -> Any:
        return whole(np.matmul(x, y, out=out[: len(x)]))

    for rows, terms, columns in ((3, 3, 3), (2, 4, 3), (5, 2, 6)):
        for scale in (1.0, 1e-200 if dtype == "f8" else 1e-30):
            a, b = (
                ((draw.random((1000, *shape)) - 0.4) * scale).astype(dtype)
                for shape in ((rows, terms), (terms, columns))
            )
            turned = [x.transpose(0, 2, 1).copy().transpose(0, 2, 1) for x in (a, b)]
            results = [np.zeros((1000, rows, columns), dtype)]
            results += [np.zeros((1000, columns, rows), dtype).transpose(0, 2, 1)]
            results += [np.zeros((1000, rows, 2 * columns), dtype)[..., ::2]]
            for x, y in itertools.product((a, turned[0], a[0]), (b, turned[1], turned[1][0])):
                jobs.append(functools.partial(whole_of, operator.matmul, x, y))
                if x.ndim == y.ndim == 3:
                    jobs += [functools.partial(into, out, x, y) for out in results]
            jobs.append(functools.partial(whole_of, operator.matmul, a, a.transpose(0, 2, 1)))
            jobs.append(
                functools.partial(whole_of, operator.matmul, a[::-1], turned[0].transpose(0, 2, 1))
            )
    compare(jobs)


@pytest.mark.parametrize("how", ["ignore", "warn", "raise"])
def test_products_of_matrices_that_have_errors(how: Any) -> None:
    jobs: list[Callable[[], Any]] = []
    for v in (np.nan, np.inf, 1e200, 1e-200, -np.inf):
        for shape in ((3, 3), (9, 20)):
            x = np.ones(shape)
            x[1, 1] = v
            # Which NaN stays where two of different signs meet is not promised.
            y = x.T if np.isnan(v) else -x.T
            jobs.append(functools.partial(whole_of, operator.matmul, x, y))
            jobs.append(functools.partial(whole_of, lambda x, y: x @ y * 0, x, x[1]))
    with np.errstate(all=how):
        compare(jobs)


def put(array: Any, key: Any, value: Any) -> Any:
    changed = array.copy()
    changed[key] = value
    return changed.tolist()


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i4", "u1", "?", "c16", "O", ">i4", "M8[s]"])
def test_elements(dtype: str) -> None:
    line = np.asarray(np.arange(6) % 3).astype(dtype)
    block = line.reshape(2, 3)
    keys: tuple[Any, ...] = (
        0,
        -1,
        5,
        6,
        -7,
        np.int64(2),
        True,
        1.0,
        (1, 2),
        (1, -3),
        (2, 0),
        (0, 3),
    )
    keys += ((np.int64(1), 0), (0,), (0, 0, 0), (), 10**30)
    numbers: tuple[Any, ...] = (1, 2.5, -1, 300, 2**31, 2**63, 1e300, np.nan, True, None, "x", 1j)
    numbers += (np.float64(2.5), np.float32(2.5), np.int64(3), np.int32(4), np.bool_(1), [1])
    jobs: list[Callable[[], Any]] = []
    for array in (line, block, line[::-1], block.T, line[:0]):
        for key in keys:
            jobs.append(lambda a=array, k=key: bits(a[k]))  # type: ignore[misc]
            for number in numbers:
                jobs.append(lambda a=array, k=key, v=number: put(a, k, v))  # type: ignore[misc]
    compare(jobs)


def test_elements_of_what_is_pending() -> None:
    with npaccel.accelerate():
        x = npaccel.asarray(np.arange(1e5))
        y = x * 2
        plain = np.asarray(y)
        assert plain[3] == 6.0
        y[3] = 5.0
        z = y + 1
        plain[4] = 7.0
        assert (y[3], y[4], z[3], z[4]) == (5.0, 7.0, 6.0, 9.0)
        x[0] = 9.0
        assert (x[0], y[0]) == (9.0, 0.0)


def test_elements_of_fixed_arrays() -> None:
    fixed = np.arange(3.0)
    fixed.flags.writeable = False
    with npaccel.accelerate(), pytest.raises(ValueError, match="read-only"):
        fixed[1] = 2.0
    assert fixed[1] == 1.0


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_small_matrices_that_are_not_finite(dtype: str) -> None:
    """BLAS fills its registers up by zeros, so it may warn where no term of a product does."""
    rng = np.random.default_rng(7)
    values = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, 1.0, -2.5], dtype)
    cases: list[Case] = []
    for shape in ((2, 2), (3, 3), (4, 4), (6, 6), (5, 3, 3), (50, 4, 4), (300, 3, 3)):
        for share in (0.1, 0.4, 1.0):
            x = np.where(rng.random(shape) < share, rng.choice(values, shape), 1.5).astype(dtype)
            y = np.where(rng.random(shape) < share, rng.choice(values, shape), 0.5).astype(dtype)
            for a, b in ((x, y), (x, y.swapaxes(-1, -2)), (x, y[..., :1]), (y[..., 0, :], x)):
                if a.ndim == b.ndim:
                    given = functools.partial(tuple[Any, ...], (a, b))
                    cases.append((f"{a.shape} {share}", np.matmul, given))
    all_same(cases)
