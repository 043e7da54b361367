"""Small arrays are not recorded, as they are in the other tests of dispatch."""

import pytest

import npaccel


@pytest.fixture(autouse=True)
def defer_large_ones() -> None:
    npaccel.config.threshold = 1 << 18
