"""Arrays made while an `accelerate` block is open."""

from __future__ import annotations

import io
import resource
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import npaccel
from npaccel import _native

SOURCE = np.arange(24.0).reshape(4, 6)


def saved() -> Any:
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        np.save(file.name, np.arange(30))
        return np.load(file.name)


MADE: dict[str, Callable[[], Any]] = {
    "zeros": lambda: np.zeros((3, 4), np.int16),
    "zeros F": lambda: np.zeros((3, 4), order="F"),
    "zeros list": lambda: np.zeros([3, 4]),
    "zeros index": lambda: np.zeros(np.int64(5)),
    "zeros keyword": lambda: np.zeros(shape=7, dtype="complex64"),
    "zeros bool": lambda: np.zeros(9, bool),
    "ones": lambda: np.ones((2, 3), np.uint8),
    "full": lambda: np.full(5, 7),
    "arange": lambda: np.arange(30),
    "arange float": lambda: np.arange(0.1, 9.3, 0.37),
    "arange down": lambda: np.arange(10, -10, -3),
    "arange dtype": lambda: np.arange(3, 20, dtype=np.float32),
    "arange mixed": lambda: np.arange(0, 10.0, 1),
    "linspace": lambda: np.linspace(-1, 3, 17),
    "logspace": lambda: np.logspace(0, 2, 9),
    "zeros_like": lambda: np.zeros_like(SOURCE),
    "ones_like": lambda: np.ones_like(SOURCE, dtype=int),
    "full_like": lambda: np.full_like(SOURCE, 4),
    "array": lambda: np.array(SOURCE),
    "array F": lambda: np.array(SOURCE, order="F"),
    "array dtype": lambda: np.array(SOURCE, dtype=np.int32),
    "array of list": lambda: np.array([1.0, 2.0, 3.0]),
    "array of arrays": lambda: np.array([SOURCE, SOURCE]),
    "array ndmin": lambda: np.array(SOURCE, ndmin=4),
    "asarray dtype": lambda: np.asarray(SOURCE, np.float32),
    "asfortranarray": lambda: np.asfortranarray(SOURCE),
    "require": lambda: np.require(SOURCE.T, requirements="C"),
    "fromfunction": lambda: np.fromfunction(lambda i, j: i + 2 * j, (4, 5)),
    "eye": lambda: np.eye(5, 6, k=1),
    "identity": lambda: np.identity(4),
    "diag": lambda: np.diag(np.arange(4.0)),
    "tri": lambda: np.tri(4),
    "indices": lambda: np.indices((3, 4)),
    "meshgrid": lambda: np.meshgrid(np.arange(3), np.arange(4.0)),
    "mgrid": lambda: np.mgrid[0:5, 0:3],
    "ogrid": lambda: np.ogrid[0:5:0.5],
    "r_": lambda: np.r_[0:5, 7.0],
    "vander": lambda: np.vander(np.arange(1, 5)),
    "fromiter": lambda: np.fromiter(range(9), float),
    "frombuffer": lambda: np.frombuffer(bytes(64)),
    "fromstring": lambda: np.fromstring("1 2 3", sep=" "),
    "load": saved,
    "loadtxt": lambda: np.loadtxt(io.StringIO("1 2\n3 4")),
    "rng": lambda: np.random.default_rng(3).normal(size=(4, 5)),
    "rng integers": lambda: np.random.default_rng(3).integers(0, 9, 12),
    "RandomState": lambda: np.random.RandomState(3).rand(7),
    "tile": lambda: np.tile(SOURCE, (2, 2)),
    "repeat": lambda: np.repeat(SOURCE, 2, axis=0),
    "pad": lambda: np.pad(SOURCE, 2, mode="edge"),
}
VIEWS = {"repeat"}  # recorded, and shown in another shape
PLAIN = {"array ndmin", "frombuffer", "loadtxt", "ogrid", "r_"}


@pytest.mark.pending
@pytest.mark.parametrize("name", MADE)
def test_what_is_made_is_numpys(name: str) -> None:
    expected = MADE[name]()
    with npaccel.accelerate():
        result = MADE[name]()
    if not isinstance(expected, np.ndarray):
        expected, result = expected[0], result[0]
    if name not in PLAIN and npaccel.config.guard == "on":
        assert type(result) is npaccel.Array
    assert result.dtype == expected.dtype and result.strides == expected.strides
    if name not in VIEWS:
        assert result.flags.owndata == expected.flags.owndata
    assert result.flags.writeable == expected.flags.writeable
    np.testing.assert_allclose(np.asarray(result), expected, rtol=1e-15)


@pytest.mark.pending
def test_the_usual_random_functions_are_reached() -> None:
    np.random.seed(4)
    expected = np.random.rand(50)
    np.random.seed(4)
    with npaccel.accelerate():
        result = np.random.rand(50)
    assert type(result) is npaccel.Array and np.array_equal(result, expected)


def test_an_array_that_needs_no_copy_is_itself() -> None:
    with npaccel.accelerate():
        pending = SOURCE + 1
        for same in (np.asarray, np.asanyarray, np.ascontiguousarray):
            assert same(SOURCE) is SOURCE
            assert same(pending) is pending
        assert np.asfortranarray(pending.T).base is pending
        assert np.array(SOURCE, copy=None) is SOURCE
        assert np.array(SOURCE, copy=False) is SOURCE
        with pytest.raises(ValueError, match="copy"):
            np.array(SOURCE, np.int8, copy=False)


