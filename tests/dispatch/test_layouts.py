"""How the results of folds lie in memory: as NumPy's, whatever the order of the array's axes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npaccel

FOLDS: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "prod": np.prod,
    "any": np.any,
    "std": np.std,
    "nansum": np.nansum,
    "count_nonzero": np.count_nonzero,
}


COMPILED = ("sum",)  # the others differ from it in what is folded


def described(value: Any) -> Any:
    """Before NumPy 2.3 `count_nonzero` of all is an int."""
    if isinstance(value, int):
        return type(value)
    return value.shape, value.strides, value.dtype


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("shape", [(6, 5, 4), (6, 1, 4), (50, 20, 40)])
def test_folds_keep_the_order_of_axes(
    name: str, shape: tuple[int, ...], request: pytest.FixtureRequest
) -> None:
    if name not in COMPILED:
        request.getfixturevalue("uncompiled")
    fold = FOLDS[name]
    for order in itertools.permutations(range(3)):
        x = np.ones([shape[k] for k in order]).transpose(np.argsort(order))
        for axis in (0, 1, 2, (0, 1), (0, 2), (1, 2), None):
            for keepdims in (False, True):
                expected = fold(x, axis=axis, keepdims=keepdims)
                got = fold(npaccel.asarray(x), axis=axis, keepdims=keepdims)
                with npaccel.accelerate():
                    plain = fold(x, axis=axis, keepdims=keepdims)
                for found in (got, plain):
                    assert described(found) == described(expected), (order, axis, keepdims)
                    assert np.allclose(found, expected)


CALLS: dict[str, Callable[[Any], Any]] = {
    "add": lambda x: x + x,
    "negative": np.negative,
    "by a number": lambda x: x * 2.0,
    "compared": lambda x: x > 1,
    "cast": lambda x: x * np.float32(2) + x.astype(np.int32),
    "broadcast": lambda x: x + x[..., :1],
    "two results": lambda x: np.modf(x)[1],
    "where": lambda x: np.where(x > 1, x, 0.0),
    "under a mask": lambda x: np.add(x, x, where=x > 1, out=None),
    "clip": lambda x: x.clip(0.0, 1.0),
}


@pytest.mark.parametrize("name", ["sum", "any"])
def test_the_mask_of_a_fold_orders_its_axes_too(name: str, uncompiled: None) -> None:
    fold, shape = FOLDS[name], (40, 6, 30, 20)
    ones = [
        np.ones([1 if k == repeated else n for k, n in enumerate(shape)]) for repeated in range(4)
    ]
    for x in (*(np.broadcast_to(one, shape) for one in ones), np.ones(shape, order="F")):
        for order in itertools.permutations(range(4)):
            mask = np.ones([shape[k] for k in order], bool).transpose(np.argsort(order))
            for axis in (0, 1, (1, 3), -1):
                with npaccel.accelerate():
                    found = fold(x, axis=axis, where=mask)
                assert found.strides == fold(x, axis=axis, where=mask).strides, (order, axis)


@pytest.mark.filterwarnings("ignore:'where' used without 'out'")
@pytest.mark.parametrize("name", CALLS)
def test_axes_of_one_element_lie_as_numpys(name: str) -> None:
    call = CALLS[name]
    for order in itertools.permutations(range(3)):
        for shape in ((1, 60, 70), (60, 1, 70), (60, 70, 1), (1, 1, 4000)):
            x = np.ones([shape[k] for k in order]).transpose(np.argsort(order))
            expected = call(x)
            with npaccel.accelerate():
                plain = call(x)
            for found in (call(npaccel.asarray(x)), plain):
                assert (found.shape, found.strides) == (expected.shape, expected.strides), order


@pytest.mark.parametrize("order", ["C", "F", "A", "K"])
def test_results_in_an_order(order: Any) -> None:
    """Any is C, but where all operands lie as Fortran's."""
    base = np.arange(24.0).reshape(2, 3, 4)
    layouts = [
        base,
        np.asfortranarray(base),
        np.repeat(base, 2, axis=-1)[..., ::2],
        np.repeat(base.T, 2, axis=-1)[..., ::2].T,
        base[:, ::-1],
    ]
    for x, y in itertools.product(layouts, [*layouts, 2.0]):
        expected = np.multiply(x, y, order=order)
        found = np.multiply(npaccel.asarray(x), y, order=order)
        assert found.strides == expected.strides, (np.shape(y), x.strides)
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("masked", [False, True])
def test_folds_of_more_axes_than_are_recorded(masked: bool) -> None:
    for ndim in (16, 17, 64):
        plain = np.arange(70_000.0).reshape((1,) * (ndim - 1) + (-1,))
        x = npaccel.asarray(plain)
        given: dict[str, Any] = {"where": x % 3 == 0} if masked else {}
        found = np.add.reduce(x, axis=(-1, 2), **given)
        expected = np.add.reduce(plain, axis=(-1, 2), **{k: np.array(v) for k, v in given.items()})
        assert found.shape == expected.shape and np.array_equal(found, expected)
