"""What the tests of macro sections share."""

from __future__ import annotations

import numpy as np
import pytest

import npaccel

__all__ = ["plain_sizes", "rand", "replayed", "same"]


@pytest.fixture(autouse=True)
def plain_sizes(setting):
    """Small results are plain here, as they are for users."""
    setting("threshold", 1 << 18)
    yield
    npaccel.macro.clear()


def same(actual, expected):
    """Equal values, types, dtypes, shapes; sums and functions within a few last places."""
    assert type(actual) is type(expected)
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            same(one, other)
    elif isinstance(expected, dict):
        assert list(actual) == list(expected)
        same(list(actual.values()), list(expected.values()))
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
        if isinstance(expected, np.ndarray):
            assert actual.strides == expected.strides
        np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-12)
    else:
        assert actual == expected


def replayed(section, *calls):
    """Each call gives what the plain function gives; all but the first are replays."""
    before = section.stats()
    for args in calls:
        same(section(*args), section.__wrapped__(*args))
    after = section.stats()
    assert after["bodies"] == before["bodies"], after["reasons"]
    return after


def rand(*shape, seed=0):
    return np.random.default_rng(seed).random(shape)
