"""Parts of small plain arrays in a block: read and written as NumPy does, to the last flag."""

from __future__ import annotations

import functools
import operator
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel

from .comparison import hearing

pytestmark = pytest.mark.filterwarnings("ignore:Setting the shape")  # NumPy 2.5 and later

DTYPES = ("f8", "f4", "i8", "u1", "?", "c16", "c8", ">f8", "M8[s]", "O", "f2", "g", "U3", "i4,f8")
SHAPES = ((6,), (4, 5), (1, 5), (3, 1, 4), (0, 3), ())
MANY = 10**30
KEYS: tuple[Any, ...] = (
    slice(None),
    slice(1, -1),
    slice(None, None, 2),
    slice(None, None, -1),
    slice(2, 1),
    slice(0, 100),
    slice(-3, None),
    slice(3, None, -1),
    0,
    -1,
    2,
    7,
    np.int64(1),
    np.int32(1),
    None,
    Ellipsis,
    True,
    np.True_,
    slice(np.int64(1), None),
    slice(None, None, 0),
    1.0,
    "a",
    MANY,
    slice(None, MANY),
    slice(-MANY, None),
)
VALUES: tuple[Any, ...] = (
    1,
    2.5,
    -3,
    300,
    np.nan,
    True,
    1j,
    "x",
    None,
    MANY,
    [1, 2],
    np.float64(2),
    np.float32(1.5),
    np.int64(7),
    np.float64(1e300),
    np.arange(3.0),
    np.arange(5.0),
    np.ones((4, 5)),
    np.ones((1, 5)),
    np.ones((1, 1, 3)),
    np.arange(5),
    np.ones(0),
    np.array(3.0),
)

Job = Callable[[], Any]


def arrays() -> Iterator[np.ndarray[Any, Any]]:
    draw = np.random.default_rng(1)
    for dtype in DTYPES:
        for shape in SHAPES:
            if dtype == "i4,f8":
                array = np.zeros(shape, dtype)
            else:
                array = np.asarray(draw.random(shape) * 100).astype("i8").astype(dtype)
            yield array
            if array.ndim == 2:
                yield np.asfortranarray(array)
                yield array[:, ::-1]
                yield array[::2]


