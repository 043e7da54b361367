"""Every array in these tests is deferred, however small."""

import sys
from pathlib import Path

from fixtures import defer_everything, deferred, setting

sys.path.insert(0, str(Path(__file__).parent))
__all__ = ["defer_everything", "deferred", "setting"]
