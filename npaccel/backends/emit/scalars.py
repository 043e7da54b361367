"""One node of an expression, in what every builder knows.

A builder's `instruction` knows, for names of one dtype:
    f4, f8   ADD SUB MUL DIV NEG ABS COPYSIGN FMA SQRT FLOOR CEIL TRUNC RINT
    f2       ADD SUB MUL DIV NEG ABS COPYSIGN
    i*, u*   ADD SUB MUL NEG AND OR XOR NOT SHL LSHR ASHR POPCOUNT CLZ; DIV and REM of single
             elements; MULHI of single u8
    b1       AND OR XOR NOT
and its `cast` what no other number says; all else is made of these here.
"""

from __future__ import annotations

from collections.abc import Sequence

from npaccel.backends.emit.builder import Builder, Name, Value, pack_float
from npaccel.backends.layout import parts_of
from npaccel.errors import InternalError
from npaccel.ir.scalar import Core, Expr, item_size

__all__ = ["constant", "convert", "single", "write_node"]

_COMPARISONS = frozenset({Core.EQ, Core.NE, Core.LT, Core.LE, Core.GT, Core.GE})
_LOGIC = frozenset({Core.AND, Core.OR, Core.XOR, Core.NOT})
_ROUNDED = frozenset({Core.FMA, Core.SQRT})
_EXACT = frozenset({Core.FLOOR, Core.CEIL, Core.TRUNC, Core.RINT})
_FLOATS = _ROUNDED | _EXACT | {Core.FLIP, Core.ABS, Core.COPYSIGN}
_WHOLE = frozenset({Core.SHL, Core.LSHR, Core.ASHR, Core.POPCOUNT, Core.CLZ, Core.REM, Core.MULHI})


def single(value: Value) -> Name:
    """The name of a value that is not complex."""
    if len(value) != 1:
        raise InternalError("a complex value reached a primitive of real operands")
    return value[0]


def write_node(b: Builder, expr: Expr, operands: Sequence[Value], width: int) -> Value:
    """Write `expr`, whose operands have the given values, and return its value.

    Leaves other than CONST are the caller's, as is a branch for RARE (here a select).
    """
    match expr.op:
        case Core.CONST:
            return constant(b, expr, width)
        case Core.SELECT:
            mask, yes, no = operands
            return _select(b, single(mask), yes, no)
        case Core.RARE:
            mask, cheap, exact = operands
            return _select(b, single(mask), exact, cheap)
        case Core.CONVERT:
            return convert(b, operands[0], expr.args[0].dtype, expr.dtype)
        case Core.BITCAST:
            return (b.reinterpret(single(operands[0]), expr.dtype),)
        case Core.COMPLEX:
            return single(operands[0]), single(operands[1])
        case Core.REAL | Core.IMAG:
            if len(operands[0]) != 2:
                raise InternalError(f"{expr.op} of a value that is not complex")
            return (operands[0][expr.op is Core.IMAG],)
    return (_primitive(b, expr.op, expr.dtype, [single(value) for value in operands]),)


def constant(b: Builder, expr: Expr, width: int) -> Value:
    """The value of a CONST."""
    value, dtype = expr.attr, parts_of(expr.dtype)[0]
    assert value is not None
    if isinstance(value, complex):
        return b.constant(dtype, value.real, width), b.constant(dtype, value.imag, width)
    return (b.constant(dtype, value, width),)


def _select(b: Builder, mask: Name, yes: Value, no: Value) -> Value:
    return tuple(b.select(mask, y, n) for y, n in zip(yes, no, strict=True))


