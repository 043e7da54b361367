"""Running NumPy instead: exact operands, the user's line, and a record of what and why.

`FALLBACKS` is the record, `HOMES` that of what devices gave back; `observe` and `runtime` read
them.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from npaccel import _native
from npaccel.own import time

__all__ = [
    "FALLBACKS",
    "HOMES",
    "Fallbacks",
    "NotRecorded",
    "at_user_line",
    "exact",
    "fallback",
    "run_exact",
    "unrecordable",
    "unseen",
]

MAX_ENTRIES = 10_000  # distinct (function, reason, site); beyond it sites are merged


class NotRecorded(Exception):
    """Raised while a call is being recorded: NumPy does this one. Never seen by the user.

    Parameters
    ----------
    reason : one short phrase for `npaccel.explain`; empty when it is not worth counting (a small
        operand, a call that NumPy is about to reject).
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


def unrecordable() -> NotRecorded:
    """For what the C core has just refused to record."""
    return NotRecorded(_native.passing_reason() or "operands that cannot be recorded")


class Fallbacks:
    """How often which function ran in NumPy, why, and from which line of the user.

    Parameters
    ----------
    others : takes what was counted elsewhere, as `_native.take_fallbacks`.
    """

    def __init__(self, others: Callable[[], list[Any]] = list) -> None:
        # (function, reason, file, line) to [number, seconds]: made for being counted quickly.
        self._calls: dict[tuple[str, str, str, int], list[float]] = {}
        self._others = others

    def record(self, function: str, reason: str, seconds: float = 0.0) -> None:
        """Count one call that took so long; the site is the first caller outside NumPy and us."""
        self._add((function, reason, *_site()), 1, seconds)

    def _add(self, key: tuple[str, str, str, int], calls: int, seconds: float) -> None:
        entry = self._calls.get(key)
        if entry is None:
            if len(self._calls) >= MAX_ENTRIES:
                key = (key[0], key[1], "elsewhere", 0)
            entry = self._calls.setdefault(key, [0, 0.0])
        entry[0] += calls
        entry[1] += seconds

    def _entries(self) -> list[tuple[tuple[str, str, str, int], list[float]]]:
        for *key, calls, seconds, _ in self._others():
            self._add((key[0], key[1], key[2], key[3]), calls, seconds)
        return [*self._calls.items()]

    def counts(self) -> Mapping[tuple[str, str, str], int]:
        """(function, reason, "file:line") to number of calls, since the start or `clear`."""
        return {_place(key): int(entry[0]) for key, entry in self._entries()}

    def seconds(self) -> Mapping[tuple[str, str, str], float]:
        """The same, to the time that those calls took, or what else is counted beside them; 0 where
        it was not measured."""
        return {_place(key): entry[1] for key, entry in self._entries()}

    def total(self) -> int:
        return int(sum(entry[0] for _, entry in self._entries()))

    def clear(self) -> None:
        self._others()
        self._calls.clear()


FALLBACKS = Fallbacks(_native.take_fallbacks)
# Of devices instead of functions, and bytes instead of seconds.
HOMES = Fallbacks(_native.take_homes)


def _place(key: tuple[str, str, str, int]) -> tuple[str, str, str]:
    function, reason, file, line = key
    return function, reason, f"{file}:{line}" if line else file


@functools.lru_cache(maxsize=4096)
def _package(module: str) -> str:
    return module.partition(".")[0]


def _inside(frame: types.FrameType, *packages: str) -> bool:
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and _package(name) in packages


def _site() -> tuple[str, int]:
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and _inside(frame, "npaccel", "numpy"):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("unknown", 0)


def _call(function: Any, args: Any, kwargs: Any) -> Any: return function(*args, **kwargs)  # fmt: skip  # noqa: E501


@functools.lru_cache(maxsize=1024)
def _code_at(filename: str, line: int, name: str) -> types.CodeType:
    return _call.__code__.replace(
        co_filename=filename, co_firstlineno=line, co_name=name, co_qualname="npaccel.stand_in"
    )


