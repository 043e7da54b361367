"""C11 with vector extensions, as GCC and Clang have them: text of a kernel's functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from npaccel.backends.c.text import CText
from npaccel.backends.c.values import SIGNED
from npaccel.backends.emit.builder import Name, Range
from npaccel.backends.emit.machine import Machine
from npaccel.backends.emit.skeletons import symbols_of, write_finish, write_main
from npaccel.ir.nodes import Kernel
from npaccel.ir.text import kernel_text

__all__ = ["Printer", "machine_of", "write_source"]

WIDEST = 64
PREAMBLE = """\
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
#define AS(T, x) ({ union { __typeof__(x) old; T now; } u_ = {x}; u_.now; })
#define CONVERT(T, x) __builtin_convertvector(x, T)
#define CHOOSE(T, m, y, n) ((T)(((m) & (__typeof__(m))(y)) | (~(m) & (__typeof__(m))(n))))
#define LOAD(T, n, p) (*(const T##n##_at *)(p))
#define STORE(T, n, x, p) *(T##n##_at *)(p) = x
#define FETCH(p) __builtin_prefetch(p, 0, 2)
#define RARELY(x) __builtin_expect((x) != 0, 0)
"""
_BASES = ["char", "short", "int", "long", "uchar", "ushort", "uint", "ulong", "float", "double"]
_VECTOR = re.compile(rf"\b({'|'.join(_BASES)})(2|4|8|16|32|64)\b")
_MOVED = re.compile(rf"(?:LOAD|STORE)\(({'|'.join(_BASES)}), (\d+)")
_SINGLE = re.compile(rf"\b({'|'.join(_BASES)})_at\b")
_SPLAT = re.compile(r"\bSPLAT_(\d+)")
_FLOATS = {
    "ABS": "fabs",
    "FLOOR": "floor",
    "CEIL": "ceil",
    "TRUNC": "trunc",
    "RINT": "roundeven",
    "SQRT": "sqrt",
    "FMA": "fma",
}
_WHOLE = {
    "POPCOUNT": "return __builtin_popcountl(x);",
    "CLZ": "return x ? __builtin_clzl(x) - (64 - 8 * sizeof x) : 8 * sizeof x;",
    "MULHI": "return (unsigned __int128)x * y >> 64;",
}


def machine_of(vector_bytes: int) -> Machine:
    """A processor with vector registers of that size."""
    return Machine(vector_bytes, widest=WIDEST, in_flight=(2, 2, 1), masked_bytes=99, copies=True)


def write_source(kernel: Kernel, vector_bytes: int) -> str:
    """Text of a file with function ``run`` and, if parts need combining, ``finish``."""
    functions: dict[str, str] = {}
    texts = []
    for name in symbols_of(kernel, "run"):
        b = Printer(machine_of(vector_bytes), functions)
        (write_main if name == "run" else write_finish)(b, kernel)
        arguments = "const long *words, const long *range, char *scratch, uint *flags"
        texts.append(b.text(f"void {name}({arguments})"))
        functions |= b.half_functions("static inline")
    body = "\n".join([*functions.values(), *texts])
    return "\n".join([f"/*\n{kernel_text(kernel)}\n*/", PREAMBLE, *_types(body), "", body])


def _types(text: str) -> Iterator[str]:
    """Declarations of the vectors that a text uses, and of what lies in memory, whatever its type
    there: views of one array may have several."""
    moved = {(kind, int(lanes)) for kind, lanes in _MOVED.findall(text)}
    for kind, lanes in sorted({(k, int(n)) for k, n in _VECTOR.findall(text)} | moved):
        size = f"{lanes} * sizeof({kind})"
        yield f"typedef {kind} {kind}{lanes} __attribute__((vector_size({size})));"
    for kind, lanes in sorted(moved):
        aligned = f"aligned(sizeof({kind})), may_alias"
        yield f"typedef {kind}{lanes} {kind}{lanes}_at __attribute__(({aligned}));"
    for kind in sorted(set(_SINGLE.findall(text))):
        yield f"typedef {kind} {kind}_at __attribute__((may_alias));"
    for lanes in sorted(set(map(int, _SPLAT.findall(text)))):
        yield f"#define SPLAT_{lanes}(T, x) ((T){{{', '.join('x' * lanes)}}})"


class Printer(CText):
    """Writes a function ``(words, range, scratch, flags)``, which the C core calls.

    functions : text of those that the file needs, by name; added to
    """

    def __init__(self, machine: Machine, functions: dict[str, str]) -> None:
        super().__init__(machine)
        self._functions = functions

    def alike(self) -> Printer:
        return Printer(self.machine, self._functions)

    # Expressions.

    def _splat_text(self, kind: str, width: int, text: str) -> str:
        return f"SPLAT_{width}({kind}, {text})"

    def _vector_text(self, kind: str, texts: Sequence[str]) -> str:
        return f"(({kind}){{{', '.join(texts)}}})"

    def _lane_text(self, text: str, lane: int) -> str:
        return f"{text}[{lane}]"

    def _choice_text(self, kind: str, mask: Name, yes: str, no: str) -> str:
        return f"CHOOSE({kind}, {mask}, {yes}, {no})"

    def _call(self, name: str, kind: str, names: Sequence[str]) -> str:
        function = f"{name}_{kind}"
        if function not in self._functions:
            self._functions[function] = _function(name, kind, len(names))
        return f"{function}({', '.join(names)})"

    # Arguments.

    def base(self, array: int, index: int) -> Name:
        return Name(self.let("char *", f"(char *)words[{index}]"), "p")

    def partials(self, index: int) -> Name:
        return self.base(0, index)

    @contextmanager
    def tasks(self) -> Iterator[Range]:
        yield Range(*(self._long(f"range[{k}]") for k in range(4)))

    def raise_flags(self, slot: int, bits: Name) -> None:
        self.do(f"if ({bits}) __atomic_fetch_or(flags + {slot}, {bits}, __ATOMIC_RELAXED);")


def _function(name: str, kind: str, count: int) -> str:
    """A function of `count` values, which the compiler makes an instruction of."""
    names = ("x", "y", "z")[:count]
    signature = f"static inline {kind} {name}_{kind}({', '.join(f'{kind} {x}' for x in names)})"
    if name in _WHOLE:
        return f"{signature} {{ {_WHOLE[name]} }}\n"
    base = kind.rstrip("0123456789")
    suffix = "f" if base == "float" else ""
    function = f"__builtin_{_FLOATS[name]}{suffix}"
    lanes = int(kind[len(base) :] or 1)
    if lanes == 1:
        return f"{signature} {{ return {function}({', '.join(names)}); }}\n"
    if name == "ABS":
        bits = f"{SIGNED[8 if base == 'double' else 4]}{lanes}"
        most = "0x7fffffffffffffffL" if base == "double" else "0x7fffffff"
        return f"{signature} {{ return ({kind})(({bits})x & {most}); }}\n"
    calls = [f"{function}({', '.join(f'{x}[{k}]' for x in names)})" for k in range(lanes)]
    inside = ",\n    ".join(calls)
    return f"{signature}\n{{\n  return ({kind}){{\n    {inside}}};\n}}\n"
