"""Which of NumPy's own callables are redirected while an `accelerate` block is open, and who
records their calls with plain arrays. The redirecting itself is the C core's
(native/numpy/redirect.c).

Functions that NumPy writes in Python are in the table only where they run as one, or where what is
small is done without them (native/small/small_functions.c): otherwise what they call is.
"""

from __future__ import annotations

import enum
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, Final

import numpy as np

from npaccel import _native
from npaccel.dispatch.creation import CREATION
from npaccel.dispatch.draws import MOVED
from npaccel.dispatch.einsum import einsum
from npaccel.dispatch.fallback import NotRecorded, fallback
from npaccel.dispatch.function import IMPLEMENTED, VIEWS, WHOLE, WRITERS, named
from npaccel.dispatch.method import EVALUATED, MOVES, RECORDED
from npaccel.dispatch.operands import take_array
from npaccel.dispatch.special import SPECIAL
from npaccel.dispatch.ufunc import RECORDERS
from npaccel.ir.names import SAME_BITS, SAME_BITS_IF_REAL
from npaccel.later import when_imported

__all__ = ["TABLE", "Table"]


FOREIGN = 3  # native/small/small.h


class Look(enum.IntEnum):
    """What of a call is looked at to see whether it is worth taking; redirect.c's `action`."""

    ARGUMENTS = 0
    SELF = 1
    SHAPE = 2
    RANGE = 3
    RESULT = 4
    STRIDED = 5
    CONVERTED = 6
    CAST = 7
    PICKED = 8
    OTHERS = 9
    REDUCED = 10
    PICKED_ONE = 11
    STEPS = 12
    COUNTED = 13
    SMALL = 14


# All others: of functions their arguments, of methods the array.
LOOKS = {
    **dict.fromkeys(("arange",), Look.RANGE),
    **dict.fromkeys(("empty", "zeros"), Look.SHAPE),
    **dict.fromkeys(("array", "asarray", "asanyarray", "ascontiguousarray"), Look.CONVERTED),
    **dict.fromkeys(("ravel", "reshape"), Look.STRIDED),
    "astype": Look.CAST,
    "take": Look.PICKED,
    **dict.fromkeys(("at", "item", "put", "searchsorted"), Look.OTHERS),
    "reduce": Look.REDUCED,
    "count_nonzero": Look.COUNTED,
    **dict.fromkeys(("argmin", "argmax"), Look.PICKED_ONE),
}


# C functions that make arrays from something else than arrays: large results become ours.
SOURCES = ("frombuffer", "fromfile", "fromiter", "fromstring", "from_dlpack")
# C functions whose result may be the very array that they were given, or that an object's
# __array__ gave them.
CONVERTING = frozenset({"array", "asarray", "ascontiguousarray", "asfortranarray"})
# C functions of large arrays that NumPy runs, with the reason that is counted.
COMPUTED = {
    "bincount": "histogram",
    "correlate": "correlation",
    "correlate2": "correlation",
    "dot": "matrix product",
    "inner": "matrix product",
    "interp": "interpolation",
    "interp_complex": "interpolation",
    "lexsort": "sorting",
    "packbits": "bits",
    "putmask": "boolean mask",
    "ravel_multi_index": "integer array index",
    "unpackbits": "bits",
    "unravel_index": "integer array index",
    "vdot": "matrix product",
    "_place": "boolean mask",
}
# Python code of NumPy's that is left out where arrays are small.
SMALL_METHODS = ("all", "any", "clip", "cumsum", "max", "mean", "min", "prod", "sum")
SMALL_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    *named(
        """all allclose amax amin any append argmax argmin argsort around array_equal
        bincount broadcast_to clip concatenate convolve copy count_nonzero cross cumsum
        diag diff dot empty_like full_like gradient hstack inner isclose max mean median
        min nanmax nanmin nonzero ones_like outer partition percentile prod quantile
        roll round searchsorted sort stack std sum take tril triu var vdot vstack where
        zeros_like"""
    ),
    np.linalg.norm,
    np.linalg.solve,
    np.linalg.inv,
    np.linalg.det,
)
# Python code of NumPy's that makes views of an array, or asks what it is like: of one of ours it
# runs without NumPy's search for classes that have a say.
VIEWING = VIEWS | named(
    """array_split atleast_1d atleast_2d atleast_3d diagonal dsplit flip fliplr flipud hsplit
    iscomplexobj isrealobj may_share_memory ndim ravel reshape result_type rot90 shape
    shares_memory size split trace unstack vsplit"""
)
# Methods of random generators that refuse subclasses, or go through their elements in Python.
EXACT = frozenset({"permuted", "shuffle"})
# C functions of other libraries that refuse subclasses as the array they write to: its place.
REFUSING: Final = {
    "scipy.fft._pocketfft.pypocketfft": {
        **dict.fromkeys(("c2c", "dct", "dst", "r2c"), 4),
        **dict.fromkeys(("c2r", "r2r_fftpack"), 5),
        **dict.fromkeys(("genuine_hartley", "separable_hartley"), 3),
    }
}
# The arguments after the array that is folded, in their order.
FOLDS: dict[str, tuple[str, ...]] = {
    "reduce": ("axis", "dtype", "out", "keepdims", "initial", "where"),
    "accumulate": ("axis", "dtype", "out"),
}
# Recorded methods that call ufuncs, which are redirected.
FORWARDING = frozenset({"cumprod", "cumsum", "round"})

