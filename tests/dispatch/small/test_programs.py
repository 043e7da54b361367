"""Programs of random steps on small plain arrays in a block."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import npaccel

from ..differential import edge_values
from .comparison import facts
from .operands import BINARY, IN_PLACE, UNARY

Array = np.ndarray[Any, Any]
SHAPES = [(6,), (2, 3), (3, 2), (1, 6), (6, 1), (3,), (1,), (), (4, 2, 3), (3, 1)]
VIEWS: list[Callable[[Array], Array]] = [
    lambda x: x[1:] if x.ndim else x,
    lambda x: x[..., ::-1] if x.ndim else x,
    lambda x: x[::2] if x.ndim else x,
    lambda x: x.T,
    lambda x: x.reshape(-1),
    lambda x: x[None],
    lambda x: x[0] if x.ndim > 1 and len(x) else x,
    lambda x: x.copy(),
    lambda x: np.broadcast_to(x, (2, *x.shape)) if x.ndim < 4 else x,
    lambda x: x.reshape(x.shape[::-1]),
    lambda x: x.astype("d" if x.dtype != "d" else "f"),
]
NUMBERS_OF_PROGRAMS = [0, 1, 2, -3, 0.5, 2.0, True, 1j, 300, np.float32(0.1), np.float64(3), 10**20]
ONE = [*UNARY.values(), np.sin, np.exp, np.sqrt, np.isfinite, np.logical_not, np.sign, np.floor]
TWO = [*BINARY.values(), np.maximum, np.hypot, np.logical_and, np.arctan2, np.copysign]
CHANGES = list(IN_PLACE.values())
KINDS = ("one", "two", "two", "two", "number", "number", "change", "change", "number change")
REST = ("view", "view", "delete", "delete", "keep", "reshape", "dtype", "freeze")
STEP = st.tuples(
    st.sampled_from((*KINDS, *REST)),
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.integers(0, 1000),
)
POOL = st.lists(
    st.tuples(st.sampled_from("?bilBLfdFD"), st.integers(0, len(SHAPES) - 1)),
    min_size=2,
    max_size=5,
)


def start(dtype: str, shape: tuple[int, ...], seed: int) -> Array:
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape))
    return rng.choice(edge_values(dtype), size).astype(dtype).reshape(shape)


def without_signs_of_nan(value: Any) -> Any:
    """Which of two nan a sum is hangs on the order of operands, which compilers choose."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
        native = value.astype(value.dtype.newbyteorder("="), order="C").reshape(-1)
        parts = native.view(native.real.dtype)
        return (*facts(value)[:6], np.where(np.isnan(parts), 1.25e7, parts).tobytes())
    if isinstance(value, tuple):
        return [without_signs_of_nan(item) for item in value]
    return facts(value)


def act(kind: str, dice: tuple[int, int, int], pool: list[Array], kept: list[Any]) -> Any:
    """One step; the arrays that it makes."""
    i, j, k = dice
    x, y = pool[i % len(pool)], pool[j % len(pool)]
    number = NUMBERS_OF_PROGRAMS[j % len(NUMBERS_OF_PROGRAMS)]
    if kind == "one":
        return ONE[k % len(ONE)](x)
    if kind == "two":
        return TWO[k % len(TWO)](x, y)
    if kind == "number":
        pair = (x, number) if i % 2 else (number, x)
        return TWO[k % len(TWO)](*pair)
    if kind == "change":
        CHANGES[k % len(CHANGES)](x, y)
    elif kind == "number change":
        CHANGES[k % len(CHANGES)](x, number)
    elif kind == "view":
        return VIEWS[k % len(VIEWS)](x)
    elif kind == "delete" and len(pool) > 2:
        del pool[i % len(pool)]
    elif kind == "keep":
        kept.append(memoryview(x))
    elif kind == "reshape":
        x.shape = (-1,)
    elif kind == "dtype":
        x = x.copy()
        x.dtype = x.dtype.newbyteorder()  # type: ignore[misc]
        return x
    elif kind == "freeze":
        x.flags.writeable = False
    return None


def work(pool: list[Array], steps: list[tuple[str, int, int, int]]) -> list[Any]:
    """The program's arrays in the end, and what was said of errors."""
    log: list[Any] = []
    kept: list[Any] = []
    for kind, i, j, k in steps:
        x = pool[i % len(pool)]
        result: Any = None
        try:
            result = act(kind, (i, j, k), pool, kept)
        except Exception as error:
            log.append((type(error), str(error)))
            if "negative integer powers" in str(error) and kind.endswith("change"):
                x[...] = 1  # NumPy leaves what was never computed where it had cast an operand
        del x
        for value in result if isinstance(result, tuple) else (result,):
            if isinstance(value, np.ndarray) and value.size < 500:
                pool.append(value)
                del pool[:-12]
            del value
        del result
    log += [view.tobytes() for view in kept if view.format not in "fdFDZfZd"]
    return [*log, *map(without_signs_of_nan, pool)]


def compare_programs(pool: list[tuple[str, int]], steps: list[tuple[str, int, int, int]]) -> None:
    def begin() -> list[Array]:
        return [start(dtype, SHAPES[shape], k) for k, (dtype, shape) in enumerate(pool)]

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = work(begin(), steps)
        with npaccel.accelerate():
            for _ in range(2):
                assert work(begin(), steps) == expected


@settings(max_examples=150, deadline=None)
@example(  # a reshape to the shape that an array has keeps its strides
    pool=[("?", 4), ("?", 0), ("?", 0)],
    steps=[("one", 0, 0, 0)] * 3 + [("view", 0, 0, 291), ("view", 3, 0, 295)],
)
@given(POOL, st.lists(STEP, min_size=5, max_size=40))
def test_programs(pool: list[tuple[str, int]], steps: list[tuple[str, int, int, int]]) -> None:
    compare_programs(pool, steps)


@pytest.mark.slow
@settings(max_examples=5000, deadline=None)
@given(POOL, st.lists(STEP, min_size=5, max_size=120))
def test_many_programs(pool: list[tuple[str, int]], steps: list[tuple[str, int, int, int]]) -> None:
    compare_programs(pool, steps)
