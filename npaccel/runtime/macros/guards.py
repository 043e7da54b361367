"""What a section's body finds besides its arguments: under names, in closures, in objects.

A recording holds as long as these are what they were; a replay looks each of them up. What can't
be looked up so (a clock, a file, an iterator), or does more (printing), is refused: the body runs.
What the body changes is put back, since it is to run as it is written.

Python code that is entered while the body runs is told to `Guards.called`, and so are the C
functions that it calls. Names are those in its instructions: a superset of what it reads.
"""

from __future__ import annotations

import datetime
import enum
import functools
import importlib.util
import re
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from npaccel import _native
from npaccel.runtime.macros.body_code import (
    HARMLESS,
    LIBRARIES,
    is_for_library,
    library_of,
    names_of,
    unsafe_call,
)

__all__ = ["Guard", "Guards", "Refused", "root"]

Array = np.ndarray[Any, Any]
# (dict, class, object or cell, name, value), or (array, list or dict, "", what is in it)
Guard = tuple[Any, str, Any]

RANDOM: Final = ("Generator", "RandomState")
# What never changes, or is told when it is called.
STEADY: Final[tuple[type, ...]] = (
    *(
        type(None),
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        tuple,
        frozenset,
        range,
        slice,
        np.generic,
    ),
    *(types.BuiltinFunctionType, types.EllipsisType, types.NotImplementedType, types.CodeType),
    *(types.MethodDescriptorType, types.MemberDescriptorType, types.GetSetDescriptorType),
    *(types.WrapperDescriptorType, types.GenericAlias, types.UnionType),
    *(np.dtype, np.ufunc, np.iinfo, np.finfo, type(np.sum), functools.partial, enum.Enum),
    *(datetime.date, datetime.time, datetime.timedelta, re.Pattern, property),
    *(staticmethod, classmethod, functools.cached_property),
    *(types.MethodType, type(functools.lru_cache(len)), _native.Runtime, _native.Macro),
)
# The same, of modules that would have to be imported for it.
STEADY_NAMES: Final = frozenset(
    ("decimal.Decimal", "fractions.Fraction", "pathlib.PosixPath", "pathlib.PurePosixPath")
)
MOST: Final = 256  # guards, and things to look into
MOST_ITEMS: Final = 1024  # in a container
# Bytes of an array that each replay compares; of what is kept while the body runs, to be put back.
MOST_COMPARED: Final = 1 << 16
MOST_KEPT: Final = 1 << 26


class Refused(BaseException):
    """The section cannot be recorded for these arguments; its body runs. Never seen by the user."""

    @property
    def reason(self) -> str:
        return str(self.args[0])


