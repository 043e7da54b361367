"""`x.flat`: an iterator over an npaccel array, whose slices are recorded where they are views."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numpy as np

from npaccel import _native
from npaccel.dispatch.fallback import NotRecorded, at_user_line, unseen
from npaccel.dispatch.gather import take
from npaccel.dispatch.operands import is_array, scalar_for

__all__ = ["Flat"]

Array = np.ndarray[Any, Any]

LEAST_LIMIT = 32  # dimensions that any NumPy's flat iterator takes


class Flat:
    """What ``x.flat`` gives: NumPy's own flat iterator on evaluated memory, but slices of
    contiguous arrays are recorded copies and assignments, and integer arrays gathers."""

    __slots__ = ("_array", "_iterator")

    def __init__(self, array: Array) -> None:
        if array.ndim > LEAST_LIMIT:
            _ = _native.view_plain(array).flat  # NumPy's error, where it has no such iterator
        self._array = array
        self._iterator: np.flatiter[Any] | None = None

    def _fresh(self, *, write: bool = False) -> Any:
        """A flat iterator at the start, on memory that is up to date."""
        _native.touch(self._array, write=write)
        return _native.plain(self._array).flat

    def _position(self) -> Any:
        """The iterator that `next` advances."""
        _native.touch(self._array)
        if self._iterator is None:
            self._iterator = _native.plain(self._array).flat
        return self._iterator

    def _line(self) -> Array | None:
        """All elements as a 1-d view, where that exists."""
        array = self._array
        return np.ndarray.reshape(array, -1) if array.flags.c_contiguous else None

    @property
    def base(self) -> Array:
        """The array iterated over."""
        return self._array

    @property
    def coords(self) -> tuple[int, ...]:
        coords: tuple[int, ...] = self._position().coords
        return coords

    @property
    def index(self) -> int:
        return int(self._position().index)

    def copy(self) -> Any:
        return self._fresh().copy()

    def __array__(self, *args: Any, **kwargs: Any) -> Array:
        return np.asarray(self._fresh().__array__(*args), **kwargs)

    def __len__(self) -> int:
        return int(self._array.size)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._position())

    @unseen
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, np.ndarray | list):
            try:
                return take(self._array, key, None, None, "raise")
            except NotRecorded:
                pass  # other indices, NumPy's error, or little to win
        line = self._line() if isinstance(key, slice) else None
        return self._fresh()[key] if line is None else line[key].copy()

    @unseen
    def __setitem__(self, key: Any, value: Any) -> None:
        line = self._line() if isinstance(key, slice) else None
        if line is not None and line.flags.writeable:  # else NumPy has the words for it
            target = line[key]
            # Values of another length repeat, and NumPy reads what overlaps after it wrote.
            same = is_array(value) and value.shape == target.shape
            apart = same and not np.may_share_memory(value, target)
            if apart or scalar_for(value, target.dtype) is not None:
                line[key] = value
                return
        source = _native.plain(value) if isinstance(value, _native.ArrayBase) else value
        at_user_line(operator.setitem, (self._fresh(write=True), key, source), {})

    @unseen
    def __delitem__(self, key: Any) -> None:
        del self._fresh()[key]  # NumPy's error

    def __eq__(self, other: object) -> Any:
        return self._fresh() == other

    def __ne__(self, other: object) -> Any:
        return self._fresh() != other

    def __lt__(self, other: Any) -> Any:
        return self._fresh() < other

    def __le__(self, other: Any) -> Any:
        return self._fresh() <= other

    def __gt__(self, other: Any) -> Any:
        return self._fresh() > other

    def __ge__(self, other: Any) -> Any:
        return self._fresh() >= other

    __hash__ = None  # type: ignore[assignment]
