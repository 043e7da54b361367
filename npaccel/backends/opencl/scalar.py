"""Scalar primitives as OpenCL C: one node of an expression to one or a few declarations.

A `Writer` knows nothing of loops or memory. A value is a tuple of names, two if it is complex.
Integers are kept unsigned, whose arithmetic wraps, and read as signed where it matters. f2 is
kept as float and rounded after each operation: most devices have no arithmetic of its own.
A b1 is a `Mask`: OpenCL compares vectors into integers of the operands' size.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from npaccel.errors import InternalError
from npaccel.ir.scalar import Core, Expr, item_size

__all__ = ["SIGNED", "WIDEST", "Mask", "Value", "Writer", "c_type", "carried_size"]

Value = tuple[str, ...]
# OpenCL has no vectors of more lanes.
WIDEST = 16

_FLOATS = {"f2": "float", "f4": "float", "f8": "double"}
_UNSIGNED = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}
SIGNED = {1: "char", 2: "short", 4: "int", 8: "long"}
_PARTS = {"c8": "f4", "c16": "f8"}
_FLOAT_BINARY = {Core.ADD: "+", Core.SUB: "-", Core.MUL: "*"}
_INTEGER_BINARY = {Core.ADD: "+", Core.SUB: "-", Core.MUL: "*"} | {
    Core.AND: "&",
    Core.OR: "|",
    Core.XOR: "^",
    Core.SHL: "<<",
    Core.LSHR: ">>",
}
_BY_LANE = {Core.POPCOUNT: "POPCOUNT", Core.CLZ: "clz", Core.MULHI: "mul_hi"}
_EXACT = {Core.FLOOR: "FLOOR", Core.CEIL: "CEIL", Core.TRUNC: "TRUNC", Core.RINT: "RINT"}
_COMPARE = {
    Core.EQ: "==",
    Core.NE: "!=",
    Core.LT: "<",
    Core.LE: "<=",
    Core.GT: ">",
    Core.GE: ">=",
}


class Mask(str):
    """Name of a b1 value. size: bytes of its elements' integers; 0 for a single int, 0 or 1."""

    __slots__ = ("size",)
    size: int

    def __new__(cls, name: str, size: int) -> Mask:
        mask = super().__new__(cls, name)
        mask.size = size
        return mask


def carried_size(dtype: str) -> int:
    """Bytes of an element of `dtype` (neither complex nor b1) in a variable."""
    return 4 if dtype == "f2" else item_size(dtype)


def c_type(dtype: str, width: int) -> str:
    """OpenCL C type of `width` lanes of `dtype` (not complex) in a variable; b1 as its bytes."""
    if dtype == "b1":
        return "int" if width == 1 else f"char{width}"
    name = _FLOATS[dtype] if dtype[0] == "f" else _UNSIGNED[item_size(dtype)]
    return name if width == 1 else f"{name}{width}"


def _float_text(dtype: str, value: float) -> str:
    if dtype == "f8":
        bits = struct.unpack("<Q", struct.pack("<d", value))[0]
        return f"AS(double, 0x{bits:016X}UL)"
    if dtype == "f2":
        value = struct.unpack("<e", _pack("<e", value))[0]
    bits = struct.unpack("<I", _pack("<f", value))[0]
    return f"AS(float, 0x{bits:08X}U)"


def _pack(code: str, value: float) -> bytes:
    try:
        return struct.pack(code, value)
    except OverflowError:  # struct refuses what IEEE rounds to infinity
        return struct.pack(code, float("inf") if value > 0 else float("-inf"))


