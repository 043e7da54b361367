"""Casts, copies and conversions of plain arrays while an `accelerate` block is open."""

from __future__ import annotations

import contextlib
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

CASTINGS: Any = ("no", "equiv", "safe", "same_kind", "unsafe")


def test_numbers_are_cast_as_numpy_casts_them() -> None:
    def written(casting: Any, value: Any) -> Any:
        x = np.zeros(50_000, "u1")
        try:
            np.copyto(x, value, casting=casting)
        except (TypeError, OverflowError) as error:
            return repr(error)
        return x[-1]

    cases = list(itertools.product(CASTINGS, (3, 2.5, 300, -1, True)))
    expected = [written(*case) for case in cases]
    with npaccel.accelerate():
        assert [written(*case) for case in cases] == expected


@pytest.mark.usefixtures("block")
def test_arguments_that_are_rarely_given() -> None:
    x = np.arange(50_000)
    with pytest.raises(ValueError, match="_CopyMode"):
        x.astype("f8", copy=np._CopyMode.NEVER)
    with pytest.raises(ValueError, match="dimension"):
        np.zeros(2**70)
    noted = np.dtype(x.dtype, metadata={"unit": "m"})
    plain = np.frombuffer(bytes(400_000), x.dtype)
    assert np.asarray(plain, dtype=noted).dtype.metadata == {"unit": "m"}
    wrapped = npaccel.asarray(x)
    called = wrapped.__array_function__(
        func=np.sum, types=(type(wrapped),), args=(wrapped,), kwargs={}
    )
    assert called == x.sum()


class Holder:
    """An object that gives its array by __array__."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


@pytest.mark.pending
@pytest.mark.parametrize("copy", [True, None, False])
@pytest.mark.parametrize("plain", [True, False])
def test_converting_gives_what_an_object_gave(copy: Any, plain: bool) -> None:
    alone = np.arange(10)
    same = np.array(Holder(alone), copy=copy) is alone  # NumPy 2.0 copies what was not to be shared
    with npaccel.accelerate(min_size=0):
        given = np.arange(10) + 1
        if plain:
            given = np.asarray(given.tolist()).view(np.ndarray)
        assert type(given) is (np.ndarray if plain else npaccel.Array)
        assert (np.array(Holder(given), copy=copy) is given) == same
        assert (np.asarray(Holder(given), copy=copy) is given) == same
        other = np.array(Holder(given), ndmin=2)
        assert other.shape == (1, 10) and other is not given
        with pytest.raises(IndexError):
            np.asarray(Holder(given))[10]


@pytest.mark.parametrize("copy", [None, False, np.bool(False)])
def test_nothing_is_copied_that_needs_no_copy(copy: Any) -> None:
    with npaccel.accelerate(min_size=0):
        given: Any = np.arange(12).reshape(3, 4) + 1
        assert np.array(given, copy=copy) is given
        assert np.array(given, copy=copy, order="C") is given
        if copy is not None:
            with pytest.raises(ValueError, match="Unable to avoid copy"):
                np.array(given, copy=copy, order="F")
            with pytest.raises(ValueError, match="Unable to avoid copy"):
                np.array(given, copy=copy, dtype=float)
        always = np.array(given, copy=np.bool(True))
        assert always is not given and not np.shares_memory(always, given)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("order", ["C", "F", "K", "A"])
def test_copies_own_their_memory(order: Any, step: int) -> None:
    with npaccel.accelerate(min_size=0):
        part = np.arange(81).reshape(9, 9)[::step, ::step]
        for source in (part, part.T):
            made = np.array(source, copy=True, order=order)
            assert made.flags.owndata and made.base is None
            np.testing.assert_array_equal(made, source)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) >= "2.5.0", reason="no such name left")
def test_deprecated_names_of_dtypes_warn_once_and_by_the_users_line() -> None:
    x = np.linspace(-2.0, 2.0)
    calls: list[Callable[[], Any]] = [
        lambda: x.astype("a5"),
        lambda: np.zeros(50, "a5"),
        lambda: np.array(x, "a5"),
    ]
    for call in calls:
        shown = []
        for block in (contextlib.nullcontext(), npaccel.accelerate()):
            with block, warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                call()
            shown.append([(str(w.message), w.filename, w.lineno) for w in caught])
        assert shown[0] == shown[1] != []


@pytest.mark.parametrize("kind", ["f8", "i4", ">f8", "O"])
def test_what_comes_back_as_it_is_and_what_numpy_rejects(kind: str) -> None:
    """Conversions to what an array is already."""
    calls: list[Callable[[Any], Any]] = [
        np.asarray,
        np.asanyarray,
        np.ascontiguousarray,
        lambda a: np.array(a, copy=None),
        lambda a: np.array(a, copy=False),
        lambda a: np.array(a, dtype=a.dtype, copy=False),
        lambda a: np.asarray(a, a.dtype),
        lambda a: np.asarray(a, dtype=float),
        lambda a: np.asarray(a, float, dtype=float),
        lambda a: np.asarray(a, float, "C"),
        lambda a: np.ascontiguousarray(a, copy=False),
        lambda a: np.asanyarray(a, order="F"),
        lambda a: a.astype(copy=False),
        lambda a: a.astype(None, copy=False),
        lambda a: a.astype(a.dtype, copy=False),
        lambda a: a.astype(a.dtype, dtype=a.dtype, copy=False),
        lambda a: a.astype(a.dtype, nothing=False),
        lambda a: a.astype(dtype=a.dtype, copy=False),
    ]
    for shape in ((), (3,), (300, 400)):
        x = np.ones(shape, kind)
        for a in (x, x.T, x[::2] if x.ndim else x, x.view(Own)):
            for number, call in enumerate(calls):
                expected = outcome(call, a)
                with npaccel.accelerate():
                    assert outcome(call, a) == expected, (shape, number)


class Own(np.ndarray):
    pass


def outcome(call: Callable[[Any], Any], a: Any) -> Any:
    """Whether an array comes back, what it is, or the error."""
    try:
        result = call(a)
    except (TypeError, ValueError) as error:
        return type(error), str(error)
    kind = np.ndarray if isinstance(result, npaccel.Array) else type(result)
    return result is a, kind, result.dtype, result.shape, result.strides


def test_dtypes_of_others_are_numpys_to_convert_to() -> None:
    scaled = pytest.importorskip("numpy._core._multiarray_umath")._get_sfloat_dtype()
    x = np.arange(50_000.0)
    want = x.astype(scaled(2.0))
    with npaccel.accelerate(min_size=0):
        have = (x + 0).astype(scaled(2.0))
    assert have.dtype == want.dtype and repr(have[:9]) == repr(want[:9])
