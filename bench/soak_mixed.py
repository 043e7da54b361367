"""Random programs on arrays of all shapes and layouts, each against NumPy.

    python bench/soak_mixed.py [--programs 10000] [--seed 0] [--backend auto] [--check off]
                               [--processes 1] [--show SEED]

The programs are `random_mixed.py`'s, which NumPy runs while they are written: loops on vectors,
grids, their rows and columns, small matrices and numbers of many dtypes, in C's order, Fortran's
and with steps; views that are written through; sizes that change; lists, classes, closures,
generators, recursion, errors that are caught, threads, macro sections. Each runs in NumPy, then two
or three times in blocks, or outside of them on wrapped arrays; settings are chosen as in
`soak_programs.py`. Half of the programs have functions, sums and products of floats besides: their
arrays lie below the usual threshold, where all bits are NumPy's.

Compared are, of all arrays at the end and of all that was read: values, dtypes, shapes, strides,
flags, which share memory and where; errors, warnings with their lines, and the generators' states.
Not compared: the signs of NaNs, what a macro section refuses, and strides along axes of one element
where NumPy may leave a result in a temporary array. NumPy itself has two answers for floats beyond
`uint32` that are cast to it. Exits with 1 where anything differs.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import faulthandler
import hashlib
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import npaccel

sys.path.insert(0, str(Path(__file__).parent))
import soak_loops
import soak_programs
import telling
from random_mixed import ARRAYS, written

ELIDED = 1 << 18  # bytes of temporaries in which NumPy leaves a result, with their strides


class Own(np.ndarray):
    """A subclass that has nothing of its own."""

    @staticmethod
    def of(x: np.ndarray) -> Any:
        return np.asarray(x).view(Own)


def small(x: Any) -> Any:
    """What sums are of, so that their order is nothing to see."""
    return np.floor(np.clip(np.real(x), -99, 99))


def bits(x: np.ndarray) -> Any:
    """Without the signs of NaNs."""
    plain = np.array(x, copy=True, subok=False)
    if plain.dtype.names or plain.dtype.kind == "O":
        return repr(plain.tolist())
    if plain.dtype.kind in "fc" and plain.dtype.isnative:
        for part in (plain.real, plain.imag) if plain.dtype.kind == "c" else (plain,):
            part[np.isnan(part)] = np.nan
    return telling.bits(plain)


def facts(value: Any) -> Any:
    """All that a program can tell of a value, but that npaccel's arrays have a class of theirs."""
    if isinstance(value, np.ndarray):
        flags = value.flags
        order = flags.c_contiguous, flags.f_contiguous, flags.writeable, flags.aligned
        strides = value.strides if value.size else ()
        if value.nbytes >= ELIDED:
            strides = tuple(s for s, n in zip(strides, value.shape, strict=True) if n > 1)
        kind = np.ndarray if type(value) is npaccel.Array else type(value)
        return kind.__name__, value.dtype.str, value.shape, strides, order, bits(value)
    if isinstance(value, np.inexact):
        return type(value).__name__, bits(np.array(value))
    if isinstance(value, list | tuple):
        return [facts(one) for one in value]
    if isinstance(value, dict):
        return {k: facts(one) for k, one in value.items()}
    text = re.sub(r"0x[0-9a-f]+", "", repr(value)).replace("npaccel.Array", "ndarray")
    return type(value).__name__, either_way(text.replace("Array(", "array("))


def either_way(words: str) -> str:
    """Python turns comparisons of an array and one of ours round; recursion ends here or there."""
    words = words.replace(" while calling a Python object", "")
    return " ".join(sorted(words.split())) if "broadcast together" in words else words


def ending(names: dict[str, Any]) -> list[Any]:
    """What a program comes to."""
    arrays = {k: names[k] for k in ARRAYS if isinstance(names.get(k), np.ndarray)}
    found = [(k, facts(names.get(k))) for k in ARRAYS]
    found += [("out", facts(one)) for one in (*names["out"], *names["kept"])]
    for x, first in arrays.items():
        for y, second in arrays.items():
            if x < y and first.size and second.size and np.may_share_memory(first, second):
                places = [a.__array_interface__["data"][0] for a in (first, second)]
                found.append((x + y, places[0] - places[1]))
    states = str(names["rng"].bit_generator.state), names["old_rng"].get_state()[2]
    return [*found, states, ("told", sorted(map(str, names["told"])))]


def raised(call: Callable[[], Any]) -> Any:
    try:
        return facts(call())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def wrap(x: Any) -> Any:
    return npaccel.asarray(x) if type(x) is np.ndarray else x


MORE = {
    "ctypes": ctypes, "dataclasses": dataclasses, "hashlib": hashlib, "sys": sys, "Own": Own,
    "small": small, "ending": ending, "raised": raised,
}  # fmt: skip
NUMPY = {**soak_loops.KNOWN, **soak_programs.NUMPY, **MORE, "accel": contextlib.nullcontext}
OURS = {**soak_loops.KNOWN, **soak_programs.OURS, **MORE, "wrap": wrap}


def outcome(code: Any, names: dict[str, Any]) -> list[Any]:
    known = dict(names)
    exec(code, known)
    try:
        return known["run"]()
    except Exception as error:
        return [type(error).__name__, either_way(str(error))]


def differences(seed: int) -> str:
    """How npaccel's outcome differs from NumPy's; empty: not at all."""
    faulthandler.dump_traceback_later(soak_programs.MOST_S, exit=True)
    mixed, text = written(seed, NUMPY)
    code, chance = compile(text, f"<program {seed}>", "exec"), random.Random(seed)
    expected = outcome(code, NUMPY)
    block = soak_programs.settings(chance)
    if mixed.bits:
        npaccel.config.threshold = 1 << 18
    for turn in range(2 + (seed % 4 == 0)):
        with block():
            found = outcome(code, OURS)
        if found != expected:
            if "SectionError" in str(found) or outcome(code, NUMPY) != expected:
                return ""  # NumPy itself gives this or that
            return f"in {block}, " + soak_loops.told(seed, turn, found, expected, text)
    return ""


class Shown:
    """For --show."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def program(self) -> str:
        return written(self.seed, NUMPY)[1]


soak_loops.differences = differences
soak_loops.Program = Shown
if __name__ == "__main__":
    sys.exit(soak_loops.main())
