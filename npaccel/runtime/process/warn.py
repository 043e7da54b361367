"""Floating-point warnings that evaluation found, issued as NumPy would have at the user's line."""

from __future__ import annotations

import sys
import types
import warnings
from contextlib import suppress
from typing import Any

from npaccel.errors import NpaccelWarning
from npaccel.ir.kinds import FlagKind, Kind

__all__ = [
    "WORDS",
    "is_internal",
    "issue",
    "line_of",
    "runtime_warnings",
    "tell",
    "text_of",
    "user_line",
    "warn_user",
]

# In the order in which NumPy reports several flags of one call.
WORDS = (
    (FlagKind.DIVIDE, "divide by zero"),
    (FlagKind.OVER, "overflow"),
    (FlagKind.UNDER, "underflow"),
    (FlagKind.INVALID, "invalid value"),
)
NAMES = {Kind.REDUCE: "reduce", Kind.SCAN: "accumulate"}


def line_of(code: types.CodeType, lasti: int) -> int:
    """Line of the instruction at byte offset `lasti`."""
    for start, end, line in code.co_lines():
        if start <= lasti < end and line is not None:
            return line
    return code.co_firstlineno


def _operation(rule: Any) -> str:
    if rule.name == "copy":
        return "cast"
    return NAMES.get(Kind(rule.kind), str(rule.name))


def text_of(words: str, rule: Any) -> str:
    """What NumPy says of it; words: of WORDS."""
    return f"{words} encountered in {_operation(rule)}"


def issue(found: list[tuple[int, Any, types.CodeType | None, int, Any, int, Any]]) -> None:
    """The C core's `warn` hook.

    Parameters
    ----------
    found : (kinds, rule, code, lasti, globals, errstate, scope) per request, in program order;
        scope: the Scope it was recorded in if that is another one than is in force.

    Raises
    ------
    RuntimeWarning : when the filters in force make it an error; later ones are then not issued,
        as with NumPy, where the program would not have come to them.
    """
    for kinds, rule, code, lasti, variables, _errstate, scope in found:
        warn_there = warnings.warn_explicit if scope is None else scope.warn
        names = variables if isinstance(variables, dict) else {}
        filename = code.co_filename if code is not None else "<unknown>"
        line = line_of(code, lasti) if code is not None else 1
        for kind, words in WORDS:
            if kinds & kind:
                warn_there(
                    text_of(words, rule),
                    RuntimeWarning,
                    filename,
                    line,
                    module=names.get("__name__", "<unknown>"),
                    registry=names.setdefault("__warningregistry__", {}),
                )


def runtime_warnings() -> str:
    """The C core's `filters` hook: "error" if some RuntimeWarning would be raised as an error,
    "ignore" if none would be shown, else "show"."""
    if getattr(sys.flags, "context_aware_warnings", False):
        return "error"  # each context has its filters: what may warn does so at its line
    ignored = True
    for action, message, category, module, line in warnings.filters:
        if not issubclass(RuntimeWarning, category):
            continue
        if action == "error":
            return "error"
        ignored &= action == "ignore"
        if message is None and module is None and line == 0:
            return "ignore" if ignored else "show"
    return "show"


def warn_user(text: str) -> None:
    """Issue an NpaccelWarning at the line of the first caller outside npaccel and NumPy."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and is_internal(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, NpaccelWarning, stacklevel=level)


def tell(text: str) -> None:
    """As `warn_user`, of what no result depends on: a filter that makes warnings errors stops
    nothing."""
    with suppress(NpaccelWarning):
        warn_user(text)


def user_line() -> str:
    """File and line of the first caller outside npaccel and NumPy."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and is_internal(frame):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "unknown line"


def is_internal(frame: types.FrameType) -> bool:
    """Whether its code is npaccel's or NumPy's."""
    return str(frame.f_globals.get("__name__")).partition(".")[0] in ("npaccel", "numpy")
