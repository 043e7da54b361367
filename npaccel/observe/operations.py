"""An operation as it is told: NumPy's name for it, and whose line asked for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from npaccel import _native
from npaccel.ir.kinds import Kind
from npaccel.runtime.process.warn import line_of

__all__ = ["Operation", "asked", "at", "named"]

Asked = Sequence[tuple[int, Any, int]]  # (rule, code, lasti), as the C core has them


class Operation(NamedTuple):
    """One recorded operation: NumPy's name, dtypes (inputs, then outputs), and the user's line."""

    name: str
    dtypes: tuple[str, ...] = ()
    inputs: int = 0
    file: str = ""
    line: int = 0


def named(name: str, kind: int, loop: Sequence[str]) -> str:
    """What NumPy's users call it."""
    if kind == Kind.REDUCE:
        return f"{name}.reduce"
    if kind == Kind.SCAN:
        return f"{name}.accumulate"
    if kind == Kind.IOTA:
        return "arange"
    return "astype" if name == "copy" and len(set(loop)) > 1 else name


def at(operation: Operation, code: Any, lasti: int) -> Operation:
    """The same, of the user's line."""
    if code is None:
        return operation
    return operation._replace(file=code.co_filename, line=line_of(code, lasti))


def asked(rows: Asked, rules: Mapping[int, _native.Rule]) -> tuple[Operation, ...]:
    """What the core remembers of a run. rules : all of them."""
    return tuple(
        at(Operation(named(rule.name, rule.kind, rule.loop)), code, lasti)
        for rule, code, lasti in ((rules[number], code, lasti) for number, code, lasti in rows)
    )
