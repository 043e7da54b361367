"""Values of expression graphs, by whole-array NumPy: the meaning of the Core primitives.

Slow and plain. Compiled code is compared with this bit for bit (NaNs count as equal).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from npaccel.ir.scalar import Core, Expr, Value, item_size, topological

__all__ = ["Array", "constant", "convert", "evaluate"]

Array = np.ndarray[Any, np.dtype[Any]]
Rule = Callable[[Expr, list[Array]], Array]

_LEAVES = frozenset({Core.LOAD, Core.SCALAR, Core.ROW, Core.SCRATCH, Core.INDEX})


def constant(dtype: str, value: Value) -> Array:
    """0-d array of `value` as `dtype`; integers keep their low bits."""
    if dtype[0] in "iu":
        bits = 8 * item_size(dtype)
        return np.array(int(value.real) % (1 << bits), f"u{bits // 8}").view(dtype)
    with np.errstate(all="ignore"):
        return np.array(value).astype(dtype)


def evaluate(
    roots: Iterable[Expr],
    leaf: Callable[[Expr], Array],
    gather: Callable[[Expr, Array], Array] | None = None,
    scan: Callable[[Expr, Array], Array] | None = None,
) -> dict[Expr, Array]:
    """Value of every node the roots need, unbroadcast; `leaf` gives those of LOAD, ROW, ...

    gather : value of a GATHER with these offsets
    scan : value of a SCAN of these operands, over the whole domain

    Floating-point warnings are silenced; nothing is written.
    """
    values: dict[Expr, Array] = {}
    with np.errstate(all="ignore"):
        for node in topological(roots):
            if node.op in _LEAVES:
                values[node] = np.asarray(leaf(node))
            elif node.op is Core.GATHER and gather is not None:
                values[node] = gather(node, values[node.args[0]])
            elif node.op is Core.SCAN and scan is not None:
                values[node] = scan(node, values[node.args[0]])
            elif node.op is Core.BEFORE:
                values[node] = _before(values[node.args[0]])
            else:
                operands = [values[arg] for arg in node.args]
                values[node] = np.asarray(_RULES[node.op](node, operands))
    return values


def _before(scan: Array) -> Array:
    return np.concatenate([scan[..., :1], scan[..., :-1]], axis=-1)


def _unsigned(x: Array) -> Array:
    return x.view(f"u{x.itemsize}")


def _signed(x: Array) -> Array:
    return x.view(f"i{x.itemsize}")


def _div(node: Expr, args: list[Array]) -> Array:
    x, y = args
    if node.dtype[0] == "f":
        return np.asarray(np.true_divide(x, y))
    if node.dtype[0] == "u":
        return np.asarray(np.floor_divide(x, y))
    return np.asarray(np.floor_divide(np.subtract(x, np.fmod(x, y)), y))


def _mulhi(node: Expr, args: list[Array]) -> Array:
    x, y = args
    if node.dtype == "u4":
        return np.asarray((x.astype("u8") * y.astype("u8")) >> np.uint64(32)).astype("u4")
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    x0, x1, y0, y1 = x & low, x >> half, y & low, y >> half
    middle = x1 * y0 + ((x0 * y0) >> half)
    carry = x0 * y1 + (middle & low)
    return np.asarray(x1 * y1 + (middle >> half) + (carry >> half))


def _neg(node: Expr, args: list[Array]) -> Array:
    (x,) = args
    if node.dtype[0] != "f":
        return np.asarray(np.negative(x))
    sign = constant(f"u{x.itemsize}", 1 << (8 * x.itemsize - 1))
    return np.asarray(_unsigned(x) ^ sign).view(node.dtype)


def _abs(node: Expr, args: list[Array]) -> Array:
    (x,) = args
    rest = constant(f"u{x.itemsize}", (1 << (8 * x.itemsize - 1)) - 1)
    return np.asarray(_unsigned(x) & rest).view(node.dtype)


def _clz(node: Expr, args: list[Array]) -> Array:
    x = _unsigned(args[0])
    bits = 8 * x.itemsize
    shift = 1
    while shift < bits:
        x = np.asarray(x | (x >> constant(x.dtype.str[1:], shift)))
        shift *= 2
    return np.asarray(bits - np.bitwise_count(x)).astype(node.dtype)


# ------------------------------------------------------------------------------ fused multiply-add


def _two_sum(x: Array, y: Array) -> tuple[Array, Array]:
    total = np.asarray(x + y)
    back = total - x
    return total, np.asarray((x - (total - back)) + (y - back))


def _add_to_odd(x: Array, y: Array) -> Array:
    """x + y in f8, rounded to odd: a later rounding to fewer bits is then the only one."""
    total, rest = _two_sum(x, y)
    inexact = np.isfinite(total) & np.isfinite(rest) & (rest != 0)
    even = (_unsigned(total) & np.uint64(1)) == 0
    toward = np.where(rest > 0, np.inf, -np.inf)
    return np.where(inexact & even, np.nextafter(total, toward), total)


def _split(x: Array) -> tuple[Array, Array]:
    scaled = x * 134217729.0
    high = np.asarray(scaled - (scaled - x))
    return high, np.asarray(x - high)


def _fma_f8(x: Array, y: Array, z: Array) -> Array:
    """Boldo and Melquiond's emulation where no step can overflow or lose bits; else rationals."""
    x, y, z = np.broadcast_arrays(x, y, z)
    plain = np.asarray(x * y + z)
    finite = np.isfinite(x) & np.isfinite(y)
    simple = ~finite | ~np.isfinite(z) | (x == 0) | (y == 0) | (z == 0)
    plain = np.where(finite & ~np.isfinite(z), z, plain)
    product = np.asarray(x * y)
    safe = np.ones(x.shape, bool)
    for part, bound in ((x, 2.0**400), (y, 2.0**400), (product, 2.0**700), (z, 2.0**700)):
        safe &= (abs(part) < bound) & (abs(part) > 1 / bound)
    (x1, x0), (y1, y0) = _split(x), _split(y)
    error = np.asarray(x0 * y0 - (((product - x1 * y1) - x0 * y1) - x1 * y0))
    high, low = _two_sum(z, error)
    top, bottom = _two_sum(product, high)
    result = np.where(simple, plain, top + _add_to_odd(low, bottom))
    for at in zip(*np.nonzero(~simple & ~safe), strict=True):
        result[at] = _exact_fma(float(x[at]), float(y[at]), float(z[at]))
    if result.ndim == 0 and not (simple | safe):
        result = np.asarray(_exact_fma(float(x), float(y), float(z)))
    return result


