"""Steps of a Recipe as bytes: words that the C core reads without a Python object for each.

A flush that takes over what the helper planned, or what is on disk, would else make some thousands.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["pack_code", "pack_steps"]

SCALAR = 1  # among the words of a step: it is two words long


def pack_steps(steps: Sequence[tuple[Any, ...]]) -> bytes:
    """Steps as `_native.Program` takes them as bytes.

    Parameters
    ----------
    steps : of a Recipe; a kernel's begins with its place among the kernels.

    Notes
    -----
    A word of eight bytes says how long the others are, 4 or 8. Then the number of steps; per step a
    request and its releases, or -1 and a kernel's numbers. Each list begins with its length.
    """
    words = [len(steps)]
    for step in steps:
        if len(step) == 2:
            words.append(step[0])
            _add_list(words, step[1])
            continue
        kernel, arguments, grid, scratch, partial, slots, writes, releases, read, wrote, count = (
            step
        )
        words += (-1, kernel, *grid, scratch, partial, read, wrote, count)
        _add_list(words, slots)
        _add_list(words, writes)
        plain, patches = _split(arguments)
        _add_list(words, plain)
        words.append(len(patches) // 4)
        words += patches
        _add_list(words, releases)
    try:
        return (4).to_bytes(8, "little") + array("i", words).tobytes()
    except OverflowError:
        return (8).to_bytes(8, "little") + array("q", words).tobytes()


def _add_list(words: list[int], numbers: Iterable[int]) -> None:
    at = len(words)
    words.append(0)
    words += numbers
    words[at] = len(words) - at - 1


def _split(arguments: Iterable[Any]) -> tuple[list[int], list[int]]:
    """The words of a step, 0 where the core fills them in; and per such place itself, what it is,
    and two numbers of its own."""
    plain: list[int] = []
    patches: list[int] = []
    for item in arguments:
        if isinstance(item, tuple):
            kind, first, second = (*item, 0, 0)[:3]
            patches += (len(plain), kind, first, second)
            plain += (0, 0) if kind == SCALAR else (0,)
        else:
            plain.append(item)
    return plain, patches


def pack_code(code: Iterable[Any]) -> bytes:
    """The addresses of kernels' functions, as `_native.Program` takes them beside packed steps."""
    return array("Q", [address for one in code for address in (one.main, one.finish)]).tobytes()
