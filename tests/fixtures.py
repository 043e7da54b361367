"""Fixtures of several folders, whose conftest.py imports them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import npaccel
from npaccel import _native

__all__ = ["BACKEND", "defer_everything", "deferred", "setting"]

# Where tests of macro sections run them.
BACKEND = os.environ.get("TEST_SECTIONS", "auto")


@pytest.fixture(autouse=True)
def defer_everything() -> Iterator[None]:
    """Every array is deferred, however small."""
    before = npaccel.config.threshold
    npaccel.config.threshold = 0
    yield
    npaccel.evaluate()
    npaccel.config.threshold = before


@pytest.fixture
def setting() -> Iterator[Callable[[str, Any], None]]:
    """Change a setting for the length of one test."""
    before: dict[str, Any] = {}

    def change(name: str, value: Any) -> None:
        before.setdefault(name, getattr(npaccel.config, name))
        setattr(npaccel.config, name, value)

    yield change
    for name, value in before.items():
        setattr(npaccel.config, name, value)


@pytest.fixture
def deferred(request: pytest.FixtureRequest, setting: Callable[[str, Any], None]) -> None:
    """For tests of what is pending and compiled, whatever the environment has set."""
    host_only = "adaptive" in request.fixturenames  # devices' code does not come in tiers
    backend = "auto" if host_only else BACKEND
    for name, value in (("guard", "on"), ("backend", backend), ("check", "off")):
        setting(name, value)
    if not _native.guarded():
        pytest.skip("nothing can be pending: this process has no guarded memory")
