"""Values in LLVM IR: types, constants, arithmetic, lanes.

No fast-math flag is written: every operation keeps its IEEE meaning.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from npaccel.backends.emit.builder import Builder, Lanes, Name, Value, pack_float
from npaccel.backends.emit.machine import Machine
from npaccel.ir.scalar import Core, item_size

__all__ = ["LlvmValues", "llvm_type", "memory_type", "suffix", "typed"]

_ELEMENTS = {"b1": "i1", "n": "i64", "p": "ptr", "f2": "half", "f4": "float", "f8": "double"}
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
_SIGNED = {Core.DIV: "div", Core.REM: "rem"}
# `roundeven`, not `rint`: the result must not depend on the thread's rounding mode.
_INTRINSICS = {
    Core.ABS: "fabs",
    Core.COPYSIGN: "copysign",
    Core.FMA: "fma",
    Core.SQRT: "sqrt",
    Core.FLOOR: "floor",
    Core.CEIL: "ceil",
    Core.TRUNC: "trunc",
    Core.RINT: "roundeven",
    Core.POPCOUNT: "ctpop",
    Core.CLZ: "ctlz",
}
_FLOAT_COMPARE = {
    Core.EQ: "oeq",
    Core.NE: "une",
    Core.LT: "olt",
    Core.LE: "ole",
    Core.GT: "ogt",
    Core.GE: "oge",
}
_COORDINATES = {
    "+": "add i64",
    "-": "sub i64",
    "*": "mul i64",
    "/": "udiv i64",
    "%": "urem i64",
    "&": "and i64",
    "<": "icmp slt i64",
    ">=": "icmp sge i64",
    "==": "icmp eq i64",
    "!=": "icmp ne i64",
}


def llvm_type(dtype: str, width: int) -> str:
    element = _ELEMENTS.get(dtype) or f"i{8 * item_size(dtype)}"
    return element if width == 1 else f"<{width} x {element}>"


def memory_type(dtype: str, width: int) -> str:
    """A b1 is a byte there."""
    return llvm_type("u1" if dtype == "b1" else dtype, width)


def typed(x: Name) -> str:
    return f"{llvm_type(x.dtype, x.width)} {x}"


def _float_bits(dtype: str, value: float) -> str:
    if dtype == "f2":
        return f"0xH{struct.unpack('<H', pack_float('<e', value))[0]:04X}"
    if dtype == "f4":  # LLVM writes a float as the double of the same value.
        value = struct.unpack("<f", pack_float("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _numbers(width: int) -> str:
    """0, 1, 2, ... as a constant of i64."""
    return f"<{', '.join(f'i64 {k}' for k in range(width))}>"


def suffix(dtype: str, width: int) -> str:
    """How intrinsics' names end."""
    element = {"f2": "f16", "f4": "f32", "f8": "f64"}.get(dtype) or llvm_type(dtype, 1)
    return element if width == 1 else f"v{width}{element}"


