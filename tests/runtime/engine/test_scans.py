"""`accumulate` block by block: types that are not the loop's, and where a block ends."""

import numpy as np
import pytest

import npaccel

pytestmark = pytest.mark.pending
SIZES = (1, 2, 1022, 1023, 1024, 1025, 2046, 2047, 3000)  # blocks have 1,023 and one before
TYPES = ("b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8")


def _same(found, expected):
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", TYPES)
def test_sums_and_products_of_each_type(dtype):
    rng = np.random.default_rng(0)
    with npaccel.config(tiering="off", threshold=0), np.errstate(all="ignore"):
        for n in SIZES:
            whole = rng.integers(0, 2 if dtype == "b1" else 5, (2, n, 3)).astype(dtype)
            for a in (whole[0, :, 0], whole[1, ::-1, 2], whole[:, :, 1]):
                x = npaccel.asarray(a)
                for call in (np.cumsum, np.cumprod, np.maximum.accumulate):
                    if call is np.maximum.accumulate and a.ndim > 1:
                        continue
                    made, expected = call(x), call(a)
                    npaccel.evaluate(made)
                    _same(made, expected)


@pytest.mark.parametrize(
    ("given", "computed", "kept"),
    [
        ("i4", "f8", "i4"),
        ("i2", "i8", "f4"),
        ("u1", "u8", "u2"),
        ("f4", "f8", "f4"),
        ("f8", "f4", "f8"),
    ],
)
def test_a_result_of_a_third_type(given, computed, kept):
    """Also where it is what was given, and apart in memory."""
    with npaccel.config(tiering="off", threshold=0), np.errstate(all="ignore"):
        for n in SIZES:
            a = np.random.default_rng(n).integers(0, 3, n).astype(given)
            wide = np.zeros((n, 2), kept)
            x, into = npaccel.asarray(a), npaccel.asarray(wide.copy())
            np.add.accumulate(x, dtype=computed, out=into[:, 1])
            np.add.accumulate(a, dtype=computed, out=wide[:, 1])
            _same(into, wide)
            if given == kept:
                x *= 2  # which is `a`, too
                expected = np.add.accumulate(a, dtype=computed).astype(kept)
                np.add.accumulate(x, dtype=computed, out=x)
                _same(x, expected)


def test_truth_values_are_added_as_unsigned_numbers():
    a = np.arange(5000) % 3 == 0
    with npaccel.config(tiering="off", threshold=0):
        x = npaccel.asarray(a)
        for call in (np.add.reduce, np.add.accumulate):
            _same(npaccel.evaluate(call(x, dtype="u8")), call(a, dtype="u8"))
            _same(npaccel.evaluate(call(x ^ True, dtype="u8")), call(~a, dtype="u8"))
