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

On devices that are no processors a work group runs every n-th task, and in the loops above W is 1
and its items take elements next to each other; see groups.py.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from npaccel.backends.layout import reductions_of
from npaccel.backends.opencl.code import INSTRUCTIONS, PREAMBLE, Code, half_functions
from npaccel.backends.opencl.finish import write_finish
from npaccel.backends.opencl.frame import Frame, check
from npaccel.backends.opencl.groups import DECLARATIONS
from npaccel.backends.opencl.leaves import LeafWriter, Scope
from npaccel.backends.opencl.tiles import write_tiled
from npaccel.backends.opencl.widths import kernel_width, leaf_width
from npaccel.backends.tiles import is_tiled
from npaccel.ir.nodes import Kernel, Reduce

__all__ = ["emit_kernel", "symbols_of"]


def symbols_of(kernel: Kernel) -> tuple[str, ...]:
    """The kernel functions that the text defines."""
    finishes = kernel.split and bool(reductions_of(kernel))
    return ("run", "finish") if finishes else ("run",)


def emit_kernel(
    kernel: Kernel,
    vector_bytes: int,
    features: str = "",
    group_size: int = 1,
    *,
    by_double: bool = False,
) -> str:
    """Text of a program with kernel ``run`` and, if parts need combining, ``finish``.

    Parameters
    ----------
    vector_bytes : size of the vectors to write; 0: one element at a time
    features : of the processor that its driver does not use unless told; see `PREAMBLE`
    group_size : work items that share a task; 1, or with vector_bytes 0 a power of two from 32 on
    by_double : whether quotients and roots of f4 go by f8; see Note [Quotients by double]
    """
    check(kernel)
    texts, halves = [], set[int]()
    for name in symbols_of(kernel):
        code = Code(by_double=by_double)
        if name == "finish":
            write_finish(kernel, code, group_size)
        else:
            _write_run(kernel, code, vector_bytes, group_size)
        texts.append(_with_body(name, kernel, code, group_size, apart=vector_bytes > 0))
        halves |= code.half_widths
    preamble = [*([f'#define WIDE "{features}"'] if features else []), PREAMBLE]
    preamble += [INSTRUCTIONS] if vector_bytes else []
    preamble += [DECLARATIONS] if group_size > 1 else []
    return "\n".join([*preamble, *(half_functions(width) for width in sorted(halves)), *texts])


def _with_body(name: str, kernel: Kernel, code: Code, group_size: int, *, apart: bool) -> str:
    """The kernel function; `apart`: its body is a function of its own.

    A driver for processors copies a kernel function several times and compiles each copy.
    """
    types = ["global const long *", "global char *", "global char *", "global uint *"]
    types += ["global char *"] * len(kernel.arrays)
    names = ["words", "scratch", "partials", "flags"]
    names += [f"a{k}" for k in range(len(kernel.arrays))]
    arguments = ", ".join(kind + name for kind, name in zip(types, names, strict=True))
    if group_size > 1:
        sized = f"__attribute__((reqd_work_group_size({group_size}, 1, 1)))"
        item = "const long item = get_group_id(0), items = get_num_groups(0);"
        lane = "const long lane = get_local_id(0);"
        return code.text(f"kernel {sized} void {name}({arguments})", f"{item}\n  {lane}")
    item = "const long item = get_global_id(0), items = get_global_size(0);"
    if not apart:
        return code.text(f"kernel void {name}({arguments})", item)
    head = f"__attribute__((noinline)) FEATURES static void {name}_body"
    body = code.text(f"{head}({arguments}, const long item, const long items)")
    call = f"{name}_body({', '.join(names)}, item, items);"
    return f"{body}kernel ALONE void {name}({arguments}) {{\n  {item}\n  {call}\n}}\n"


def _write_run(kernel: Kernel, code: Code, vector_bytes: int, group_size: int) -> None:
    frame = Frame(code, kernel, group_size)
    code.do(f"scratch += item * {frame.extra(4)};")
    if group_size > 1 and frame.group is None:
        code.do(f"scratch += lane * ({frame.extra(4)} / {group_size});")
    if vector_bytes > 0 and is_tiled(kernel):
        write_tiled(kernel, code, frame, vector_bytes)
    elif kernel.vector_band and group_size > 1:
        _write_columns(kernel, code, frame)
    elif kernel.vector_band:
        _write_tiles(kernel, code, frame, kernel_width(kernel, vector_bytes))
    else:
        _write_points(kernel, code, frame, vector_bytes)


def _write_points(kernel: Kernel, code: Code, frame: Frame, vector_bytes: int) -> None:
    band = range(kernel.band_rank)
    writer = LeafWriter(code, frame, 1)
    first, step = "0", "1"
    if frame.group is not None and _is_map(kernel) and frame.rank > 1:
        first, step = writer.share_rows()
    with frame.tasks(), _points(frame, band, first, step) as (flat, at):
        pointers = frame.move(frame.bases, band, at)
        scope = Scope(flat, at, pointers, None, None)
        for leaf in kernel.leaves:
            if not leaf.row:
                writer.inner(leaf, scope, leaf_width(leaf, vector_bytes))
            elif not frame.split_sums:
                writer.row(leaf, scope)
            if frame.group is not None and len(kernel.leaves) > 1 and not frame.split_sums:
                frame.group.barrier()  # the next leaf, or point, uses what this one stored


def _is_map(kernel: Kernel) -> bool:
    """Whether all points are independent, those of the inner space too."""
    (leaf, *more) = kernel.leaves
    reduces = any(isinstance(effect, Reduce) for effect in leaf.effects)
    return not (more or leaf.row or reduces)


def _points(
    frame: Frame, band: range, first: str, step: str
) -> AbstractContextManager[tuple[str, list[str]]]:
    """Run over the task's band points, or over this item's."""
    low, high = frame.range[0], frame.range[1]
    if step == "1":
        return frame.points(band, low, high)
    return frame.spread(band, frame.code.add(low, first), high, step)


def _write_columns(kernel: Kernel, code: Code, frame: Frame) -> None:
    """Each item of a group has band points of its own."""
    band = range(kernel.band_rank)
    writer = LeafWriter(code, frame, 1)
    with frame.tasks(), _points(frame, band, "lane", str(frame.group_size)) as (flat, at):
        scope = Scope(flat, at, frame.move(frame.bases, band, at), None, None)
        for leaf in kernel.leaves:
            if not leaf.row:
                writer.inner(leaf, scope, 1)
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
