"""What can be told of a random program: its values, its warnings; and what npaccel's own blocks are
to it in NumPy."""

from __future__ import annotations

import contextlib
import sys
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from dispatch.small.comparison import bits

__all__ = ["bits", "comparable", "listen", "named", "same"]


def comparable(value: Any) -> Any:
    """An array's dtype, shape and bits, but for those of a NaN; a text of anything else."""
    if not isinstance(value, np.ndarray):
        return repr(value)
    plain = np.array(value)
    if plain.dtype.names:  # what lies between the fields is no value
        return plain.dtype.descr, repr(plain.tolist())
    if plain.dtype.kind in "fc":
        for part in (plain.real, plain.imag) if plain.dtype.kind == "c" else (plain,):
            part[np.isnan(part)] = np.nan
    return plain.dtype.str, plain.shape, bits(plain)


def listen(told: list[Any]) -> None:
    """Note what is warned of with the program's line, also where NumPy's own code warns."""

    def note(w: warnings.WarningMessage) -> None:
        if w.category is ResourceWarning:  # whenever the garbage goes
            return
        frame, line = sys._getframe(), w.lineno
        if not w.filename.startswith("<program"):
            while frame and not frame.f_code.co_filename.startswith("<program"):
                frame = frame.f_back
            line = frame.f_lineno if frame else -1
        told.append((w.category.__name__, str(w.message), line))

    warnings._showwarnmsg_impl = note


@contextlib.contextmanager
def named(*arguments: Any, **options: Any) -> Iterator[Any]:
    """What `npaccel.macro(name, ...)` is to a program in NumPy."""
    yield types.SimpleNamespace(arrays=arguments[1:])


def same(value: Any) -> Any:
    return value
