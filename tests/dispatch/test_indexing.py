"""Subscripts: basic ones are views, others are NumPy's on evaluated memory."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native

from .differential import check, one_compiled
from .tried import shows

KEYS: dict[str, Any] = {
    "integer": 1,
    "negative": -1,
    "numpy integer": np.int8(2),
    "full": (1, 2),
    "full array integer": (np.array(1), 2),
    "array integer": np.array(1),
    "array integer of eight bits": np.array(-2, "b"),
    "array integer without sign": np.array(2, "Q"),
    "array integer and slice": (np.array(-1), slice(None, None, 2)),
    "slice and array integer": (slice(None, None, -1), np.array(3, "H")),
    "ellipsis and array integer": (..., np.array(1)),
    "array integer and new axis": (None, np.array(1), ...),
    "full array integers and ellipsis": (np.array(1), np.array(2), ...),
    "array integer and list": (np.array(1), [0, 2]),
    "array integer out of range": (slice(None), np.array(5)),
    "array integer too far back": np.array(-5),
    "array float": np.array(1.0),
    "slice": slice(1, 3),
    "steps": (slice(None, None, -2), slice(4, 0, -1)),
    "ellipsis": ...,
    "ellipsis and integer": (..., 1),
    "full and ellipsis": (1, 2, ...),
    "new axis": (None, slice(None), None),
    "empty tuple": (),
    "list": [0, 2],
    "lists": ([0, 2], [1, 1]),
    "list and slice": ([0, 2], slice(1, 3)),
    "empty list": [],
    "integers": np.array([[0, 1], [2, 3]]),
    "bool": True,
    "no": np.array(False),
    "mask of rows": np.array([True, False, True, False]),
    "row list of bools": [True, False, True, False],
    "mask": np.arange(20).reshape(4, 5) % 3 == 0,
    "mask of wrong shape": np.array([True, False]),
    "out of range": 9,
    "out of range in a list": [0, 9],
    "too many": (0, 0, 0),
    "text": "name",
    "float": 1.0,
    "nothing": slice(2, 2),
}
VALUES: dict[str, Any] = {
    "integer": 7,
    "float": 2.5,
    "numpy scalar": np.float32(3.5),
    "complex": 1j,
    "nan": float("nan"),
    "large": 10**30,
    "text": "no",
    "list": [1],
    "array": np.array([8]),
    "array of complex": np.array([2j]),
    "array that does not fit": np.arange(7),
    "none": None,
}


@pytest.mark.parametrize("name", KEYS)
def test_get(name: str) -> None:
    for dtype in ("d", "l", "?"):
        check(lambda x: x[KEYS[name]], lambda d=dtype: (block(d),))
        check(lambda x: x.T[::-1][KEYS[name]], lambda d=dtype: (block(d),))


@pytest.mark.parametrize("name", KEYS)
def test_set(name: str) -> None:
    def assign(x: Any, value: Any) -> Any:
        before = x + x
        x[KEYS[name]] = value
        return before, x + x

    for dtype in one_compiled(("d", "l", "b", "?", "D")):
        for value in VALUES.values():
            check(assign, lambda d=dtype, v=value: (block(d), v))


def block(dtype: str) -> np.ndarray[Any, Any]:
    return (np.arange(20) * 7 % 11).astype(dtype).reshape(4, 5)


def masked(x: Any) -> Any:
    y = x * 2
    y[y > 10] = 0
    y[y[:, 0] > 3] = -1
    y[x == 2] += 5
    return y, y.sum()


def gather(x: Any) -> Any:
    order = np.argsort(x[:, 0])
    return x[order] * 2, x[order, ::2], x[x.argmax(axis=0), np.arange(5)]


def aliases(x: Any) -> Any:
    row = x[1]
    x[0] = row
    row[...] = 5
    x[:, 1:] = x[:, :-1]
    x[::-1] = x
    return x, row


def delete_item(x: Any) -> Any:
    del x[0]


@pytest.mark.parametrize("program", [masked, gather, aliases, delete_item])
def test_program(program: Any) -> None:
    for dtype in ("d", "l"):
        check(program, lambda d=dtype: (block(d),))


def test_fields() -> None:
    record = np.zeros(4, dtype=[("a", "f8"), ("b", "i4")])

    def use(x: Any) -> Any:
        x["a"] = 2.5
        x["b"] += 3
        return x["a"] * 2, x[1], x[["b"]]

    check(use, lambda: (record.copy(),), strides=False)


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.98, 1.0])
@pytest.mark.parametrize("dtype", ["?", "i2", "f4", "f8", "c8", "c16"])
def test_what_a_mask_picks(dtype: str, share: float) -> None:
    rng = np.random.default_rng(4)
    for shape, covered in (((1003,), 1), ((31, 7), 2), ((64, 3), 1), ((5, 6, 2), 2), ((16, 0), 1)):
        x = rng.integers(0, 9, shape).astype(dtype)
        mask = rng.random(shape[:covered]) < share
        mask.flat[:8] = share > 0
        for source in (x, x[::-1], np.asfortranarray(x)):
            want = source[mask]
            have = npaccel.asarray(source)[npaccel.asarray(mask)]
            assert have.dtype == want.dtype and have.strides == want.strides
            np.testing.assert_array_equal(np.asarray(have), want)
            kept = have.copy()
            have[...] = 1  # its own memory
            np.testing.assert_array_equal(npaccel.asarray(source)[mask], kept)


def test_masks_of_odd_bytes_pick_too() -> None:
    mask = (np.arange(100, dtype="u1") % 3).view("?")  # 2 is true as well
    np.testing.assert_array_equal(npaccel.asarray(np.arange(100.0))[mask], np.arange(100.0)[mask])
    with pytest.raises(IndexError, match="boolean index did not match"):
        npaccel.asarray(np.arange(100.0))[mask[1:]]


def test_a_few_elements_are_written_at_once_where_nothing_is_pending() -> None:
    npaccel.config.threshold = 4096  # the fixture restores it
    x = npaccel.asarray(np.arange(10_000.0)) * 1
    npaccel.evaluate(x)
    npaccel.stats(reset=True)
    for k in range(20):
        x[k : k + 1] = x[k + 1 : k + 2] * 2
    assert npaccel.stats()["requests"] == 0
    before = x + 0
    x[3:4] = -1.0
    np.testing.assert_array_equal(before[:5], [2.0, 4.0, 6.0, 8.0, 10.0])
    np.testing.assert_array_equal(x[:5], [2.0, 4.0, 6.0, -1.0, 10.0])


@pytest.mark.pending
@pytest.mark.parametrize("wrap", [npaccel.asarray, np.asarray])
def test_in_place_through_a_subscript_is_one_operation(wrap: Any) -> None:
    """Its end, `a[key] = a[key]`, moves nothing."""
    with npaccel.accelerate(min_size=0):
        a = wrap(np.arange(24.0).reshape(4, 6))
        npaccel.stats(reset=True)
        a[1:, ::2] += 0.5
        assert npaccel.stats()["requests"] == 1
        a[::-1] = a
        a[0] = a[0, ::-1]
        a[1:] = a[1:].view(np.int64)
    expected = np.arange(24.0).reshape(4, 6)
    expected[1:, ::2] += 0.5
    expected[::-1] = expected
    expected[0] = expected[0, ::-1]
    expected[1:] = expected[1:].view(np.int64)
    assert np.array_equal(a, expected)


def test_what_is_read_only_stays_so_when_it_is_assigned_itself() -> None:
    with npaccel.accelerate(min_size=0):
        a = npaccel.asarray(np.arange(6.0))
        a.flags.writeable = False
        with pytest.raises(ValueError, match="assignment destination is read-only"):
            a[1:] = a[1:]


@pytest.mark.parametrize("size", [3, 300_000])
def test_what_is_read_only_says_so_whatever_the_subscript(size: int) -> None:
    for key in ((0, 0, 0), size, (..., ...), slice(0.5), [size], np.ones(size + 1, bool), "a"):
        with npaccel.accelerate(min_size=0):
            for x in (np.arange(2.0 * size), npaccel.asarray(np.arange(2.0 * size))):
                rows = (x * 2).reshape(size, 2)
                rows.flags.writeable = False
                for value in (1.0, "z", np.ones(7), x):
                    with pytest.raises(ValueError, match="assignment destination is read-only"):
                        rows[key] = value  # type: ignore[index]


@pytest.mark.parametrize("dtype", ["?", "i2", "f4", "f8", "c16"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 1.0])
def test_values_put_where_a_mask_says(dtype: str, share: float) -> None:
    rng = np.random.default_rng(5)
    for shape, covered in [((1000,), 1), ((7,), 1), ((40, 25), 2), ((40, 25), 1), ((40, 3), 1)]:
        source = (rng.random(shape) * 100).astype(dtype)
        mask = rng.random(shape[:covered]) < share
        values = (rng.random((int(mask.sum()), *shape[covered:])) * 100).astype(dtype)
        want = source.copy()
        want[mask] = values
        for wrap in (npaccel.asarray, np.asarray):
            have = npaccel.asarray(source.copy())
            have[wrap(mask)] = wrap(values)
            np.testing.assert_array_equal(have, want)
            have[wrap(mask)] += wrap(values)
            np.testing.assert_array_equal(have, _added(want, mask, values))


def _added(x: Any, mask: Any, values: Any) -> Any:
    x = x.copy()
    x[mask] += values
    return x


VIEWS: dict[str, Callable[[Any], Any]] = {
    "inner": lambda x: x[1:-1, 1:-1],
    "turned": lambda x: x.T,
    "backwards": lambda x: x[::-1, ::-2],
    "column": lambda x: x[:, 1],
    "apart": lambda x: x[::2, ::3],
    "fortran": lambda x: x.copy(order="F"),
    "three": lambda x: x.reshape(-1, 5, 8)[1:, 1:, :-1],
    "rows": lambda x: x[::2],
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["?", "i2", "f4", "f8", "c16", ">f8", "S3"])
@pytest.mark.parametrize("view", VIEWS)
def test_masks_of_views(view: str, dtype: str) -> None:
    """Of what lies apart, by masks that do, at once."""

    def program(x: Any, mask: Any, other: Any) -> Any:
        shown = VIEWS[view](x)
        by = VIEWS[view](mask)
        covering = by if view != "rows" else by[:, 0]  # it picks whole rows
        first = shown[covering]
        shown[covering] = shown[covering][::-1].copy()
        shown[VIEWS[view](other)] = shown.flat[3]
        return first, shown[covering], x

    rng = np.random.default_rng(7)
    for shape in [(12, 40), (120, 360)]:
        x = (rng.random(shape) * 90).astype("i2").astype(dtype)
        for share in (0.0, 0.3, 1.0):
            mask = rng.random(x.shape) < share
            check(program, lambda x=x, mask=mask: (x.copy(), mask, x == x[0, 0]))


@pytest.mark.parametrize("dtype", ["i2", "f8", "c16", ">f8"])
def test_masks_beside_integers(dtype: str) -> None:
    def program(x: Any, m: Any, k: int) -> Any:
        picked = x[m, k]
        x[m, k] = 20 - picked
        x[m, -1] *= 2
        x[2, x[2] > 30] = x[2, x[2] > 30][::-1]
        return picked, x

    def cubes(x: Any, m: Any, k: int) -> Any:
        cube = x.reshape(-1, 5, 6)
        cube[1, :, :][m[:5], k] = cube[1, m[:5], k] - 1
        cube[m[: len(cube)], k, 1] += cube[m[: len(cube)], 1, k]
        return cube[k, cube[0] > 20], x

    rng = np.random.default_rng(3)
    for rows in (40, 4000):
        x, mask = (rng.random((rows, 6)) * 90).astype("i2").astype(dtype), rng.random(rows) < 0.4
        for k in (0, 3, -2, 7):
            check(program, lambda x=x, mask=mask, k=k: (x.copy(), mask, k))
            check(cubes, lambda x=x, mask=mask, k=k: (x.copy(), mask, k))


ROWS: dict[str, Any] = {
    "list": [7, 0, 9],
    "tuple": (1, 2, 3),
    "truth values": [True, False, True],
    "floats": [0.5, -1.0, 2.5],
    "large": [1, 300, 2],
    "nan": [1.0, float("nan"), 2.0],
    "complex": [1j, 2, 3],
    "nested": [[1, 2, 3]],
    "short": [1, 2],
    "of one": [5],
    "text": ["1", "2", "3"],
    "empty": [],
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("dtype", ["?", "u1", "i4", "f4", "f8", "c16", ">f8"])
def test_a_row_for_all_that_a_mask_picks(name: str, dtype: str) -> None:
    def program(x: Any, mask: Any) -> Any:
        y = x + x
        y[mask] = ROWS[name]
        y[mask, 1] = y[0, 0]
        return y

    def arrays(x: Any, mask: Any, row: Any) -> Any:
        x[mask] = row
        x[~mask] = row[None]
        x[mask] = x[3]
        x[mask] = x[:1]
        x[mask] = row[1:2]
        x[mask] = x.mean(0)
        x.reshape(-1, 4, 3)[mask[:10]] = row
        return x

    def wrong(x: Any, mask: Any, row: Any) -> Any:
        x[mask] = row[:2]

    rng = np.random.default_rng(3)
    x = (rng.random((40, 3)) * 2).astype(dtype)
    for share in (0.0, 0.4, 1.0):
        mask = rng.random(40) < share
        check(program, lambda mask=mask: (x.copy(), mask))
        if name == "list":
            row = np.array(ROWS[name]).astype(dtype)
            check(arrays, lambda mask=mask, row=row: (x.copy(), mask, row))
            check(arrays, lambda mask=mask, row=row: (x.copy(), mask, row.real.astype("i8")))
            check(wrong, lambda mask=mask, row=row: (x.copy(), mask, row))


def test_a_mask_that_shows_one_row_over_and_over() -> None:
    def program(x: Any, row: Any) -> Any:
        mask = np.broadcast_to(row, x.shape)
        x[mask] = x[mask] * 2
        return x, x[:, ::-1][mask[:, ::-1]]

    check(program, lambda: (np.arange(6000.0).reshape(60, 100), np.arange(100) % 3 == 0))


def test_what_shows_an_element_twice_is_put_by_numpy() -> None:
    def program(x: Any) -> Any:
        windows = np.lib.stride_tricks.sliding_window_view(x, 7, writeable=True)
        windows[windows > 40] = -np.arange(float((windows > 40).sum()))
        return x

    check(program, lambda: (np.arange(90.0),))


def test_what_can_not_be_put_at_once_is_numpys() -> None:
    def overlapping(x: Any) -> Any:
        x[x > 20] = x[: (x > 20).sum()]
        return x

    def own_mask(x: Any) -> Any:
        truth = x > 20
        truth[truth] = truth[truth[::-1]][: truth.sum()]
        return truth

    def wrong_number(x: Any) -> Any:
        x[x > 20] = np.zeros(3)

    def one_for_all(x: Any) -> Any:
        x[x > 20] = np.array([5.0])
        return x

    def other_dtype(x: Any) -> Any:
        x[x > 20] = np.arange((x > 20).sum())
        return x

    def read_only(x: Any) -> Any:
        x.flags.writeable = False
        x[x > 20] = x[x > 20]

    def not_in_order(x: Any) -> Any:
        x[::-2][x[::-2] > 20] = x[::-2][x[::-2] > 20] * 2
        return x

    for program in (overlapping, wrong_number, one_for_all, other_dtype, read_only, not_in_order):
        check(program, lambda: (np.arange(100.0),))
    check(own_mask, lambda: (np.arange(100.0),))


def test_no_more_is_put_than_was_counted() -> None:
    mask = (np.arange(100, dtype="u1") % 3).view("?")  # 2 is true as well
    want, have = np.zeros(100), npaccel.asarray(np.zeros(100))
    want[mask] = have[mask] = np.arange(66.0)
    np.testing.assert_array_equal(have, want)


def fill_part(x: Any, value: Any) -> Any:
    x[1:] = value
    return x


@pytest.mark.parametrize("dtype", ["b", "h", "i", "l", "B", "f"])
def test_scalars_of_numpy_have_to_fit(dtype: str) -> None:
    """NumPy stores its own scalars in signed integers by way of Python's int, which may raise."""
    values = [np.uint8(200), np.int16(-129), np.int64(2**40), np.uint64(2**63), np.float16(300)]
    values += [np.float64(300.5), np.float64(-128.9), np.float32(2.0**31), np.bool_(True)]
    values += [np.float64(np.nan), np.float16(np.inf), np.complex64(1j)]
    for value in values:
        check(fill_part, lambda v=value: (np.ones(6, dtype), v))


