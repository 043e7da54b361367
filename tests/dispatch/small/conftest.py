"""Small arrays are not recorded, as they are in the other tests of dispatch."""

from collections.abc import Iterator

import pytest

import npaccel

from .comparison import hearing


@pytest.fixture(autouse=True)
def defer_large_ones() -> None:
    npaccel.config.threshold = 1 << 18


@pytest.fixture
def heard() -> Iterator[None]:
    """For tests that compare what many calls warn of."""
    with hearing():
        yield
