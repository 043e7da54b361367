"""Whole random programs, each in NumPy and under npaccel: can anything that they say be told apart?

    python bench/soak_programs.py [--programs 12000] [--seed 0] [--backend auto] [--check off]
                                  [--processes 1] [--show SEED]

The programs are `random_programs.py`'s: loops over time steps with functions, classes, generators,
macro sections and blocks, and all sorts of NumPy's functions, on arrays of many dtypes, small and
large. Each runs in NumPy, then two or three times in blocks of `accelerate`, or outside of them on
wrapped arrays. What the seed chooses besides: the threshold, when is compiled, how trials end, how
many threads there are. Compared is as `soak_loops.py` does, and all warnings with their lines.
Sums are of small integers, functions such as `exp` are rounded to 1/1024, so that all is to the
bit, but for the sign of a NaN.

The same seeds once more, with the same cache folder, are the second process of a program.
"""

from __future__ import annotations

import array
import asyncio
import concurrent.futures
import contextlib
import copy
import faulthandler
import functools
import gc
import io
import json
import math
import mmap
import operator
import os
import random
import struct
import sys
import tempfile
import threading
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import npaccel
from npaccel import _native
from npaccel.runtime.devices import cost

sys.path.insert(0, str(Path(__file__).parent))
import soak_loops
from call_arrays import Own
from random_programs import Whole
from telling import listen, named, same

MOST_S = 300  # of a program: more is taken to hang
THRESHOLDS = (0, 256, 4096, 4096, 65536, 1 << 18)
PACES = ((0, 0), (1000, 1), (1, 1000))  # what rounds are said to take, recorded and by NumPy
WORTHS = (0, 0, 1 << 16, 1 << 20)  # bytes that NumPy works on before anything new is recorded


class Nothing(contextlib.ContextDecorator):
    """What `npaccel.accelerate` is to a program in NumPy."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


def quantum(x: Any) -> Any:
    """Of functions whose last bits are ours."""
    return np.rint(x * 1024) / 1024


def small(x: Any) -> Any:
    """What sums are of, so that their order is nothing to see."""
    return np.floor(np.clip(x, -99, 99))


def rounded(value: Any) -> float:
    return round(float(value), 6)


def raw(data: bytes) -> Any:
    """Doubles of bytes, but for the sign of a NaN."""
    return np.frombuffer(data[len(data) % 8 :], np.float64)


def saved(x: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, x)
    return file.getvalue()


def filed(x: np.ndarray) -> bytes:
    with tempfile.TemporaryFile() as file:
        x.tofile(file)
        return os.pread(file.fileno(), 800, 160)


def printed(x: np.ndarray) -> str:
    file = io.StringIO()
    print(x, repr(x[-2:]), file=file)
    return file.getvalue()


def checked(x: np.ndarray) -> np.ndarray:
    with np.errstate(divide="raise", invalid="raise"):
        return 1.0 / x + np.sqrt(x)


def io_bytes(x: np.ndarray) -> bytes:
    """The integers of doubles, written to a file."""
    with tempfile.TemporaryFile() as file:
        file.write(np.nan_to_num(np.clip(x, -99, 99)).astype(np.int32))
        file.seek(0)
        return file.read(400)


def tune(k: int) -> None:
    """Another threshold in the midst of a program, which changes nothing that can be seen."""
    npaccel.config.threshold = THRESHOLDS[k % len(THRESHOLDS)]


KNOWN = {
    "contextlib": contextlib, "copy": copy, "functools": functools, "gc": gc,
    "threading": threading, "warnings": warnings, "Own": Own, "quantum": quantum, "small": small,
    "rounded": rounded, "raw": raw, "saved": saved, "filed": filed, "printed": printed,
    "checked": checked, "listen": listen, "io_bytes": io_bytes, "math": math, "struct": struct,
    "zlib": zlib, "array": array, "json": json, "operator": operator,
    "asyncio": asyncio, "concurrent": concurrent, "mmap": mmap, "tempfile": tempfile,
}  # fmt: skip
NUMPY = {**KNOWN, "wrap": same, "macro": same, "named": named}
NUMPY.update(sync=same, tune=same, accel=Nothing)
OURS = {
    **KNOWN,
    "wrap": npaccel.asarray,
    "macro": npaccel.macro,
    "named": npaccel.macro,
    "sync": npaccel.evaluate,
    "tune": tune,
    "accel": npaccel.accelerate,
}


@contextlib.contextmanager
def enabled() -> Iterator[None]:
    """For all threads."""
    npaccel.enable()
    yield
    npaccel.disable()


def settings(chance: random.Random) -> Callable[[], Any]:
    """Choose them, and in which block the program runs."""
    config = npaccel.config
    config.tiering = chance.choice(("adaptive", "adaptive", "eager", "off"))
    config.threshold = chance.choice(THRESHOLDS)
    config.threads = chance.choice((1, 2, 5))
    soon = chance.random() < 0.5
    for name in ("compiling_pays", "planning_pays"):
        setattr(cost.Costs, name, (lambda *_: True) if soon else PAYS[name])
    _native.trials(config.tiering == "adaptive", *chance.choice(PACES), chance.choice(WORTHS))
    return chance.choice((*[npaccel.accelerate] * 3, enabled, Nothing))


PAYS = {name: getattr(cost.Costs, name) for name in ("compiling_pays", "planning_pays")}


def differences(seed: int) -> str:
    """How npaccel's outcome differs from NumPy's; empty: not at all."""
    text, chance = Whole(seed).program(), random.Random(seed)
    code = compile(text, f"<program {seed}>", "exec")
    faulthandler.dump_traceback_later(MOST_S, exit=True)
    expected = soak_loops.outcome(code, **NUMPY)
    block = settings(chance)
    for turn in range(2 + (seed % 4 == 0)):
        with block():
            found = soak_loops.outcome(code, **OURS)
        if found != expected:
            if soak_loops.outcome(code, **NUMPY) != expected:
                return ""  # NumPy itself gives this or that
            return f"in {block}, " + soak_loops.told(seed, turn, found, expected, text)
    return ""


soak_loops.differences = differences
soak_loops.Program = Whole
if __name__ == "__main__":
    sys.exit(soak_loops.main())
