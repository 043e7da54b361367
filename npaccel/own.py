"""Python's `os` and `time` as they were when npaccel was imported.

What a program puts into these modules, as tests do for a while (`mock.patch("os.open")`, a clock
that stands still), is meant for the program: npaccel would get descriptors that are none, and
helper processes would seem to hang. So what works within a program's operations imports them from
here.
"""

from __future__ import annotations

import os
import time
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["os", "time"]


def _copy(module: ModuleType) -> ModuleType:
    copy = ModuleType(module.__name__)
    vars(copy).update(vars(module))
    return copy


if not TYPE_CHECKING:
    os, time = map(_copy, (os, time))
