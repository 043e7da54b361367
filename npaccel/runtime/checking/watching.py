"""Arrays that are watched: the program stops where a condition on their values becomes true."""

from __future__ import annotations

import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from npaccel import _native
from npaccel.config import own_breakpoint
from npaccel.runtime.checking.peek import peek
from npaccel.runtime.process.warn import is_internal

__all__ = ["Watch", "look"]

Array = np.ndarray[Any, Any]


class Watch:
    """An array that is watched, until `stop`, or the end of a ``with`` block.

    Attributes
    ----------
    array, condition : as `npaccel.watch` was given them.
    stops : how often the condition has become true.
    """

    def __init__(self, array: Array, condition: Callable[[Array], Any]) -> None:
        self.array, self.condition = array, condition
        self.stops = 0
        self._seen: Array | None = None
        self._true = False

    def start(self) -> None:
        """Watch; where the condition is true already the program stops here."""
        _native.evaluate()
        _set([*_watches, self])
        look(None)

    def stop(self) -> None:
        """Watch no longer."""
        _set([watch for watch in _watches if watch is not self])

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def became_true(self) -> bool:
        """Whether the array has been written since, and the condition is true now and was not."""
        value = peek(self.array)
        before, self._seen = self._seen, value
        if before is not None and before.tobytes() == value.tobytes():
            return False
        was, self._true = self._true, bool(self.condition(value.copy(order="K")))
        self.stops += self._true and not was
        return self._true and not was


_watches: list[Watch] = []
_here = threading.local()  # `looking`: this thread is in a condition


def _set(watches: list[Watch]) -> None:
    _native.watch([watch.array for watch in watches])
    _watches[:] = watches


def look(name: str | None) -> None:
    """Look at what is watched, and stop in the user's debugger where a condition became true.

    name : the operation that has just run; None: another one.
    """
    if getattr(_here, "looking", False):
        return
    found: list[Watch] = []
    _here.looking = True
    try:
        _native.call_numpy(lambda: found.extend(w for w in list(_watches) if w.became_true()))
    finally:
        _here.looking = False
    if found:
        _break(found[0], name)


def _break(watch: Watch, name: str | None) -> None:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_back is not None and is_internal(frame):
        frame = frame.f_back
    assert frame is not None
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    shape = f"{watch.array.dtype}{list(watch.array.shape)}"
    what = f"{name} has made" if name else "what was written before has made"
    print(f"npaccel: {place}: {what} the condition on {shape} true", file=sys.stderr)
    if own_breakpoint():
        sys.breakpointhook()
        return
    import pdb

    debugger = pdb.Pdb(skip=["npaccel", "npaccel.*", "contextlib"])
    # From Python 3.13 on it would stop within the line, before its result has a name.
    debugger.set_stepinstr = debugger.set_step  # type: ignore[attr-defined]
    debugger.set_trace(frame)
