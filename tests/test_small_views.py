"""In a block, a few elements of an array of ours are shown by plain arrays."""

from __future__ import annotations

import numpy as np

import npaccel


def made() -> np.ndarray:
    x = np.zeros((200, 400))
    x += 1.0
    npaccel.evaluate(x)
    return x


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
