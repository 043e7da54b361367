"""Views of large arrays of ours by NumPy's functions, whose Python code is called at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

pytestmark = pytest.mark.usefixtures("usual_threshold")

CALLS: dict[str, Callable[[Any], Any]] = {
    "transpose": np.transpose,
    "turned": lambda x: np.transpose(x, (1, 0)),
    "squeeze": lambda x: np.squeeze(x[:, None]),
    "expand_dims": lambda x: np.expand_dims(x, axis=(0, 2)),
    "moveaxis": lambda x: np.moveaxis(x, 0, -1),
    "swapaxes": lambda x: np.swapaxes(x, 0, 1),
    "split": lambda x: np.split(x, [3, 5], axis=1),
    "array_split": lambda x: np.array_split(x, 3),
    "hsplit": lambda x: np.hsplit(x, 2),
    "atleast_3d": np.atleast_3d,
    "two of them": lambda x: np.atleast_1d(x, x[0]),
    "diagonal": lambda x: np.diagonal(x, offset=2),
    "trace": np.trace,
    "flip": lambda x: np.flip(x, 0),
    "rot90": np.rot90,
    "reshape": lambda x: np.reshape(x, (-1, 10)),
    "ravel": np.ravel,
    "shape": np.shape,
    "size": lambda x: np.size(x, 1),
    "ndim": np.ndim,
    "isrealobj": np.isrealobj,
    "result_type": lambda x: np.result_type(x, np.float32, "i8", x[0]),
    "shares_memory": lambda x: np.may_share_memory(x, x[1:]),
}


class Foreign:
    """A class that has a say in any function."""

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> str:
        return f"{function.__name__} of {len(types)}"


def same(have: Any, want: Any) -> None:
    if isinstance(want, list | tuple) and want and isinstance(want[0], np.ndarray):
        assert type(have) is type(want)
        for one, other in zip(have, want, strict=True):
            same(one, other)
    elif isinstance(want, np.ndarray):
        assert (have.shape, have.strides) == (want.shape, want.strides)
        np.testing.assert_array_equal(have, want)
    else:
        assert (type(have), have) == (type(want), want)


@pytest.mark.parametrize("name", CALLS)
def test_views_are_numpys(name: str) -> None:
    plain = np.arange(40_000.0).reshape(200, 200)
    want = CALLS[name](plain)
    with npaccel.accelerate():
        same(CALLS[name](npaccel.asarray(plain)), want)
        same(CALLS[name](npaccel.asarray(plain) * 1), want)  # which waits
        same(CALLS[name](plain), want)


def test_errors_are_numpys() -> None:
    with npaccel.accelerate():
        x = npaccel.asarray(np.zeros((200, 200)))
        with pytest.raises(np.exceptions.AxisError, match="axis 5 is out of bounds"):
            np.swapaxes(x, 5, 0)
        with pytest.raises(ValueError, match="equal division"):
            np.split(x, 7)
        with pytest.raises(TypeError, match="nonsense"):
            np.transpose(x, nonsense=1)


def test_other_classes_have_their_say() -> None:
    with npaccel.accelerate():
        x = npaccel.asarray(np.zeros((200, 200)))
        assert np.may_share_memory(x, Foreign()) == "may_share_memory of 2"
        assert np.atleast_1d(x, Foreign()) == "atleast_1d of 2"
        assert np.shape(Foreign()) == "shape of 1"


@pytest.mark.pending
def test_numpys_search_for_classes_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def array_function(self: Any, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        asked.append(function)
        return np.ndarray.__array_function__(self, function, types, args, kwargs)

    with npaccel.accelerate():
        x = npaccel.asarray(np.zeros((200, 200)))
        monkeypatch.setattr(npaccel.Array, "__array_function__", array_function)
        assert type(np.transpose(x)) is npaccel.Array
        assert np.shape(x) == (200, 200)
        assert not asked
        assert np.shape(npaccel.asarray(np.zeros(3))) == (3,)  # small, as ever
        assert asked == [np.shape]


def test_what_has_its_dtype_comes_back() -> None:
    x = npaccel.asarray(np.zeros((200, 200)))
    with npaccel.accelerate():
        assert x.astype(np.float64, copy=False) is x
        assert x.astype(np.float64) is not x
        assert x.astype(np.float32, copy=False).dtype == np.float32
        assert x.T.astype(np.float64, copy=False, order="C").flags.c_contiguous
