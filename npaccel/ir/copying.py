"""The "copy" rows, one per target dtype: NumPy's cast, with the warnings it gives."""

from __future__ import annotations

from npaccel.ir import conditions as when
from npaccel.ir.nodes import FlagKind
from npaccel.ir.operation import Masks, Op, Operands
from npaccel.ir.scalar import DTYPES, Expr, item_size

__all__ = ["COPIES"]


def _kept(x: Expr, target: str) -> tuple[Expr, ...]:
    """The parts of `x` that a cast to `target` keeps."""
    return when.parts(x) if target[0] == "c" else when.parts(x)[:1]


def _float_masks(operands: Operands, results: Operands) -> Masks:
    # A finite number that the smaller float cannot hold; integers only overflow f2.
    (x,), (r,) = operands, results
    found = []
    for old, new in zip(_kept(x, r.dtype), when.parts(r), strict=False):
        if old.dtype[0] == "f" and item_size(old.dtype) <= item_size(new.dtype):
            continue
        if old.dtype[0] != "f" and new.dtype != "f2":
            continue
        over = when.is_infinite(new)
        found.append(over & when.finite(old) if old.dtype[0] == "f" else over)
    return ((FlagKind.OVER, when.any_of(found)),) if found else ()


def _outside(x: Expr, target: str) -> Expr:
    """Whether the machine's conversion of float `x` on the way to integer `target` is invalid.

    See Note [Casts]: small integers are reached through i4, u4 through i8.
    """
    limit = 2.0**63 if target in ("i8", "u4", "u8") else 2.0**31
    if x.dtype == "f2":
        return x.nonfinite()
    if target == "u8":
        # Down to -2**63 a negative number goes through i8, without a warning.
        return ~((x >= -limit) & (x < 2 * limit))
    if limit == 2.0**31 and x.dtype == "f8":
        # -2**31 - 0.5 truncates to a number inside.
        return ~((x > -limit - 1.0) & (x < limit))
    return ~((x >= -limit) & (x < limit))


def _integer_masks(operands: Operands, results: Operands) -> Masks:
    (x,), (r,) = operands, results
    x = when.parts(x)[0]
    return ((FlagKind.INVALID, _outside(x, r.dtype)),) if x.dtype[0] == "f" else ()


def _integer_guard(operands: Operands, results: Operands) -> Expr | None:
    (x,), (r,) = operands, results
    x = when.parts(x)[0]
    if x.dtype[0] != "f":
        return None
    limit = 2.0**63 if r.dtype in ("i8", "u4", "u8") else 2.0**31
    return x.nonfinite() if x.dtype == "f2" else ~(abs(x) < limit)


def _copy(target: str) -> Op:
    def body(x: Expr) -> Expr:
        return x.convert(target)

    if target == "b1":
        return Op("copy", 1, 1, "biufc", body)
    if target[0] in "iu":
        return Op("copy", 1, 1, "biufc", body, None, _integer_masks, _integer_guard)
    return Op("copy", 1, 1, "biufc", body, None, _float_masks, propagates=(target[0] == "c",))


COPIES = {target: _copy(target) for target in DTYPES}
