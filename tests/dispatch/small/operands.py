"""Arrays in all layouts, and operators: what calls on small arrays are tried with."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..differential import edge_values

Array = np.ndarray[Any, Any]
NUMBERS = "?bhilqBHILQefdgFDG"
FOREIGN = ("M8[s]", "m8[s]", "O", "S3", "U3", "i4,f8")
POINTS = 24


def line(dtype: str, points: int = POINTS) -> Array:
    with np.errstate(all="ignore"):
        if dtype in FOREIGN:
            return (np.arange(points) % 7).astype(dtype)
        return np.resize(edge_values(dtype), points)


def other(v: Array) -> Array:
    return np.roll(v, 5)[::-1].copy()


def unaligned(v: Array) -> Array:
    room = np.zeros(v.nbytes + 1, np.uint8)
    room[1:] = v.view(np.uint8)
    return room[1:].view(v.dtype)


def read_only(v: Array) -> Array:
    v.flags.writeable = False
    return v


def field(v: Array) -> Array:
    table = np.zeros(len(v), [("a", "i8"), ("b", v.dtype)])
    table["b"] = v
    return table["b"]


def windows(v: Array) -> Array:
    return as_strided(v, (6, 4), (v.strides[0], v.strides[0]))


LAYOUTS: dict[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "line": lambda v, w: (v, w),
    "itself": lambda v, w: (v, v),
    "block": lambda v, w: (v.reshape(4, 6), w.reshape(4, 6)),
    "three axes": lambda v, w: (v.reshape(2, 3, 4), w.reshape(2, 3, 4)),
    "Fortran": lambda v, w: (v.reshape(4, 6, order="F"), w.reshape(4, 6, order="F")),
    "both orders": lambda v, w: (v.reshape(4, 6), w.reshape(4, 6, order="F")),
    "transposed": lambda v, w: (v.reshape(4, 6).T, w.reshape(6, 4)),
    "permuted": lambda v, w: (v.reshape(2, 3, 4).transpose(1, 0, 2), w.reshape(3, 2, 4)),
    "every second": lambda v, w: (v[::2], w[::2]),
    "second and first": lambda v, w: (v[1::2], w[:12]),
    "columns": lambda v, w: (v.reshape(4, 6)[:, ::2], w.reshape(4, 6)[:, 1:4]),
    "inner rows": lambda v, w: (v.reshape(2, 4, 3)[:, 1:3], w.reshape(2, 2, 6)[..., 3:]),
    "backwards": lambda v, w: (v[::-1], w),
    "rows backwards": lambda v, w: (v.reshape(4, 6), w.reshape(4, 6)[::-1]),
    "table": lambda v, w: (v[:, None], w[None, :4]),
    "row on block": lambda v, w: (v[:6], w.reshape(4, 6)),
    "block on row": lambda v, w: (v.reshape(4, 6), w[:6]),
    "column": lambda v, w: (v.reshape(4, 6), w[:4, None]),
    "column of a block": lambda v, w: (v.reshape(4, 6), w.reshape(4, 6)[:, 2:3]),
    "plane": lambda v, w: (v.reshape(2, 3, 4), w[:8].reshape(2, 1, 4)),
    "spread rows": lambda v, w: (np.broadcast_to(v[:6], (4, 6)), w.reshape(4, 6)),
    "spread columns": lambda v, w: (np.broadcast_to(v[:4, None], (4, 6)), w.reshape(4, 6)),
    "spread both": lambda v, w: (np.broadcast_to(v[3], (4, 6)), np.broadcast_to(w[3], (4, 6))),
    "first without axes": lambda v, w: (v[7].reshape(()), w),
    "second without axes": lambda v, w: (v, w[7].reshape(())),
    "without axes": lambda v, w: (v[7].reshape(()), w[7].reshape(())),
    "no elements": lambda v, w: (v[:0], w[:0]),
    "no rows": lambda v, w: (v[:0].reshape(0, 3), w[:3]),
    "one and none": lambda v, w: (v[:1], w[:0]),
    "one": lambda v, w: (v[:1], w[:1]),
    "one of a row": lambda v, w: (v.reshape(1, 24), w.reshape(1, 24)),
    "one column": lambda v, w: (v.reshape(24, 1), w.reshape(24, 1)),
    "one by one": lambda v, w: (v[5:6].reshape(1, 1), w[5:6]),
    "eight axes": lambda v, w: (
        v.reshape(2, 1, 2, 1, 2, 1, 3, 1),
        w.reshape(2, 1, 2, 1, 2, 1, 3, 1),
    ),
    "nine axes": lambda v, w: (
        v.reshape((2, 2, 2, 3) + (1,) * 5),
        w.reshape((2, 2, 2, 3) + (1,) * 5),
    ),
    "apart in extent": lambda v, w: (v[:3], w[:4]),
    "apart in axes": lambda v, w: (v.reshape(4, 6), w[:4]),
    "larger second": lambda v, w: (v[:6], w.reshape(4, 6)),
    "shifted up": lambda v, w: (v[1:], v[:-1]),
    "shifted down": lambda v, w: (v[:-1], v[1:]),
    "its reverse": lambda v, w: (v, v[::-1]),
    "its transpose": lambda v, w: (v[:16].reshape(4, 4), v[:16].reshape(4, 4).T),
    "its row": lambda v, w: (v.reshape(4, 6), v[:6]),
    "its view": lambda v, w: (v, v[:]),
    "read-only": lambda v, w: (read_only(v), w),
    "read-only second": lambda v, w: (v, read_only(w)),
}
# Layouts that few operations need to be tried with.
ODD: dict[str, Callable[[Array, Array], tuple[Array, Array]]] = {
    "unaligned": lambda v, w: (unaligned(v), w),
    "unaligned second": lambda v, w: (v, unaligned(w)),
    "swapped": lambda v, w: (v.astype(v.dtype.newbyteorder()), w),
    "swapped both": lambda v, w: tuple(a.astype(a.dtype.newbyteorder()) for a in (v, w)),
    "field": lambda v, w: (field(v), w),
    "fields": lambda v, w: (field(v), field(w)),
    "windows": lambda v, w: (windows(v), w.reshape(6, 4)),
    "windows on row": lambda v, w: (windows(v), w[:4]),
    "one place": lambda v, w: (as_strided(v, (6,), (0,)), w[:6]),
    "one place in rows": lambda v, w: (as_strided(v, (6, 4), (v.itemsize, 0)), w.reshape(6, 4)),
    "one row": lambda v, w: (as_strided(v, (6, 4), (0, v.itemsize)), w.reshape(6, 4)),
    "with metadata": lambda v, w: (v.astype(np.dtype(v.dtype, metadata={"a": 1})), w),
    "broadcast arrays": lambda v, w: tuple(np.broadcast_arrays(v[:, None], w)),
}

COMPARISONS = ["lt", "le", "eq", "ne", "gt", "ge"]
ARITHMETIC = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift"]
BITWISE = ["and_", "or_", "xor"]
BINARY = {name: getattr(operator, name) for name in (*ARITHMETIC, *BITWISE, *COMPARISONS, "matmul")}
BINARY["divmod"] = divmod
IN_PLACE = {
    name: getattr(operator, name)
    for name in (*(f"i{name}" for name in ARITHMETIC), "iand", "ior", "ixor")
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": operator.neg,
    "pos": operator.pos,
    "abs": abs,
    "invert": operator.invert,
    "** 2": lambda x: x**2,
    "** 2.0": lambda x: x**2.0,
    "** True": lambda x: x**True,
    "** 2j": lambda x: x ** (2 + 0j),
    "** 0.5": lambda x: x**0.5,
    "** -1": lambda x: x**-1,
    "** 0": lambda x: x**0,
    "** 3": lambda x: x**3,
    "** -2": lambda x: x**-2,
    "** -1.5": lambda x: x**-1.5,
    "** 2.5": lambda x: x**2.5,
    "** nan": lambda x: x ** float("nan"),
    "** 300": lambda x: x**300,
    "** 10**30": lambda x: x**10**30 if x.dtype.kind in "fc" else None,
    "pow modulo": lambda x: pow(x, 2, 3),
    "**= 2": lambda x: operator.ipow(x, 2),
}
OPERATORS = BINARY | IN_PLACE


def laid_out(
    layout: Callable[[Array, Array], tuple[Array, Array]], dtype: str, then: str = ""
) -> Any:
    def make() -> tuple[Array, Array]:
        v = line(dtype)
        return layout(v, other(v if not then else line(then)))

    return make


class Kind(np.ndarray[Any, Any]):
    pass