def _exact_fma(x: float, y: float, z: float) -> float:
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        return float(exact)
    except OverflowError:
        return np.inf if exact > 0 else -np.inf


def _fma(node: Expr, args: list[Array]) -> Array:
    if node.dtype == "f8":
        return _fma_f8(*args)
    # Products of two f4 are exact in f8.
    x, y, z = (arg.astype("f8") for arg in args)
    return _add_to_odd(np.asarray(x * y), z).astype("f4").astype(node.dtype)


# --------------------------------------------------------------------------------------- casts


def convert(x: Array, dtype: str) -> Array:
    """`x` as `dtype`, as Note [Casts] in ir/scalar.py says."""
    source = x.dtype.str[1:]
    if source == dtype:
        return x
    with np.errstate(all="ignore"):
        if source[0] == "c" and dtype[0] not in "bc":
            return convert(np.ascontiguousarray(x.real).reshape(x.shape), dtype)
        if source[0] == "f" and dtype[0] in "iu":
            return _float_to_integer(x, dtype)
        if source[0] in "iu" and dtype == "f2":
            # Integers a half can hold are exact in f4; beyond them all is infinite.
            if x.itemsize < 4:
                return x.astype("f4").astype("f2")
            lowest = -70000 if source[0] == "i" else 0
            return np.clip(x, lowest, 70000).astype("f4").astype("f2")
        return x.astype(dtype)


