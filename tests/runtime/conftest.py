"""Every array in these tests is deferred, however small.

TEST_SECTIONS=opencl (or c) runs those of macro sections, macros/, on that backend.
"""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import npaccel
from npaccel import _native
from npaccel.runtime.helper import helper

sys.path.insert(0, str(Path(__file__).parent))
from launches import launches
from mutants import mutate
from tiering import adaptive

__all__ = ["adaptive", "launches", "mutate"]
BACKEND = os.environ.get("TEST_SECTIONS", "auto")


@pytest.fixture(autouse=True)
def defer_everything() -> Iterator[None]:
    before = npaccel.config.threshold
    npaccel.config.threshold = 0
    yield
    npaccel.evaluate()
    npaccel.config.threshold = before


@pytest.fixture
def setting() -> Iterator:
    """Change a setting for the length of one test."""
    before: dict[str, object] = {}

    def change(name: str, value: object) -> None:
        before.setdefault(name, getattr(npaccel.config, name))
        setattr(npaccel.config, name, value)

    yield change
    for name, value in before.items():
        setattr(npaccel.config, name, value)


@pytest.fixture
def deferred(request, setting) -> None:
    """For tests of what is pending and compiled, whatever the environment has set."""
    host_only = "adaptive" in request.fixturenames  # devices' code does not come in tiers
    backend = "auto" if host_only else BACKEND
    for name, value in (("guard", "on"), ("backend", backend), ("check", "off")):
        setting(name, value)
    if not _native.guarded():
        pytest.skip("nothing can be pending: this process has no guarded memory")


@pytest.fixture
def helper_of(monkeypatch, tmp_path: Path) -> Callable[[str], None]:
    """Helpers that are started from now on run this code before they serve."""

    def change(code: str) -> None:
        script = tmp_path / "start.py"
        script.write_text(
            f"import runpy\nfacts = runpy.run_path({helper.SCRIPT!r})['prepare']()\n{code}\n"
            "from npaccel.runtime.helper.worker import main; main(*facts)\n"
        )
        monkeypatch.setattr(helper, "SCRIPT", str(script))

    return change
