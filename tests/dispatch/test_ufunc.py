"""Every ufunc on every dtype: values, result types, memory order, errors and warnings.

Each ufunc is compiled for one dtype of each kind and for some of the others, those with long
kernels for dtypes of floats, for all edge values at once. How operands of several types are
converted, and orders in memory, are the same for all ufuncs: some are compiled with them, the
others run block by block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel

from .differential import (
    DTYPES,
    FOREIGN,
    PENDING,
    WRAPPED,
    Ulp,
    check,
    edge_values,
    is_compiled,
    shapes,
    tiering,
)

UFUNCS = {
    function.__name__: function
    for function in (getattr(np, name) for name in sorted(dir(np)))
    if isinstance(function, np.ufunc) and function.signature is None
}
UNARY = sorted(name for name, function in UFUNCS.items() if function.nin == 1)
BINARY = sorted(name for name, function in UFUNCS.items() if function.nin == 2)

# Bit for bit NumPy's; all others may differ where the promise is a bound instead.
EXACT = frozenset(
    """absolute add bitwise_and bitwise_count bitwise_or bitwise_xor ceil conjugate copysign deg2rad
    degrees divide divmod equal fabs floor floor_divide fmax fmin fmod frexp greater
    greater_equal heaviside invert isfinite isinf isnan ldexp left_shift less less_equal logical_and
    logical_not logical_or logical_xor maximum minimum modf multiply negative nextafter not_equal
    positive rad2deg radians reciprocal remainder right_shift rint sign signbit spacing sqrt square
    subtract trunc""".split()  # noqa: SIM905
)


# Whether these are the loops that NumPy has here.
FEATURES = np._core._multiarray_umath.__cpu_features__
NUMPYS_AVX2 = FEATURES.get("AVX2", False) and not any(
    there for name, there in FEATURES.items() if name.startswith(("AVX512", "X86_V4"))
)
# NumPy's powers of complex numbers are off by as many units as y log(x) is large.
POWERS = (4, 1 << 15)


def ulp_of(name: str, *operands: Any) -> Ulp:
    """Of complex roots, too, there is a bound."""
    if name == "power":
        return POWERS
    if name in ("fmax", "fmin") and NUMPYS_AVX2:
        return 1  # of zeros of two signs these take the last one, and the first at a vector's end
    inexact = name == "sqrt" and any(map(np.iscomplexobj, operands))
    return 0 if name in EXACT and not inexact else 4


# Kernels of others are long. How integers become floats and scalars take part is the same for all.
FLOATS = "?lefdFD"


# Of one and of two inputs, with one result and with two, by a function and without: what differs
# between kernels of several shapes and types.
COMPILED = frozenset("sqrt sin frexp add less divmod".split())  # noqa: SIM905


def line_of(dtype: str) -> tuple[Any]:
    return (edge_values(dtype),)


def unary_shapes(name: str) -> Iterator[tuple[Any]]:
    for dtype in DTYPES:
        if name in EXACT or dtype in FLOATS:
            chosen = shapes(dtype)
            for array in chosen[1:] if dtype in "dlF" else (chosen[3], chosen[6]):
                yield (array,)


def check_all(name: str, cases: Iterable[tuple[Any, ...]], quirks: str | None = None) -> None:
    for operands in cases:
        ulp = ulp_of(name, *operands) if len(operands) == 1 else ulp_of(name)
        check(UFUNCS[name], lambda o=operands: o, ulp=ulp, modes=(PENDING,), quirks=quirks)


def check_lines(
    name: str, lines: Callable[[str], tuple[Any, ...]], dtypes: Iterable[str], quirks: str | None
) -> None:
    for dtype in dtypes:
        compiled = (name in EXACT or dtype in FLOATS) and is_compiled(name, dtype)
        with npaccel.config(tiering=tiering(compiled)):
            check_all(name, [lines(dtype)], quirks)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    check_lines(name, line_of, (*DTYPES, *FOREIGN), None)
    with npaccel.config(tiering=tiering(name in COMPILED)):
        check_all(name, unary_shapes(name))
    for dtype in "?lfdF":
        line = edge_values(dtype)
        with npaccel.config(tiering=tiering(dtype == "f")):
            check(UFUNCS[name], lambda x=line: (x,), ulp=ulp_of(name, line), modes=(WRAPPED,))


# How numbers of Python and NumPy take part depends on the kind, and for integers on the limits.
OF_A_KIND = "?bLefdF"
SCALARS = (2, -1, 1.5, True, 1j, 300, np.float32(2.5), np.int8(3), 10**30)


def scalar_operands(name: str, dtypes: str) -> Iterator[tuple[Any, Any]]:
    for dtype in dtypes:
        if name in EXACT or dtype in FLOATS:
            for scalar in SCALARS:
                yield edge_values(dtype), scalar


def lines_of(dtype: str) -> tuple[Any, Any]:
    line = edge_values(dtype)
    return line, line[::-1]


def binary_operands(name: str) -> Iterator[tuple[Any, Any]]:
    yield from scalar_operands(name, OF_A_KIND)
    for dtype in DTYPES:
        if name in EXACT or dtype in FLOATS:
            line = edge_values(dtype)
            yield 2, line
            yield line, edge_values("d")
            yield edge_values("b"), line
    block = shapes("d")[5]
    for first in shapes("d")[3:]:
        yield first, np.float64(2)
        yield block, block.T[:1, :1]
    yield block, block[0]
    yield block, block[:, :1]
    yield block.T, block[:, 0]
    yield block, block[:4]  # does not broadcast
    yield block, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    yield np.empty((0, 3)), np.ones(3)
    for dtype in FOREIGN:
        yield edge_values(dtype), edge_values(dtype)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str) -> None:
    # With infinite exponents NumPy's vectorised power raises flags that IEEE 754 does not know.
    quirks = "divide by zero" if name in ("power", "float_power") else None
    check_lines(name, lines_of, DTYPES, quirks)
    with npaccel.config(tiering=tiering(name in COMPILED)):
        check_all(name, binary_operands(name), quirks)
    line = edge_values("f")
    check(UFUNCS[name], lambda: (line, line[::-1]), ulp=ulp_of(name), modes=(WRAPPED,))


@pytest.mark.slow
@pytest.mark.parametrize("name", BINARY)
def test_other_dtypes_and_numbers(name: str) -> None:
    quirks = "divide by zero" if name in ("power", "float_power") else None
    others = "".join(dtype for dtype in DTYPES if dtype not in OF_A_KIND)
    check_all(name, scalar_operands(name, others), quirks)


@pytest.mark.parametrize("name", ["power", "float_power"])
@pytest.mark.parametrize("dtype", ["f", "d"])
def test_poles_of_powers(name: str, dtype: str) -> None:
    """With finite exponents every warning counts."""
    x = np.array([0.0, -0.0, 0.0, 2.0, -2.0, 3.0, 1e30, 0.5], dtype)
    y = np.array([-1.0, -3.0, 2.0, 0.5, 0.5, -1.0, 9.0, 4.0], dtype)
    for k in range(len(x)):
        part = slice(k, k + 1)
        check(UFUNCS[name], lambda p=part: (x[p].copy(), y[p].copy()), ulp=ulp_of(name))


OPERATORS = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "divmod": divmod,
    "**": lambda x, y: x**y,
    "&": lambda x, y: x & y,
    "|": lambda x, y: x | y,
    "^": lambda x, y: x ^ y,
    "<<": lambda x, y: x << y,
    ">>": lambda x, y: x >> y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    ">=": lambda x, y: x >= y,
    ">": lambda x, y: x > y,
}


def powered(x: Any, y: Any) -> Any:
    x **= y
    return x


@pytest.mark.parametrize("dtype", ["?", "b", "l", "L", "e", "f", "d", "F"])
def test_powers_by_one_value(dtype: str) -> None:
    """The dtype and the ufunc depend on the exponent's value, in ways that changed in NumPy 2.3."""
    line = edge_values(dtype)
    for function in (OPERATORS["**"], powered):
        for other in (2.0, np.float64(2), np.int64(2), np.float32(0.5), np.array(2.0), np.array(1)):
            check(function, lambda x=line, y=other: (x.copy(), y), ulp=POWERS, modes=(PENDING,))


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("symbol", OPERATORS)
def test_operator(symbol: str) -> None:
    """The kernels are those of ufuncs."""
    operator, ulp = OPERATORS[symbol], POWERS if symbol == "**" else 0
    for dtype in ("?", "b", "l", "L", "e", "d", "F"):
        line = edge_values(dtype)
        for other in (line[::-1], 2, -1, 0.5, 2.0, True, 1j, np.float32(2), "text", None, [3] * 15):
            check(operator, lambda x=line, y=other: (x, y), ulp=ulp, modes=(PENDING,))
            check(operator, lambda x=other, y=line: (x, y), ulp=ulp, modes=(PENDING,))


