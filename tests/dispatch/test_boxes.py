"""np.pad, repeat, tile, concatenate are recorded as copies of boxes; many are read in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native

from .differential import DTYPES, FOREIGN, check, edge_values

Array = np.ndarray[Any, Any]
SHAPES = [(15,), (3, 5), (5, 3), (1, 15), (15, 1), (3, 1, 5), (2, 3, 2, 2), (0, 3), (1,)]

REPEATS: dict[str, Callable[[Array], Any]] = {
    "flat": lambda x: np.repeat(x, 3),
    "once": lambda x: np.repeat(x, 1),
    "never": lambda x: np.repeat(x, 0),
    "below zero": lambda x: np.repeat(x, -1),
    "first": lambda x: np.repeat(x, 2, axis=0),
    "last": lambda x: np.repeat(x, 2, -1),
    "once along": lambda x: np.repeat(x, 1, axis=0),
    "no such axis": lambda x: np.repeat(x, 2, axis=9),
    "axis None": lambda x: np.repeat(x, 2, axis=None),
    "an array": lambda x: np.repeat(x, np.arange(x.shape[0]), axis=0),
    "a list": lambda x: np.repeat(x, [2], axis=0),
    "a NumPy number": lambda x: np.repeat(x, np.int64(2)),
    "a truth value": lambda x: np.repeat(x, True),
    "a fraction": lambda x: np.repeat(x, 1.5),
    "by names": lambda x: np.repeat(a=x, repeats=2, axis=0),
    "columns": lambda x: np.repeat(x.T, 2),
    "columns along": lambda x: np.repeat(x.T, 2, axis=0),
    "reversed": lambda x: np.repeat(x[::-1], 2, axis=0),
    "of a repeat": lambda x: np.repeat(np.repeat(x, 2, axis=0), 3, axis=-1) * 2,
}

TILES: dict[str, Callable[[Array], Any]] = {
    "three": lambda x: np.tile(x, 3),
    "one": lambda x: np.tile(x, 1),
    "ones": lambda x: np.tile(x, (1, 1)),
    "none": lambda x: np.tile(x, 0),
    "a tuple of one": lambda x: np.tile(x, (2,)),
    "both": lambda x: np.tile(x, (2, 3)),
    "the first": lambda x: np.tile(x, (3, 1)),
    "the last": lambda x: np.tile(x, (1, 3)),
    "more axes": lambda x: np.tile(x, (2, 1, 1, 1, 2)),
    "the middle": lambda x: np.tile(x, (1, 2, 1)),
    "none of one": lambda x: np.tile(x, (2, 0)),
    "nothing": lambda x: np.tile(x, ()),
    "a list": lambda x: np.tile(x, [2, 2]),
    "an array": lambda x: np.tile(x, np.array([2, 1])),
    "below zero": lambda x: np.tile(x, (2, -1)),
    "by name": lambda x: np.tile(x, reps=2),
    "columns": lambda x: np.tile(x.T, (2, 2)),
    "reversed": lambda x: np.tile(x[::-1], (2, 1)),
    "whose it is": lambda x: [
        (np.tile(x, r).flags.owndata, np.tile(x, r).base is None) for r in (1, 2, (2, 1), (1, 2))
    ],
}

JOINED: dict[str, Callable[[Array], Any]] = {
    "two": lambda x: np.concatenate((x, x)),
    "a list": lambda x: np.concatenate([x, 2 * x, x], axis=-1),
    "by name": lambda x: np.concatenate((x, x), axis=0),
    "one": lambda x: np.concatenate((x,)),
    "no axis": lambda x: np.concatenate((x, x), axis=None),
    "nothing": lambda x: np.concatenate(()),
    "an array": np.concatenate,
    "no such axis": lambda x: np.concatenate((x, x), axis=7),
    "an axis twice": lambda x: np.concatenate((x, x), 0, axis=0),
    "a NumPy number": lambda x: np.concatenate((x, x), axis=np.int64(0)),
    "a truth value": lambda x: np.concatenate((x, x), axis=False),
    "nothing else": lambda x: np.concatenate(
        (x, x), axis=0, out=None, dtype=None, casting="same_kind"
    ),
    "another dtype": lambda x: np.concatenate((x, x), dtype="f4"),
    "no casting": lambda x: np.concatenate((x, x), casting="no"),
    "no such casting": lambda x: np.concatenate((x, x), casting="perhaps"),
    "no such name": lambda x: np.concatenate((x, x), order="C"),
    "into": lambda x: np.concatenate((x, x), out=np.empty((2 * x.shape[0], *x.shape[1:]))),
    "mixed": lambda x: np.concatenate((x, x.astype("f4"))),
    "mixed, no casting": lambda x: np.concatenate((x, x.astype("f4")), casting="no"),
    "ranks": lambda x: np.concatenate((x, x[..., None])),
    "shapes": lambda x: np.concatenate((x, x[:, :-1])),
    "shapes along": lambda x: np.concatenate((x, x[..., :-1]), axis=-1),
    "empty ones": lambda x: np.concatenate((x, x[:0], x)),
    "around": lambda x: np.concatenate((x[-1:], x, x[:1])) * 2,
    "columns": lambda x: np.concatenate((x.T, x.T)),
    "reversed": lambda x: np.concatenate((x[::-1], x)),
    "orders": lambda x: np.concatenate((x, np.asfortranarray(x))),
    "still": lambda x: np.concatenate((np.broadcast_to(x[:1], x.shape), x)),
    "of itself": lambda x: np.concatenate((y := np.concatenate((x, x)), y)) + 1,
    "stack": lambda x: (np.stack((x, x)), np.stack([x, x], axis=-1), np.stack((x, -x), 1)),
    "stack's": lambda x: (np.vstack((x, x)), np.hstack((x, x)), np.append(x, x)),
    "whose it is": lambda x: [
        (y.flags.owndata, y.base is None)
        for y in (np.concatenate((x, x)), np.concatenate((x, x), axis=-1))
    ],
    "changed between": lambda x: (np.concatenate((x, x)), np.multiply(x, 2, out=x))[0] + 1,
    "a list that holds it": lambda x: np.concatenate([x.tolist(), x]),
    "numbers": lambda x: np.concatenate([[0.5, 2.0], x.ravel(), (1, 2), [True]]),
    "rows": lambda x: np.concatenate([[[1] * x.shape[-1]], x], axis=0),
    "rows of another length": lambda x: np.concatenate([[[1, 2]], x], axis=0),
    "many": lambda x: np.concatenate([x.ravel(), [2**70, 1]]),
    "words": lambda x: np.concatenate([["a"], x.ravel()]),
    "a list of lists and no list": lambda x: np.concatenate([[[1], 2], x]),
    "no numbers": lambda x: np.concatenate([[], x.ravel()]),
    "a number": lambda x: np.concatenate([1.0, x]),
    "integers": lambda x: np.concatenate([np.arange(3), x.ravel(), np.float32([1.5])]),
    "appended": lambda x: np.append(x, [1, 2]),
}

MODES = ["constant", "edge", "wrap", "reflect", "symmetric"]
WIDTHS: dict[str, Any] = {
    "one": 1,
    "none": 0,
    "three": 3,
    "many": 8,
    "a pair": (1, 2),
    "before": (2, 0),
    "a tuple of one": (2,),
    "a list of pairs": [(1, 1), (0, 2)],
    "pairs": ((0, 1), (2, 0)),
    "below zero": -1,
    "a fraction": 1.5,
    "a NumPy number": np.int64(1),
    "an array": np.array([1, 2]),
    "three numbers": (1, 2, 3),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "call",
    [*REPEATS.values(), *TILES.values(), *JOINED.values()],
    ids=[*REPEATS, *TILES, *JOINED],
)
def test_calls_are_numpys(call: Callable[[Array], Any], shape: tuple[int, ...]) -> None:
    values = np.resize(edge_values("d"), shape)
    check(call, lambda: (values.copy(),))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("mode", MODES)
def test_pads_are_numpys(mode: str, width: Any, shape: tuple[int, ...]) -> None:
    values = np.resize(edge_values("d"), shape)
    check(lambda x: np.pad(x, width, mode), lambda: (values.copy(),))


CALLS: dict[str, Callable[[Array], Any]] = {
    "by default": lambda x: np.pad(x, 1),
    "mode by name": lambda x: np.pad(x, 1, mode="wrap"),
    "all by names": lambda x: np.pad(array=x, pad_width=1, mode="edge"),
    "sevens": lambda x: np.pad(x, 1, constant_values=7),
    "sevens, by mode": lambda x: np.pad(x, 1, mode="constant", constant_values=7),
    "odd": lambda x: np.pad(x, 1, mode="reflect", reflect_type="odd"),
    "the largest": lambda x: np.pad(x, 1, mode="maximum"),
    "a ramp": lambda x: np.pad(x, 2, mode="linear_ramp"),
    "a word": lambda x: np.pad(x, 1, mode="nothing"),
    "no word": lambda x: np.pad(x, 1, mode=None),
    "columns": lambda x: np.pad(x.T, 1, mode="edge"),
    "every other one": lambda x: np.pad(x[:, ::2], (1, 2), mode="reflect"),
    "reversed": lambda x: np.pad(x[::-1, ::-1], 2, mode="symmetric"),
    "a pad of a pad": lambda x: np.pad(np.pad(x, 1, mode="edge"), 1, mode="wrap") + 1,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_other_calls(call: Callable[[Array], Any]) -> None:
    values = np.random.default_rng(7).normal(size=(6, 7)).round(1)
    check(call, lambda: (values.copy(),))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", [*DTYPES, *FOREIGN])
def test_each_dtype(dtype: str) -> None:
    known = dtype in DTYPES
    values = edge_values(dtype).reshape(5, 3) if known else np.arange(15).astype(dtype)
    check(
        lambda x: (
            (np.repeat(x, 2), np.tile(x, 3), np.concatenate((x, x))),
            (np.pad(x, 1, mode="edge"), np.pad(x, 2)),
        ),
        lambda: (values.copy(),),
    )


def neighbours(x: Array, mode: str, width: int = 1) -> Array:
    """A sum over a padded array, as people write it."""
    p, (rows, columns) = np.pad(x, width, mode=mode), x.shape
    total = -4 * x
    for by in (0, 2 * width):
        total = total + p[by : by + rows, width:-width] + p[width:-width, by : by + columns]
    return total


STENCILS: dict[str, Callable[[Array], Any]] = {
    "of two": lambda x: neighbours(x, "wrap", 2),
    "corners": lambda x: (p := np.pad(x, 1, mode="edge"))[:-2, 2:] - p[2:, :-2] * p[:-2, :-2],
    "changed between": lambda x: (np.pad(x, 1, mode="edge"), np.multiply(x, 2, out=x))[0] + 1,
    "written": lambda x: [p := np.pad(x, 1, mode="wrap"), p.__setitem__(0, 7.0), p + p],
    "a fold": lambda x: (np.pad(x, 1, mode="edge")[1:-1, 2:] * x).max(axis=0),
    "blocks": lambda x: x[: x.shape[0] // 2 * 2] - np.repeat(x[: x.shape[0] // 2], 2, axis=0),
    "rows": lambda x: x + np.tile(x[0], (x.shape[0], 1)),
    "a table": lambda x: np.tile(x[:, :1], x.shape[1]) * x,
}


@pytest.mark.parametrize("shape", [(3, 3), (4, 9), (40, 33), (70, 5), (3, 300)])
@pytest.mark.parametrize(
    "stencil",
    [*STENCILS.values(), *(lambda x, mode=mode: neighbours(x, mode) for mode in MODES)],
    ids=[*STENCILS, *MODES],
)
def test_what_reads_them(stencil: Callable[[Array], Any], shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(7).normal(size=shape).round(1)
    check(stencil, lambda: (values.copy(),), ulp=1)


@pytest.mark.pending
@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect", "symmetric"])
def test_a_step_of_a_stencil_moves_each_element_once(mode: str) -> None:
    if npaccel.config.backend == "numpy" or npaccel.config.check != "off":
        pytest.skip("as kernels compute it")
    x = npaccel.asarray(np.random.default_rng(7).normal(size=(300, 200)))
    npaccel.evaluate(x + 1)
    npaccel.stats(reset=True)
    npaccel.evaluate(neighbours(x, mode))
    found = npaccel.stats()
    assert found["kernels"] == 1 and found["bytes_written"] == x.nbytes


@pytest.mark.pending
def test_what_is_made_of_little_waits() -> None:
    """The result's size counts, not that of what it repeats."""
    few = np.random.default_rng(7).normal(size=(300, 1))
    with npaccel.accelerate(min_size=1 << 16):
        made = np.repeat(few, 200, axis=1), np.tile(few, 200), np.tile(few[:, 0], (200, 1))
        total = [2 * each for each in made]
        assert all(type(each) is npaccel.Array for each in [*made, *total])
        few[0] = 7.0  # NumPy has read it by now
        assert [float(each.flat[0]) for each in total] == [2 * float(made[0][0, 0])] * 3
        assert float(made[0][0, 0]) != 7.0
        assert type(np.repeat(few[:3], 2)) is np.ndarray


@pytest.mark.pending
def test_lists_and_other_dtypes_wait_too() -> None:
    with npaccel.config(tiering="eager", backend="llvm"), npaccel.accelerate():
        x = np.arange(60_000.0) * 2
        for y in (np.concatenate([[0], x]), np.append(x, [1, 2]), np.hstack([np.arange(3), x])):
            assert _native.is_pending(y)
