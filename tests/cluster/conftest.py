"""The same fixtures as for the runtime."""

import sys
from importlib import util
from pathlib import Path

_PLACE = Path(__file__).parent.parent / "runtime" / "conftest.py"
sys.path.insert(0, str(_PLACE.parent))
sys.path.insert(0, str(Path(__file__).parent))
_spec = util.spec_from_file_location("runtime_conftest", _PLACE)
_module = util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
defer_everything, deferred = _module.defer_everything, _module.deferred
setting = _module.setting
