"""Lets the tests of this folder, and of others that use it, import the code they share."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
