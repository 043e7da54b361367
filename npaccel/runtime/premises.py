"""What a section's body finds under global names and in closures, besides its arguments.

A recording holds as long as these are what they were; a replay looks each of them up.
"""

from __future__ import annotations

import copy
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

__all__ = ["Premise", "arrays_of", "changed", "generators_in", "premises_of"]

# (dict or cell, name, value), or (array, "", its bytes)
Premise = tuple[Any, str, Any]

# Compared by value, so that a name may be bound anew to the same.
PLAIN: Final = (type(None), bool, int, float, complex, str, bytes, tuple, np.generic)
COPIED: Final = (list, dict, set)
RANDOM: Final = ("Generator", "RandomState")
LIBRARIES: Final = ("numpy", "npaccel", "math", "builtins", "functools", "itertools", "operator")
MOST: Final = 256


def premises_of(function: Callable[..., Any]) -> list[Premise]:
    """Names that `function`, and functions of the user's that it names, may look up."""
    found: list[Premise] = []
    seen: set[int] = set()
    waiting: list[Any] = [function]
    while waiting and len(found) < MOST:
        current = _unwrapped(waiting.pop())
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        for premise in _looked_up(current):
            value = premise[2]
            if isinstance(value, types.FunctionType | types.MethodType):
                waiting.append(value)
            elif hasattr(value, "__wrapped__") and callable(value):
                waiting.append(value.__wrapped__)
            elif not isinstance(value, (np.ndarray, *PLAIN, *COPIED)):
                continue
            found.append((*premise[:2], copy.copy(value)) if type(value) in COPIED else premise)
    return found


def changed(premises: list[Premise]) -> str:
    """Name of a premise that no longer is what it was; empty: none."""
    for where, name, value in premises:
        now = where.get(name) if isinstance(where, dict) else where.cell_contents
        if now is not value and not (type(now) in (*PLAIN, *COPIED) and _same(now, value)):
            return name
    return ""


def arrays_of(premises: list[Premise]) -> list[np.ndarray[Any, Any]]:
    """The arrays that the body may reach by a name."""
    found = {id(value): value for _, _, value in premises if isinstance(value, np.ndarray)}
    return list(found.values())


def _same(a: Any, b: Any) -> bool:
    try:
        return type(a) is type(b) and bool(a == b)
    except ValueError:  # arrays in it
        return False


def _unwrapped(value: Any) -> types.FunctionType | None:
    value = getattr(value, "__func__", value)
    if not isinstance(value, types.FunctionType):
        return None
    library = str(value.__module__).partition(".")[0]
    return None if library in LIBRARIES else value


def _looked_up(function: types.FunctionType) -> Iterator[Premise]:
    for cell, name in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True):
        try:
            yield cell, name, cell.cell_contents
        except ValueError:
            continue  # not bound yet
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield function.__globals__, name, function.__globals__[name]


def _names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names


def generators_in(function: Callable[..., Any], arguments: Any) -> list[Any]:
    """Bit generators within reach of the body: if their state moves, it drew random numbers."""
    found: dict[int, Any] = {}
    waiting: list[Any] = [arguments, getattr(function, "__self__", None)]
    current = _unwrapped(function)
    seen: set[int] = set()
    while current is not None or waiting:
        if current is not None:
            if id(current) not in seen:
                seen.add(id(current))
                waiting.extend(value for _, _, value in _looked_up(current))
            current = None
            continue
        value = waiting.pop()
        if type(value) in (tuple, list):
            waiting.extend(value)
        elif type(value) is dict:
            waiting.extend(value.values())
        elif type(value).__name__ in RANDOM and type(value).__module__.startswith("numpy"):
            bits = _bits(value)
            found[id(bits)] = bits
        elif isinstance(value, types.FunctionType):
            current = _unwrapped(value)
        elif _is_users(value) and id(value) not in seen and len(seen) < MOST:
            seen.add(id(value))
            waiting.extend(vars(value).values())
    bits = _bits(np.random.mtrand._rand)
    return [*found.values(), bits] if id(bits) not in found else list(found.values())


def _is_users(value: Any) -> bool:
    """Whether it is an instance of a class of the user's, which may hold a generator."""
    if isinstance(value, type | types.ModuleType | np.ndarray) or not hasattr(value, "__dict__"):
        return False
    library = type(value).__module__.partition(".")[0]
    return library not in sys.stdlib_module_names and library not in LIBRARIES


def _bits(generator: Any) -> Any:
    return getattr(generator, "bit_generator", None) or generator._bit_generator
