"""Small folds and the commonest functions in a block: what NumPy gives, in every respect."""

from __future__ import annotations

import itertools
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import npaccel
from npaccel import _native

from ..differential import DTYPES, ERRORS, FOREIGN, THOROUGH, edge_values
from .comparison import hearing

Anything = Any
Fold = Callable[[Anything], Anything]


def described(value: Anything) -> Anything:
    """All that can be seen of a result; two that are equal cannot be told apart."""
    if isinstance(value, np.ma.MaskedArray):
        return type(value), described(value.data), described(np.ma.getmaskarray(value))
    if isinstance(value, np.ndarray):
        padded = value.dtype.char in "OGg"  # objects are compared; long doubles have unused bytes
        kept = repr(value.tolist()) if padded else value.tobytes()
        flags = value.flags.num
        return type(value), value.dtype.str, value.shape, value.strides, flags, kept
    if isinstance(value, np.generic):
        kept = repr(value) if value.dtype.char in "Gg" else value.tobytes()
        return type(value), value.dtype.str, kept
    return type(value), repr(value)


def outcomes(function: Fold, operand: Anything) -> list[Anything]:
    """What it gives and warns of: outside, then twice in a block, where the second time memory is
    used again."""
    found = []
    with hearing() as caught:
        found.append(outcome(function, operand, caught))
        with npaccel.accelerate():
            found += [outcome(function, operand, caught) for _ in range(2)]
    return found


def outcome(
    function: Fold, operand: Anything, caught: list[warnings.WarningMessage]
) -> tuple[Anything, list[Anything]]:
    result: Anything
    try:
        result = described(function(operand))
    except ERRORS as error:
        result = type(error), str(error)
    told = [(w.category, str(w.message), w.filename, w.lineno) for w in caught]
    caught.clear()
    return result, told


def same(function: Fold, operand: Anything, where: object = "") -> None:
    """The function gives the same in a block, the first time and when memory is used again."""
    expected, *got = outcomes(function, operand)
    for found in got:
        assert found == expected, (where, found, expected)


class Subclass(np.ndarray[Any, Any]):
    """Nobody's business but NumPy's."""


NUMPYS_FOLDER = os.path.dirname(np.__file__)
METHODS = ("sum", "prod", "max", "min", "any", "all", "mean", "var", "std", "argmax")
AXES: tuple[Any, ...] = ({}, {"axis": None}, *({"axis": k} for k in (0, 1, 2, -1, -2, 7)))
TUPLES: tuple[Any, ...] = ((), (0,), (0, 1), (1, 2), (0, 2), (-1, 0, 1), (1, 1), (0, -9))
AXES += tuple({"axis": axes} for axes in TUPLES)
TYPED = ("sum", "prod", "mean", "var", "std")
FUNCTIONS = ("nanmax", "nanmin")
REDUCING = (np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.logical_or,
            np.logical_and)  # fmt: skip


def folds() -> Iterator[tuple[str, Fold]]:
    for name, axis, keep in itertools.product(METHODS, AXES, ({}, {"keepdims": True})):
        keywords = axis | keep
        label = f"{name} {keywords}"
        yield f"x.{label}", lambda x, n=name, k=keywords: getattr(x, n)(**k)
        yield f"np.{label}", lambda x, n=name, k=keywords: getattr(np, n)(x, **k)
    for name, dtype in itertools.product(TYPED, ("f4", np.float64, float, "e", int, np.dtype("D"))):
        keywords = {"dtype": dtype, "axis": 0} if name in METHODS[::2] else {"dtype": dtype}
        yield f"x.{name} {keywords}", lambda x, n=name, k=keywords: getattr(x, n)(**k)
        yield f"np.{name} {keywords}", lambda x, n=name, k=keywords: getattr(np, n)(x, **k)
    for name, axis, keep in itertools.product(FUNCTIONS, AXES, ({}, {"keepdims": True})):
        keywords = axis | keep
        yield f"np.{name} {keywords}", lambda x, n=name, k=keywords: getattr(np, n)(x, **k)
    for ufunc, axis in itertools.product(REDUCING, AXES):
        yield f"{ufunc} {axis}", lambda x, u=ufunc, k=axis: u.reduce(x, **k)


