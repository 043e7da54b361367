"""Macro sections as blocks: the body runs each time, its requests are matched against earlier ones.

Requests of a block go to the queue as ever, those on small arrays too; leaving it runs them. The C
core (macro_block.c, match.c) compares each with those of an earlier time: what is the same costs
little. Where calls at once take less time than that, a block stands aside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from npaccel import _native
from npaccel.errors import SectionError
from npaccel.runtime.process.warn import user_line, warn_user

__all__ = ["Block", "Blocks", "checked"]


@contextmanager
def checked(boundscheck: str | None) -> Iterator[None]:
    """Inside, this thread looks at indices and divisors ("on") or does not; None: as outside."""
    if boundscheck is None:
        yield
        return
    before = _native.boundscheck_here(int(boundscheck == "on"))
    try:
        yield
    finally:
        _native.boundscheck_here(before)


class Blocks:
    """All sections that are blocks, by name and control value; the least recently made go first.

    Parameters
    ----------
    most : a function that tells how many are kept.
    prepare : called before one stands aside, where blocks of the other kind were never open.
    """

    def __init__(self, most: Callable[[], int], prepare: Callable[[], None]) -> None:
        self._most = most
        self.prepare = prepare
        self._known: dict[tuple[str, Any], _native.Recordings] = {}
        self._forgotten: dict[str, Counter[str]] = {}  # what had been counted of those that went

    def known(self, name: str, control: Any) -> _native.Recordings:
        """What is known of blocks of this name and control value."""
        found = self._known.get((name, control))
        if found is None:
            found = self._known[name, control] = _native.Recordings()
            for oldest in list(self._known)[: -self._most()]:
                gone = self._known.pop(oldest, None)  # another thread may have forgotten it
                if gone is not None:
                    self._forgotten.setdefault(oldest[0], Counter()).update(_counts(gone))
        return found

    def clear(self) -> None:
        """Forget all recordings and counts."""
        self._known.clear()
        self._forgotten.clear()

    def stats(self) -> dict[str, dict[str, Any]]:
        """Per name what `macro.stats` has."""
        totals = {name: Counter(counts) for name, counts in list(self._forgotten.items())}
        reasons: dict[str, list[str]] = {name: [] for name in totals}
        for (name, control), known in list(self._known.items()):
            counts = totals.setdefault(name, Counter())
            counts.update(_counts(known))
            counts["variants"] += known.count
            reasons.setdefault(name, []).extend(_why_aside(control, known))
        shown = ("variants", "replays", "recordings", "bodies", "matched", "aside")
        return {
            name: {**{what: counts[what] for what in shown}, "reasons": reasons[name]}
            for name, counts in totals.items()
        }


def _counts(known: _native.Recordings) -> dict[str, int]:
    return {
        "recordings": known.made,
        "replays": known.replays,
        "matched": known.matched,
        "bodies": known.bodies,
        "aside": known.aside,
    }


def _why_aside(control: Any, known: _native.Recordings) -> list[str]:
    if known.times is None or not known.times[2]:
        return []
    recorded, aside, _ = known.times
    where = f"with control={control!r} " if control != () else ""
    return [
        f"{where}it stands aside: a round takes {1e6 * aside:.3g} µs so, and {1e6 * recorded:.3g} "
        "µs recorded"
    ]


class Block(_native.MacroBlock):
    """``with npaccel.macro("name", *arrays, control=...) as m:``; `m.arrays` are the arrays as
    npaccel takes them."""

    __slots__ = ("_warned", "on_illegal")
    on_illegal: str  # "raise" where it is not set
    _warned: bool

    @property
    def _where(self) -> str:
        file, line = self.line
        return f"{self.name!r} ({file}:{line})"

    def _entered_again(self) -> None:
        raise SectionError(
            f"the macro section {self._where} is entered again before it was left; "
            "give the inner one another name"
        )

    def _stop(self, kind: str, what: str) -> None:
        """The C core asks about a read."""
        action = f"reads a value ({what})" if kind == "read" else "evaluates"
        text = (
            f"the macro section {self._where} {action} at {user_line()}, before its end; move "
            'this out of the section, or use on_illegal="warn" to have it run in parts'
        )
        if getattr(self, "on_illegal", "raise") == "raise":
            raise SectionError(text)
        if not hasattr(self, "_warned"):
            self._warned = True
            warn_user(f"{text} (it now runs in parts)")
