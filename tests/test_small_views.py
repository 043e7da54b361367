"""In a block, a few elements of an array of ours are shown by plain arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import npaccel


def made() -> np.ndarray:
    x = np.zeros((200, 400))
    x += 1.0
    npaccel.evaluate(x)
    return x


@pytest.mark.pending
def test_small_ones_are_plain_and_large_ones_ours() -> None:
    with npaccel.accelerate():
        x = made()
        assert type(x) is npaccel.Array
        assert type(x[:, 3]) is np.ndarray
        assert type(x[2]) is np.ndarray
        assert type(x[1:]) is npaccel.Array
        assert np.shares_memory(x[:, 3], x)
    assert type(x[:, 3]) is npaccel.Array


def test_of_pending_arrays_they_are_ours() -> None:
    with npaccel.accelerate():
        x = made() * 2
        column = x[:, 3]
        assert type(column) is npaccel.Array or not npaccel._native.guarded()
        assert column[5] == 2.0


def test_writes_through_them_wait_for_what_reads() -> None:
    with npaccel.accelerate():
        x = made()
        column = x[:, 3]
        y = x * 2
        column[:] = 7.0
        assert y[0, 3] == 2.0
        assert x[0, 3] == 7.0


def test_reads_through_them_see_what_is_pending() -> None:
    with npaccel.accelerate():
        x = made()
        column = x[:, 3]
        x += 4.0
        assert column.sum() == 5.0 * 200


def test_assigning_a_few_elements() -> None:
    with npaccel.accelerate():
        x, plain = made(), np.ones((200, 400))
        for a in (x, plain):
            a[:, 3] = np.arange(200.0)
            a[4, ::-3] = a[5, ::-3] + a[6, ::3]
            a[-1] = 3
            a[:, 5:9] = a[:, 4:8]
    assert np.array_equal(x, plain)


def test_errors_are_numpys() -> None:
    fixed = np.ones((200, 400))
    fixed.flags.writeable = False
    for key, value in (((0, 0, 0), 1.0), ((slice(None), 3), np.ones(7)), ((300, 1), 2.0)):
        seen = []
        for target in (np.ones((200, 400)), made(), fixed):
            with npaccel.accelerate():
                try:
                    target[key] = value
                except (IndexError, ValueError) as error:
                    seen.append((type(error), str(error)))
        assert len(seen) == 3
        assert seen[0] == seen[1]


KEYS = (
    3, -1, np.int64(5), (2, 7), (-1, -2), (np.int64(1), 3), slice(None, 20), (slice(1, -1), 3),
    (4, slice(None, None, -3)), (Ellipsis, 0), (None, 3), (3, None), (3, Ellipsis, None),
    (slice(5, 5), 2), (slice(150, 300), 9), (200, 0), (slice(None), 400), (1, 2, 3), slice(0, 3, 0),
    True, 1.0, "x", [1, 2], np.array(3),
)  # fmt: skip
VALUES = (
    2.5, 7, True, 1j, np.float32(0.1), np.float64(-0.0), np.int8(3), "9", None, [1.0], np.ones(1),
    np.ones(3), np.arange(400.0), np.arange(200.0), np.arange(200), np.float64("nan"), 10**400,
)  # fmt: skip


def outcome(run: Callable[[], object]) -> object:
    try:
        found = run()
    except Exception as error:
        return type(error), str(error)
    if isinstance(found, np.ndarray):
        return found.dtype, found.shape, found.strides, found.flags.writeable, found.tobytes()
    return type(found), found


def stated(how: str) -> np.ndarray:
    """An array of ours, perhaps one that something waits for or that is only to be read."""
    x = made()
    x[:] = np.arange(x.size).reshape(x.shape)
    if how != "pending":
        npaccel.evaluate(x)
    if how == "shown":
        assert x[0, 0] == 0.0
    if how == "read only":
        x.flags.writeable = False
    return x


@pytest.mark.parametrize("how", ["pending", "hidden", "shown", "read only", "part"])
def test_every_key_gives_what_numpy_gives(how: str) -> None:
    with npaccel.accelerate():
        x = stated(how)
        plain = np.arange(float(x.size)).reshape(x.shape)
        plain.flags.writeable = x.flags.writeable
        a, b = (x[20:], plain[20:]) if how == "part" else (x, plain)
        for key in KEYS:
            assert outcome(lambda key=key: a[key]) == outcome(lambda key=key: b[key]), key
        if how == "shown":
            assert a[3].base is a and a[20:][3].base is not None


@pytest.mark.parametrize("how", ["pending", "hidden", "shown", "read only", "part"])
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_every_value_is_put_as_numpy_puts_it(how: str) -> None:
    with npaccel.accelerate():
        x = stated(how)
        plain = np.arange(float(x.size)).reshape(x.shape)
        plain.flags.writeable = x.flags.writeable
        a, b = (x[20:], plain[20:]) if how == "part" else (x, plain)

        def put(target: np.ndarray, key: object, value: object) -> None:
            target[key] = value

        for key in KEYS:
            for value in VALUES:
                mine = outcome(lambda k=key, v=value: put(a, k, v))
                assert mine == outcome(lambda k=key, v=value: put(b, k, v)), (key, value)
        assert np.array_equal(x, plain, equal_nan=True)


def test_what_is_assigned_is_not_seen_by_what_was_recorded_before() -> None:
    with npaccel.accelerate():
        x = stated("shown")
        y = x * 2
        x[3, 4] = -1.0
        x[:, 5] = -1.0
        assert y[3, 4] == 2 * (3 * 400 + 4) and y[2, 5] == 2 * (2 * 400 + 5)
        copied = x.copy()
        x[0] = 5.0
        x[1, 1] = 5.0
        assert copied[0, 1] == 1.0 and copied[1, 1] == 401.0
        z = x[7] + x[8]
        x[7], x[8] = x[8], x[7]  # views: as NumPy's, both are row 8
        assert np.array_equal(x[7], x[8]) and not np.array_equal(z, x[7])


def test_overlapping_parts() -> None:
    with npaccel.accelerate():
        x, plain = stated("shown"), np.arange(80_000.0).reshape(200, 400)
        for a in (x, plain):
            a[1, 1:] = a[1, :-1]
            a[1:, 2] = a[:-1, 2]
            a[::-1, 3] = a[:, 3]
            a[4, 1:] += a[4, :-1]
        assert np.array_equal(x, plain)
