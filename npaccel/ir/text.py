"""Traces, kernels and plans as text: for people, for golden tests, and for kernels' names.

A kernel's text is complete: two kernels with equal text are the same program.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable

from npaccel.ir.nodes import (
    ArrayParam,
    BufferInfo,
    Flag,
    Kernel,
    KernelStep,
    Leaf,
    Plan,
    Reduce,
    Request,
    ScalarOperand,
    Store,
    StoreRow,
    StoreScratch,
    Trace,
    View,
)
from npaccel.ir.scalar import Expr, Value, topological

__all__ = ["body_text", "kernel_name", "kernel_text", "plan_text", "request_text", "trace_text"]


# ------------------------------------------------------------------------------------- requests


def _words(values: Iterable[object]) -> str:
    return ",".join(str(value) for value in values)


def _operand(operand: View | ScalarOperand) -> str:
    if isinstance(operand, ScalarOperand):
        return f"{operand.dtype} {operand.value!r}"
    return f"{operand.dtype} b{operand.buffer}[{operand.offset}: {_words(operand.strides)}]"


def request_text(request: Request) -> str:
    """One line: outputs, operation, inputs, shape and what else is set."""
    line = ", ".join(map(_operand, request.outputs))
    line += f" = {request.kind.name.lower()} {request.op}.{'.'.join(request.loop)}"
    line += f"({', '.join(map(_operand, request.inputs))}) over ({_words(request.shape)})"
    if request.axes:
        line += f" axes ({_words(request.axes)})"
    if request.mask is not None:
        line += f" where {_operand(request.mask)}"
    whose = " numpys" * request.numpys + " fast" * request.fast
    return f"r{request.index}: {line} errstate {request.errstate:#04x}{whose}"


def _buffer(buffer: BufferInfo) -> str:
    marks = [name for name in ("fresh", "dead", "owned") if getattr(buffer, name)]
    return f"b{buffer.index}: {buffer.size_bytes} bytes {' '.join(marks)}".rstrip()


def trace_text(trace: Trace) -> str:
    """Buffers, then requests, one per line."""
    lines = [_buffer(buffer) for buffer in trace.buffers]
    lines += [request_text(request) for request in trace.requests]
    return "\n".join(lines)


# -------------------------------------------------------------------------------------- kernels


def _constant(value: Value | None) -> str:
    if isinstance(value, float):
        return _hex(value)
    if isinstance(value, complex):
        return f"{_hex(value.real)}+{_hex(value.imag)}j"
    return str(value)


def _hex(value: float) -> str:
    negative_nan = math.isnan(value) and math.copysign(1.0, value) < 0
    return "-nan" if negative_nan else value.hex()


class _Numbers:
    """Names %0, %1, ... given to expressions in the order in which they are written."""

    def __init__(self) -> None:
        self.names: dict[Expr, str] = {}
        self.lines: list[str] = []

    def define(self, roots: Iterable[Expr]) -> None:
        for node in topological(roots):
            if node in self.names:
                continue
            name = self.names[node] = f"%{len(self.names)}"
            words = [f"{node.op.value}.{node.dtype}"]
            if node.attr is not None:
                words.append(_constant(node.attr))
            words += [self.names[arg] for arg in node.args]
            self.lines.append(f"    {name} = {' '.join(words)}")

    def where(self, mask: Expr | None) -> str:
        return "" if mask is None else f" where {self.names[mask]}"

    def effect(self, effect: Store | StoreScratch | StoreRow | Reduce) -> str:
        value = self.names[effect.value]
        match effect:
            case Store():
                at = "" if effect.offset is None else f" at {self.names[effect.offset]}"
                return f"    store a{effect.array} {value}{at}{self.where(effect.mask)}"
            case StoreScratch():
                return f"    scratch t{effect.index} {value}"
            case StoreRow():
                return f"    row r{effect.index} {value}"
            case Reduce():
                fold = effect.fold.value
                return f"    reduce r{effect.index} {fold} {value}{self.where(effect.mask)}"

    def flag(self, flag: Flag) -> str:
        return f"    flag s{flag.slot} {flag.kind.name.lower()} {self.names[flag.mask]}"


def _leaf(leaf: Leaf) -> list[str]:
    numbers = _Numbers()
    numbers.define(leaf.all_roots)
    lines = ["  leaf row" if leaf.row else "  leaf", *numbers.lines]
    lines += [numbers.effect(effect) for effect in leaf.effects]
    if leaf.guards:
        lines.append("    guard " + " ".join(numbers.names[guard] for guard in leaf.guards))
    lines += [numbers.flag(flag) for flag in leaf.flags]
    return lines


def _array(index: int, array: ArrayParam) -> str:
    names = ("read", "written", "band_only", "nontemporal", "gathered")
    marks = [name for name in names if getattr(array, name)]
    return f"  a{index} {array.dtype} {array.vector.name.lower()} {' '.join(marks)}"


def body_text(kernel: Kernel) -> str:
    """All of a kernel but its name."""
    head = f"band {kernel.band_rank} inner {kernel.inner_rank}"
    if kernel.vector_band:
        head += " vector_band"
    if kernel.split:
        head += " split"
    lines = [f"{head} slots {kernel.slots}"]
    lines += [_array(index, array) for index, array in enumerate(kernel.arrays)]
    lines += [f"  c{index} {dtype}" for index, dtype in enumerate(kernel.scalars)]
    lines += [f"  r{index} {row.dtype}" for index, row in enumerate(kernel.rows)]
    lines += [f"  t{index} {dtype}" for index, dtype in enumerate(kernel.scratch)]
    for leaf in kernel.leaves:
        lines += _leaf(leaf)
    return "\n".join(lines)


def kernel_name(body: str) -> str:
    """Name of the kernel whose `body_text` this is."""
    return "k_" + hashlib.sha256(body.encode()).hexdigest()[:12]


def kernel_text(kernel: Kernel) -> str:
    """The kernel's name and all that it does."""
    return f"{kernel.name}: {body_text(kernel)}"


# ---------------------------------------------------------------------------------------- plans


def _step(step: KernelStep) -> list[str]:
    lines = [f"run {step.kernel.name} over ({_words(step.extents)})"]
    for index, binding in enumerate(step.arrays):
        place = f"b{binding.buffer}[{binding.offset}: {_words(binding.strides)}]"
        wraps = "".join(f" axis {w.axis} from {w.cut} {w.step:+d}" for w in binding.wraps)
        lines.append(f"  a{index} = {place}{wraps}")
    for index, (request, position) in enumerate(step.scalars):
        lines.append(f"  c{index} = r{request} input {position}")
    lines.append(f"  requests {_words(step.requests)}; slots {_words(step.slots)}")
    return lines


def plan_text(plan: Plan) -> str:
    """The steps with their bindings, then each kernel once."""
    lines: list[str] = []
    kernels: dict[str, Kernel] = {}
    for step in plan.steps:
        if isinstance(step, KernelStep):
            lines += _step(step)
            kernels[step.kernel.name] = step.kernel
        else:
            lines.append(f"request r{step.request}: {step.reason}")
    lines.append(f"buffers {_words(plan.buffers)}")
    lines.append(f"dropped {_words(plan.dropped)}")
    lines.append(f"consumed {' '.join(f'r{r}:{p}' for r, p in plan.consumed)}")
    lines += [kernel_text(kernel) for kernel in kernels.values()]
    return "\n".join(lines)
