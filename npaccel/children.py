"""Child processes of a program that `npaccel run` runs: accelerated, too, however they are started.

Forked ones have everything of their parent. Those that begin with an interpreter of their own
(spawn, forkserver, loky) are sent "preparation data" before all else; what is added there opens the
block in them. Other programs, started by `subprocess` or `os.exec*`, are left alone.

Knows how multiprocessing prepares a child. Must not know what is recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from npaccel import api, system
from npaccel.blocks import Accelerate
from npaccel.errors import NpaccelError
from npaccel.later import when_imported
from npaccel.runtime.process.warn import warn_user

__all__ = ["enter", "keep"]

# Modules with a function `get_preparation_data`, whose result a child unpickles first.
SPAWNING: Final = frozenset(
    f"{package}.spawn"
    for package in (
        "multiprocessing",
        "multiprocess",
        "loky.backend",
        "joblib.externals.loky.backend",
    )
)
# Run in a child whose `sys.path` is not yet its parent's. It may be another interpreter
# (multiprocessing.set_executable), which has no npaccel, or not for its version.
OPENING: Final = """
import sys
before, sys.path = sys.path, path
try:
    from npaccel.children import enter
except ImportError as error:
    import warnings
    warnings.warn(f"this child process is not accelerated: {error}", stacklevel=1)
else:
    enter(*options)
finally:
    sys.path = before
"""

Options = tuple[int | None, str | None]
_KEPT: Final[list[Accelerate]] = []  # open until the interpreter's end


class Opening:
    """What a child is sent; unpickling it opens the block there."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return exec, (OPENING, {"path": system.module_path(), "options": self._options})


def _sends(opening: Opening, module: Any) -> None:
    """Have what the module sends to children open the block there."""
    prepare = getattr(module, "get_preparation_data", None)
    if prepare is None:  # another version of it
        return

    @functools.wraps(prepare)
    def get_preparation_data(*args: Any, **kwargs: Any) -> Any:
        return prepare(*args, **kwargs) | {"npaccel": opening}

    module.get_preparation_data = get_preparation_data


def keep(block: Accelerate, min_size: int | None, backend: str | None) -> None:
    """Enter the block for good, here and in children that are started from now on."""
    block.__enter__()
    _KEPT.append(block)
    opening = Opening((min_size, backend))
    for name in SPAWNING:
        when_imported(name, functools.partial(_sends, opening))


def enter(min_size: int | None, backend: str | None) -> None:
    """In a child: do as its parent did."""
    try:
        keep(api.accelerate_everywhere(min_size, backend), min_size, backend)
    except NpaccelError as error:
        warn_user(f"this child process is not accelerated: {error}")
