"""Every array in these tests is deferred, however small.

TEST_SECTIONS=opencl (or c) runs those of macro sections, macros/, on that backend.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from npaccel.runtime.helper import helper

sys.path.insert(0, str(Path(__file__).parent))
from fixtures import defer_everything, deferred, setting
from launches import launches
from mutants import mutate
from tiering import adaptive

__all__ = ["adaptive", "defer_everything", "deferred", "launches", "mutate", "setting"]


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
