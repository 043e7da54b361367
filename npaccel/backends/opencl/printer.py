"""OpenCL C text of one function, and of a program.

A work item runs every n-th task of the launch; on devices that are no processors a work group does,
see devices.py and groups.py of the emitter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from npaccel.backends.c.text import CText
from npaccel.backends.c.values import c_type
from npaccel.backends.emit.builder import Builder, Name, Variable
from npaccel.backends.emit.devices import COMPONENTS, SCRATCH_WORD, OnDevice, machine_of
from npaccel.backends.emit.machine import Machine
from npaccel.backends.emit.skeletons import symbols_of, write_finish, write_main
from npaccel.backends.layout import Layout
from npaccel.backends.opencl.preamble import DECLARATIONS, INSTRUCTIONS, PREAMBLE
from npaccel.ir.nodes import Kernel
from npaccel.ir.scalar import Core

__all__ = ["Device", "Printer", "write_source"]

_BUILTINS = {"POPCOUNT": "POPCOUNT", "CLZ": "clz", "MULHI": "mul_hi"}


@dataclass(frozen=True, slots=True)
class Device:
    """What a program depends on, besides its kernel.

    vector_bytes : size of the vectors to write; 0: one element at a time
    features : of the processor that its driver does not use unless told; see `PREAMBLE`
    group_size : work items that share a task; 1, or with vector_bytes 0 a power of two from 32 on
    by_double : whether quotients and roots of f4 go by f8; see Note [Quotients by double]
    """

    vector_bytes: int
    features: str = ""
    group_size: int = 1
    by_double: bool = False


def write_source(kernel: Kernel, device: Device) -> str:
    """Text of a program with kernel ``run`` and, if parts need combining, ``finish``."""
    texts, halves = [], dict[str, str]()
    machine = machine_of(device.vector_bytes, device.group_size)
    for name in symbols_of(kernel, "run"):
        b = Printer(machine, Layout.of(kernel).size, name, by_double=device.by_double)
        (write_main if name == "run" else write_finish)(b, kernel)
        body = _with_body(name, len(kernel.arrays), b, apart=device.vector_bytes > 0)
        texts += [*b.others, body]
        halves |= b.half_functions("FEATURES static")
    preamble = [*([f'#define WIDE "{device.features}"'] if device.features else []), PREAMBLE]
    preamble += [INSTRUCTIONS] if device.vector_bytes else []
    preamble += [DECLARATIONS] if device.group_size > 1 else []
    return "\n".join([*preamble, *halves.values(), *texts])


def _with_body(name: str, arrays: int, b: Printer, *, apart: bool) -> str:
    """The kernel function; `apart`: its body is a function of its own.

    A driver for processors copies a kernel function several times and compiles each copy.
    """
    types = ["global const long *", "global char *", "global char *", "global uint *"]
    types += ["global char *"] * arrays
    names = ["words", "scratches", "partials", "flags", *(f"a{k}" for k in range(arrays))]
    arguments = ", ".join(kind + name for kind, name in zip(types, names, strict=True))
    group_size = b.machine.group_size
    if group_size > 1:
        sized = f"__attribute__((reqd_work_group_size({group_size}, 1, 1)))"
        item = "const long item = get_group_id(0), items = get_num_groups(0);"
        lane = "const long lane = get_local_id(0);"
        return b.text(f"kernel {sized} void {name}({arguments})", [item, lane, b.own_scratch()])
    item = "const long item = get_global_id(0), items = get_global_size(0);"
    if not apart:
        return b.text(f"kernel void {name}({arguments})", [item, b.own_scratch()])
    head = f"__attribute__((noinline)) FEATURES static void {name}_body"
    body = b.text(f"{head}({arguments}, const long item, const long items)", [b.own_scratch()])
    call = f"{name}_body({', '.join(names)}, item, items);"
    return f"{body}kernel ALONE void {name}({arguments}) {{\n  {item}\n  {call}\n}}\n"


class Printer(OnDevice, CText):
    """Writes a kernel function; `words`: those that all backends know.

    others : functions that this one calls
    """

    space = "global "

    def __init__(self, machine: Machine, words: int, symbol: str = "", *, by_double: bool) -> None:
        super().__init__(machine)
        self.words, self._symbol, self._by_double = words, symbol, by_double
        self.item, self.items = Name("item", "n"), Name("items", "n")
        self.others = list[str]()
        self._apart: set[str] = set()
        self.lane_of_group = Name("lane", "n")
        self._shared = ""
        self._raised: list[int] = []

    def alike(self) -> Printer:
        return Printer(self.machine, self.words, by_double=self._by_double)

    def apart(
        self, what: str, names: Sequence[Name], write: Callable[[Builder, list[Name]], None]
    ) -> None:
        symbol = f"{self._symbol}_{what}"
        if what not in self._apart:
            self._apart.add(what)
            other = Apart(self.machine, self.words, symbol, by_double=self._by_double)
            other.halves = self.halves
            write(other, [Name(f"given{k}", x.dtype, x.width) for k, x in enumerate(names)])
            kinds = ["global const long *words", "global uint *flags"]
            kinds += [f"{_argument_type(x)} given{k}" for k, x in enumerate(names)]
            head = f"__attribute__((noinline)) FEATURES static void {symbol}({', '.join(kinds)})"
            self.others += [*other.others, other.text(head)]
        self.do(f"{symbol}({', '.join(['words', 'flags', *names])});")

    def own_scratch(self) -> str:
        """The statement that finds this item's or group's scratch memory.

        It stands before all others: those that declare variables have addresses there.
        """
        return f"global char *scratch = scratches + item * words[{self.words + SCRATCH_WORD}];"

    # Expressions.

    def _splat_text(self, kind: str, width: int, text: str) -> str:
        return f"(({kind})({text}))"

    def _vector_text(self, kind: str, texts: Sequence[str]) -> str:
        return f"(({kind})({', '.join(texts)}))"

    def _lane_text(self, text: str, lane: int) -> str:
        return f"{text}.s{lane:x}"

    def _lanes_text(self, kind: str, x: str, lanes: Sequence[int]) -> str:
        return f"{x}.s{''.join(f'{lane:x}' for lane in lanes)}"

    def _choice_text(self, kind: str, mask: Name, yes: str, no: str) -> str:
        return f"{mask} ? {yes} : {no}"

    def _call(self, name: str, kind: str, names: Sequence[str]) -> str:
        if name in _BUILTINS:
            return f"{_BUILTINS[name]}({', '.join(names)})"
        return f"{name}({kind}, {', '.join(names)})"

    def _float(self, op: Core, names: Sequence[Name]) -> Name:
        dtype, width = names[0].dtype, names[0].width
        if op not in (Core.DIV, Core.SQRT) or dtype == "f8" or not self._by_double:
            return super()._float(op, names)
        wide = super()._float(op, [self.cast(name, "f8") for name in names])
        return self._rounded(dtype, width, self._wide(wide, "float"))

    # Arguments.

    def base(self, array: int, index: int) -> Name:
        return self.offset(Name(f"a{array}", "p"), Name(f"words[{index}]", "n"))

    def partials(self, index: int) -> Name:
        return Name("partials", "p")

    def raise_flags(self, slot: int, bits: Name) -> None:
        # An atomic operation among the loads of a loop would keep them in order.
        if slot not in self._raised:
            self._raised.append(slot)
            self._tops.append(f"  uint raised{slot} = 0;")
        self.do(f"raised{slot} |= {bits};")

    def text(self, signature: str, first: Sequence[str] = ()) -> str:
        for slot in self._raised:
            self.do(f"if (raised{slot} != 0) atomic_or(flags + {slot}, raised{slot});")
        return super().text(signature, first)

    # Work groups.

    def barrier(self) -> None:
        self.do("barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);")

    def shared_tile(self, dtype: str, count: int) -> Variable:
        name = self.fresh("tile")
        self._tops.append(f"  local {c_type(dtype, 1)} {name}[{count}];")
        return Variable(name, dtype, 1, count)

    def shared(self, dtype: str, place: int) -> Variable:
        size, kind = self.machine.group_size, f"local {c_type(dtype, 1)} *"
        if not self._shared:
            self._shared = self.fresh("v")
            self._tops.append(f"  local ulong {self._shared}[{COMPONENTS * size}];")
        name = self.fresh("shared")
        self.do(f"{kind}{name} = ({kind})({self._shared} + {place * size});")
        return Variable(name, dtype, 1, size)


class Apart(Printer):
    """Writes a function that a kernel function calls, which tells it where the elements lie."""

    def base(self, array: int, index: int) -> Name:
        return Name("((global char *)0)", "p")  # of arrays that it does not read


def _argument_type(x: Name) -> str:
    return "const global char *" if x.dtype == "p" else c_type(x.dtype, x.width)


# Note [Quotients by double]
# OpenCL lets a device err by 2.5 units in the last place in quotients of floats and by 3 in square
# roots, unless it says that it rounds them correctly; those of doubles are always right. A double
# has 53 >= 2 * 24 + 2 bits, so that a quotient or root which is rounded to a double and then to a
# float is the float nearest to the true one, subnormal ones included: the first rounding never
# puts it in the middle between two floats (Figueroa, "When is double rounding innocuous?", 1995).
