"""LLVM IR of kernel functions for NVIDIA's devices: that of one work item.

What LLVM IR is in general the host's printer says; here is what an item has: its number, its
group, memory that the group shares. See devices.py and groups.py of the emitter.
"""

from __future__ import annotations

from collections.abc import Sequence

from npaccel.backends.emit.builder import Name, Variable
from npaccel.backends.emit.devices import COMPONENTS, SCRATCH_WORD, OnDevice, machine_of
from npaccel.backends.emit.machine import Machine
from npaccel.backends.emit.skeletons import symbols_of, write_finish, write_main
from npaccel.backends.layout import Layout
from npaccel.backends.llvm.printer import FOOTER
from npaccel.backends.llvm.printer import Printer as LlvmPrinter
from npaccel.backends.llvm.values import llvm_type, typed
from npaccel.ir.nodes import Kernel
from npaccel.ir.scalar import Core, item_size

__all__ = ["Printer", "write_source"]

# Registers of PTX that say who an item is; all of one dimension.
_REGISTERS = {"lane": "tid", "item": "ctaid", "items": "nctaid"}
# Sizes and alignments, without which what is loaded is taken apart.
LAYOUT = 'target datalayout = "e-p3:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"'
_WORDS = "ptr noalias readonly %words"
# A move that LLVM does not see through; by bits.
_MOVES = {16: ("h", "b16"), 32: ("r", "b32"), 64: ("l", "b64")}


def write_source(kernel: Kernel, group_size: int) -> str:
    """Text of a module with kernel ``run`` and, if parts need combining, ``finish``."""
    declarations: set[str] = set()
    texts = []
    for symbol in symbols_of(kernel, "run"):
        b = Printer(machine_of(0, group_size), declarations, Layout.of(kernel).size, symbol)
        b.begin()
        (write_main if symbol == "run" else write_finish)(b, kernel)
        texts += [*b.shared_memory, *b.others, b.kernel_text(len(kernel.arrays))]
    attributes = (
        f'attributes #0 = {{ nounwind "nvvm.reqntid"="{group_size}" }}\n'
        "attributes #1 = { nounwind noinline }\n"
    )
    return "\n".join([LAYOUT, *texts, *sorted(declarations), attributes, FOOTER])


class Printer(OnDevice, LlvmPrinter):
    """Writes a kernel function.

    others : functions that this one calls
    shared_memory : what the items of a group share
    """

    passed = ("ptr %words", "ptr %flags")

    def __init__(self, machine: Machine, declarations: set[str], words: int, symbol: str) -> None:
        super().__init__(machine, declarations, symbol)
        self.words = words
        self.item, self.items = Name("%item", "n"), Name("%items", "n")
        self.lane_of_group = Name("%lane", "n")
        self.shared_memory: list[str] = []
        self._pairs: Name | None = None
        self._raised: dict[int, Variable] = {}

    def begin(self) -> None:
        """What stands before all else: who this item is, and where its group's scratch lies."""
        for name, register in _REGISTERS.items():
            number = self._emit(self._call(f"nvvm.read.ptx.sreg.{register}.x", [], "i32"), "")
            self._do(f"%{name} = zext i32 {number} to i64")
        size = self.mul(self.item, self.extra(SCRATCH_WORD))
        self._do(f"%scratch = getelementptr i8, ptr %scratches, i64 {size}")

    def kernel_text(self, arrays: int) -> str:
        """The whole function."""
        given = [_WORDS, "ptr %scratches", "ptr %partials", "ptr %flags"]
        given += [f"ptr %a{k}" for k in range(arrays)]
        return self._function(f"define ptx_kernel void @{self.symbol}({', '.join(given)}) #0")

    def _function(self, head: str) -> str:
        for slot, raised in self._raised.items():
            bits = self.get(raised)
            with self.when(self.compare(Core.NE, bits, Name("0", "u4"))):
                target = self.offset(Name("%flags", "p"), 4 * slot)
                self._do(f"atomicrmw or ptr {target}, i32 {bits} monotonic")
        body = "\n".join(["entry:", *self._allocas, *self._lines, "ret void"])
        return f"{head} {{\n{body}\n}}\n"

    def _beside(self, symbol: str) -> Printer:
        return Apart(self.machine, self.declarations, self.words, symbol)

    def _text_apart(self, given: Sequence[Name]) -> str:
        arguments = ", ".join([_WORDS, "ptr %flags", *map(typed, given)])
        return self._function(f"define internal void @{self.symbol}({arguments}) #1")

    # Values.

    def fence(self, x: Name) -> Name:
        kind, number = llvm_type(x.dtype, 1), f"i{8 * item_size(x.dtype)}"
        letter, move = _MOVES[8 * item_size(x.dtype)]
        bits = self._emit(f"bitcast {kind} {x} to {number}", "")
        text = f'call {number} asm "mov.{move} $0, $1;", "={letter},{letter}"({number} {bits})'
        moved = self._emit(text, "")
        return self._emit(f"bitcast {number} {moved} to {kind}", x.dtype)

    def flipped(self, x: Name) -> Name:
        # PTX leaves open what its own instruction makes of NaNs.
        number = f"i{item_size(x.dtype)}"
        sign = self.constant(number, -(1 << (8 * item_size(x.dtype) - 1)), 1)
        bits = self.instruction(Core.XOR, (self.reinterpret(self.fence(x), number), sign))
        return self.fence(self.reinterpret(bits, x.dtype))

    # Arguments.

    def base(self, array: int, index: int) -> Name:
        return self.offset(Name(f"%a{array}", "p"), self.word(index))

    def partials(self, index: int) -> Name:
        return Name("%partials", "p")

    def raise_flags(self, slot: int, bits: Name) -> None:
        if slot not in self._raised:
            raised = self._raised[slot] = self.variable("u4", 1)
            self._allocas.append(f"store i32 0, ptr {raised.text}")
        raised = self._raised[slot]
        self.set(raised, self.instruction(Core.OR, (self.get(raised), bits)))

    # Work groups.

    def barrier(self) -> None:
        self._do(self._call("nvvm.barrier0", []))

    def shared_tile(self, dtype: str, count: int) -> Variable:
        return Variable(self._shared_array(llvm_type(dtype, 1), count), dtype, 1, count)

    def shared(self, dtype: str, place: int) -> Variable:
        size = self.machine.group_size
        if self._pairs is None:
            self._pairs = Name(self._shared_array("i64", COMPONENTS * size), "p")
        return Variable(self.offset(self._pairs, 8 * place * size), dtype, 1, size)

    def _shared_array(self, kind: str, count: int) -> str:
        symbol = f"@{self.symbol}_shared{len(self.shared_memory)}"
        memory = f"internal addrspace(3) global [{count} x {kind}] undef, align 16"
        self.shared_memory.append(f"{symbol} = {memory}")
        name = f"%{self.fresh('shared')}"
        self._allocas.append(f"{name} = addrspacecast ptr addrspace(3) {symbol} to ptr")
        return name


class Apart(Printer):
    """Writes a function that a kernel function calls, which tells it where the elements lie."""

    def base(self, array: int, index: int) -> Name:
        return Name("null", "p")  # of arrays that it does not read
