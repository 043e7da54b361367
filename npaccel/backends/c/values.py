"""Values in C and in OpenCL C: types, constants, arithmetic, lanes.

Integers are kept unsigned, whose arithmetic wraps, and read as signed where it matters. f2 is kept
as float and rounded after each operation. A b1 is an integer, 0 or 1; of vectors it is integers of
the size of what was compared, 0 or -1.
"""

from __future__ import annotations

import math
import struct
from abc import abstractmethod
from collections.abc import Sequence

from npaccel.backends.emit.builder import Builder, Name, pack_float
from npaccel.ir.scalar import Core, item_size

__all__ = ["SIGNED", "CValues", "c_type", "memory_type"]

SIGNED = {1: "char", 2: "short", 4: "int", 8: "long"}
_UNSIGNED = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}
_FLOATS = {"f2": "float", "f4": "float", "f8": "double"}
_OPERATORS = {
    Core.ADD: "+",
    Core.SUB: "-",
    Core.MUL: "*",
    Core.DIV: "/",
    Core.REM: "%",
    Core.AND: "&",
    Core.OR: "|",
    Core.XOR: "^",
    Core.SHL: "<<",
    Core.LSHR: ">>",
    Core.ASHR: ">>",
}
_COMPARE = {
    Core.EQ: "==",
    Core.NE: "!=",
    Core.LT: "<",
    Core.LE: "<=",
    Core.GT: ">",
    Core.GE: ">=",
}
# Of masks that are 0 and -1.
_COMPARE_MASKS = {
    Core.EQ: "~({x} ^ {y})",
    Core.NE: "{x} ^ {y}",
    Core.LT: "~{x} & {y}",
    Core.LE: "~{x} | {y}",
    Core.GT: "{x} & ~{y}",
    Core.GE: "{x} | ~{y}",
}
_FUNCTIONS = frozenset(
    {Core.ABS, Core.FLOOR, Core.CEIL, Core.TRUNC, Core.RINT, Core.SQRT, Core.FMA}
)
_BY_LANE = frozenset({Core.POPCOUNT, Core.CLZ, Core.MULHI})
_SIGNED_OPS = frozenset({Core.ASHR, Core.DIV, Core.REM})
# So long a coordinate is part of the text that needs it, and has no name of its own.
INLINE = 16


def c_type(dtype: str, width: int) -> str:
    """Type of `width` lanes of `dtype` in a variable; of a b1 as it is kept between blocks."""
    if dtype in ("b1", "n"):
        kind = "long" if dtype == "n" else "int" if width == 1 else "char"
    else:
        kind = _FLOATS[dtype] if dtype[0] == "f" else _UNSIGNED[item_size(dtype)]
    return kind if width == 1 else f"{kind}{width}"


def memory_type(dtype: str, width: int) -> str:
    """Type of `width` elements in memory: a b1 is a byte, f2 its bits."""
    return c_type({"b1": "u1", "f2": "u2"}.get(dtype, dtype), width)


