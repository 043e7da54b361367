"""Run a piece of code on plain arrays and on npaccel's, and compare all that can be seen."""

from __future__ import annotations

import functools
import math
import os
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

import npaccel

T = TypeVar("T")
DTYPES = ("?", "b", "h", "i", "l", "B", "H", "I", "L", "e", "f", "d", "F", "D")
FOREIGN = ("O", "S3", "M8[s]", "g", ">f8")
ERRORS = (
    ArithmeticError,
    AttributeError,
    BufferError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
    Warning,
)


@dataclass
class Outcome:
    """What a run gave: its result or its error, its warnings, and its arguments afterwards."""

    value: Any
    error: tuple[type, str] | None
    warnings: list[tuple[type, str, str, int]]
    arguments: Sequence[Any]


# Allowed differences: of all floats, or of floats and complex numbers.
Ulp = int | tuple[int, int]


def edge_values(dtype: str) -> np.ndarray[Any, Any]:
    """15 values of `dtype`: zeros, extremes, and for floats what is not a number."""
    return _edges(dtype).copy()


@functools.cache
def _edges(dtype: str) -> np.ndarray[Any, Any]:
    kind = np.dtype(dtype).kind
    if kind == "b":
        values: Any = [True, False, True, True, False] * 3
    elif kind in "iu":
        info = np.iinfo(dtype)
        low = [-1, -2, -7, info.min, info.min + 1] if kind == "i" else [9, 8, 7, 4, 2]
        values = [0, 1, 2, 3, 5, 7, 11, 100, info.max, info.max - 1, *low]
    elif kind == "f":
        info = np.finfo(dtype)
        tiny = [float(info.tiny), float(info.max)]
        values = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 3.0, np.inf, -np.inf, np.nan, 7.25, 0.1]
        values += tiny
    elif kind == "c":
        values = [0, -0.0, 1, -1, 1j, -1j, 0.5 + 2j, 2 - 0.5j, 3 + 4j, -3 - 4j, 0.25, 7j, 1 + 1j]
        values += [-2.5 + 0.1j, 1e3 - 1e-3j]
    else:
        values = np.arange(15)
    with np.errstate(all="ignore"):
        return np.array(values).astype(dtype)


def shapes(dtype: str) -> list[np.ndarray[Any, Any]]:
    """One array of each class of shape and memory order."""
    line = edge_values(dtype)
    block = np.concatenate([line, line[::-1]]).reshape(5, 6)
    return [
        line,
        line[:1].copy(),
        line[:0].copy(),
        line[4].reshape(()).copy(),
        line[::-1],
        block,
        block.T,
        block[::2, 1::3],
        block[:, ::-2],
        np.broadcast_to(line[:3], (4, 3)),
        np.concatenate([block, block]).reshape(3, 2, 10).transpose(1, 2, 0),
    ]


@dataclass(frozen=True)
class Mode:
    """How arguments are given to NumPy, and the equivalent ones to npaccel."""

    name: str
    plain: Callable[[Any], Any]
    ours: Callable[[Any], Any]


