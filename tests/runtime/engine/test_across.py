"""Maps and folds over rows that arrays lie across: rows, or pieces of them by turns, are alike."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel.backends import tasks
from npaccel.backends.tasks import ACROSS_TILE, Tasks

pytestmark = pytest.mark.usefixtures("deferred")
Array = np.ndarray[Any, Any]
DTYPES = ("f8", "f4", "i1", "i8", "c16", "f2", "b1")


def into_part(a: Array, b: Array, m: Array) -> Array:
    made = np.zeros(a.shape[::-1], a.dtype)
    made.T[1:, :-1] = b[1:, :-1]
    return made


def under_mask(a: Array, b: Array, m: Array) -> Array:
    made = b.copy()
    made[m] = a[m]
    np.copyto(made, a, where=~m)
    return made


def summed(a: Array, b: Array, m: Array) -> Any:
    """All sums are whole numbers, which have no last bits."""
    dtype = np.dtype("f4") if a.dtype == "f2" else None
    c = a + b
    return c.sum(dtype=dtype), c.sum(-1, dtype=dtype), (a * b).sum(0, dtype=dtype)


PROGRAMS: dict[str, Callable[[Array, Array, Array], Any]] = {
    "copied": lambda a, b, m: (a.copy("C"), b.copy("F")),
    "added": lambda a, b, m: a + b,
    "chosen": lambda a, b, m: np.where(m, a, b),
    "into a part": into_part,
    "under a mask": under_mask,
    "rolled": lambda a, b, m: np.roll(a, 1, axis=0) + b,
    "from the end": lambda a, b, m: a[::-1] + b[:, ::-1],
    "of two results": lambda a, b, m: (a + b, a * b),
    "summed": summed,
    "folded": lambda a, b, m: ((a * b).max(), (a + b).max(-1), (a == b).all(), (a != b).any(-1)),
    "searched": lambda a, b, m: ((a + b).argmax(), (a * b).argmin(-1)),
    "scaled": lambda a, b, m: (a + b) * (a + b).max(-1, keepdims=True),
}


def operands(shape: tuple[int, ...], dtype: str) -> list[Array]:
    """One in C order, one in Fortran's, and a mask whose axes have turned once."""
    rng = np.random.default_rng(len(shape))
    a = rng.integers(0, 2 if dtype == "b1" else 50, shape).astype(dtype)
    b = np.asfortranarray(a[..., ::-1])
    m = np.moveaxis(np.ascontiguousarray(np.moveaxis(a > 20, 0, -1)), -1, 0)
    return [a, b, m]


def same(expected: Any, found: Any) -> None:
    assert found.dtype == expected.dtype and found.strides == expected.strides
    assert np.array(found).tobytes() == np.array(expected).tobytes()


# Of the last three, lines a power of two apart are too many for the cache: what lies across passes
# through a task's memory (`crosses` in native/run/step.c), whole tasks and the last ones.
SHAPES = [(70, 200), (200, 65), (3, 90, 130), (2, 64, 7, 50), (256, 300), (515, 261), (4, 256, 260)]


@pytest.mark.one_in(8)
@pytest.mark.parametrize("tiering", ["eager", "off"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_results_are_numpys(program, shape, tiering, setting) -> None:
    setting("tiering", tiering)
    for dtype, threads in itertools.product(DTYPES, (1, 3)):
        plain = operands(shape, dtype)
        with npaccel.config(threads=threads):
            found = program(*map(npaccel.asarray, plain))
            npaccel.evaluate()
        expected = program(*plain)
        several = isinstance(expected, tuple)
        pairs = zip(expected, found, strict=True) if several else [(expected, found)]
        for each, ours in pairs:
            same(each, ours)


@pytest.mark.pending
def test_what_lies_across_is_named(setting) -> None:
    setting("tiering", "eager")
    x = npaccel.asarray(np.ones((90, 100)))
    turned = str(npaccel.explain(x.T.copy() + np.ones((100, 90))))
    npaccel.evaluate()
    apart = str(npaccel.explain(x[:, ::2] + 1))
    assert "f8 across" in turned and "f8 strided" not in turned
    assert "f8 strided" in apart and "f8 across" not in apart


def cut(extents: tuple[int, int], threads: int = 2) -> tuple[int, int]:
    """(rows of a task, elements of each of them)"""
    grid = Tasks(1, True, 0, 16, 0, 0, (), across=8).grid(extents, threads)
    return grid.band_step, grid.inner_step


def test_tasks_hold_whole_lines() -> None:
    rows, elements = cut((900, 800))
    assert rows % 8 == 0 and 800 <= elements < 800 + ACROSS_TILE
    assert cut((900, 800), threads=1) == (rows, elements)  # their memory stays small
    rows, elements = cut((3000, 20_000))
    assert rows == 8 and elements % ACROSS_TILE == 0
    assert rows * elements * 16 <= tasks.ACROSS_TASKS * tasks.TASK_BYTES
    rows, elements = cut((5, 200_000))
    assert rows == 5 and elements % ACROSS_TILE == 0
    assert cut((0, 10))[0] >= 1 and cut((10, 0))[1] >= 1
