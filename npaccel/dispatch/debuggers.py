"""Whether a debugger shows a value of its own accord: what is pending then stays so."""

from __future__ import annotations

from types import FrameType
from typing import Final

__all__ = ["shows"]

# Modules, and packages of them, whose own code asks for texts: pdb and what it is made of; pydevd,
# of debugpy (VS Code and others) and of PyCharm; IPython's debugger, of notebooks, too.
DEBUGGERS: Final = (
    "bdb",
    "pdb",
    "debugpy",
    "pydevd",
    "pydevd_plugins",
    "_pydevd_bundle",
    "_pydev_bundle",
    "IPython.core.debugger",
    "IPython.terminal.debugger",
)
# They do it for whoever calls them.
FORMATTERS: Final = ("reprlib", "pprint")


def shows(frame: FrameType | None) -> bool:
    """Whether the code that asks for a text is a debugger's.

    What somebody types at a debugger's prompt runs as code of the program that is debugged, so
    `print(x)` there is not.
    """
    while frame is not None and frame.f_globals.get("__name__") in FORMATTERS:
        frame = frame.f_back
    name = "" if frame is None else str(frame.f_globals.get("__name__"))
    return any(name == own or name.startswith(f"{own}.") for own in DEBUGGERS)
