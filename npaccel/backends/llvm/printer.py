"""LLVM IR text of one function.

State that changes lives in variables (allocas of the entry block), which LLVM's first pass turns
into registers; so no phi is ever written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from npaccel.backends.emit.builder import Builder, Name, Range, Variable
from npaccel.backends.emit.machine import Machine
from npaccel.backends.emit.skeletons import symbols_of, write_finish, write_main
from npaccel.backends.llvm.memory import LlvmMemory
from npaccel.backends.llvm.values import llvm_type, memory_type, typed
from npaccel.ir.nodes import Kernel
from npaccel.ir.scalar import Core, item_size

__all__ = ["Printer", "machine_of", "write_module", "write_source"]

RARELY = "!prof !0"
# Lines up to which a function apart is optimised: that takes a few ms, and some data has many NaN.
SMALL_APART = 400
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
        in_flight=(2, 4, 4),
        # Four times the registers: to spill a value takes less time than to wait for one.
        held=128 if vector_bytes == 64 else 64,
        # Scalars are operands in memory with AVX-512; else each takes a register, and twice as many
        # vectors spill (Horner, 60 steps of 2^20 f8 on Zen 3: 6.0 ms for 4.6).
        few=32 if vector_bytes == 64 else 8,
        large_body=480,
        masked_bytes=masked,
        copies=True,
        halves=True,
        streams=True,
        calls=True,
        fuses=vector_bytes >= 32,
        converts=vector_bytes != 32,
        masks=vector_bytes != 32,
    )


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


class Printer(LlvmMemory):
    """The text of a function ``(words, range, scratch, flags)``, which the C core calls.

    others : functions that this one calls
    passed : what they are given of this one's arguments
    """

    passed: tuple[str, ...] = ("ptr %words", "ptr %range", "ptr %scratch", "ptr %flags")

    def __init__(self, machine: Machine, declarations: set[str], symbol: str = "main") -> None:
        super().__init__(machine, declarations)
        self.symbol, self.others = symbol, list[str]()
        self._apart: set[str] = set()
        self.scratch = Name("%scratch", "p")
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
            other = self._beside(symbol)
            given = [Name(f"%given{k}", x.dtype, x.width) for k, x in enumerate(names)]
            write(other, given)
            self.others += [*other.others, other._text_apart(given)]
        arguments = ", ".join([*self.passed, *map(typed, names)])
        self._do(f"call void @{symbol}({arguments})")

    def _beside(self, symbol: str) -> Printer:
        """What writes a function that this one calls."""
        return Printer(self.machine, self.declarations, symbol)

    def _text_apart(self, given: Sequence[Name]) -> str:
        """The whole of such a function."""
        large = len(self._lines) > SMALL_APART
        more = "".join(f", {typed(name)}" for name in given)
        return self.text("internal", more, "#1" if large else "#2")

    # Arguments.

    def word(self, index: int) -> Name:
        return self._word("n", index)

    def _word(self, dtype: str, index: int) -> Name:
        return self._at(dtype, self.offset(Name("%words", "p"), 8 * index))

    def _at(self, dtype: str, pointer: Name) -> Name:
        return self._emit(f"load {memory_type(dtype, 1)}, ptr {pointer}", dtype)

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
        name, kind = "%" + self.fresh("v"), self._kept_type(dtype, width)
        array = kind if count == 1 else f"[{count} x {kind}]"
        self._allocas.append(f"{name} = alloca {array}, align 64")
        return Variable(name, dtype, width, count)

    def _kept_type(self, dtype: str, width: int) -> str:
        """Of a variable. Without AVX-512, LLVM takes masks of more lanes than a register has bytes
        apart, lane by lane, where they live longer than a block. As bytes they stay whole."""
        bytewise = dtype == "b1" and 0 < self.machine.vector_bytes < min(64, width)
        return llvm_type("i1" if bytewise else dtype, width)

    def get(self, variable: Variable, at: Name | None = None) -> Name:
        dtype, width = variable.dtype, variable.width
        kept, place = self._kept_type(dtype, width), self._place(variable, at)
        x = self._emit(f"load {kept}, ptr {place}", dtype, width)
        if kept == llvm_type(dtype, width):
            return x
        return self._emit(f"icmp slt {kept} {x}, zeroinitializer", dtype, width)

    def set(self, variable: Variable, x: Name, at: Name | None = None) -> None:
        kept, place = self._kept_type(variable.dtype, variable.width), self._place(variable, at)
        if kept != llvm_type(variable.dtype, variable.width):
            x = self._emit(f"sext {typed(x)} to {kept}", "i1", variable.width)
            words = self._emit(
                f"bitcast {typed(x)} to <{x.width // 8} x double>", "f8", x.width // 8
            )
            x = self._emit(f"bitcast {typed(self.fence(words))} to {kept}", "i1", x.width)
        self._do(f"store {kept} {x}, ptr {place}")

    def _place(self, variable: Variable, at: Name | None) -> str:
        text, spread = variable.text, 1
        if variable.offset is not None:
            text, spread = self._places[variable.text], max(1, self.members)
        if at is None:
            return text
        kind, at = self._kept_type(variable.dtype, variable.width), self.mul(at, spread)
        return self._emit(f"getelementptr {kind}, ptr {text}, i64 {at}", "p")

    def part(self, variable: Variable, lane: Name, width: int) -> Variable:
        size = item_size(variable.dtype)
        pointer = self.offset(Name(variable.text, "p"), self.mul(lane, size))
        return Variable(pointer, variable.dtype, width, 1)

    def stored_bytes(self, variable: Variable) -> int:
        dtype, width = variable.dtype, variable.width
        if self._kept_type(dtype, width) != llvm_type(dtype, width):
            return width
        bits = {"b1": 1, "n": 64}.get(dtype) or 8 * item_size(dtype)
        return -(-bits * width // 8)

    def enter(self, member: Name) -> None:
        self._places = {
            v.text: self.offset(
                self.offset(self.scratch, v.offset or 0), self.mul(member, self.stored_bytes(v))
            )
            for v in self._lasting
        }

    # Branches.

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
