"""Errors, warnings and errstate of calls on small plain arrays in a block."""

from __future__ import annotations

import functools
import inspect
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

from .comparison import all_same, seen

Array = np.ndarray[Any, Any]


def scaled(dtype: str, factor: float) -> Any:
    return lambda: (np.arange(1, 9).astype(dtype) * np.dtype(dtype).type(factor),)


FLAWED: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "division by 0": (lambda x: x / 0.0, lambda: (np.arange(-2.0, 5.0),)),
    "division of 0": (lambda x: x / x, lambda: (np.zeros(5),)),
    "integer division": (lambda x: x // 0, lambda: (np.arange(5),)),
    "integer remainder": (lambda x: x % 0, lambda: (np.arange(5),)),
    "lowest by -1": (lambda x: x // -1, lambda: (np.full(5, np.iinfo("l").min),)),
    "lowest, absolute": (abs, lambda: (np.full(5, np.iinfo("l").min),)),
    "unsigned division": (lambda x: x // x, lambda: (np.zeros(5, "B"),)),
    "in place": (lambda x: operator.itruediv(x, 0.0), lambda: (np.arange(5.0),)),
    "overflow": (lambda x: x * x, scaled("d", 1e200)),
    "overflow of singles": (lambda x: x + x, scaled("f", 3e37)),
    "overflow of a square": (lambda x: x**2, scaled("d", 1e200)),
    "overflow of a float square": (lambda x: x**2.0, scaled("d", 1e200)),
    "overflow of a power": (lambda x: x**2.5, scaled("d", 1e200)),
    "underflow of a power": (lambda x: x**-2.5, scaled("d", 1e200)),
    "a power of zero": (lambda x: x**-1.5, scaled("d", 0)),
    "a root of what is negative": (lambda x: x**1.5, scaled("d", -1)),
    "overflow of exp": (np.exp, scaled("d", 500.0)),
    "underflow": (lambda x: x * x, scaled("d", 1e-160)),
    "underflow of a number": (lambda x: x * 1e-40, lambda: (np.ones(5, "f"),)),
    "overflow of a number": (lambda x: x * 1e39, lambda: (np.ones(5, "f"),)),
    "underflow of exp": (np.exp, scaled("d", -300.0)),
    "invalid": (lambda x: x - x, lambda: (np.full(5, np.inf),)),
    "invalid sqrt": (np.sqrt, lambda: (np.arange(-3.0, 3.0),)),
    "invalid log": (np.log, lambda: (np.arange(-3.0, 3.0),)),
    "order of nan": (lambda x: x < 1.0, lambda: (np.full(5, np.nan),)),
    "maximum of nan": (lambda x: np.maximum(x, 1.0), lambda: (np.full(5, np.nan),)),
    "remainder of inf": (lambda x: x % 2.0, lambda: (np.full(5, np.inf),)),
    "floor division": (lambda x: x // 0.0, lambda: (np.arange(-1.0, 3.0),)),
    "complex": (lambda x: x / 0, lambda: (np.arange(3) + 1j,)),
    "negative power": (lambda x: x ** np.arange(-2, 3), lambda: (np.arange(5),)),
    "negative number": (lambda x: x**-1, lambda: (np.arange(5),)),
    "many negative powers": (lambda x: x ** np.full(1000, -1), lambda: (np.arange(1000),)),
    "many": (lambda x: x / 0.0, lambda: (np.arange(1000.0),)),
    # Of as many elements as primitives are for.
    "many invalid roots": (np.sqrt, lambda: (np.arange(-20.0, 20.0),)),
    "many remainders": (lambda x: x % 0.0, lambda: (np.arange(40.0),)),
    "many floor divisions": (lambda x: x // 0.0, lambda: (np.arange(-20.0, 20.0),)),
    "many reciprocals": (np.reciprocal, lambda: (np.arange(40.0),)),
    "underflow of many reciprocals": (np.reciprocal, lambda: (np.full(40, 1.7e308),)),
    "underflow of many radians": (np.radians, lambda: (np.full(40, 1e-307),)),
    "overflow of many degrees": (np.degrees, lambda: (np.full(40, 1e308),)),
    "underflow of many quotients": (
        lambda x: x / x[::-1],
        lambda: (np.geomspace(1e-170, 1e170, 40) * 1j,),
    ),
    "underflow of many floor divisions": (lambda x: x // 3.0, lambda: (np.full(40, 5e-324),)),
    "in rows": (lambda x: x[:, :2] / 0.0, lambda: (np.arange(12.0).reshape(4, 3),)),
    "twice": (lambda x: np.log(x / x), lambda: (np.zeros(4),)),
    "nothing wrong": (lambda x: x / 2.0, lambda: (np.arange(5.0),)),
    "subtracting bools": (lambda x: x - x, lambda: (np.ones(4, "?"),)),
    "negative bools": (operator.neg, lambda: (np.ones(4, "?"),)),
    "inverted floats": (operator.invert, lambda: (np.ones(4),)),
    "no str": (lambda x: x + "a", lambda: (np.ones(4),)),
    "no None": (lambda x: x < None, lambda: (np.ones(4),)),
    "shapes": (lambda x: x + x[:2], lambda: (np.ones(4),)),
    "casting": (lambda x: operator.iadd(x, 0.5), lambda: (np.ones(4, "l"),)),
}


def handled(function: Callable[..., Any], mode: str, *operands: Any) -> Any:
    """Under that errstate; with what was called or logged."""
    calls: list[Any] = []

    class Log:
        def write(self, text: str) -> None:
            calls.append(text)

    takes = {"call": lambda text, flag: calls.append((text, flag)), "log": Log()}.get(mode)
    with np.errstate(all=mode, call=takes):  # type: ignore[call-overload]
        return function(*operands), calls


def strict(function: Callable[..., Any], *operands: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return function(*operands)


@pytest.mark.parametrize("mode", ["warn", "ignore", "raise", "call", "log"])
def test_errstate(mode: str) -> None:
    all_same(
        (name, functools.partial(handled, function, mode), make)
        for name, (function, make) in FLAWED.items()
    )


def test_default_errstate_and_warnings_as_errors() -> None:
    all_same((name, function, make) for name, (function, make) in FLAWED.items())
    all_same((name, functools.partial(strict, f), make) for name, (f, make) in FLAWED.items())


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin", "copysign", "sqrt", "sign"])
def test_zeros_and_nans_of_both_signs(name: str) -> None:
    """Which of two zeros stays hangs on its place with NumPy: here, too."""
    f = getattr(np, name)
    pairs = [(0.0, -0.0), (np.nan, -np.nan), (-0.0, np.nan), (np.inf, -np.inf), (1.0, -1.0)]
    cases = []
    for kind in "df":
        for n in (1, 3, 7, 8, 9, 15, 17, 33, 40, 100, 1000):
            for one, other in (*pairs, *(pair[::-1] for pair in pairs)):
                x, y = np.full(n, one, kind), np.full(n, other, kind)
                given = (x, y)[: f.nin]
                label = f"{kind} {n} {one} {other}"
                cases.append((label, lambda *given: f(*given).tobytes(), lambda g=given: g))
    with np.errstate(all="ignore"):
        all_same(cases)


def test_mixed_errstate() -> None:
    def mixed(x: Array) -> Any:
        with np.errstate(divide="raise", invalid="warn"):
            return x / x[::-1].copy()

    all_same([("both", mixed, lambda: (np.array([0.0, 1.0, 0.0]),))])


def test_errors_of_a_callback_pass() -> None:
    def failing(kind: str, flag: int) -> None:
        raise LookupError(kind)

    def divide(x: Array) -> Any:
        with np.errstate(all="call", call=failing):
            return operator.itruediv(x, 0.0)

    all_same([("divide", divide, lambda: (np.arange(4.0),))])


def test_flags_of_before_are_no_matter() -> None:
    """What a call left in the processor's flags is not the next one's."""

    def after(x: Array) -> Any:
        with np.errstate(all="ignore"):
            np.full(3, 1e300) * 1e300
        return x + 1.0, float("1e308") * 10, x * 2.0

    all_same([("after", after, lambda: (np.arange(4.0),))])


def test_warnings_name_the_line() -> None:
    def divide(x: Array) -> Any:
        return x / 0.0

    def root(x: Array) -> Any:
        return np.sqrt(x)

    x = np.array([-1.0, 1.0])
    with npaccel.accelerate():
        for function in (divide, root):
            said = seen(function, (x,))[3]
            expected = inspect.getsourcelines(function)[1] + 1
            assert [(w[0], w[2], w[3]) for w in said] == [(RuntimeWarning, __file__, expected)]


def test_a_traceback_has_the_users_lines_alone() -> None:
    raises = pytest.raises(FloatingPointError)
    with npaccel.accelerate(), np.errstate(all="raise"), raises as caught:
        np.arange(3.0) / 0.0
    assert [entry.name for entry in caught.traceback] == [inspect.stack()[0].function]
