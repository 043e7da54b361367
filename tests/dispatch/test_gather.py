"""Elements picked by integer arrays: recorded, and as NumPy picks them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native

from .at_once import same
from .differential import DTYPES, WRAPPED, check, one_compiled, shapes

LINE = np.array([0, 2, 1, 1, -1])
TABLE = np.array([[0, 1, 2], [-1, -2, 0]])

KEYS: dict[str, Any] = {
    "line": LINE,
    "table": TABLE,
    "fortran table": np.asfortranarray(TABLE),
    "reversed": LINE[::-1],
    "every other": TABLE[:, ::2],
    "broadcast": np.broadcast_to(LINE, (3, 5)),
    "list": [1, 0, 0],
    "second axis": (slice(None), LINE),
    "second axis by a table": (slice(None), TABLE),
    "last axis": (..., LINE),
    "rows turned": (LINE, slice(None, None, -1)),
    "columns apart": (slice(None, None, -2), LINE),
    "new axis before": (None, LINE),
    "new axis after": (LINE, None),
    "pairs": (LINE, LINE[::-1]),
    "pairs of orders": (TABLE, np.asfortranarray(TABLE)),
    "grid": (LINE[:3, None], LINE),
    "with integer": (LINE, 1),
    "with integer before": (0, LINE),
    "apart": (LINE, slice(None), LINE),
    "integer apart": (1, slice(None), LINE),
    "three": (LINE, LINE, LINE),
    "middle": (slice(1, None), LINE, slice(None, 2)),
    "outside": np.array([0, 1, 99]),
    "below": np.array([0, -99, 1]),
    "one outside": (np.array([0, 1]), np.array([0, 77])),
    "shapes that do not fit": (LINE, TABLE[0]),
    "too many": (LINE, LINE, LINE, LINE),
    "truth": (LINE, np.array([True, False])),
    "empty": np.array([], dtype=int),
}


def source(dtype: str, order: str = "C") -> np.ndarray[Any, Any]:
    values = (np.arange(4 * 5 * 6) * 7 % 13 - 3).astype(dtype).reshape(4, 5, 6)
    return values.copy(order) if order in "CF" else values.transpose(1, 0, 2)


@pytest.mark.parametrize("name", KEYS)
def test_subscripts(name: str) -> None:
    for order in one_compiled("CFT"):
        check(lambda x: (x + x)[KEYS[name]], lambda o=order: (source("d", o),))
        check(lambda x: x[KEYS[name]] * 2, lambda o=order: (source("d", o),))
    check(lambda x: (x + x)[..., 0, 0][KEYS[name]], lambda: (source("d"),))
    check(lambda x: (x + x)[:, ::-1, 1::2][KEYS[name]], lambda: (source("d"),))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype: str) -> None:
    def pick(x: Any, y: Any) -> Any:
        first = x[LINE] if x.ndim else x
        return first, x.take(TABLE, mode="wrap"), y[:, LINE], y.take(LINE, 1), y[LINE, LINE]

    for line in one_compiled(shapes(dtype)):
        if line.size > 2:
            check(pick, lambda v=line: (v, source(dtype)))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["b", "h", "i", "l", "B", "H", "I", "L"])
def test_every_index_dtype(dtype: str) -> None:
    def pick(x: Any, i: Any) -> Any:
        j = i % 5
        return x[i], x[j], x[j, j], x.take(i, mode="clip"), x.take(i, 1, mode="wrap"), (x * 2)[:, j]

    for values in ([0, 3, 1, 2], [3, 2, 1, 100]):
        check(pick, lambda v=values: (source("d"), np.array(v, dtype)))
    if dtype in "bhil":
        check(pick, lambda: (source("d"), np.array([0, -1, -4, 3], dtype)))
        check(pick, lambda: (source("d"), np.array([0, -5, -4, 3], dtype)))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mode", ["raise", "wrap", "clip", "none", None])
@pytest.mark.parametrize("axis", [None, 0, 1, -1, 3, "0"])
def test_take(mode: Any, axis: Any) -> None:
    def pick(x: Any, i: Any) -> Any:
        return x.take(i, axis, mode=mode), np.take(x, i, axis, mode=mode)

    for index in (LINE, TABLE, TABLE.T, np.array([7, -7, 100]), [2, 0], 1, np.array(2), [True]):
        for order in one_compiled("CFT"):
            check(pick, lambda i=index, o=order: (source("d", o), i))


def test_take_with_out() -> None:
    def into(x: Any, i: Any, out: Any) -> Any:
        result = (x + 1).take(i, 0, out=out)
        return result is out, np.take(x, i, 0, out, "wrap") is out

    for out in (np.zeros((5, 5, 6)), np.zeros((5, 5, 6), "f"), np.zeros((5, 5)), np.zeros(3)):
        check(into, lambda o=out: (source("d"), LINE, o.copy()))


def test_out_may_be_the_source() -> None:
    def turn(x: Any, i: Any) -> Any:
        np.take(x, i, out=x)
        return x

    check(turn, lambda: (np.arange(5.0), LINE))


def test_flat() -> None:
    def pick(x: Any) -> Any:
        return x.flat[LINE], (x * 2).flat[TABLE], x.T.flat[LINE], x.flat[[3, 1]]

    def outside(x: Any) -> Any:
        return x.flat[np.array([0, 9999])]

    check(pick, lambda: (source("d"),))
    check(outside, lambda: (source("d"),))


def test_computed_indices() -> None:
    def pick(x: Any, i: Any) -> Any:
        j = (i * i + 3) % 4
        k = np.minimum(i, 3)
        return x[j] + x[k][:, 0], x[j, k] * 2, np.where(j > k, x[:, j, 0][0], -1.0), x[i * 50]

    check(pick, lambda: (source("d"), np.array([0, 1, 2, 3, 4])))


def test_reads_what_was_there() -> None:
    """A later write to the source or to the indices does not reach what was picked before."""

    def write(x: Any, i: Any) -> Any:
        y = x * 2
        a = y[i]
        y[0] = 100
        b = y[i]
        i[...] = 0
        c = y[i]
        y += b.sum()
        np.asarray(x)[...] = -1
        return a, b, c, y

    for n in (5, 50_000):
        index = np.arange(n) * 3 % 4
        check(write, lambda i=index: (source("d"), i.copy()))


def test_reductions_and_rows() -> None:
    def mix(x: Any, i: Any) -> Any:
        rows = x[i]
        mean = rows.mean(axis=1, keepdims=True)
        return rows - mean, x[:, i].sum(axis=0), x[i].max(), (x.sum(axis=1))[i] * x[i].sum(axis=1)

    check(mix, lambda: (source("i").reshape(20, 6).astype("d"), np.array([0, 3, 3, 1, -1])))


@pytest.mark.pending
def test_one_kernel() -> None:
    """A gather is a load of the kernel that uses it, its indices computed in the same one."""
    if npaccel.config.backend == "numpy":
        pytest.skip("no kernels")
    x = npaccel.asarray(np.arange(100_000.0))
    i = npaccel.asarray(np.arange(300_000))
    npaccel.evaluate()
    before = npaccel.stats()
    y = x.take(i * 7, mode="wrap") * 2 + 1
    npaccel.evaluate(y)
    after = npaccel.stats()
    assert after["kernels"] - before["kernels"] == 1
    assert after["fallbacks"] == before["fallbacks"]
    assert np.asarray(y[:3]).tolist() == [1.0, 15.0, 29.0]


@pytest.mark.pending
def test_pending_indices_are_checked() -> None:
    x = npaccel.asarray(np.arange(10.0))
    i = npaccel.asarray(np.arange(200_000))
    with pytest.raises(IndexError, match="index 10 is out of bounds for axis 0 with size 10"):
        x[i % 11]
    assert x[i % 10].sum() == 900_000.0


def test_bounds_of_known_indices() -> None:
    for dtype in ("b", "i", "l", "I", "L"):
        line = np.arange(100, dtype=dtype)
        for index in (line, line[::-3], np.stack([line, line]).T, line.reshape(4, 25)[:, ::2]):
            assert _native.index_bounds(index, 100) == 0
            assert _native.index_bounds(index, int(index.max())) == 2
    for dtype in ("b", "i", "l"):
        assert _native.index_bounds(np.array([3, -4], dtype), 4) == 1
        assert _native.index_bounds(np.array([3, -5], dtype), 4) == 2
        assert _native.index_bounds(np.array([np.iinfo(dtype).min], dtype), 4) == 2
        assert _native.index_bounds(np.array([np.iinfo(dtype).max], dtype), 4) == 2
    assert _native.index_bounds(np.array([2**63], "L"), 4) == 2
    assert _native.index_bounds(np.array([1.0]), 4) == -1


@pytest.mark.pending
def test_table_by_large_indices() -> None:
    """A small table is looked up by many indices: the result is large."""
    table = WRAPPED.ours(np.arange(256, dtype="f"))
    image = np.arange(100_000).astype("B")
    result = table[image]
    assert type(result) is type(table)
    assert np.array_equal(np.asarray(result), np.arange(256, dtype="f")[image])


@pytest.mark.pending
def test_little_from_what_is_computed_is_numpys() -> None:
    """Below some multiple of the threshold NumPy is as fast; large results are ours even so."""
    npaccel.config.threshold = 1 << 18
    x, i = npaccel.asarray(np.arange(50_000.0)), npaccel.asarray(np.arange(50_000) * 7 % 50_000)
    rows = npaccel.asarray(np.arange(200_000.0).reshape(100, 2000))
    before = npaccel.stats()["requests"]
    few, many, picked = x[[3, -1]], x[i], rows[i[:50] % 100]
    assert npaccel.stats()["requests"] == before
    assert (type(few), type(many), type(picked)) == (np.ndarray, npaccel.Array, npaccel.Array)
    assert few.tolist() == [3.0, 49_999.0]
    assert np.array_equal(np.asarray(many), np.asarray(i, dtype="d"))
    pending = x * 2
    before = npaccel.stats()["requests"]
    assert pending[i].sum() == 2 * many.sum()
    assert npaccel.stats()["requests"] > before
    with pytest.raises(IndexError, match="index 50000 is out of bounds for axis 0 with size 50000"):
        x[[50_000]]


ORDERS = list(itertools.permutations(range(3)))
TURNED: dict[str, Callable[[Any], Any]] = {
    "one": lambda b: (b, 0),
    "last": lambda b: (0, b),
    "new axis": lambda b: (0, None, b),
    "whole axis of one": lambda b: (b, slice(1)),
    "rows": lambda b: b,
    "two": lambda b: (b, b),
    "two of other orders": lambda b: (b, np.ascontiguousarray(b)),
    "broadcast": lambda b: (b, np.arange(b.shape[-1])),
}


@pytest.mark.parametrize("axes", ORDERS)
@pytest.mark.parametrize("name", TURNED)
def test_memory_order_is_that_of_the_indices(name: str, axes: Any) -> None:
    index = (np.arange(24) % 3).reshape(2, 3, 4).transpose(axes)
    check(lambda x: (x + x)[TURNED[name](index)], lambda: (np.arange(35.0).reshape(5, 7),))


@pytest.mark.parametrize("dtype", [np.intp, "i4"])
@pytest.mark.parametrize("axes", ORDERS)
def test_an_axis_of_one_element_lies_as_numpys_where_an_index_picks_of_a_vector(
    axes: Any, dtype: Any
) -> None:
    index, vector = (np.arange(8) % 3).astype(dtype).reshape(4, 1, 2), np.arange(35.0)
    index = index.transpose(axes)
    with npaccel.accelerate(min_size=0):
        picked = vector[index]
    assert picked.strides == vector[index].strides


def test_indices_in_fortran_order_give_memory_of_its_own() -> None:
    index = np.asfortranarray(TABLE)
    with npaccel.accelerate(min_size=0):
        picked = np.arange(10).reshape(-1, 1)[index, 0]
        assert picked.flags.f_contiguous and picked.flags.owndata


def in_place(k: int, n: int, dtype: str = "i8") -> np.ndarray[Any, Any]:
    return np.random.default_rng(k).integers(0, 5, n).astype(dtype)


MANY: dict[str, Callable[[int], Any]] = {
    "lines": lambda n: (in_place(0, n), in_place(1, n)),
    "three lines": lambda n: (in_place(0, n), in_place(1, n, "i4"), in_place(2, n, "u1")),
    "columns": lambda n: tuple(in_place(0, 2 * n).reshape(n, 2).T),
    "below zero": lambda n: (in_place(0, n) - 5, in_place(1, n) - 4),
    "backwards": lambda n: (in_place(0, n)[::-1], in_place(1, n)),
    "tables": lambda n: (in_place(0, n).reshape(-1, 50), in_place(1, n).reshape(-1, 50)),
    "turned": lambda n: (in_place(0, n).reshape(-1, 50).T, in_place(1, n).reshape(-1, 50).T),
    "rows and columns": lambda n: (in_place(0, n // 40)[:, None], in_place(1, 40)),
    "short rows": lambda n: (in_place(0, n // 3)[:, None], in_place(1, 3)),
    "one": lambda n: (in_place(0, n), 2),
    "unsigned": lambda n: (in_place(0, n, "u8"), in_place(1, n)),
    "part": lambda n: (in_place(0, n), slice(1, 3), in_place(1, n)),
    "outside": lambda n: (in_place(0, n), in_place(1, n) + (np.arange(n) == n - 1) * 9),
    "do not fit": lambda n: (in_place(0, n), in_place(1, n - 1)),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "f8", "c16", ">f8", "S3"])
def test_many_elements_by_several_indices(name: str, dtype: str) -> None:
    """At once, as NumPy's iterator picks them and lays them out; and put back."""

    def program(x: Any, key: Any) -> Any:
        picked = x[key]
        x[key] = picked
        return picked, x

    for n in (4000, 40_000):
        key = MANY[name](n)
        for x in (source(dtype), source(dtype, "F"), source(dtype).repeat(2, 0)[::2]):
            full = np.concatenate([x] * 2)[:6]
            with npaccel.config(threshold=1 << 18):  # from there on they are recorded
                same(program, full, key)
                same(program, full.repeat(3, 1)[1:, 1::3, ::2], key)
            same(program, full, key)
