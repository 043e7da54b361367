"""Runs rows of the operation table as compiled loops: loads, one body, stores."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace

import llvmlite.binding as llvm
import numpy as np

from npaccel.backends.emit import access
from npaccel.backends.emit.body import evaluate
from npaccel.backends.emit.builder import Name, Which
from npaccel.backends.llvm.printer import FOOTER, Printer, machine_of
from npaccel.ir.nodes import FlagKind, Stride
from npaccel.ir.operation import Op
from npaccel.ir.scalar import Expr, Pool, item_size

WIDTH = 8
FLAG_NAMES = {
    FlagKind.DIVIDE: "divide by zero",
    FlagKind.OVER: "overflow",
    FlagKind.INVALID: "invalid value",
}


@dataclass(frozen=True)
class Case:
    """A row with the dtypes of its loop, inputs then outputs."""

    op: Op
    loop: tuple[str, ...]

    @property
    def ins(self) -> tuple[str, ...]:
        return self.loop[: self.op.nin]

    @property
    def outs(self) -> tuple[str, ...]:
        return self.loop[self.op.nin :]

    def __str__(self) -> str:
        return f"{self.op.name}({','.join(self.ins)}->{','.join(self.outs)})"


def expressions(case: Case) -> tuple[list[Expr], list[Expr], list[FlagKind], Expr]:
    """Operands, results, kinds of flags and, as the last results, their masks; and the guard."""
    pool = Pool()
    operands = tuple(pool.load(d, i) for i, d in enumerate(case.ins))
    assert case.op.body is not None
    made = case.op.body(*operands)
    results = made if isinstance(made, tuple) else (made,)
    assert tuple(r.dtype for r in results) == case.outs, str(case)
    masks = case.op.flags(operands, results) if case.op.flags else ()
    guard = None
    if masks:
        guard = case.op.guard(operands, results) if case.op.guard else default_guard(results)
    guard = guard or pool.const("b1", False)
    kinds = [kind for kind, _ in masks]
    return list(operands), [*results, *(m for _, m in masks), guard], kinds, guard


def default_guard(results: Sequence[Expr]) -> Expr:
    parts = [
        p
        for r in results
        for p in ((r.real(), r.imag()) if r.dtype[0] == "c" else (r,))
        if p.dtype[0] == "f"
    ]
    guard = parts[0].nonfinite()
    for part in parts[1:]:
        guard = guard | part.nonfinite()
    return guard


def _write(
    name: str, loads: Sequence[Expr], roots: Sequence[Expr], width: int, registers: int
) -> Printer:
    """Vectors of `width`: a function that reads the words' first arrays, and writes the others."""
    machine = replace(machine_of(registers), vector_bytes=8 * width)
    b = Printer(machine, set(), name)
    bases = [b.base(k, k) for k in range(len(loads) + len(roots))]

    def place(node: Expr, index: int, i: Name) -> access.Place:
        size = item_size(node.dtype)
        pointer = b.offset(bases[index], b.mul(i, size * width))
        return access.Place(node.dtype, pointer, Stride.UNIT, b.n(size))

    with b.tasks() as task, b.count(task.band_low, task.band_high) as i:
        given = {x: access.load(b, place(x, k, i), width, None) for k, x in enumerate(loads)}
        (values,), _ = evaluate(b, width, roots, [lambda leaf, _: given[leaf]])
        for k, root in enumerate(roots, len(loads)):
            access.store(b, place(root, k, i), values[root], Which())
    return b


class Module:
    """Many functions compiled at once, as for a machine with registers of so many bytes."""

    def __init__(
        self,
        functions: dict[str, tuple[list[Expr], list[Expr]]],
        width: int = WIDTH,
        cpu: str = "",
        registers: int = 64,
    ) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        texts, declarations = [], set()
        for name, (loads, roots) in functions.items():
            printer = _write(name, loads, roots, width, registers)
            texts.append(printer.text())
            declarations |= printer.declarations
        attributes = "attributes #0 = { nounwind }\n"
        module = llvm.parse_assembly("\n".join([*texts, *sorted(declarations), attributes, FOOTER]))
        module.verify()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=cpu or llvm.get_host_cpu_name(),
            features="" if cpu else llvm.get_host_cpu_features().flatten(),
            opt=2,
        )
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        self.width = width
        self.assembly = machine.emit_assembly(module) if cpu else ""
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._functions = functions

    def run(self, name: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Results of the roots for equally long inputs."""
        loads, roots = self._functions[name]
        n = len(arrays[0])
        blocks = -(-n // self.width)
        padded = []
        for load, array in zip(loads, arrays, strict=True):
            full = np.ones(blocks * self.width, load.dtype)
            full[:n] = array
            padded.append(full)
        outs = [np.zeros(blocks * self.width, r.dtype) for r in roots]
        self.call(name, [*padded, *outs], blocks)
        return [out[:n] for out in outs]

    def call(self, name: str, arrays: Sequence[np.ndarray], blocks: int) -> None:
        words = np.array([array.ctypes.data for array in arrays], "i8")
        bounds = np.array([0, blocks, 0, 0], "i8")
        address = self._engine.get_function_address(name)
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
        kind(address)(words.ctypes.data, bounds.ctypes.data, None, None)
