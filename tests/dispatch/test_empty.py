"""What has no elements needs no values: what is pending stays so, and results are NumPy's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import npaccel

Work = Callable[[np.ndarray, np.ndarray, np.ndarray], object]


def added(p: np.ndarray, q: np.ndarray, plain: np.ndarray) -> None:
    p[:, :, 1:] += q[:, :, 1:] - plain[:, :, :-1]


def set_to(value: str) -> Work:
    def work(p: np.ndarray, q: np.ndarray, plain: np.ndarray) -> None:
        p[:, :, 1:] = {"number": 2.0, "pending": q[:, :, 1:], "plain": plain[:, :, 1:]}[value]

    return work


WORK: dict[str, Work] = {
    "operator": lambda p, q, _: p[:, :, 1:] - q[:, :, :-1],
    "operator on plain": lambda p, _, plain: p[:, :, 1:] * plain[:, :, :-1],
    "operator on a number": lambda p, _q, _: p[:0] / 3,
    "ufunc": lambda p, _q, _: np.sqrt(p[:, :, 1:]),
    "out": lambda p, q, _: np.add(p[:0], q[:0], out=p[:0]),
    "comparison": lambda p, q, _: p[:0] > q[:0],
    "in place": added,
    "set to a number": set_to("number"),
    "set to pending": set_to("pending"),
    "set to plain": set_to("plain"),
    "fill": lambda p, _q, _: p[:0].fill(4),
    "sum": lambda p, _q, _: p[:, :, 1:].sum(),
    "sum along an axis": lambda p, _q, _: p[:, :, 1:].sum(axis=2),
    "method": lambda p, _q, _: p[:, 2:2].astype(np.float32),
    "where": lambda p, q, _: np.where(p[:0] > 0, 1.0, q[:0]),
    "text": lambda p, _q, _: repr(p[:0].tolist()),
}


def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    plain = np.arange(1.0, 25.0).reshape(4, 6, 1)
    return plain * 2, plain + 1, plain


@pytest.mark.pending
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", WORK)
def test_nothing_runs_for_arrays_without_elements(name: str) -> None:
    expected = arrays()
    result = WORK[name](*expected)
    plain = npaccel.asarray(expected[2].copy())
    p, q = plain * 2, plain + 1
    before = npaccel.stats()["flushes"]
    found = WORK[name](p, q, expected[2])
    assert npaccel.stats()["flushes"] == before
    if isinstance(result, np.ndarray):
        assert isinstance(found, np.ndarray)
        assert (found.shape, found.dtype) == (result.shape, result.dtype)
    else:
        assert found == result
    for mine, numpys in zip((p, q, plain), expected, strict=True):
        assert np.array_equal(mine, numpys)


def test_errors_are_numpys() -> None:
    plain = npaccel.asarray(np.ones((4, 6, 1)))
    p = plain * 2
    with pytest.raises(ValueError, match="could not be broadcast"):
        p[:0] + p[:, :2]
    with pytest.raises(ValueError, match="could not broadcast"):
        p[:0] = np.ones((3, 6, 1))
    p[:0] = 1.0
    p.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        p[:0] = 1.0
    assert np.array_equal(p, np.full((4, 6, 1), 2.0))