def _float_to_integer(x: Array, dtype: str) -> Array:
    wide = x.astype("f8")
    if dtype == "u8":
        above = _truncate(np.asarray(wide - 2.0**63), "i8") ^ np.int64(-(2**63))
        return np.where(wide >= 2.0**63, above, _truncate(wide, "i8")).view("u8")
    through = "i8" if dtype in ("u4", "i8") else "i4"
    return _truncate(wide, through).astype(dtype)


def _truncate(x: Array, dtype: str) -> Array:
    """cvttsd2si: what does not fit is the most negative integer."""
    limit = 2.0 ** (8 * item_size(dtype) - 1)
    whole = np.trunc(x)
    fits = (whole >= -limit) & (whole < limit)
    return np.where(fits, np.where(fits, whole, 0).astype(dtype), constant(dtype, -int(limit)))


def _complex(node: Expr, args: list[Array]) -> Array:
    result = np.empty(np.broadcast_shapes(args[0].shape, args[1].shape), node.dtype)
    result.real, result.imag = args
    return result


def _ufunc(function: Callable[..., Any]) -> Rule:
    return lambda node, args: np.asarray(function(*args))


_RULES: dict[Core, Rule] = {
    Core.CONST: lambda node, args: constant(node.dtype, node.attr if node.attr is not None else 0),
    Core.ADD: _ufunc(np.add),
    Core.SUB: _ufunc(np.subtract),
    Core.MUL: _ufunc(np.multiply),
    Core.DIV: _div,
    Core.REM: _ufunc(np.fmod),
    Core.MULHI: _mulhi,
    Core.NEG: _neg,
    Core.FLIP: _neg,
    Core.FMA: _fma,
    Core.ABS: _abs,
    Core.SQRT: _ufunc(np.sqrt),
    Core.FLOOR: _ufunc(np.floor),
    Core.CEIL: _ufunc(np.ceil),
    Core.TRUNC: _ufunc(np.trunc),
    Core.RINT: _ufunc(np.rint),
    Core.COPYSIGN: _ufunc(np.copysign),
    Core.AND: _ufunc(np.bitwise_and),
    Core.OR: _ufunc(np.bitwise_or),
    Core.XOR: _ufunc(np.bitwise_xor),
    Core.NOT: _ufunc(np.invert),
    Core.SHL: _ufunc(np.left_shift),
    Core.LSHR: lambda node, args: np.asarray(_unsigned(args[0]) >> _unsigned(args[1])).view(
        node.dtype
    ),
    Core.ASHR: lambda node, args: np.asarray(_signed(args[0]) >> _signed(args[1])).view(node.dtype),
    Core.POPCOUNT: lambda node, args: np.asarray(np.bitwise_count(_unsigned(args[0]))).astype(
        node.dtype
    ),
    Core.CLZ: _clz,
    Core.EQ: _ufunc(np.equal),
    Core.NE: _ufunc(np.not_equal),
    Core.LT: _ufunc(np.less),
    Core.LE: _ufunc(np.less_equal),
    Core.GT: _ufunc(np.greater),
    Core.GE: _ufunc(np.greater_equal),
    Core.SELECT: _ufunc(np.where),
    Core.RARE: lambda node, args: np.where(args[0], args[2], args[1]),
    Core.CONVERT: lambda node, args: convert(args[0], node.dtype),
    Core.BITCAST: lambda node, args: args[0].view(node.dtype),
    Core.COMPLEX: _complex,
    Core.REAL: lambda node, args: np.asarray(args[0].real),
    Core.IMAG: lambda node, args: np.asarray(args[0].imag),
}
