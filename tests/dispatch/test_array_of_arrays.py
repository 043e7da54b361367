"""np.array([a, b]): rows of one array. Recorded where they are alike; else NumPy's, errors too."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native

N = 50
A = np.linspace(-2.0, 3.0, N)
B = A.reshape(5, 10)
NAN = np.where(A > 1.0, np.nan, A)
HUGE = np.array([2**62, -(2**62)] * (N // 2))


class Sub(np.ndarray[Any, Any]):
    pass


# Each takes what makes an operand, which gives pending arrays or plain ones.
CALLS: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "list": lambda f: np.array([f(A), f(A) * 2.0, f(A)]),
    "tuple": lambda f: np.array((f(A), f(A))),
    "one": lambda f: np.array([f(A)]),
    "itself twice": lambda f: np.array([f(A)] * 2),
    "matrices": lambda f: np.array([f(B), f(B) + 1.0]),
    "transposed": lambda f: np.array([f(B).T, f(B.T)]),
    "backwards": lambda f: np.array([f(A)[::-1], f(A)]),
    "broadcast": lambda f: np.array([np.broadcast_to(f(A), (3, N)), np.zeros((3, N))]),
    "asarray": lambda f: np.asarray([f(A), f(A)]),
    "asanyarray": lambda f: np.asanyarray([f(A), f(A)]),
    "ascontiguousarray": lambda f: np.ascontiguousarray([f(A), f(A)]),
    "asfortranarray": lambda f: np.asfortranarray([f(A), f(A)]),
    "order F": lambda f: np.array([f(A), f(A)], order="F"),
    "order C": lambda f: np.array([f(A), f(A)], order="C"),
    "dtype": lambda f: np.array([f(A), f(A)], dtype=np.float32),
    "dtype whole": lambda f: np.array([f(A), f(NAN)], dtype=np.int32),
    "dtype wider": lambda f: np.array([f(A), f(A)], np.complex128),
    "dtype narrower": lambda f: np.array([f(A + 1j), f(A)], np.float64),
    "dtype object": lambda f: np.array([f(A), f(A)], object),
    "dtype swapped": lambda f: np.array([f(A), f(A)], ">f8"),
    "mixed": lambda f: np.array([f(A), f(A.astype(np.float32)), f(np.arange(N))]),
    "wide integers": lambda f: np.array([f(HUGE), f(HUGE.astype(np.uint64))]),
    "bools": lambda f: np.array([f(A) > 0, f(A) < 1]),
    "bool and int": lambda f: np.array([f(A) > 0, f(np.arange(N, dtype=np.int8))]),
    "swapped": lambda f: np.array([f(A), A.astype(">f8")]),
    "lengths differ": lambda f: np.array([f(A), f(A)[:-1]]),
    "ranks differ": lambda f: np.array([f(B), f(A)]),
    "a number among them": lambda f: np.array([f(A), 1.0]),
    "nothing": lambda f: np.array([f(A)[:0], f(A)[:0]]),
    "numbers": lambda f: np.array([f(A).min(), f(A).max()]),
    "nested": lambda f: np.array([[f(A), f(A)], [f(A), f(A)]]),
    "many": lambda f: np.array([f(A)] * 100),
    "subclass": lambda f: np.array([f(A), A.view(Sub)]),
    "subok": lambda f: np.array([f(A), f(A)], subok=True),
    "ndmin": lambda f: np.array([f(A), f(A)], ndmin=4),
    "copy false": lambda f: np.array([f(A), f(A)], copy=False),
    "copy none": lambda f: np.array([f(A), f(A)], copy=None),
    "like": lambda f: np.array([f(A), f(A)], like=A),
}
WAYS: dict[str, Callable[[Any], Any]] = {"pending": lambda x: x + x.dtype.type(0), "plain": np.copy}


def outcome(call: Callable[[], Any]) -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = call()
            plain = np.array(found)
            shown = plain.dtype.str, plain.shape, found.flags.c_contiguous, found.flags.writeable
            value: Any = (*shown, found.strides, plain.tobytes() if plain.dtype != object else "")
        except (TypeError, ValueError) as error:
            value = type(error), str(error)
    return value, [(w.category, str(w.message)) for w in caught]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", CALLS)
def test_as_numpys(name: str, way: str) -> None:
    call, operand = CALLS[name], WAYS[way]
    want = outcome(lambda: call(operand))
    with npaccel.accelerate(min_size=1):
        assert outcome(lambda: call(operand)) == want


@pytest.mark.pending
def test_it_waits_and_owns_its_memory() -> None:
    with npaccel.accelerate(min_size=1):
        a, b = A * 2.0, A + 1.0
        both = np.array([a, b])
        assert type(both) is type(npaccel.asarray(A)) and _native.is_pending(both)
        assert both.base is None and both.flags.owndata
        a *= 3.0  # later
        assert both[0, 0] == -4.0 and a[0] == -12.0


@pytest.mark.pending
def test_who_is_hidden_is_read_without_a_fault() -> None:
    """NumPy puts them together; nothing is pending any more after the first."""
    large = np.linspace(0.0, 1.0, 100_000)
    with npaccel.accelerate():
        npaccel.evaluate()
        a, b, c = large * 2.0, large * 3.0, large * 4.0
        before = npaccel.stats()["guard_faults"]
        found = np.array([a, b, c], dtype=object)
        assert npaccel.stats()["guard_faults"] == before
    assert found.shape == (3, 100_000) and found[2, 5] == c[5]
