"""Where no kernel is: lines of a few elements are gone through along a longer axis."""

import itertools

import numpy as np
import pytest

import npaccel
from npaccel.dispatch import ufunc

SHAPES = [(1500, 3), (3, 1500), (1100, 2, 3), (2, 1100, 3), (4, 3, 90)]
FOLDS = ["max", "min", "any", "all", "sum", "prod", "argmax"]


def of(shape: tuple[int, ...], dtype: str, order: tuple[int, ...]) -> np.ndarray:
    """Numbers in this shape, whose axes lie in that order."""
    rng = np.random.default_rng(3)
    made = rng.integers(-9, 10, [shape[axis] for axis in order]).astype(dtype)
    if dtype == "f8":
        made[..., ::5] *= 0.1
    return made.transpose(np.argsort(order))


def same(found: np.ndarray, expected: np.ndarray, close: bool = False) -> None:
    assert found.dtype == expected.dtype
    if close:
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-11)
    else:
        np.testing.assert_array_equal(found, expected)
    if found.ndim > 1:
        assert found.strides == expected.strides


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["f8", "i2"])
def test_folds(shape: tuple[int, ...], dtype: str) -> None:
    for order in itertools.permutations(range(len(shape))):
        x = of(shape, dtype, order)
        ours = npaccel.asarray(x)
        for name, axis in itertools.product(FOLDS, [*range(len(shape)), (0, len(shape) - 1)]):
            if name == "argmax" and isinstance(axis, tuple):
                continue
            with npaccel.config(tiering="off"):
                found = npaccel.evaluate(getattr(ours, name)(axis=axis))
            expected = getattr(x, name)(axis=axis)
            same(np.asarray(found), np.asarray(expected), name == "sum" and dtype == "f8")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shape", SHAPES)
def test_masked_folds_and_picked_rows(shape: tuple[int, ...]) -> None:
    mask = of(shape, "?", tuple(range(len(shape))))
    for order in itertools.permutations(range(len(shape))):
        x = of(shape, "f4", order)
        ours = npaccel.asarray(x)
        for axis in range(len(shape)):
            pick = np.random.default_rng(1).integers(0, shape[axis], 1200)
            with npaccel.config(tiering="off"):
                most = npaccel.evaluate(ours.max(axis=axis, where=mask, initial=-5))
                rows = npaccel.evaluate((ours * 2).take(pick, axis))
            same(np.asarray(most), x.max(axis=axis, where=mask, initial=-5))
            same(np.asarray(rows), (x * 2).take(pick, axis))


@pytest.mark.pending
@pytest.mark.parametrize("columns", [2, 3, 16, 100])
def test_rows_picked_from_what_is_there_are_numpys(columns: int) -> None:
    """Be they as short as points: NumPy copies each as a whole."""
    points = np.random.default_rng(1).random((200_000 // columns, columns))
    pick = np.random.default_rng(2).integers(0, len(points), len(points))
    with npaccel.config(threshold=256 << 10), npaccel.accelerate():
        before = npaccel.stats()["requests"]
        for _ in range(3):
            found = points[pick], points.take(pick, axis=0), np.take(points, pick, 0)
        assert npaccel.stats()["requests"] == before
    for each in found:
        assert each.tobytes() == points[pick].tobytes()


@pytest.mark.pending
@pytest.mark.parametrize("name", ["any", "all"])
def test_truth_of_an_array_is_recorded_without_python(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though NumPy's function names the type of the result."""
    x = np.ones((300, 300))
    function = getattr(np, name)
    with npaccel.accelerate():
        function(x), function(x, axis=0)  # the first time rules are asked for
        monkeypatch.setattr(ufunc, "record_fold", None)
        assert function(x)
        np.testing.assert_array_equal(function(x, axis=0), np.ones(300, bool))


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "f4", "f8", "c16"])
def test_reversed(dtype: str) -> None:
    for n in (1, 5, 33, 1030):
        x = np.random.default_rng(n).integers(0, 100, (3, n)).astype(dtype)
        ours, into, plain = npaccel.asarray(x), npaccel.asarray(x.copy()), x.copy()
        with npaccel.config(tiering="off"):
            found = npaccel.evaluate(ours[:, ::-1].astype("c16"))
            into[::-1, ::-1] = ours[:, ::-1] == 7
            np.logical_not(into[:, ::-1], out=into[:, ::-1], casting="unsafe")
            npaccel.evaluate(into)
        same(np.asarray(found), x[:, ::-1].astype("c16"))
        plain[::-1, ::-1] = x[:, ::-1] == 7
        np.logical_not(plain[:, ::-1], out=plain[:, ::-1], casting="unsafe")
        same(np.asarray(into), plain)
