"""solve, inv and det of small matrices: NumPy's to the bit, and in its words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import npaccel

from ..differential import DTYPES, FOREIGN
from .comparison import Case, all_same
from .test_makers import arrays
from .test_transforms import _python_of

Array = np.ndarray[Any, Any]


def _calls(a: Any, *others: Any) -> Iterator[Case]:
    name = f"{getattr(a, 'dtype', '')}{np.shape(a)}/{getattr(a, 'strides', '')}"
    for function in (np.linalg.inv, np.linalg.det, np.linalg.slogdet, np.linalg.cond):
        yield f"{function.__name__} of {name}", function, lambda: (a,)
    for b in others:
        yield f"solve of {name}, {np.shape(b)}", np.linalg.solve, lambda b=b: (a, b)
        yield f"solve of {name} by name", lambda x, y: np.linalg.solve(x, b=y), lambda b=b: (a, b)


@pytest.mark.parametrize("dtype", [*DTYPES, *FOREIGN])
def test_of_an_array(dtype: str) -> None:
    with np.errstate(all="ignore"):
        for array in arrays(dtype):
            least = min(array.shape[:2]) if array.ndim > 1 else None
            square = array[:least, :least] if array.ndim > 1 else array
            all_same(_calls(square, square, np.arange(float(len(square))) if array.ndim else 1.0))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 16, 33, 64, 65])
def test_of_matrices(n: int) -> None:
    random = np.random.default_rng(n)
    a, b, c = random.random((n, n)), random.random(n), random.random((n, 5))
    right = (b, c, c[:, :1], c.T, b[::-1], b[:-1], c.astype("f4"), b.tolist(), c[None], np.eye(n))
    shown = a[:]
    shown.flags.writeable = False
    for matrix in (a, a.T, np.asfortranarray(a), np.tile(a, (2, 2))[::2, ::2], shown, a[:-1], -a):
        all_same(_calls(matrix, *right))
    all_same(_calls(a.tolist(), *right))


@pytest.mark.parametrize("errors", ["ignore", "warn", "raise"])
def test_what_is_told_of(errors: Any) -> None:
    bad: list[Array] = [np.zeros((3, 3)), np.ones((2, 2)), np.full((2, 2), np.nan)]
    bad += [np.array([[np.inf, 1.0], [1.0, 2.0]]), np.diag([1e200] * 3), np.diag([1e-200] * 3)]
    bad += [np.array([[1e-320, 0.0], [0.0, 1e-320]]), np.array([[1.0, 1e308], [1e308, 1.0]])]
    with np.errstate(all=errors):
        for matrix in bad:
            all_same(_calls(matrix, np.ones(len(matrix)), np.eye(len(matrix))))


@pytest.mark.pending
def test_no_python_code_runs() -> None:
    a, b = np.eye(3) + 0.5, np.ones(3)
    with npaccel.accelerate():
        for call in (
            lambda: np.linalg.solve(a, b),
            lambda: np.linalg.solve(a, a),
            lambda: np.linalg.inv(a),
            lambda: np.linalg.det(a),
        ):
            assert not {"solve", "inv", "det"} & _python_of(call)
        assert "inv" in _python_of(lambda: np.linalg.inv(a.astype("f4")))
