"""Kernel tree to LLVM IR text.

The C loops meant, for lanes along the last inner axis:

    for (p = band_lo; p < band_hi; p++)
        for each leaf:
            for each row r of the outer inner axes:
                for (i = lo; i + W <= hi; i += W)  x[i..i+W) = ...;
                if (i < hi)                        x[i..hi) = ...;     (masked)

and for lanes along the last band axis (vector_band):

    for (p = band_lo; p < band_hi; p += W, or less at the end of that axis)
        for each leaf:
            for each row r:  for (i = 0; i < n; i++)  x[i][p..p+W) = ...;

or, where tiles.py can, several vectors of a row at a time. A leaf with reductions cuts [lo, hi)
into chunks and blocks, see reduce.py.
"""

from __future__ import annotations

from npaccel.backends.layout import reductions_of
from npaccel.backends.llvm.code import Code
from npaccel.backends.llvm.finish import write_finish
from npaccel.backends.llvm.frame import Frame, check
from npaccel.backends.llvm.leaves import LeafWriter, Scope
from npaccel.backends.llvm.tiles import write_tiled
from npaccel.backends.llvm.widths import kernel_width, leaf_width
from npaccel.backends.tiles import is_tiled
from npaccel.ir.nodes import Kernel

__all__ = ["emit_kernel"]

_HEADER = """\
!0 = !{!"branch_weights", i32 1, i32 4000}
!1 = !{i32 1}
"""


def emit_kernel(kernel: Kernel, vector_bytes: int, *, fence: bool) -> str:
    """Text of a module with function ``main`` and, if parts need combining, ``finish``.

    Parameters
    ----------
    vector_bytes : size of the host's widest vector register
    fence : the host is x86, where stores around the cache are ordered by an sfence only
    """
    check(kernel)
    declarations: set[str] = set()
    functions = [_write_main(kernel, vector_bytes, declarations, fence=fence)]
    if kernel.split and reductions_of(kernel):
        functions.append(write_finish(kernel, declarations))
    bits = 8 * vector_bytes
    attributes = (
        f'attributes #0 = {{ nounwind "prefer-vector-width"="{bits}" '
        f'"min-legal-vector-width"="{bits}" }}\n'
    )
    return "\n".join([*functions, *sorted(declarations), attributes, _HEADER])


def _write_main(kernel: Kernel, vector_bytes: int, declarations: set[str], *, fence: bool) -> str:
    code = Code(declarations)
    frame = Frame(code, kernel)
    if is_tiled(kernel):
        write_tiled(kernel, code, frame, vector_bytes)
    elif kernel.vector_band:
        _write_tiles(kernel, code, frame, vector_bytes)
    else:
        _write_points(kernel, code, frame, vector_bytes)
    if fence and any(array.nontemporal for array in kernel.arrays):
        code.call("", "llvm.x86.sse.sfence", [])
    return code.text("main")


def _write_points(kernel: Kernel, code: Code, frame: Frame, vector_bytes: int) -> None:
    band = range(kernel.band_rank)
    writer = LeafWriter(code, frame, 1, vector_bytes)
    with frame.points(band, frame.range[0], frame.range[1]) as (flat, at):
        pointers = frame.move(frame.bases, band, at)
        scope = Scope(flat, at, pointers, None)
        for leaf in kernel.leaves:
            if not leaf.row:
                writer.inner(leaf, scope, leaf_width(kernel, leaf, vector_bytes))
            elif not frame.partials:
                writer.row(leaf, scope)


def _write_tiles(kernel: Kernel, code: Code, frame: Frame, vector_bytes: int) -> None:
    width = kernel_width(kernel, vector_bytes)
    band = range(kernel.band_rank)
    low, high = frame.range[0], frame.range[1]
    variables = frame.unravel(band, low, high)
    flat_variable = code.variable("i64")
    code.set("i64", flat_variable, low)
    writer = LeafWriter(code, frame, width, vector_bytes)
    with code.loop_while("i64", flat_variable, "slt", high) as flat:
        at = [code.get("i64", variable) for variable in variables]
        left = code.emit(f"sub i64 {high}, {flat}")
        row_left = code.emit(f"sub i64 {frame.extents[band[-1]]}, {at[-1]}")
        tile = code.minimum(code.minimum(left, row_left), str(width))
        pointers = frame.move(frame.bases, band, at)
        whole, tail, after = code.fresh("whole"), code.fresh("tail"), code.fresh("after")
        full = code.emit(f"icmp eq i64 {tile}, {width}")
        code.branch(full, whole, tail)
        for label, masked in ((whole, False), (tail, True)):
            code.start(label)
            active = writer.lanes_below(tile, width) if masked else None
            scope = Scope(flat, at, pointers, active)
            for leaf in kernel.leaves:
                if not leaf.row:
                    writer.inner(leaf, scope, width)
                elif not frame.partials:
                    writer.row(leaf, scope)
            code.jump(after)
        code.start(after)
        frame.advance(band, variables, at, tile)
        code.set("i64", flat_variable, code.add(flat, tile))