def picks(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    """Masks and integers, of shapes that fit and that do not, in bounds and out of them."""
    draw = np.random.default_rng(2)
    for shape in (array.shape, array.shape[:1], (5,), (1,)):
        mask = np.asarray(draw.random(shape) < 0.4)
        yield from (mask, mask.T, np.zeros(shape, bool))
        for dtype in "bhilBHILq":
            index = np.asarray(draw.integers(0, 4, shape)).astype(dtype)
            yield from (index, index.T)
        yield np.asarray(draw.integers(-4, 4, shape))
        yield np.asarray(draw.integers(-8, 9, shape))
        yield np.asarray(draw.integers(0, 3, (*shape, 2)))
        yield np.asarray(draw.integers(0, 3, shape)).astype(">i8")
    yield from (np.array([], int), np.array(1), draw.random(3))


def keys(chosen: random.Random, count: int) -> list[Any]:
    mixed = [tuple(chosen.choices(KEYS, k=chosen.randint(0, 4))) for _ in range(count)]
    return [*KEYS, *mixed]


def seen(job: Job) -> str:
    """All that can be seen of what it gives, or raises, and warns of."""
    with hearing() as caught:
        try:
            result = job()
        except Exception as error:
            return repr((type(error), str(error), [str(w.message) for w in caught]))
        told = [(str(w.message), w.filename) for w in caught]
    if not isinstance(result, np.ndarray):
        return repr((type(result), result, told))
    about = (type(result), result.dtype, result.shape, result.strides, str(result.flags))
    return repr((about, type(result.base), result.tolist(), told))


def put(array: np.ndarray[Any, Any], key: Any, value: Any) -> Any:
    changed = array.copy("K")
    changed[key] = value
    return changed


def put_part(array: np.ndarray[Any, Any], key: Any, other: Any) -> Any:
    changed = array.copy("K")
    changed[key] = changed[other]
    return changed


def add(array: np.ndarray[Any, Any], key: Any, value: Any) -> Any:
    changed = array.copy("K")
    changed[key] += value
    return changed


def compare(jobs: list[tuple[Job, object]]) -> None:
    """Of each job: what is done, and how it is called in the message of a failure."""
    with hearing():
        expected = [seen(job) for job, _ in jobs]
        with npaccel.accelerate():
            got = [seen(job) for job, _ in jobs]
    for ours, theirs, (_, what) in zip(got, expected, jobs, strict=True):
        assert ours == theirs, what


def jobs_of(
    array: np.ndarray[Any, Any], chosen: random.Random, count: int
) -> list[tuple[Job, object]]:
    jobs: list[tuple[Job, object]] = []

    def job(function: Callable[..., Any], *more: Any) -> None:
        what = (function.__name__, array.dtype, array.shape, array.strides, more)
        jobs.append((lambda: function(array, *more), what))

    for key in [*keys(chosen, count), *picks(array)]:
        job(lambda a, k: a[k], key)
        job(put, key, chosen.choice(VALUES))
        job(put, key, chosen.choice(VALUES[:3]))
        job(add, key, chosen.choice(VALUES))
        job(put_part, key, key)
        job(put_part, key, chosen.choice(KEYS))
    return jobs


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_parts(dtype: str) -> None:
    chosen = random.Random(dtype)
    for array in arrays():
        if array.dtype == np.dtype(dtype):
            compare(jobs_of(array, chosen, 10))


@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_of_arrays_with_several_axes(dtype: str) -> None:
    whole = np.arange(48).astype("f8" if dtype == "i4,f8" else dtype).reshape(2, 3, 4, 2)
    integers = (0, 1, -1, -2, 2, -4, 5, np.int64(1), np.int32(0), True, MANY)
    chosen = random.Random(dtype)
    jobs: list[tuple[Job, object]] = []
    for array in (whole, whole[:, ::-1], whole[0], whole[..., 1].T, np.squeeze(whole[:1, :1])):
        for extra in (0, 0, 0, 0, 0, 0, -1, 1):
            for _ in range(6):
                key = tuple(chosen.choices(integers, k=array.ndim + extra))
                value = chosen.choice((*VALUES[:6], np.True_, np.False_, np.float64(2)))
                jobs += [
                    (functools.partial(operator.getitem, array, key), key),
                    (functools.partial(put, array, key, value), (key, value)),
                    (functools.partial(add, array, key, value), (key, value)),
                ]
    compare(jobs)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_parts_at_random(seed: int) -> None:
    chosen = random.Random(seed)
    for array in arrays():
        compare(jobs_of(array, chosen, 500))


def test_read_only() -> None:
    fixed = np.arange(5.0)
    fixed.flags.writeable = False
    keys = (slice(1, 3), fixed > 2)
    jobs = [(functools.partial(put_into, fixed, key, 1.0), key) for key in keys]
    compare(jobs)
    with npaccel.accelerate():
        assert not fixed[1:3].flags.writeable


def put_into(array: np.ndarray[Any, Any], key: Any, value: Any) -> Any:
    array[key] = value
    return array


def test_views_that_are_made_again_are_new() -> None:
    with npaccel.accelerate():
        base = np.arange(12.0).reshape(3, 4)
        for _ in range(100):
            part = base[1:, ::2]
            part.flags.writeable = False
            part.shape = (2, 1, 2)
            del part
            other = base[0]
            assert other.flags.writeable and other.shape == (4,) and other.base is base.base
            kept = base[1:, 1:]
            assert kept.flags.writeable and kept.strides == (32, 8)
            kept[...] = 5.0
            del kept, other
        assert base.tolist() == [[0, 1, 2, 3], [4, 5, 5, 5], [8, 5, 5, 5]]


def test_a_view_keeps_what_it_shows() -> None:
    with npaccel.accelerate():
        parts = [(np.arange(float(n)) + n)[1:] for n in range(2, 200)]
        junk = [np.ones(n) * 7.0 for n in range(2, 200)]
    assert [part[0] for part in parts] == [n + 1 for n in range(2, 200)]
    assert len(junk) == 198


def test_subclasses_made_in_a_block() -> None:
    with npaccel.accelerate():

        class Kind(np.ndarray):
            pass

        inside = np.arange(6.0).view(Kind)
        assert type(inside[1:3]) is Kind
        assert type(inside + 1) is Kind
    assert type(inside[inside > 2]) is Kind
    inside[1:3] += 1
    assert inside.tolist() == [0, 2, 3, 3, 4, 5]


def test_remainders_by_one_number() -> None:
    """NumPy's division is used for them where the divisor is one for all."""
    draw = np.random.default_rng(3)
    jobs: list[tuple[Job, object]] = []

    def job(array: np.ndarray[Any, Any], divisor: Any) -> None:
        jobs.append((lambda: array % divisor, f"{array.dtype} {array.shape} % {divisor}"))

    for dtype in "ilILqQhB":
        limits = np.iinfo(dtype)
        for count in (1, 3, 4, 100, 513, 2000):
            array = draw.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)
            array[0], array[-1] = limits.min, limits.max
            for divisor in (
                1,
                2,
                3,
                7,
                8,
                10,
                1000,
                1024,
                -1,
                -2,
                -3,
                -8,
                0,
                1 << 30,
                limits.max,
                limits.min,
            ):
                job(array, divisor)
                job(array[::2], divisor)
                job(array, array.dtype.type(divisor) if limits.min <= divisor <= limits.max else 5)
    compare(jobs)


@pytest.mark.parametrize("dtype", ["f8", "i8", "M8[s]", "f4", "c16", ">f8", "O"])
def test_few_integers_and_many(dtype: str) -> None:
    """Few are looked at as they are used; errors name the first that is out of bounds."""
    rng = np.random.default_rng(8)
    jobs: list[tuple[Job, object]] = []
    for n in (1, 5, 200):
        a = np.arange(n).astype(dtype)
        for count in (0, 1, 127, 128, 129, 400):
            inside = rng.integers(-n, n, count)
            outside = np.append(inside, [n, -n - 1])
            for i in (inside, outside, inside[::-1], inside.astype("i4"), inside.reshape(-1, 1)):
                what = f"{n} {i.dtype} {i.shape} {count}"
                jobs += [
                    (lambda a=a, i=i: a[i], f"{what} subscript"),  # type: ignore[misc]
                    (lambda a=a, i=i: a.take(i), f"{what} take"),  # type: ignore[misc]
                    (lambda a=a, i=i: np.take(a, i, axis=0), f"{what} function"),  # type: ignore[misc]
                    (lambda a=a, i=i: a.take(i, mode="wrap"), f"{what} wrap"),  # type: ignore[misc]
                ]
    compare(jobs)
