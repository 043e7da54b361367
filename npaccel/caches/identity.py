"""What stored code depends on besides its source: this package and the libraries that made it.

Read from files' names, sizes and times, for loading what they define would take far longer.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from npaccel.caches.store import digest
from npaccel.own import os

__all__ = ["file_stamps", "package_identity"]

KINDS = (".py", ".so", ".pyd")


def file_stamps(folder: str) -> list[str]:
    """Name, size and time of the code files in `folder` and below, in order of name."""
    found = []
    with os.scandir(folder) as items:
        for item in sorted(items, key=lambda item: item.name):
            if item.is_dir(follow_symlinks=False):
                if item.name != "__pycache__":
                    found += [f"{item.name}/{stamp}" for stamp in file_stamps(item.path)]
            elif item.name.endswith(KINDS):
                about = item.stat()
                found.append(f"{item.name} {about.st_size} {about.st_mtime_ns}")
    return found


def package_identity(libraries: tuple[str, ...], loops: str) -> str:
    """Digest that changes with the code of this package, with one of `libraries`, or with NumPy's
    loops (ir/differences.py), which are asked what kernels have to do as they do."""
    stamps = [sys.implementation.cache_tag, f"numpy {loops}"]
    stamps += file_stamps(os.path.dirname(os.path.dirname(__file__)))
    for name in libraries:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            stamps.append(f"{name} is missing")
            continue
        stamps.append(name)
        # Where llvmlite keeps LLVM itself.
        stamps += file_stamps(os.path.join(os.path.dirname(spec.origin), "binding"))
    return digest(*stamps)