PICKED: dict[str, Any] = {
    "last": (..., np.array(2)),
    "first": np.array(1),
    "middle": (slice(None, None, -1), np.array(-3, "i"), slice(1, None)),
    "new axis": (None, np.array(0), slice(None), slice(None, None, 2)),
}


@pytest.mark.pending
@pytest.mark.parametrize("name", PICKED)
@pytest.mark.parametrize("way", ["wrapped", "block"])
def test_arrays_without_dimensions_pick_as_integers_do(name: str, way: str) -> None:
    """But what they pick is a copy, and recorded; an assignment goes to the array."""
    key, source = PICKED[name], np.arange(60.0).reshape(4, 5, 3)
    like, want = source.copy(), source[key]
    npaccel.evaluate()
    npaccel.stats(reset=True)
    block = npaccel.accelerate() if way == "block" else contextlib.nullcontext()
    x = npaccel.asarray(source) if way == "wrapped" else source
    with block:
        picked = x[key]
        x[key] = -1.0
        x[key] += 0.5
        counts = npaccel.stats()
        assert counts["fallbacks"] == 0 and counts["requests"] > 2, counts
    assert type(picked) is npaccel.Array and picked.flags.owndata
    assert (picked.shape, picked.strides) == (want.shape, want.strides)
    assert np.array_equal(picked, like[key])
    like[key] = -0.5
    assert np.array_equal(source, like)


