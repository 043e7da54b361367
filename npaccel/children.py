"""Child processes of a program that `npaccel run` runs: accelerated, too, however they are started.

Forked ones have everything of their parent. Those that begin with an interpreter of their own
(spawn, forkserver, loky) are sent "preparation data" before all else; what is added there opens the
block in them. Other programs, started by `subprocess` or `os.exec*`, are left alone.

Knows how multiprocessing prepares a child. Must not know what is recorded.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from typing import Any, Final

from npaccel import api
from npaccel.blocks import Accelerate
from npaccel.errors import NpaccelError
from npaccel.runtime.warn import warn_user

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


class Opening:
    """What a child is sent; unpickling it opens the block there."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return exec, (OPENING, {"path": sys.path.copy(), "options": self._options})


class Watch:
    """A finder for imports that finds nothing: it waits for modules that start processes, so that
    nothing of them has to be imported before the program does.

    Parameters
    ----------
    block : is kept open as long as this is there: until the interpreter's end.
    """

    def __init__(self, block: Accelerate, options: Options) -> None:
        self._block = block
        self._opening = Opening(options)
        self._awaited = set(SPAWNING)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: Any = None
    ) -> ModuleSpec | None:
        """The spec of an awaited module, as others find it, but its loader tells us."""
        if name not in self._awaited:
            return None
        self._awaited.remove(name)
        spec = importlib.util.find_spec(name)
        loader: Any = spec and spec.loader
        if loader is not None:
            run = loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                del loader.exec_module
                run(module)
                self.take(module)

            loader.exec_module = exec_module
        return spec

    def take(self, module: Any) -> None:
        """Have what the module sends to children open the block there."""
        prepare = getattr(module, "get_preparation_data", None)
        if prepare is None:  # another version of it
            return

        @functools.wraps(prepare)
        def get_preparation_data(*args: Any, **kwargs: Any) -> Any:
            return prepare(*args, **kwargs) | {"npaccel": self._opening}

        module.get_preparation_data = get_preparation_data


def keep(block: Accelerate, min_size: int | None, backend: str | None) -> None:
    """Enter the block for good, here and in children that are started from now on."""
    block.__enter__()
    watch = Watch(block, (min_size, backend))
    for name in SPAWNING & sys.modules.keys():
        watch.take(sys.modules[name])
    sys.meta_path.insert(0, watch)


def enter(min_size: int | None, backend: str | None) -> None:
    """In a child: do as its parent did."""
    try:
        keep(api.accelerate_everywhere(min_size, backend), min_size, backend)
    except NpaccelError as error:
        warn_user(f"this child process is not accelerated: {error}")
