"""LLVM IR text of one function.

State that changes lives in variables (allocas of the entry block), which LLVM's first pass turns
into registers; so no phi is ever written. No fast-math flag is, either: every operation keeps its
IEEE meaning.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from npaccel.backends.emit.builder import Builder, Lanes, Name, Range, Value, Variable, Which
from npaccel.backends.emit.machine import Machine
from npaccel.backends.emit.skeletons import symbols_of, write_finish, write_main
from npaccel.ir.nodes import Kernel
from npaccel.ir.scalar import Core, item_size

__all__ = ["Printer", "machine_of", "write_module", "write_source"]

RARELY = "!prof !0"
# Lines up to which a function apart is optimised: that takes a few ms, and some data has many NaN.
SMALL_APART = 400
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
FOOTER = """\
!0 = !{!"branch_weights", i32 1, i32 4000}
!1 = !{i32 1}
"""


def machine_of(vector_bytes: int) -> Machine:
    """A processor with vector registers of that size."""
    masked = {64: 0, 32: 4}.get(vector_bytes, 99)
    return Machine(
        vector_bytes,
        widest=128,
        wide=True,
        in_flight=(2, 4),
        # Four times the registers: to spill a value takes less time than to wait for one.
        held=128 if vector_bytes == 64 else 64,
        registers=32 if vector_bytes == 64 else 16,
        large_body=480,
        masked_bytes=masked,
        copies=True,
        halves=True,
        calls=True,
        fuses=vector_bytes >= 32,
    )


def _type(dtype: str, width: int) -> str:
    element = _ELEMENTS.get(dtype) or f"i{8 * item_size(dtype)}"
    return element if width == 1 else f"<{width} x {element}>"


def _memory_type(dtype: str, width: int) -> str:
    """A b1 is a byte there."""
    return _type("u1" if dtype == "b1" else dtype, width)


def _typed(x: Name) -> str:
    return f"{_type(x.dtype, x.width)} {x}"


def _pack(code: str, value: float) -> bytes:
    try:
        return struct.pack(code, value)
    except OverflowError:  # struct refuses what IEEE rounds to infinity
        return struct.pack(code, float("inf") if value > 0 else float("-inf"))


def _float_bits(dtype: str, value: float) -> str:
    if dtype == "f2":
        return f"0xH{struct.unpack('<H', _pack('<e', value))[0]:04X}"
    if dtype == "f4":  # LLVM writes a float as the double of the same value.
        value = struct.unpack("<f", _pack("<f", value))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def write_source(kernel: Kernel, vector_bytes: int, *, fence: bool) -> str:
    """Text of a module with function ``main`` and, if parts need combining, ``finish``.

    Parameters
    ----------
    vector_bytes : size of the host's widest vector register
    fence : the host is x86, where stores around the cache are ordered by an sfence only
    """
    return write_module([(symbols_of(kernel, "main"), kernel)], vector_bytes, fence=fence)


def write_module(
    kernels: Iterable[tuple[Sequence[str], Kernel]],
    vector_bytes: int,
    *,
    fence: bool,
    linkage: str = "",
) -> str:
    """Text of a module with the functions of many kernels, which have those names.

    linkage : how others see them, in LLVM's words
    """
    declarations: set[str] = set()
    functions = []
    for symbols, kernel in kernels:
        for symbol, write in zip(symbols, (write_main, write_finish), strict=False):
            printer = Printer(machine_of(vector_bytes), declarations, symbol)
            write(printer, kernel)
            if write is write_main and fence and any(a.nontemporal for a in kernel.arrays):
                printer.fence_stores()
            functions += [*printer.others, printer.text(linkage)]
    bits = 8 * vector_bytes
    vectors = f'"prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'
    vectors += ' "stackrealign"'  # else spilled vectors lie across two lines
    attributes = (
        f"attributes #0 = {{ nounwind {vectors} }}\n"
        f"attributes #1 = {{ nounwind noinline optnone {vectors} }}\n"
        f"attributes #2 = {{ nounwind noinline {vectors} }}\n"
    )
    return "\n".join([*functions, *sorted(declarations), attributes, FOOTER])


class Printer(Builder):
    """The text of a function ``(words, range, scratch, flags)``, which the C core calls.

    declarations : ``declare`` lines that the module needs, added to
    others : functions that this one calls
    """

    def __init__(self, machine: Machine, declarations: set[str], symbol: str = "main") -> None:
        super().__init__(machine)
        self.symbol, self.others = symbol, list[str]()
        self._apart: set[str] = set()
        self.scratch = Name("%scratch", "p")
        self.declarations = declarations
        self._lines: list[str] = []
        self._allocas: list[str] = []
        self._places: dict[str, Name] = {}

    def text(self, linkage: str = "", more: str = "", attributes: str = "#0") -> str:
        """The whole function, which has `more` arguments than the core gives."""
        body = "\n".join(["entry:", *self._allocas, *self._lines, "ret void"])
        arguments = f"ptr %words, ptr %range, ptr %scratch, ptr %flags{more}"
        return f"define {linkage} void @{self.symbol}({arguments}) {attributes} {{\n{body}\n}}\n"

    def apart(
        self, what: str, names: Sequence[Name], write: Callable[[Builder, list[Name]], None]
    ) -> None:
        symbol = f"{self.symbol}_{what}"
        if what not in self._apart:
            self._apart.add(what)
            other = Printer(self.machine, self.declarations, symbol)
            given = [Name(f"%given{k}", x.dtype, x.width) for k, x in enumerate(names)]
            write(other, given)
            more = "".join(f", {_typed(name)}" for name in given)
            large = len(other._lines) > SMALL_APART
            text = other.text("internal", more, "#1" if large else "#2")
            self.others += [*other.others, text]
        arguments = "".join(f", {_typed(name)}" for name in names)
        self._do(
            f"call void @{symbol}(ptr %words, ptr %range, ptr %scratch, ptr %flags{arguments})"
        )

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
            (_type(x.dtype, x.width), x) if isinstance(x, Name) else x.split(" ") for x in arguments
        ]
        types, values = ", ".join(kind for kind, _ in pairs), ", ".join(map(" ".join, pairs))
        self.declarations.add(f"declare {result} @llvm.{name}({types})")
        return f"call {result} @llvm.{name}({values})"

    def _intrinsic(self, name: str, names: Sequence[Name], *more: str) -> Name:
        dtype, width = names[0].dtype, names[0].width
        call = self._call(f"{name}.{_suffix(dtype, width)}", [*names, *more], _type(dtype, width))
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
            text = f"splat ({_type(dtype, 1)} {text})"
        return Name(text, dtype, width)

    def instruction(self, op: Core, names: Sequence[Name]) -> Name:
        x, dtype, width = names[0], names[0].dtype, names[0].width
        kind = _type(dtype, width)
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
        if x.dtype[0] == "f":
            instruction = f"fcmp {_FLOAT_COMPARE[op]}"
        else:
            sign = "" if op in (Core.EQ, Core.NE) else "s" if x.dtype[0] == "i" else "u"
            instruction = f"icmp {sign}{op.value}"
        return self._emit(f"{instruction} {_typed(x)}, {y}", "b1", x.width)

    def cast(self, x: Name, dtype: str, *, exact: bool = False) -> Name:
        source, target = x.dtype, dtype
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
        return self._emit(f"{instruction} {_typed(x)} to {_type(dtype, x.width)}", dtype, x.width)

    def reinterpret(self, x: Name, dtype: str) -> Name:
        if (x.dtype[0] == "f") == (dtype[0] == "f"):
            return Name(x, dtype, x.width)  # LLVM's integers have no sign
        return self._emit(f"bitcast {_typed(x)} to {_type(dtype, x.width)}", dtype, x.width)

    def select(self, mask: Name, yes: Name, no: Name) -> Name:
        text = f"select {_typed(mask)}, {_typed(yes)}, {_typed(no)}"
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
            self._do(f"call void (...) @llvm.fake.use({_typed(name)})")
        return value

    # Lanes.

    def splat(self, x: Name, width: int) -> Name:
        dtype = "i8" if x.dtype == "n" else x.dtype
        if width == 1:
            return Name(x, dtype)
        vector = _type(dtype, width)
        one = self._emit(f"insertelement {vector} poison, {_type(dtype, 1)} {x}, i64 0", "")
        zeros = f"<{width} x i32> zeroinitializer"
        return self._emit(f"shufflevector {vector} {one}, {vector} poison, {zeros}", dtype, width)

    def ramp(self, first: Name, width: int) -> Name:
        start = self.splat(first, width)
        if width == 1:
            return start
        return self._emit(f"add {_typed(start)}, {_numbers(width)}", "i8", width)

    def steps(self, stride: Name, width: int) -> Name:
        every = self.splat(stride, width)
        return self._emit(f"mul {_typed(every)}, {_numbers(width)}", "i8", width)

    def lanes_below(self, count: Name, width: int, *, fewer: bool = False) -> Lanes:
        limit = self.splat(count, width)
        below = self._emit(f"icmp slt {_type('n', width)} {_numbers(width)}, {limit}", "b1", width)
        return Lanes(count, below, fewer)

    def lane(self, x: Name, lane: int) -> Name:
        return self._emit(f"extractelement {_typed(x)}, i64 {lane}", x.dtype)

    def vector(self, names: Sequence[Name]) -> Name:
        return self._joined(names, names[0].dtype)

    def _joined(self, names: Sequence[Name], dtype: str) -> Name:
        whole, width = Name("poison", dtype, len(names)), len(names)
        for lane, name in enumerate(names):
            text = f"insertelement {_typed(whole)}, {_type(dtype, 1)} {name}, i64 {lane}"
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
        text = f"shufflevector {_typed(x)}, {_type(x.dtype, x.width)} {other}"
        return self._emit(f"{text}, <{len(lanes)} x i32> <{chosen}>", x.dtype, len(lanes))

    def any_lane(self, mask: Name) -> Name:
        if mask.width == 1:
            return mask
        bits = self._emit(f"bitcast {_typed(mask)} to i{mask.width}", "")
        return self._emit(f"icmp ne i{mask.width} {bits}, 0", "b1")

    def over_lanes(self, op: Core | str, x: Name) -> Name:
        if isinstance(op, Core):
            how = _INTEGER_BINARY[op]
        else:
            how = {"f": "f", "i": "s"}.get(x.dtype[0], "u") + op
        kind = _type(x.dtype, 1)
        call = self._call(f"vector.reduce.{how}.{_suffix(x.dtype, x.width)}", [x], kind)
        if x.dtype[0] == "f":
            call = call.replace("call", "call nnan", 1)
        return self._emit(call, x.dtype)

    # Memory.

    def load(self, dtype: str, pointer: Name) -> Name:
        return self._from_memory(self._load(dtype, 1, pointer))

    def _load(self, dtype: str, width: int, pointer: Name) -> Name:
        text = f"load {_memory_type(dtype, width)}, ptr {pointer}, align {item_size(dtype)}"
        return self._emit(text, dtype, width)

    def _from_memory(self, x: Name) -> Name:
        if x.dtype != "b1":
            return x
        return self.compare(Core.NE, Name(x, "u1", x.width), self.constant("u1", 0, x.width))

    def _to_memory(self, x: Name) -> Name:
        return self.cast(x, "u1") if x.dtype == "b1" else x

    def store(self, pointer: Name, x: Name) -> None:
        self._do(f"store {_typed(self._to_memory(x))}, ptr {pointer}, align {item_size(x.dtype)}")

    def load_lanes(
        self, dtype: str, pointer: Name, stride: Name | None, width: int, lanes: Lanes | None
    ) -> Name:
        if lanes is None and stride is not None:
            return self._load_apart(dtype, self._pointers(pointer, stride, width))
        if stride is not None:
            return self._load_masked(
                dtype, self._lane_pointers(pointer, self.steps(stride, width)), lanes
            )
        if lanes is None:
            return self._from_memory(self._load(dtype, width, pointer))
        return self._from_memory(self._load_some(dtype, pointer, width, lanes.below))

    def _load_some(self, dtype: str, pointer: Name, width: int, below: Name) -> Name:
        ones = self.constant("u1" if dtype == "b1" else dtype, 1, width)
        size, kind = item_size(dtype), _memory_type(dtype, width)
        arguments = [pointer, f"i32 {size}", below, ones]
        call = self._call(f"masked.load.{_suffix(ones.dtype, width)}.p0", arguments, kind)
        return self._emit(call, dtype, width)

    def load_pairs(self, dtype: str, pointer: Name, width: int, lanes: Lanes | None) -> Value:
        if lanes is None:
            whole = self._load(dtype, 2 * width, pointer)
        else:
            whole = self._load_some(dtype, pointer, 2 * width, self._twice(lanes.below))
        return tuple(self._shuffle(whole, whole, range(k, 2 * width, 2)) for k in range(2))

    def _twice(self, mask: Name) -> Name:
        return self._shuffle(mask, mask, [lane for k in range(mask.width) for lane in (k, k)])

    def load_each(self, dtype: str, pointer: Name, offsets: Name, lanes: Lanes | None) -> Name:
        pointers = self._lane_pointers(pointer, offsets)
        if lanes is None:
            return self._load_apart(dtype, self._each(pointers))
        return self._load_masked(dtype, pointers, lanes)

    def _lane_pointers(self, pointer: Name, offsets: Name) -> Name:
        return self._emit(f"getelementptr i8, ptr {pointer}, {_typed(offsets)}", "p", offsets.width)

    def _each(self, pointers: Name) -> Iterator[Name]:
        return (self.lane(pointers, lane) for lane in range(pointers.width))

    def _pointers(self, pointer: Name, stride: Name, width: int) -> Iterator[Name]:
        return (self.offset(pointer, self.mul(stride, lane)) for lane in range(width))

    # Lanes that are all in use are loaded and stored one by one: the processor's own gathers and
    # scatters took up to six times as long (AMD Zen 4).

    def _load_apart(self, dtype: str, pointers: Iterator[Name]) -> Name:
        memory = "u1" if dtype == "b1" else dtype
        whole = self._joined([self._load(memory, 1, pointer) for pointer in pointers], memory)
        return self._from_memory(Name(whole, dtype, whole.width))

    def _load_masked(self, dtype: str, pointers: Name, lanes: Lanes | None) -> Name:
        assert lanes is not None
        width = pointers.width
        ones = self.constant("u1" if dtype == "b1" else dtype, 1, width)
        arguments = [pointers, f"i32 {item_size(dtype)}", lanes.below, ones]
        suffix = f"{_suffix(ones.dtype, width)}.v{width}p0"
        call = self._call(f"masked.gather.{suffix}", arguments, _memory_type(dtype, width))
        return self._from_memory(self._emit(call, dtype, width))

    def store_lanes(self, pointer: Name, stride: Name | None, x: Name, which: Which) -> None:
        active = self._active(which)
        x = self._to_memory(x)
        if stride is None:
            self._store_unit(pointer, x, active, stream=which.stream)
        elif active is None:
            self._store_apart(x, self._pointers(pointer, stride, x.width))
        else:
            self._scatter(self._lane_pointers(pointer, self.steps(stride, x.width)), x, active)

    def _active(self, which: Which) -> Name | None:
        return self.both(which.mask, which.lanes.below if which.lanes else None)

    def _store_unit(self, pointer: Name, x: Name, active: Name | None, *, stream: bool) -> None:
        size = item_size(x.dtype)
        if active is not None:
            arguments = [x, pointer, f"i32 {size}", active]
            self._do(self._call(f"masked.store.{_suffix(x.dtype, x.width)}.p0", arguments))
        elif stream and x.width * size % 64 == 0:
            self._do(f"store {_typed(x)}, ptr {pointer}, align 64, !nontemporal !1")
        else:
            self._do(f"store {_typed(x)}, ptr {pointer}, align {size}")

    def store_pairs(self, pointer: Name, x: Value, which: Which) -> None:
        active = self._active(which)
        width = x[0].width
        whole = self._shuffle(x[0], x[1], [at for k in range(width) for at in (k, width + k)])
        twice = None if active is None else self._twice(active)
        self._store_unit(pointer, whole, twice, stream=which.stream)

    def store_each(self, pointer: Name, offsets: Name, x: Name, which: Which) -> None:
        active = self._active(which)
        pointers, x = self._lane_pointers(pointer, offsets), self._to_memory(x)
        if active is None:
            self._store_apart(x, self._each(pointers))
        else:
            self._scatter(pointers, x, active)

    def _store_apart(self, x: Name, pointers: Iterator[Name]) -> None:
        for lane in range(x.width):
            one = self.lane(x, lane)
            self._do(f"store {_typed(one)}, ptr {next(pointers)}, align {item_size(x.dtype)}")

    def _scatter(self, pointers: Name, x: Name, active: Name) -> None:
        arguments = [x, pointers, f"i32 {item_size(x.dtype)}", active]
        suffix = f"{_suffix(x.dtype, x.width)}.v{x.width}p0"
        self._do(self._call(f"masked.scatter.{suffix}", arguments))

    def fetch(self, pointer: Name) -> None:
        # Read, moderate locality, data. Never faults.
        self._do(self._call("prefetch.p0", [pointer, "i32 0", "i32 2", "i32 1"]))

    def fence_stores(self) -> None:
        """Before other threads are told that all is written."""
        self._do(self._call("x86.sse.sfence", []))

    # Arguments.

    def word(self, index: int) -> Name:
        return self._word("n", index)

    def _word(self, dtype: str, index: int) -> Name:
        return self._at(dtype, self.offset(Name("%words", "p"), 8 * index))

    def _at(self, dtype: str, pointer: Name) -> Name:
        return self._emit(f"load {_memory_type(dtype, 1)}, ptr {pointer}", dtype)

    def base(self, array: int, index: int) -> Name:
        return self._word("p", index)

    def scalar(self, dtype: str, offset: int) -> Name:
        return self._from_memory(self._at(dtype, self.offset(Name("%words", "p"), offset)))

    def partials(self, index: int) -> Name:
        return self._word("p", index)

    @contextmanager
    def tasks(self) -> Iterator[Range]:
        limits = (self.offset(Name("%range", "p"), 8 * k) for k in range(4))
        yield Range(*(self._at("n", limit) for limit in limits))

    def raise_flags(self, slot: int, bits: Name) -> None:
        with self.when(self.compare(Core.NE, bits, Name("0", "u4"))):
            target = self.offset(Name("%flags", "p"), 4 * slot)
            self._do(f"atomicrmw or ptr {target}, i32 {bits} monotonic")

    # Variables.

    def variable(self, dtype: str, width: int, count: int = 1) -> Variable:
        name, kind = "%" + self.fresh("v"), _type(dtype, width)
        array = kind if count == 1 else f"[{count} x {kind}]"
        self._allocas.append(f"{name} = alloca {array}, align 64")
        return Variable(name, dtype, width, count)

    def get(self, variable: Variable, at: Name | None = None) -> Name:
        kind = _type(variable.dtype, variable.width)
        place = self._place(variable, at)
        return self._emit(f"load {kind}, ptr {place}", variable.dtype, variable.width)

    def set(self, variable: Variable, x: Name, at: Name | None = None) -> None:
        kind = _type(variable.dtype, variable.width)
        self._do(f"store {kind} {x}, ptr {self._place(variable, at)}")

    def _place(self, variable: Variable, at: Name | None) -> str:
        text, spread = variable.text, 1
        if variable.offset is not None:
            text, spread = self._places[variable.text], max(1, self._vectors)
        if at is None:
            return text
        kind, at = _type(variable.dtype, variable.width), self.mul(at, spread)
        return self._emit(f"getelementptr {kind}, ptr {text}, i64 {at}", "p")

    def part(self, variable: Variable, lane: Name, width: int) -> Variable:
        size = item_size(variable.dtype)
        pointer = self.offset(Name(variable.text, "p"), self.mul(lane, size))
        return Variable(pointer, variable.dtype, width, 1)

    def stored_bytes(self, variable: Variable) -> int:
        bits = {"b1": 1, "n": 64}.get(variable.dtype) or 8 * item_size(variable.dtype)
        return -(-bits * variable.width // 8)

    def enter(self, vector: Name) -> None:
        self._places = {
            v.text: self.offset(
                self.offset(self.scratch, v.offset or 0), self.mul(vector, self.stored_bytes(v))
            )
            for v in self._lasting
        }

    # Blocks.

    def _start(self, label: str) -> None:
        self._lines.append(f"{label}:")

    def _jump(self, label: str) -> None:
        self._do(f"br label %{label}")

    def _branch(self, condition: Name, yes: str, no: str, *, rare: bool = False) -> None:
        hint = f", {RARELY}" if rare else ""
        self._do(f"br i1 {condition}, label %{yes}, label %{no}{hint}")

    @contextmanager
    def when(self, condition: Name, *, rare: bool = False) -> Iterator[None]:
        yes, after = self.fresh("then"), self.fresh("after")
        self._branch(condition, yes, after, rare=rare)
        self._start(yes)
        yield
        self._jump(after)
        self._start(after)

    def either(self, condition: Name, yes: Callable[[], None], no: Callable[[], None]) -> None:
        labels, after = (self.fresh("whole"), self.fresh("tail")), self.fresh("after")
        self._branch(condition, *labels)
        for label, write in zip(labels, (yes, no), strict=True):
            self._start(label)
            write()
            self._jump(after)
        self._start(after)

    @contextmanager
    def while_less(self, variable: Variable, limit: Name) -> Iterator[Name]:
        head, body, after = self.fresh("head"), self.fresh("body"), self.fresh("after")
        self._jump(head)
        self._start(head)
        value = self.get(variable)
        self._branch(self.less(value, limit), body, after)
        self._start(body)
        yield value
        self._jump(head)
        self._start(after)

    @contextmanager
    def count(self, low: Name, high: Name, step: Name | int = 1) -> Iterator[Name]:
        variable = self.variable("n", 1)
        self.set(variable, low)
        with self.while_less(variable, high) as i:
            yield i
            self.set(variable, self._emit(f"add nsw i64 {i}, {step}", "n"))


def _numbers(width: int) -> str:
    """0, 1, 2, ... as a constant of i64."""
    return f"<{', '.join(f'i64 {k}' for k in range(width))}>"


def _suffix(dtype: str, width: int) -> str:
    """How intrinsics' names end."""
    element = {"f2": "f16", "f4": "f32", "f8": "f64"}.get(dtype) or _type(dtype, 1)
    return element if width == 1 else f"v{width}{element}"
