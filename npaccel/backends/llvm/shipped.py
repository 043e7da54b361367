"""Primitives as object code that is linked into the compiled core, per level of a processor's kind.

The build runs it (tools/ship_primitives.py), before there is a compiled core.
"""

from __future__ import annotations

import platform

from npaccel.backends.llvm.printer import write_module
from npaccel.backends.llvm.target import Host
from npaccel.backends.primitives import Primitive, primitive_kernel, primitives
from npaccel.ir.nodes import Kernel
from npaccel.ir.text import body_text

__all__ = ["LEVELS", "build"]

# Per machine: names of levels, LLVM's processor, bytes of a vector register; the best one first.
LEVELS = {
    "x86_64": {"v4": ("x86-64-v4", 64), "v3": ("x86-64-v3", 32)},
    "aarch64": {"neon": ("generic", 16)},
}

_TABLE = """\
/* Made by shipped.py. */
#include "loops/primitive.h"\n\n#include <stddef.h>

{functions}
const npa_primitive npa_primitives_{level}[] = {{
{rows}
    {{NULL, NULL, 0, false, 0, NULL, false, false, NULL}}}};
"""


def build(level: str) -> tuple[bytes, str]:
    """Object code for a level, of this machine's family or another, and C text: its table."""
    family = next(family for family, levels in LEVELS.items() if level in levels)
    cpu, vector_bytes = LEVELS[family][level]
    other = "" if family == platform.machine() else f"{family}-unknown-linux-gnu"
    host = Host(cpu, vector_bytes, other)
    kernels: dict[str, Kernel] = {}  # by their functions' names
    names: dict[str, str] = {}  # by the kernel's text: powers and roots, say, are often the same
    rows = []
    for primitive in primitives():
        kernel = primitive_kernel(primitive)
        symbol = names.setdefault(body_text(kernel), f"npa_{level}_{primitive.symbol}")
        kernels.setdefault(symbol, kernel)
        rows.append(_row(symbol, primitive))
    made = [((symbol,), kernel) for symbol, kernel in kernels.items()]
    text = write_module(made, vector_bytes, fence=host.fence, linkage="hidden")
    functions = "\n".join(f"extern npa_block_function {symbol};" for symbol in kernels)
    table = _TABLE.format(level=level, functions=functions, rows="\n".join(rows))
    return host.emit_object(text), table


def _row(symbol: str, primitive: Primitive) -> str:
    loop, value = " ".join(primitive.loop), primitive.value
    still = sum(1 << k for k, still in enumerate(primitive.still) if still)
    constant = "false, 0" if value is None else f"true, {value!r}"
    facts = ";".join(f"{question}={answer}" for question, answer in primitive.facts)
    kind = f"{primitive.exact}, {primitive.fast}".lower()
    name = primitive.op.name
    return f'    {{"{name}", "{loop}", {still}, {constant}, "{facts}", {kind}, {symbol}}},'
