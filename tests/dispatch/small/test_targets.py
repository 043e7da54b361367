"""Results on small plain arrays in a block that are written to arrays which are given."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from .comparison import Case, all_same
from .operands import LAYOUTS, laid_out
from .test_ufuncs import UFUNCS, arguments

Array = np.ndarray[Any, Any]


class Other(np.ndarray[Any, Any]):
    pass


def unaligned(like: Array) -> Array:
    room = np.zeros(like.nbytes + 1, np.uint8)[1:]
    return room.view(like.dtype).reshape(like.shape)


def read_only(like: Array) -> Array:
    made = np.zeros_like(like)
    made.flags.writeable = False
    return made


# What a result may be written to, for a result, of these arguments.
TARGETS: dict[str, Callable[..., Any]] = {
    "new": lambda like, *_: np.empty_like(like),
    "in a tuple": lambda like, *_: (np.empty_like(like),),
    "none": lambda *_: None,
    "the first": lambda _, first, *__: first,
    "the last": lambda _, *arguments: arguments[-1],
    "a view of the first": lambda _, first, *__: first[:],
    "the first backwards": lambda _, first, *__: first[::-1],
    "spread": lambda like, *_: np.zeros((*like.shape, 2), like.dtype)[..., 0],
    "backwards": lambda like, *_: np.zeros_like(like)[::-1],
    "rows apart": lambda like, *_: np.zeros((*like.shape[:-1], like.shape[-1] + 1), like.dtype)[
        ..., 1:
    ],
    "transposed": lambda like, *_: np.zeros(like.shape[::-1], like.dtype).T,
    "of more axes": lambda like, *_: np.zeros((2, *like.shape), like.dtype),
    "too short": lambda like, *_: np.zeros(like[1:].shape, like.dtype),
    "of one place": lambda like, *_: np.lib.stride_tricks.as_strided(
        np.zeros(1, like.dtype), like.shape, (0,) * like.ndim
    ),
    "wider": lambda like, *_: np.zeros(like.shape, "G"),
    "narrower": lambda like, *_: np.zeros(like.shape, "?"),
    "swapped": lambda like, *_: np.zeros(like.shape, like.dtype.newbyteorder()),
    "unaligned": lambda like, *_: unaligned(like),
    "read-only": lambda like, *_: read_only(like),
    "of another class": lambda like, *_: np.zeros_like(like).view(Other),
    "no array": lambda like, *_: like.tolist(),
}


@pytest.mark.parametrize("named", [True, False], ids=["out=", "behind the inputs"])
@pytest.mark.parametrize("target", TARGETS)
def test_results_in_arrays_that_are_given(target: str, named: bool) -> None:
    def call(u: np.ufunc, *arguments: Array) -> Any:
        with np.errstate(all="ignore"):
            like = np.asarray(u(*arguments))
        out = TARGETS[target](like, *arguments)
        return u(*arguments, out=out) if named else u(*arguments, out)

    # NumPy's loops for AVX-512 write other truths where those lie apart.
    apart = target in ("spread", "rows apart")
    wrong = (np.isnan, np.isinf, np.isfinite, np.signbit) if apart else ()

    def cases() -> Iterator[Case]:
        for name, u in UFUNCS.items():
            for dtype, layout in itertools.product("?lfdD", ("line", "every second", "table")):
                if u in wrong and dtype in "fd":
                    continue
                make = laid_out(LAYOUTS[layout], dtype)
                of = functools.partial(call, u)
                yield f"{name} {dtype} {layout}", of, lambda m=make, u=u: arguments(u, *m())

    all_same(cases(), times=1)


@pytest.mark.parametrize("by", [-2, -1, 1, 2, 40])
def test_results_beside_what_is_read(by: int) -> None:
    """Windows on one piece of memory, each of which is read and written."""

    def call(u: np.ufunc, memory: Array) -> Array:
        n = memory.size - 50
        windows = [memory[5 : 5 + n], memory[4 : 4 + n]][: u.nin]
        u(*windows, out=memory[5 + by : 5 + by + n])
        return memory

    def cases() -> Iterator[Case]:
        for u, dtype in itertools.product((np.add, np.negative, np.sqrt, np.maximum), "ldD"):
            if (u is np.sqrt) <= (dtype != "l"):
                made = functools.partial(np.arange, 300)
                yield (
                    f"{u.__name__} {dtype}",
                    functools.partial(call, u),
                    lambda made=made, dtype=dtype: (made().astype(dtype),),
                )

    all_same(cases())


# With a result that `out=` is made for; all of these have that word.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, _, **out: np.sum(x, axis=0, **out),
    "sum of all": lambda x, _, **out: np.sum(x, **out),
    "sum kept": lambda x, _, **out: x.sum(axis=-1, keepdims=True, **out),
    "sum in place": lambda x, _, **out: x.sum(0, **out),
    "prod": lambda x, _, **out: np.prod(x, axis=-1, **out),
    "max": lambda x, _, **out: np.max(x, axis=0, **out),
    "min": lambda x, _, **out: x.min(-1, **out),
    "any": lambda x, _, **out: np.any(x, axis=0, **out),
    "mean": lambda x, _, **out: np.mean(x, axis=0, **out),
    "var": lambda x, _, **out: np.var(x, axis=-1, ddof=1, **out),
    "std": lambda x, _, **out: x.std(axis=0, **out),
    "cumsum": lambda x, _, **out: np.cumsum(x, **out),
    "cumprod along": lambda x, _, **out: np.cumprod(x, axis=0, **out),
    "dot": lambda x, y, **out: np.dot(x, y.T, **out),
    "matmul": lambda x, y, **out: np.matmul(x, y.T, **out),
    "take": lambda x, _, **out: np.take(x, [1, 0, 1], axis=0, **out),
    "take of all": lambda x, _, **out: x.take([1, 0, 1, 1], **out),
    "take out of bounds": lambda x, _, **out: np.take(x, [1, 99], axis=0, **out),
    "concatenate": lambda x, y, **out: np.concatenate([x, y], **out),
    "concatenate along": lambda x, y, **out: np.concatenate((x, y), axis=-1, **out),
    "stack": lambda x, y, **out: np.stack([x, y], **out),
    "vstack": lambda x, y, **out: np.vstack([x, y], **out),
    "add.reduce": lambda x, _, **out: np.add.reduce(x, axis=0, **out),
    "clip": lambda x, _, **out: np.clip(x, 1, 3, **out),
    "round": lambda x, _, **out: np.round(x, 1, **out),
    "outer": np.outer,
    "trace": lambda x, _, **out: np.trace(x, **out) if x.ndim == 2 else np.sum(x, **out),
}


@pytest.mark.parametrize("dtype", ["?", "l", "e", "f", "d", "D"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_of_functions_in_arrays_that_are_given(name: str, dtype: str) -> None:
    f = FUNCTIONS[name]

    def call(target: str, raising: str, *operands: Array) -> Any:
        with np.errstate(all="ignore"):
            like = np.asarray(f(*operands))
        with np.errstate(all=raising):
            return f(*operands, out=TARGETS[target](like, *operands))

    def cases() -> Iterator[Case]:
        for layout, target in itertools.product(("line", "table", "transposed"), TARGETS):
            for raising in ("warn", "raise") if target == "new" else ("warn",):
                yield (
                    f"{layout} {target} {raising}",
                    functools.partial(call, target, raising),
                    laid_out(LAYOUTS[layout], dtype),
                )

    all_same(cases(), times=1)


@pytest.mark.parametrize("target", TARGETS)
def test_copyto(target: str) -> None:
    def copied(x: Array, y: Array) -> Any:
        to = TARGETS[target](x, y, x)
        np.copyto(to, x)
        return to

    all_same(
        (f"{dtype} {layout}", copied, laid_out(LAYOUTS[layout], dtype))
        for dtype in "?lfdD"
        for layout in ("line", "every second", "table", "transposed", "one", "itself")
    )
