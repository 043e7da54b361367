"""Functions written anew as recorded operations, and masked assignments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel.dispatch.fallback import FALLBACKS

from .differential import check, one_compiled, shapes

FLOATS = ("e", "f", "d")
NAN, INF = np.nan, np.inf

# On an array with NaNs and infinities.
UNEXACT: dict[str, Callable[[Any], Any]] = {
    "nan_to_num": lambda x: (np.nan_to_num(x), x),
    "nan_to_num numbers": lambda x: np.nan_to_num(x, nan=1, posinf=2.5, neginf=-3),
    "nan_to_num in place": lambda x: (np.nan_to_num(x, copy=False) is x, x),
    "nan_to_num too large": lambda x: np.nan_to_num(x, nan=1e300),
    "nanmax": np.nanmax,
    "nanmin of rows": lambda x: np.nanmin(x, axis=-1),
    "nanmax kept": lambda x: np.nanmax(x, axis=0, keepdims=True),
    "nanmax initial": lambda x: np.nanmax(x, initial=2.0),
}
ROUNDED: dict[str, Callable[[Any], Any]] = {
    "round": lambda x: x.round(),
    "round to 2": lambda x: x.round(2),
    "round to -1": lambda x: x.round(-1),
    "round to 40": lambda x: x.round(40),
    "round to one and a half": lambda x: x.round(1.5),
    "function": lambda x: np.round(np.clip(x, -4, 4), 2),
    "around": lambda x: np.around(np.clip(x, -4, 4), decimals=1),
}
# Any dtype.
MOVED: dict[str, Callable[[Any], Any]] = {
    "repeat": lambda x: np.repeat(x, 3),
    "repeat rows": lambda x: x.repeat(2, axis=0),
    "repeat last": lambda x: np.repeat(x, 2, axis=-1),
    "repeat never": lambda x: x.repeat(0),
    "repeat less": lambda x: x.repeat(-1),
    "repeat differently": lambda x: np.repeat(x, np.arange(x.size)),
    "repeat bad axis": lambda x: x.repeat(2, axis=7),
    "tile": lambda x: np.tile(x, 2),
    "tile both": lambda x: np.tile(x, (2, 3)),
    "tile once": lambda x: np.tile(x, 1),
    "append": lambda x: np.append(x, x),
    "append rows": lambda x: np.append(x, x, axis=0),
    "append number": lambda x: np.append(x, 1),
    "concatenate": lambda x: np.concatenate([x, x[::-1], x], axis=-1),
    "concatenate parts": lambda x: np.concatenate([x[..., 1:], x[..., :1]], axis=-1),
    "concatenate turned": lambda x: np.concatenate([x.T, x.T]),
    "concatenate orders": lambda x: np.concatenate([x, x.copy(order="F")]),
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, axis=-1) + x[..., :1, None],
    "along": lambda x: np.take_along_axis(x, np.argsort(x, axis=-1), axis=-1),
    "along first": lambda x: np.take_along_axis(x, np.zeros((1,) * x.ndim, int), 0),
}
MASKED: dict[str, Callable[[Any, Any], Any]] = {
    "putmask": lambda x, m: (np.putmask(x, m, 3), x),
    "putmask array": lambda x, m: (np.putmask(x, m, x * 2), x),
    "putmask itself": lambda x, m: (np.putmask(x, m, x[::-1]), x),
    "putmask few": lambda x, m: (np.putmask(x, m, [1, 2, 3]), x),
    "putmask float": lambda x, m: (np.putmask(x, m, 2.5), x),
    "putmask integers": lambda x, m: (np.putmask(x, m.astype(int), 3), x),
    "place": lambda x, m: (np.place(x, m, [4]), np.place(x, ~m, 1), x),
    "place several": lambda x, m: (np.place(x, m, [4, 5]), x),
    "copyto": lambda x, m: (np.copyto(x, 1, where=m), x),
    "select": lambda x, m: np.select([m, x > 1], [x, x * 2]),
    "select default": lambda x, m: np.select([m, ~m], [1, x], default=2.5),
    "select integers": lambda x, m: np.select([m.astype(int)], [x]),
    "select unequal": lambda x, m: np.select([m], [x, x]),
}


def mixed(dtype: str) -> list[np.ndarray[Any, Any]]:
    line = np.array([1.25, NAN, -7.5, INF, 0.0, -INF, 3.5, NAN, 15.0, -0.0, 2.5, 0.35], dtype)
    block = line.reshape(3, 4)
    return [line, block, block.T, block[:, ::2], np.array([2.0, 7.25, -1.75] * 4, dtype)]


@pytest.mark.parametrize("name", UNEXACT)
def test_not_numbers(name: str) -> None:
    for values in one_compiled(v for dtype in FLOATS[::-1] for v in mixed(dtype)):
        check(UNEXACT[name], lambda v=values: (v.copy(order="K"),))
    check(UNEXACT[name], lambda: (np.full((3, 4), NAN),))
    check(UNEXACT[name], lambda: (np.arange(12).reshape(3, 4),))
    check(UNEXACT[name], lambda: (np.arange(12).reshape(3, 4) * (1 - 2j),))


def test_sums_without_nan() -> None:
    def total(x: Any) -> Any:
        rows = np.nansum(x, axis=0), np.nanmean(x, axis=-1), np.nanmean(x, axis=0, keepdims=True)
        return np.nansum(x), np.nanmean(x), *rows, np.nansum(x, dtype="f"), np.nanmean(x, dtype="f")

    values = np.array([1.0, NAN, 2.0, 4.0, NAN, 8.0, 16.0, 32.0, 64.0, 0.5, 0.25, 128.0])
    for dtype in ("f", "d"):
        check(total, lambda d=dtype: (values.astype(d).reshape(3, 4),))
    check(total, lambda: (np.where(np.arange(12) < 4, NAN, values).reshape(3, 4),))
    check(total, lambda: (np.full((3, 4), NAN),))
    check(total, lambda: (np.arange(12).reshape(3, 4),))


@pytest.mark.parametrize("name", ROUNDED)
def test_rounding(name: str) -> None:
    for values in one_compiled(v for dtype in ("d", "f", "e", "i", "D") for v in shapes(dtype)):
        check(ROUNDED[name], lambda v=values: (v,))


@pytest.mark.parametrize("name", MOVED)
def test_moving(name: str) -> None:
    for dtype in one_compiled(("d", "b", "?", "F")):
        values = (np.arange(24) * 7 % 11).astype(dtype)
        for array in (values, values.reshape(4, 6), values.reshape(2, 3, 4), values[::2]):
            check(MOVED[name], lambda a=array: (a.copy(),))
            check(MOVED[name], lambda a=array: (a.T[::-1],))


@pytest.mark.parametrize("name", MASKED)
def test_masks(name: str) -> None:
    for dtype in one_compiled(("d", "i", "B")):
        values = (np.arange(24) * 7 % 11).astype(dtype)
        for array in (values, values.reshape(4, 6), values.reshape(4, 6).T):
            check(MASKED[name], lambda a=array: (a.copy(order="K"), a > 4))
    check(MASKED[name], lambda: (np.arange(24.0), np.arange(12) > 3))


@pytest.mark.parametrize("order", [None, 2, 1, "fro", np.inf])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1), 5])
def test_norm(order: Any, axis: Any) -> None:
    whole = np.array([3.0, 4.0, 0.0, 12.0, 84.0, 0.0]).reshape(2, 3)
    for array in (whole, whole.astype("f"), whole.T, whole[0], whole.astype(int), whole * 1j):
        check(lambda x: np.linalg.norm(x, order, axis), lambda a=array: (a,), ulp=2)
        check(lambda x: np.linalg.norm(x, order, axis, True), lambda a=array: (a,), ulp=2)


LINE = np.array([True, False, True, False, False])
BLOCK = np.arange(20).reshape(4, 5) % 3 == 0
KEYS: dict[str, Any] = {
    "columns": (slice(None), LINE),
    "columns of some rows": (slice(1, None, 2), LINE),
    "tuple": (BLOCK,),
    "tuple and more": (BLOCK, slice(1, 3)),
    "rows and columns": (LINE[:4], slice(None, None, -1)),
    "ellipsis": (..., LINE, slice(None)),
    "ellipsis after": (LINE[:4], ...),
    "ellipsis before two": (..., np.ones((5, 6), bool)),
    "integer before": (1, LINE),
    "integer after": (slice(None), LINE, 2),
    "new axis": (None, BLOCK),
    "new axis and ellipsis": (None, ..., LINE, 0),
    "wrong": (slice(None), LINE[:3]),
    "two": (LINE[:4], LINE),
    "too many": (BLOCK, BLOCK),
}


@pytest.mark.parametrize("name", KEYS)
def test_masked_assignment(name: str) -> None:
    def assign(x: Any, value: Any) -> Any:
        before = x + x
        x[KEYS[name]] = value
        return before, x

    for value in (7, 2.5, np.array(3), np.array(3.5), np.array([4])):
        for dtype in ("d", "i"):
            check(assign, lambda d=dtype, v=value: (np.arange(120).reshape(4, 5, 6).astype(d), v))


@pytest.mark.pending
def test_all_of_it_is_recorded() -> None:
    x = npaccel.asarray(np.arange(24.0).reshape(4, 6))
    mask = x > 5
    FALLBACKS.clear()
    np.nan_to_num(x), np.nansum(x), np.nanmean(x, axis=0), np.nanmax(x), x.round(2)
    np.repeat(x, 2), np.tile(x, 2), np.append(x, x), np.linalg.norm(x, axis=1)
    np.putmask(x, mask, 0), np.place(x, mask, 1), np.select([mask], [x])
    x[:, mask[0]] = 2
    x[mask] = np.array(1.0)
    np.concatenate([x.T, x.T]), np.concatenate([x[:, 1:], x[:, :1]], axis=1)
    assert not FALLBACKS.counts()
