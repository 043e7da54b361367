"""Random programs whose numbers change from round to round: in blocks, and by kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from changing import differences

import npaccel
from npaccel import _native

pytestmark = [pytest.mark.pending, pytest.mark.room, pytest.mark.usefixtures("deferred")]

USUAL = 1 << 18


def way(tiering: str, threads: int, threshold: int = 0) -> Callable[[], Any]:
    """A block in which a program runs."""

    @contextlib.contextmanager
    def block() -> Iterator[None]:
        _native.trials(False)
        settings = npaccel.config(tiering=tiering, threads=threads, threshold=threshold)
        with settings, npaccel.accelerate():
            yield

    block.__qualname__ = f"{tiering} {threads}"
    return block


@pytest.mark.parametrize("seed", range(36))
def test_small_arrays(seed: int) -> None:
    assert not differences(seed, [way("eager", 2), way("off", 2)])


@pytest.mark.parametrize("seed", range(3))
def test_with_the_usual_threshold(seed: int) -> None:
    ways = [way("eager", 2, USUAL), way("off", 2, USUAL)]
    assert not differences(seed, ways, n=40_000, m=190)
