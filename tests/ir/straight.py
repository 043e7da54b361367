"""Runs rows of the operation table as compiled loops: loads, one body, stores."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import llvmlite.binding as llvm
import numpy as np

from npaccel.backends.llvm.scalar import Value, Writer, llvm_type
from npaccel.ir.nodes import FlagKind
from npaccel.ir.operation import Op
from npaccel.ir.scalar import Core, Expr, Pool, item_size, rare_parts

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


def _memory_type(dtype: str, width: int) -> str:
    if dtype == "b1":
        return llvm_type("u1", width)
    if dtype[0] == "c":
        return llvm_type("f4" if dtype == "c8" else "f8", 2 * width)
    return llvm_type(dtype, width)


def _lanes(indices: Sequence[int]) -> str:
    return f"<{len(indices)} x i32> <" + ", ".join(f"i32 {i}" for i in indices) + ">"


class _Function:
    """`void name(ptr..., i64 blocks)`: one pointer per load and per root; vectors of `width`."""

    def __init__(self, name: str, loads: Sequence[Expr], roots: Sequence[Expr], width: int) -> None:
        self.width, self.loads, self.roots = width, loads, roots
        self.writer = Writer(width, "v")
        self.block = "loop"
        self.values: dict[Expr, Value] = {}
        pointers = [f"ptr %p{i}" for i in range(len(loads) + len(roots))]
        emit = self.writer.lines.append
        emit(f"define void @{name}({', '.join(pointers)}, i64 %n) {{")
        emit("entry:\n br label %loop")
        emit("loop:")
        emit("%i = phi i64 [0, %entry], [%next, %latch]")
        for index, load in enumerate(loads):
            self.values[load] = self._load(load, index)
        order, parts = rare_parts(roots)
        for node in order:
            if node in self.values:
                continue
            if node.op is Core.RARE:
                self._rare(node, parts[node])
            else:
                self._node(node)
        for index, root in enumerate(roots):
            self._store(root, index + len(loads))
        emit("br label %latch\nlatch:\n%next = add i64 %i, 1")
        emit("%more = icmp ult i64 %next, %n\nbr i1 %more, label %loop, label %done")
        emit("done:\nret void\n}")

    def _node(self, node: Expr) -> None:
        self.values[node] = self.writer.node(node, [self.values[a] for a in node.args])

    def _rare(self, node: Expr, part: list[Expr]) -> None:
        mask = self.values[node.args[0]]
        emit, start = self.writer.lines.append, self.block
        test = mask
        if self.width > 1:
            test = self.writer.emit(f"bitcast <{self.width} x i1> {mask} to i{self.width}")
            test = self.writer.emit(f"icmp ne i{self.width} {test}, 0")
        cold, join = f"cold{node.serial}", f"join{node.serial}"
        emit(f"br i1 {test}, label %{cold}, label %{join}\n{cold}:")
        outside = dict(self.values)
        for inner in part:
            if inner not in self.values:
                self._node(inner)
        self._node(node)
        inside = self.values[node]
        self.values = outside
        cheap = self.values[node.args[1]]
        emit(f"br label %{join}\n{join}:")
        kind = llvm_type(node.dtype, self.width)
        self.block = join
        self.values[node] = self.writer.emit(f"phi {kind} [{cheap}, %{start}], [{inside}, %{cold}]")

    def _address(self, dtype: str, index: int) -> str:
        size = item_size(dtype) * self.width
        offset = self.writer.emit(f"mul i64 %i, {size}")
        return self.writer.emit(f"getelementptr i8, ptr %p{index}, i64 {offset}")

    def _load(self, load: Expr, index: int) -> Value:
        address, write = self._address(load.dtype, index), self.writer.emit
        kind = _memory_type(load.dtype, self.width)
        value = write(f"load {kind}, ptr {address}, align {1}")
        if load.dtype == "b1":
            return write(f"icmp ne {kind} {value}, {self.writer.constant('u1', 0)}")
        if load.dtype[0] != "c":
            return value
        if self.width == 1:
            re, im = (write(f"extractelement {kind} {value}, i32 {k}") for k in (0, 1))
            return re, im
        lanes = range(self.width)
        re, im = (_lanes([2 * i + k for i in lanes]) for k in (0, 1))
        return (
            write(f"shufflevector {kind} {value}, {kind} {value}, {re}"),
            write(f"shufflevector {kind} {value}, {kind} {value}, {im}"),
        )

    def _store(self, root: Expr, index: int) -> None:
        address, write = self._address(root.dtype, index), self.writer.emit
        kind, value = _memory_type(root.dtype, self.width), self.values[root]
        if root.dtype == "b1":
            value = write(f"zext {llvm_type('b1', self.width)} {value} to {kind}")
        elif isinstance(value, tuple):
            half = llvm_type("f4" if root.dtype == "c8" else "f8", self.width)
            if self.width == 1:
                first = write(f"insertelement {kind} poison, {half} {value[0]}, i32 0")
                value = write(f"insertelement {kind} {first}, {half} {value[1]}, i32 1")
                self.writer.lines.append(f"store {kind} {value}, ptr {address}, align 1")
                return
            lanes = [k for i in range(self.width) for k in (i, self.width + i)]
            value = write(f"shufflevector {half} {value[0]}, {half} {value[1]}, {_lanes(lanes)}")
        self.writer.lines.append(f"store {kind} {value}, ptr {address}, align 1")


class Module:
    """Many functions compiled at once."""

    def __init__(
        self, functions: dict[str, tuple[list[Expr], list[Expr]]], width: int = WIDTH, cpu: str = ""
    ) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        texts, declarations = [], set()
        for name, (loads, roots) in functions.items():
            function = _Function(name, loads, roots, width)
            texts.append("\n".join(function.writer.lines))
            declarations |= function.writer.declarations
        module = llvm.parse_assembly("\n".join([*sorted(declarations), *texts]))
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
        address = self._engine.get_function_address(name)
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays), ctypes.c_int64)
        kind(address)(*(a.ctypes.data for a in arrays), blocks)
