"""What can be seen of a call: its result or error, warnings, and its arguments afterwards."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import npaccel

Array = np.ndarray[Any, Any]
# What tells it from others in the message of a failure, which alone makes text of it; the function;
# and what makes its arguments.
Case = tuple[object, Callable[..., Any], Callable[[], tuple[Any, ...]]]


def bits(a: Array) -> Any:
    """The values, but for what no value has: the padding of long doubles, the class of items."""
    if a.dtype.hasobject:
        return [repr(item) for item in a.ravel().tolist()]
    if a.dtype.char in "gG" and np.finfo(np.longdouble).nmant == 63:
        return np.frombuffer(a.tobytes(), np.uint8).reshape(-1, 16)[:, :10].tobytes()
    return a.tobytes()


def facts(value: Any) -> Any:
    """All that a program can tell of a value."""
    if isinstance(value, np.ndarray):
        f = value.flags
        flags = (f.c_contiguous, f.f_contiguous, f.writeable, f.owndata, f.aligned)
        more = facts(value.mask) if isinstance(value, np.ma.MaskedArray) else None
        plain = value.view(np.ndarray)
        named = (type(value), value.dtype, value.dtype.char, value.shape)
        return (*named, value.strides, flags, bits(plain), more)
    if isinstance(value, np.generic):
        return type(value), value.dtype, bits(np.asarray(value))
    if isinstance(value, tuple | list):
        return type(value), [facts(item) for item in value]
    return type(value), repr(value)


_heard: list[list[warnings.WarningMessage]] = []  # of the block that is open


@contextmanager
def hearing() -> Iterator[list[warnings.WarningMessage]]:
    """All warnings that come within, in a list; within another such block its list, made empty:
    opening `catch_warnings` takes longer than most calls."""
    if _heard:
        _heard[0].clear()
        yield _heard[0]
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _heard.append(caught)
        try:
            yield caught
        finally:
            _heard.clear()


def seen(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """The result or error of a call, its warnings, and what its arguments are afterwards."""
    error = result = None
    with hearing() as caught:
        try:
            result = function(*arguments)
        except Exception as cause:
            error = type(cause), str(cause), type(cause.__cause__), cause.args[:1]
        result_facts = facts(result)  # within, as flags of broadcast arrays warn
        garbage = error is not None and "negative integer powers" in error[1]
        # NumPy gives back what was never computed where it had cast an operand.
        arguments_facts = [facts(argument) for argument in arguments if not garbage]
        said = [(w.category, str(w.message), w.filename, w.lineno) for w in caught]
    which = next((k for k, argument in enumerate(arguments) if argument is result), None)
    return result_facts, which, error, said, arguments_facts


def difference(ours: Any, theirs: Any) -> str:
    names = ("result", "identity", "error", "warnings", "arguments")
    return "; ".join(
        f"{name} {mine!r:.300} is not {numpys!r:.300}"
        for name, mine, numpys in zip(names, ours, theirs, strict=True)
        if mine != numpys
    )


def all_same(cases: Iterable[Case], times: int = 2) -> None:
    """Each case outside, then in a block, where the second time has memory of dead arrays."""
    listed = list(cases)
    with hearing():
        expected = [seen(function, make()) for _, function, make in listed]
        with npaccel.accelerate():
            for _ in range(times):
                for (label, function, make), theirs in zip(listed, expected, strict=True):
                    ours = seen(function, make())
                    assert ours == theirs, f"{label}: {difference(ours, theirs)}"
