"""Operators on small plain arrays in a block: all that can be seen of results is as outside."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any

import numpy as np
import pytest

from .comparison import Case, all_same
from .operands import (
    BINARY,
    FOREIGN,
    LAYOUTS,
    NUMBERS,
    ODD,
    OPERATORS,
    POINTS,
    UNARY,
    Kind,
    laid_out,
    line,
)

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_in_each_layout(name: str) -> None:
    all_same(
        (f"{dtype} {layout}", OPERATORS[name], laid_out(LAYOUTS[layout], dtype))
        for dtype in "?ilBfdD"
        for layout in LAYOUTS
    )


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_in_each_odd_layout(name: str) -> None:
    all_same(
        (f"{dtype} {layout}", OPERATORS[name], laid_out(ODD[layout], dtype))
        for dtype in "?lfdD"
        for layout in ODD
    )


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_on_each_dtype(name: str) -> None:
    all_same(
        (f"{dtype} {layout}", OPERATORS[name], laid_out(LAYOUTS[layout], dtype))
        for dtype in (*NUMBERS, *FOREIGN)
        for layout in ("line", "block", "one column", "every second", "no elements")
    )


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_on_two_dtypes(name: str) -> None:
    all_same(
        (f"{one} {two}", OPERATORS[name], laid_out(LAYOUTS["line"], one, two))
        for one, two in itertools.product((*"?bilqBLefdgFD", "M8[s]", "m8[s]", "O"), repeat=2)
    )


@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name: str) -> None:
    layouts = LAYOUTS | ODD

    def cases() -> Iterator[Case]:
        for dtype in (*NUMBERS, *FOREIGN):
            for layout in layouts if dtype in "?lBfdD" else ("line", "block", "transposed"):
                make = functools.partial(lambda m: m()[:1], laid_out(layouts[layout], dtype))
                yield f"{dtype} {layout}", UNARY[name], make

    all_same(cases())


class Small(IntEnum):
    TWO = 2


class Int(int):
    pass


class Float(float):
    pass


class Float64(np.float64):
    pass


class Refusing(float):
    __array_ufunc__ = None

    def __radd__(self, other: Any) -> str:
        return "reflected"

    __rmul__ = __rlt__ = __gt__ = __radd__


class Overriding(float):
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        return ufunc.__name__, method, len(inputs), sorted(keywords)


class Reflecting:
    """Given to NumPy's operators as an object, but for its priority."""

    __array_priority__ = 1000.0

    def __radd__(self, other: Any) -> Any:
        return type(self).__name__, type(other).__name__

    __rsub__ = __rmul__ = __eq__ = __lt__ = __gt__ = __radd__  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Reflecting()"


class Unwilling(Reflecting):
    __array_ufunc__ = None


class Handing:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return np.arange(float(POINTS))

    def __repr__(self) -> str:
        return "Handing()"


class Speaking(np.ndarray[Any, Any]):
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        return ufunc.__name__, method, [type(one).__name__ for one in inputs], sorted(keywords)


def of_class(kind: type) -> Array:
    warnings.simplefilter("ignore", PendingDeprecationWarning)  # in `seen`, of matrices
    return np.arange(float(POINTS)).view(kind)


