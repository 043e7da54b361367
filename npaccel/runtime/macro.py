"""Macro sections as functions: recorded once per signature, then replayed by the C core."""

from __future__ import annotations

import functools
import inspect
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from npaccel import _native
from npaccel.caches.macro import MacroCache
from npaccel.errors import SectionError
from npaccel.ir.nodes import Plan, Trace
from npaccel.runtime.recording import Again, Recording, Refused
from npaccel.runtime.replays import make_replay
from npaccel.runtime.warn import warn_user

__all__ = ["Section", "Sections"]

# Recordings in a row of which none was ever replayed; then only one call in so many records.
PATIENCE: Final = 16
RETRY_EVERY: Final = 64
CHECK_MODE: Final = "check mode runs every request by itself"


class Sections:
    """All macro sections of the process.

    Parameters
    ----------
    compile_trace : plans and builds; see replays.Compile.
    """

    def __init__(
        self, config: Any, compile_trace: Callable[[Trace, bool], tuple[_native.Program, Plan]]
    ) -> None:
        self.config = config
        self.compile_trace = compile_trace
        self.cache = MacroCache(config.macro_cache)
        self.known: weakref.WeakSet[Section] = weakref.WeakSet()
        self.local = threading.local()
        config.subscribe(self._changed)

    def section(self, function: Callable[..., Any], on_illegal: str) -> _native.Macro:
        """The callable that stands for `function`."""
        made = Section(self, function, on_illegal)
        self.known.add(made)
        return made.macro

    def clear(self) -> None:
        """Forget every recording."""
        self.cache.clear()
        for section in list(self.known):
            section.refused.clear()

    def stats(self) -> dict[str, dict[str, Any]]:
        """Per section what `Section.stats` has."""
        return {section.where: section.stats() for section in list(self.known)}

    def _changed(self, name: str, value: str | int) -> None:
        self.cache.limit = self.config.macro_cache
        self.cache.shrink()
        if name in ("backend", "threads", "threshold", "guard"):
            self.clear()

    @property
    def active(self) -> list[tuple[Section, Recording]]:
        """Sections that this thread is recording; the inner ones are part of the first."""
        found: list[tuple[Section, Recording]] = getattr(self.local, "active", [])
        self.local.active = found
        return found


class Section:
    """One decorated function.

    Attributes
    ----------
    macro : what the user calls; replays known variants and comes to `_missed` for all else
    refused : per outline of a signature, why it is not recorded
    """

    def __init__(self, sections: Sections, function: Callable[..., Any], on_illegal: str) -> None:
        self.sections, self.function, self.on_illegal = sections, function, on_illegal
        code = getattr(inspect.unwrap(function), "__code__", None)
        name = getattr(function, "__qualname__", repr(function))
        line = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
        self.where = f"{name!r}{line}"
        self.refused: dict[Any, str] = {}
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
        variants = self.macro._variants
        return {
            "variants": len(variants),
            "replays": sum(variant.hits for variant in variants) + self.counts["replays"],
            "recordings": self.counts["recordings"],
            "bodies": self.counts["bodies"],
            "reasons": sorted(set(self.refused.values()) | set(self._reasons)),
        }

    @property
    def _reasons(self) -> list[str]:
        return [key.removeprefix("why ") for key in self.counts if key.startswith("why ")]

    def clear(self) -> None:
        """Forget the recordings of this section."""
        self.counts["replays"] += sum(variant.hits for variant in self.macro._variants)
        self.sections.cache.forget(self.macro)
        self.refused.clear()
        self._fruitless = 0

    # What the C core calls when no variant fits (why: ""), or the body must run.

    def _missed(self, args: tuple[Any, ...], kwargs: dict[str, Any], why: str) -> Any:
        if _native.in_section():
            return self._inline(args, kwargs)
        if why:
            return self._run_body(args, kwargs, why)
        if self.sections.config.check != "off":
            return self._run_body(args, kwargs, CHECK_MODE)
        if self.sections.config.guard == "off":
            return self._run_body(args, kwargs, "the guard is off")
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
            return self.function(*_plain_numbers(args), **_plain_numbers(kwargs))
        finally:
            active.pop()

    def _run_body(self, args: tuple[Any, ...], kwargs: dict[str, Any], why: str) -> Any:
        self.counts["bodies"] += 1
        self.counts[f"why {why}"] += 1
        return self.function(*_plain_numbers(args), **_plain_numbers(kwargs))

    def _record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        recording = self._run_recorded(args, kwargs)
        names = tuple(kwargs)
        given = (*args, *kwargs.values())
        compile_trace, threshold = self.sections.compile_trace, self.sections.config.threshold
        if recording.raised is not None:
            if any(block[1] for block in recording.section.blocks()):
                # What it wrote before it raised is there, as after NumPy.
                partial = make_replay(
                    recording, names, len(args), compile_trace, threshold, once=True
                )
                partial.run(given, names)
            raise recording.raised
        replay = make_replay(recording, names, len(args), compile_trace, threshold)
        done, result = replay.run(given, names)
        if not done:
            return self._run_body(args, kwargs, "the recording did not fit its own arguments")
        self.counts["recordings"] += 1
        hits = sum(variant.hits for variant in self.macro._variants)
        self._fruitless = self._fruitless + 1 if hits == self._hits_before else 0
        self.macro._add(replay)
        self.sections.cache.add(self.macro, replay)
        self._hits_before = sum(variant.hits for variant in self.macro._variants)
        return result

    def _run_recorded(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Recording:
        valued: frozenset[int] = frozenset()
        while True:
            recording = Recording(self.function, self.where, valued)
            active = self.sections.active
            active.append((self, recording))
            try:
                recording.run(args, kwargs)
                return recording
            except Again as again:
                valued |= again.positions
            finally:
                active.pop()
                recording.section.close()


def _plain_numbers(values: Any) -> Any:
    """Arguments as the body takes them: without npaccel.scalar's mark."""
    if type(values) is dict:
        return {key: _plain_numbers(value) for key, value in values.items()}
    if type(values) in (tuple, list):
        return type(values)(_plain_numbers(value) for value in values)
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