class Writer:
    """Writes declarations for vectors of `width` lanes through `let`.

    Parameters
    ----------
    width : lanes; 1 writes plain scalar code.
    let : (C type, expression) -> the name of a new constant.
    by_double : whether quotients and roots of f4 go by f8; see Note [Quotients by double].
    """

    def __init__(
        self, width: int, let: Callable[[str, str], str], *, by_double: bool = False
    ) -> None:
        self.width = width
        self.by_double = by_double
        self._let = let

    def node(self, expr: Expr, operands: Sequence[Value]) -> Value:
        """Write `expr`, whose operands have the given values, and return its value.

        Leaves other than CONST are the caller's, as is a block for RARE (here a select).
        """
        special = _SPECIAL.get(expr.op)
        if special is not None:
            return special(self, expr, operands)
        names = [single(v) for v in operands]
        if expr.op in _COMPARE:
            return (self._comparison(expr, names),)
        if expr.dtype == "b1":
            return (self._logic(expr, names),)
        if expr.dtype[0] == "f":
            return (self._float(expr, names),)
        return (self._integer(expr, names),)

    def constant(self, dtype: str, value: bool | int | float) -> str:
        """Name of a constant (not complex) in every lane."""
        return (
            self.mask(self.literal(dtype, value), 1)
            if dtype == "b1"
            else self._new(dtype, self.literal(dtype, value))
        )

    def literal(self, dtype: str, value: bool | int | float) -> str:
        """Text of a constant (not complex) in every lane."""
        kind = c_type(dtype, self.width)
        if dtype[0] == "f":
            return f"(({kind})({_float_text(dtype, float(value))}))"
        if dtype == "b1":
            return f"(({kind})({-int(bool(value)) if self.width > 1 else int(bool(value))}))"
        return f"(({kind})({int(value) % (1 << 8 * item_size(dtype))}UL))"

    # Building blocks.

    def let(self, kind: str, text: str) -> str:
        """A new constant of C type `kind`."""
        return self._let(kind, text)

    def _new(self, dtype: str, text: str) -> str:
        if dtype[0] in "iu" and self.width == 1 and item_size(dtype) < 4:
            text = f"({c_type(dtype, 1)})({text})"  # C computes small integers as int
        return self._let(c_type(dtype, self.width), text)

    def mask(self, text: str, size: int) -> Mask:
        if self.width == 1:
            return Mask(self._let("int", text), 0)
        return Mask(self._let(f"{SIGNED[size]}{self.width}", text), size)

    def mask_as(self, mask: str, size: int) -> Mask:
        """The same b1 with elements of `size` bytes, as what it chooses between has."""
        assert isinstance(mask, Mask)
        if self.width == 1 or mask.size == size:
            return mask
        return self.mask(f"CONVERT({SIGNED[size]}{self.width}, {mask})", size)

    def wide(self, name: str, kind: str) -> str:
        """Text of `name` with every lane converted to the C type of base `kind`."""
        return f"(({kind}){name})" if self.width == 1 else f"CONVERT({kind}{self.width}, {name})"

    def choose(self, mask: str, dtype: str, yes: str, no: str) -> str:
        """`yes` where the mask is true, else `no`."""
        if dtype == "b1":
            size = max(self._size(m) for m in (mask, yes, no))
            m, y, n = (self.mask_as(x, size) for x in (mask, yes, no))
            return self.mask(f"({m} & {y}) | (~{m} & {n})" if size else f"{m} ? {y} : {n}", size)
        m = self.mask_as(mask, carried_size(dtype))
        return self._let(c_type(dtype, self.width), f"{m} ? {yes} : {no}")

    @staticmethod
    def _size(mask: str) -> int:
        assert isinstance(mask, Mask)
        return mask.size

    def signed(self, dtype: str, name: str) -> str:
        kind = SIGNED[item_size(dtype)]
        return f"AS({kind}{self.width if self.width > 1 else ''}, {name})"

    def _unsigned(self, dtype: str, name: str) -> str:
        kind = _UNSIGNED[item_size(dtype)]
        return f"AS({kind}{self.width if self.width > 1 else ''}, {name})"

    def _rounded(self, dtype: str, text: str) -> str:
        """A new float; f2 is rounded to what f2 has."""
        if dtype != "f2":
            return self._new(dtype, text)
        return self._new(dtype, f"round_f2_{self.width}({text})")

    # Floats.

    def _float(self, expr: Expr, names: list[str]) -> str:
        op, dtype = expr.op, expr.dtype
        if op is Core.DIV:
            return self._rounded(dtype, self._float_quotient(dtype, *names))
        if op in _FLOAT_BINARY:
            return self._rounded(dtype, f"{names[0]} {_FLOAT_BINARY[op]} {names[1]}")
        if op is Core.NEG:
            return self._new(dtype, f"-{names[0]}")
        if op is Core.ABS:
            return self._new(dtype, self._call("ABS", dtype, *names))
        if op is Core.COPYSIGN:
            return self._copysign(dtype, *names)
        if op is Core.FMA:
            return self._rounded(dtype, self._call("FMA", dtype, *names))
        if op is Core.SQRT:
            return self._rounded(dtype, self._root(dtype, *names))
        if op in _EXACT:
            return self._new(dtype, self._call(_EXACT[op], dtype, *names))
        raise InternalError(f"{op} has no meaning for {dtype}")

    def _float_quotient(self, dtype: str, x: str, y: str) -> str:
        """Text of x / y, of f2 before it is rounded to what f2 has."""
        if dtype == "f8" or not self.by_double:
            return f"{x} / {y}"
        x, y = (self._new("f8", self.wide(name, "double")) for name in (x, y))
        return self.wide(self._new("f8", f"{x} / {y}"), "float")

    def _root(self, dtype: str, x: str) -> str:
        """Text of the square root, of f2 before it is rounded to what f2 has."""
        if dtype == "f8" or not self.by_double:
            return self._call("SQRT", dtype, x)
        wide = self._new("f8", self.wide(x, "double"))
        return self.wide(self._new("f8", self._call("SQRT", "f8", wide)), "float")

    def _call(self, name: str, dtype: str, *names: str) -> str:
        """Text of one of code.py's functions of floats."""
        return f"{name}({c_type(dtype, self.width)}, {', '.join(names)})"

    def _copysign(self, dtype: str, x: str, y: str) -> str:
        bits = f"u{carried_size(dtype)}"
        sign = self.literal(bits, 1 << 8 * carried_size(dtype) - 1)
        kind = c_type(bits, self.width)
        both = f"(AS({kind}, {x}) & ~{sign}) | (AS({kind}, {y}) & {sign})"
        return self._new(dtype, f"AS({c_type(dtype, self.width)}, {both})")

    # Integers and b1.

    def _logic(self, expr: Expr, names: list[str]) -> str:
        size = max(self._size(name) for name in names)
        masks = [self.mask_as(name, size) for name in names]
        if expr.op is Core.NOT:
            return self.mask(f"~{masks[0]}" if size else f"!{masks[0]}", size)
        if expr.op not in (Core.AND, Core.OR, Core.XOR):
            raise InternalError(f"{expr.op} has no meaning for b1")
        return self.mask(f"{masks[0]} {_INTEGER_BINARY[expr.op]} {masks[1]}", size)

    def _integer(self, expr: Expr, names: list[str]) -> str:
        op, dtype = expr.op, expr.dtype
        if self.width == 1 and item_size(dtype) < 4 and op in _INTEGER_BINARY:
            # Of small integers C multiplies signed ones, whose overflow has no meaning.
            names = [f"(uint){name}" for name in names]
        if op in _INTEGER_BINARY:
            return self._new(dtype, f"{names[0]} {_INTEGER_BINARY[op]} {names[1]}")
        if op is Core.ASHR:
            shifted = f"{self.signed(dtype, names[0])} >> {self.signed(dtype, names[1])}"
            return self._from_signed(dtype, shifted)
        if op is Core.NEG:
            return self._new(dtype, f"{self.literal(dtype, 0)} - {names[0]}")
        if op is Core.NOT:
            return self._new(dtype, f"~{names[0]}")
        if op in _BY_LANE:
            return self._new(dtype, self._lanes(_BY_LANE[op], dtype, names))
        if op is Core.DIV:
            return self._quotient(dtype, *names)
        if op is Core.REM:
            return self._remainder(dtype, *names)
        raise InternalError(f"{op} has no meaning for {dtype}")

    def _quotient(self, dtype: str, x: str, y: str) -> str:
        if self.width == 1 or item_size(dtype) == 8:
            return self._divided("/", dtype, x, y)
        # No vector unit divides integers, but one divides floats twice as precise, whose quotient
        # truncates to the same integer: |x / y| lies at least 1 / |y| below the next one.
        real = "f8" if item_size(dtype) == 4 else "f4"
        parts = [self.signed(dtype, name) if dtype[0] == "i" else name for name in (x, y)]
        floats = [self._new(real, self.wide(part, _FLOATS[real])) for part in parts]
        quotient = self._new(real, self._float_quotient(real, *floats))
        if dtype == "u4":
            return self._new(dtype, self.wide(quotient, "uint"))
        whole = self._new("i4", self._unsigned("i4", self.wide(quotient, "int")))
        return self.convert_real(whole, "i4", dtype)

    def _remainder(self, dtype: str, x: str, y: str) -> str:
        if self.width == 1 or item_size(dtype) == 8:
            return self._divided("%", dtype, x, y)
        return self._new(dtype, f"{x} - {self._quotient(dtype, x, y)} * {y}")

    def _divided(self, sign: str, dtype: str, x: str, y: str) -> str:
        if dtype[0] == "u":
            return self._new(dtype, f"{x} {sign} {y}")
        parts = [self.signed(dtype, name) for name in (x, y)]
        return self._from_signed(dtype, f" {sign} ".join(parts))

    def _lanes(self, function: str, dtype: str, names: Sequence[str]) -> str:
        """Text of a function of single elements, called for each lane."""
        if self.width == 1:
            return f"{function}({', '.join(names)})"
        lanes = (", ".join(f"{name}.s{lane:x}" for name in names) for lane in range(self.width))
        return f"({c_type(dtype, self.width)})({', '.join(f'{function}({x})' for x in lanes)})"

    def _from_signed(self, dtype: str, text: str) -> str:
        if self.width == 1:
            return self._new(dtype, f"({c_type(dtype, 1)})({text})")
        return self._new(dtype, self._unsigned(dtype, text))

    def _comparison(self, expr: Expr, names: list[str]) -> Mask:
        dtype = expr.args[0].dtype
        if dtype == "b1":
            return self._compare_masks(expr.op, names)
        if dtype[0] == "i" and expr.op not in (Core.EQ, Core.NE):
            names = [self.signed(dtype, name) for name in names]
        return self.mask(f"{names[0]} {_COMPARE[expr.op]} {names[1]}", carried_size(dtype))

    def _compare_masks(self, op: Core, names: list[str]) -> Mask:
        size = max(self._size(name) for name in names)
        x, y = (self.mask_as(name, size) for name in names)
        if not size:
            return self.mask(f"{x} {_COMPARE[op]} {y}", 0)
        text = {
            Core.EQ: f"~({x} ^ {y})",
            Core.NE: f"{x} ^ {y}",
            Core.LT: f"~{x} & {y}",
            Core.LE: f"~{x} | {y}",
            Core.GT: f"{x} & ~{y}",
            Core.GE: f"{x} | ~{y}",
        }[op]
        return self.mask(text, size)

    # Conversions, see Note [Casts] of ir/scalar.py.

    def convert(self, value: Value, source: str, target: str) -> Value:
        """Write NumPy's unsafe cast of `value` from dtype `source` to dtype `target`."""
        if source == target:
            return value
        if target[0] == "c":
            part = _PARTS[target]
            if len(value) == 2:
                return tuple(self.convert_real(v, _PARTS[source], part) for v in value)
            return self.convert_real(value[0], source, part), self.constant(part, 0.0)
        if len(value) == 2:
            part = _PARTS[source]
            if target == "b1":
                x, y = (self.convert_real(v, part, "b1") for v in value)
                return (self.mask(f"{x} | {y}", carried_size(part)),)
            return (self.convert_real(value[0], part, target),)
        return (self.convert_real(value[0], source, target),)

    def convert_real(self, x: str, source: str, target: str) -> str:
        """`convert` of one part."""
        if source == target:
            return x
        if target == "b1":
            return self.mask(f"{x} != {self.literal(source, 0)}", carried_size(source))
        if source == "b1":
            ones, zeros = self.literal(target, 1), self.literal(target, 0)
            return self.choose(x, target, ones, zeros)
        if source[0] == "f":
            if target[0] == "f":
                return self._float_to_float(x, source, target)
            return self._float_to_integer(x, source, target)
        signed = self.signed(source, x) if source[0] == "i" else x
        if target[0] == "f":
            # An integer too large to be exact in f4 is infinite in f2, so f4 loses nothing.
            return self._rounded(target, self.wide(signed, _FLOATS[target]))
        if item_size(source) == item_size(target):
            return x
        if item_size(source) > item_size(target) or source[0] == "u":
            return self._new(target, self.wide(x, _UNSIGNED[item_size(target)]))
        wide = self.wide(signed, SIGNED[item_size(target)])
        return self._new(target, self._unsigned(target, wide))

    def _float_to_float(self, x: str, source: str, target: str) -> str:
        if (source, target) == ("f2", "f4"):
            return x
        if (source, target) == ("f4", "f2"):
            return self._rounded("f2", x)
        if target != "f2":
            return self._new(target, self.wide(x, _FLOATS[target]))
        # Through f4 rounded to odd the second rounding is right: what was cut off stays visible
        # in the last bit.
        width = self.width
        near = self._new("f4", self.wide(x, "float"))
        back = self._new("f8", self.wide(near, "double"))
        one, none = (Writer(width, self._let).literal("u4", k) for k in (1, 0))
        inexact = self.mask_as(self.mask(f"({back} < {x}) | ({back} > {x})", 8), 4)
        larger = " > ".join(self._call("ABS", "f8", name) for name in (back, x))
        above = self.mask_as(self.mask(larger, 8), 4)
        below = self._new("u4", f"{self._unsigned('f4', near)} - ({above} ? {one} : {none})")
        odd = self._new("u4", f"{below} | ({inexact} ? {one} : {none})")
        return self._rounded("f2", self._as_float("f4", odd))

    def _as_float(self, dtype: str, name: str) -> str:
        return f"AS({c_type(dtype, self.width)}, {name})"

    def _float_to_integer(self, x: str, source: str, target: str) -> str:
        source = "f4" if source == "f2" else source
        if target == "u8":
            limit = self.literal(source, 2.0**63)
            large = self.mask(f"{x} >= {limit}", carried_size(source))
            low = self._truncate(x, source, "i8")
            high = self._truncate(self._new(source, f"{x} - {limit}"), source, "i8")
            flipped = self._new("u8", f"{high} ^ {self.literal('u8', 1 << 63)}")
            return self.choose(large, "u8", flipped, low)
        through = "i8" if target in ("i8", "u4") else "i4"
        name = self._truncate(x, source, through)
        return self.convert_real(name, through, target)

    def _truncate(self, x: str, source: str, target: str) -> str:
        # Out of range the conversion is undefined, where x86 gives the most negative integer.
        # That is also right for the one interval below -2**(bits-1) that the test leaves out.
        bits = 8 * item_size(target)
        inside = self.mask(
            f"{self._call('ABS', source, x)} < {self.literal(source, 2.0 ** (bits - 1))}",
            carried_size(source),
        )
        kept = self.choose(inside, source, x, self.literal(source, 0))
        wide = self.wide(kept, SIGNED[item_size(target)])
        name = self._new(target, self._unsigned(target, wide))
        return self.choose(inside, target, name, self.literal(target, 1 << (bits - 1)))

    def bitcast(self, x: str, source: str, target: str) -> str:
        """The same bits as another dtype of that size."""
        if "f2" in (source, target):
            if source == "f2":
                return self._new(target, f"bits_f2_{self.width}({x})")
            return self._new(target, f"load_f2_{self.width}({x})")
        if (source[0] == "f") == (target[0] == "f"):
            return x
        return self._new(target, f"AS({c_type(target, self.width)}, {x})")


