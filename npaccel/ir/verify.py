"""The rules that traces, kernels and plans keep; what breaks one is a bug of the pass named."""

from __future__ import annotations

from collections.abc import Callable

from npaccel.errors import VerifyError
from npaccel.ir.nodes import (
    ArrayParam,
    Fold,
    Kernel,
    KernelStep,
    Kind,
    Leaf,
    Plan,
    Reduce,
    Request,
    Store,
    StoreRow,
    StoreScratch,
    Stride,
    Trace,
    View,
)
from npaccel.ir.scalar import DTYPES, Core, Expr, topological
from npaccel.ir.text import kernel_text, request_text
from npaccel.ir.views import between_cuts, gathered, region

__all__ = ["must", "verify_kernel", "verify_plan", "verify_trace"]


def must(condition: bool, stage: str, what: str, where: str) -> None:
    """Raise VerifyError unless the condition holds."""
    if not condition:
        raise VerifyError(f"{stage}: {what}\n{where}")


# ------------------------------------------------------------------------------------- requests


def verify_trace(trace: Trace, stage: str = "trace") -> None:
    """Check that every view lies in its buffer and has its request's rank."""
    sizes = {buffer.index: buffer.size_bytes for buffer in trace.buffers}
    for request in trace.requests:
        text = request_text(request)
        for view in (*request.inputs, *request.outputs, request.mask):
            if isinstance(view, View):
                _verify_view(view, request, sizes, stage, text)
        axes = sorted(set(request.axes))
        known = all(0 <= axis < len(request.shape) for axis in axes)
        must(known and tuple(axes) == request.axes, stage, "axes are not sorted", text)
        must(bool(request.outputs), stage, "nothing is written", text)
        if request.kind is Kind.GATHER:
            _verify_gather(request, sizes, stage, text)
        if request.mask is not None:
            must(request.mask.dtype == "b1", stage, "the mask is not b1", text)
        if request.kind in (Kind.REDUCE, Kind.ARG):
            (view,) = request.outputs
            still = all(view.strides[axis] == 0 for axis in axes)
            must(still, stage, "the result moves along a reduced axis", text)


def _verify_view(
    view: View, request: Request, sizes: dict[int, int], stage: str, text: str
) -> None:
    must(view.buffer in sizes, stage, f"no buffer {view.buffer}", text)
    must(view.dtype in DTYPES, stage, f"no dtype {view.dtype}", text)
    must(len(view.strides) == len(request.shape), stage, "strides are not of the shape", text)
    if 0 not in request.shape:
        found = region(view, request.shape)
        inside = found.low >= 0 and found.high <= sizes[view.buffer]
        must(inside, stage, f"a view leaves buffer {view.buffer}", text)


def _verify_gather(request: Request, sizes: dict[int, int], stage: str, text: str) -> None:
    table = gathered(request)
    must(table is not None, stage, "a gather lacks its source, extent or step", text)
    if table is not None and 0 not in request.shape:
        found = region(*table)
        inside = found.low >= 0 and found.high <= sizes[table[0].buffer]
        must(inside, stage, "a gather leaves its source's buffer", text)
    must(request.mask is None and request.axes == (), stage, "a gather is masked", text)


# -------------------------------------------------------------------------------------- kernels

_UNARY = {
    Core.NEG, Core.FLIP, Core.ABS, Core.SQRT, Core.FLOOR, Core.CEIL, Core.TRUNC, Core.RINT,
    Core.NOT, Core.POPCOUNT, Core.CLZ,
}  # fmt: skip
_COMPARE = {Core.EQ, Core.NE, Core.LT, Core.LE, Core.GT, Core.GE}
_LEAVES = {Core.CONST, Core.LOAD, Core.SCALAR, Core.ROW, Core.SCRATCH, Core.INDEX}
_KINDS: dict[Core, str] = {
    Core.DIV: "iuf", Core.REM: "iu", Core.FMA: "f", Core.ABS: "f", Core.SQRT: "f",
    Core.ADD: "iuf", Core.SUB: "iuf", Core.MUL: "iuf", Core.NEG: "if", Core.MULHI: "u",
    Core.FLIP: "f",
    Core.FLOOR: "f", Core.CEIL: "f", Core.TRUNC: "f", Core.RINT: "f", Core.COPYSIGN: "f",
    Core.AND: "biu", Core.OR: "biu", Core.XOR: "biu", Core.NOT: "biu", Core.SHL: "iu",
    Core.LSHR: "iu", Core.ASHR: "iu", Core.POPCOUNT: "iu", Core.CLZ: "iu",
    Core.COMPLEX: "c", Core.REAL: "f", Core.IMAG: "f",
}  # fmt: skip


