"""The sign of a NaN is NumPy's, whoever computes it: a kernel, NumPy's loops, or a touch.

Not where two NaNs of different signs meet in one operation: NumPy has no answer of its own there.
Compared is what NumPy makes of contiguous arrays: its other loops call the C library, whose NaNs
may have another sign.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import npaccel
from npaccel import _native
from npaccel.ir.ops import OPS

NEGATIVE = np.copysign(np.nan, -1.0)
VALUES = [0.0, -0.0, 1.0, -1.0, 2.0, -2.5, 0.3, -0.5, 3.0, 5.0, np.inf, -np.inf, np.nan, NEGATIVE]
PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf]
TIMES = 5  # each combination, in as many lanes of a vector
REAL, COMPLEX = ("f2", "f4", "f8"), ("c8", "c16")


def makes_floats(name: str) -> bool:
    ufunc = getattr(np, name, None)
    if not isinstance(ufunc, np.ufunc) or any(loop.startswith("?") for loop in ufunc.types[-1:]):
        return False
    last = np.ones(1, "i4" if name == "ldexp" else "f8")
    with np.errstate(all="ignore"):
        results = ufunc(*[np.ones(1)] * (ufunc.nin - 1), last)
    return (results[0] if isinstance(results, tuple) else results).dtype.kind == "f"


NAMES = sorted({op.name for op in OPS if set(op.kinds) & set("fc") and makes_floats(op.name)})


# Compilers of drivers fold negations as they like.
FOLDS = npaccel.config.backend.startswith("opencl")


@pytest.fixture(autouse=True)
def silence() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def combinations(count: int, dtype: str) -> list[np.ndarray]:
    """Operands: special values, each with each, and among other numbers of each vector."""
    values = np.array(VALUES, dtype if dtype[0] == "f" else "f8")
    if dtype[0] == "c":
        values = np.array([complex(*parts) for parts in itertools.product(PARTS, PARTS)])
    grid = np.meshgrid(*[values.astype(dtype)] * count, indexing="ij")
    ones = [np.ones(k, dtype) for k in range(TIMES)]  # other numbers of a vector
    return [np.concatenate([x for k in ones for x in (g.ravel(), k)]) for g in grid]


def undecided(operands: list[np.ndarray]) -> np.ndarray:
    """Where two NaNs of different signs are among them."""
    if operands[0].dtype.kind == "c":
        return np.zeros(operands[0].shape, bool)
    if FOLDS:
        return np.logical_or.reduce([np.isnan(x) for x in operands])
    found = np.zeros(operands[0].shape, bool)
    for x, y in itertools.combinations(operands, 2):
        found |= np.isnan(x) & np.isnan(y) & (np.signbit(x) != np.signbit(y))
    return found


def signs(results: object) -> list[np.ndarray]:
    """Per real part of each result: 0 no NaN, 1 a positive one, 2 a negative one."""
    parts = []
    for result in results if isinstance(results, tuple) else (results,):
        plain = np.array(result)
        if plain.dtype.kind not in "fc":
            continue
        for part in (plain.real, plain.imag) if plain.dtype.kind == "c" else (plain,):
            parts.append(np.where(np.isnan(part), 1 + np.signbit(part), 0))
    return parts


def evaluated(results: object) -> object:
    return npaccel.evaluate(results)


def touched(results: object) -> object:
    several = isinstance(results, tuple)
    raw = [_native.view_plain(x) for x in (results if several else (results,))]
    return tuple(x.copy() for x in raw) if several else raw[0].copy()


READERS: dict[str, Callable[[object], object]] = {"evaluated": evaluated, "touched": touched}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", NAMES)
def test_one_operation(name: str, reader: str) -> None:
    ufunc, compared = getattr(np, name), 0
    for dtype in (*REAL, *COMPLEX):
        operands = combinations(ufunc.nin, dtype)
        if name == "ldexp":
            operands[1] = np.where(np.isfinite(operands[1].real), operands[1].real, 0).astype("i4")
        try:
            want = signs(ufunc(*operands))
        except TypeError:
            continue
        results = READERS[reader](ufunc(*map(npaccel.asarray, operands)))
        skipped = undecided(operands)
        for ours, theirs in zip(signs(results), want, strict=True):
            wrong = (ours != theirs) & ~skipped
            example = [x[wrong][:3] for x in operands]
            assert not wrong.any(), (dtype, example, ours[wrong][:3], theirs[wrong][:3])
            compared += ours.size
    assert compared


PROGRAMS: dict[str, Callable[..., np.ndarray]] = {
    "-(x*y)": lambda x, y: -(x * y),
    "-(x*2)": lambda x, y: -(x * 2.0),
    "-(x/y)": lambda x, y: -(x / y),
    "-(2/x)": lambda x, y: -(2.0 / x),
    "x + -y": lambda x, y: x + -y,
    "x - -y": lambda x, y: x - -y,
    "-x * -y": lambda x, y: -x * -y,
    "-x squared": lambda x, y: (-x) ** 2,
    "-(x-1)": lambda x, y: -(x - 1.0),
    "x / -1": lambda x, y: x / -1.0,
    "x * -1": lambda x, y: x * -1.0,
    "|-x * y|": lambda x, y: abs(-x * y),
    "-(x-y) + 1": lambda x, y: 1.0 + -(x - y),
    "cube": lambda x, y: x**3,
    "float_power": lambda x, y: np.float_power(x, 3.0),
    "root": lambda x, y: np.power(x, 0.5),
    "fraction": lambda x, y: x**2.5,
    "narrowed": lambda x, y: (x + 1.0).astype("f2"),
    "conjugate": lambda x, y: np.conjugate(x * 1j + y),
    "where": lambda x, y: np.where(y > 0, -x, np.log(y)),
    "log of a remainder": lambda x, y: np.log(np.remainder(x, y)),
}


@pytest.mark.skipif(FOLDS, reason="what is folded is the driver's compiler's choice")
@pytest.mark.parametrize("program", PROGRAMS)
def test_operations_in_one_kernel(program: str) -> None:
    """Compilers fold a negation into what is around it, where a NaN shows it."""
    for dtype in REAL:
        x, y = combinations(2, dtype)
        mixed = ~undecided([x, y])
        x, y = x[mixed], y[mixed]
        one = np.isnan(x) & np.isnan(y)  # nor may two that the program makes meet
        x, y = x[~one], y[~one]
        want = signs(PROGRAMS[program](x, y))
        have = signs(npaccel.evaluate(PROGRAMS[program](npaccel.asarray(x), npaccel.asarray(y))))
        for ours, theirs in zip(have, want, strict=True):
            wrong = ours != theirs
            assert not wrong.any(), (dtype, x[wrong][:3], y[wrong][:3], theirs[wrong][:3])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("fold", [np.add, np.multiply, np.fmax, np.fmin])
@pytest.mark.parametrize("kind", ["reduce", "accumulate"])
def test_folds(fold: np.ufunc, kind: str) -> None:
    for specials, dtype in itertools.product(
        ([np.nan], [NEGATIVE], [np.inf, -np.inf], [0.0, np.inf]), REAL
    ):
        x = np.ones((40, 9), dtype)
        x.flat[7 : 7 + 13 * len(specials) : 13] = specials
        for axis in (0, 1):
            want = signs(getattr(fold, kind)(x, axis=axis))
            have = signs(npaccel.evaluate(getattr(fold, kind)(npaccel.asarray(x), axis=axis)))
            assert np.array_equal(have, want), (specials, dtype, axis)
