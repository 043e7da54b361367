"""Run by the build: object code of the primitives, and a C table of them, for one level.

    python ship_primitives.py PACKAGE MACHINE LEVEL OBJECT SOURCE

There is no compiled core yet, so npaccel's own `__init__`, which needs it, is passed by.
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path


def main(package: str, machine: str, level: str, image: str, source: str) -> None:
    """What the build calls."""
    bare = types.ModuleType("npaccel")
    bare.__path__ = [package]
    sys.modules["npaccel"] = bare
    importlib.import_module("npaccel.ir.processor").make_for(machine)
    shipped = importlib.import_module("npaccel.backends.llvm.shipped")
    code, text = shipped.build(level)
    Path(image).write_bytes(code)
    Path(source).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
