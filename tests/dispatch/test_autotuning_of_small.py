"""Trials of small arrays, where the threshold is lower still, and of rounds with functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native
from tests.dispatch.tried import counts

THRESHOLD = 1 << 16
ITEMS = 12_000  # f8: more than the threshold, and still small
ROUNDS = 80
NUMPY_WINS = (1000, 1)


@pytest.fixture(autouse=True)
def trials() -> Iterator[None]:
    if npaccel.config.check != "off":
        pytest.skip("everything is recorded, to be compared")
    npaccel.evaluate()
    npaccel.config.threshold = THRESHOLD
    _native.trials(True, *NUMPY_WINS, 0)
    yield
    _native.trials(npaccel.config.tiering == "adaptive")


def numbers(kind: str = "f8") -> np.ndarray:
    return (np.random.default_rng(7).random(ITEMS) * 50 + 1).astype(kind)


def chain(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    c = a * 2 - b
    c[1:] += a[:-1]
    c[:-1] *= 0.5
    d = np.maximum(c, b)
    d /= 3
    d[::2] = -1.5
    return c, d


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
@pytest.mark.usefixtures("numpys_memory")
def test_numpys_rounds_make_plain_arrays() -> None:
    """As NumPy has them with a larger threshold, so what follows is not asked about either."""
    a, b = numbers(), numbers()[::-1].copy()
    expected = chain(a.copy(), b.copy())
    kinds = set()

    def program() -> None:
        for _ in range(ROUNDS):
            found = chain(a, b)
            for x, y in zip(found, expected, strict=True):
                assert np.array_equal(x, y)
            kinds.add(type(found[0]))

    recorded, left = counts(program)
    assert recorded < ROUNDS * 12 / 2
    assert left > 0
    assert np.ndarray in kinds


@pytest.mark.parametrize("paces", [NUMPY_WINS, (1, 1000)])
@pytest.mark.parametrize("call", [np.sin, np.exp, np.log1p])
def test_last_bits_hang_on_the_size_of_what_is_read(
    paces: tuple[int, int], call: Callable[[np.ndarray], np.ndarray]
) -> None:
    """Doubles of integers: whether those wait or not, whatever their own size is."""
    npaccel.config.threshold = ITEMS * 6
    _native.trials(True, *paces, 0)
    a = (numbers() % 30).astype("i4")
    expected = call(a + a).tobytes()
    with npaccel.accelerate():
        big = numbers() + np.arange(ITEMS)
        for _ in range(ROUNDS):
            waits = (big[: len(a)] * 0).astype("i4") + (a + a)
            assert memoryview(call(waits)).tobytes() == expected


CALLS: dict[str, Callable[[np.ndarray], Any]] = {
    "where of what was compared": lambda a: np.where(a > 3, a, 0.0),
    "least": lambda a: a * np.min(a + 1),
    "roll": lambda a: np.roll(a, 1) - a,
    "sum": lambda a: (a * 2).sum() + a,
    "clip": lambda a: np.clip(a - 1, 2, 9),
    "rows": lambda a: a[ORDER] + 1,
    "a mask": lambda a: (a + 0)[a > 7],
    "masked": lambda a: put(a * 1, a > 7),
    "whole numbers put": lambda a: put(a * 1, ORDER),
}
ORDER = np.random.default_rng(3).permutation(ITEMS)


def put(a: np.ndarray, key: np.ndarray) -> np.ndarray:
    a[key] = 0.5
    return a


@pytest.mark.skipif(not _native.guarded(), reason="nothing waits")
@pytest.mark.usefixtures("numpys_memory")
@pytest.mark.parametrize("items", [ITEMS, 4 * ITEMS])
@pytest.mark.parametrize("name", CALLS)
def test_rounds_with_functions_are_compared(name: str, items: int) -> None:
    """With an array of ours a function is other code of ours than with a plain one."""
    a, call = np.resize(numbers(), items), CALLS[name]
    if "ORDER" in call.__code__.co_names:
        a = a[:ITEMS] if items == ITEMS else np.resize(a, (ITEMS, 8))
    expected, seen = call(a), set()

    def program() -> None:
        for _ in range(ROUNDS):
            seen.add(memoryview(call(a)).tobytes())

    recorded, left = counts(program)
    assert left > 0
    assert recorded < ROUNDS * 4 / 2 + 10
    assert len(seen) == 1
    found = np.frombuffer(seen.pop()).reshape(expected.shape)
    assert np.array_equal(found, expected) or (name == "sum" and np.allclose(found, expected))


def test_a_small_loop_that_is_numpys_ends() -> None:
    """What comes after it is recorded again; as time tells."""
    a = numbers()
    _native.trials(True, 0, 0, 0)
    results = []

    def program() -> None:
        for _ in range(3000):
            results[:] = [float((a + 1.0)[3])]
        for _ in range(200):
            b = a * 2
            for _ in range(12):
                b = b * 0.5 + a
            results.append(float(b[5]))

    counts(program)
    b = a * 2
    for _ in range(12):
        b = b * 0.5 + a
    assert results == [float(a[3]) + 1.0, *[float(b[5])] * 200]


# ------------------------------------------------------------------ x[key] += y, at its end


VIEWS: dict[str, Callable[[np.ndarray], Any]] = {
    "a slice": lambda a: np.s_[1:],
    "with a step": lambda a: np.s_[::-2],
    "all": lambda a: ...,
    "none": lambda a: np.s_[None, 2:],
}


@pytest.mark.parametrize("kind", ["f8", "i4", "c16", "?", ">f8", "M8[s]", "O"])
@pytest.mark.parametrize("name", VIEWS)
def test_what_is_put_into_itself(kind: str, name: str) -> None:
    """A view, or one with other strides, order or items: NumPy's value, or its error."""
    whole = np.resize(numbers().astype("i4") % 5, 40_000).astype(kind)

    def program(a: np.ndarray) -> list[Any]:
        key, found = VIEWS[name](a), []
        others = (a[key], a[key][..., ::-1], a[key].copy(), a[key].view(np.ndarray).T, a[5:])
        for value in others:
            try:
                a[key] = value
                found.append(None)
            except ValueError as error:
                found.append(str(error))
        a.flags.writeable = False
        try:
            a[key] = a[key]
        except ValueError as error:
            found.append(str(error))
        a.flags.writeable = True
        return found

    mine, numpys = whole.copy(), whole.copy()
    expected = program(numpys)
    with npaccel.accelerate():
        assert program(mine) == expected
    assert np.array_equal(mine, numpys)