def test_an_array_without_dimensions_may_wait() -> None:
    x = npaccel.asarray(np.arange(20).reshape(4, 5)) * 2
    place = npaccel.asarray(np.array(2))
    assert np.array_equal(x[place], [20, 22, 24, 26, 28]) and x[place, place] == 24
    x[:, place] = 1
    assert np.array_equal(np.asarray(x)[:, 2], [1, 1, 1, 1])


def hidden(array: Any, values: Any) -> int:
    """Its address; it has these values, which nobody has looked at."""
    _native.forget_looks()
    address = int(array.ctypes.data)
    array[:] = values
    array[1:-1] = values[1:-1]
    npaccel.evaluate()
    return address


@pytest.mark.pending
def test_a_few_elements_of_what_is_hidden_leave_it_so() -> None:
    large = np.linspace(0.0, 1.0, 100_000)
    with npaccel.accelerate():
        for z in (large * 2.0, np.zeros(100_000)):
            address = hidden(z, large * 3.0)
            z[5] = z[6] + z[-1]
            z[7] = 2
            assert not shows(address)
            assert z[5] == large[6] * 3.0 + large[-1] * 3.0 and z[7] == 2.0
            address = hidden(z, large * 4.0)
            assert [z[i] for i in range(100)] == [large[i] * 4.0 for i in range(100)]
            assert shows(address)  # each costs less so


