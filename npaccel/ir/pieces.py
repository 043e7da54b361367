"""Rows that look at or put together a float's sign, exponent and digits."""

from __future__ import annotations

from dataclasses import dataclass

from npaccel.ir import conditions as when
from npaccel.ir.nans import NAN
from npaccel.ir.nodes import FlagKind
from npaccel.ir.operation import Masks, Op, Operands
from npaccel.ir.scalar import Core, Expr

__all__ = ["FORMATS", "PIECES", "Format", "exponent_factor", "split_exponent"]

INF = float("inf")


@dataclass(frozen=True, slots=True)
class Format:
    """Layout of a float dtype: its integers of the same size, digits and exponent bias."""

    signed: str
    unsigned: str
    digits: int  # stored bits of the significand
    bias: int

    @property
    def infinity(self) -> int:
        """Bits of infinity."""
        return (2 * self.bias + 1) << self.digits

    @property
    def smallest(self) -> float:
        """The smallest positive number."""
        return 2.0 ** (1 - self.bias - self.digits)

    @property
    def normal(self) -> float:
        """The smallest positive normal number."""
        return 2.0 ** (1 - self.bias)


FORMATS = {
    "f2": Format("i2", "u2", 10, 15),
    "f4": Format("i4", "u4", 23, 127),
    "f8": Format("i8", "u8", 52, 1023),
}


def exponent_factor(n: Expr, dtype: str) -> Expr:
    """2**n as `dtype`, for n (signed integer of the same size) within the normal exponents."""
    form = FORMATS[dtype]
    return (n + form.bias).binary(Core.SHL, form.digits).bitcast(dtype)


def split_exponent(x: Expr) -> tuple[Expr, Expr]:
    """(m, e): x = m * 2**e with 1 <= |m| < 2, subnormal x too; for 0, inf, NaN without meaning.

    e is the signed integer of the same size.
    """
    form = FORMATS[x.dtype]
    small = abs(x) < form.normal
    scaled = small.select(x * 2.0 ** (form.digits + 1), x)
    bits = scaled.bitcast(form.signed)
    mask = form.infinity
    raw = (bits & mask).binary(Core.LSHR, form.digits)
    shift = small.select(raw.like(form.bias + form.digits + 1), raw.like(form.bias))
    mantissa = ((bits & ~mask) | (form.bias << form.digits)).bitcast(x.dtype)
    return mantissa, raw - shift


def _plain(x: Expr) -> Expr:
    """Whether `split_exponent` holds: finite and not zero."""
    return when.finite(x) & x.ne(0.0)


def _frexp(x: Expr) -> tuple[Expr, Expr]:
    if x.dtype == "f2":
        mantissa, exponent = _frexp(x.convert("f4"))
        return mantissa.convert("f2"), exponent
    mantissa, exponent = split_exponent(x)
    plain = _plain(x)
    return (
        plain.select(mantissa * 0.5, x),
        plain.select((exponent + 1).convert("i4"), 0),
    )


def _ldexp(x: Expr, n: Expr) -> Expr:
    if x.dtype == "f2":
        return _ldexp(x.convert("f4"), n).convert("f2")
    form = FORMATS[x.dtype]
    limit = 4 * (form.bias + form.digits)
    n = (n > limit).select(n.like(limit), n)
    n = (n < -limit).select(n.like(-limit), n).convert(form.signed)
    mantissa, exponent = split_exponent(x)
    total = exponent + n
    # Two factors, so that only the second product can round.
    most = form.bias + form.digits + 10
    total = (total > most).select(total.like(most), total)
    total = (total < -most).select(total.like(-most), total)
    half = total.binary(Core.ASHR, 1)
    first, second = exponent_factor(half, x.dtype), exponent_factor(total - half, x.dtype)
    return _plain(x).select(mantissa * first * second, x)


def _modf(x: Expr) -> tuple[Expr, Expr]:
    whole = x.unary(Core.TRUNC)
    rest = when.is_infinite(x).select(x.like(0.0), x - whole)
    return x.isnan().select(x, rest.binary(Core.COPYSIGN, x)), whole


def _nextafter(x: Expr, y: Expr) -> Expr:
    form = FORMATS[x.dtype]
    up = (y > x).convert(form.signed)
    away = (x > 0.0).select(up, (x < 0.0).select(1 - up, up))
    bits = x.bitcast(form.signed) + (away + away - 1)
    step = x.eq(0.0).select(x.like(form.smallest).binary(Core.COPYSIGN, y), bits.bitcast(x.dtype))
    result = x.eq(y).select(y, step)
    return (x.isnan() | y.isnan()).select(x + y, result)


def _nextafter_masks(operands: Operands, results: Operands) -> Masks:
    return ((FlagKind.OVER, when.is_infinite(results[0]) & when.finite(operands[0])),)


def _spacing(x: Expr) -> Expr:
    form = FORMATS[x.dtype]
    # Away from zero; NumPy's own f2 goes toward infinity instead.
    step = (x < 0.0).select(x.like(-1.0), x.like(1.0)).convert(form.signed)
    bits = x.bitcast(form.signed) + (step if x.dtype == "f2" else 1)
    following = bits.bitcast(x.dtype)
    distance = x.eq(0.0).select(x.like(form.smallest), following - x)
    nan = x.like(NAN)
    passed = nan if x.dtype == "f2" else x.isnan().select(x, nan)
    return x.nonfinite().select(passed, distance)


def _spacing_masks(operands: Operands, results: Operands) -> Masks:
    (x,), (r,) = operands, results
    over = (FlagKind.OVER, when.is_infinite(r))
    if x.dtype != "f2":
        return (over,)
    return over, (FlagKind.INVALID, x.nonfinite())


def _sign(x: Expr) -> Expr:
    one = (x < 0.0).select(x.like(-1.0), x)
    return (x > 0.0).select(x.like(1.0), x.eq(0.0).select(x.like(0.0), one))


def _heaviside(x: Expr, middle: Expr) -> Expr:
    step = (x < 0.0).select(x.like(0.0), x.like(1.0))
    return x.isnan().select(x.like(NAN), x.eq(0.0).select(middle, step))


def _signbit(x: Expr) -> Expr:
    return x.bitcast(FORMATS[x.dtype].signed) < 0


PIECES = (
    Op(
        "copysign",
        2,
        1,
        "f",
        lambda x, y: x.binary(Core.COPYSIGN, y),
        propagates=(True, False),
        warns="",
        ahead=("f4", "f8"),
    ),
    Op("signbit", 1, 1, "f", _signbit, warns=""),
    Op("sign", 1, 1, "f", _sign, warns="", ahead=("f4", "f8")),
    Op("heaviside", 2, 1, "f", _heaviside, ahead=("f4", "f8")),
    # f2: which zero follows the other is different from NumPy 2.5 on.
    Op("nextafter", 2, 1, "f", _nextafter, None, _nextafter_masks, without=("f2",)),
    Op("spacing", 1, 1, "f", _spacing, None, _spacing_masks),
    Op("frexp", 1, 2, "f", _frexp),
    Op("ldexp", 2, 1, "f", _ldexp, None, when.overflow),
    Op("modf", 1, 2, "f", _modf),
)
