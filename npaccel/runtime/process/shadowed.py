"""Modules of a program that have the names of Python's own, such as `copy.py` or `queue.py`.

The program finds them, since its folder comes first on the path. What npaccel loads later, when the
program runs, must find Python's, and the program must go on to find its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import all_suffixes
from types import ModuleType
from typing import Final

from npaccel.later import is_later

__all__ = ["DEPENDENCIES", "load_before"]

# Not of Python, and imported later.
DEPENDENCIES: Final = frozenset({"cachetools", "llvmlite", "platformdirs", "rich"})
# Where what is loaded later lies, but for devices and clusters, which are asked for; and what in it
# is the compiling process's.
ROOMS: Final = ("runtime", "ir", "caches", "dispatch", "observe")
ELSEWHERE: Final = ("start.py", "worker.py")
# What nobody imports, and programs' folders often have.
UNUSED: Final = frozenset({"test"})


def load_before(folder: str) -> None:
    """Load what npaccel may need later, if the folder has modules by which it would be deceived.

    That takes a fifth of a second. What has the names of the folder's modules is forgotten again,
    so that the program finds its own.
    """
    found = _shadows(folder)
    if not found:
        return
    before = set(sys.modules)
    for name in _modules():
        _fix(import_module(name))
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in found:
            del sys.modules[name]


def _shadows(folder: str) -> set[str]:
    """Names of the folder's modules that Python, or a dependency, has too and nobody has loaded."""
    try:
        with os.scandir(folder or os.curdir) as entries:
            names = {_name(entry) for entry in entries}
    except OSError:
        return set()
    return (names & (sys.stdlib_module_names | DEPENDENCIES)) - sys.modules.keys() - UNUSED


def _name(entry: os.DirEntry[str]) -> str:
    """Of a module, or a package; ''."""
    name = next((entry.name.removesuffix(s) for s in all_suffixes() if entry.name.endswith(s)), "")
    package = not name and os.path.exists(os.path.join(entry.path, "__init__.py"))
    return entry.name if package else name.partition(".")[0]


def _modules() -> Iterator[str]:
    root = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    for room in ROOMS:
        for folder, _, files in os.walk(os.path.join(root, room)):
            parts = os.path.relpath(folder, root).split(os.sep)
            for file in sorted(files):
                if file.endswith(".py") and file not in ("__init__.py", *ELSEWHERE):
                    yield ".".join(("npaccel", *parts, file.removesuffix(".py")))


def _fix(module: ModuleType) -> None:
    """Put Python's modules in the place of what stands for them until they are used."""
    for name, value in list(vars(module).items()):
        if is_later(value) and not value.__name__.startswith("npaccel"):
            setattr(module, name, import_module(value.__name__))