@pytest.mark.pending
def test_items_and_lists_of_a_few_of_what_is_hidden_leave_it_so() -> None:
    large = np.linspace(0.0, 1.0, 100_000).reshape(250, 400)
    want = large * 3.0
    z = npaccel.asarray(large * 2.0)
    address = hidden(z, npaccel.asarray(large) * 3.0)
    found = [z.item(7), z.item(-1), z.item(3, 4), z.item((5, -6))]
    found += [*z[9, :4].tolist(), *z[::-200, ::300].T.tolist()[1], z[6, 7].item()]
    assert not shows(address)
    like = [want.item(7), want.item(-1), want.item(3, 4), want.item((5, -6))]
    like += [*want[9, :4].tolist(), *want[::-200, ::300].T.tolist()[1], want[6, 7].item()]
    assert found == like and {type(x) for x in found} == {float}
    assert z[0].tolist() == want[0].tolist() and shows(address)


@pytest.mark.pending
@pytest.mark.parametrize("dtype", ["f4", "i8", "?", "c16", "g"])
def test_items_of_what_is_hidden_are_numpys(dtype: str) -> None:
    """And its errors."""

    def item(z: Any, args: Any) -> Any:
        try:
            found = z.item(*args)
            return type(found), found
        except (TypeError, ValueError, IndexError, OverflowError) as error:
            return type(error), str(error)

    values = (np.arange(40 * 500).reshape(40, 500) % 100).astype(dtype)
    asked: Any = [(), (1,), (2, 3), ((2, -3),), (1, 2, 3), (20_000,), (-20_001,), (40, 0), (0.5,)]
    for args in (
        *asked,
        (2**70,),
        (True,),
        (np.int64(7),),
        (1, np.int64(7)),
        ((),),
        (None,),
        ("1",),
    ):
        z = npaccel.asarray(values.copy())
        hidden(z, npaccel.asarray(values) + z.dtype.type(0))
        assert item(z, args) == item(values, args)


