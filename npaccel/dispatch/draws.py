"""Draws of NumPy's generators with arrays as parameters: standard numbers, and recorded operations.

NumPy draws them one by one with the parameters of each, ``shift + scale * standard``, in C order of
the shape that the parameters broadcast to. So they are the numbers that it draws for single
parameters (which the C core does on all threads, native/functions/draws.c), and two operations.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from npaccel import _native
from npaccel.dispatch.fallback import NotRecorded
from npaccel.dispatch.operands import take_array

__all__ = ["MOVED"]

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
WIDEST = 8  # bytes of numbers that are doubles, or become doubles exactly enough


def _parameter(value: Any) -> Any:
    """An array that NumPy makes doubles of without a word, or a number."""
    if type(value) in (int, float, np.float64, np.int64):
        return float(value)
    if type(value) is not np.ndarray and not isinstance(value, _native.ArrayBase):
        raise NotRecorded
    array = take_array(value)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > WIDEST or not array.dtype.isnative:
        raise NotRecorded
    return array


def _drawn(generator: Any, standard: str, shift: Any, scale: Any, size: Any) -> Any:
    """shift + scale * numbers, the scale looked through as NumPy does before it draws."""
    if type(generator) not in (np.random.Generator, np.random.RandomState):
        raise NotRecorded
    if size is not None and type(size) not in (int, tuple):
        raise NotRecorded
    shift, scale = None if shift is None else _parameter(shift), _parameter(scale)
    shape = np.broadcast_shapes(np.shape(scale), np.shape(shift) if shift is not None else ())
    if size is not None and ((size,) if type(size) is int else size) != shape:
        raise NotRecorded
    if not shape or math.prod(shape) * 8 < _native.threshold():
        raise NotRecorded
    if not _proved(type(generator).__name__, standard, shift is not None):
        raise NotRecorded
    with np.errstate(all="ignore"):
        if np.signbit(scale).any() or not np.isfinite(scale).all():
            raise NotRecorded  # NumPy's error, if it is one
        numbers = _native.wrap(getattr(generator, standard)(shape))
        moved = np.multiply(scale, numbers, order="C")
        return moved if shift is None else np.add(shift, moved, order="C")


@functools.cache
def _proved(kind: str, standard: str, shifted: bool) -> bool:
    """Whether NumPy's code here rounds both operations, as some processors' need not."""
    name = next(name for name, (of, _) in NAMES.items() if of == standard)
    make: Callable[[int], Any]
    make = np.random.default_rng if kind == "Generator" else np.random.RandomState
    first, second = make(1), make(1)
    rng = np.random.default_rng(5)
    shift, scale = rng.normal(size=300) * 1e3, rng.random(300) * 1e2
    numbers = getattr(second, standard)(300)
    if not shifted:
        return np.array_equal(getattr(first, name)(scale), scale * numbers)
    want = getattr(first, name)(shift, shift + scale if name == "uniform" else scale)
    if name == "uniform":
        scale = (shift + scale) - shift
    return np.array_equal(want, shift + scale * numbers)


def _normal(generator: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
    return _drawn(generator, "standard_normal", loc, scale, size)


def _exponential(generator: Any, scale: Any = 1.0, size: Any = None) -> Any:
    return _drawn(generator, "standard_exponential", None, scale, size)


def _uniform(generator: Any, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
    with np.errstate(all="ignore"):
        width = np.subtract(_parameter(high), _parameter(low), dtype=np.float64)
    scale = width if isinstance(width, np.ndarray) else float(width)
    return _drawn(generator, "random", low, scale, size)


NAMES: dict[str, tuple[str, Callable[..., Any]]] = {
    "normal": ("standard_normal", _normal),
    "exponential": ("standard_exponential", _exponential),
    "uniform": ("random", _uniform),
}
MOVED: dict[str, Callable[..., Any]] = {name: taker for name, (_, taker) in NAMES.items()}
