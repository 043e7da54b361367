"""Few elements or rows by an integer array or a list per axis, read and written; copies of any
strides; parts written from another type: as NumPy has it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

from ..differential import DTYPES, edge_values
from .comparison import all_same

Array = np.ndarray[Any, Any]
# NumPy makes the text of a shape while an error is set, where Python 3.12 and later may collect.
pytestmark = pytest.mark.filterwarnings("ignore:Exception ignored in garbage collection")
KEYS: dict[str, Any] = {
    "both": (np.array([0, 2, 1, 2]), np.array([3, 0, 3, 1])),
    "from the end": (np.array([-1, -3, 0]), np.array([-4, 3, -1])),
    "again and again": (np.array([1, 1, 1]), np.array([2, 2, 2])),
    "one number": (2, np.array([3, 0, -1, 1])),
    "another number": (np.array([2, 0]), -2),
    "a number outside": (3, np.array([0, 1])),
    "a very large number": (2**70, np.array([0, 1])),
    "a truth value": (True, np.array([0, 1])),
    "outside": (np.array([0, 1, 3]), np.array([0, 0, 0])),
    "outside from the end": (np.array([0, 1, -4]), np.array([0, 0, 0])),
    "far outside": (np.array([0, -(2**63)]), np.array([2**63 - 1, 0])),
    "blocks": (np.array([[0, 1], [2, 0]]), np.array([[3, 1], [0, 2]])),
    "broadcast": (np.array([[0], [2]]), np.array([3, 1])),
    "of unlike lengths": (np.array([0, 1]), np.array([0, 1, 2])),
    "with steps": (np.array([0, 9, 2, 9])[::2], np.array([3, 9, 0, 9])[::2]),
    "of other integers": (np.array([0, 1], "i4"), np.array([3, 1], "u1")),
    "of another order": (np.array([0, 1], ">i8"), np.array([3, 1])),
    "none": (np.array([], int), np.array([], int)),
    "one axis": np.array([2, 0, -1]),
    "one axis of two": (np.array([2, 0, -1]),),
    "a slice": (slice(1, None), np.array([0, 3])),
    "an ellipsis": (..., np.array([0, 3])),
    "a new axis": (np.array([0, 2]), None, np.array([0, 3])),
    "lists": ([0, 2], [3, 1]),
    "a list and an array": ([0, 2], np.array([3, 1])),
    "a list": [2, 0],
    "a list from the end": [-1, 0, -1],
    "a list with one outside": [0, 3],
    "a list with a very large number": [0, 2**70],
    "a list of truth values": [True, False, True],
    "a list with a truth value": [0, True],
    "a list of lists": [[0, 1], [2, 0]],
    "a list of floats": [0.0, 1.0],
    "a list of NumPy's integers": [np.int64(0), np.int64(2)],
    "a list of small integers of NumPy's": [np.int32(0), 2],
    "an integer of NumPy's": (np.int64(-1), np.array([0, 3])),
    "an integer of NumPy's outside": (np.int64(3), np.array([0, 3])),
    "an empty list": [],
    "a number and a list": (1, [0, 3]),
    "a list and a slice": ([0, 2], slice(1, None)),
    "a list and all": ([0, 2], slice(None)),
    "blocks of rows": np.array([[0, 1], [2, 0]]),
    "floats": (np.array([0.0, 2.0]), np.array([3, 1])),
    "truth values": (np.array([True, False, True]), np.array([3, 1])),
    "no dimensions": (np.array(1), np.array([0, 3])),
}
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "C": lambda v: v.reshape(3, 4),
    "Fortran": lambda v: v.reshape(3, 4, order="F"),
    "backwards": lambda v: v.reshape(3, 4)[::-1, ::-1],
    "a part": lambda v: np.stack((v, v), -1).reshape(3, 8)[:, ::2],
    "an inner part": lambda v: np.pad(v.reshape(3, 4), 1)[1:-1, 1:-1],
    "rows from the end": lambda v: np.pad(v.reshape(3, 4), 1)[-2:0:-1, 1:-1],
    "rows of blocks": lambda v: np.pad(v.reshape(3, 4, 1), ((1, 0), (0, 0), (0, 0)))[1:],
    "with an axis of one element": lambda v: np.pad(v.reshape(3, 4), 1).T[1:-1, :1].T,
    "a line": lambda v: v,
}


def values(dtype: str) -> Array:
    return np.resize(edge_values(dtype), 12)


def read(a: Array, key: Any) -> Any:
    return a[key]


def write(a: Array, key: Any, value: Any) -> None:
    a[key] = value


def add(a: Array, key: Any, value: Any) -> None:
    a[key] += value


@pytest.mark.one_in(2)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_picked(dtype: str, layout: str) -> None:
    make = LAYOUTS[layout]
    all_same(
        (f"{dtype} {layout} {name}", read, lambda key=key: (make(values(dtype)), key))  # type: ignore[misc]
        for name, key in KEYS.items()
    )


def written(shape: tuple[int, ...], dtype: str) -> list[tuple[str, Any]]:
    n = int(np.prod(shape))
    full = np.resize(edge_values(dtype)[::-1], n).reshape(shape)
    return [
        ("as many", full),
        ("other types", np.arange(n).reshape(shape)),
        ("truths", (np.arange(n) % 2 == 0).reshape(shape)),
        ("one", full.ravel()[:1]),
        ("too many", np.arange(n + 1)),
        ("a number", 2),
        ("a float", 2.5),
        ("NaN", float("nan")),
        ("a large number", 2**40),
        ("a truth", True),
        ("a scalar", full.ravel()[0] if n else np.float64(1)),
        ("a list", full.ravel().tolist()),
        ("text", "x"),
    ]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_put(dtype: str, layout: str) -> None:
    make = LAYOUTS[layout]

    def cases() -> Any:
        for (name, key), how in itertools.product(KEYS.items(), (write, add)):
            items = key if isinstance(key, tuple) else (key,)
            shape = next((i.shape for i in items if isinstance(i, np.ndarray)), (2,))
            if how is write and len(items) < 2 and layout != "a line":  # of rows
                cases_of = [*written(shape, dtype), *written((4,), dtype), *written((2, 4), dtype)]
            else:
                cases_of = written(shape, dtype)
            for what, value in cases_of:
                label = f"{dtype} {layout} {name} {how.__name__} {what}"
                yield label, how, lambda key=key, value=value: (make(values(dtype)), key, value)

    with np.errstate(all="ignore"):
        all_same(cases(), 1)


def test_what_overlaps_and_what_may_not_be_written() -> None:
    i, j = np.array([0, 1, 2]), np.array([1, 2, 0])

    def block() -> Array:
        return np.arange(12.0).reshape(3, 4)

    def fixed() -> Array:
        a = block()
        a.flags.writeable = False
        return a

    def to_itself(a: Array) -> Array:
        a[i, j] = a[0, :3]
        a[i, j] = a[:, 0]
        return a

    def by_itself(a: Array) -> Array:
        line = a.ravel().astype(int) % 3
        line[line] = line[::-1]
        line[line[:4]] = 1
        return line

    all_same(
        [
            ("to itself", to_itself, lambda: (block(),)),
            ("by itself", by_itself, lambda: (block(),)),
            ("read only", write, lambda: (fixed(), (i, j), 1.0)),
            ("broadcast", write, lambda: (np.broadcast_to(np.ones(4), (3, 4)), (i, j), 1.0)),
        ]
    )


def test_of_very_many_axes() -> None:
    """NumPy takes fewer index arrays than an array may have axes."""
    zero = np.array([0])
    all_same(
        (f"{n}", how, lambda n=n, more=more: (np.ones((1,) * n), (zero,) * n, *more))  # type: ignore[misc]
        for n in (8, 9, 31, 32)
        for how, more in ((read, ()), (write, (2.0,)))
    )


@pytest.mark.parametrize("n", [1, 1023, 1024, 1025])
def test_of_large_arrays(n: int) -> None:
    """Plain, computed and not yet seen, and ours."""
    rng = np.random.default_rng(n)
    i, j = rng.integers(-300, 300, n), rng.integers(0, 300, n)
    start = rng.random((300, 300))
    kinds: dict[str, Callable[[], Array]] = {
        "plain": start.copy,
        "computed": lambda: start * 2 + 1,
        "ours": lambda: npaccel.asarray(start) * 2 + 1,
    }

    def walk(make: Callable[[], Array]) -> list[Any]:
        a = make()
        found = [a[i, j], a[7, j], a[i, -3]]
        a[i, j] = 2.5
        a[i, 4] = found[0]
        a[i, j] += a[j, i]
        a[3, 4] = 8.0
        found += [a[i, j], a.max(), a]
        return [np.asarray(value).tobytes() for value in found]

    for make in kinds.values():
        expected = walk(kinds["plain"] if make is kinds["plain"] else lambda: start * 2 + 1)
        with npaccel.accelerate():
            assert walk(make) == expected


@pytest.mark.parametrize("n", [1, 2, 100, 109, 110])
def test_rows_of_large_arrays(n: int) -> None:
    """Up to as many bytes as are worth recording; what waits runs before."""
    rng = np.random.default_rng(n)
    i, few = rng.integers(-300, 300, n), rng.integers(-300, 300, min(n, 60)).tolist()
    start = rng.random((300, 300))

    def walk(make: Callable[[], Array]) -> list[Any]:
        a = make()
        found = [a[i], a[few], a[(few,)], a[i, :], a.reshape(300, 30, 10)[i, 3]]
        a[[1, 2]] = a[[2, 1]]
        a += 1.0
        a[few] = a[5]
        a *= 0.5
        a[i] = found[0]
        a -= 0.25
        a[[3, 4], 7] = 1.5
        a[few] += a[few]
        found += [a[i], a.max(), a]
        return [np.asarray(value).tobytes() for value in found]

    for make in (start.copy, lambda: start * 2 + 1, lambda: npaccel.asarray(start) * 2 + 1):
        expected = walk(start.copy if make == start.copy else lambda: start * 2 + 1)
        with npaccel.accelerate():
            assert walk(make) == expected


def test_rows_are_read_and_written_where_they_lie() -> None:
    """Nothing is shown, so nothing has to be hidden again."""
    start = np.random.default_rng(1).random((600, 600))
    with npaccel.accelerate():
        a, b = start * 2 + 1, start * 2 + 1
        npaccel.stats(reset=True)
        for k in range(5):
            a[[k, 9]] = a[[9, k]]
            a *= 0.5
        counts = npaccel.stats()
    assert counts["guard_faults"] == counts["fallbacks"] == 0
    for k in range(5):
        b[[k, 9]] = b[[9, k]]
        b *= 0.5
    assert np.array_equal(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_of_any_strides(dtype: str) -> None:
    cube = np.resize(edge_values(dtype), 60).reshape(3, 4, 5)
    forms = [
        cube,
        cube.T,
        cube[::-1],
        cube[:, ::2, ::-1],
        cube.transpose(1, 0, 2),
        cube[1],
        cube[0, 1],
    ]
    forms += [
        cube[:0],
        cube[1:2, 1:2, 1:2],
        np.broadcast_to(cube[0, 0], (4, 5)),
        cube[0, 0, 0:1].reshape(()),
    ]
    ways: dict[str, Callable[[Array], Any]] = {
        "copy": lambda a: a.copy(),
        "copy F": lambda a: a.copy("F"),
        "flatten": lambda a: a.flatten(),
        "flatten F": lambda a: a.flatten("F"),
        "array": np.array,
        "array of a type": lambda a: np.array(a, dtype=a.dtype),
        "array, two axes": lambda a: np.array(a, ndmin=2),
        "empty_like": lambda a: np.empty_like(a).strides,
        "empty_like of a type": lambda a: np.empty_like(a, dtype="f4").dtype,
        "argmax": lambda a: a.argmax() if a.size else None,
        "argmin along": lambda a: a.argmin(-1) if a.size and a.ndim else None,
        "argmax kept": lambda a: a.argmax(axis=0, keepdims=True) if a.size and a.ndim else None,
        "stack": lambda a: np.stack((a, a), axis=-1),
        "column_stack": lambda a: np.column_stack((a.ravel(), a.ravel())),
    }
    all_same(
        (f"{way} {k} {dtype}", call, lambda a=a: (a,))  # type: ignore[misc]
        for way, call in ways.items()
        for k, a in enumerate(forms)
    )


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", DTYPES)
def test_parts_written_from_another_type(source: str, target: str) -> None:
    v = np.resize(edge_values(source), 12)
    a = np.resize(edge_values(target), 24).reshape(4, 6)
    keys: list[Any] = [
        1,
        slice(1, 3),
        (slice(None), 2),
        (slice(None, None, -1), slice(0, 6, 2)),
        ...,
    ]
    all_same(
        (f"{key}", write, lambda key=key, part=part: (a.copy(), key, part))  # type: ignore[misc]
        for key in keys
        for part in (v[:6], v[:4], v[:3], v[:1], v.reshape(2, 6), v[0:1].reshape(()), v[::2])
    )


def test_words_that_are_not_numpys() -> None:
    """And what is given twice."""
    cases: list[Any] = []
    for word in (None, 3, b"raise", "x", [], object()):
        cases += [
            ("copyto", lambda a, w: np.copyto(a, 1, casting=w), lambda w=word: (np.zeros(3), w)),
            ("put", lambda a, w: a.put([0], 1, mode=w), lambda w=word: (np.zeros(3), w)),
            ("take", lambda a, w: a.take(a, mode=w), lambda w=word: (np.zeros(3, int), w)),
            ("zeros", lambda w: np.zeros(3, "f8", w), lambda w=word: (w,)),
            ("side", lambda a, w: a.searchsorted(a, side=w), lambda w=word: (np.zeros(3), w)),
            ("kind", lambda a, w: a.argsort(0, w), lambda w=word: (np.zeros(3), w)),
        ]
    i = np.array([0, 2])
    cases += [
        ("axis", lambda a: a.take(i, 0, axis=0), lambda: (np.arange(3),)),
        ("axis of the function", lambda a: np.take(a, i, 0, axis=0), lambda: (np.arange(3),)),
        ("side twice", lambda a: a.searchsorted(i, "left", side="left"), lambda: (np.arange(3),)),
    ]
    all_same(cases)


def test_what_is_given_by_name_alone() -> None:
    """No argument is in its place."""
    values = np.arange(6.0)
    cases: list[Any] = [
        ("put", lambda a: a.put(indices=1, values=values), lambda: (np.zeros(6)[::2],)),
        ("put many", lambda a: a.put(indices=[1, 2], values=values), lambda: (np.zeros(3),)),
        ("item", lambda a: a.item(), lambda: (np.array(2.5),)),
        ("frombuffer", lambda b: np.frombuffer(buffer=b), lambda: (bytes(80),)),
        ("zeros", lambda n: np.zeros(shape=n, dtype="i4"), lambda: (3,)),
        ("arange", lambda n: np.arange(stop=n), lambda: (3,)),
    ]
    all_same(cases)