Taker = Callable[..., Any]

# Where NumPy's C functions are, whatever its namespaces show.
multiarray: Any = importlib.import_module("numpy._core._multiarray_umath")


def _taker(record: Taker) -> Taker:
    """`record`, but a string says why NumPy must run the call; empty when it isn't counted."""

    @functools.wraps(record)
    def taker(*args: Any, **kwargs: Any) -> Any:
        try:
            return record(*args, **kwargs)
        except NotRecorded as cause:
            return cause.reason
        except (TypeError, ValueError, OverflowError):  # NumPy has the words for it
            return ""

    return taker


def _record_call(ufunc: np.ufunc, *args: Any, **kwargs: Any) -> Any:
    """A ufunc's call as __array_ufunc__ would be given it."""
    inputs, outs = args[: ufunc.nin], args[ufunc.nin :]
    if outs:
        if "out" in kwargs:
            raise NotRecorded
        kwargs["out"] = outs + (None,) * (ufunc.nout - len(outs))
    return RECORDERS["__call__"](ufunc, inputs, kwargs)


def _record_method(method: str) -> Taker:
    names = FOLDS.get(method)

    def record(ufunc: np.ufunc, *args: Any, **kwargs: Any) -> Any:
        inputs = args
        if names is not None:
            inputs, rest = args[:1], args[1:]
            given = dict(zip(names, rest, strict=False))
            if len(rest) > len(names) or given.keys() & kwargs.keys():
                raise NotRecorded
            kwargs = given | kwargs
        return RECORDERS[method](ufunc, inputs, kwargs)

    record.__name__ = method
    return record


def _on_memory(function: Any, written: int, reason: str) -> Taker:
    """Give it the evaluated memory of what is ours among the arguments.

    written : the place of the argument that it writes to; ``out=`` is known by its name.
    """

    @functools.wraps(function)
    def record(*args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(x, _native.ArrayBase) for x in (*args, *kwargs.values())):
            return ""
        return fallback(function, args, kwargs, reason, written=(written,))

    return record


def _array_ufunc(_: Any, ufunc: np.ufunc, method: str, *args: Any, **kwargs: Any) -> Any:
    """ndarray's own `__array_ufunc__`, by which subclasses compute: for it ours are ndarrays.

    NumPy refuses whatever has an `__array_ufunc__` of its own, so what a subclass has made of its
    data in a block (a change of units) would be refused.
    """
    outs = kwargs.get("out", ())
    operands = (*args, *(outs if type(outs) is tuple else (outs,)))
    ours = [x for x in operands if isinstance(x, _native.ArrayBase)]
    if not ours or any(map(_is_others, operands)):
        return ""
    return getattr(ufunc, method)(*args, **kwargs)


def _is_others(operand: Any) -> bool:
    """Whether it has an `__array_ufunc__` that is neither NumPy's nor ours."""
    hook = getattr(type(operand), "__array_ufunc__", np.ndarray.__array_ufunc__)
    return not isinstance(operand, _native.ArrayBase) and hook is not np.ndarray.__array_ufunc__


def _count_nonzero(a: Any) -> Any:
    return IMPLEMENTED[np.count_nonzero](_native.wrap(take_array(a)))


# Recorded functions and methods whose results have the same bits, whoever computes them.
MOVING = frozenset({*CREATION, "concatenate", "copyto", "empty_like", "where"}) | {
    f"ndarray.{name}" for name in MOVES
}


