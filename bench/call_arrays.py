"""Arrays of all dtypes, layouts and classes, for random calls: see soak_calls.py."""

from __future__ import annotations

import functools
import io
import random
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import npaccel

__all__ = ["DTYPES", "KNOWN", "LAYOUTS", "ODD", "ODD_TYPES", "USUAL", "USUALLY"]

USUALLY = 1 << 18  # bytes from which on operations are recorded
INSIDE = False  # whether calls are npaccel's now


class Own(np.ndarray):
    def __array_finalize__(self, other: Any) -> None:
        self.note = getattr(other, "note", "fresh")


class Prior(np.ndarray):
    __array_priority__ = 15.0

    def __radd__(self, other: Any) -> str:
        return "added to a prior"


class Closed:
    """What takes no ufunc."""

    __array_ufunc__ = None

    def __repr__(self) -> str:
        return "closed"

    def __radd__(self, other: Any) -> str:
        return "added to what is closed"


class Told(np.ndarray):
    def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
        plain = [x.view(np.ndarray) if isinstance(x, Told) else x for x in args]
        return "told", ufunc.__name__, getattr(ufunc, method)(*plain)


class Asked(np.ndarray):
    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return "asked", func.__name__, len(args), sorted(kwargs)


class Made:
    """What has an `__array__`."""

    def __init__(self, a: Any) -> None:
        self.a = a

    def __repr__(self) -> str:
        return f"made of {self.a!r}"

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.a if dtype is None else self.a.astype(dtype)


class Numbered:
    def __init__(self, k: int) -> None:
        self.k = k

    def __index__(self) -> int:
        return self.k

    def __repr__(self) -> str:
        return f"numbered {self.k}"


PLAIN = [0, 1, 2, 3, 5, 0.5, -1.5, 2.25, 7, 10]
EDGES = {
    "f": [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 3.0, np.inf, -np.inf, -np.nan, 7.25, 0.1, 1e-310],
    "c": [0, -0.0, 1, -1j, 0.5 + 2j, 2 - 0.5j, np.inf, complex(0, -np.nan), -3 - 4j, 7j],
    "i": [0, 1, 2, 3, 5, -1, -2, 7, 100],
    "u": [0, 1, 2, 3, 5, 7, 100],
    "b": [0, 1],
}


@functools.cache
def pool(dtype: str, edges: bool) -> np.ndarray:
    d = np.dtype(dtype)
    if d.kind in "iu":
        info = np.iinfo(d)
        found = [*EDGES[d.kind], info.min, info.max, info.max - 1] if edges else range(9)
    elif d.kind in "fcb" and edges:
        found = EDGES[d.kind]
        if d.kind == "f" and npaccel.config.threshold == USUALLY:  # sums overflow in some orders
            found = [*found, np.finfo(d).max, np.finfo(d).tiny]
    elif d.kind == "O":
        return np.array([0, 1, 2.5, True, 3, -7, None] if edges else [0, 1, 2.5, 3], object)
    elif d.kind in "US":
        return np.array(["", "a", "b", "ab", "12", "3"]).astype(d)
    elif d.names:
        return np.array([(k, k / 2) for k in range(6)], d)
    else:
        found = PLAIN
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = np.array(found).astype("i8" if d.kind in "mM" else d).astype(d)
    if d.kind in "mM" and edges:
        made[3] = "NaT"
    return made


def line(dtype: str, n: int, edges: bool, seed: int) -> np.ndarray:
    values = pool(dtype, edges)
    generator = random.Random(seed)
    if n > 300:
        return np.resize(values, n)
    return values[[generator.randrange(len(values)) for _ in range(n)]]


def array(dtype: str, shape: tuple[int, ...], layout: str, edges: bool, seed: int) -> Any:
    """An array of that layout; what is in it depends on the seed."""
    n = int(np.prod(shape))
    if layout in ("reversed", "strided", "unaligned", "spread"):
        return LAYOUTS[layout](line(dtype, n, edges, seed), shape)
    whole = line(dtype, n, edges, seed).reshape(shape)
    return LAYOUTS[layout](whole, shape)


def strided(v: Any, shape: Any) -> Any:
    room = np.zeros((*shape[:-1], 2 * shape[-1]) if shape else (2,), v.dtype)
    part = room[..., ::2].reshape(shape) if not shape else room[..., ::2]
    part[...] = v.reshape(shape)
    return part


def unaligned(v: Any, shape: Any) -> Any:
    if v.dtype.hasobject or not v.dtype.itemsize:
        return v.reshape(shape)
    room = np.zeros(v.nbytes + 1, np.uint8)
    room[1:] = v.view(np.uint8)
    return room[1:].view(v.dtype).reshape(shape)