def _primitive(b: Builder, op: Core, dtype: str, names: Sequence[Name]) -> Name:
    if op in _COMPARISONS:
        return b.compare(op, names[0], names[1])
    kind, vector = dtype[0], names[0].width > 1
    if (op in _FLOATS and kind != "f") or (op in _WHOLE and kind not in "iu"):
        raise InternalError(f"{op} has no meaning for {dtype}")
    if (op in _LOGIC and kind not in "iub") or (op not in _LOGIC and kind == "b"):
        raise InternalError(f"{op} has no meaning for {dtype}")
    if op is Core.FLIP:
        return b.flipped(names[0])
    if dtype == "f2" and op in _ROUNDED | _EXACT:
        # Few machines have units for f2, and the routines that stand for them may be missing.
        # Fenced, for LLVM would round a half as such, element by element.
        wide = b.instruction(op, [b.fence(b.cast(name, "f4")) for name in names])
        return b.cast(wide, "f2", exact=op in _EXACT)
    if op is Core.MULHI and (dtype == "u4" or vector):
        return _multiply_high(b, names[0], names[1])
    if kind in "iu" and vector and op in (Core.DIV, Core.REM):
        quotient = (_wide_quotient if item_size(dtype) == 8 else _quotient)(b, *names)
        if op is Core.DIV:
            return quotient
        product = b.instruction(Core.MUL, (quotient, names[1]))
        return b.instruction(Core.SUB, (names[0], product))
    return b.instruction(op, names)


def _quotient(b: Builder, x: Name, y: Name) -> Name:
    # No vector unit divides integers. The quotient of floats twice as precise truncates to the
    # same integer: |x / y| lies at least 1 / |y| below the next one.
    dtype = x.dtype
    wide = item_size(dtype) == 4
    real = "f8" if wide else "f4"
    quotient = b.instruction(Core.DIV, [b.cast(name, real) for name in (x, y)])
    return b.cast(quotient, dtype) if wide else b.cast(b.cast(quotient, "i4"), dtype)


def _wide_quotient(b: Builder, x: Name, y: Name) -> Name:
    # Small numbers, as most are, are f8 by adding bits of one that is large, see Note [Halves], and
    # the truncated quotient is one again.
    dtype, width = x.dtype, x.width
    number = 2.0**52 if dtype == "u8" else 1.5 * 2.0**52
    exponent = b.constant("u8", 0x433 << 52, width)
    added, moved = b.constant("f8", number, width), b.constant("u8", _float_bits(number), width)

    def of(op: Core, left: Name, right: Name) -> Name:
        return b.instruction(op, (left, right))

    bits = [of(Core.ADD, b.reinterpret(name, "u8"), moved) for name in (x, y)]
    reals = [of(Core.SUB, b.reinterpret(name, "f8"), added) for name in bits]
    whole = b.instruction(Core.TRUNC, (of(Core.DIV, *reals),))
    small = of(Core.SUB, b.reinterpret(of(Core.ADD, whole, added), "u8"), moved)
    other = of(Core.OR, *(of(Core.XOR, name, exponent) for name in bits))
    zero = b.constant("u8", 0, width)
    large = b.compare(Core.NE, of(Core.LSHR, other, b.constant("u8", 52, width)), zero)
    quotient = b.variable(dtype, width)
    b.set(quotient, b.reinterpret(small, dtype))
    with b.when(b.any_lane(large), rare=True):
        b.set(quotient, _large_quotient(b, x, y))
    return b.get(quotient)


def _float_bits(number: float) -> int:
    return int.from_bytes(pack_float("<d", number), "little")


def _large_quotient(b: Builder, x: Name, y: Name) -> Name:
    # No float is precise enough for 8 bytes, so what a first estimate leaves is estimated again.
    # Estimates are too small by at most one part in 2**49 of what they estimate, and truncated: of
    # the first as much as a divisor and 2**15 is left, and of the second less than two divisors.
    dtype, width = x.dtype, x.width

    def of(op: Core, left: Name, right: Name) -> Name:
        return b.instruction(op, (left, right))

    def estimate(value: Name) -> Name:
        whole = _to_wide(b, of(Core.MUL, _of_wide(b, value), part))
        return b.reinterpret(whole, dtype) if dtype == "u8" else whole

    part = of(Core.DIV, b.constant("f8", 1 - 2.0**-50, width), _of_wide(b, y))
    first = estimate(x)
    left = of(Core.SUB, x, of(Core.MUL, first, y))
    second = estimate(left)
    left = of(Core.SUB, left, of(Core.MUL, second, y))
    quotient = of(Core.ADD, first, second)
    zero, one = b.constant(dtype, 0, width), b.constant(dtype, 1, width)
    if dtype == "u8":
        more = b.select(b.compare(Core.GE, left, y), one, zero)
        # By 1 the first one may be too large for an i8.
        return b.select(b.compare(Core.EQ, y, one), x, of(Core.ADD, quotient, more))

    def size(value: Name) -> Name:
        negative = b.compare(Core.LT, value, zero)
        return b.reinterpret(b.select(negative, b.instruction(Core.NEG, (value,)), value), "u8")

    opposite = b.compare(Core.LT, of(Core.XOR, x, y), zero)
    more = b.select(opposite, b.constant(dtype, -1, width), one)
    missing = b.compare(Core.GE, size(left), size(y))
    return of(Core.ADD, quotient, b.select(missing, more, zero))


