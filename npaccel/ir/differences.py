"""In what NumPy's loops differ between versions and processors: the loops are asked.

A question is a few words; its answer is a small number, 0 where nothing is special.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any

from npaccel.later import later

if TYPE_CHECKING:
    import numpy as np
else:
    np = later("numpy")

__all__ = [
    "FLIPPED",
    "KEPT",
    "OUTSIDE",
    "POSITIVE",
    "answer",
    "answers",
    "assumed",
    "hold",
    "loops",
]

# What a function of one operand makes of a NaN's sign.
KEPT, POSITIVE, FLIPPED = 0, 1, 2
# Where some functions have no value, of which loops make NaNs of either sign.
OUTSIDE = {"log": -1.0, "log2": -1.0, "log10": -1.0, "arcsin": 2.0, "arccos": 2.0}

# Instead of asking: what a build assumes, which learns from it what was asked.
_ASSUMED: ContextVar[dict[str, int] | None] = ContextVar("_ASSUMED", default=None)


def loops() -> str:
    """What the answers depend on: NumPy's version, and the processor's instructions that it may
    use (the variable NPY_DISABLE_CPU_FEATURES takes some away)."""
    core = import_module("numpy._core._multiarray_umath")
    names = (name for name, used in core.__cpu_features__.items() if used)
    return " ".join([import_module("numpy").__version__, *names])


def answer(question: str) -> int:
    """The answer on this processor, by this NumPy; within `assumed` what is assumed, or 0."""
    given = _ASSUMED.get()
    return _ask(question) if given is None else given.setdefault(question, 0)


@contextlib.contextmanager
def assumed(answers: dict[str, int]) -> Iterator[None]:
    """Within the block these are the answers; what else is asked is added to them, with 0."""
    token = _ASSUMED.set(answers)
    try:
        yield
    finally:
        _ASSUMED.reset(token)


def answers(question: str) -> range:
    """The answers that processors were seen to give."""
    return range(3 if question.startswith("nan arccos ") else 2)


def hold(facts: str) -> bool:
    """Whether questions have these answers: "question=1;another=0"."""
    pairs = [fact.split("=") for fact in facts.split(";")]
    return all(_ask(question) == int(given) for question, given in pairs)


@functools.cache
def _ask(question: str) -> int:
    subject, *details = question.split()
    with np.errstate(all="ignore"):
        return int(_SUBJECTS[subject](*details))


def _nans(dtype: str) -> np.ndarray[Any, Any]:
    """As many as NumPy's vector loops take, a positive and a negative one in turn."""
    return np.array([math.nan, math.copysign(math.nan, -1.0)] * 16, dtype)


def _passed(name: str, dtype: str) -> int:
    """What NumPy's function of that name does with NaNs of that dtype."""
    signs = np.signbit(getattr(np, name)(_nans(dtype)))
    if not signs.any():
        return POSITIVE
    return FLIPPED if signs[0::2].all() and not signs[1::2].any() else KEPT


def _makes_positive(name: str, dtype: str) -> bool:
    """Whether the NaN of a number where the function has no value is a positive one."""
    return not np.signbit(getattr(np, name)(np.full(32, OUTSIDE[name], dtype))).any()


def _flips_odd_powers(name: str, dtype: str, exponent: str) -> bool:
    """Whether that odd power of a negative NaN is a positive one, as glibc has it. NumPy calls no
    power where a quotient or a copy is the same for an exponent of one number, in some versions."""
    one = np.dtype(dtype).type(float(exponent))
    return not np.signbit(getattr(np, name)(_nans(dtype), one)).any()


def _positive_absolute(dtype: str) -> bool:
    """Whether the absolute value of a complex number with negative NaNs is a positive one."""
    x = np.zeros(32, f"c{2 * int(dtype[1:])}")
    x.real = _nans(dtype)
    return not np.signbit(np.absolute(x)).any()


def _absolute_is_quiet() -> bool:
    """Whether NumPy tells no overflow of a complex number's absolute value, as its loop for
    AVX-512."""
    seen: list[str] = []
    large = np.full(16, complex(np.finfo("d").max, np.finfo("d").max))
    with np.errstate(over="call", call=lambda text, _: seen.append(text)):
        np.absolute(large)
    return not seen


def _half_is_root() -> bool:
    """Whether NumPy's power takes a square root for the exponent 0.5, as from 2.3 on."""
    return bool(np.signbit(np.power(np.float64(-0.0), 0.5)))


def _complex_powers_are_products(dtype: str) -> bool:
    """Whether whole powers of complex numbers are products and quotients of which no sum is fused,
    and in which order, as told by the fifth."""
    # Nothing that is drawn: in a block even our own code's draws may be recorded.
    rows = np.array([math.sin(3 * k + 1) * 2 for k in range(128)], dtype).reshape(2, 64)
    z = np.empty(64, f"c{2 * int(dtype[1:])}")
    z.real, z.imag = rows
    square = _product(tuple(rows), tuple(rows))
    fifth = _product(tuple(rows), _product(square, square))
    pairs = (np.power(z, 5), fifth), (np.power(z, -5), _inverse(fifth))
    return all(
        np.array_equal(found.real, made[0]) and np.array_equal(found.imag, made[1])
        for found, made in pairs
    )


def _inverse(x: tuple[Any, ...]) -> tuple[Any, Any]:
    """1 / x, by the larger part of x."""
    wide = abs(x[0]) >= abs(x[1])
    large, small = np.where(wide, *x), np.where(wide, *x[::-1])
    ratio = small / large
    scale = 1 / (large + small * ratio)
    return np.where(wide, 1, ratio) * scale, np.where(wide, -ratio, -1) * scale


def _product(x: tuple[Any, ...], y: tuple[Any, ...]) -> tuple[Any, Any]:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


# Per subject who knows.
_SUBJECTS: dict[str, Callable[..., int]] = {
    "nan": _passed,
    "nan-made": _makes_positive,
    "nan-odd-power": _flips_odd_powers,
    "nan-absolute": _positive_absolute,
    "quiet-absolute": _absolute_is_quiet,
    "half-root": _half_is_root,
    "complex-products": _complex_powers_are_products,
}