def _well_typed(node: Expr) -> bool:
    dtypes = tuple(arg.dtype for arg in node.args)
    if node.op in _KINDS and node.dtype[0] not in _KINDS[node.op]:
        return False
    if node.op in _LEAVES:
        return not dtypes and node.attr is not None
    if node.op is Core.GATHER:
        return dtypes == ("i8",) and node.attr is not None
    if node.op is Core.BEFORE:
        return dtypes == (node.dtype,) and node.args[0].op is Core.SCAN
    if node.op in _UNARY or node.op is Core.SCAN:
        return dtypes == (node.dtype,)
    if node.op in _COMPARE:
        return node.dtype == "b1" and len(dtypes) == 2 and dtypes[0] == dtypes[1]
    if node.op in (Core.SELECT, Core.RARE):
        return dtypes == ("b1", node.dtype, node.dtype)
    if node.op is Core.FMA:
        return dtypes == (node.dtype,) * 3
    if node.op is Core.CONVERT:
        return len(dtypes) == 1
    if node.op is Core.BITCAST:
        return len(dtypes) == 1 and dtypes[0][1:] == node.dtype[1:] and "c" not in dtypes[0]
    if node.op is Core.COMPLEX:
        return dtypes == (("f4", "f4") if node.dtype == "c8" else ("f8", "f8"))
    if node.op in (Core.REAL, Core.IMAG):
        return dtypes == (("c8",) if node.dtype == "f4" else ("c16",))
    return dtypes == (node.dtype, node.dtype)


class _KernelCheck:
    def __init__(self, kernel: Kernel, stage: str) -> None:
        self.kernel = kernel
        self.must: Callable[[bool, str], None] = lambda condition, what: must(
            condition, stage, what, "" if condition else kernel_text(kernel)
        )
        self.rows: set[int] = set()
        self.scratch: set[int] = set()

    def run(self) -> None:
        kernel, must = self.kernel, self.must
        must(kernel.inner_rank >= 1, "no inner axis")
        must(not kernel.vector_band or kernel.band_rank >= 1, "lanes on a band of rank 0")
        for array in kernel.arrays:
            must(array.read or array.written, "an array is neither read nor written")
            must(not (array.written and array.read and array.gathered), "gathered and scattered")
            if (
                array.written
                and not array.gathered
                and kernel.vector_band is False
                and not array.band_only
            ):
                must(array.vector is not Stride.ZERO, "a written array does not move")
        if kernel.split:
            rows = [leaf.row for leaf in kernel.leaves]
            must(rows[:1] == [False] and all(rows[1:]), "split needs one inner leaf, first")
        for leaf in kernel.leaves:
            self.leaf(leaf)

    def leaf(self, leaf: Leaf) -> None:
        must = self.must
        for node in topological(leaf.all_roots):
            must(_well_typed(node), f"{node!r} is not well typed")
            self.source(node, leaf)
        made_rows: set[int] = set()
        made_scratch: set[int] = set()
        for effect in leaf.effects:
            if isinstance(effect, Store | Reduce) and effect.mask is not None:
                must(effect.mask.dtype == "b1", "a mask is not b1")
            match effect:
                case Store():
                    array = self.kernel.arrays[effect.array]
                    must(array.written, f"array {effect.array} is not declared written")
                    must(array.dtype == effect.value.dtype, "a store of another dtype")
                    must(array.band_only or not leaf.row, "a row leaf stores a whole row")
                    self.scatter(effect, array)
                case StoreScratch():
                    must(not leaf.row, "a row leaf writes scratch")
                    must(self.kernel.scratch[effect.index] == effect.value.dtype, "scratch dtype")
                    made_scratch.add(effect.index)
                case StoreRow():
                    must(leaf.row, "an inner leaf writes a row")
                    must(self.kernel.rows[effect.index].dtype == effect.value.dtype, "row dtype")
                    made_rows.add(effect.index)
                case Reduce():
                    must(not leaf.row, "a row leaf reduces")
                    dtype = "i8" if effect.fold in _ARGUMENT else effect.value.dtype
                    must(self.kernel.rows[effect.index].dtype == dtype, "row dtype")
                    made_rows.add(effect.index)
        must(all(guard.dtype == "b1" for guard in leaf.guards), "a guard is not b1")
        for flag in leaf.flags:
            must(flag.mask.dtype == "b1" and 0 <= flag.slot < self.kernel.slots, "a bad flag")
        folds = [e.value for e in leaf.effects if isinstance(e, Reduce)]
        chosen = any(x.op is Core.SELECT and x.args[0] in leaf.guards for x in folds)
        asked = bool(leaf.flags) or chosen
        must(bool(leaf.guards) == asked, "flags without guards, or guards that nothing asks for")
        self.rows |= made_rows
        self.scratch |= made_scratch

    def scatter(self, effect: Store, array: ArrayParam) -> None:
        must, offset = self.must, effect.offset
        must(array.gathered is (offset is not None), "a scattered array is stored, or the reverse")
        if offset is not None:
            must(offset.dtype == "i8", "an offset is not i8")
            must(not self.kernel.split and self.kernel.band_rank == 0, "a scatter is shared out")

    def source(self, node: Expr, leaf: Leaf) -> None:
        at, must = node.attr, self.must
        if node.op in (Core.LOAD, Core.GATHER):
            array = self.kernel.arrays[int(at)] if isinstance(at, int) else None
            must(array is not None and array.read and array.dtype == node.dtype, "a bad load")
            same = array is not None and array.gathered is (node.op is Core.GATHER)
            must(same, "a gathered array is loaded, or the reverse")
            if leaf.row and array is not None:
                must(array.band_only, "a row leaf loads a whole row")
        elif node.op is Core.SCAN:
            alone = self.kernel.inner_rank == 1 and not self.kernel.split and not leaf.row
            must(alone, "a scan needs one inner axis, and all of it")
        elif node.op is Core.SCALAR and isinstance(at, int):
            must(self.kernel.scalars[at] == node.dtype, "a bad scalar")
        elif node.op is Core.ROW:
            must(at in self.rows, f"row {at} is read before it is made")
        elif node.op is Core.SCRATCH:
            must(at in self.scratch and not leaf.row, f"scratch {at} is read before it is made")


