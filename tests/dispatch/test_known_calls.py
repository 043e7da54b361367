"""Reductions, and ufuncs with `out`, that are known are recorded without a line of our Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import npaccel

from .differential import check

Array = np.ndarray[Any, Any]
OURS = str(Path(npaccel.__file__).parent)


def of_ours(call: Callable[[], Any]) -> list[str]:
    """Names of npaccel's functions that run in a call."""
    return of_any(call, (OURS,))


def of_any(
    call: Callable[[], Any], folders: tuple[str, ...] = (OURS, str(Path(np.__file__).parent))
) -> list[str]:
    """The same of npaccel's and NumPy's."""
    found = []

    def listen(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folders):
            found.append(frame.f_code.co_qualname)

    sys.setprofile(listen)
    try:
        kept = call()  # what it made does not die in between
    finally:
        sys.setprofile(None)
    del kept
    return found


KNOWN: dict[str, Callable[[Array, Array], Any]] = {
    "sum": lambda x, o: x.sum(axis=0),
    "max, kept": lambda x, o: x.max(axis=1, keepdims=True),
    "all axes but one": lambda x, o: np.add.reduce(x, axis=(0, -1)),
    "without an axis": lambda x, o: np.minimum.reduce(x),
    "of another type": lambda x, o: x.sum(axis=2, dtype=np.dtype("f4")),
    "mean": lambda x, o: x.mean(axis=(1, 2)),
    "any": lambda x, o: (x > 0).any(axis=0),
    "out": lambda x, o: np.multiply(x, 3, out=o),
    "no out": lambda x, o: np.multiply(x, 3, out=None),
    "clip": lambda x, o: np.clip(x, 5, 70.5),
    "clip, one bound": lambda x, o: np.clip(x, None, 70.5),
    "out, cast": lambda x, o: np.sqrt(x, out=o, casting="unsafe", subok=False),
}


@pytest.mark.pending
@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("block", [False, True], ids=["asarray", "block"])
def test_no_python_of_ours(name: str, block: bool) -> None:
    call = KNOWN[name]
    plain = np.arange(8.0 * 100 * 300).reshape(8, 100, 300) + 1.0
    expected = call(plain.copy(), np.empty_like(plain))
    with npaccel.accelerate() if block else nullcontext():
        x, o = plain, np.empty_like(plain)
        if not block:
            x = npaccel.asarray(x)
            o = x * 0.0
        for _ in range(3):
            npaccel.evaluate(call(x, o))
        waiting = x + 0  # what is added to something pending is not left to NumPy
        ran = of_ours(lambda: call(x, o))
        assert ran == []
        np.testing.assert_allclose(np.asarray(call(x, o)), expected, rtol=1e-6)
        del waiting


@pytest.mark.pending
def test_products_of_floats_are_numpys_without_ours() -> None:
    plain = np.arange(8.0 * 100 * 300).reshape(8, 100, 300) / 1e5
    with npaccel.accelerate():
        for _ in range(3):
            np.multiply.reduce(plain, axis=1)
        assert of_ours(lambda: np.multiply.reduce(plain, axis=1)) == []