def at_user_line(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Call `function` from a frame that looks like the caller of npaccel. See Note [Lines]."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and _inside(frame, "npaccel"):
        frame = frame.f_back
    if frame is None:
        return function(*args, **kwargs)
    code = _code_at(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    return types.FunctionType(code, frame.f_globals)(function, args, kwargs)


def unseen(method: Callable[..., Any]) -> Any:
    """A method of ours that is not in the tracebacks of what NumPy raises in it."""
    return _native.direct(None, method, 5)


class _Part(NamedTuple):
    """A copy of what an array shows of a device; its bytes before, where it may be written."""

    array: Any
    copy: Any
    before: bytes | None

    def write_back(self) -> bool:
        """Whether it was written; then so is the array."""
        if self.before is None or self.copy.tobytes() == self.before:
            return False
        _native.put_back(self.array, self.copy)
        return True


def exact(value: Any, *, write: bool = False, parts: list[_Part] | None = None) -> Any:
    """Return `value` with every npaccel array in it as an evaluated exact view.

    Looks into lists, tuples and dicts; what holds no npaccel array is returned as it is.
    write: the memory is about to be written, so what is pending and reads it runs first.
    parts: copies of what small parts of data on devices show will do; they are added to it.
    """
    kind = type(value)
    if isinstance(value, _native.ArrayBase):
        part = _native.fetched(value) if parts is not None else None
        if part is not None and parts is not None:
            parts.append(_Part(value, part, part.tobytes() if write else None))
            return part
        if write:
            _native.touch(value, write=True)
        return _native.plain(value)
    # Recursive, for arguments are nested as deep as their author typed them.
    if kind is tuple or kind is list:
        items = [exact(item, write=write, parts=parts) for item in value]
        if any(new is not old for new, old in zip(items, value, strict=True)):
            return kind(items)
    elif kind is dict:
        pairs = {key: exact(item, write=write, parts=parts) for key, item in value.items()}
        if any(pairs[key] is not value[key] for key in pairs):
            return pairs
    elif kind is np.ndarray:
        # A plain view of memory that a pending request writes (or, with write, reads).
        _native.touch(value, write=write)
    return value


def _outputs(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def run_exact(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    written: tuple[int, ...] = (),
) -> Any:
    """Run `function` in NumPy on exact evaluated operands; counts nothing.

    written: positions of arguments that the function writes (``out=`` always counts as written).
    An array of ours that comes back as the result is the object that was passed in; large new
    results come back as npaccel arrays.
    """
    return fallback(function, args, kwargs, "", written=written)


def fallback(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    reason: str,
    *,
    name: str = "",
    written: tuple[int, ...] = (),
) -> Any:
    """`run_exact`, counted under `reason` (unless that is empty)."""
    given: dict[int, Any] = {}
    compiled = _is_compiled(function)
    parts: list[_Part] = []
    arguments, keywords = _settled(args, kwargs, written, given, parts)
    start = time.perf_counter()
    try:
        # Compiled: or `accelerate` would take the call and be back here.
        call = _native.call_numpy if compiled else _native.call_python
        result = at_user_line(call, (function, *arguments), keywords)
    finally:
        changed = [part.write_back() for part in parts]
        whole = compiled or _is_python(function)  # Cython's code goes on after such a call
        if reason and not (whole and _native.did_it_here()):
            # In a block, what NumPy's Python code calls is timed by itself.
            alone = compiled or not _native.in_block()
            took = time.perf_counter() - start if alone else 0.0
            FALLBACKS.record(name or getattr(function, "__name__", repr(function)), reason, took)
    for part in parts:
        result = _rebased(result, part)
    if parts and not any(changed) and not _is_plain(result):
        for value in (*args, *kwargs.values()):
            exact(value)  # comes home: who knows what it refers to
        return run_exact(function, args, kwargs, written)
    return _adopt(result, given)


def _rebased(result: Any, part: _Part) -> Any:
    """The result, where it shows the copy with the array in the copy's place."""
    if type(result) in (tuple, list):
        return type(result)([_rebased(item, part) for item in result])
    if isinstance(result, np.ndarray) and result is not part.copy:
        return _native.rebased(result, part.copy, part.array)
    return result


def _is_plain(result: Any) -> bool:
    """Whether it is known what it refers to: arrays that were looked at, and else nothing."""
    if isinstance(result, tuple | list):
        return all(map(_is_plain, result))
    known = np.ndarray | np.generic | int | float | complex | str | bytes
    return result is None or isinstance(result, known)


def _settled(
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    written: tuple[int, ...],
    given: dict[int, Any],
    parts: list[_Part],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments as NumPy gets them; `given`: by their identities, what they stand for; `parts`:
    those that stand for parts of what lies on a device."""
    # None where the user's code is called, which may keep what it is given.
    taken = parts if _native.copies_exist() and not _calls_back(args, kwargs) else None
    arguments = []
    for position, value in enumerate(args):
        new = exact(value, write=position in written, parts=taken)
        arguments.append(new)
        _remember(new, value, given)
    keywords = {}
    for key, value in kwargs.items():
        keywords[key] = exact(value, write=key == "out", parts=taken)
        if key == "out":
            pairs = zip(_outputs(keywords[key]), _outputs(value), strict=True)
            given.update((id(new), old) for new, old in pairs)
    targets = (args[k] for k in written if k < len(args))
    if parts and _may_overlap(parts, [*targets, *_outputs(kwargs.get("out"))]):
        parts.clear()
        given.clear()
        for value in (*args, *kwargs.values()):
            exact(value)
        return _settled(args, kwargs, written, given, parts)
    return tuple(arguments), keywords


def _may_overlap(parts: list[_Part], targets: list[Any]) -> bool:
    """Whether a copy may be of what the call writes elsewhere."""
    if sum(part.before is not None for part in parts) > 1:
        return True
    return any(
        np.may_share_memory(part.array, target)
        for part in parts
        for target in targets
        if isinstance(target, np.ndarray) and (part.before is None or target is not part.array)
    )


def _calls_back(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    return any(map(callable, (*args, *kwargs.values())))


def _remember(new: Any, old: Any, given: dict[int, Any]) -> None:
    """That `new` stands for the caller's `old`, and so do the items of sequences."""
    given[id(new)] = old
    if new is not old and type(new) in (list, tuple):
        for pair in zip(new, old, strict=True):
            _remember(*pair, given)


def _is_compiled(function: Any) -> bool:
    return not hasattr(getattr(function, "_implementation", function), "__code__")


def _is_python(function: Any) -> bool:
    return isinstance(getattr(function, "_implementation", function), types.FunctionType)


def _adopt(result: Any, given: Mapping[int, Any]) -> Any:
    """Give back the caller's own object for an operand, an npaccel array for a large new one."""
    if type(result) is tuple:
        return tuple(_adopt(item, given) for item in result)
    if isinstance(result, tuple) and hasattr(type(result), "_make"):  # of linalg and unique_all
        make: Callable[..., Any] = type(result)._make  # type: ignore[attr-defined]
        return make(_adopt(item, given) for item in result)
    if isinstance(result, np.ndarray):
        original = given.get(id(result))
        if isinstance(original, np.ndarray):
            return original
        if given.get(id(result.base)) is result.base is not None:
            return result  # a view of a plain operand
        # The others are never recorded; and NumPy writes over plain temporaries of foreign byte
        # order, which the results of operators have then.
        numeric = result.dtype.kind in "biufc" and result.dtype.isnative
        if type(result) is np.ndarray and numeric and _native.wants(result):
            return _native.wrap(result)
    return result


# Note [Lines]
# NumPy's warnings name the Python frame that called it (or, through `stacklevel`, that frame's
# callers), and file their "already shown" marks in that frame's globals. A function of ours
# between the user and NumPy would be named instead. So NumPy is called from a one-line function
# whose code object carries the caller's file name and line, and whose globals are the caller's.
# The caller is the first frame outside npaccel: inside NumPy's own Python code that is NumPy's
# line, as it is without npaccel. The core knows that code by its qualified name and looks further
# up: what is recorded there belongs to the caller's own instruction (code_internal, rules.c).
