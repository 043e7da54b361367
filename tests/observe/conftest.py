"""Every array in these tests is deferred, however small."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "runtime"))
sys.path.insert(0, str(Path(__file__).parent))
from fixtures import defer_everything, deferred, setting
from launches import launches

__all__ = ["defer_everything", "deferred", "launches", "setting"]