def read_only(v: Any, _: Any) -> Any:
    v.flags.writeable = False
    return v


def mapped(v: Any, shape: Any) -> Any:
    if v.dtype.hasobject or not v.size:
        return v
    with tempfile.TemporaryFile() as file:
        file.write(v.tobytes())
        file.flush()
        return np.memmap(file, v.dtype, "r+", 0, shape)


def spread(v: Any, shape: Any) -> Any:
    return np.broadcast_to(v.reshape(shape)[:1], shape) if shape and shape[0] else v.reshape(shape)


def swapped(v: Any, _: Any) -> Any:
    return v.swapaxes(0, -1).copy().swapaxes(0, -1) if v.ndim > 1 else v


LAYOUTS: dict[str, Callable[[Any, Any], Any]] = {
    "C": lambda v, _: v,
    "F": lambda v, _: np.asfortranarray(v) if v.ndim > 1 else v,
    "swapped": swapped,
    "reversed": lambda v, s: v[::-1].copy()[::-1].reshape(s) if len(s) < 2 else v.reshape(s)[::-1],
    "backwards": lambda v, _: v[..., ::-1] if v.ndim else v,
    "inner": lambda v, _: np.pad(v, 1)[(slice(1, -1),) * v.ndim] if v.dtype.kind in "bif" else v,
    "strided": strided,
    "unaligned": unaligned,
    "spread": spread,
    "read_only": read_only,
    "mapped": mapped,
    "own": lambda v, _: v.view(Own),
    "prior": lambda v, _: v.view(Prior),
    "told": lambda v, _: v.view(Told),
    "asked": lambda v, _: v.view(Asked),
    "matrix": lambda v, _: np.asmatrix(v) if v.ndim < 3 and v.ndim else v,
    "masked": lambda v, _: np.ma.array(v, mask=v == v[..., :1]) if v.ndim else np.ma.array(v),
    "made": lambda v, _: Made(v),
    "list": lambda v, _: v.tolist(),
    "tuple": lambda v, _: tuple(v.tolist()) if v.ndim else v.item(),
    "ours": lambda v, _: npaccel.asarray(v) if INSIDE else v,
    "later": lambda v, _: npaccel.asarray(v).copy() if INSIDE else v.copy(),
}
USUAL = ("C",) * 12 + ("F", "swapped", "reversed", "backwards", "inner", "strided", "spread")
ODD = tuple(k for k in LAYOUTS if k not in USUAL)
DTYPES = ("f8",) * 8 + ("i8",) * 4 + ("f4", "bool", "c16", "i4", "u1") * 2
ODD_TYPES = (
    "i1", "i2", "u2", "u4", "u8", "f2", "g", "c8", "G", ">f8", ">i4", "M8[s]", "m8[ns]", "O", "S3",
    "U2", "i4,f8", "q", "Q", "datetime64[D]", "V4",
)  # fmt: skip


def part(a: Any, which: str) -> Any:
    """A view of `a`, if there is such a one."""
    try:
        return eval(f"a{which}")
    except (IndexError, TypeError, AttributeError):
        return a


def blank(a: Any) -> Any:
    """`a`, with what was never written overwritten."""
    if isinstance(a, np.ndarray) and a.flags.writeable:
        a[...] = np.zeros((), a.dtype)
    return a


def only(a: Any, where: Any) -> Any:
    """`a` where it has been written."""
    if type(a) is tuple:
        return tuple(only(x, where) for x in a)
    if isinstance(a, np.generic):
        return type(a)
    if isinstance(a, np.ndarray) and a.ndim and a.flags.writeable:
        wanted = np.broadcast_to(np.logical_not(np.asarray(where, bool)), a.shape)
        np.copyto(a, np.zeros((), a.dtype), where=wanted)
    return a


class Around:
    """An errstate, and filters of warnings; what is called of errors is kept."""

    def __init__(self, errors: dict[str, str], *filters: tuple[str, type]) -> None:
        self.errors, self.filters = errors, filters

    def __enter__(self) -> list[Any]:
        self.heard: list[Any] = []
        self.caught = warnings.catch_warnings()
        self.caught.__enter__()
        for action, category in self.filters:
            warnings.simplefilter(action, category)
        call = self if "log" in self.errors.values() else lambda *what: self.heard.append(what)
        self.state = np.errstate(call=call, **self.errors)
        self.state.__enter__()
        return self.heard

    def write(self, text: str) -> None:
        self.heard.append(text)

    def __exit__(self, *error: object) -> None:
        self.state.__exit__(*error)
        self.caught.__exit__(*error)


KNOWN = {
    "np": np, "io": io, "array": array, "blank": blank, "only": only, "part": part,
    "Around": Around, "Closed": Closed, "Numbered": Numbered, "Made": Made,
}  # fmt: skip
