"""The ways in which calls on small arrays are written: by name, by place, with lists for arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from .comparison import Case, all_same
from .operands import LAYOUTS, laid_out

Array = np.ndarray[Any, Any]
# x, y: arrays; o: one for the result; L, K: lists of a number for each element of a row
SPELLINGS = """
np.zeros(0) | np.zeros((0, 3)) | np.zeros((3, 0, 2), int) | np.empty((2, 0)) | np.zeros((0, -1))
np.zeros((0, 10**18, 10**18)) | np.zeros((0, 2**40)) | np.zeros((2**40, 0)) | np.empty(0, "f4")
np.array([]) | np.array([], dtype=int) | np.asarray([], float) | np.array([[]]) | np.asarray(())
x.reshape(0, -1) | x.reshape(-1, 0) | x.reshape((0,)) | np.stack([L, K], axis=-1)
np.array([], "O") | np.concatenate([[L], [K]], axis=0) | np.stack([L, x], axis=0)
np.stack((L, K), 1) | np.argmax(x, 0) | np.argmin(x, axis=0, out=None)
np.argmax(x, axis=0, keepdims=True) | np.diff(x, axis=0) | np.diff(x, 1, axis=0)
np.diff(x, axis=5) | np.array(L, int) | np.array(L, dtype=bool) | np.add(x, y, None)
np.add(x, y, o) | np.add(x, y, out=o) | np.add(x, y, out=(o,)) | np.add(x, y, out=(None,))
np.add(x, y, o, out=o) | np.add(x, y, (o,)) | np.add(x, y, out=[o])
np.add(x, y, out=None, where=True) | np.add(x, y, where=1) | np.add(x, y, o, where=True)
np.add(x, y, dtype=x.dtype) | np.add(x, y, dtype=float) | np.add(x, y, dtype="f4", out=o)
np.add(x, y, dtype=None) | np.add(x, y, dtype=int, casting="unsafe") | np.sqrt(x, dtype=float)
np.add(x, y, casting="unsafe") | np.add(x, y, casting="no") | np.add(x, y, casting="nonsense")
np.add(x, y, order="C") | np.add(x, y, order="K") | np.add(x, y, order="F")
np.add(x, y, order=1) | np.add(x, y, subok=False) | np.add(x, y, subok=3)
np.add(x, y, nonsense=1) | np.add(x, dtype=int) | np.add(x, 2, dtype=float)
np.add(2, x, casting="unsafe") | np.greater(x, y, dtype=bool) | np.maximum(x, y, None)
np.maximum(x, y, o, dtype=float) | np.greater(x, y, dtype=float) | np.add(x, True)
np.add(x, 2**53 + 1) | np.multiply(x, 2**63) | np.subtract(-(2**53), x) | np.add(x, L)
np.add(K, x) | x + L | K * x | np.add(L, K) | np.add(L, K, out=o) | np.sqrt(L)
np.add(x, tuple(L)) | np.add([x, x], x) | np.add([L, K], 1) | np.add([], x) | np.add(["a"], x)
np.add(L, 1, dtype=float) | np.logical_and(L, x) | np.add([1, 2.5], 1) | np.add([True], x)
np.matmul(x, L) | np.matmul(x, y, o) | x @ L | divmod(x, L) | np.add([[1], [2, 3]], 1)
np.zeros_like(x, float) | np.zeros_like(x, dtype=int) | np.zeros_like(a=x, dtype=complex)
np.zeros_like(x, dtype="f4") | np.zeros_like(x, shape=3) | np.zeros_like(x, order="F")
np.zeros_like(x, x.dtype, dtype=int) | np.zeros_like(x, dtype="nonsense")
np.zeros_like(L, float) | np.ones_like(x, dtype=bool) | np.ones_like(x, dtype=complex)
np.ones_like(x, subok=False) | np.full_like(x, 3) | np.full_like(x, 2.5, dtype=int)
np.full_like(x, fill_value=1, dtype=bool) | np.full_like(x, 2, bool) | np.full_like(x)
np.full_like(x, [1]) | np.full_like(x, 1j) | np.empty_like(x, dtype=int).shape
np.empty_like(prototype=x, dtype=float).dtype | np.empty_like(a=x).dtype
np.zeros((2, 3), complex) | np.zeros([2, 3]) | np.zeros([2, -3])
np.zeros((2, 3), order="C", dtype=int) | np.zeros((2, 3), order="F") | np.zeros(shape=(2, 3))
np.zeros(3, order=None) | np.zeros(3, like=None) | np.zeros(3, device=None)
np.zeros(3, nonsense=1) | np.zeros(3, dtype=complex, order="C") | np.zeros(3, "F")
np.eye(3, dtype=int) | np.eye(2, 3, 1) | np.arange(5, dtype=float) | np.arange(0.0, 5)
np.arange(0.0, 5, 1) | np.arange(0, 1.0, 2) | np.arange(5, dtype=int) | np.arange(5.0, dtype=int)
np.arange(5, dtype="i4") | np.arange(True) | np.arange(2, 9, 3, dtype=float)
np.arange(start=1, stop=4) | np.arange(1, stop=4) | np.arange(2, 1.0) | np.arange(np.float32(3))
np.arange(np.int64(3), dtype=float) | np.arange(5, dtype=complex) | np.arange(9, 2, -2, float)
np.arange(3, dtype=None) | np.arange(5, step=2) | np.arange(1, 2, 0.25) | x.copy(order="C")
x.copy("F") | x.copy(order="F") | x.copy(order=None) | x.copy(nonsense=None) | x.ravel(order="C")
x.ravel(order="F") | x.ravel(order=None) | np.ravel(x, order="C") | x.reshape(-1, order="C")
x.reshape((1, -1), order="F") | x.reshape(-1, copy=None) | x.reshape(1, -1)
x.reshape(-1, order=None) | np.reshape(x, -1) | np.reshape(x, (-1, 1), order="C")
np.atleast_1d(x) | x.astype(dtype=float) | x.astype(dtype=int, copy=False)
x.astype(dtype=complex) | x.astype(copy=True) | x.astype(float, dtype=int) | x.astype(complex)
np.array(x, copy=True) | np.array(x, order="C") | np.array(x, copy=False) | np.array(x, ndmin=3)
np.array(x, copy=1) | np.atleast_1d(3) | x.nonzero() | x.fill(2) | x.fill(2.5) | x.fill(True)
x.fill(1j) | x.fill(y) | x.fill([1]) | x.fill(x[:1]) | x.fill() | x.fill(value=2) | x.fill(10**30)
x.fill(np.float32(2)) | x.fill(np.array(3)) | x.fill("a") | np.sort(x, kind="stable")
np.sort(x, 0, "mergesort") | np.sort(x, kind="heapsort") | np.sort(x, kind=None)
np.sort(x, kind="s") | np.argsort(x, kind="stable") | x.argsort(kind="stable")
x.argsort(0, "quicksort") | np.argsort(x, axis=0, kind="stable") | np.argsort(x, order=None)
np.searchsorted(x, 2, side="right") | np.searchsorted(x, x, "left")
x.searchsorted(2, side="right") | np.searchsorted(x, x, side="nonsense") | np.searchsorted(x, v=2)
x.searchsorted(x, sorter=None) | np.take(x, [1, 0]) | np.take(x, [[1, 0], [0, 1]], axis=0)
np.take(x, 1, axis=0) | np.take(x, -1, 0) | np.take(x, [1, 0], axis=1)
np.take(x, [1, 0], axis=-1) | x.take([0, -1], 1) | x.take(0) | x.take([]) | np.take(x, [9999])
np.take(x, 9999, axis=0) | np.take(x, [True, False]) | np.take(x, [0.5])
np.take(x, [1], mode="clip") | np.take(x, [1], mode="raise") | np.take(x, indices=[1])
x.take(True) | np.take(x, [0, 1], 0, None, "raise") | np.take(x, [1], axis=None)
np.take(x, np.int64(1), axis=0) | np.cumsum(x, axis=0) | np.cumsum(x, 0)
np.cumsum(x, dtype=float) | np.cumsum(x, axis=-1, dtype=int) | x.cumsum(0) | x.cumsum(axis=None)
x.cumsum(dtype=None) | x.cumprod(axis=0) | x.cumsum(0, float, None) | np.cumsum(x, axis=5)
np.cumsum(x, axis=0, out=o[:]) | x.cumsum(axis=(0,)) | np.cumsum(x, keepdims=True)
np.repeat(x, 2, axis=0) | np.repeat(x, 2, -1) | x.repeat(2) | x.repeat(2, axis=5)
x.repeat(repeats=2) | x.repeat([2]) | np.repeat(x, 2, axis=None) | np.repeat(x, True)
np.repeat(x, 0, axis=0) | np.concatenate((x, L)) | np.concatenate([L, K])
np.concatenate([[1], x]) | np.concatenate([x, 1]) | np.concatenate([[L], [K]], axis=1)
np.stack([L, K], axis=1) | np.stack([x, L]) | np.stack([1, 2]) | np.vstack([x, L])
np.hstack((x, 1.0)) | np.hstack((1, 2)) | np.hstack((x, L)) | np.hstack([1, x])
np.hstack((x, True)) | np.concatenate([[], x]) | np.concatenate([L, K], axis=0, dtype=int)
np.concatenate([L, ["a"]]) | np.concatenate([[[1], [2, 3]], x]) | np.concatenate([L, x], out=o)
np.frombuffer(b"12345678") | np.frombuffer(b"1234567") | np.fromiter(L, float)
np.fromiter(L, int, 2) | np.fromiter([L], float) | np.fromiter((i for i in L), float)
np.frombuffer(b"12", "u1", 1, 1) | np.fromiter(L, dtype=float) | np.fromiter([], float)
np.frombuffer(x.tobytes(), "u1") | np.dot(x, 2.0) | x.dot(L) | np.interp(1.5, L, K)
np.interp(x, L, K, left=0) | np.put(x, [0], 1) | np.correlate(L, K)
np.correlate(L, K, mode="full") | np.bincount([1, 2], weights=L[:2]) | np.lexsort((L, K))
np.add(x, np.float64(2), dtype=x.dtype) | np.add(x, 2.5, dtype=x.dtype)
np.multiply(x, np.float32(2), dtype=x.dtype) | np.add(x, True, dtype=x.dtype)
np.subtract(3, x, dtype=x.dtype) | np.add(x, 2.5, dtype=int) | np.add(x, np.float64(2), dtype="f4")
np.multiply(x, L, dtype=x.dtype) | np.add(x, np.array(2.5), dtype=x.dtype)
np.add(x, 2.5, dtype=x.dtype, casting="unsafe") | np.multiply(1j, x, dtype=x.dtype)
np.add.reduceat(x, [0, 1]) | np.add.at(x, [0, 1], 1) | np.ldexp(x, 2)
"""
LAYOUTS_TRIED = ("line", "block", "Fortran", "every second", "without axes", "no elements", "one",
                 "one column", "read-only", "three axes", "backwards")  # fmt: skip
CALLS = [
    call.strip() for row in SPELLINGS.splitlines() for call in row.split(" | ") if call.strip()
]
LISTS = {"floats": ([1.0, -2.5, 0.5], [3.0, 1.0, 2.0]), "integers": ([1, 2, 3], [2, 0, 1])}


def written(call: str) -> Callable[..., Any]:
    made: Callable[..., Any] = eval(f"lambda x, y, o, L, K: {call}", {"np": np})
    return made


@pytest.mark.parametrize("call", CALLS)
def test_spelling(call: str) -> None:
    function = written(call)

    def operands(layout: str, dtype: str, lists: str) -> Callable[[], tuple[Any, ...]]:
        def make() -> tuple[Any, ...]:
            x, y = laid_out(LAYOUTS[layout], dtype)()
            length = x.shape[-1] if x.ndim else 1
            rows = ((given * 8)[:length] for given in LISTS[lists])
            return x, y, np.zeros(np.shape(x)), *rows

        return make

    def cases() -> Iterator[Case]:
        for dtype in ("d", "f", "l", "?", "D", "i", "e", "O"):
            few = 1 if dtype == "O" else 5
            for layout in LAYOUTS_TRIED if dtype == "d" else LAYOUTS_TRIED[:few]:
                for lists in LISTS if dtype in "dl" else ("floats",):
                    yield f"{dtype} {layout} {lists}", function, operands(layout, dtype, lists)

    all_same(cases())
