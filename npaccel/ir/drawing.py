"""Random numbers as functions of their place in a stream: rows of operations of our own.

No name is one of NumPy's. The ufuncs (native/loops/philox.c) have loops of the same operations in
the same order, each rounded once, so results have the same bits in every tier and at every size.
"""

from __future__ import annotations

from npaccel.ir import coefficients as c
from npaccel.ir.exponentials import LN2_HIGH, LN2_LOW
from npaccel.ir.logarithms import split
from npaccel.ir.operation import Op
from npaccel.ir.precision import horner, root
from npaccel.ir.scalar import Core, Expr

__all__ = ["DRAWING", "KEY_STEPS", "MULTIPLIERS", "ROUNDS"]

# Philox 4x32-10: J. K. Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC'11).
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10

LOW = 0xFFFFFFFF
ONE_BITS = 0x3FF0000000000000
SIGN = 1 << 63
# Beyond, the polynomial of w does not hold: one number in 290.
NEAR, FAR = 5.0, 16.0


def _philox(place: Expr, high: Expr, key: Expr) -> Expr:
    """Word number `place`: half of the block of 128 bits with the counter (place / 2, high).

    Numbers of 32 bits lie in the low halves of u8, where one instruction has both halves of a
    product. What is in the high halves does not matter before the end.
    """
    counter = place.binary(Core.LSHR, 1)
    a, b = counter, counter.binary(Core.LSHR, 32)
    d, e = high, high.binary(Core.LSHR, 32)
    keys = [key, key.binary(Core.LSHR, 32)]
    for _ in range(ROUNDS):
        first = (a & LOW) * MULTIPLIERS[0]
        second = (d & LOW) * MULTIPLIERS[1]
        a, b = second.binary(Core.LSHR, 32) ^ keys[0] ^ b, second
        d, e = first.binary(Core.LSHR, 32) ^ keys[1] ^ e, first
        keys = [key + step for key, step in zip(keys, KEY_STEPS, strict=True)]
    odd = (place & 1).ne(0)
    low, top = odd.select(d, a), odd.select(e, b)
    return (low & LOW) | top.binary(Core.SHL, 32)


def _philox_half(place: Expr, high: Expr, key: Expr) -> Expr:
    """Half of a word: number `place` of 32 bits."""
    word = _philox(place.binary(Core.LSHR, 1), high, key)
    return (place & 1).ne(0).select(word.binary(Core.LSHR, 32), word & LOW)


def _unit(bits: Expr) -> Expr:
    """The highest 53 bits as a number of [0, 1), as NumPy has it."""
    return bits.binary(Core.LSHR, 11).convert("f8") * 2.0**-53


def _single(half: Expr) -> Expr:
    """The same of 24 of 32 bits."""
    return half.binary(Core.LSHR, 8).convert("f4") * 2.0**-24


def _open_unit(bits: Expr) -> Expr:
    """(k + 1/2) / 2**52 of 52 of the bits, exactly; 2**-53 at least, less than 1."""
    k = bits.binary(Core.LSHR, 11) & (2**52 - 1)
    return (k | ONE_BITS).bitcast("f8") - (1.0 - 2.0**-53)


def _minus_log(x: Expr) -> Expr:
    """-log(x) of a normal x, not larger than 1."""
    k, m = split(x)
    f = m - 1.0
    s = f / (f + 2.0)
    z = s * s
    square = f * f * 0.5
    tail = s * z.fma(horner(z, c.LOG_F8), square)
    return (square - k.fma(LN2_LOW, tail)) - k.fma(LN2_HIGH, f)


def _normal(bits: Expr) -> Expr:
    """The normal number whose chance to be exceeded in size is what 52 of the bits say."""
    x = 1.0 - _open_unit(bits)
    w = _minus_log((-x).fma(x, 1.0))
    s = root(w)
    far = horner(s - 3.125, c.NORMAL_FAR)
    farther = horner(s - 5.0, c.NORMAL_FARTHER)
    near = horner(w - 2.5, c.NORMAL)
    size = x * (w > NEAR).rare((w > FAR).select(farther, far), near)
    return (size.bitcast("u8") | (bits & SIGN)).bitcast("f8")


def _exponential(bits: Expr) -> Expr:
    return _minus_log(_open_unit(bits))


def _quiet(_operands: tuple[Expr, ...], _results: tuple[Expr, ...]) -> None:
    return None


DRAWING = (
    Op("philox", 3, 1, "u", _philox, guard=_quiet),
    Op("philox_half", 3, 1, "u", _philox_half, guard=_quiet),
    Op("unit_of", 1, 1, "u", _unit, guard=_quiet),
    Op("single_of", 1, 1, "u", _single, guard=_quiet),
    Op("normal_of", 1, 1, "u", _normal, guard=_quiet),
    Op("exponential_of", 1, 1, "u", _exponential, guard=_quiet),
    # A word as a fraction of a number: below it, all alike but for 2**-64.
    Op("fraction_of", 2, 1, "u", lambda x, y: x.binary(Core.MULHI, y), guard=_quiet),
)