class LlvmValues(Builder):
    """The part of a printer that writes instructions.

    declarations : ``declare`` lines that the module needs, added to
    """

    def __init__(self, machine: Machine, declarations: set[str]) -> None:
        super().__init__(machine)
        self.declarations = declarations
        self._lines: list[str] = []
        # Of masks, by their names, see Note [Masks]: how many bytes were compared, what it was made
        # of, and its vector of integers.
        self._compared: dict[str, int] = {}
        self._logic: dict[str, tuple[Core, Sequence[Name]]] = {}
        self._spread: dict[str, Name] = {}
        self._apart: set[str] = set()  # parts of pairs that were loaded together

    # Instructions.

    def _emit(self, text: str, dtype: str, width: int = 1) -> Name:
        name = Name("%" + self.fresh("t"), dtype, width)
        self._lines.append(f"{name} = {text}")
        return name

    def _do(self, text: str) -> None:
        self._lines.append(text)

    def _call(self, name: str, arguments: Sequence[Name | str], result: str = "void") -> str:
        """Text of a call of an intrinsic; arguments that are no names have their type before."""
        pairs = [
            (llvm_type(x.dtype, x.width), x) if isinstance(x, Name) else x.split(" ")
            for x in arguments
        ]
        types, values = ", ".join(kind for kind, _ in pairs), ", ".join(map(" ".join, pairs))
        self.declarations.add(f"declare {result} @llvm.{name}({types})")
        return f"call {result} @llvm.{name}({values})"

    def _intrinsic(self, name: str, names: Sequence[Name], *more: str) -> Name:
        dtype, width = names[0].dtype, names[0].width
        call = self._call(
            f"{name}.{suffix(dtype, width)}", [*names, *more], llvm_type(dtype, width)
        )
        return self._emit(call, dtype, width)

    # Coordinates.

    def coordinate(self, op: str, x: Name, y: Name) -> Name:
        if op == "ones":
            return self._intrinsic("ctpop", [x])
        if op == "zeros":
            return self._intrinsic("cttz", [x], "i1 false")
        instruction = _COORDINATES[op]
        dtype = "b1" if instruction.startswith("icmp") else "n"
        return self._emit(f"{instruction} {x}, {y}", dtype)

    def offset(self, pointer: Name, count_bytes: Name | int) -> Name:
        if count_bytes in (0, "0"):
            return pointer
        return self._emit(f"getelementptr i8, ptr {pointer}, i64 {count_bytes}", "p")

    # Values.

    def constant(self, dtype: str, value: bool | int | float, width: int) -> Name:
        if dtype[0] == "f":
            text = _float_bits(dtype, float(value))
        elif dtype == "b1":
            text = "true" if value else "false"
        else:
            text = str(int(value))
        if width > 1:
            text = f"splat ({llvm_type(dtype, 1)} {text})"
        return Name(text, dtype, width)

    def instruction(self, op: Core, names: Sequence[Name]) -> Name:
        x, dtype, width = names[0], names[0].dtype, names[0].width
        kind = llvm_type(dtype, width)
        if op is Core.MULHI:
            left, right = (self._emit(f"zext i64 {name} to i128", "") for name in names)
            product = self._emit(f"mul i128 {left}, {right}", "")
            high = self._emit(f"lshr i128 {product}, 64", "")
            return self._emit(f"trunc i128 {high} to i64", dtype)
        if op in _INTRINSICS:
            return self._intrinsic(
                _INTRINSICS[op], names, *(["i1 false"] if op is Core.CLZ else [])
            )
        if op is Core.NEG:
            zero = self.constant(dtype, 0, width)
            text = f"fneg {kind} {x}" if dtype[0] == "f" else f"sub {kind} {zero}, {x}"
            return self._emit(text, dtype, width)
        if dtype == "b1" and x in self._compared:
            return self._of_masks(op, names) or self._remembered(op, names)
        if op is Core.NOT:
            ones = self.constant(dtype, True if dtype == "b1" else -1, width)
            return self._emit(f"xor {kind} {x}, {ones}", dtype, width)
        if dtype[0] == "f":
            instruction = _FLOAT_BINARY[op]
        elif op in _SIGNED:
            instruction = ("s" if dtype[0] == "i" else "u") + _SIGNED[op]
        else:
            instruction = _INTEGER_BINARY[op]
        return self._emit(f"{instruction} {kind} {x}, {names[1]}", dtype, width)

    def compare(self, op: Core, x: Name, y: Name) -> Name:
        # Else LLVM compares pairs first, and takes masks apart, element by element.
        parts = self._apart if x.dtype == "f8" and not self.machine.masks else ()
        x, y = (self.fence(name) if name in parts else name for name in (x, y))
        if x.dtype[0] == "f":
            instruction = f"fcmp {_FLOAT_COMPARE[op]}"
        else:
            sign = "" if op in (Core.EQ, Core.NE) else "s" if x.dtype[0] == "i" else "u"
            instruction = f"icmp {sign}{op.value}"
        mask = self._emit(f"{instruction} {typed(x)}, {y}", "b1", x.width)
        if not self.machine.masks and x.width > 1 and item_size(x.dtype) >= 4:
            self._compared[mask] = item_size(x.dtype)
        return mask

    def _remembered(self, op: Core, masks: Sequence[Name]) -> Name:
        """`op` of masks, by which what is made of it will know them."""
        kind, width = llvm_type("b1", masks[0].width), masks[0].width
        name, *others = masks
        other = others[0] if others else self.constant("b1", True, width)
        made = self._emit(f"{_INTEGER_BINARY.get(op, 'xor')} {kind} {name}, {other}", "b1", width)
        sizes = {self._compared.get(mask) for mask in masks}
        if len(sizes) == 1:
            self._compared[made] = self._compared[name]
            if op is not Core.NOT:
                self._logic[made] = op, masks
        return made

    def _of_masks(self, op: Core, masks: Sequence[Name]) -> Name | None:
        """`op` of masks, if one of them was made of others. See Note [Masks]."""
        sizes = {self._compared.get(mask) for mask in masks}
        size = sizes.pop()
        if sizes or size is None or not any(mask in self._logic for mask in masks):
            return None
        whole = self._on_spread(op, masks, size)
        mask = self._emit(f"icmp slt {typed(whole)}, zeroinitializer", "b1", whole.width)
        self._spread[mask], self._compared[mask] = whole, size
        self._logic[mask] = op, masks
        return mask

    def _on_spread(self, op: Core, masks: Sequence[Name], size: int) -> Name:
        parts = [self._spread_out(mask, size) for mask in masks]
        if op is Core.NOT:
            op, parts = Core.XOR, [*parts, self.constant(f"i{size}", -1, parts[0].width)]
        return self.instruction(op, parts)

    def _spread_out(self, mask: Name, size: int) -> Name:
        if mask in self._spread:
            return self._spread[mask]
        if mask in self._logic:
            return self._on_spread(*self._logic[mask], size)
        whole = self._emit(
            f"sext {typed(mask)} to {llvm_type(f'i{size}', mask.width)}", f"i{size}", mask.width
        )
        return self.reinterpret(self.fence(self.reinterpret(whole, f"f{size}")), f"i{size}")

    def cast(self, x: Name, dtype: str, *, exact: bool = False) -> Name:
        source, target = x.dtype, dtype
        if source == "b1" and target[0] == "f":
            return self.select(x, *(self.constant(target, k, x.width) for k in (1, 0)))
        if source[0] == "f" or target[0] == "f":
            larger = source[0] == target[0] and item_size(target) > item_size(source)
            instruction = {
                "ff": "fpext" if larger else "fptrunc",
                "fi": "fptosi",
                "fu": "fptoui",
                "if": "sitofp",
            }.get(source[0] + target[0], "uitofp")
        elif source != "b1" and item_size(source) == item_size(target):
            return Name(x, dtype, x.width)
        elif source != "b1" and item_size(source) > item_size(target):
            instruction = "trunc"
        else:
            instruction = "sext" if source[0] == "i" else "zext"
        return self._emit(
            f"{instruction} {typed(x)} to {llvm_type(dtype, x.width)}", dtype, x.width
        )

    def reinterpret(self, x: Name, dtype: str) -> Name:
        if (x.dtype[0] == "f") == (dtype[0] == "f"):
            return Name(x, dtype, x.width)  # LLVM's integers have no sign
        return self._emit(f"bitcast {typed(x)} to {llvm_type(dtype, x.width)}", dtype, x.width)

    def select(self, mask: Name, yes: Name, no: Name) -> Name:
        text = f"select {typed(mask)}, {typed(yes)}, {typed(no)}"
        return self._emit(text, yes.dtype, yes.width)

    def flipped(self, x: Name) -> Name:
        # LLVM makes an fneg of the exclusive or, and folds that into what is around it.
        return self.fence(self.instruction(Core.NEG, (self.fence(x),)))

    def fence(self, x: Name) -> Name:
        return self._intrinsic("arithmetic.fence", [x])

    def keep(self, value: Value) -> Value:
        # What only the block behind a branch uses, LLVM moves there, and all that waits for it.
        self.declarations.add("declare void @llvm.fake.use(...)")
        for name in value:
            self._do(f"call void (...) @llvm.fake.use({typed(name)})")
        return value

    # Lanes.

    def splat(self, x: Name, width: int) -> Name:
        dtype = "i8" if x.dtype == "n" else x.dtype
        if width == 1:
            return Name(x, dtype)
        vector = llvm_type(dtype, width)
        one = self._emit(f"insertelement {vector} poison, {llvm_type(dtype, 1)} {x}, i64 0", "")
        zeros = f"<{width} x i32> zeroinitializer"
        return self._emit(f"shufflevector {vector} {one}, {vector} poison, {zeros}", dtype, width)

    def ramp(self, first: Name, width: int) -> Name:
        start = self.splat(first, width)
        if width == 1:
            return start
        return self._emit(f"add {typed(start)}, {_numbers(width)}", "i8", width)

    def steps(self, stride: Name, width: int) -> Name:
        every = self.splat(stride, width)
        return self._emit(f"mul {typed(every)}, {_numbers(width)}", "i8", width)

    def address(self, pointer: Name) -> Name:
        return self._emit(f"ptrtoint ptr {pointer} to i64", "n")

    def lanes_below(self, count: Name, width: int, *, fewer: bool = False) -> Lanes:
        limit = self.splat(count, width)
        below = self._emit(
            f"icmp slt {llvm_type('n', width)} {_numbers(width)}, {limit}", "b1", width
        )
        return Lanes(count, below, fewer)

    def lane(self, x: Name, lane: int) -> Name:
        return self._emit(f"extractelement {typed(x)}, i64 {lane}", x.dtype)

    def vector(self, names: Sequence[Name]) -> Name:
        return self._joined(names, names[0].dtype)

    def _joined(self, names: Sequence[Name], dtype: str) -> Name:
        whole, width = Name("poison", dtype, len(names)), len(names)
        for lane, name in enumerate(names):
            text = f"insertelement {typed(whole)}, {llvm_type(dtype, 1)} {name}, i64 {lane}"
            whole = self._emit(text, dtype, width)
        return whole

    def half(self, x: Name, which: int) -> Name:
        half = x.width // 2
        if half == 1:
            return self.lane(x, which)
        return self._shuffle(x, x, range(which * half, (which + 1) * half))

    def _shuffle(self, x: Name, y: Name, lanes: Sequence[int]) -> Name:
        """Chosen `lanes` of the concatenation of two vectors."""
        chosen = ", ".join(f"i32 {lane}" for lane in lanes)
        other = "poison" if y is x else y
        text = f"shufflevector {typed(x)}, {llvm_type(x.dtype, x.width)} {other}"
        return self._emit(f"{text}, <{len(lanes)} x i32> <{chosen}>", x.dtype, len(lanes))

    def reversed(self, x: Name) -> Name:
        return self._shuffle(x, x, range(x.width - 1, -1, -1))

    def any_lane(self, mask: Name) -> Name:
        if mask.width == 1:
            return mask
        whole = self._spread.get(mask)
        if whole is not None:
            while whole.width * item_size(whole.dtype) > self.machine.vector_bytes:
                whole = self.instruction(Core.OR, [self.half(whole, k) for k in (0, 1)])
            mask = self._emit(f"icmp slt {typed(whole)}, zeroinitializer", "b1", whole.width)
        bits = self._emit(f"bitcast {typed(mask)} to i{mask.width}", "")
        return self._emit(f"icmp ne i{mask.width} {bits}, 0", "b1")

    def over_lanes(self, op: Core | str, x: Name) -> Name:
        if isinstance(op, Core):
            how = _INTEGER_BINARY[op]
        else:
            how = {"f": "f", "i": "s"}.get(x.dtype[0], "u") + op
        kind = llvm_type(x.dtype, 1)
        call = self._call(f"vector.reduce.{how}.{suffix(x.dtype, x.width)}", [x], kind)
        if x.dtype[0] == "f":
            call = call.replace("call", "call nnan", 1)
        return self._emit(call, x.dtype)


# Note [Masks]
# Where masks have no registers, LLVM takes one of a vector of several registers for bytes as soon
# as it is made of others that are no comparisons: each is packed into bytes, and the result
# unpacked again. So there such masks are written as integers of the size of what was compared, all
# bits of which are set or none. LLVM would take that back, but for a fence. What is chosen by one
# or two comparisons LLVM does well, so only what is made of more is written so.