def each_array(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with `change` applied to each plain array in it."""
    if type(value) is np.ndarray:
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)(each_array(item, change) for item in value)
    return value


WRAPPED = Mode("wrapped", lambda x: x, npaccel.asarray)
PENDING = Mode("pending", lambda x: x.copy(order="K"), lambda x: npaccel.asarray(x).copy(order="K"))


# `make test-all` has what is left out of other runs: TEST_COMPILED=1.
THOROUGH = "TEST_COMPILED" in os.environ


def tiering(compiled: bool) -> Literal["eager", "off"]:
    """Of a case that is compiled or runs block by block; in thorough runs each is compiled."""
    return "eager" if compiled or THOROUGH else "off"


def is_compiled(name: str, dtype: str) -> bool:
    """Whether a function is compiled for a dtype: one of a kind, and of the others every fourth,
    which one depends on the function."""
    return dtype in tuple("?ldF") or zlib.crc32(f"{name} {dtype}".encode()) % 4 == 0


def one_compiled(cases: Iterable[T]) -> Iterator[T]:
    """The first of these cases is compiled, the others run block by block.

    For cases that differ in dtype, shape or order: how each is compiled is tested in other places.
    """
    for number, case in enumerate(cases):
        with npaccel.config(tiering=tiering(number == 0)):
            yield case


def run(function: Callable[..., Any], arguments: Sequence[Any]) -> Outcome:
    """Call and evaluate, keeping whatever happens."""
    value, error = None, None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            value = function(*arguments)
            npaccel.evaluate()
        except ERRORS as cause:
            error = (type(cause), str(cause))
    seen = [(w.category, str(w.message), w.filename, w.lineno) for w in caught]
    return Outcome(value, error, sorted(seen, key=repr), arguments)


def check(
    function: Callable[..., Any],
    make: Callable[[], Sequence[Any]],
    *,
    ulp: Ulp = 0,
    strides: bool = True,
    modes: Sequence[Mode] = (WRAPPED, PENDING),
    quirks: str | None = None,
) -> None:
    """Compare `function(*make())` with the same on npaccel arrays.

    Parameters
    ----------
    make : makes the arguments anew, always the same ones.
    ulp : allowed difference of floats, in units of the last place; or of floats and of complex
        numbers, of these in units of the last place of their size.
    strides : whether results must have NumPy's strides.
    quirks : begin of warnings that are left out: whether NumPy gives them depends on its build.
    """
    for mode in modes:
        expected = run(function, each_array(tuple(make()), mode.plain))
        got = run(function, each_array(tuple(make()), mode.ours))
        where = f"{mode.name} {describe(make())}"
        assert got.error == expected.error, f"{where}: {got.error} is not {expected.error}"
        ours, theirs = _without(quirks, got), _without(quirks, expected)
        assert ours == theirs, f"{where}: {ours} is not {theirs}"
        same(got.value, expected.value, ulp, strides, where)
        pairs = zip(got.arguments, expected.arguments, strict=True)
        for position, (ours, theirs) in enumerate(pairs):
            same(ours, theirs, ulp, False, f"argument {position}, {where}")


def _without(quirks: str | None, outcome: Outcome) -> list[Any]:
    return [w for w in outcome.warnings if quirks is None or not w[1].startswith(quirks)]


def describe(arguments: Sequence[Any]) -> str:
    """Arguments in short, for the message of a failure."""
    parts = []
    for value in arguments:
        if isinstance(value, np.ndarray):
            parts.append(f"{value.dtype}{value.shape}/{value.strides}")
        else:
            parts.append(repr(value)[:60])
    return ", ".join(parts)


def same(got: Any, expected: Any, ulp: Ulp, strides: bool, where: str) -> None:
    """Assert that two results cannot be told apart but by their class being npaccel's."""
    if isinstance(expected, list | tuple):
        assert type(got) is type(expected), where
        assert len(got) == len(expected), where
        for ours, theirs in zip(got, expected, strict=True):
            same(ours, theirs, ulp, strides, where)
    elif isinstance(expected, np.ndarray):
        assert isinstance(got, np.ndarray), (where, type(got))
        assert got.dtype == expected.dtype, where
        assert got.shape == expected.shape, where
        if strides and expected.size > 1:
            assert _moving(got) == _moving(expected), where
        assert got.flags.writeable == expected.flags.writeable, where
        _same_values(np.array(got), np.array(expected), ulp, where)
    else:
        assert type(got) is type(expected), (where, type(got), type(expected))
        if isinstance(expected, np.generic):
            _same_values(np.array(got), np.array(expected), ulp, where)
        else:
            assert got == expected or (is_nan(got) and is_nan(expected)), where


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _moving(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    return tuple(s for s, n in zip(array.strides, array.shape, strict=True) if n > 1)


def _same_values(
    got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], ulp: Ulp, where: str
) -> None:
    kind = expected.dtype.kind
    if kind == "c" and isinstance(ulp, tuple):
        _same_numbers(got, expected, ulp[1], where)
        return
    ulp = ulp[0] if isinstance(ulp, tuple) else ulp
    if kind == "c":
        _same_values(got.real.copy(), expected.real.copy(), ulp, where)
        _same_values(got.imag.copy(), expected.imag.copy(), ulp, where)
        return
    if kind == "O":  # a NaN is not equal to itself
        assert got.shape == expected.shape, where
        assert list(map(repr, got.ravel())) == list(map(repr, expected.ravel())), where
        return
    if kind != "f" or not expected.dtype.isnative or expected.dtype.char == "g":
        equal = np.array_equal(got, expected, equal_nan=kind in "fmM")
        assert equal, f"{where}: {got!r} is not {expected!r}"
        return
    nan = np.isnan(expected)
    assert np.array_equal(np.isnan(got), nan), f"{where}: {got!r} is not {expected!r}"
    order_got, order_expected = _ordered(got), _ordered(expected)
    apart = np.where(nan, 0.0, np.abs(order_got - order_expected))
    # One step lies between -0.0 and 0.0 too, so an exact comparison tells them apart.
    assert (apart <= ulp).all(), f"{where}: {got!r} is not {expected!r} ({apart.max()} ulp)"


def _same_numbers(
    got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], ulp: int, where: str
) -> None:
    """Of complex numbers that are off by what an exponent is off: over- and underflows have no
    sign."""
    for ours, theirs in ((got.real, expected.real), (got.imag, expected.imag)):
        assert np.array_equal(np.isnan(ours), np.isnan(theirs)), f"{where}: {got!r}, {expected!r}"
    size = np.abs(expected)
    there = np.isfinite(size)
    assert np.array_equal(np.isfinite(np.abs(got)), there), f"{where}: {got!r}, {expected!r}"
    apart = np.abs(got[there] - expected[there]) / np.spacing(size[there])
    assert (apart <= ulp).all(), f"{where}: {got!r} is not {expected!r} ({apart.max()} ulp)"


def _ordered(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Floats as numbers in steps of one unit of the last place (as longdoubles, so exact)."""
    size = values.dtype.itemsize
    bits = np.ascontiguousarray(values).view(f"i{size}").astype(np.longdouble)
    low = np.longdouble(np.iinfo(f"i{size}").min)
    return np.where(bits < 0, low - bits - 1, bits)
