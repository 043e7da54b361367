"""`ufunc.reduce` of a list of arrays: one after the other where that is the same, else NumPy's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native

Array = np.ndarray[Any, Any]
SHAPE = (30, 40)
TYPES = ("?", "i1", "u2", "i4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "m8[s]", ">f8")
UFUNCS = (
    "add", "multiply", "maximum", "minimum", "fmax", "fmin", "bitwise_and", "bitwise_or",
    "bitwise_xor", "logical_and", "logical_or", "logical_xor", "subtract", "hypot", "gcd",
)  # fmt: skip
WORDS: dict[str, dict[str, Any]] = {
    "none": {},
    "axis": {"axis": 0},
    "usual": {"axis": 0, "dtype": None, "out": None, "keepdims": False, "where": True},
    "all": {"axis": None},
    "last": {"axis": -1},
    "from the end": {"axis": -3},
    "both": {"axis": (0, 1)},
    "truth": {"axis": False},
    "kept": {"keepdims": True},
    "type": {"dtype": "f8"},
    "truths": {"dtype": bool},
    "initial": {"initial": 1},
    "masked": {"where": np.arange(40) % 3 > 0, "initial": 1},
    "bad": {"axis": 5},
    "unknown": {"axes": 0},
}


def parts(dtype: str, count: int = 4) -> list[Array]:
    rng = np.random.default_rng(count)
    special = [np.nan, np.inf, -np.inf, 0.0, 1.0, -1.0, 3.0, 2.5]
    made = [
        rng.choice(special if np.dtype(dtype).kind in "fc" else range(5), SHAPE)
        for _ in range(count)
    ]
    return [x.astype(dtype) for x in made]


def told(call: Callable[[], Any]) -> tuple[Any, ...]:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            result = call()
            seen: tuple[Any, ...] = (result.shape, result.dtype, result.strides, result.tolist())
        except (TypeError, ValueError) as error:
            seen = (type(error), str(error))
        words = [(w.category, str(w.message)) for w in heard]
    return (repr(seen), words)


@pytest.mark.one_in(2)
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", UFUNCS)
def test_folds(name: str, dtype: str) -> None:
    ufunc, given = getattr(np, name), parts(dtype)
    for items in (given, tuple(given)):
        for words in WORDS.values():

            def call(items: Any = items, words: Any = words) -> Any:
                return ufunc.reduce(items, **words)

            expected = told(call)
            with npaccel.accelerate():
                assert told(call) == expected


@pytest.mark.parametrize("name", ["max", "min", "any", "all", "sum", "prod"])
@pytest.mark.parametrize("dtype", ["?", "i8", "f8"])
def test_numpys_functions(name: str, dtype: str) -> None:
    given = parts(dtype)
    for words in ({"axis": 0}, {}, {"axis": 1}):

        def call(words: Any = words) -> Any:
            return getattr(np, name)(given, **words)

        expected = told(call)
        with npaccel.accelerate():
            assert told(call) == expected


class Other(np.ndarray[Any, Any]):
    """A class that nothing is known of."""


@pytest.mark.parametrize(
    "items",
    [
        [],
        [np.ones(SHAPE)],
        [np.ones(SHAPE), np.ones(40)],
        [np.ones(SHAPE), np.ones(SHAPE, "f4")],
        [np.ones(SHAPE), 2.0],
        [np.ones(SHAPE), np.ones(SHAPE).tolist()],
        [np.ones(SHAPE).view(Other)] * 2,
        [np.ones(SHAPE), np.ma.masked_array(np.ones(SHAPE), np.zeros(SHAPE))],
        [np.ones(SHAPE)] * 70,
        [np.ones((0, 4))] * 2,
        [np.ones(())] * 3,
    ],
    ids=range(11),
)
def test_what_is_not_alike(items: Any) -> None:
    expected = told(lambda: np.maximum.reduce(items))
    with npaccel.accelerate():
        assert told(lambda: np.maximum.reduce(items)) == expected


LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "F": np.asfortranarray,
    "reversed": lambda x: x[::-1],
    "reversed rows": lambda x: x[:, ::-1],
    "turned": lambda x: x.T,
    "every other": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
    "one column": lambda x: np.asfortranarray(x)[:, :1],
    "three axes": lambda x: x.reshape(3, 10, 40).transpose(1, 0, 2),
}


@pytest.mark.parametrize("second", ["C", *LAYOUTS])
@pytest.mark.parametrize("first", LAYOUTS)
def test_layouts(first: str, second: str) -> None:
    one, two = parts("f8", 2)
    items = [LAYOUTS[first](one), LAYOUTS.get(second, np.ascontiguousarray)(two)]
    if items[0].shape != items[1].shape:
        items[1] = items[0] + 1.0
    expected = told(lambda: np.maximum.reduce(items))
    with npaccel.accelerate():
        assert told(lambda: np.maximum.reduce(items)) == expected


@pytest.mark.pending
def test_it_is_recorded_and_its_arrays_may_change_after() -> None:
    given = parts("f8", 3)
    expected = np.maximum.reduce(given)
    with npaccel.accelerate():
        mine = [np.add(x, 0.0) for x in given]
        result = np.maximum.reduce(mine)
        assert _native.is_pending(result)
        mine[0][...] = 100.0
        mine.clear()
        np.testing.assert_array_equal(result, expected)


def test_arrays_alone() -> None:
    given = parts("i8", 2)
    with npaccel.accelerate():
        mine = np.add(given[0], 0)
        same = np.bitwise_or.reduce([mine, mine, mine])
        same[0, 0] = 77
        assert mine[0, 0] != 77
