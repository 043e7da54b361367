"""Kernel tree to OpenCL C text.

A work item runs every n-th task of the launch, n being the number of work items. What a task does
are the loops of the LLVM backend: for lanes along the last inner axis

    for (p = band_lo; p < band_hi; p++)
        for each leaf:
            for each row r of the outer inner axes:
                for (i = lo; i + W <= hi; i += W)  x[i..i+W) = ...;
                if (i < hi)                        x[i..hi) = ...;     (lane by lane)

and for lanes along the last band axis (vector_band)

    for (p = band_lo; p < band_hi; p += W, or less at the end of that axis)
        for each leaf:
            for each row r:  for (i = 0; i < n; i++)  x[i][p..p+W) = ...;

or, where tiles.py can, several vectors of a row at a time. A leaf with reductions cuts [lo, hi)
into chunks and blocks, see reduce.py.
"""

from __future__ import annotations

from npaccel.backends.layout import reductions_of
from npaccel.backends.opencl.code import INSTRUCTIONS, PREAMBLE, Code, half_functions
from npaccel.backends.opencl.finish import write_finish
from npaccel.backends.opencl.frame import Frame, check
from npaccel.backends.opencl.leaves import LeafWriter, Scope
from npaccel.backends.opencl.tiles import is_tiled, write_tiled
from npaccel.backends.opencl.widths import kernel_width, leaf_width
from npaccel.ir.nodes import Kernel

__all__ = ["emit_kernel", "symbols_of"]


def symbols_of(kernel: Kernel) -> tuple[str, ...]:
    """The kernel functions that the text defines."""
    finishes = kernel.split and bool(reductions_of(kernel))
    return ("run", "finish") if finishes else ("run",)


def emit_kernel(kernel: Kernel, vector_bytes: int, features: str = "") -> str:
    """Text of a program with kernel ``run`` and, if parts need combining, ``finish``.

    Parameters
    ----------
    vector_bytes : size of the vectors to write; 0: one element at a time
    features : of the processor that its driver does not use unless told; see `PREAMBLE`
    """
    check(kernel)
    texts, halves = [], set[int]()
    for name in symbols_of(kernel):
        code = Code()
        if name == "finish":
            write_finish(kernel, code)
        else:
            _write_run(kernel, code, vector_bytes)
        texts.append(_with_body(name, kernel, code, apart=vector_bytes > 0))
        halves |= code.half_widths
    preamble = [*([f'#define WIDE "{features}"'] if features else []), PREAMBLE]
    preamble += [INSTRUCTIONS] if vector_bytes else []
    return "\n".join([*preamble, *(half_functions(width) for width in sorted(halves)), *texts])


def _with_body(name: str, kernel: Kernel, code: Code, *, apart: bool) -> str:
    """The kernel function; `apart`: its body is a function of its own.

    A driver for processors copies a kernel function several times and compiles each copy.
    """
    types = ["global const long *", "global char *", "global char *", "global uint *"]
    types += ["global char *"] * len(kernel.arrays)
    names = ["words", "scratch", "partials", "flags"]
    names += [f"a{k}" for k in range(len(kernel.arrays))]
    arguments = ", ".join(kind + name for kind, name in zip(types, names, strict=True))
    item = "const long item = get_global_id(0), items = get_global_size(0);"
    if not apart:
        return code.text(f"kernel void {name}({arguments})", item)
    head = f"__attribute__((noinline)) FEATURES static void {name}_body"
    body = code.text(f"{head}({arguments}, const long item, const long items)")
    call = f"{name}_body({', '.join(names)}, item, items);"
    return f"{body}kernel void {name}({arguments}) {{\n  {item}\n  {call}\n}}\n"


def _write_run(kernel: Kernel, code: Code, vector_bytes: int) -> None:
    frame = Frame(code, kernel)
    code.do(f"scratch += item * {frame.extra(4)};")
    if is_tiled(kernel, vector_bytes):
        write_tiled(kernel, code, frame, vector_bytes)
    elif kernel.vector_band:
        _write_tiles(kernel, code, frame, kernel_width(kernel, vector_bytes))
    else:
        _write_points(kernel, code, frame, vector_bytes)


def _write_points(kernel: Kernel, code: Code, frame: Frame, vector_bytes: int) -> None:
    band = range(kernel.band_rank)
    writer = LeafWriter(code, frame, 1)
    with frame.tasks(), frame.points(band, frame.range[0], frame.range[1]) as (flat, at):
        pointers = frame.move(frame.bases, band, at)
        scope = Scope(flat, at, pointers, None, None)
        for leaf in kernel.leaves:
            if not leaf.row:
                writer.inner(leaf, scope, leaf_width(leaf, vector_bytes))
            elif not frame.split_sums:
                writer.row(leaf, scope)


def _write_tiles(kernel: Kernel, code: Code, frame: Frame, width: int) -> None:
    band = range(kernel.band_rank)
    writer = LeafWriter(code, frame, width)
    with frame.tasks():
        low, high = frame.range[0], frame.range[1]
        variables = frame.unravel(band, low, high)
        flat = code.variable("long")
        with code.block(f"for ({flat} = {low}; {flat} < {high}; )"):
            at = [code.long(variable) for variable in variables]
            row_left = code.long(f"{frame.extents[band[-1]]} - {at[-1]}")
            left = code.minimum(code.long(f"{high} - {flat}"), row_left)
            tile = code.minimum(left, str(width))
            lanes, active = (tile, code.lanes_below(tile, width)) if width > 1 else (None, None)
            scope = Scope(flat, at, frame.move(frame.bases, band, at), lanes, active)
            for leaf in kernel.leaves:
                if not leaf.row:
                    writer.inner(leaf, scope, width)
                elif not frame.split_sums:
                    writer.row(leaf, scope)
            frame.advance(band, variables, at, tile)
            code.set(flat, f"{flat} + {tile}")
