"""f2 where there is no arithmetic of its own: f4 that has f2's values, and its bits in memory."""

from __future__ import annotations

from npaccel.backends.emit.builder import Builder, Name
from npaccel.ir.scalar import Core

__all__ = ["FUNCTIONS"]


class _Bits:
    """u4 and f4 of one width."""

    def __init__(self, b: Builder, width: int) -> None:
        self.b, self.width = b, width

    def u(self, value: int) -> Name:
        return self.b.constant("u4", value, self.width)

    def of(self, op: Core, x: Name, y: Name | int) -> Name:
        return self.b.instruction(op, (x, y if isinstance(y, Name) else self.u(y)))

    def either(self, op: Core, x: Name, limit: int, yes: Name, no: Name) -> Name:
        """`yes` where x compares so with the limit."""
        return self.b.select(self.b.compare(op, x, self.u(limit)), yes, no)

    def float(self, value: float) -> Name:
        return self.b.constant("f4", value, self.width)


def load_f2(b: Builder, x: Name) -> Name:
    """The f4 of an f2 that is given by its bits (u2); exact."""
    k = _Bits(b, x.width)
    h = b.cast(x, "u4")
    m, s = k.of(Core.AND, h, 0x7FFF), k.of(Core.SHL, k.of(Core.AND, h, 0x8000), 16)
    tiny = b.instruction(Core.MUL, (b.cast(m, "f4"), k.float(2.0**-24)))
    bias = k.either(Core.GE, m, 0x7C00, k.u(224 << 23), k.u(112 << 23))
    a = k.of(Core.ADD, k.of(Core.SHL, m, 13), bias)
    r = k.either(Core.LT, m, 0x0400, b.reinterpret(tiny, "u4"), a)
    return b.reinterpret(k.of(Core.OR, r, s), "f4")


def bits_f2(b: Builder, x: Name) -> Name:
    """The inverse, of an f4 that has f2's values."""
    k = _Bits(b, x.width)
    bits = b.reinterpret(x, "u4")
    a, s = k.of(Core.AND, bits, 0x7FFFFFFF), k.of(Core.AND, k.of(Core.LSHR, bits, 16), 0x8000)
    size = b.instruction(Core.MUL, (b.reinterpret(a, "f4"), k.float(2.0**24)))
    whole = b.instruction(Core.ADD, (size, k.float(8388608.0)))
    scaled = k.of(Core.AND, b.reinterpret(whole, "u4"), 0x007FFFFF)
    payload = k.of(Core.OR, k.of(Core.AND, k.of(Core.LSHR, a, 13), 0x3FF), 0x7C00)
    # A NaN must not become infinite.
    lost = k.either(Core.EQ, payload, 0x7C00, k.u(0x7E00), payload)
    nan = k.either(Core.GT, a, 0x7F800000, lost, payload)
    normal = k.of(Core.SUB, k.of(Core.LSHR, a, 13), 112 << 10)
    h = k.either(Core.LT, a, 0x38800000, scaled, normal)
    h = k.either(Core.GE, a, 0x7F800000, nan, h)
    return b.cast(k.of(Core.OR, h, s), "u2")


def round_f2(b: Builder, x: Name) -> Name:
    """The nearest value that f2 has, ties to even."""
    k = _Bits(b, x.width)
    bits = b.reinterpret(x, "u4")
    a, s = k.of(Core.AND, bits, 0x7FFFFFFF), k.of(Core.AND, bits, 0x80000000)
    odd = k.of(Core.AND, k.of(Core.LSHR, a, 13), 1)
    near = k.of(Core.AND, k.of(Core.ADD, k.of(Core.ADD, a, 0xFFF), odd), 0xFFFFE000)
    near = k.either(Core.GE, near, 0x47800000, k.u(0x7F800000), near)
    # Below the smallest normal number adding 0.75, whose last bit is 2**-24, rounds to such.
    size = b.instruction(Core.ADD, (b.reinterpret(a, "f4"), k.float(0.75)))
    tiny = b.reinterpret(b.instruction(Core.SUB, (size, k.float(0.75))), "u4")
    r = k.either(Core.LT, a, 0x38800000, tiny, near)
    r = k.either(Core.GT, a, 0x7F800000, a, r)
    return b.reinterpret(k.of(Core.OR, r, s), "f4")


# Name to dtypes of operand and result, and what writes it.
FUNCTIONS = {
    "load_f2": ("u2", "f4", load_f2),
    "bits_f2": ("f4", "u2", bits_f2),
    "round_f2": ("f4", "f4", round_f2),
}
