"""Columns of a matrix that integers pick, `x[:, i]`, at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import npaccel

pytestmark = pytest.mark.usefixtures("usual_threshold")

SHAPES = ((2, 5000), (5000, 3), (300, 40), (64, 64), (100, 101), (700, 300))


def described(x: Any) -> tuple[Any, ...]:
    base = x.base.shape if isinstance(x.base, np.ndarray) else None
    return x.dtype.str, x.shape, x.strides, x.flags.num, base, x.tobytes()


@pytest.mark.parametrize("dtype", ["?", "u1", "i2", "f4", "f8", "c8", "c16", ">f8", "S3"])
@pytest.mark.parametrize("shape", SHAPES)
def test_columns_are_numpys(dtype: str, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(7)
    x = (rng.random(shape) * 100).astype(dtype)
    for n in (1, 2, 67, 300):
        i = rng.integers(-shape[1], shape[1], n)
        for a in (x, x.T.copy().T, x[:, ::-1]):
            for j in (i, i.astype("i4"), i[::-1], i.reshape(-1, 1)):
                want = a[:, j]
                with npaccel.accelerate():
                    have = a[:, j]
                if want.nbytes < 1 << 18:
                    assert described(have) == described(want)
                np.testing.assert_array_equal(have, want)
                with npaccel.accelerate():
                    np.testing.assert_array_equal(a[..., j], want)


@pytest.mark.parametrize("last", [300, -301, 2**62, -(2**63)])
def test_an_index_outside_is_told_of(last: int) -> None:
    x, i = np.zeros((700, 300)), np.append(np.arange(50), last)
    with pytest.raises(IndexError) as expected:
        x[:, i]
    with npaccel.accelerate():
        for a in (x, npaccel.asarray(x)):
            with pytest.raises(IndexError) as found:
                a[:, i].sum()
            assert str(found.value) == str(expected.value)


def test_of_arrays_of_ours_and_of_what_waits() -> None:
    x = np.random.default_rng(3).random((400, 300))
    i = np.random.default_rng(4).integers(0, 300, 90)
    with npaccel.accelerate():
        ours = npaccel.asarray(x)
        waits = ours * 2
        waiting = npaccel.asarray(np.arange(300)) % 90
        found = [ours[:, i], waits[:, i], x[:, waiting], (x * 3)[:, i]]
        found[0][0, 0] = -1.0  # it is no view
        assert ours[0, i[0]] == x[0, i[0]]
    found[0][0, 0] = x[0, i[0]]
    wanted = [x[:, i], (x * 2)[:, i], x[:, np.arange(300) % 90], (x * 3)[:, i]]
    for have, want in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(have, want)