@pytest.mark.pending
def test_memory_of_empty_is_ours() -> None:
    with npaccel.accelerate():
        made = np.empty((3, 4))
        assert type(made) is npaccel.Array and made.flags.owndata
        made[...] = SOURCE[:3, :4]
    assert np.array_equal(made, SOURCE[:3, :4])


def test_small_ones_are_plain() -> None:
    with npaccel.accelerate(min_size=1000):
        assert {type(MADE[name]()) for name in MADE if name not in ("meshgrid",)} == {np.ndarray}


def test_far_too_much_is_numpys_to_refuse_or_to_give() -> None:
    with npaccel.accelerate():
        with pytest.raises((MemoryError, ValueError)):
            np.zeros(1 << 60)
        with pytest.raises((MemoryError, ValueError)):
            np.arange(1 << 60)
        if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
            return
        untouched = np.zeros(3 << 27)  # 3 GiB that cost nothing until used
        assert not _native.is_pending(untouched) and untouched[-1] == 0


numbers = st.one_of(
    st.integers(-1000, 1000),
    st.floats(-1e3, 1e3).map(lambda x: round(x, 3)),
)


@settings(deadline=None)
@given(numbers, numbers, numbers, st.sampled_from([None, "f4", "f8", "i4", "i8", "u8", "f2", "i2"]))
def test_ranges(start: Any, stop: Any, step: Any, dtype: str | None) -> None:
    """Bit for bit, or the same error."""

    def made() -> Any:
        try:
            return np.arange(start, stop, step or 1, dtype=dtype)
        except (ValueError, OverflowError, MemoryError) as error:
            return repr(error)

    if step and abs((stop - start) / step) > 1e5:
        return
    with np.errstate(all="ignore"):
        expected = made()
        with npaccel.accelerate():
            result = made()
    if isinstance(expected, str):
        assert result == expected
    else:
        assert result.dtype == expected.dtype
        assert result.tobytes() == expected.tobytes()


@pytest.mark.pending
def test_results_taken_over_are_freed_by_whoever_made_them() -> None:
    """What NumPy allocated for a result that became ours goes back to NumPy's handler."""
    unit, ones = np.eye(40), np.ones((40, 40))
    with npaccel.accelerate():
        for _ in range(50):
            made = np.dot(unit, ones)
            assert type(made) is npaccel.Array and made.base is None
            held = made[3:]
            del made
            held += 1
            assert held.sum() == 37 * 40 * 2
        again = np.dot(held, ones)
        assert again.flags.owndata and again.base is None


class Extent:
    """A number by its `__index__`, which is the user's code."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls, self.error = 0, error

    def __index__(self) -> int:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return 100_000


def test_a_shape_s_own_code_runs_once_and_its_error_comes_out(monkeypatch) -> None:
    monkeypatch.setattr(npaccel.config, "threshold", 1024)
    extent, wrong = Extent(), Extent(LookupError("mine"))
    with npaccel.accelerate():
        made = np.zeros(extent)
        with pytest.raises(LookupError, match="mine"):
            np.ones((2, wrong))
    assert made.shape == (100_000,) and (extent.calls, wrong.calls) == (1, 1)


LIKE_TYPES = {
    "none": None,
    "dtype": np.dtype("f4"),
    "name": "f4",
    "swapped": np.dtype(">f8"),
    "class": float,
}
LIKE_SHAPES: dict[str, Any] = {
    "none": None,
    "two": (3, 7),
    "list": [3, 7],
    "numpy's": (np.int64(5), np.uint8(4)),
    "empty": (0, 5),
    "no axes": (),
    "number": 30,
    "negative": (np.intp(3), -4),
    "truth": (True, 2),
    "fraction": (2.0, 3),
    "too large": (2**62, 2**62),
    "larger": (2**70, 2),
}


def looks(array: Any) -> tuple[Any, ...]:
    return array.shape, array.strides, array.dtype, array.flags.owndata, array.flags.forc


@pytest.mark.parametrize("shape", LIKE_SHAPES)
@pytest.mark.parametrize("dtype", LIKE_TYPES)
def test_empty_like(dtype: str, shape: str) -> None:
    words: dict[str, Any] = {"dtype": LIKE_TYPES[dtype], "shape": LIKE_SHAPES[shape]}
    given: tuple[dict[str, Any], ...] = (words, {**words, "order": "F"}, {**words, "subok": False})
    for prototype in (SOURCE, SOURCE.T, SOURCE[::2], np.asfortranarray(SOURCE[:, ::2]), SOURCE[:0]):

        def made(words: dict[str, Any], prototype: Any = prototype) -> Any:
            try:
                return looks(np.empty_like(prototype, **words))
            except (TypeError, ValueError, OverflowError, MemoryError) as error:
                return type(error), str(error)

        expected = [made(one) for one in given]
        with npaccel.accelerate():
            assert [made(one) for one in given] == expected


@pytest.mark.pending
def test_empty_like_is_made_without_python() -> None:
    called: list[str] = []

    def profile(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            called.append(frame.f_code.co_qualname)

    with npaccel.accelerate():
        prototype = np.ones((300, 300)) + 1.0
        sys.setprofile(profile)
        made = np.empty_like(prototype, dtype=np.dtype("c16"), shape=(200, 300))
        sys.setprofile(None)
        assert isinstance(made, _native.ArrayBase)
        made[...] = 2.0
        assert made.sum() == 120_000.0
    assert set(called) <= {"empty_like"}  # NumPy's, which says what may have a say
