"""Macro sections as functions: recorded once per signature, then replayed by the C core.

A variant that is to be compiled by the helper is *early* until its code is there: its calls come
here, run with NumPy's loops, and look whether an answer has come.
"""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from npaccel import _native
from npaccel.caches.macro import MacroCache
from npaccel.errors import SectionError
from npaccel.runtime.macros.recording import Again, Recording, Refused
from npaccel.runtime.macros.replays import make_replay, requests_of
from npaccel.runtime.macros.section_code import Place, SectionCode, Waiting
from npaccel.runtime.macros.sections import checked
from npaccel.runtime.process.warn import warn_user

__all__ = ["Section", "Sections"]

# Recordings in a row of which none was ever replayed; then only one call in so many records.
PATIENCE: Final = 16
RETRY_EVERY: Final = 64
# Variants of one section that wait for their code; recorded again if there are more.
MOST_EARLY: Final = 16
# What a replay answers: another signature, done, the body must run.
OTHER, DONE, BODY = range(3)
UNFIT: Final = "the recording did not fit its own arguments"
CHECK_MODE: Final = "check mode runs every request by itself"
LOOKED_AT: Final = "each operation is looked at"
# What a body may raise because it finds a stand-in where it expects a number.
OF_STAND_INS: Final = (AttributeError, IndexError, TypeError, ValueError)
RAISES: Final = "it raises an exception while it is recorded"


class Sections:
    """All macro sections of the process.

    Parameters
    ----------
    code : plans and builds.
    """

    def __init__(self, config: Any, code: SectionCode) -> None:
        self.config = config
        self.code = code
        self.cache = MacroCache(config.macro_cache)
        self.known: weakref.WeakSet[Section] = weakref.WeakSet()
        self.local = threading.local()
        config.subscribe(self._changed)

    def section(
        self, function: Callable[..., Any], on_illegal: str, boundscheck: str | None
    ) -> _native.Macro:
        """The callable that stands for `function`."""
        made = Section(self, function, on_illegal, boundscheck)
        self.known.add(made)
        return made.macro

    def clear(self) -> None:
        """Forget every recording."""
        self.cache.clear()
        for section in list(self.known):
            section.forget()

    def stats(self) -> dict[str, dict[str, Any]]:
        """Per section what `Section.stats` has."""
        return {section.where: section.stats() for section in list(self.known)}

    def _changed(self, name: str, value: str | float) -> None:
        self.cache.limit = self.config.macro_cache
        self.cache.shrink()
        if name in ("backend", "threads", "threshold", "guard", "tiering", "device_memory"):
            self.clear()

    @property
    def active(self) -> list[tuple[Section, Recording]]:
        """Sections that this thread is recording; the inner ones are part of the first."""
        found: list[tuple[Section, Recording]] = getattr(self.local, "active", [])
        self.local.active = found
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Early:
    """A variant that waits for its code, and what another replay of it is made of."""

    replay: _native.Replay
    waiting: Waiting
    recording: Recording
    names: tuple[str, ...]
    count: int
    place: Place


