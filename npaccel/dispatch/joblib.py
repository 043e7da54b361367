"""What joblib does with arrays by their exact class, it does with ours.

Its hashes (`joblib.hash`, `Memory`) name the class: values that were computed before are found
whether or not they were in a block. Its files keep ndarrays beside the pickle, to be mapped; and
large ones go to worker processes as maps of a file, once for all tasks.

Loaded when a program imports joblib.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pickle import HIGHEST_PROTOCOL
from types import ModuleType
from typing import Any, Final

import numpy as np

from npaccel import _native
from npaccel.dispatch.array import Array

__all__ = ["WATCHED", "Sent", "see"]


def _hashes(module: ModuleType) -> None:
    _saves_plain(getattr(module, "NumpyHasher", None), lambda: True)


def _stores(module: ModuleType) -> None:
    _saves_plain(getattr(module, "NumpyPickler", None), _native.in_block)


def _saves_plain(pickler: Any, wanted: Callable[[], bool]) -> None:
    if pickler is None:  # another version of it
        return
    save = pickler.save

    @functools.wraps(save)
    def saving(self: Any, obj: Any, *rest: Any) -> Any:
        if type(obj) is not Array:
            return save(self, obj, *rest)
        if not wanted():  # as any object, since joblib would take it for an ndarray
            return super(pickler, self).save(obj, *rest)
        _native.reading(obj, "storing")
        return save(self, _native.plain(obj), *rest)

    pickler.save = saving


class Sent:
    """A reducer of ndarrays and ours, by joblib's; sent to the workers, as that is."""

    def __init__(self, reduce_ndarray: Callable[[Any], Any]) -> None:
        self._reduce = reduce_ndarray

    def __call__(self, array: np.ndarray[Any, Any]) -> Any:
        # Outside of blocks it is an Array there, too, whose memory is an ndarray in the pickle.
        if type(array) is Array and not _native.in_block():
            return array.__reduce_ex__(HIGHEST_PROTOCOL)
        # joblib knows an array that it has sent before by the object, so it is given this one.
        return self._reduce(array)


def _sends(module: Any) -> None:
    make = getattr(module, "get_memmapping_reducers", None)
    if make is None:
        return

    @functools.wraps(make)
    def get_memmapping_reducers(*args: Any, **kwargs: Any) -> Any:
        both = make(*args, **kwargs)
        for reducers in both:
            if np.ndarray in reducers:
                reducers[np.ndarray] = Sent(reducers[np.ndarray])  # Array's, too
        return both

    module.get_memmapping_reducers = get_memmapping_reducers


def see(module: ModuleType) -> None:
    """Look at a module of joblib's that was imported."""
    WATCHED[module.__name__](module)


WATCHED: Final = {
    "joblib.hashing": _hashes,
    "joblib.numpy_pickle": _stores,
    "joblib.executor": _sends,
    "joblib.pool": _sends,
}
