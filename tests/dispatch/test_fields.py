"""Fields of records: elements that lie between those of a regular view."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from .differential import check

LAYOUTS: dict[str, Any] = {
    "complex, 24 apart": [("x", "c16"), ("y", "f8")],
    "complex, 12 apart": [("x", "c8"), ("y", "f4")],
    "complex at 8": [("y", "f8"), ("x", "c16"), ("z", "f8")],
    "packed": [("y", "u1"), ("x", "f8")],
    "double at 4": [("y", "f4"), ("x", "f8"), ("z", "f4")],
    "regular": [("x", "f8"), ("y", "f8")],
}


@pytest.mark.parametrize("start", [0, 4, 8])
@pytest.mark.parametrize("size", [7, 40_000])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_fields(layout: str, size: int, start: int) -> None:
    dtype = np.dtype(LAYOUTS[layout])

    def make() -> tuple[Any]:
        memory = np.zeros(start + size * dtype.itemsize, "u1")
        records = memory[start:].view(dtype)
        records["x"] = np.arange(size) + 1
        records["y"] = 77
        return (records["x"],)

    check(lambda x: x * 2 + x[::-1], make, strides=False)
    check(lambda x: np.add(x, 1, out=x), make, strides=False)