SCALARS: dict[str, Callable[[], Any]] = {
    repr(value): lambda value=value: value  # type: ignore[misc]
    for value in (
        *(
            0,
            1,
            -1,
            2,
            3,
            7,
            -7,
            127,
            128,
            -128,
            255,
            256,
            -129,
            2**31,
            2**63 - 1,
            2**63,
            2**64 - 1,
        ),
        *(
            -(2**63),
            -(2**63) - 1,
            2**64,
            2**24 + 1,
            2**53 + 1,
            2**60 + 2**36 + 1,
            10**30,
            -(10**30),
        ),
        *(10**39, 10**400),
        *(0.0, -0.0, 1.0, 0.1, -2.5, 1e300, -1e300, 1e39, 1e-40, 1e-310, 5e-324, 16777217.0),
        *(float("nan"), float("inf"), -float("inf"), 3.4028235677973366e38, 3.5e38),
        *(True, False, 1j, 2 - 0.5j, complex("nan+1j"), complex("inf"), 1e39j, None, "a", b"a", ()),
        *([1.0], [1, 2], [None], (1.5,), {"a": 1}, ..., NotImplemented, Small.TWO),
        *(np.float64(0.1), np.float32(0.1), np.float16(0.1), np.longdouble(1) / 3, np.int64(3)),
        *(np.int32(3), np.uint8(200), np.uint64(2**64 - 1), np.longlong(3), np.bool_(True)),
        *(np.complex64(1j), np.complex128(1 + 2j), np.str_("a"), np.bytes_(b"a")),
        *(np.datetime64(3, "s"), np.timedelta64(3, "s"), np.timedelta64("NaT", "s")),
        np.void(b"abc"),
    )
} | {
    "int": lambda: Int(3),
    "float": lambda: Float(0.1),
    "float64": lambda: Float64(0.1),
    "refusing": lambda: Refusing(2.0),
    "overriding": lambda: Overriding(2.0),
    "reflecting": Reflecting,
    "unwilling": Unwilling,
    "handing": Handing,
    "ones": lambda: [1.0] * POINTS,
    "matrix": lambda: of_class(np.matrix),
    "masked": lambda: np.ma.MaskedArray(np.arange(float(POINTS)), np.arange(POINTS) % 3 == 0),
    "subclass": lambda: of_class(Kind),
    "speaking": lambda: of_class(Speaking),
    "record": lambda: of_class(np.recarray),
}


def takes_long(name: str, dtype: str, scalar: str) -> bool:
    """Whether NumPy has Python's own numbers grow without bound."""
    digits = len(scalar.lstrip("-")) if scalar.lstrip("-").isdigit() else 0
    if "pow" in name:
        return dtype == "O" or (dtype not in "efdgFDG" and digits > 17)
    return "shift" in name and (dtype == "O" or digits > 17)


def is_numpys_defect(name: str, dtype: str, scalar: str) -> bool:
    """NumPy 2.0 ends the process where bits of long doubles are to be combined with objects. Up to
    2.2 its power leaves an error behind for times, raised instead of its own in a block."""
    version = tuple(map(int, np.__version__.split(".")[:2]))
    bits = any(word in name for word in ("shift", "and", "or"))  # xor, too
    if version < (2, 1) and bits and dtype in "gG":
        return True
    return version < (2, 3) and "pow" in name and "timedelta64" in scalar


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", OPERATORS)
def test_operator_with_what_is_no_array(name: str) -> None:
    def cases() -> Iterator[Case]:
        for dtype in (*"?bBilLqefdgFD", "M8[s]", "O"):
            for scalar, value in SCALARS.items():
                if takes_long(name, dtype, scalar) or is_numpys_defect(name, dtype, scalar):
                    continue

                def make(dtype: str = dtype, value: Callable[[], Any] = value) -> tuple[Any, ...]:
                    return line(dtype), value()

                yield f"{dtype} {scalar}", OPERATORS[name], make
                if name in BINARY:
                    yield f"{scalar} {dtype}", OPERATORS[name], lambda m=make: m()[::-1]

    with np.errstate(all="warn"):
        all_same(cases(), times=1)


ENDS = ("add", "mul", "lt", "eq", "floordiv", "and_", "iadd")


def test_numbers_that_fit_at_each_end() -> None:
    """Integers around the limits of each dtype, as the second and the first operand."""

    def cases() -> Iterator[Case]:
        for dtype in "bhilqBHILQ":
            info = np.iinfo(dtype)
            for limit, step in itertools.product((info.min, info.max), (-1, 0, 1)):
                for name in ENDS:

                    def make(dtype: str = dtype, n: int = limit + step) -> tuple[Any, ...]:
                        return line(dtype), n

                    yield f"{dtype} {name} {limit + step}", OPERATORS[name], make

    all_same(cases())
