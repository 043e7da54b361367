"""Products of matrices of integers by loops of our own: NumPy's bits, which wrap."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import npaccel

from .at_once import same

Array = np.ndarray[Any, Any]
INTEGERS = "bBhIlLq"
# Rows, terms, columns: one, few, as many as a block has, some more; more terms than one block's.
EXTENTS = [
    (1, 1, 1), (1, 300, 1), (1, 40, 70), (70, 40, 1), (3, 2, 5), (4, 128, 32), (5, 129, 33),
    (64, 64, 64), (7, 300, 130), (90, 3, 70),
]  # fmt: skip
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "C": lambda a: a,
    "Fortran": np.asfortranarray,
    "steps": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "rows apart": lambda a: np.repeat(a, 3, axis=0)[::3],
    "backwards": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
}
pytestmark = pytest.mark.usefixtures("threads")


@pytest.fixture(autouse=True)
def usual_threshold(defer_everything: None) -> None:
    """Few of these arrays are deferred; `defer_everything` restores the threshold."""
    npaccel.config.threshold = 1 << 16


def numbers(char: str, shape: tuple[int, ...]) -> Array:
    limits = np.iinfo(char)
    rng = np.random.default_rng(sum(shape))
    return rng.integers(limits.min, limits.max, shape, dtype=char, endpoint=True)


def pairs(char: str) -> Iterator[tuple[Array, Array]]:
    for k, (rows, terms, columns) in enumerate(EXTENTS):
        a, b = numbers(char, (rows, terms)), numbers(char, (terms, columns))
        layouts = list(LAYOUTS.values())
        yield a, b
        yield layouts[k % 5](a), layouts[(k + 1 + k // 5) % 5](b)


@pytest.mark.parametrize("char", INTEGERS)
def test_matrices(char: str) -> None:
    for a, b in pairs(char):
        same(np.matmul, a, b)
        same(np.dot, a, b)
        same(a.dot, b)
        same(np.tensordot, a, b, 1)


@pytest.mark.parametrize("char", INTEGERS)
def test_vectors_stacks_and_powers(char: str) -> None:
    for a, b in pairs(char):
        same(np.matmul, a[0], b)
        same(np.matmul, a, b[:, 0])
        same(np.dot, a[0], b[:, 0])
        same(np.matmul, a[0], b[:, 0])
        same(np.matmul, np.stack([a, a[::-1]]), b)
        same(np.matmul, a, np.stack([b] * 3)[::2])
    for a in (numbers(char, (5, 5)), numbers(char, (70, 70))):
        same(np.linalg.matrix_power, a, 5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    lay = LAYOUTS[layout]
    for char in "Bil":
        for rows, terms, columns in EXTENTS:
            a, b = numbers(char, (rows, terms)), numbers(char, (terms, columns))
            same(np.matmul, lay(a), b)
            same(np.matmul, a, lay(b))


def test_given_results_and_operators() -> None:
    for char in "Bhil":
        a, b = numbers(char, (130, 260)), numbers(char, (260, 70))
        want = a @ b
        with npaccel.accelerate():
            out = np.zeros((130, 70), char)
            assert np.matmul(a, b, out=out) is out and out.tobytes() == want.tobytes()
            wide = np.zeros((70, 260), char)
            assert np.array(np.matmul(a, b, out=wide.T[::2])).tobytes() == want.tobytes()
            assert np.array(a @ b).tobytes() == want.tobytes()
            square = a[:, :130].copy()
            kept = square @ square
            np.matmul(square, square, out=square)  # over what it is of
            assert np.array(kept).tobytes() == square.tobytes()
        ours = npaccel.asarray(a) + 0
        assert np.array(ours @ b).tobytes() == want.tobytes()
        assert np.array(ours.dot(b)).tobytes() == want.tobytes()
        assert np.array(b.T @ ours.T).tobytes() == want.T.tobytes()


def test_what_is_left_to_numpy() -> None:
    a, b = numbers("i", (30, 40)), numbers("l", (40, 20))
    same(np.matmul, a, b)
    same(np.matmul, a > 0, b)
    same(np.matmul, a, b.astype("f8"))
    same(np.matmul, a, b[:39])
    same(np.dot, a, b.astype("i")[:39])
    same(np.matmul, a[:, :0], b[:0])
    same(np.dot, a, np.stack([b, b]))
    same(np.matmul, a, b, dtype="f8")
    same(np.matmul, a, b.astype("i"), axes=[(0, 1), (0, 1), (1, 0)])


def test_long_vectors() -> None:
    for char in "Bhil":
        a, x, y = (numbers(char, shape) for shape in ((300, 400), (400,), (300,)))
        long = numbers(char, (40_000,))
        for call in (np.matmul, np.dot):
            same(call, a, x)
            same(call, a.T.copy().T, x[::-1])
            same(call, y, a)
            same(call, long, long[::-1])
            same(call, np.repeat(long, 2)[::2], long)
            same(call, long[None], long)
        with npaccel.accelerate():
            assert isinstance(np.dot(long, long), np.generic)
            made = a @ x
        assert made.base is None and made.flags.owndata


def test_a_number_is_a_number_with_any_threshold() -> None:
    npaccel.config.threshold = 0
    long = numbers("l", (40_000,))
    want = long @ long
    with npaccel.accelerate():
        for number in (long @ long, np.dot(long, long), npaccel.asarray(long).dot(long)):
            assert type(number) is type(want) and number == want