def single(value: Value) -> str:
    """The name of a value that is not complex."""
    if len(value) != 1:
        raise InternalError("a complex value reached a primitive of real operands")
    return value[0]


def _write_constant(writer: Writer, expr: Expr, operands: Sequence[Value]) -> Value:
    value = expr.attr
    assert value is not None
    if isinstance(value, complex):
        part = _PARTS[expr.dtype]
        return writer.constant(part, value.real), writer.constant(part, value.imag)
    return (writer.constant(expr.dtype, value),)


def _write_select(writer: Writer, expr: Expr, operands: Sequence[Value]) -> Value:
    mask, yes, no = operands
    part = _PARTS.get(expr.dtype, expr.dtype)
    return tuple(writer.choose(single(mask), part, y, n) for y, n in zip(yes, no, strict=True))


def _write_rare(writer: Writer, expr: Expr, operands: Sequence[Value]) -> Value:
    mask, cheap, exact = operands
    return _write_select(writer, expr, (mask, exact, cheap))


def _write_convert(writer: Writer, expr: Expr, operands: Sequence[Value]) -> Value:
    return writer.convert(operands[0], expr.args[0].dtype, expr.dtype)


def _write_bitcast(writer: Writer, expr: Expr, operands: Sequence[Value]) -> Value:
    return (writer.bitcast(single(operands[0]), expr.args[0].dtype, expr.dtype),)


