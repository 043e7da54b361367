"""Scalar primitives as LLVM IR text: one node of an expression to one or a few instructions.

A `Writer` knows nothing of loops or memory. A value of a complex dtype is a pair of names.
No fast-math flag is ever written: every operation keeps its IEEE meaning.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

from npaccel.errors import InternalError
from npaccel.ir.scalar import Core, Expr, item_size

__all__ = ["Value", "Writer", "llvm_type"]

Value = str | tuple[str, str]

_FLOAT_TYPES = {"f2": "half", "f4": "float", "f8": "double"}
_FLOAT_SUFFIXES = {"f2": "f16", "f4": "f32", "f8": "f64"}
_PARTS = {"c8": "f4", "c16": "f8"}

_FLOAT_BINARY = {Core.ADD: "fadd", Core.SUB: "fsub", Core.MUL: "fmul", Core.DIV: "fdiv"}
_INTEGER_BINARY = {
    Core.ADD: "add",
    Core.SUB: "sub",
    Core.MUL: "mul",
    Core.AND: "and",
    Core.OR: "or",
    Core.XOR: "xor",
    Core.SHL: "shl",
    Core.LSHR: "lshr",
    Core.ASHR: "ashr",
}
# `roundeven`, not `rint`: the result must not depend on the thread's rounding mode.
_FLOAT_UNARY = {
    Core.SQRT: "sqrt",
    Core.FLOOR: "floor",
    Core.CEIL: "ceil",
    Core.TRUNC: "trunc",
    Core.RINT: "roundeven",
}
_FLOAT_COMPARE = {
    Core.EQ: "oeq",
    Core.NE: "une",
    Core.LT: "olt",
    Core.LE: "ole",
    Core.GT: "ogt",
    Core.GE: "oge",
}
_INTEGER_COMPARE = {
    Core.EQ: "eq",
    Core.NE: "ne",
    Core.LT: "lt",
    Core.LE: "le",
    Core.GT: "gt",
    Core.GE: "ge",
}


def llvm_type(dtype: str, width: int) -> str:
    """LLVM type of `width` lanes of `dtype` (not complex); the scalar type for width 1."""
    element = _element_type(dtype)
    return element if width == 1 else f"<{width} x {element}>"


def _element_type(dtype: str) -> str:
    if dtype == "b1":
        return "i1"
    if dtype[0] == "f":
        return _FLOAT_TYPES[dtype]
    if dtype[0] in "iu":
        return f"i{8 * item_size(dtype)}"
    raise InternalError(f"dtype {dtype} has no single LLVM type; it is written as its parts")


def _float_bits(dtype: str, value: float) -> str:
    if dtype == "f2":
        return f"0xH{struct.unpack('<H', _pack('<e', value))[0]:04X}"
    if dtype == "f4":  # LLVM writes a float as the double of the same value.
        value = struct.unpack("<f", _pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _pack(code: str, value: float) -> bytes:
    try:
        return struct.pack(code, value)
    except OverflowError:  # struct refuses what IEEE rounds to infinity
        return struct.pack(code, float("inf") if value > 0 else float("-inf"))


class Writer:
    """Writes instructions for vectors of `width` lanes into `lines`.

    Parameters
    ----------
    width : lanes; 1 writes plain scalar code.
    prefix : start of every name made, such as ``v`` for ``%v12``; unique within a function.

    Attributes
    ----------
    lines : instructions so far, without indentation.
    declarations : ``declare`` lines of the intrinsics used; the same for all writers of a module.
    """

    def __init__(self, width: int, prefix: str) -> None:
        self.width = width
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self._prefix = prefix
        self._count = 0

    def node(self, expr: Expr, operands: Sequence[Value]) -> Value:
        """Write `expr`, whose operands have the given values, and return its value.

        Leaves other than CONST are the caller's, as is a block for RARE (here a select).
        """
        special = _SPECIAL.get(expr.op)
        if special is not None:
            return special(self, expr, operands)
        names = [_single(v) for v in operands]
        if expr.op in _FLOAT_COMPARE:
            return self._comparison(expr, names)
        if expr.dtype[0] == "f":
            return self._float(expr, names)
        return self._integer(expr, names)

    def constant(self, dtype: str, value: bool | int | float) -> str:
        """Text of a constant (not complex) in every lane."""
        if dtype[0] == "f":
            text = _float_bits(dtype, float(value))
        elif dtype == "b1":
            text = "true" if value else "false"
        else:
            text = str(int(value))
        return text if self.width == 1 else f"splat ({_element_type(dtype)} {text})"

    # Building blocks.

    def _type(self, dtype: str) -> str:
        return llvm_type(dtype, self.width)

    def emit(self, text: str) -> str:
        """Write one instruction and return the name of its result."""
        name = f"%{self._prefix}{self._count}"
        self._count += 1
        self.lines.append(f"{name} = {text}")
        return name

    def _cast(self, instruction: str, name: str, source: str, target: str) -> str:
        return self.emit(f"{instruction} {self._type(source)} {name} to {self._type(target)}")

    def _two(self, instruction: str, dtype: str, x: str, y: str) -> str:
        return self.emit(f"{instruction} {self._type(dtype)} {x}, {y}")

    def _choose(self, mask: str, dtype: str, yes: str, no: str) -> str:
        kind = self._type(dtype)
        return self.emit(f"select {self._type('b1')} {mask}, {kind} {yes}, {kind} {no}")

    def _intrinsic(self, name: str, dtype: str, names: Sequence[str], flag: str = "") -> str:
        kind = self._type(dtype)
        suffix = _FLOAT_SUFFIXES.get(dtype) or _element_type(dtype)
        if self.width > 1:
            suffix = f"v{self.width}{suffix}"
        parameters = [kind] * len(names) + (["i1"] if flag else [])
        arguments = [f"{kind} {n}" for n in names] + ([f"i1 {flag}"] if flag else [])
        self.declarations.add(f"declare {kind} @llvm.{name}.{suffix}({', '.join(parameters)})")
        return self.emit(f"call {kind} @llvm.{name}.{suffix}({', '.join(arguments)})")

    # Floats.

    def _float(self, expr: Expr, names: list[str]) -> str:
        op, dtype = expr.op, expr.dtype
        if op in _FLOAT_BINARY:
            return self._two(_FLOAT_BINARY[op], dtype, *names)
        if op is Core.NEG:
            return self.emit(f"fneg {self._type(dtype)} {names[0]}")
        if op is Core.ABS:
            return self._intrinsic("fabs", dtype, names)
        if op is Core.COPYSIGN:
            return self._intrinsic("copysign", dtype, names)
        if op is Core.FMA:
            return self._through_f4("fma", dtype, names)
        if op in _FLOAT_UNARY:
            return self._through_f4(_FLOAT_UNARY[op], dtype, names)
        raise InternalError(f"{op} has no meaning for {dtype}")

    def _through_f4(self, name: str, dtype: str, names: list[str]) -> str:
        # Without f2 units these intrinsics become library calls; with f4 they never do.
        if dtype != "f2":
            return self._intrinsic(name, dtype, names)
        wide = [self._cast("fpext", n, "f2", "f4") for n in names]
        return self._cast("fptrunc", self._intrinsic(name, "f4", wide), "f4", "f2")

    # Integers and b1.

    def _integer(self, expr: Expr, names: list[str]) -> str:
        op, dtype = expr.op, expr.dtype
        if op in _INTEGER_BINARY:
            return self._two(_INTEGER_BINARY[op], dtype, *names)
        if op is Core.NEG:
            return self._two("sub", dtype, self.constant(dtype, 0), names[0])
        if op is Core.NOT:
            ones = self.constant(dtype, True if dtype == "b1" else -1)
            return self._two("xor", dtype, names[0], ones)
        if op is Core.POPCOUNT:
            return self._intrinsic("ctpop", dtype, names)
        if op is Core.CLZ:
            return self._intrinsic("ctlz", dtype, names, "false")
        if op is Core.MULHI:
            return self._multiply_high(dtype, *names)
        if op is Core.DIV:
            return self._quotient(dtype, *names)
        if op is Core.REM:
            return self._remainder(dtype, *names)
        raise InternalError(f"{op} has no meaning for {dtype}")

    def _quotient(self, dtype: str, x: str, y: str) -> str:
        size = item_size(dtype)
        sign = "s" if dtype[0] == "i" else "u"
        if size == 8 or self.width == 1:
            return self._two(f"{sign}div", dtype, x, y)
        # No vector unit divides integers. The quotient of floats twice as precise truncates to
        # the same integer: |x / y| lies at least 1 / |y| below the next one.
        real = "f8" if size == 4 else "f4"
        quotient = self._two(
            "fdiv",
            real,
            self._cast(f"{sign}itofp", x, dtype, real),
            self._cast(f"{sign}itofp", y, dtype, real),
        )
        if size == 4:
            return self._cast(f"fpto{sign}i", quotient, real, dtype)
        return self._cast("trunc", self._cast("fptosi", quotient, real, "i4"), "i4", dtype)

    def _remainder(self, dtype: str, x: str, y: str) -> str:
        if item_size(dtype) == 8 or self.width == 1:
            return self._two("srem" if dtype[0] == "i" else "urem", dtype, x, y)
        product = self._two("mul", dtype, self._quotient(dtype, x, y), y)
        return self._two("sub", dtype, x, product)

    def _multiply_high(self, dtype: str, x: str, y: str) -> str:
        if dtype == "u4":
            wide = self._two(
                "mul", "u8", self._cast("zext", x, "u4", "u8"), self._cast("zext", y, "u4", "u8")
            )
            high = self._two("lshr", "u8", wide, self.constant("u8", 32))
            return self._cast("trunc", high, "u8", "u4")
        if self.width == 1:
            left = self.emit(f"zext i64 {x} to i128")
            right = self.emit(f"zext i64 {y} to i128")
            high = self.emit(f"lshr i128 {self.emit(f'mul i128 {left}, {right}')}, 64")
            return self.emit(f"trunc i128 {high} to i64")
        # By halves: a vector of 128-bit integers would be taken apart lane by lane.
        low, half = self.constant("u8", 0xFFFFFFFF), self.constant("u8", 32)
        x0, x1 = self._two("and", "u8", x, low), self._two("lshr", "u8", x, half)
        y0, y1 = self._two("and", "u8", y, low), self._two("lshr", "u8", y, half)
        carry = self._two("lshr", "u8", self._two("mul", "u8", x0, y0), half)
        middle = self._two("add", "u8", self._two("mul", "u8", x1, y0), carry)
        other = self._two(
            "add", "u8", self._two("mul", "u8", x0, y1), self._two("and", "u8", middle, low)
        )
        high = self._two(
            "add", "u8", self._two("mul", "u8", x1, y1), self._two("lshr", "u8", middle, half)
        )
        return self._two("add", "u8", high, self._two("lshr", "u8", other, half))

    def _comparison(self, expr: Expr, names: list[str]) -> str:
        dtype = expr.args[0].dtype
        if dtype[0] == "f":
            return self._two(f"fcmp {_FLOAT_COMPARE[expr.op]}", dtype, *names)
        predicate = _INTEGER_COMPARE[expr.op]
        if predicate not in ("eq", "ne"):
            predicate = ("s" if dtype[0] == "i" else "u") + predicate
        return self._two(f"icmp {predicate}", dtype, *names)

    # Conversions, see Note [Casts] of ir/scalar.py.

    def convert(self, value: Value, source: str, target: str) -> Value:
        """Write NumPy's unsafe cast of `value` from dtype `source` to dtype `target`."""
        if source == target:
            return value
        if target[0] == "c":
            part = _PARTS[target]
            if isinstance(value, tuple):
                old = _PARTS[source]
                return (
                    self._convert_real(value[0], old, part),
                    self._convert_real(value[1], old, part),
                )
            return self._convert_real(value, source, part), self.constant(part, 0.0)
        if isinstance(value, tuple):
            part = _PARTS[source]
            if target == "b1":
                return self._two("or", "b1", *(self._convert_real(v, part, "b1") for v in value))
            return self._convert_real(value[0], part, target)
        return self._convert_real(value, source, target)

    def _convert_real(self, x: str, source: str, target: str) -> str:
        if source == target:
            return x
        if target == "b1":
            compare = "fcmp une" if source[0] == "f" else "icmp ne"
            return self._two(compare, source, x, self.constant(source, 0))
        if source[0] == "f":
            if target[0] == "f":
                return self._float_to_float(x, source, target)
            return self._float_to_integer(x, source, target)
        if target[0] == "f":
            return self._integer_to_float(x, source, target)
        if item_size(source) > item_size(target):
            return self._cast("trunc", x, source, target)
        if source != "b1" and item_size(source) == item_size(target):
            return x
        return self._cast("sext" if source[0] == "i" else "zext", x, source, target)

    def _integer_to_float(self, x: str, source: str, target: str) -> str:
        # An integer too large to be exact in f4 is infinite in f2, so f4 loses nothing.
        real = "f4" if target == "f2" else target
        name = self._cast("sitofp" if source[0] == "i" else "uitofp", x, source, real)
        return self._convert_real(name, real, target)

    def _float_to_float(self, x: str, source: str, target: str) -> str:
        if item_size(target) > item_size(source):
            return self._cast("fpext", x, source, target)
        if (source, target) != ("f8", "f2"):
            return self._cast("fptrunc", x, source, target)
        # Few machines narrow f8 to f2 at once. Through f4 rounded to odd the second rounding
        # is right: what was cut off stays visible in the last bit.
        near = self._cast("fptrunc", x, "f8", "f4")
        back = self._cast("fpext", near, "f4", "f8")
        inexact = self._two("fcmp one", "f8", back, x)
        magnitudes = [self._intrinsic("fabs", "f8", [v]) for v in (back, x)]
        above = self._two("fcmp ogt", "f8", *magnitudes)
        bits = self._cast("bitcast", near, "f4", "u4")
        below = self._two("sub", "u4", bits, self._cast("zext", above, "b1", "u4"))
        odd = self._two("or", "u4", below, self._cast("zext", inexact, "b1", "u4"))
        return self._cast("fptrunc", self._cast("bitcast", odd, "u4", "f4"), "f4", "f2")

    def _float_to_integer(self, x: str, source: str, target: str) -> str:
        if source == "f2":
            x, source = self._cast("fpext", x, "f2", "f4"), "f4"
        if target == "u8":
            limit = self.constant(source, 2.0**63)
            large = self._two("fcmp oge", source, x, limit)
            low = self._truncate(x, source, "i8")
            high = self._truncate(self._two("fsub", source, x, limit), source, "i8")
            flipped = self._two("xor", "i8", high, self.constant("i8", -(2**63)))
            return self._choose(large, "i8", flipped, low)
        through = "i8" if target in ("i8", "u4") else "i4"
        name = self._truncate(x, source, through)
        return self._convert_real(name, through, target)

    def _truncate(self, x: str, source: str, target: str) -> str:
        # fptosi is undefined out of range, where x86 gives the most negative integer. That is
        # also the right result for the one interval below -2**(bits-1) that the test leaves out.
        bits = 8 * item_size(target)
        size = self._intrinsic("fabs", source, [x])
        inside = self._two("fcmp olt", source, size, self.constant(source, 2.0 ** (bits - 1)))
        name = self._cast("fptosi", x, source, target)
        return self._choose(inside, target, name, self.constant(target, -(2 ** (bits - 1))))


