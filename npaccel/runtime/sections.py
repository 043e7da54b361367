"""Macro sections as blocks: the body runs each time, what it records is found again.

Requests of a block go to the queue as ever, those on small arrays too; leaving it runs them. The
trace cache knows the program of a sequence that it has met, so a block whose requests are those of
an earlier time is run in one step; other requests only cost the planning.
"""

from __future__ import annotations

import sys
import threading
import types
from collections import Counter
from typing import Any, Final

import numpy as np

from npaccel import _native
from npaccel.errors import SectionError
from npaccel.runtime.recording import is_internal
from npaccel.runtime.warn import warn_user

__all__ = ["Block", "Blocks"]

MOST_SIGNATURES: Final = 256


class Blocks:
    """All sections that are blocks, by name.

    Attributes
    ----------
    counts : per name how often it was entered, replayed (known when it was left) and recorded.
    signatures : per name the signatures (arguments, control values) that were met.
    """

    def __init__(self) -> None:
        self.local = threading.local()
        self.counts: dict[str, Counter[str]] = {}
        self.signatures: dict[str, dict[Any, None]] = {}

    @property
    def open(self) -> list[str]:
        """Names of the blocks that this thread is in, the innermost last."""
        found: list[str] = getattr(self.local, "open", [])
        self.local.open = found
        return found

    def clear(self) -> None:
        """Forget the counts."""
        self.counts.clear()
        self.signatures.clear()

    def stats(self) -> dict[str, dict[str, Any]]:
        """Per name what `macro.stats` has."""
        return {
            name: {
                "variants": len(self.signatures.get(name, {})),
                "replays": counts["replays"],
                "recordings": counts["recordings"],
                "bodies": counts["entered"],
                "reasons": [],
            }
            for name, counts in self.counts.items()
        }


class Block:
    """``with npaccel.macro("name", *arrays, control=...) as m:``; `m.arrays` are the arrays as
    npaccel takes them."""

    def __init__(
        self, blocks: Blocks, name: str, arrays: tuple[Any, ...], control: Any, on_illegal: str
    ) -> None:
        self._blocks, self._name, self._on_illegal = blocks, name, on_illegal
        self._control = control
        self.arrays = tuple(_native.wrap(a) if type(a) is np.ndarray else a for a in arrays)
        self._before: Any = None
        self._where = ""
        self._warned = False

    def __enter__(self) -> Block:
        blocks = self._blocks
        self._where = f"{self._name!r} ({_user_line()})"
        if self._name in blocks.open:
            raise SectionError(
                f"the macro section {self._where} is entered again before it was left; "
                "give the inner one another name"
            )
        if not blocks.open:
            _native.evaluate()  # so that its requests are alone
        self._before = _native.in_macro_block(self._stop)
        blocks.open.append(self._name)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        blocks = self._blocks
        blocks.open.remove(self._name)
        _native.in_macro_block(self._before)
        counts = blocks.counts.setdefault(self._name, Counter())
        counts["entered"] += 1
        if blocks.open or kind is not None:
            return  # part of the outer one; or what is pending stays so
        known = blocks.signatures.setdefault(self._name, {})
        signature = self._signature()
        counts["replays" if signature in known else "recordings"] += 1
        known[signature] = None
        if len(known) > MOST_SIGNATURES:
            del known[next(iter(known))]
        _native.evaluate()

    def _signature(self) -> Any:
        arrays = tuple((a.shape, a.strides, a.dtype.str) for a in self.arrays)
        try:
            hash(self._control)
        except TypeError:
            return arrays, repr(self._control)
        return arrays, self._control

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
