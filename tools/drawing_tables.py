"""Run by the build: the numbers of ir/drawing.py, and of what it uses, as a C header.

    python drawing_tables.py PACKAGE HEADER

There is no compiled core yet, so npaccel's own `__init__`, which needs it, is passed by.
"""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path

TABLES = ("LOG_F8", "NORMAL", "NORMAL_FAR", "NORMAL_FARTHER")


def main(package: str, header: str) -> None:
    """What the build calls."""
    bare = types.ModuleType("npaccel")
    bare.__path__ = [package]
    sys.modules["npaccel"] = bare
    drawing = importlib.import_module("npaccel.ir.drawing")
    lines = ["/* Made by drawing_tables.py. */", "#include <stdint.h>"]
    for name in TABLES:
        numbers = ", ".join(x.hex() for x in getattr(drawing.c, name))
        lines.append(f"static const double {name}[] = {{{numbers}}};")
    for name in ("MULTIPLIERS", "KEY_STEPS"):
        numbers = ", ".join(map(hex, getattr(drawing, name)))
        lines.append(f"static const uint32_t {name}[] = {{{numbers}}};")
    for name in ("LN2_HIGH", "LN2_LOW", "NEAR", "FAR"):
        lines.append(f"#define {name} {getattr(drawing, name).hex()}")
    lines.append(f"enum {{ ROUNDS = {drawing.ROUNDS} }};")
    Path(header).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