LARGE = 40_000
# Calls of NumPy's that compute nothing, or write a number.
LOOKS: dict[str, Callable[[Array], Any]] = {
    "empty": lambda x: np.empty(LARGE),
    "empty of a shape": lambda x: np.empty((4, LARGE), dtype="f4"),
    "zeros": lambda x: np.zeros([4, LARGE // 4], int),
    "ones": lambda x: np.ones(LARGE),
    "full": lambda x: np.full(LARGE, 2.5),
    "fill": lambda x: x.fill(1.0),
    "copyto": lambda x: np.copyto(x, 2),
    "asarray": np.asarray,
    "asarray of its type": lambda x: np.asarray(x, dtype=float),
    "ascontiguousarray": np.ascontiguousarray,
    "reshape": lambda x: x.reshape(4, -1),
    "ravel": lambda x: x.ravel(),
    "np.reshape": lambda x: np.reshape(x, (4, -1)),
    "shape": np.shape,
    "ndim": np.ndim,
    "size": np.size,
    "result_type": lambda x: np.result_type(x, 1.0),
    "may_share_memory": lambda x: np.may_share_memory(x, x[::2]),
    "iscomplexobj": np.iscomplexobj,
    "concatenate": lambda x: np.concatenate([[0.0], x, np.arange(3)]),
    "zeros_like": np.zeros_like,
    "ones_like": np.ones_like,
    "full_like": lambda x: np.full_like(x, 2),
    "broadcast_to": lambda x: np.broadcast_to(x, (3, LARGE)),
    "astype": lambda x: x.astype("f4"),
}


@pytest.mark.pending
@pytest.mark.parametrize("call", LOOKS.values(), ids=LOOKS)
def test_no_python_of_ours_in_a_block(call: Callable[[Array], Any], defer_everything: None) -> None:
    npaccel.config.threshold = 1 << 18  # as a user has it
    with npaccel.accelerate():
        x = np.arange(float(LARGE))
        y = x + 1  # what looks at something pending is not left to NumPy
        kept = [call(y) for _ in range(3)]
        y = x + 2
        assert of_ours(lambda: call(y)) == []
        del kept


# Folds of arrays that nothing waits for.
FOLDS: dict[str, Callable[[Array], Any]] = {
    "sum": lambda x: x.sum(),
    "np.sum": np.sum,
    "mean": lambda x: x.mean(),
    "np.mean": np.mean,
    "max": lambda x: x.max(),
    "np.max": np.max,
    "np.min": np.min,
}


@pytest.mark.pending
@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("size", [5_000, LARGE])
def test_folds_run_no_python(name: str, size: int, defer_everything: None) -> None:
    if npaccel.config.check != "off":
        pytest.skip("everything is recorded, to be compared")
    npaccel.config.threshold = 1 << 18  # as a user has it
    with npaccel.accelerate():
        x = npaccel.asarray(np.arange(float(size)))
        FOLDS[name](x)
        assert of_any(lambda: FOLDS[name](x)) == []


@pytest.mark.parametrize(
    "arguments",
    [
        {"axis": -1},
        {"axis": -3},
        {"axis": 3},
        {"axis": -4},
        {"axis": 1 << 70},
        {"axis": True},
        {"axis": np.int64(1)},
        {"axis": 1.0},
        {"axis": ()},
        {"axis": (0, 0)},
        {"axis": (0, -3)},
        {"axis": (2, 0)},
        {"axis": [0, 1]},
        {"axis": None},
        {"axis": None, "keepdims": True},
        {"keepdims": 1},
        {"keepdims": None},
        {"dtype": "f4"},
        {"dtype": np.dtype(">f8")},
        {"dtype": np.dtype("g")},
        {"dtype": object},
        {"dtype": bool},
        {"out": None},
        {"out": (None, None)},
        {"initial": np._NoValue},
        {"initial": None},
        {"initial": 5},
        {"where": True},
        {"where": False},
        {"where": None},
        {"unknown": 1},
    ],
    ids=str,
)
@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("name", ["add", "maximum", "logical_and", "subtract", "divide"])
def test_arguments_of_reduce(name: str, arguments: dict[str, Any]) -> None:
    x = np.arange(24.0).reshape(2, 3, 4) % 7
    for array in (x, x.astype("i2"), x.astype("F"), x[:, :0]):
        check(lambda a: getattr(np, name).reduce(a, **arguments), lambda array=array: (array,))


@pytest.mark.parametrize("subok", [True, False, 1, 0, None, "yes", np.True_], ids=repr)
def test_subok_beside_out_is_numpys_to_judge(subok: Any) -> None:
    check(lambda x, o: np.sqrt(x, out=o, subok=subok), lambda: (np.arange(600.0), np.ones(600)))


def test_errors_at_the_call() -> None:
    """Where floating-point errors must be told at once nothing waits."""
    x = np.full((64, 64), 1e200)

    def fold(array: Array) -> Any:
        with np.errstate(over="raise"):
            return np.multiply.reduce(array, axis=0)

    def write(array: Array) -> Any:
        with np.errstate(over="raise"):
            return np.multiply(array, array, out=array)

    check(fold, lambda: (x,))
    check(write, lambda: (x.copy(),))


@pytest.mark.parametrize(
    "axis", [True, np.True_, [0, 1], (True, 0), (np.int8(1), 0), np.int8(1)], ids=repr
)
@pytest.mark.parametrize(
    "name",
    ["sum", "max", "mean", "argmax", "cumsum", "ptp", "nansum", "stack", "concatenate", "roll"],
)
def test_what_is_no_axis(name: str, axis: Any) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    function = getattr(np, name)

    def call(array: Array) -> Any:
        if name in ("stack", "concatenate"):
            return function([array, array], axis=axis)
        return function(array, 1, axis=axis) if name == "roll" else function(array, axis=axis)

    check(call, lambda: (x,))