class Guards:
    """Grows while the body runs.

    Attributes
    ----------
    found : what a replay looks up
    named : arrays under global names and in closures, by id
    """

    def __init__(self, function: Callable[..., Any], arguments: Iterable[Any]) -> None:
        self.found: list[Guard] = []
        self.named: dict[int, Array] = {}
        self._noted: set[tuple[int, str]] = set()
        self._taken: dict[int, Any] = {}
        self._holders: list[Any] = []  # things with attributes
        self._attributes: set[str] = set()
        self._stored: set[str] = set()  # of these, what is assigned to
        self._codes: set[tuple[types.CodeType, int]] = set()  # with their globals
        self._functions: dict[types.CodeType, list[types.FunctionType]] = {}
        self._contents: list[tuple[Array, bytes | None]] = []
        self._kept = 0
        self._absent: list[tuple[dict[str, Any], str]] = []
        self._inherited: set[tuple[int, str]] = set()
        self._states: list[tuple[Any, Any]] = []
        self._importing: types.FrameType | None = None
        self._take_generator(np.random.mtrand._rand)
        self._take(function, "the section")
        for argument in arguments:
            self._take_argument(argument)

    # While the body runs.

    def called(self, frame: types.FrameType, function: Any) -> None:
        """Code was entered (None), or calls a C function; raises Refused."""
        library = library_of(frame.f_globals)
        if self._imports(frame, library) or library in HARMLESS or is_for_library(frame):
            return
        if function is not None:
            unsafe = unsafe_call(function)
            if unsafe:
                raise Refused(f"it calls {unsafe}")
        elif library in sys.stdlib_module_names:
            raise Refused(f"it calls {library}.{frame.f_code.co_name}")
        else:
            self._enter(frame.f_code, frame.f_globals)

    def _imports(self, frame: types.FrameType, library: str) -> bool:
        """Whether a module is being imported."""
        if self._importing is None:
            if library != "importlib" and not library.startswith("_frozen_importlib"):
                return False
            self._importing = frame
        above: types.FrameType | None = frame
        while above is not None and above is not self._importing:
            above = above.f_back
        if above is None:
            self._importing = None
        return above is not None

    def _enter(self, code: types.CodeType, names: dict[str, Any]) -> None:
        if (code, id(names)) in self._codes:
            return
        self._codes.add((code, id(names)))
        for function in self._functions.get(code, ()):
            self._note_cells(function)
        its = names_of(code)
        for name in its.read:
            if name in names:
                self._note(names, name, names[name], named=True)
        self._absent += [(names, name) for name in its.written if name not in names]
        for name in its.imported:
            self._import(name, names)
        if "super" in its.read:
            for holder in [holder for holder in self._holders if isinstance(holder, type)]:
                for base in holder.__mro__:
                    self._take(base, "a class")
        new = (its.used | {"__dict__"} if its.dynamic else its.used) - self._attributes
        self._attributes |= new
        self._stored |= its.stored
        for holder in list(self._holders):
            self._note_attributes(holder, new | its.stored)

    def _import(self, name: str, names: dict[str, Any]) -> None:
        """A module that the code imports: what it takes from there are attributes."""
        if name.startswith("."):
            name = importlib.util.resolve_name(name, str(names.get("__package__")))
        if name.partition(".")[0] in (*LIBRARIES, *HARMLESS):
            return
        if name not in sys.modules and name.partition(".")[0] not in sys.stdlib_module_names:
            raise Refused(f"it imports {name}")
        for part in (name, name.partition(".")[0]):
            self._take(sys.modules.get(part), "a module")

    def _note_cells(self, function: types.FunctionType) -> None:
        names = function.__code__.co_freevars
        for cell, name in zip(function.__closure__ or (), names, strict=True):
            try:
                self._note(cell, name, cell.cell_contents, named=True)
            except ValueError:
                continue  # not bound yet

    def _note(self, where: Any, name: str, value: Any, *, named: bool = False) -> None:
        if (id(where), name) in self._noted:
            return
        self._noted.add((id(where), name))
        if len(self.found) >= MOST:
            raise Refused("it looks up too many names")
        if named and isinstance(value, np.ndarray):
            self.named[id(value)] = value
        if not (isinstance(value, types.ModuleType) and library_of(vars(value)) in LIBRARIES):
            self.found.append((where, name, value))
        self._take(value, repr(name))

    def _note_attributes(self, holder: Any, names: Iterable[str]) -> None:
        inside = getattr(holder, "__dict__", None)
        if type(inside) is dict:
            stored = self._stored.intersection(names).difference(inside)
            self._absent += [(inside, name) for name in stored]
        if isinstance(holder, types.ModuleType):
            for name in names:
                if name in vars(holder):
                    self._note(vars(holder), name, vars(holder)[name])
            return
        kind = holder if isinstance(holder, type) else type(holder)
        for name in names:
            if name == "__dict__":
                if type(inside) is dict:
                    self._take_container(inside, "an object")
                continue
            of_class = _look_up(kind, name)
            if kind is holder or _runs_code(of_class):
                if of_class is not None:
                    self._note(kind, name, of_class)
                if kind is not holder and type(inside) is dict:
                    if name in inside:
                        self._note(inside, name, inside[name])
                    elif isinstance(of_class, functools.cached_property):
                        self._absent.append((inside, name))
                continue
            try:
                value = object.__getattribute__(holder, name)
            except AttributeError:
                continue
            if type(inside) is dict and name not in inside:
                self._inherited.add((id(holder), name))
            self._note(holder, name, value)

    def _take_argument(self, value: Any) -> None:
        if type(value) in (tuple, list, dict):
            for item in value.values() if type(value) is dict else value:
                self._take_argument(item)
        elif not isinstance(value, np.ndarray):
            self._take(value, "an argument")

    def _take(self, value: Any, what: str) -> None:
        """Something that the body can reach: what may change of it is noted, or it is refused."""
        if type(value) in (object, type(None), bool, int, float, complex, str, bytes):
            return
        if id(value) in self._taken:
            return
        self._taken[id(value)] = value
        kind = type(value)
        if isinstance(value, np.ndarray):
            self._take_array(value)
        elif kind.__name__ in RANDOM and kind.__module__.startswith("numpy"):
            self._take_generator(value)
        elif isinstance(value, types.FunctionType):
            self._take_function(value)
        elif kind in (list, dict) or isinstance(value, tuple | frozenset | set):
            self._take_container(value, what)
        elif isinstance(value, types.ModuleType):
            if library_of(vars(value)) not in (*LIBRARIES, *HARMLESS):
                self._hold(value)
        elif isinstance(value, type):
            if (
                value.__flags__ & HEAP
                and library_of({"__name__": value.__module__}) not in LIBRARIES
            ):
                self._hold(value)
        elif isinstance(value, STEADY) or (hasattr(kind, "__get__") and not kind.__flags__ & HEAP):
            for name in ("func", "args", "keywords", "__func__", "__self__", "__wrapped__", "fget"):
                inner = getattr(value, name, None)
                if not isinstance(inner, types.ModuleType):
                    self._take(inner, what)
            if _is_users(value) and hasattr(value, "__dict__") and not isinstance(value, enum.Enum):
                self._hold(value)  # a subclass
        elif _is_users(value) or kind is types.SimpleNamespace:
            self._hold(value)
        elif f"{kind.__module__}.{kind.__name__}" not in STEADY_NAMES:
            raise Refused(f"it uses {what}, of class {kind.__name__}, which may change unseen")

    def _hold(self, value: Any) -> None:
        if len(self._holders) >= MOST:
            raise Refused("it reaches too many objects")
        self._holders.append(value)
        called = _look_up(type(value), "__call__")
        if isinstance(called, types.FunctionType):
            self._take(called, "a method")
        if not isinstance(value, type):
            self._take(type(value), "a class")
        self._note_attributes(value, self._attributes)

    def _take_function(self, function: types.FunctionType) -> None:
        self._functions.setdefault(function.__code__, []).append(function)
        if (function.__code__, id(function.__globals__)) in self._codes:
            self._note_cells(function)
        self._take(function.__defaults__, "a default")
        self._take(function.__kwdefaults__, "a default")
        self._take(getattr(function, "__wrapped__", None), "a function")
        if library_of(function.__globals__) not in LIBRARIES:
            self._hold(function)

    def _take_container(self, value: Any, what: str) -> None:
        if len(value) > MOST_ITEMS or len(self.found) >= MOST:
            raise Refused("it uses a large list or dict")
        items = tuple(value)
        if isinstance(value, dict):
            items = tuple(part for pair in value.items() for part in pair)
        if isinstance(value, set):
            if any(type(item) is not str for item in items):
                raise Refused(f"it uses {what}, a set")
            self.found.append((value, "", frozenset(value)))
        elif isinstance(value, list | dict):
            self.found.append((value, "", items))
        for item in items:
            self._take(item, what)

    def _take_array(self, array: Array) -> None:
        kept = None
        if not isinstance(array, _native.ArrayBase) or not _native.in_section(array):
            if array.dtype.hasobject:
                raise Refused("it uses an array of objects")
            self._kept += array.nbytes
            if self._kept <= MOST_KEPT:
                kept = _native.plain(array).tobytes()
            self._contents.append((array, kept))

    def _take_generator(self, generator: Any) -> None:
        bits = getattr(generator, "bit_generator", None) or generator._bit_generator
        self._states.append((bits, bits.state))

    def has(self, array: Array) -> bool:
        """Whether the body reaches this very array by names, wherever it is replayed."""
        return any(known is array for known, _ in self._contents)

    # Afterwards.

    def changed(self) -> str:
        """What the body changed; empty: nothing."""
        if any(not _equal(bits.state, state) for bits, state in self._states):
            return "draws random numbers"
        for where, name, value in self.found:
            if not _native.guard_holds(where, name, value):
                return f"changes {name or self._name_of(where)!r}"
        for where, name in self._absent:
            if name in where:
                return f"changes {name!r}"
        if any(kept is not None and not _same_bytes(array, kept) for array, kept in self._contents):
            return "changes an array that is neither an argument nor made in it"
        return ""

    def _name_of(self, container: Any) -> str:
        return next((name for _, name, value in self.found if value is container), "a container")

    def restore(self) -> None:
        """Put back what the body changed."""
        for bits, state in self._states:
            if not _equal(bits.state, state):
                bits.state = state
        for where, name, value in self.found:
            if not _native.guard_holds(where, name, value):
                self._put_back(where, name, value)
        for where, name in self._absent:
            where.pop(name, None)
        for array, kept in self._contents:
            if kept is not None and array.flags.writeable and not _same_bytes(array, kept):
                was: Array = np.ndarray(array.shape, array.dtype, kept)
                np.copyto(_native.plain(array), was)

    def _put_back(self, where: Any, name: str, value: Any) -> None:
        if (id(where), name) in self._inherited:
            vars(where).pop(name, None)
        elif name == "" and isinstance(where, list):
            where[:] = value
        elif name == "":
            where.clear()
            where.update(
                zip(value[::2], value[1::2], strict=True) if isinstance(where, dict) else value
            )
        elif isinstance(where, dict):
            where[name] = value
        elif isinstance(where, types.CellType):
            where.cell_contents = value
        elif isinstance(where, type):
            setattr(where, name, value)
        else:
            object.__setattr__(where, name, value)

    def note_contents(self, read: set[int]) -> None:
        """Arrays that no request reads: the body may have used their values.

        read : ids of those that requests read, whose memory is read anew
        """
        total = 0
        for array, kept in self._contents:
            if id(root(array)) in read or not array.size:
                continue
            total += array.nbytes
            if total > MOST_COMPARED or not array.flags.c_contiguous or kept is None:
                raise Refused("it uses a large array otherwise than with its arguments")
            self.found.append((array, "", kept))

    def forget(self) -> None:
        """Let go what only the recording needed."""
        self._importing = None
        for kept in (self._taken, self._holders, self._contents, self._states, self._absent):
            kept.clear()


HEAP: Final = 1 << 9  # Py_TPFLAGS_HEAPTYPE


def root(array: Array) -> Array:
    """The array that owns the memory."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _look_up(kind: type, name: str) -> Any:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def _runs_code(of_class: Any) -> bool:
    """Whether reading an attribute that the class has so runs code of its own."""
    plain = (types.FunctionType, types.MemberDescriptorType, classmethod, staticmethod)
    return hasattr(type(of_class), "__get__") and not isinstance(of_class, plain)


def _is_users(value: Any) -> bool:
    """Whether it is an instance of a class that is written in Python, and no library's."""
    library = type(value).__module__.partition(".")[0]
    return (
        bool(type(value).__flags__ & HEAP)
        and library not in sys.stdlib_module_names
        and library not in LIBRARIES
    )


def _same_bytes(array: Array, kept: bytes) -> bool:
    same: bool = _native.plain(array).tobytes() == kept
    return same


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return all(_equal(a[key], b[key]) for key in a)
    return a.tobytes() == b.tobytes() if isinstance(a, np.ndarray) else bool(a == b)
