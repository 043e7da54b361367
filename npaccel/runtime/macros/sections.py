"""Macro sections as blocks: the body runs each time, its requests are matched against earlier ones.

Requests of a block go to the queue as ever, those on small arrays too; leaving it runs them. The C
core (match.c) compares each with those of an earlier time: what is the same costs little.
"""

from __future__ import annotations

import sys
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from npaccel import _native
from npaccel.errors import SectionError
from npaccel.runtime.macros.recording import is_internal
from npaccel.runtime.process.warn import warn_user

__all__ = ["Block", "Blocks", "checked"]


@contextmanager
def checked(checks: str | None) -> Iterator[None]:
    """Inside, this thread looks at indices and divisors ("on") or does not; None: as outside."""
    if checks is None:
        yield
        return
    before = _native.checks_here(int(checks == "on"))
    try:
        yield
    finally:
        _native.checks_here(before)


class Entry:
    """Blocks of one name and control value.

    Attributes
    ----------
    recordings : what their requests were; filled by the C core.
    replays, bodies : how often a block was left whose requests were all known; how often one was.
    """

    __slots__ = ("bodies", "recordings", "replays")

    def __init__(self) -> None:
        self.recordings = _native.Recordings()
        self.replays = self.bodies = 0

    def counts(self) -> dict[str, int]:
        """What it has counted so far."""
        return {
            "recordings": self.recordings.made,
            "replays": self.replays,
            "matched": self.recordings.matched,
            "bodies": self.bodies,
        }


class Blocks:
    """All sections that are blocks, by name and control value; the least recently made go first.

    Parameters
    ----------
    most : a function that tells how many are kept.
    """

    def __init__(self, most: Callable[[], int]) -> None:
        self.local = threading.local()
        self._most = most
        self._entries: dict[tuple[str, Any], Entry] = {}
        self._forgotten: dict[str, Counter[str]] = {}  # what entries had counted that went

    @property
    def open(self) -> list[str]:
        """Names of the blocks that this thread is in, the innermost last."""
        try:
            return self.local.open  # type: ignore[no-any-return]
        except AttributeError:
            found: list[str] = []
            self.local.open = found
            return found

    def entry(self, name: str, control: Any) -> Entry:
        """What is known of the block."""
        found = self._entries.get((name, control))
        if found is None:
            found = self._entries[name, control] = Entry()
            for oldest in list(self._entries)[: -self._most()]:
                gone = self._entries.pop(oldest, None)  # another thread may have forgotten it
                if gone is not None:
                    self._forgotten.setdefault(oldest[0], Counter()).update(gone.counts())
        return found

    def clear(self) -> None:
        """Forget all recordings and counts."""
        self._entries.clear()
        self._forgotten.clear()

    def stats(self) -> dict[str, dict[str, Any]]:
        """Per name what `macro.stats` has."""
        totals = {name: Counter(counts) for name, counts in list(self._forgotten.items())}
        for (name, _), entry in list(self._entries.items()):
            counts = totals.setdefault(name, Counter())
            counts.update(entry.counts())
            counts["variants"] += entry.recordings.count
        shown = ("variants", "replays", "recordings", "bodies", "matched")
        return {
            name: {**{what: counts[what] for what in shown}, "reasons": []}
            for name, counts in totals.items()
        }


class Block:
    """``with npaccel.macro("name", *arrays, control=...) as m:``; `m.arrays` are the arrays as
    npaccel takes them."""

    def __init__(
        self,
        blocks: Blocks,
        name: str,
        arrays: tuple[Any, ...],
        control: Any,
        on_illegal: str,
        checks: str | None,
    ) -> None:
        self._blocks, self._name, self._on_illegal = blocks, name, on_illegal
        self._checks, self._checks_before = checks, -1
        self._control = control
        self.arrays = tuple([_native.wrap(a) if type(a) is np.ndarray else a for a in arrays])
        self._entry: Entry | None = None  # of the outermost block only
        self._made = 0
        self._before: Any = None
        self._line = ("", 0)
        self._warned = False

    def __enter__(self) -> Block:
        blocks = self._blocks
        frame = sys._getframe(1)
        self._line = frame.f_code.co_filename, frame.f_lineno
        outer = blocks.open
        if self._name in outer:
            raise SectionError(
                f"the macro section {self._where} is entered again before it was left; "
                "give the inner one another name"
            )
        recordings = None
        if not outer:
            _native.evaluate()  # so that its requests are alone
            self._entry = blocks.entry(self._name, self._control)
            recordings = self._entry.recordings
            self._made = recordings.made
        self._before = _native.in_macro_block(self._stop, recordings)
        if self._checks is not None:
            self._checks_before = _native.checks_here(int(self._checks == "on"))
        outer.append(self._name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        self._blocks.open.remove(self._name)
        if self._checks is not None:
            _native.checks_here(self._checks_before)
        entry = self._entry
        try:
            if entry is not None and kind is None:  # else part of an outer one, or it stays pending
                _native.evaluate()
        finally:
            _native.in_macro_block(self._before, None)
            if entry is not None:
                entry.bodies += 1
                entry.replays += kind is None and entry.recordings.made == self._made

    @property
    def _where(self) -> str:
        return f"{self._name!r} ({self._line[0]}:{self._line[1]})"

    def _stop(self, kind: str, what: str, block: int) -> None:
        """The C core asks about a read."""
        action = f"reads a value ({what})" if kind == "read" else "evaluates"
        text = (
            f"the macro section {self._where} {action} at {_user_line()}, before its end; move "
            'this out of the section, or use on_illegal="warn" to have it run in parts'
        )
        if self._on_illegal == "raise":
            raise SectionError(text)
        if not self._warned:
            self._warned = True
            warn_user(f"{text} (it now runs in parts)")


def _user_line() -> str:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "unknown line"