class CValues(Builder):
    """The part of a printer that writes expressions.

    halves : functions of halves.py that the text needs, with their widths; added to
    """

    halves: set[tuple[str, int]]

    # How the language says it.

    @abstractmethod
    def let(self, kind: str, text: str) -> str:
        """A new constant of that type."""

    @abstractmethod
    def _splat_text(self, kind: str, width: int, text: str) -> str:
        """A vector of type `kind` with this in every lane."""

    @abstractmethod
    def _vector_text(self, kind: str, texts: Sequence[str]) -> str:
        """A vector of type `kind` of these lanes."""

    @abstractmethod
    def _lane_text(self, text: str, lane: int) -> str:
        """One lane of a vector."""

    @abstractmethod
    def _choice_text(self, kind: str, mask: Name, yes: str, no: str) -> str:
        """Lanes of two vectors of type `kind`, whose elements have the mask's size."""

    @abstractmethod
    def _call(self, name: str, kind: str, names: Sequence[str]) -> str:
        """A function of values of type `kind`: ABS FLOOR CEIL TRUNC RINT SQRT FMA, or of single
        integers POPCOUNT CLZ MULHI."""

    # Names.

    def _new(self, dtype: str, width: int, text: str) -> Name:
        if dtype[0] in "iu" and width == 1 and item_size(dtype) < 4:
            text = f"({c_type(dtype, 1)})({text})"  # C computes small integers as int
        return Name(self.let(c_type(dtype, width), text), dtype, width)

    def _rounded(self, dtype: str, width: int, text: str) -> Name:
        """A new float; f2 is rounded to what f2 has."""
        name = self._new(dtype, width, text)
        return self._half(name, "round_f2", "f2") if dtype == "f2" else name

    def _half(self, x: Name, function: str, dtype: str) -> Name:
        """The result, of that dtype, of a function of halves.py."""
        self.halves.add((function, x.width))
        return self._new(dtype, x.width, f"{function}_{x.width}({x})")

    # Masks.

    def _mask(self, text: str, width: int, size: int) -> Name:
        if width == 1:
            return Name(self.let("int", text), "b1")
        return Name(self.let(f"{SIGNED[size]}{width}", text), "b1", width, size)

    def _sized(self, mask: Name, size: int) -> Name:
        """The same b1 with elements of `size` bytes, as what it chooses between has."""
        if mask.width == 1 or mask.size == size:
            return mask
        kind = f"{SIGNED[size]}{mask.width}"
        return self._mask(f"CONVERT({kind}, {mask})", mask.width, size)

    def _alike(self, *masks: Name) -> list[Name]:
        """Masks of one size, the largest one's."""
        size = max(mask.size for mask in masks)
        return [self._sized(mask, size) for mask in masks]

    # Coordinates.

    def coordinate(self, op: str, x: Name, y: Name) -> Name:
        if op == "ones":
            return self._long(f"(long){self._call('POPCOUNT', 'ulong', [f'(ulong){x}'])}")
        if op == "zeros":
            below = f"(ulong)({x} ^ ({x} - 1))"
            return self._long(f"(long){self._call('POPCOUNT', 'ulong', [below])} - 1")
        text = f"({x} {op} {y})"
        if op in ("<", ">=", "==", "!="):
            return Name(text, "b1")
        return Name(text, "n") if len(text) <= INLINE else self._long(text[1:-1])

    def _long(self, text: str) -> Name:
        return Name(self.let("long", text), "n")

    # Values.

    def constant(self, dtype: str, value: bool | int | float, width: int) -> Name:
        kind = c_type(dtype, 1)
        if dtype == "b1":
            text = str(-int(bool(value)) if width > 1 else int(bool(value)))
            return Name(self._spread(f"char{width}", width, text), "b1", width, int(width > 1))
        if dtype[0] == "f":
            text = _float_text(dtype, float(value))
        else:
            bits = 8 * item_size(dtype)
            text = f"{int(value) % (1 << bits)}{'UL' if bits == 64 else 'U'}"
            text = f"({kind}){text}" if bits < 32 else text
        return Name(self._spread(f"{kind}{width}", width, text), dtype, width)

    def _spread(self, kind: str, width: int, text: str) -> str:
        return text if width == 1 else self._splat_text(kind, width, text)

    def instruction(self, op: Core, names: Sequence[Name]) -> Name:
        dtype, width = names[0].dtype, names[0].width
        if dtype == "b1":
            return self._logic(op, names)
        if op is Core.NEG:
            zero = "-" if dtype[0] == "f" else f"{self.constant(dtype, 0, width)} - "
            return self._new(dtype, width, f"{zero}{names[0]}")
        if op is Core.NOT:
            return self._new(dtype, width, f"~{names[0]}")
        if dtype[0] == "f":
            return self._float(op, names)
        if op in _BY_LANE:
            return self._by_lane(op, names)
        if op in _SIGNED_OPS and dtype[0] == "i":
            texts = [self._signed(name) for name in names]
            return self._from_signed(dtype, width, f" {_OPERATORS[op]} ".join(texts))
        # Of small integers C multiplies signed ones, whose overflow has no meaning.
        small = width == 1 and item_size(dtype) < 4
        texts = [f"(uint){name}" if small else str(name) for name in names]
        return self._new(dtype, width, f"{texts[0]} {_OPERATORS[op]} {texts[1]}")

    def _float(self, op: Core, names: Sequence[Name]) -> Name:
        dtype, width = names[0].dtype, names[0].width
        kind = c_type(dtype, width)
        if op in _FUNCTIONS:
            return self._new(dtype, width, self._call(op.name, kind, names))
        if op is Core.COPYSIGN:
            bits = "u4" if dtype == "f2" else f"u{dtype[1:]}"
            sign = self.constant(bits, 1 << 8 * item_size(bits) - 1, width)
            x, y = (f"AS({c_type(bits, width)}, {name})" for name in names)
            return self._new(dtype, width, f"AS({kind}, ({x} & ~{sign}) | ({y} & {sign}))")
        return self._rounded(dtype, width, f"{names[0]} {_OPERATORS[op]} {names[1]}")

    def _logic(self, op: Core, names: Sequence[Name]) -> Name:
        masks = self._alike(*names)
        width, size = masks[0].width, masks[0].size
        if op is Core.NOT:
            return self._mask(f"~{masks[0]}" if size else f"!{masks[0]}", width, size)
        return self._mask(f"{masks[0]} {_OPERATORS[op]} {masks[1]}", width, size)

    def _by_lane(self, op: Core, names: Sequence[Name]) -> Name:
        """A function of single elements, called for each lane."""
        dtype, width = names[0].dtype, names[0].width
        kind = c_type(dtype, 1)
        if width == 1:
            return self._new(dtype, 1, self._call(op.name, kind, names))
        lanes = [[self._lane_text(name, k) for name in names] for k in range(width)]
        texts = [self._call(op.name, kind, own) for own in lanes]
        return self._new(dtype, width, self._vector_text(c_type(dtype, width), texts))

    def _signed(self, x: Name) -> str:
        """Text of an integer read as signed."""
        return f"AS({_wide_kind(SIGNED[item_size(x.dtype)], x.width)}, {x})"

    def _from_signed(self, dtype: str, width: int, text: str) -> Name:
        kind = c_type(dtype, width)
        return self._new(dtype, width, f"({kind})({text})" if width == 1 else f"AS({kind}, {text})")

    def compare(self, op: Core, x: Name, y: Name) -> Name:
        if x.dtype == "b1":
            x, y = self._alike(x, y)
            text = f"{x} {_COMPARE[op]} {y}"
            if x.size:
                text = _COMPARE_MASKS[op].format(x=x, y=y)
            return self._mask(text, x.width, x.size)
        texts: list[str] = [x, y]
        if x.dtype[0] == "i" and op not in (Core.EQ, Core.NE):
            texts = [self._signed(name) for name in (x, y)]
        size = self.machine.carried_bytes(x.dtype)
        return self._mask(f"{texts[0]} {_COMPARE[op]} {texts[1]}", x.width, size)

    def cast(self, x: Name, dtype: str, *, exact: bool = False) -> Name:
        source, width = x.dtype, x.width
        if source == "b1":
            one, none = (self.constant(dtype, k, width) for k in (1, 0))
            return self.select(x, one, none)
        if source[0] == "f":
            if c_type(source, 1) == c_type(dtype, 1):  # f2 and f4
                if dtype == "f2" and not exact:
                    return self._half(x, "round_f2", "f2")
                return Name(x, dtype, width)
            if dtype[0] == "i":
                whole = self._wide(x, SIGNED[item_size(dtype)])
                return self._from_signed(dtype, width, whole)
            return self._new(dtype, width, self._wide(x, c_type(dtype, 1)))
        number = self._signed_name(x) if source[0] == "i" else x
        if dtype[0] == "f":
            return self._rounded(dtype, width, self._wide(number, _FLOATS[dtype]))
        if item_size(source) == item_size(dtype):
            return Name(x, dtype, width)
        if item_size(source) > item_size(dtype) or source[0] == "u":
            return self._new(dtype, width, self._wide(x, c_type(dtype, 1)))
        return self._from_signed(dtype, width, self._wide(number, SIGNED[item_size(dtype)]))

    def _signed_name(self, x: Name) -> Name:
        return Name(self._signed(x), x.dtype, x.width)

    def _wide(self, x: Name, kind: str) -> str:
        """Text of `x` with every lane converted to the type of base `kind`."""
        return f"({kind}){x}" if x.width == 1 else f"CONVERT({kind}{x.width}, {x})"

    def truncated(self, x: Name, dtype: str, inside: Name) -> Name:
        kept = self.select(inside, x, self.constant(x.dtype, 0, x.width))
        return self.cast(kept, dtype)

    def reinterpret(self, x: Name, dtype: str) -> Name:
        if dtype == "f2":
            return self._half(Name(x, "u2", x.width), "load_f2", "f2")
        if x.dtype == "f2":
            return self._half(x, "bits_f2", dtype)
        if (x.dtype[0] == "f") == (dtype[0] == "f"):
            return Name(x, dtype, x.width)
        return self._new(dtype, x.width, f"AS({c_type(dtype, x.width)}, {x})")

    def select(self, mask: Name, yes: Name, no: Name) -> Name:
        dtype, width = yes.dtype, yes.width
        if dtype == "n":
            return self._long(f"{mask} ? {yes} : {no}")
        if dtype == "b1":
            return self._select_masks(mask, yes, no)
        if mask.width == 1:
            return self._new(dtype, width, f"{mask} ? {yes} : {no}")
        mask, kind = self._sized(mask, self.machine.carried_bytes(dtype)), c_type(dtype, width)
        return self._new(dtype, width, self._choice_text(kind, mask, yes, no))

    def _select_masks(self, mask: Name, yes: Name, no: Name) -> Name:
        if mask.width == 1:
            yes, no = self._alike(yes, no)
            return self._mask(f"{mask} ? {yes} : {no}", yes.width, yes.size)
        mask, yes, no = self._alike(mask, yes, no)
        return self._mask(f"({mask} & {yes}) | (~{mask} & {no})", yes.width, yes.size)

    # Lanes.

    def splat(self, x: Name, width: int) -> Name:
        dtype = "i8" if x.dtype == "n" else x.dtype
        if width == 1:
            return self._new(dtype, 1, f"(ulong){x}") if x.dtype == "n" else x
        if dtype == "b1":
            return self._mask(self._splat_text(f"char{width}", width, f"(char)-{x}"), width, 1)
        kind, text = c_type(dtype, width), f"(ulong){x}" if x.dtype == "n" else str(x)
        return self._new(dtype, width, self._splat_text(kind, width, text))

    def ramp(self, first: Name, width: int) -> Name:
        start = self.splat(first, width)
        if width == 1:
            return start
        return self._new("i8", width, f"{start} + {self._numbers('ulong', width)}")

    def steps(self, stride: Name, width: int) -> Name:
        every = self.splat(stride, width)
        return self._new("i8", width, f"{every} * {self._numbers('ulong', width)}")

    def _numbers(self, kind: str, width: int) -> str:
        return self._vector_text(f"{kind}{width}", [str(k) for k in range(width)])

    def lane(self, x: Name, lane: int) -> Name:
        text = self._lane_text(x, lane)
        return self._mask(f"{text} != 0", 1, 0) if x.dtype == "b1" else Name(text, x.dtype)

    def vector(self, names: Sequence[Name]) -> Name:
        dtype, width = names[0].dtype, len(names)
        if dtype == "b1":
            texts = [f"(char)-{name}" for name in names]
            return self._mask(self._vector_text(f"char{width}", texts), width, 1)
        return self._new(dtype, width, self._vector_text(c_type(dtype, width), names))

    def half(self, x: Name, which: int) -> Name:
        half = x.width // 2
        if half == 1:
            return self.lane(x, which)
        lanes = range(which * half, (which + 1) * half)
        if x.dtype == "b1":
            kind = f"{SIGNED[x.size]}{half}"
            return self._mask(self._lanes_text(kind, x, lanes), half, x.size)
        return self._new(x.dtype, half, self._lanes_text(c_type(x.dtype, half), x, lanes))

    def reversed(self, x: Name) -> Name:
        lanes = range(x.width - 1, -1, -1)
        if x.dtype == "b1":
            return self._mask(
                self._lanes_text(f"{SIGNED[x.size]}{x.width}", x, lanes), x.width, x.size
            )
        return self._new(x.dtype, x.width, self._lanes_text(c_type(x.dtype, x.width), x, lanes))

    def _lanes_text(self, kind: str, x: str, lanes: Sequence[int]) -> str:
        """Some lanes of a vector."""
        return self._vector_text(kind, [self._lane_text(x, lane) for lane in lanes])

    def any_lane(self, mask: Name) -> Name:
        if mask.width == 1:
            return mask
        mask = self._sized(mask, 1)
        if mask.width < 16:
            return Name(f"(AS({SIGNED[mask.width]}, {mask}) != 0)", "b1")
        longs = self.let(f"long{mask.width // 8}", f"AS(long{mask.width // 8}, {mask})")
        parts = [self._lane_text(longs, k) for k in range(mask.width // 8)]
        return Name(f"(({' | '.join(parts)}) != 0)", "b1")


def _wide_kind(kind: str, width: int) -> str:
    return kind if width == 1 else f"{kind}{width}"


def _float_text(dtype: str, value: float) -> str:
    if dtype == "f2":
        value = struct.unpack("<e", pack_float("<e", value))[0]
    single = dtype != "f8"
    if single:
        value = struct.unpack("<f", pack_float("<f", value))[0]
    if math.isfinite(value):
        text = repr(value) + "f" * single
        return f"({text})" if text[0] == "-" else text
    if single:
        return f"AS(float, 0x{struct.unpack('<I', struct.pack('<f', value))[0]:08X}U)"
    return f"AS(double, 0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}UL)"