# (callable, what to look at, recorder, name, reason, writes its operands, adopts results)
Row = tuple[Any, Look, Taker | None, str, str, bool, int]


def _function_rows() -> Iterator[Row]:
    implemented = {function.__name__: taker for function, taker in IMPLEMENTED.items()}
    implemented["count_nonzero"] = _count_nonzero
    writers = {function.__name__ for function in WRITERS}
    for name in SOURCES:
        yield getattr(multiarray, name, None), Look.RESULT, None, name, "", False, True
    for name, taker in CREATION.items():
        look = LOOKS.get(name, Look.ARGUMENTS)
        adopts = 2 if name in CONVERTING else 1
        yield getattr(multiarray, name), look, taker, name, "", False, adopts
    for name in ("where", "copyto", "empty_like", "concatenate", "count_nonzero"):
        function = getattr(multiarray, name)
        look = LOOKS.get(name, Look.ARGUMENTS)
        yield function, look, implemented[name], name, "", name in writers, True
    yield multiarray.c_einsum, Look.ARGUMENTS, einsum, "einsum", "matrix product", False, True
    for name, reason in COMPUTED.items():
        function = getattr(multiarray, name, None)
        yield function, Look.ARGUMENTS, None, name.lstrip("_"), reason, name == "putmask", True


def _method_rows() -> Iterator[Row]:
    for name in sorted(RECORDED.keys() - FORWARDING):
        method = getattr(np.ndarray, name)
        writes = name == "fill"
        look = LOOKS.get(name, Look.SELF)
        yield method, look, RECORDED[name], f"ndarray.{name}", "", writes, True
    for name, reason in EVALUATED.items():
        words, writes = reason.removeprefix("*"), reason.startswith("*")
        method = getattr(np.ndarray, name)
        yield method, LOOKS.get(name, Look.SELF), None, f"ndarray.{name}", words, writes, True
    for name in ("std", "var"):
        yield getattr(np.ndarray, name), Look.STEPS, None, f"ndarray.{name}", "", False, True
    for name in SMALL_METHODS:
        yield getattr(np.ndarray, name), Look.SMALL, None, f"ndarray.{name}", "", False, False
    yield (
        np.ndarray.__array_ufunc__,
        Look.RESULT,
        _array_ufunc,
        "ndarray.__array_ufunc__",
        "",
        True,
        False,
    )


def _ufunc_rows() -> Iterator[Row]:
    for name in ("reduce", "accumulate", "outer"):
        method = getattr(np.ufunc, name)
        look = LOOKS.get(name, Look.ARGUMENTS)
        yield method, look, _record_method(name), f"ufunc.{name}", "", True, True
    for name in ("reduceat", "at"):
        method = getattr(np.ufunc, name)
        look = LOOKS.get(name, Look.ARGUMENTS)
        yield method, look, None, f"ufunc.{name}", f"ufunc.{name}", True, True


def _see_transforms(module: ModuleType) -> None:
    """Leave out NumPy's Python code around transforms of small arrays."""
    for name in ("fft", "ifft", "rfft", "irfft"):
        _native.redirect_whole(getattr(module, name), name, "", -1)


# Modules of NumPy that a program may never import.
LATER = ("numpy.linalg._umath_linalg", "numpy.fft._pocketfft_umath", "numpy.random")