def _multiply_high(b: Builder, x: Name, y: Name) -> Name:
    def of(op: Core, left: Name, right: Name) -> Name:
        return b.instruction(op, (left, right))

    half = b.constant("u8", 32, x.width)
    if x.dtype == "u4":
        product = of(Core.MUL, b.cast(x, "u8"), b.cast(y, "u8"))
        return b.cast(of(Core.LSHR, product, half), "u4")
    # By halves: a vector of 128-bit integers would be taken apart lane by lane.
    low = b.constant("u8", 0xFFFFFFFF, x.width)
    (x0, x1), (y0, y1) = [(of(Core.AND, v, low), of(Core.LSHR, v, half)) for v in (x, y)]
    carry = of(Core.LSHR, of(Core.MUL, x0, y0), half)
    middle = of(Core.ADD, of(Core.MUL, x1, y0), carry)
    other = of(Core.ADD, of(Core.MUL, x0, y1), of(Core.AND, middle, low))
    high = of(Core.ADD, of(Core.MUL, x1, y1), of(Core.LSHR, middle, half))
    return of(Core.ADD, high, of(Core.LSHR, other, half))


# Conversions, see Note [Casts] of ir/scalar.py.


def convert(b: Builder, value: Value, source: str, target: str) -> Value:
    """Write NumPy's unsafe cast of `value` from dtype `source` to dtype `target`."""
    if source == target:
        return value
    part = parts_of(target)[0]
    if target[0] == "c":
        if len(value) == 2:
            return tuple(_convert(b, x, part) for x in value)
        return _convert(b, value[0], part), b.constant(part, 0.0, value[0].width)
    if target == "b1" and len(value) == 2:
        return (b.instruction(Core.OR, [_convert(b, x, "b1") for x in value]),)
    return (_convert(b, value[0], target),)


def _convert(b: Builder, x: Name, target: str) -> Name:
    source = x.dtype
    if source == target:
        return x
    if target == "b1":
        return b.compare(Core.NE, x, b.constant(source, 0, x.width))
    if source[0] == "f":
        if target[0] != "f":
            return _float_to_integer(b, x, target)
        return _narrowed_by_odd(b, x) if (source, target) == ("f8", "f2") else b.cast(x, target)
    if target == "f2":
        # An integer too large to be exact in f4 is infinite in f2, so f4 loses nothing.
        x = b.cast(x, "f4")
    return _of_wide(b, x) if (item_size(source), target) == (8, "f8") else b.cast(x, target)


def _narrowed_by_odd(b: Builder, x: Name) -> Name:
    # Few machines narrow f8 to f2 at once. Through f4 rounded to odd the second rounding is
    # right: what was cut off stays visible in the last bit.
    near = b.cast(x, "f4")
    back = b.cast(near, "f8")
    one, none = (b.constant("u4", k, x.width) for k in (1, 0))
    inexact = b.select(b.compare(Core.NE, back, x), one, none)
    magnitudes = [b.instruction(Core.ABS, [v]) for v in (back, x)]
    above = b.select(b.compare(Core.GT, magnitudes[0], magnitudes[1]), one, none)
    below = b.instruction(Core.SUB, (b.reinterpret(near, "u4"), above))
    odd = b.instruction(Core.OR, (below, inexact))
    return b.cast(b.reinterpret(odd, "f4"), "f2")


