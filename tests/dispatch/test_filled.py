"""Arrays that NumPy makes and fills: values, dtypes, errors, warnings; also in macro sections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

from .small.comparison import all_same, difference, seen

Array = np.ndarray[Any, Any]
N = 40_000
DTYPES = ("f8", "f4", "i8", "u8", "u1", "?", "c16", "f2", ">f8", "M8[s]")
CASTINGS: tuple[dict[str, Any], ...] = (
    {},
    *({"casting": casting} for casting in ("unsafe", "same_kind", "no", "perhaps")),
    {"where": False},
)
VALUES: dict[str, Any] = {
    "zero": 0,
    "one": 1,
    "negative": -1,
    "a truth value": True,
    "a fraction": 2.5,
    "nan": np.nan,
    "too large": 2**70,
    "complex": 3 + 1j,
    "byte": 256,
    "a NumPy number": np.int8(3),
    "of single precision": np.float32(1.5),
    "an array without axes": np.array(2),
    "an array of one": np.ones(1),
    "a row": np.ones(N // 4),
    "none": None,
    "text": "a",
}
SHAPES: dict[str, Any] = {
    "number": N,
    "NumPy's": np.int64(N),
    "tuple": (N // 4, 4),
    "list": [4, N // 4],
    "empty": (0, N),
    "no axes": (),
    "negative": (-1, 2),
    "too large": 2**70,
    "fraction": 2.5,
    "truth value": (True, N),
    "none": None,
    "array": np.array([4, N // 4]),
    "an axis of one": (N, 1, 1),
}
TYPES = (None, "f8", float, bool, "f4", ">f8", np.dtype("i2"), "M8[s]", "no such type")


def compare(calls: list[Callable[[Array], Any]], start: Array) -> None:
    """In a block, and on npaccel arrays outside."""
    all_same([(str(k), call, lambda: (start.copy(),)) for k, call in enumerate(calls)], times=1)
    ours = npaccel.asarray(start.copy())
    for k, call in enumerate(calls):
        found, expected = (seen(call, (x.copy(),)) for x in (ours, start))
        assert found == expected, f"{k}: {difference(found, expected)}"


def filled(value: Any) -> Callable[[Array], Any]:
    def call(x: Array) -> Array:
        assert x.fill(value) is None
        return x

    return call


def copied(value: Any, casting: dict[str, Any]) -> Callable[[Array], Any]:
    def call(x: Array) -> Array:
        np.copyto(x, value, **casting)
        return x

    return call


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_are_written_as_by_numpy(dtype: str, name: str) -> None:
    value = VALUES[name]
    calls = [filled(value), *(copied(value, casting) for casting in CASTINGS)]
    compare(calls, (np.arange(N) % 5).astype(dtype).reshape(4, -1))


def test_what_may_not_be_written() -> None:
    def sealed(write: Callable[[Array], Any]) -> Callable[[Array], Any]:
        def call(x: Array) -> Any:
            x.setflags(write=False)
            return write(x)

        return call

    compare([sealed(filled(0)), sealed(copied(0, {}))], np.ones(N))


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("maker", [np.zeros, np.ones], ids=["zeros", "ones"])
def test_makers(maker: Callable[..., Array], shape: Any) -> None:
    def make(*args: Any, **words: Any) -> Callable[[Array], Any]:
        return lambda _: maker(*args, **words)

    calls = [make(shape, dtype) for dtype in TYPES]
    calls += [make(shape, "f4", order) for order in ("C", "F", "K", None)]
    calls += [make(shape=shape), make(shape, dtype=np.int32), make(shape, like=np.ones(2))]
    compare(calls, np.ones(1))


def in_section(u: Array, v: Array) -> Array:
    """What blocks redirect, on arrays that have no values while a section is recorded."""
    w = np.where(u > 0.25, u, 0.5) * 0.5
    room = np.empty(u.shape)
    np.copyto(room, 0.0)
    room += np.take(w, np.arange(u.size)) + np.copy(u) + np.zeros_like(w)
    v *= 0.5
    room.fill(1.0)
    return np.sqrt(np.abs(w)) - np.reshape(u, u.shape) * 0.5 + room


def rounds(section: Callable[[Array, Array], Array], size: int) -> tuple[Array, Array]:
    u, v = np.arange(size) % 101, np.full(size, 0.375)
    for _ in range(4):
        found = section(u, v)
    return found.copy(), v.copy()


@pytest.mark.parametrize("size", [620, N])
def test_sections_record_what_blocks_redirect(size: int, defer_everything: None) -> None:
    npaccel.config.threshold = 1 << 18  # as a user has it
    expected = rounds(in_section, size)
    with npaccel.accelerate():
        found = rounds(npaccel.macro(in_section), size)
    np.testing.assert_array_equal(found, expected)
