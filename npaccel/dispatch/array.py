"""The class `Array`: a real ndarray whose data may come later.

Its number, comparison and subscript slots are the C core's, its computing methods are in
method.py; here is everything by which an array shows its values or its address.
"""

from __future__ import annotations

import copyreg
import operator
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from npaccel import _native
from npaccel.dispatch.fallback import at_user_line, run_exact, unseen
from npaccel.dispatch.flat import Flat
from npaccel.dispatch.function import array_function
from npaccel.dispatch.method import Methods
from npaccel.later import later

if TYPE_CHECKING:
    from npaccel.cluster import carrying, maps, parts
    from npaccel.dispatch import debuggers
else:
    debuggers = later("npaccel.dispatch.debuggers")
    carrying = later("npaccel.cluster.carrying")

__all__ = ["Array"]

# NumPy's own accessors, for the properties that replace them.
_FLAT: Any = np.ndarray.flat
_IMAG: Any = np.ndarray.imag
_REAL: Any = np.ndarray.real
_ARRAYS_FIRST = np.lib.NumpyVersion(np.__version__) < "2.5.0"


def _to_set(value: Any) -> Any:
    """What `x.real = value` assigns: NumPy before 2.5 makes an array of it first, so that 1j is
    cast with a warning; x[...] = 1j is an error."""
    return np.asanyarray(value) if _ARRAYS_FIRST else value


def _shown(array: np.ndarray[Any, Any], how: str) -> np.ndarray[Any, Any]:
    """As `_read`, for what keeps no reference to it."""
    _native.reading(array, how)
    part = _native.fetched(array)
    return _native.plain(array) if part is None else part


def _read(array: np.ndarray[Any, Any], how: str) -> np.ndarray[Any, Any]:
    """The evaluated memory; in a macro section there is none to read, and it says so."""
    _native.reading(array, how)
    return _native.plain(array)


def _pending(array: np.ndarray[Any, Any]) -> str:
    """For debuggers, which show variables that nobody asked for."""
    return f"Array(pending, shape={array.shape}, dtype={array.dtype})"


def _is_foreign_class(argument: Any) -> bool:
    """Whether it is a subclass of ndarray, and not ours."""
    if not isinstance(argument, type) or not issubclass(argument, np.ndarray):
        return False
    return argument is not np.ndarray and not issubclass(argument, _native.ArrayBase)


def _reduced(cls: type) -> Any:
    """For pickle, in which names are looked up: in a block NumPy's class, for whoever reads it."""
    passes = cls is Array and _native.in_block()
    return (type, (np.empty(0),)) if passes else cls.__qualname__


copyreg.pickle(_native.ArrayType, _reduced)


class Array(Methods, metaclass=_native.ArrayType):
    """An ndarray that may be deferred; made by `npaccel.asarray` and by operations on one."""

    __slots__ = ()

    # What masked arrays of ours are made of, by their own account: their texts name it.
    _baseclass = np.ndarray

    __array_function__ = _native.direct(None, array_function)

    @property  # type: ignore[misc] # nobody sets it
    def __class__(self) -> type:
        """What code asks that makes a class out of it, or knows ndarray by it."""
        kind = type(self)
        return np.ndarray if kind is Array else kind

    # What shows the values as text.

    def __repr__(self) -> str:
        if _native.is_pending(self) and debuggers.shows(sys._getframe(1)):
            return _pending(self)
        return repr(_shown(self, "repr"))

    def __str__(self) -> str:
        if _native.is_pending(self) and debuggers.shows(sys._getframe(1)):
            return _pending(self)
        return str(_shown(self, "str"))

    @unseen
    def __format__(self, spec: str) -> str:
        return format(_shown(self, "format"), spec)

    # What takes the values out.

    @unseen
    def __complex__(self) -> complex:
        return complex(at_user_line(complex, (_shown(self, "complex"),), {}))

    @unseen
    def __iter__(self) -> Iterator[Any]:
        if self.ndim <= 1:  # 0-d: NumPy's error
            return iter(_read(self, "iteration"))
        return (self[i] for i in range(len(self)))

    def __reduce__(self) -> Any:
        return self.__reduce_ex__(2)

    def __reduce_ex__(self, protocol: Any) -> Any:
        plain = _read(self, "pickling")
        # In a block a program that knows nothing of us gets NumPy's bytes, for whoever reads them.
        return plain.__reduce_ex__(protocol) if _native.in_block() else (_native.wrap, (plain,))

    def __setstate__(self, state: Any) -> None:
        _native.touch(self, write=True)
        np.ndarray.__setstate__(self, state)

    # What gives the address away: whoever has it may write.

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return dict(self._exposed().__array_interface__)

    @property
    def __array_struct__(self) -> Any:
        return self._exposed().__array_struct__

    @property
    def ctypes(self) -> Any:
        return self._exposed().ctypes

    @unseen
    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any:
        return self._exposed().__dlpack__(*args, **kwargs)

    @unseen
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return run_exact(np.ndarray.__array__, (self, *args), kwargs, written=(0,))

    @unseen
    def view(self, *args: Any, **kwargs: Any) -> Any:
        if any(map(_is_foreign_class, (*args, *kwargs.values()))):
            # Its __array_finalize__ is to be given an ndarray: subclasses must have what it has.
            _native.touch(self, write=True)
            return _native.plain(self).view(*args, **kwargs)
        result = np.ndarray.view(self, *args, **kwargs)
        if not isinstance(result, _native.ArrayBase):
            _native.touch(self, write=True)
        return result

    def _exposed(self) -> np.ndarray[Any, Any]:
        _native.reading(self, "its address")
        _native.touch(self, write=True)
        return _native.plain(self)

    # Of arrays with a map (npaccel.agile).

    @property
    def segments(self) -> Sequence[parts.Segment]:
        """Which node has which part: id, owner, offset and extent of each segment."""
        return carrying.segments(self)

    def blocks(self, granularity: maps.Granularity = "node") -> Iterator[carrying.BlockView]:
        """Each block ("node", "memory" or "algorithm") with the view of it, as (block, array)."""
        return carrying.blocks(self, granularity)

    # Attributes whose setters write.

    @property
    def flat(self) -> Any:
        return Flat(self)

    @flat.setter
    @unseen
    def flat(self, value: Any) -> None:
        _native.touch(self, write=True)
        source = _native.plain(value) if isinstance(value, _native.ArrayBase) else value
        at_user_line(_FLAT.__set__, (_native.plain(self), source), {})

    @property
    def real(self) -> Any:
        return _REAL.__get__(self)

    @real.setter
    @unseen
    def real(self, value: Any) -> None:
        at_user_line(operator.setitem, (self.real, ..., _to_set(value)), {})

    @property
    def imag(self) -> Any:
        return _IMAG.__get__(self)

    @imag.setter
    @unseen
    def imag(self, value: Any) -> None:
        if self.dtype.kind == "c":
            at_user_line(operator.setitem, (self.imag, ..., _to_set(value)), {})
        else:
            _IMAG.__set__(_native.plain(self), value)