class Table:
    """What has been handed to the C core, and what could not be: `missing`, by name.

    proofs : whether ufuncs, functions and methods can be redirected here.
    """

    def __init__(self, proofs: tuple[bool, bool, bool] | None = None) -> None:
        self.missing: list[str] = []
        self._proofs = proofs
        self._prepared = False
        self._names: dict[str, Any] = {}  # NumPy's own, while ours stand in their place
        self._ufuncs: set[np.ufunc] = set()

    def prepare(self) -> None:
        """Before the first block; what of NumPy is imported later is seen then."""
        if self._prepared:
            return
        self._prepared = True
        if self._proofs is None:
            self._proofs = _native.prove(np.frompyfunc(lambda x: x, 1, 1))
        _native.redirect_taker(_taker(_record_call))
        rows = (*_function_rows(), *_method_rows(), *_ufunc_rows())
        for function, look, taker, name, *rest in rows:
            # The errors of an `__array_ufunc__` are those of the call.
            wrapped = taker if taker is None or taker is _array_ufunc else _taker(taker)
            self._enter(function, look, wrapped, name, *rest)
        functions: dict[Taker, tuple[str, int]] = dict.fromkeys(SMALL_FUNCTIONS, ("", -1))
        functions |= WHOLE
        functions |= dict.fromkeys(VIEWING - functions.keys(), ("", -2))
        for function, (reason, most) in functions.items():
            _native.redirect_whole(function, function.__name__, reason, most)
        self._see(multiarray)
        for module in LATER:
            when_imported(module, self._see)
        when_imported("numpy.fft._pocketfft", _see_transforms)
        when_imported("scipy.special", self._see_special)
        for name in REFUSING:
            when_imported(name, self._see_refusing)
        _native.hear_blocks(bool(self.missing))

    def _see(self, module: ModuleType) -> None:
        """Redirect its ufuncs, and methods of its random generators."""
        assert self._proofs is not None
        for ufunc in vars(module).values():
            if type(ufunc) is not np.ufunc or ufunc in self._ufuncs:
                continue
            self._ufuncs.add(ufunc)
            exact = 2 * (ufunc.__name__ in SAME_BITS) + (ufunc.__name__ in SAME_BITS_IF_REAL)
            if not (self._proofs[0] and _native.redirect_ufunc(ufunc, exact)):
                self._miss(ufunc.__name__)
        if module.__name__ == "numpy.random":
            self._random(vars(module))

    def _see_special(self, _: ModuleType) -> None:
        """Redirect ufuncs of SciPy; calls with small arrays are left to them."""
        assert self._proofs is not None
        for ufunc in SPECIAL.ufuncs:
            if ufunc not in self._ufuncs and self._proofs[0]:
                self._ufuncs.add(ufunc)
                _native.redirect_ufunc(ufunc, FOREIGN)

    def _see_refusing(self, module: ModuleType) -> None:
        short = module.__name__.rpartition(".")[2]
        for name, written in REFUSING[module.__name__].items():
            function = getattr(module, name, None)
            if function is not None:
                taker = _on_memory(function, written, "transform")
                self._enter(function, Look.ARGUMENTS, taker, f"{short}.{name}", "", True, True)

    def _miss(self, name: str) -> None:
        self.missing.append(name)
        _native.hear_blocks(True)

    def _enter(self, function: Any, look: Look, taker: Any, name: str, *rest: Any) -> None:
        assert self._proofs is not None
        possible = self._proofs[2 if "." in name else 1]
        row = (*rest, taker is not None and name in MOVING)
        if function is None:  # this NumPy does not have it
            return
        if not (possible and _native.redirect(function, int(look), taker, name, *row)):
            self._miss(name)

    def _random(self, names: Mapping[str, Any]) -> None:
        for kind in ("Generator", "RandomState"):
            for name, method in vars(names[kind]).items():
                if not name.startswith("_") and "cython" in type(method).__name__:
                    look, taker = Look.RESULT, None
                    if name in EXACT:
                        taker = _on_memory(method, 1, "random numbers")
                    if name in MOVED:
                        look, taker = Look.ARGUMENTS, _taker(MOVED[name])
                    self._enter(method, look, taker, f"{kind}.{name}", "", False, True)

    # Where that is not possible: names instead of objects.

    def enter(self) -> None:
        """Have the names of what is missing show stand-ins. Seen by who looks them up from now
        on, and through `numpy` only."""
        for name in self.missing:
            original = getattr(np, name, None)
            if callable(original) and not isinstance(original, _StandIn):
                self._names[name] = original
                setattr(np, name, _StandIn(original))

    def leave(self) -> None:
        """Undo `enter`, when no block is open any more."""
        if self._names and not _native.any_block():
            for name, original in self._names.items():
                setattr(np, name, original)
            self._names.clear()

    def describe(self) -> str:
        """One line for `npaccel.devices`."""
        self.prepare()
        if not self.missing:
            return "plain arrays are seen in whatever calls NumPy (redirected at the object)"
        by_name = [name for name in self.missing if hasattr(np, name)]
        return (
            f"NumPy {np.__version__} on this Python does not allow to redirect "
            f"{', '.join(self.missing)}; by name through numpy: {', '.join(by_name) or 'none'}"
        )


class _StandIn:
    """A function of NumPy's whose large plain arguments are wrapped first; all else is its own."""

    def __init__(self, original: Any) -> None:
        self._original = original
        functools.update_wrapper(self, original, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _native.in_block():
            args = tuple(map(_wrapped, args))
        return self._original(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)


def _wrapped(value: Any) -> Any:
    return _native.wrap(value) if type(value) is np.ndarray and _native.wants(value) else value


TABLE: Final = Table()