PUT: list[Any] = [
    1,
    -1,
    True,
    2.5,
    1e300,
    np.nan,
    2**70,
    300,
    1j,
    "7",
    None,
    np.int8(3),
    np.bool_(1),
]
PUT += [np.float32(0.1), np.float64(-1e60), np.complex64(2), np.zeros(()), np.zeros(1), [1], (2, 3)]


@pytest.mark.parametrize(
    "dtype", ["f8", "f4", "f2", "i8", "i1", "u2", "?", "c8", "c16", ">f8", "g"]
)
def test_what_is_put_into_one_element(dtype: str) -> None:
    """Of memory that nobody has looked at; as in NumPy, errors and warnings too."""

    def put(z: Any, key: Any, value: Any) -> Any:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                z[key] = value
                told = "", ""
            except (TypeError, ValueError, OverflowError, IndexError) as error:
                told = type(error).__name__, str(error)
        raw = np.asarray(z).view("u1").reshape(z.size, -1)
        # The other bytes of a long double are whatever was in memory.
        content = raw[:, : 10 if dtype == "g" else None].tobytes()
        return told, [str(w.message) for w in heard], content

    values = (np.arange(300 * 200).reshape(300, 200) % 100).astype(dtype)
    for key in ((3, 4), (-1, -200), (300, 0), (0, -201), (7, np.int64(5)), (True, 1)):
        for value in PUT:
            want = put(values.copy(), key, value)
            with npaccel.accelerate(min_size=0):
                for z in (values.copy(), np.zeros(values.shape, dtype)):
                    z[:] = values
                    z[1:] = values[1:]
                    z[0, 0]
                    assert put(z, key, value) == want
