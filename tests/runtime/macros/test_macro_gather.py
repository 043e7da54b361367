"""Picking by arrays of indices in macro sections."""

from __future__ import annotations

import traceback
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sections import plain_sizes, rand, replayed, same

import npaccel

__all__ = ["plain_sizes"]

pytestmark = pytest.mark.usefixtures("deferred")

table = rand(10, seed=9)
places = np.array([1, 2, 0])

BODIES = {
    "one": lambda x, i: x[i] * 2,
    "take": lambda x, i: np.take(x, i) + 1,
    "method": lambda x, i: (x + 1).take(i, mode="clip"),
    "wrap": lambda x, i: x.take(i * 3, mode="wrap"),
    "computed": lambda x, i: x[i // 2] + x[abs(i)],
    "of what it computes": lambda x, i: np.sqrt(x)[i].sum(),
    "twice": lambda x, i: x[i[i % 3]],
    "a list": lambda x, i: x[[0, 2, -1]] + i[0],
    "of another name": lambda x, i: x[places] * x[:3],
    "view of indices": lambda x, i: x[i[::-2]],
    "added axis": lambda x, i: x[i][:, None] * x[i],
    "two arrays": lambda x, i: (x * x[:, None])[i, i[::-1]],
    "rows": lambda x, i: (x * x[:, None])[i],
    "columns": lambda x, i: (x * x[:, None])[1:, i],
}


@pytest.mark.parametrize("kind", ["i8", "i4", "u1"])
@pytest.mark.parametrize("name", BODIES)
def test_gathers_are_replayed(name, kind):
    section = npaccel.macro(BODIES[name])
    indices = [
        [0, 3, 2, 1],
        [1, 1, 9, 8],
        [4, 3, 2, 1],
        *([[1, -1, 2, -3]] if kind != "u1" else []),
    ]
    replayed(section, *[(rand(10, seed=k), np.array(i, kind)) for k, i in enumerate(indices)])
    assert section.stats()["recordings"] == 1


@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize(
    "body",
    [
        lambda x, i: x[i] * 2,
        lambda x, i: x[i + 0] + 1,
        lambda x, i: x.take(i),
        lambda x, i: x[i, i],
    ],
)
def test_an_index_out_of_bounds_is_numpys_error_at_its_line(body, first):
    section = npaccel.macro(body)
    x = rand(5, 5)
    for k in range(4):
        i = np.array([0, 1, 4 if k != first else 25])
        if k != first:
            same(section(x, i), body(x, i))
            continue
        with pytest.raises(IndexError) as expected:
            body(x, i)
        with pytest.raises(IndexError) as caught:
            section(x, i)
        assert str(caught.value) == str(expected.value)
        lines = [frame.lineno for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert body.__code__.co_firstlineno in lines


def test_nothing_is_written_before_an_index_out_of_bounds():
    def body(x, i):
        x += 1
        return x[i]

    section, x, twin = npaccel.macro(body), rand(4), rand(4)
    for i in (np.array([1, 2]), np.array([1, 4]), np.array([0, 0])):
        if i.max() < 4:
            same(section(x, i), body(twin, i))
        else:
            with pytest.raises(IndexError):
                section(x, i)
            with pytest.raises(IndexError):
                body(twin, i)
        same(x, twin)
    assert section.stats()["recordings"] == 1


def test_indices_that_are_written_or_computed():
    def written(x, i):
        i += 1
        return x[i]

    section = npaccel.macro(written)
    for k in range(3):
        i, twin = np.array([0, 1]), np.array([0, 1])
        same(section(rand(4, seed=k), i), written(rand(4, seed=k), twin))
        same(i, twin)
    assert section.stats()["bodies"] == 3  # if they were out of bounds, i would have been written

    section = npaccel.macro(lambda x: x[(x * 4).astype(np.int64)])
    replayed(section, *[(rand(8, seed=k),) for k in range(3)])


def test_large_ones_and_pending_ones():
    section = npaccel.macro(lambda x, i: x[i] + x[i // 2])
    for k in range(3):
        x = npaccel.asarray(rand(50_000, seed=k)) * 2
        i = npaccel.asarray(np.random.default_rng(k).integers(-50_000, 50_000, 50_000)) + 0
        x, i = (x, i) if k else (np.asarray(x), np.asarray(i))
        plain = np.asarray(x)[np.asarray(i)] + np.asarray(x)[np.asarray(i) // 2]
        assert np.array_equal(np.asarray(section(x, i)), plain)
    assert section.stats()["bodies"] == 0


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(-7, 6), min_size=1, max_size=9),
    st.sampled_from(sorted(BODIES)),
    st.sampled_from([1, -1, 2]),
)
def test_random_indices(indices, name, step):
    body, section = BODIES[name], npaccel.macro(BODIES[name])
    for k in range(2):
        i = (np.array(indices * 2) - k)[::step][: len(indices)]
        x = rand(7 if name != "a list" else 9, seed=k)
        try:
            expected = body(x, i)
        except (IndexError, ValueError) as error:
            with pytest.raises(type(error)):
                section(x, i)
        else:
            actual = section(x, i)
            assert type(actual) is type(expected)
            np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_the_value_of_an_array_without_dimensions_is_looked_up_at_each_call() -> None:
    place = np.array(1)

    @npaccel.macro(on_illegal="warn")
    def step(u: np.ndarray) -> np.ndarray:
        return u[:, place] * 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in (1, 3, 0, 1):
            place[...] = i
            x = np.arange(20.0).reshape(4, 5) + i
            assert np.array_equal(step(x), x[:, i] * 2)
