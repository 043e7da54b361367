"""`npaccel.accelerate` as pandas' execution engine: what `apply` and `map` ask of their `engine=`.

Knows pandas' protocol (`pandas.api.executors`, from 3.0 on), and does not import pandas.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

__all__ = ["PandasEngine"]

AXES = {"index": 0, "columns": 1}


class PandasEngine:
    """Does what pandas does without an engine, inside of the block that was given as the engine."""

    @staticmethod
    def apply(
        data: Any,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        decorator: AbstractContextManager[Any],
        axis: int | str,
    ) -> Any:
        """Apply `func` to each column (axis 0) or row of a DataFrame; or of its values: raw."""
        with decorator:
            if not isinstance(data, np.ndarray):
                return data.apply(func, axis=axis, args=args, **kwargs)
            along = AXES[axis] if isinstance(axis, str) else axis
            made = np.apply_along_axis(_without_text(func), along, data, *args, **kwargs)
        return np.asarray(made)

    @staticmethod
    def map(
        data: Any,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        decorator: AbstractContextManager[Any],
        skip_na: bool,
    ) -> Any:
        """Call `func` with each element, a Python number, as pandas does: nothing is gained."""
        with decorator:
            ignored = "ignore" if skip_na else None
            return data.map(lambda x: func(x, *args, **kwargs), na_action=ignored)


def _without_text(func: Callable[..., Any]) -> Callable[..., Any]:
    """As pandas has it: texts make an array of objects, not of texts as long as the first one."""

    def applied(*args: Any, **kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        return np.array(result, dtype=object) if isinstance(result, str) else result

    return applied
