"""NumPy programs, many times faster, unchanged, with the same results."""

from npaccel.api import (
    accelerate,
    asarray,
    backend,
    config,
    devices,
    evaluate,
    explain,
    macro,
    scalar,
    stats,
)
from npaccel.dispatch.array import Array

__all__ = [
    "Array",
    "accelerate",
    "asarray",
    "backend",
    "config",
    "devices",
    "evaluate",
    "explain",
    "macro",
    "scalar",
    "stats",
]
