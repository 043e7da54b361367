"""Every array in these tests is deferred, however small."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import npaccel


@pytest.fixture(autouse=True)
def defer_everything() -> Iterator[None]:
    before = npaccel.config.threshold
    npaccel.config.threshold = 0
    yield
    npaccel.evaluate()
    npaccel.config.threshold = before
