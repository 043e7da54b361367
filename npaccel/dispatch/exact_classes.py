"""What libraries do with arrays by their exact class, they do with ours.

joblib's hashes (`joblib.hash`, `Memory`) name the class: values that were computed before are found
whether or not they were in a block. Its files keep ndarrays beside the pickle, to be mapped; and
large ones go to worker processes as maps of a file, once for all tasks. orjson and ormsgpack write
what is exactly an ndarray, and matplotlib asserts that places of bars are one.

Loaded when a program imports one of them.
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
from npaccel.dispatch.fallback import unseen

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


def _writes(name: str) -> Callable[[ModuleType], None]:
    """`module.name(value, default, option)`, which calls `default` for what it does not know."""

    def look(module: ModuleType) -> None:
        write = getattr(module, name, None)
        if write is None:
            return

        @unseen
        @functools.wraps(write)
        def writing(value: Any, *rest: Any, **named: Any) -> Any:
            given = bool(rest) or "default" in named
            default = rest[0] if rest else named.pop("default", None)

            def known(part: Any) -> Any:
                if type(part) is Array:
                    _native.reading(part, "storing")
                    return _native.plain(part)
                # Without a default it raises what it says of that.
                return default(part) if given else write(part, **named)

            if given:
                return write(value, known, *rest[1:], **named)
            try:
                return write(value, **named)
            except TypeError:
                try:
                    return write(value, known, **named)
                except TypeError as error:
                    raise error.__cause__ or error from None

        setattr(module, name, writing)

    return look


def _draws(module: ModuleType) -> None:
    axes = getattr(module, "Axes", None)
    convert = getattr(axes, "_convert_dx", None)
    if axes is None or convert is None:  # another version of it
        return

    @functools.wraps(convert)
    def _convert_dx(dx: Any, x0: Any, xconv: Any, convert_units: Any) -> Any:
        plain = _native.plain(xconv) if type(xconv) is Array else xconv
        return convert(dx, x0, plain, convert_units)

    axes._convert_dx = staticmethod(_convert_dx)


def see(module: ModuleType) -> None:
    """Look at a module that was imported."""
    WATCHED[module.__name__](module)


WATCHED: Final = {
    "joblib.hashing": _hashes,
    "joblib.numpy_pickle": _stores,
    "joblib.executor": _sends,
    "joblib.pool": _sends,
    "orjson": _writes("dumps"),
    "ormsgpack": _writes("packb"),
    "matplotlib.axes._axes": _draws,
}