_ARGUMENT = (Fold.ARGMIN, Fold.ARGMAX)


def verify_kernel(kernel: Kernel, stage: str = "kernel") -> None:
    """Check types, that rows and scratch are made before they are read, and the tree's rules."""
    _KernelCheck(kernel, stage).run()


# ---------------------------------------------------------------------------------------- plans


def verify_plan(plan: Plan, trace: Trace, stage: str = "plan") -> None:
    """Check the kernels, their bindings, and that every request is run or dropped once."""
    sizes = {buffer.index: buffer.size_bytes for buffer in trace.buffers}
    kernels: set[str] = set()
    done: list[int] = list(plan.dropped)
    for step in plan.steps:
        if not isinstance(step, KernelStep):
            done.append(step.request)
            continue
        kernel = step.kernel
        if kernel.name not in kernels:
            verify_kernel(kernel, stage)
            kernels.add(kernel.name)
        done.extend(step.requests)
        text = kernel_text(kernel)
        rank = kernel.band_rank + kernel.inner_rank
        must(len(step.extents) == rank, stage, "extents are not of the domain", text)
        must(len(step.arrays) == len(kernel.arrays), stage, "an array is not bound", text)
        must(len(step.scalars) == len(kernel.scalars), stage, "a scalar is not bound", text)
        must(len(step.slots) == kernel.slots, stage, "a slot is not bound", text)
        for binding, array in zip(step.arrays, kernel.arrays, strict=True):
            must(binding.buffer in plan.buffers, stage, "a buffer has no memory", text)
            must(not (array.written and binding.wraps), stage, "a written array wraps", text)
            for further, begin, shape in between_cuts(step.extents, binding.wraps):
                steps = zip(begin, binding.strides, strict=True)
                offset = binding.offset + further + sum(i * s for i, s in steps)
                view = View(binding.buffer, array.dtype, offset, binding.strides)
                found = region(view, shape)
                inside = found.low >= 0 and found.high <= sizes[binding.buffer]
                must(inside, stage, f"a view leaves buffer {binding.buffer}", text)
    expected = sorted(request.index for request in trace.requests)
    must(sorted(done) == expected, stage, "a request is lost or run twice", str(done))
