"""Rows of the division of floats with remainder: bit for bit NumPy's.

A remainder is exact: fmod(a, b) is a multiple of b's last place and smaller than b. While the
quotient has at most 52 bits one fused multiply-add finds it; else, rarely, a long division.
"""

from __future__ import annotations

from npaccel.ir import conditions as when
from npaccel.ir.nans import INVALID
from npaccel.ir.nodes import FlagKind
from npaccel.ir.operation import Masks, Op, Operands
from npaccel.ir.pieces import FORMATS, exponent_factor, split_exponent
from npaccel.ir.precision import INF, keep_sign
from npaccel.ir.scalar import Core, Expr

__all__ = ["REMAINDERS"]

STEP_BITS = 50


def _step(r: Expr, b: Expr) -> Expr:
    """r mod b for r / b < 2**52, both positive."""
    q = (r / b).unary(Core.TRUNC)
    rest = (-q).fma(b, r)
    # The quotient may have been rounded up.
    return (rest < 0.0).select(rest + b, rest)


def _long_division(a: Expr, b: Expr, most: int) -> Expr:
    """a mod b for positive finite f8 whose exponents differ by at most `most`."""
    r, a_exponent = split_exponent(a)
    divisor, b_exponent = split_exponent(b)
    left = a_exponent - b_exponent
    left = (left < 0).select(left.like(0), left)
    r = _step(r, divisor)
    for _ in range(-(-most // STEP_BITS)):
        shift = (left > STEP_BITS).select(left.like(STEP_BITS), left)
        r = _step(r * exponent_factor(shift, "f8"), divisor)
        left = left - shift
    half = b_exponent.binary(Core.ASHR, 1)
    return r * exponent_factor(half, "f8") * exponent_factor(b_exponent - half, "f8")


def _wide_fmod(x: Expr, y: Expr, most: int) -> Expr:
    a, b = abs(x), abs(y)
    near = (a < b).select(a, _step(a, b))
    far = _long_division(a, b, most)
    far = (a < b).select(a, far)
    undefined = a.eq(INF) | b.eq(0.0)
    far = undefined.select(a.like(INVALID), keep_sign(far, x))
    far = (x.isnan() | y.isnan()).select(x + y, far)
    plain = (a / b < 2.0**52) & (b < INF)
    return (~plain).rare(far, keep_sign(near, x))


def _fmod(x: Expr, y: Expr) -> Expr:
    form = FORMATS[x.dtype]
    most = 2 * form.bias + form.digits
    return _wide_fmod(x.convert("f8"), y.convert("f8"), most).convert(x.dtype)


def _divmod(x: Expr, y: Expr) -> tuple[Expr, Expr]:
    # npy_divmod, step by step; f2 computes in f4.
    if x.dtype == "f2":
        quotient, rest = _divmod(x.convert("f4"), y.convert("f4"))
        return quotient.convert("f2"), rest.convert("f2")
    rest = _fmod(x, y)
    quotient = (x - rest) / y
    other = rest.ne(0.0) & ((y < 0.0) ^ (rest < 0.0))
    quotient = other.select(quotient - 1.0, quotient)
    adjusted = rest.eq(0.0).select(keep_sign(x.like(0.0), y), other.select(rest + y, rest))
    floor = quotient.unary(Core.FLOOR)
    floor = (quotient - floor > 0.5).select(floor + 1.0, floor)
    floor = quotient.eq(0.0).select(keep_sign(x.like(0.0), x / y), floor)
    zero = y.eq(0.0)
    return zero.select(x / y, floor), zero.select(rest, adjusted)


def _invalid(x: Expr, y: Expr) -> Expr:
    """Where fmod is undefined."""
    return (when.is_infinite(x) & ~y.isnan()) | (y.eq(0.0) & ~x.isnan())


def _quotient_masks(operands: Operands, results: Operands) -> Masks:
    (x, y), r = operands, results[0]
    zero, finite = y.eq(0.0), when.finite(x)
    over = when.is_infinite(r) & finite & ~zero
    # NumPy takes infinity from infinity there; f2, in f4, only overflows at the end.
    invalid = (zero & x.eq(0.0)) | (~zero & _invalid(x, y))
    if x.dtype != "f2":
        over = when.is_infinite(x / y) & finite & ~zero
        invalid = invalid | over
    return (
        (FlagKind.DIVIDE, zero & finite & x.ne(0.0)),
        (FlagKind.OVER, over),
        (FlagKind.INVALID, invalid),
    )


def _divmod_masks(operands: Operands, results: Operands) -> Masks:
    masks = _quotient_masks(operands, results)
    return (*masks[:2], (FlagKind.INVALID, masks[2][1] | _invalid(*operands)))


_undefined = when.one(FlagKind.INVALID, _invalid)

SINGLES_AND_DOUBLES = ("f4", "f8")  # NumPy calls the C library for each

REMAINDERS = (
    Op("fmod", 2, 1, "f", _fmod, None, _undefined, ahead=SINGLES_AND_DOUBLES),
    Op("remainder", 2, 1, "f", lambda x, y: _divmod(x, y)[1], None, _undefined,
       ahead=SINGLES_AND_DOUBLES),
    Op("floor_divide", 2, 1, "f", lambda x, y: _divmod(x, y)[0], None, _quotient_masks,
       ahead=SINGLES_AND_DOUBLES),
    Op("divmod", 2, 2, "f", _divmod, None, _divmod_masks),
)  # fmt: skip
