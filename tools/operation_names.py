"""Run by the build: what is asked of operations before any is planned, without the tables.

    python operation_names.py PACKAGE OUTPUT...

An output is `npaccel/ir/names.py`, which the stub beside it describes, or, where its name ends
with .h, a C header. Both follow from the rows of `npaccel/ir/ops.py` and `passes/rewrite.py`, which
take long to load. There is no compiled core yet, so npaccel's own `__init__`, which needs it, is
passed by.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import operator
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DTYPES = ["b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]


def names(ops: Any, rewrite: Any) -> Iterator[tuple[str, set[str]]]:
    """The sets of the stub."""
    exact = {op.name for op in (*ops.EXACT, *ops.PIECES, *ops.REMAINDERS)}
    inexact: dict[str, set[str]] = {}
    for op in ops.MATHEMATICS:
        inexact.setdefault(op.name, set()).update(op.kinds)
    yield "FOLDING", {op.name for op in ops.OPS if op.fold} - {"argmin", "argmax"}
    yield "SAME_BITS", exact - set(inexact)
    yield "SAME_BITS_IF_REAL", {name for name in exact if inexact.get(name) == {"c"}}
    yield "SCIPYS", {op.name for op in ops.SPECIAL}
    yield "VALUED", {rule.op for rule in rewrite.REQUEST_RULES}


def warning(ops: Any) -> dict[str, str]:
    """Per operation the kinds for which NumPy's loop may warn."""
    found: dict[str, str] = {}
    for op in ops.OPS:
        if op.name != "copy":
            warns = op.warns if op.flags is None else op.kinds
            kinds = "".join(kind for kind in op.kinds if kind in warns)
            found[op.name] = found.get(op.name, "") + kinds
    return found


def raises(ops: Any, facts: Any) -> dict[str, dict[str, int]]:
    """Per operation and kind (of a copy, both kinds) what its kernels may warn of."""
    found: dict[str, dict[str, int]] = {"copy": {}}
    for op in ops.OPS:
        if op.name != "copy" and op.body is not None and not op.without:
            for kind in op.kinds:
                loops = [(dtype,) * (op.nin + op.nout) for dtype in DTYPES if dtype[0] == kind]
                found.setdefault(op.name, {})[kind] = _union(facts, op.name, loops)
    for a, b in itertools.product("biufc", repeat=2):
        loops = [(x, y) for x in DTYPES if x[0] == a for y in DTYPES if y[0] == b]
        found["copy"][a + b] = _union(facts, "copy", loops)
    return found


def _union(facts: Any, name: str, loops: list[tuple[str, ...]]) -> int:
    return functools.reduce(operator.or_, (sum(facts.flag_kinds(name, loop)) for loop in loops))


def ordered(ops: Any, facts: Any) -> dict[str, str]:
    """Per operation the kinds for which a reduction's last bits depend on its order."""
    found: dict[str, str] = {}
    for op in ops.OPS:
        kinds = "".join(kind for kind in op.kinds if kind in "fc")
        if op.fold in facts.ORDERED and kinds:
            found[op.name] = found.get(op.name, "") + kinds
    return found


def main(package: str, *outputs: str) -> None:
    """What the build calls."""
    bare = types.ModuleType("npaccel")
    bare.__path__ = [package]
    sys.modules["npaccel"] = bare
    ops, facts, rewrite = (
        importlib.import_module(f"npaccel.ir.{name}")
        for name in ("ops", "passes.facts", "passes.rewrite")
    )
    module = ['"""Made by operation_names.py; names.pyi says what is here."""']
    module += [f"{k} = frozenset({sorted(v)})" for k, v in names(ops, rewrite)]
    module += [f"RAISES = {raises(ops, facts)}", f"WARNING = {warning(ops)}"]
    header = ["/* Made by operation_names.py. */"]
    header += ["static const struct { const char *name, *kinds; } ordered_folds[] = {"]
    header += [f'    {{"{name}", "{kinds}"}},' for name, kinds in ordered(ops, facts).items()]
    header += ["};"]
    for output in outputs:
        lines = header if output.endswith(".h") else module
        Path(output).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
