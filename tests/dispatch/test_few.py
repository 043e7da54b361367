"""Little work on large arrays, with nothing pending on them: NumPy's at once, not even counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel.dispatch import FALLBACKS

I = np.array([3, -7, 3])  # noqa: E741
ROWS = np.zeros(60, bool)
ROWS[[4, 9]] = True
V = np.array([1.5, 2.5, 3.5])

PICKS: dict[str, Callable[[Any], Any]] = {
    "integers": lambda x: x[I],
    "a list": lambda x: x[[0, 2]],
    "a tuple": lambda x: x[(I, I)],
    "beside a slice": lambda x: x[1:3, I],
    "beside an integer": lambda x: x[5, I],
    "beside a list": lambda x: x[[5, 6, 7], I],
    "with a new axis": lambda x: x[None, I],
    "behind an ellipsis": lambda x: x[..., I],
    "before an ellipsis": lambda x: x[None, I, ...],
    "around an ellipsis": lambda x: x.reshape(60, 6, 10)[I, ..., I],
    "an ellipsis for no axis": lambda x: x[I, ..., I],
    "rows by a mask": lambda x: x[:, :60][..., 3][ROWS],
    "unsigned": lambda x: x[np.array([2, 5], "u1"), 1:],
    "no index": lambda x: x[np.array([], int)],
}
TAKES: dict[str, Callable[[Any], Any]] = {
    "method": lambda x: x.take(I),
    "axis": lambda x: x.take(I, -1),
    "axis by name": lambda x: x.take(I, axis=0),
    "function": lambda x: np.take(x, [0, 2], 1),
    "clipped": lambda x: x.take([100_000, -5], mode="clip"),
    "table": lambda x: x.take([[0, 1], [2, 3]]),
}


def assign(key: Any, value: Any) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        x[key] = value
        return x

    return run


def add_to(x: Any) -> Any:
    x[I] += V[:, None]
    return x


WRITES: dict[str, Callable[[Any], Any]] = {
    "a number": assign(I, 2),
    "the last of duplicates": assign((I, 0), V),
    "a list": assign([1, 2], 0.5),
    "a row each": assign(I, np.arange(60.0)),
    "rows by a mask": assign(ROWS, -1.0),
    "rows by a mask, columns": assign((ROWS, slice(2, 4)), -1.0),
    "elements": assign((4, I), V),
    "in place": add_to,
}

ERRORS: dict[str, Callable[[Any], Any]] = {
    "out of bounds": lambda x: x[[60]],
    "out of bounds, second axis": lambda x: x[I, [0, 1, -61]],
    "shapes": lambda x: x[I, [0, 1]],
    "too many": lambda x: x[I, I, I],
    "two ellipses": lambda x: x[..., I, ...],
    "too many beside an ellipsis": lambda x: x[..., I, I, I],
    "mask of another length": lambda x: x[ROWS[1:]],
    "assigned, out of bounds": assign([1, 60], 0.0),
    "assigned, shape": assign(I, np.zeros(7)),
    "assigned, no number": assign(I, "x"),
    "take": lambda x: x.take([3600]),
    "take, axis": lambda x: x.take([0], axis=2),
    "take, axis of no integer": lambda x: x.take([0], axis="a"),
    "take, mode": lambda x: x.take([0], mode="no"),
}


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "asarray": np.asarray,
    "asanyarray": np.asanyarray,
    "asarray with its dtype": lambda x: np.asarray(x, x.dtype),
    "asarray, float": lambda x: np.asarray(x, float),
    "asarray, float64": lambda x: np.asarray(x, dtype=np.float64, copy=None),
    "ascontiguousarray": np.ascontiguousarray,
    "array": lambda x: np.array(x, copy=False),
    "astype": lambda x: x.astype(float, copy=False),
}
COPIES: dict[str, Callable[[Any], Any]] = {
    "array": np.array,
    "asarray, float32": lambda x: np.asarray(x, np.float32),
    "asarray, swapped": lambda x: np.asarray(x, ">f8"),
    "asarray, metadata": lambda x: np.asarray(x, np.dtype("f8", metadata={"a": 1})),
    "asarray, copy": lambda x: np.asarray(x, copy=True),
    "asarray, order": lambda x: np.asarray(x, order="F"),
    "astype": lambda x: x.astype(float),
    "astype, int": lambda x: x.astype(int, copy=False),
}


@pytest.fixture
def block() -> Iterator[None]:
    npaccel.config.threshold = 4096
    with npaccel.accelerate():
        yield


@pytest.fixture(params=["plain", "array"])
def wrap(request: Any) -> Callable[[Any], Any]:
    return npaccel.asarray if request.param == "array" else lambda x: x


def large() -> Any:
    with npaccel.accelerate(min_size=1 << 40):
        return np.arange(3600.0).reshape(60, 60).copy()


def numpys(call: Callable[[Any], Any]) -> Any:
    with npaccel.accelerate(min_size=1 << 40):
        return call(large())


def quietly(call: Callable[[Any], Any], x: Any) -> Any:
    """What `call` gives, which records nothing and is not counted."""
    before = npaccel.stats()["requests"], FALLBACKS.total()
    result = call(x)
    assert (npaccel.stats()["requests"], FALLBACKS.total()) == before
    return result


@pytest.mark.parametrize("name", PICKS)
def test_few_are_picked(name: str, block: None, wrap: Callable[[Any], Any]) -> None:
    np.testing.assert_array_equal(quietly(PICKS[name], wrap(large())), numpys(PICKS[name]))


@pytest.mark.parametrize("name", TAKES)
def test_few_are_taken(name: str, block: None) -> None:
    np.testing.assert_array_equal(quietly(TAKES[name], large()), numpys(TAKES[name]))


@pytest.mark.parametrize("name", WRITES)
def test_few_are_written(name: str, block: None, wrap: Callable[[Any], Any]) -> None:
    np.testing.assert_array_equal(quietly(WRITES[name], wrap(large())), numpys(WRITES[name]))


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str, block: None, wrap: Callable[[Any], Any]) -> None:
    with pytest.raises(Exception) as expected:
        numpys(ERRORS[name])
    with pytest.raises(type(expected.value)) as error:
        ERRORS[name](wrap(large()))
    assert str(error.value) == str(expected.value)


@pytest.mark.pending
def test_what_is_pending_keeps_the_old_values(block: None, wrap: Callable[[Any], Any]) -> None:
    x = wrap(large())
    before = x * 2
    x[I] = -1.0
    after = x * 2
    after[I] = 7.0  # itself pending
    assert before[3].tolist() == (2 * large()[3]).tolist()
    assert after[I[:1]].tolist() == [[7.0] * 60]
    assert after[2].tolist() == (2 * large()[2]).tolist()


@pytest.mark.pending
def test_values_and_indices_that_are_pending(block: None) -> None:
    x, ones = large(), np.ones(3600, int)
    x.ravel()[ones + 1] = np.arange(3600.0) * 2  # both of them large; the last one wins
    assert x[0, :4].tolist() == [0.0, 1.0, 7198.0, 3.0]
    x[[5]] = (np.arange(3600.0) * 2)[:60]
    assert x[5].tolist() == list(range(0, 120, 2))


@pytest.mark.parametrize("name", CONVERSIONS)
def test_what_needs_no_conversion_comes_back(name: str, block: None) -> None:
    x = large()
    assert quietly(CONVERSIONS[name], x) is x


@pytest.mark.parametrize("name", COPIES)
def test_what_needs_one_is_converted(name: str, block: None) -> None:
    x, want = large(), numpys(COPIES[name])
    have = COPIES[name](x)
    assert have is not x and have.dtype == want.dtype
    assert have.dtype.metadata == want.dtype.metadata and have.flags.fnc == want.flags.fnc
    assert np.shares_memory(x, have) == np.shares_memory(*numpys(lambda x: (x, COPIES[name](x))))
    np.testing.assert_array_equal(have, want)


LITTLE: dict[str, Callable[[Any], Any]] = {
    "item": lambda x: x.item(3, 4),
    "searchsorted": lambda x: x[0].searchsorted(x.ravel().searchsorted([7.5, 8.0])),
    "put": lambda x: (x.put([1, -1], 5.0), x)[1],
    "add.at": lambda x: (np.add.at(x, (I, I), 1.0), x)[1],
    "take": lambda x: x.take([1, 2]),
    "np.take": lambda x: np.take(x, [1, 2], axis=1),
}


@pytest.mark.parametrize("name", LITTLE)
def test_work_that_does_not_grow_with_the_array(
    name: str, block: None, wrap: Callable[[Any], Any]
) -> None:
    np.testing.assert_array_equal(quietly(LITTLE[name], wrap(large())), numpys(LITTLE[name]))
    x = wrap(large())
    before = x + 1
    after = LITTLE[name](x)
    np.testing.assert_array_equal(after, numpys(LITTLE[name]))
    np.testing.assert_array_equal(before, large() + 1)


def test_rows_below_sixteen_thresholds_are_not_even_counted() -> None:
    npaccel.config.threshold = 1 << 18
    x = np.arange(600_000.0).reshape(600, 1000)
    rows = np.arange(-200, 200)
    with npaccel.accelerate():
        before = npaccel.stats()["fallbacks"], npaccel.stats()["requests"]
        found = x[rows]
        assert (npaccel.stats()["fallbacks"], npaccel.stats()["requests"]) == before
        pending = (npaccel.asarray(x) + 1)[rows]
    np.testing.assert_array_equal(found, x[rows])
    np.testing.assert_array_equal(np.asarray(pending), x[rows] + 1)