def _single(value: Value) -> str:
    if isinstance(value, tuple):
        raise InternalError("a complex value reached a primitive of real operands")
    return value


def _write_constant(writer: Writer, expr: Expr, operands: Sequence[Value]) -> Value:
    value = expr.attr
    assert value is not None
    if isinstance(value, complex):
        part = _PARTS[expr.dtype]
        return writer.constant(part, value.real), writer.constant(part, value.imag)
    return writer.constant(expr.dtype, value)


def _write_choice(writer: Writer, expr: Expr, mask: Value, yes: Value, no: Value) -> Value:
    flag = _single(mask)
    if isinstance(yes, tuple) and isinstance(no, tuple):
        part = _PARTS[expr.dtype]
        pairs = zip(yes, no, strict=True)
        re, im = (writer._choose(flag, part, y, n) for y, n in pairs)
        return re, im
    return writer._choose(flag, expr.dtype, _single(yes), _single(no))


def _write_select(writer: Writer, expr: Expr, operands: Sequence[Value]) -> Value:
    return _write_choice(writer, expr, *operands)


def _write_rare(writer: Writer, expr: Expr, operands: Sequence[Value]) -> Value:
    mask, cheap, exact = operands
    return _write_choice(writer, expr, mask, exact, cheap)


def _write_convert(writer: Writer, expr: Expr, operands: Sequence[Value]) -> Value:
    return writer.convert(operands[0], expr.args[0].dtype, expr.dtype)


def _write_bitcast(writer: Writer, expr: Expr, operands: Sequence[Value]) -> Value:
    source, name = expr.args[0].dtype, _single(operands[0])
    if (source[0] == "f") == (expr.dtype[0] == "f"):
        return name  # LLVM's integers have no sign
    return writer._cast("bitcast", name, source, expr.dtype)


def _write_complex(writer: Writer, expr: Expr, operands: Sequence[Value]) -> Value:
    return _single(operands[0]), _single(operands[1])


def _write_part(writer: Writer, expr: Expr, operands: Sequence[Value]) -> Value:
    pair = operands[0]
    if not isinstance(pair, tuple):
        raise InternalError(f"{expr.op} of a value that is not complex")
    return pair[0] if expr.op is Core.REAL else pair[1]


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