def _float_to_integer(b: Builder, x: Name, target: str) -> Name:
    if x.dtype == "f2":
        x = b.cast(x, "f4")
    if target == "u8":
        limit = b.constant(x.dtype, 2.0**63, x.width)
        large = b.compare(Core.GE, x, limit)
        low = b.select(large, b.instruction(Core.SUB, (x, limit)), x)
        sign, none = (b.constant("i8", k, x.width) for k in (-(2**63), 0))
        more = b.select(large, sign, none)
        return b.cast(b.instruction(Core.XOR, (_truncate(b, low, "i8"), more)), "u8")
    return b.cast(_truncate(b, x, "i8" if target in ("i8", "u4") else "i4"), target)


def _truncate(b: Builder, x: Name, target: str) -> Name:
    # A conversion out of range is undefined, where x86 gives the most negative integer. That is
    # also right for the one interval below -2**(bits-1) that the test leaves out.
    bits = 8 * item_size(target)
    limit = b.constant(x.dtype, 2.0 ** (bits - 1), x.width)
    inside = b.compare(Core.LT, b.instruction(Core.ABS, [x]), limit)
    if target == "i8" and _by_halves(b, x):
        name = _to_wide(b, b.cast(x, "f8") if x.dtype == "f4" else x)
    else:
        name = b.truncated(x, target, inside)
    lowest = b.constant(target, -(2 ** (bits - 1)), x.width)
    if x.width == 1:
        return b.select(inside, name, lowest)
    found = b.variable(target, x.width)
    b.set(found, name)
    with b.when(b.any_lane(b.instruction(Core.NOT, (inside,))), rare=True):
        b.set(found, b.select(inside, name, lowest))
    return b.get(found)


# See Note [Halves].


def _by_halves(b: Builder, x: Name) -> bool:
    """Whether floats and integers of 8 bytes are converted by halves."""
    return x.width > 1 and not b.machine.converts


def _of_wide(b: Builder, x: Name) -> Name:
    """An i8 or u8 as f8."""
    if not _by_halves(b, x):
        return b.cast(x, "f8")
    width, signed = x.width, x.dtype == "i8"

    def given(op: Core, name: Name, number: int) -> Name:
        return b.instruction(op, (name, b.constant("u8", number, width)))

    bits = b.reinterpret(x, "u8")
    low = given(Core.OR, given(Core.AND, bits, 0xFFFFFFFF), 0x433 << 52)
    high = given(Core.XOR, given(Core.LSHR, bits, 32), 0x453 << 52 | signed << 31)
    added = b.constant("f8", 2.0**84 + 2.0**52 + signed * 2.0**63, width)
    above = b.instruction(Core.SUB, (b.reinterpret(high, "f8"), added))
    return b.instruction(Core.ADD, (above, b.reinterpret(low, "f8")))


def _to_wide(b: Builder, x: Name) -> Name:
    """An f8 below 2**63 as i8; of another one, anything."""
    if not _by_halves(b, x):
        return b.cast(x, "i8")
    width = x.width
    whole = b.instruction(Core.TRUNC, (x,))
    scaled = b.instruction(Core.MUL, (whole, b.constant("f8", 2.0**-32, width)))
    high = b.instruction(Core.FLOOR, (scaled,))
    low = b.instruction(Core.FMA, (high, b.constant("f8", -(2.0**32), width), whole))
    above, below = (
        b.reinterpret(b.instruction(Core.ADD, (half, b.constant("f8", number, width))), "i8")
        for half, number in ((high, 1.5 * 2.0**52), (low, 2.0**52))
    )
    shifted = b.instruction(Core.SHL, (above, b.constant("i8", 32, width)))
    masked = b.instruction(Core.AND, (below, b.constant("i8", 0xFFFFFFFF, width)))
    return b.instruction(Core.OR, (shifted, masked))


# Note [Halves]
# AVX2 converts neither way between floats and integers of 8 bytes in vectors, and element by
# element that takes twice to three times as long. A half of 32 bits, as the last bits of an f8 of a
# fixed exponent (2**52, or 2**84 for the upper half), is a float without being converted: only the
# fixed numbers are taken off, and the one sum of both halves is rounded. The other way, the upper
# half is what is left of 2**-32 times the number rounded down, and a sum with 2**52, which is
# exact, moves the bits of a whole number to the end; 2**51 more does so for negative ones, too.
