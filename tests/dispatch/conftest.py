"""Every array in these tests is deferred, however small."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fixtures import defer_everything

import npaccel
from npaccel import _native

from .differential import tiering

__all__ = ["defer_everything"]


@pytest.fixture(params=[1, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """The number of threads: a test that asks for it runs with each.

    A test has other numbers with `pytest.mark.parametrize("threads", [...], indirect=True)`.
    """
    before = npaccel.config.threads
    npaccel.config.threads = request.param
    yield request.param
    npaccel.config.threads = before


@pytest.fixture(autouse=True)
def nobody_has_looked() -> None:
    """Which results appear at once does not hang on the tests before."""
    _native.forget_looks()


@pytest.fixture
def usual_threshold(defer_everything: None) -> None:
    """What is deferred is what a user has deferred; `defer_everything` restores the threshold."""
    npaccel.config.threshold = 1 << 18


@pytest.fixture
def uncompiled() -> Iterator[None]:
    """What is recorded runs block by block: for tests of what becomes of calls and operands.

    TEST_COMPILED=1 has it compiled; `make test-all` does so.
    """
    with npaccel.config(tiering=tiering(False)):
        yield


@pytest.fixture
def block() -> Iterator[None]:
    """The test runs in a block of `accelerate`."""
    with npaccel.accelerate():
        yield


@pytest.fixture(params=["ours", "NumPy's"])
def whose_memory(request: pytest.FixtureRequest) -> Iterator[None]:
    """Whose memory the arrays of a program lie in."""
    _native.memory(request.param == "ours")
    yield
    _native.memory(True)
