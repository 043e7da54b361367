"""A sample of what `make differential` runs on an OpenCL device: few kernels, many operations."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import npaccel

from .differential import PENDING, check, edge_values

pytestmark = pytest.mark.usefixtures("opencl")
# Builds take a driver a quarter of a second: once, in the plain run of the tests, is enough.
MODES = {"NPACCEL_BACKEND", "NPACCEL_CHECK"}


def program(x: Any) -> tuple[Any, ...]:
    """A choice of sums and differences, its largest elements by row, and views of it."""
    y = np.where(x > x[:, ::-1], x + x, np.minimum(x, 3))
    return y, y.max(axis=1), y[1:, ::2]


@pytest.mark.pending
@pytest.mark.skipif(not MODES.isdisjoint(os.environ), reason="builds take their time")
@pytest.mark.parametrize("dtype", ["e", "d", "l"])
def test_as_numpy(dtype: str) -> None:
    before = npaccel.stats()["kernels_by_backend"].get("opencl", 0)
    block = np.concatenate([edge_values(dtype), edge_values(dtype)[::-1]]).reshape(5, 6)
    with npaccel.backend("opencl"):
        check(program, lambda: (block,), modes=(PENDING,))
    assert npaccel.stats()["kernels_by_backend"]["opencl"] > before