class Section:
    """One decorated function.

    Attributes
    ----------
    macro : what the user calls; replays known variants and comes to `_missed` for all else
    early : variants that wait for their code
    refused : per outline of a signature, why it is not recorded
    """

    def __init__(
        self,
        sections: Sections,
        function: Callable[..., Any],
        on_illegal: str,
        boundscheck: str | None = None,
    ) -> None:
        self.sections, self.function, self.on_illegal = sections, function, on_illegal
        self.boundscheck = boundscheck
        code = getattr(inspect.unwrap(function), "__code__", None)
        name = getattr(function, "__qualname__", repr(function))
        line = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
        self.where = f"{name!r}{line}"
        self.refused: dict[Any, str] = {}
        self.early: list[Early] = []
        self.counts: Counter[str] = Counter()
        self._hits_before = 0
        self._fruitless = 0
        self.macro = _native.Macro(self._missed)
        functools.update_wrapper(self.macro, function)
        self.macro.stats = self.stats
        self.macro.clear = self.clear
        self.macro._section = self

    def stats(self) -> dict[str, Any]:
        """Calls replayed, recordings made, calls whose body ran, and why."""
        return {
            "variants": len(self.variants),
            "replays": self.replays,
            "recordings": self.counts["recordings"],
            "bodies": self.counts["bodies"],
            "reasons": sorted(set(self.refused.values()) | set(self._reasons)),
        }

    @property
    def replays(self) -> int:
        """Of all its variants, those that were forgotten included."""
        return sum(variant.hits for variant in self.variants) + self.counts["replays"]

    @property
    def variants(self) -> list[_native.Replay]:
        """Replays, the latest first."""
        return [*self.macro._variants, *[early.replay for early in self.early]]

    @property
    def _reasons(self) -> list[str]:
        return [key.removeprefix("why ") for key in self.counts if key.startswith("why ")]

    def clear(self) -> None:
        """Forget the recordings of this section."""
        self.sections.cache.forget(self)
        self.forget()
        self._fruitless = 0

    def forget(self) -> None:
        """What waits for code, and what was refused."""
        self._count_forgotten(early.replay for early in self.early)
        self.early.clear()
        self.refused.clear()

    def drop(self, variant: _native.Replay | None) -> None:
        """What the cache calls: this one goes, or (None) all that it keeps."""
        self._count_forgotten(self.macro._variants if variant is None else (variant,))
        self.macro._drop(variant)

    def _count_forgotten(self, variants: Iterable[_native.Replay]) -> None:
        self.counts["replays"] += sum(variant.hits for variant in variants)

    # What the C core calls when no variant fits (why: ""), or the body must run.

    def _missed(self, args: tuple[Any, ...], kwargs: dict[str, Any], why: str) -> Any:
        if _native.in_section():
            return self._inline(args, kwargs)
        if why:
            return self._run_body(args, kwargs, why)
        if _native.bodies_run():
            checked = self.sections.config.check != "off"
            return self._run_body(args, kwargs, CHECK_MODE if checked else LOOKED_AT)
        if not _native.guarded():
            self.sections.code.tell_unguarded()
            return self._run_body(args, kwargs, "the guard is off")
        for early in list(self.early):
            status, result = early.replay.run((*args, *kwargs.values()), tuple(kwargs))
            if status == BODY:
                return self._run_body(args, kwargs, result)
            if status == DONE:
                self._attend(early)
                return result
        outline = _outline(args, kwargs)
        if outline in self.refused:
            return self._run_body(args, kwargs, self.refused[outline])
        if self._gives_up():
            return self._run_body(args, kwargs, "its recordings are never used again")
        try:
            return self._record(args, kwargs)
        except Refused as refusal:
            self.refused[outline] = refusal.reason
        except SectionError as error:
            if self.on_illegal == "raise":
                raise
            self.refused[outline] = str(error)
            warn_user(f"{error} (it now runs without recording)")
        return self._run_body(args, kwargs, self.refused[outline])

    def _gives_up(self) -> bool:
        if self._fruitless < PATIENCE:
            return False
        self.counts["skipped"] += 1
        return self.counts["skipped"] % RETRY_EVERY != 0

    def _inline(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A section in a section becomes part of it."""
        active = self.sections.active
        if any(section is self for section, _ in active) and active:
            active[0][1].stop(f"enters {self.where} again")
        active.append((self, active[0][1]))
        try:
            with checked(self.boundscheck):
                return self.function(*_plain_numbers(args), **_plain_numbers(kwargs))
        finally:
            active.pop()

    def _run_body(self, args: tuple[Any, ...], kwargs: dict[str, Any], why: str) -> Any:
        self.counts["bodies"] += 1
        self.counts[f"why {why}"] += 1
        with checked(self.boundscheck):
            return self.function(*_plain_numbers(args), **_plain_numbers(kwargs))

    def _attend(self, early: Early) -> None:
        """It has run: exchange it for what its code makes of it, if that is there."""
        self._fruitless = 0
        waiting = early.waiting
        if not self.sections.code.attend(waiting):
            return
        try:
            self.early.remove(early)
        except ValueError:  # another thread did, or everything was forgotten
            return
        self.counts["replays"] += early.replay.hits
        replay, threshold = early.replay, self.sections.config.threshold
        try:
            if waiting.code is None:
                raise Refused(waiting.sequence.refused)
            replay = make_replay(
                early.recording, early.names, early.count, waiting.code, early.place, threshold
            )
        except Refused as refusal:
            replay.program.info = refusal.reason
        self._keep(replay)

    def _keep(self, replay: _native.Replay) -> None:
        self.macro._add(replay)
        self.sections.cache.add(self, replay)
        self._hits_before = self.replays

    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        recording = self._run_recorded(args, kwargs)
        others = [buffer[4] for buffer in recording.section.buffers() if buffer[4] is not None]
        place = self.sections.code.place([*recording.arrays, *others])
        names, count = tuple(kwargs), len(args)
        given = (*args, *kwargs.values())
        code, threshold = self.sections.code, self.sections.config.threshold
        if isinstance(recording.raised, OF_STAND_INS):
            result = self._run_body(args, kwargs, RAISES)  # raises the same, in words about numbers
            self.refused[_outline(args, kwargs)] = RAISES
            return result
        if recording.raised is not None:
            if any(buffer[1] for buffer in recording.section.buffers()):
                # What it wrote before it raised is there, as after NumPy.
                once, _ = code.make(requests_of(recording, threshold), True, place)
                replay = make_replay(recording, names, count, once, place, threshold)
                if replay.run(given, names)[0] != DONE:
                    return self._run_body(args, kwargs, UNFIT)
            raise recording.raised
        made, waiting = code.make(requests_of(recording, threshold), False, place)
        replay = make_replay(recording, names, count, made, place, threshold)
        status, result = replay.run(given, names)
        if status != DONE:
            return self._run_body(args, kwargs, UNFIT)
        self.counts["recordings"] += 1
        self._fruitless = self._fruitless + 1 if self.replays == self._hits_before else 0
        if waiting is None:
            self._keep(replay)
        else:
            recording.arrays.clear()
            self.early.insert(0, Early(replay, waiting, recording, names, count, place))
            self._count_forgotten(early.replay for early in self.early[MOST_EARLY:])
            del self.early[MOST_EARLY:]
            self._hits_before = self.replays
        return result

    def _run_recorded(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Recording:
        valued: frozenset[int] = frozenset()
        while True:
            recording = Recording(self.function, self.where, valued)
            active = self.sections.active
            active.append((self, recording))
            try:
                with checked(self.boundscheck):
                    recording.run(args, kwargs)
                return recording
            except Again as again:
                valued |= again.positions
            finally:
                active.pop()
                recording.section.close()
                recording.stopped = None  # its traceback holds the recording, placeholders and all


def _plain_numbers(values: Any) -> Any:
    """Arguments as the body takes them, without npaccel.scalar's marks."""
    if type(values) is dict:
        plain = {key: _plain_numbers(value) for key, value in values.items()}
        return plain if any(plain[key] is not value for key, value in values.items()) else values
    if type(values) in (tuple, list):
        items = [_plain_numbers(value) for value in values]
        same = all(one is other for one, other in zip(items, values, strict=True))
        return values if same else type(values)(items)
    return values._value if type(values) is _native.Runtime else values


def _outline(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a refusal depends on: types, dtypes and dimensions."""

    def of(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return type(value).__name__, value.dtype.str, value.ndim, value.flags.aligned
        if type(value) in (tuple, list):
            return type(value).__name__, tuple(map(of, value))
        if type(value) is dict:
            return tuple((key, of(item)) for key, item in value.items())
        return type(value).__name__, value if type(value) in (int, bool, str) else None

    return tuple(map(of, args)), tuple((name, of(value)) for name, value in kwargs.items())
