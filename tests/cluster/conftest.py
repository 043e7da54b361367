"""Every array in these tests is deferred, however small; clusters that a file's tests share."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from fixtures import defer_everything, deferred, setting

from npaccel import Cluster, _native

sys.path.insert(0, str(Path(__file__).parent))
__all__ = ["defer_everything", "deferred", "setting"]


@pytest.fixture(scope="module")
def opened() -> Iterator[Callable[[int], Cluster]]:
    """A cluster of so many workers, one for all tests: to start one takes seconds."""
    if not _native.guarded():
        pytest.skip("nothing can be hidden")
    with ExitStack() as stack:
        yield functools.cache(lambda workers: stack.enter_context(Cluster(workers)))


@pytest.fixture(
    scope="module", params=[2, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 4))]
)
def cluster(request: pytest.FixtureRequest, opened: Callable[[int], Cluster]) -> Cluster:
    """So many worker processes of one thread."""
    return opened(request.param)


@pytest.fixture(scope="module")
def two(opened: Callable[[int], Cluster]) -> Cluster:
    """Two of them."""
    return opened(2)