def layouts(line: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """One array of each way in which elements lie, from at least 120 of them."""
    line = np.resize(line, 120)
    block, cube = line.reshape(10, 12), line.reshape(4, 5, 6)
    bytes_ = np.zeros(line.nbytes + 1, "u1")
    unaligned = bytes_[1:].view(line.dtype) if line.dtype != object else line
    unaligned[...] = line
    frozen = line.copy()
    frozen.flags.writeable = False
    return [
        line,
        line[:1],
        line[:0],
        line[7:8].reshape(()),
        line[::3],
        line[::-1],
        block,
        block.T,
        np.asfortranarray(block),
        block[:, ::2],
        block[::2].T,
        block[::-1],
        block[:, :1],
        block[:1],
        block[:0],
        block[:, :0],
        cube,
        cube.transpose(1, 0, 2),
        cube.transpose(2, 1, 0),
        cube[:, :, ::2],
        cube[:, :1],
        np.broadcast_to(line[:7], (5, 7)),
        np.broadcast_to(line[:5, None], (5, 7)),
        unaligned,
        frozen,
    ]


EVERY = (*DTYPES, "O", "g", ">f8", ">i4", "M8[s]")


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("dtype", EVERY)
def test_folds(dtype: str) -> None:
    """Each call of each dtype, on each layout; of the pairs of both every eighth, but for "d" and
    in `make test-all`."""
    first, step = EVERY.index(dtype), 1 if dtype == "d" or THOROUGH else 8
    operands = layouts(edge_values(dtype))
    for number, (label, function) in enumerate(folds()):
        for operand in operands[(first + number) % step :: step]:
            same(function, operand, (label, operand.shape, operand.strides))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", EVERY)
def test_all_folds(dtype: str) -> None:
    for (label, function), operand in itertools.product(folds(), layouts(edge_values(dtype))):
        same(function, operand, (label, operand.shape, operand.strides))


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("dtype", ("f", "d", "F", "D", "i", "l"))
def test_order_of_sums(dtype: str) -> None:
    """Last bits, over shapes that the loop's pairs and NumPy's buffer divide in many ways."""
    random = np.random.default_rng(5)
    shapes: list[tuple[int, ...]] = [(n,) for n in (1, 7, 8, 9, 127, 128, 129, 1000, 8192, 8193)]
    shapes += [(3, 5), (100, 7), (7, 100), (9, 1000), (1000, 9), (130, 60), (2, 3000), (3000, 2)]
    shapes += [(16_300,), (90, 180), (200, 81)]  # longer than NumPy's buffer
    shapes += [(n,) for n in (24_001, 32_767) if np.dtype(dtype).itemsize <= 8]
    shapes += [(20, 1, 30), (1, 30, 1), (6, 50, 20), (20, 6, 50), (50, 20, 6), (3, 4, 5, 6, 7)]
    for shape in shapes:
        values = random.standard_normal(shape) * 1000
        if np.dtype(dtype).kind == "c":
            values = values + 1j * random.standard_normal(shape)
        x = values.astype(dtype)
        window = x[tuple(slice(n > 1, n - (n > 3)) for n in shape)]
        for operand in (x, x.T, x[..., ::2], x[::2], x[::2].T, window, window.T):
            for name, axis in itertools.product(
                ("sum", "prod", "mean", "var", "std", "max"), (None, *range(x.ndim), *TUPLES[2:5])
            ):
                with np.errstate(all="ignore"):
                    same(
                        lambda a, n=name, k=axis: getattr(a, n)(axis=k),
                        operand,
                        (name, axis, operand.shape, operand.strides),
                    )


@pytest.mark.usefixtures("heard")
def test_signs_and_payloads() -> None:
    """Zeros' signs, and which of several NaNs."""
    nans = np.array([0x7FF8000000000001, 0x7FF8000000000002, 0xFFF8000000000003], "u8").view("d")
    signs = np.array([0.0, -0.0])
    random = np.random.default_rng(6)
    for values, n in itertools.product((nans, signs, np.append(nans, signs)), (1, 2, 5, 17, 100)):
        for _ in range(2):
            line = random.choice(values, n * 4)
            for operand in (line, line.reshape(n, 4), line.reshape(4, n), line[::2]):
                for label, function in folds():
                    # Functions of NumPy's call the methods, but for those without NaNs.
                    method = not label.startswith("np.") or label.startswith("np.nan")
                    if method and "prod" not in label and "multiply" not in label:
                        same(function, operand, label)


WORDS: dict[str, Fold] = {
    "dtype": lambda x: x.sum(dtype="f4"),
    "dtype None": lambda x: x.sum(dtype=None),
    "out": lambda x: x.sum(axis=0, out=np.zeros(x.shape[1:])),
    "initial": lambda x: x.sum(initial=3),
    "initial of max": lambda x: np.max(x, initial=100),
    "where": lambda x: x.sum(where=x > 1),
    "where is true": lambda x: x.sum(where=True),
    "nothing": lambda x: np.sum(x, keepdims=np._NoValue, initial=np._NoValue, where=np._NoValue),
    "nothing to a method": lambda x: x.sum(where=np._NoValue),
    "nothing kept by a method": lambda x: x.max(keepdims=np._NoValue),
    "in place": lambda x: np.sum(x, 0, None, None, True),
    "in place, method": lambda x: x.sum(0, None, None, True),
    "max in place": lambda x: x.max(0, None, True),
    "any in place": lambda x: x.any(0, None, True),
    "any, too many": lambda x: np.any(x, 0, None, True, True),
    "reduce in place": lambda x: np.add.reduce(x, 0, None, None, True),
    "reduce kept": lambda x: np.add.reduce(x, keepdims=True),
    "reduce keepdims=1": lambda x: np.add.reduce(x, keepdims=1),
    "reduce nothing": lambda x: np.add.reduce(x, where=np._NoValue),
    "reduce of a list": lambda x: np.add.reduce(x.tolist()),
    "reduce no array": lambda x: np.add.reduce(),
    "twice": lambda x: x.sum(0, axis=0),
    "axes": lambda x: x.sum(axis=(0, 1)),
    "axis True": lambda x: x.sum(axis=True),
    "axis 1.0": lambda x: x.sum(axis=1.0),
    "axis of NumPy's": lambda x: x.sum(axis=np.int64(1)),
    "axis too large": lambda x: x.sum(axis=2**70),
    "axis -3": lambda x: x.sum(axis=-3),
    "unknown": lambda x: x.sum(axes=0),
    "ddof of a sum": lambda x: x.sum(ddof=1),
    "initial of a mean": lambda x: np.mean(x, initial=np._NoValue),
    "ddof": lambda x: (x.std(ddof=1), np.var(x, axis=0, ddof=2), np.std(x, ddof=1.5)),
    "ddof in place": lambda x: x.std(None, None, None, 1),
    "ddof too large": lambda x: np.std(x, axis=0, ddof=x.shape[0]),
    "ddof beyond": lambda x: np.std(x, ddof=2**80),
    "correction": lambda x: np.std(x, correction=1),
    "mean": lambda x: np.std(x, mean=x.mean(keepdims=True)),
    "by name": lambda x: np.sum(a=x),
    "subclass": lambda x: np.sum(x.view(Subclass)),
    "masked": lambda x: np.ma.masked_greater(x, 2).sum(axis=0),
    "mean of masked": lambda x: np.mean(np.ma.masked_greater(x, 2)),
    "matrix": lambda x: np.mean(np.asmatrix(x), axis=0),
    "nansum": lambda x: (np.nansum(x, axis=0), np.nanmean(x), np.nanstd(x)),
    "list": lambda x: (np.sum(x.tolist()), np.std(x.tolist()), np.argmax(x.tolist())),
    "argmin": lambda x: (np.argmin(x), np.argmin(x, 1), np.argmin(x, axis=-1)),
    "argmax out": lambda x: np.argmax(x, 0, np.zeros(x.shape[1], np.intp)),
    "argmax words": lambda x: np.argmax(x, keepdims=True, axis=0),
}


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("dtype", ("d", "f", "i", "?"))
def test_words(name: str, dtype: str) -> None:
    same(WORDS[name], (np.arange(12).reshape(3, 4) % 7).astype(dtype))


def test_errors_are_told_as_ever() -> None:
    """Once, with the user's line, and as the errstate says."""
    huge, tiny = np.full((20, 3), 1e308), np.full((20, 3), 1e-200)
    mixed = np.array([np.inf, -np.inf, 1.0])
    calls: list[tuple[Fold, Any]] = [
        (lambda x: x.sum(), huge),
        (lambda x: np.sum(x, axis=0), huge),
        (lambda x: x.mean(), huge),
        (lambda x: x.std(), huge),
        (lambda x: x.prod(axis=0), huge),
        (lambda x: x.prod(), tiny),
        (lambda x: np.var(x - 1e-200 * np.arange(3)), tiny),
        (lambda x: x.sum(), mixed),
        (np.std, mixed),
        (lambda x: np.diff(x[:1].repeat(3)), mixed),
        (lambda x: np.outer(x, x), np.array([1e200, 0.0])),
        (lambda x: x.cumsum(), huge),
        (lambda x: np.dot(x[0], x[0]), huge),
        (lambda x: x[0].dot(x[0]), tiny),
        (np.linalg.norm, np.array([1e200, 1.0])),
        (lambda x: x[:0].mean(), mixed),
        (lambda x: x[:0].max(), mixed),
        (lambda x: np.argmax(x[:0]), mixed),
        (lambda x: x.max(), np.array([1.0, np.nan])),
        (lambda x: x.mean(), np.array([5e-324, 0.0, 0.0])),
        (lambda x: x.mean(), np.array([1e-45, 0.0, 0.0], "f")),
    ]
    for state in ("warn", "ignore", "raise"):
        for number, (function, operand) in enumerate(calls):
            with np.errstate(all=state):  # type: ignore[call-overload]
                same(function, operand, (state, number))
    for number, (function, operand) in enumerate(calls):
        same(function, operand, number)


FUNCTIONS: dict[str, Fold] = {
    "where": lambda x: np.where(x > 1, x, x[::-1].copy()),
    "where number": lambda x: (np.where(x > 1, x, 0), np.where(x > 1, 0.5, x)),
    "where numbers": lambda x: (np.where(x > 1, 1, 0), np.where(x > 1, 1, 0.0)),
    "where large numbers": lambda x: (np.where(x > 1, 2**63, 0), np.where(x > 1, 2**63 - 1, 0)),
    "where out of range": lambda x: np.where(x > 1, x, 300),
    "where complex": lambda x: np.where(x > 1, x, 1j),
    "where truth": lambda x: (np.where(x > 1, True, False), np.where(x > 1, x, True)),
    "where broadcast": lambda x: np.where(x > 1, x, x[:1]),
    "where of numbers": lambda x: np.where(x, x, -x if x.dtype != bool else x),
    "where none": lambda x: np.where(x > 1),
    "where scalar": lambda x: np.where(x > 1, x, np.float32(0.1)),
    "where mixed": lambda x: np.where(x > 1, x, np.arange(x.size, dtype="u1").reshape(x.shape)),
    "where order": lambda x: np.where(np.asfortranarray(x) > 1, np.asfortranarray(x), 0),
    "where None": lambda x: np.where(x > 1, x, None),
    "clip": lambda x: (np.clip(x, 1, 3), x.clip(1, 3), np.clip(x, 0.5, 2.5)),
    "clip open": lambda x: (np.clip(x, None, 3), x.clip(1, None), np.clip(x, None, None)),
    "clip words": lambda x: (np.clip(x, a_min=1, a_max=2), x.clip(min=1), np.clip(x, min=1)),
    "clip out of range": lambda x: (np.clip(x, -1000, 1000), np.clip(x, 0, 2**70)),
    "clip crossed": lambda x: np.clip(x, 3, 1),
    "clip arrays": lambda x: (np.clip(x, x, x + x), np.clip(x, x[:1], 5)),
    "clip out": lambda x: np.clip(x, 1, 2, out=x.copy()),
    "clip by nan": lambda x: np.clip(x, np.nan, 2),
    "likes": lambda x: (np.zeros_like(x), np.ones_like(x), np.full_like(x, 3)),
    "likes of a type": lambda x: (np.zeros_like(x, int), np.ones_like(x, dtype="f4")),
    "likes in order": lambda x: (np.zeros_like(x, order="F"), np.ones_like(x.T)),
    "full": lambda x: (np.full_like(x, 2.7), np.full_like(x, True), np.full_like(x, -0.0)),
    "full out of range": lambda x: np.full_like(x, 1000),
    "full of an array": lambda x: np.full_like(x, x),
    "diff": lambda x: (np.diff(x), np.diff(x, axis=0), np.diff(x, 2), np.diff(x, axis=-1)),
    "diff wrong": lambda x: np.diff(x, axis=4),
    "diff words": lambda x: (np.diff(x, prepend=0), np.diff(x, n=0)),
    "diff axis None": lambda x: np.diff(x, axis=None),
    "cumsum": lambda x: (x.cumsum(), np.cumsum(x), x.ravel().cumsum(0), np.cumsum(x, axis=1)),
    "cumsum of a type": lambda x: x.ravel().cumsum(dtype="g"),
    "dot": lambda x: [x.ravel().dot(x.ravel()[k:]) for k in (0, 1)],
    "dot, function": lambda x: [np.dot(x.ravel(), x.ravel()[k:]) for k in (0, 1)],
    "dot of blocks": lambda x: (np.dot(x, x[0]), x.dot(x[0]), np.dot(x.T, x)),
    "dot of others": lambda x: (np.dot(x, 2), np.dot(x[0], x[0].tolist()), x[0, :1].dot(x[0, :1])),
    "dot strided": lambda x: (np.dot(x[:, 0], x[:, 1]), np.dot(x[0], x[0].astype("g"))),
    "dot out": lambda x: np.dot(x, x[0], out=np.zeros(4)),
    "norm": lambda x: [np.linalg.norm(y) for y in (x, x.ravel(), x.ravel()[::2])],
    "norm words": lambda x: (np.linalg.norm(x, axis=0), np.linalg.norm(x.ravel(), 1)),
    "norm kept": lambda x: np.linalg.norm(x.ravel(), keepdims=True),
    "norm along": lambda x: [np.linalg.norm(x, axis=k, keepdims=k > 0) for k in (0, 1, -1)],
    "norm of cubes": lambda x: np.linalg.norm(np.stack((x, x), 1), None, -2),
    "norm wrong": lambda x: np.linalg.norm(x, axis=2),
    "norm of axes": lambda x: (np.linalg.norm(x, axis=(0, 1)), np.linalg.norm(x, 1, 0)),
    "dot of two": lambda x: (np.dot(x, x.T), np.inner(x, x), x[:2].dot(x.T.copy())),
    "dot wrong": lambda x: np.dot(x, x),
    "inner of a vector": lambda x: (np.inner(x, x[0]), np.dot(x, x.T[:, :1].copy())),
    "equal": lambda x: (np.array_equal(x, x.copy()), np.array_equal(x, x[::-1].copy())),
    "equal shapes": lambda x: (np.array_equal(x, x.ravel()), np.array_equal(x, x.tolist())),
    "equal nan": lambda x: np.array_equal(x, x.copy(), equal_nan=True),
    "outer": lambda x: (np.outer(x, x), np.outer(x, x.ravel()[:3]), np.outer(x, 2)),
    "outer of vectors": lambda x: np.outer(x.ravel(), x.ravel()[1:]),
    "roll": lambda x: [np.roll(x.ravel(), k) for k in (0, 1, -1, 5, 100, -101, 2**70)],
    "roll of blocks": lambda x: (np.roll(x, 1), np.roll(x, 1, axis=0), np.roll(x, (1, 2))),
    "roll axis": lambda x: np.roll(x.ravel(), 1, axis=0),
    "roll axes": lambda x: [np.roll(x, k, axis) for k in (0, 1, -7, 10**9) for axis in (0, -1)],
    "roll tuples": lambda x: [np.roll(x, k, (0, 1)) for k in (2, (1, -1), (0, 3))],
    "roll twice": lambda x: [np.roll(x, k, axis=(1, 1)) for k in (1, (2, 3), (2, -2))],
    "roll a cube": lambda x: [np.roll(np.stack((x, x, x)), 1, k) for k in (0, 1, 2, (2, 0))],
    "roll one row": lambda x: [np.roll(x[::2, :3][:1], 1, axis) for axis in (None, 0, 1)],
    "roll wrong": lambda x: np.roll(x, 1, axis=2),
    "roll uneven": lambda x: np.roll(x, (1, 2), (0, 1, 1)),
    "roll others": lambda x: (np.roll(x, np.int8(3), 0), np.roll(x, shift=2), np.roll(x, True)),
    "roll by none": lambda x: np.roll(x, 1.5, 0),
    "concatenate": lambda x: (np.concatenate((x, x)), np.concatenate([x, x, x], axis=-1)),
    "concatenate flat": lambda x: np.concatenate((x, x), axis=None),
    "concatenate mixed": lambda x: np.concatenate((x, x.astype("g"))),
    "concatenate uneven": lambda x: (np.concatenate((x, x[:1])), np.concatenate((x[:2], x))),
    "concatenate wrong": lambda x: np.concatenate((x, x.ravel())),
    "concatenate one": lambda x: np.concatenate((x,)),
    "concatenate none": lambda x: np.concatenate(()),
    "concatenate array": np.concatenate,
    "concatenate words": lambda x: np.concatenate((x, x), dtype="g"),
    "stack": lambda x: [np.stack((x, x), axis=k) for k in (0, 1, -1)],
    "stack vectors": lambda x: (np.stack((x[0], x[1])), np.stack([x[0], x[1]], 1)),
    "stack one": lambda x: (np.stack((x,)), np.stack([x.ravel()]), np.vstack((x[0],))),
    "stack wrong": lambda x: np.stack((x, x[:1])),
    "vstack": lambda x: (np.vstack((x, x)), np.vstack((x[0], x[1])), np.vstack((x, x[0]))),
    "hstack": lambda x: (np.hstack((x, x)), np.hstack((x[0], x[1])), np.hstack([x[:1], x[:1]])),
}


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    for dtype in (*DTYPES, *FOREIGN):
        block = np.resize(edge_values(dtype), 24).reshape(4, 6)
        if dtype not in ("S3", "M8[s]"):
            for operand in (block, block.T, block[:, ::2], block[:, :1], block[:0], block[::-1]):
                same(each(FUNCTIONS[name]), operand, (dtype, operand.shape, operand.strides))


def each(function: Fold) -> Fold:
    """What a function gives, as one value."""

    def described_each(operand: Anything) -> Anything:
        value = function(operand)
        return tuple(map(described, value)) if isinstance(value, tuple | list) else value

    return described_each


SHORT: tuple[Fold, ...] = (
    lambda x: x.sum(),
    lambda x: x.max(axis=0),
    lambda x: x.mean(axis=-1, keepdims=True),
    lambda x: np.sum(x, axis=1),
    lambda x: np.any(x > 1),
    lambda x: (x > 1).sum(),
    lambda x: x.astype(int).mean(),
    lambda x: np.std(x, axis=0, ddof=1),
    lambda x: np.clip(x, 0, 1),
    lambda x: np.where(x > 1, x, 0),
    lambda x: np.roll(x[0], 1),
    lambda x: np.stack([x, x]),
    lambda x: np.diff(x, axis=0),
    lambda x: np.roll(x, (1, -1), axis=(0, 1)),
    lambda x: np.linalg.norm(x[0]),
    lambda x: np.linalg.norm(x, axis=1),
    lambda x: np.convolve(x[0], x[1], "same"),
    lambda x: np.argmax(x, axis=1),
    lambda x: x[:2, 1:3].mean(),
    lambda x: x[1:, 1:].std(),
    lambda x: x[1:, 1:].max(),
    np.zeros_like,
    np.cumsum,
)


@pytest.mark.skipif(not _native.guarded(), reason="without the guard all is NumPy's")
@pytest.mark.parametrize("number", range(len(SHORT)))
def test_no_code_of_numpys_runs(number: int) -> None:
    """The common cases are done without NumPy's Python code."""
    seen: list[str] = []

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen.append(frame.f_code.co_filename)

    x = np.arange(12.0).reshape(3, 4)
    with npaccel.accelerate():
        before = sys.getprofile()
        sys.setprofile(look)
        try:
            SHORT[number](x)
        finally:
            sys.setprofile(before)
    assert not [name for name in seen if name.startswith(NUMPYS_FOLDER)]


def test_results_own_what_numpys_own() -> None:
    """A rolled array is a view of another one, as NumPy's is; the others are nobody's."""
    x = np.arange(6.0)
    with npaccel.accelerate():
        rolled, stacked = np.roll(x, 1), np.stack((x, x))
        assert isinstance(rolled.base, np.ndarray)
        assert stacked.base is None
        rolled[0] = 9
        stacked[0, 0] = 9
    assert x.tolist() == [0, 1, 2, 3, 4, 5]


def test_views_of_what_is_pending() -> None:
    """A small view of a large result that is not computed yet."""
    large = np.arange(200_000.0)
    with npaccel.accelerate():
        row = (large + 1)[:6]
        assert row.sum() == 21
        assert np.max((large + 2)[:6]) == 7
        assert np.diff((large * 2)[:3]).tolist() == [2, 2]
        assert np.concatenate([(large * 2)[:2], large[:1]]).tolist() == [0, 2, 0]


@pytest.mark.skipif(not _native.guarded(), reason="without the guard all is NumPy's")
def test_nothing_is_left_behind() -> None:
    """After the last block everything is NumPy's own."""
    before = npaccel._native.redirected()
    with npaccel.accelerate():
        assert npaccel._native.redirected() != before
    assert npaccel._native.redirected() == before


@pytest.mark.parametrize("size", [1, 63, 64, 65, 4097, 300_001, (16 << 20) + 70_000])
def test_truth_values_that_end_where_the_answer_is_known(size: int) -> None:
    """Wherever the one that decides lies, and whatever stands for true."""
    for usual in (False, True):
        x = np.full(size, usual)
        for place in {0, size // 3, size - 1, None}:
            if place is not None:
                x[place] = not usual
            for name in ("any", "all", "max", "min"):
                same(lambda a, n=name: getattr(a, n)(), x, (size, usual, place, name))
                same(getattr(np, name), x, (size, usual, place, name))
            x[:] = usual
    y = np.zeros(size, "u1").view(bool)
    y.view("u1")[-1] = 2
    for name in ("any", "all"):
        same(lambda a, n=name: getattr(a, n)(), y, (size, name))


def test_truth_values_of_any_layout() -> None:
    rng = np.random.default_rng(0)
    for share in (0.0, 0.5, 1.0):
        x = rng.random((600, 700)) < share
        for a in (x, x.T, x[::2], x[:, ::3], x[::-1], x[:0], x.reshape(2, 300, 700)):
            for name in ("any", "all", "max", "min"):
                same(lambda a, n=name: getattr(a, n)(), a)
                same(lambda a, n=name: getattr(a, n)(axis=(0, 1)), a)
                same(lambda a, n=name: getattr(a, n)(initial=True), a)
        with npaccel.accelerate():
            found = npaccel.asarray(x * 1.0) > 0.5
            assert found.any() == x.any()
            assert found.all() == x.all()


def test_windows_that_overlap() -> None:
    """NumPy takes their elements in an order of its own."""
    rng = np.random.default_rng(1)
    for _ in range(80):
        n, width = int(rng.integers(10, 200)), int(rng.integers(2, 40))
        x = rng.normal(size=n + width) * 10.0 ** rng.integers(-3, 3, n + width)
        windows = sliding_window_view(x, width)
        for a in (windows, windows[::2], windows.T, windows[1:-1, 1:]):
            same(lambda a: (a.sum(), a.mean(), a.max()), a, a.shape)