def in_place(symbol: str) -> Any:
    space: dict[str, Any] = {}
    exec(f"def run(x, y):\n    x {symbol}= y\n    return x", space)
    return space["run"]


@pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>"])
def test_operator_in_place(symbol: str) -> None:
    """The kernels are those of ufuncs, but that the result lies where an operand does."""
    ulp, run = POWERS if symbol == "**" else 0, in_place(symbol)
    for dtype in ("?", "b", "l", "L", "e", "d", "F"):
        compiled = tiering(symbol == "+" or dtype in ("l", "d"))
        others = ((edge_values(dtype)[::-1], compiled),)
        for y, way in (*others, *((y, "off") for y in (2, 0.5, 1j, edge_values("f")))):
            with npaccel.config(tiering=way):
                check(run, lambda d=dtype, y=y: (edge_values(d), y), ulp=ulp, strides=False)


def test_overlapping_operands_are_as_if_copied_first() -> None:
    def shift(base: Any) -> Any:
        base[1:] += base[:-1]
        np.multiply(base[:-2], base[2:], out=base[1:-1])
        base[::-1] -= base
        return base

    check(shift, lambda: (np.arange(1.0, 40.0),))
    check(shift, lambda: (np.arange(1, 80, dtype="h")[::2],))
    check(shift, lambda: (np.arange(60.0).reshape(6, 10),))


def test_halves_that_lie_apart_and_may_warn() -> None:
    """LLVM 22 ended the process at a gather of halves that it does not optimise."""
    x = np.linspace(0.1, 3, 240).astype("f2").reshape(5, 4, 12)[..., ::2]
    with npaccel.accelerate():
        got, beside = x**2.5, x.copy() ** 2.5
    assert got.tobytes() == beside.tobytes()
    np.testing.assert_allclose(got, x**2.5, rtol=2e-3)