def _write_complex(writer: Writer, expr: Expr, operands: Sequence[Value]) -> Value:
    return single(operands[0]), single(operands[1])


def _write_part(writer: Writer, expr: Expr, operands: Sequence[Value]) -> Value:
    pair = operands[0]
    if len(pair) != 2:
        raise InternalError(f"{expr.op} of a value that is not complex")
    return (pair[0] if expr.op is Core.REAL else pair[1],)


_SPECIAL: dict[Core, Callable[[Writer, Expr, Sequence[Value]], Value]] = {
    Core.CONST: _write_constant,
    Core.SELECT: _write_select,
    Core.RARE: _write_rare,
    Core.CONVERT: _write_convert,
    Core.BITCAST: _write_bitcast,
    Core.COMPLEX: _write_complex,
    Core.REAL: _write_part,
    Core.IMAG: _write_part,
}


# Note [Quotients by double]
# OpenCL lets a device err by 2.5 units in the last place in quotients of floats and by 3 in square
# roots, unless it says that it rounds them correctly; those of doubles are always right. A double
# has 53 >= 2 * 24 + 2 bits, so that a quotient or root which is rounded to a double and then to a
# float is the float nearest to the true one, subnormal ones included: the first rounding never
# puts it in the middle between two floats (Figueroa, "When is double rounding innocuous?", 1995).
