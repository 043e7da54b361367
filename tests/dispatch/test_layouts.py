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


COMPILED = ("sum", "max", "std")  # the others differ from them in what is folded


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
                    assert (found.shape, found.strides, found.dtype) == (
                        (expected.shape, expected.strides, expected.dtype)
                    ), (order, axis, keepdims)
                    assert np.allclose(found, expected)
