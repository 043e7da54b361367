"""Few elements sorted, looked up, found, taken and repeated: as NumPy has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ..differential import DTYPES, FOREIGN, edge_values
from .test_makers import arrays, compare

Call = Callable[[], Any]


def _calls(a: np.ndarray[Any, Any]) -> list[tuple[str, Call]]:
    line = np.atleast_1d(a)
    found: list[tuple[str, Call]] = [
        ("sort", lambda: np.sort(a)),
        ("sort along", lambda: np.sort(a, 0)),
        ("sort of all", lambda: np.sort(a, axis=None)),
        ("sort stably", lambda: np.sort(a, kind="stable")),
        ("argsort", lambda: np.argsort(a)),
        ("argsort along", lambda: np.argsort(a, axis=0)),
        ("argsort stably", lambda: a.argsort(kind="stable")),
        ("a.argsort", a.argsort),
        ("a.sort", lambda: a.copy().sort()),
        ("nonzero", lambda: np.nonzero(a)),
        ("a.nonzero", a.nonzero),
        ("flatnonzero", lambda: np.flatnonzero(a)),
        ("argwhere", lambda: np.argwhere(a)),
    ]
    plain = (0.5, 2, -1, True, None, "x", [1, 2], np.arange(3))
    for key in (a, line[::-1], line[:3], a.reshape(-1, 1), *plain):
        found += [
            (f"searchsorted {key}", lambda key=key: np.searchsorted(np.sort(a), key)),  # type: ignore[misc]
            (f"a.searchsorted {key}", lambda key=key: np.sort(a).searchsorted(key)),  # type: ignore[misc]
            (f"right {key}", lambda key=key: np.searchsorted(a, key, side="right")),  # type: ignore[misc]
            (f"take {key}", lambda key=key: np.take(a, key)),  # type: ignore[misc]
            (f"take along {key}", lambda key=key: np.take(a, key, axis=-1)),  # type: ignore[misc]
            (f"take clipped {key}", lambda key=key: np.take(a, key, mode="clip")),  # type: ignore[misc]
        ]
    most = 65 if a.size < 100 else 20 if a.size < 700 else 2
    for times in (0, 1, 3, most, -1, 2.5, True, [1, 2], None, 10**20):
        found.append((f"repeat {times}", lambda times=times: np.repeat(a, times)))  # type: ignore[misc]
        found.append((f"rows {times}", lambda times=times: np.repeat(a, times, axis=0)))  # type: ignore[misc]
    return [(f"{name} of {a.dtype}{a.shape}/{a.strides}", call) for name, call in found]


@pytest.mark.parametrize("dtype", [*DTYPES, *FOREIGN])
def test_of_an_array(dtype: str) -> None:
    for array in arrays(dtype):
        compare(_calls(array))


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u1", "c16"])
def test_of_some_more(dtype: str) -> None:
    """Around where they are too many, with zeros of both signs and what is not a number."""
    for n in (1, 16, 17, 129, 600, 4095, 4096):
        compare(_calls(np.resize(edge_values(dtype), n)))
