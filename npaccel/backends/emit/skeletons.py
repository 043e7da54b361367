"""Kernel tree to code: which loops a kernel is made of, and how a target's lanes share them.

A leaf's effects and sources say what it is (`skeletons_of`). All are written by one loop nest, for
lanes along the last inner axis

    for (p = band_lo; p < band_hi; p++)
        for each leaf:
            for each row r of the outer inner axes:
                for (i = lo; i + W <= hi; i += W)  x[i..i+W) = ...;
                if (i < hi)                        x[i..hi) = ...;     (the lanes that exist)

for lanes along the last band axis (vector_band)

    for (p = band_lo; p < band_hi; p += W, or less at the end of that axis)
        for each leaf:
            for each row r:  for (i = 0; i < n; i++)  x[i][p..p+W) = ...;

or several vectors of a matrix's columns, or several rows, by turns (tiles.py). A fold cuts [lo, hi)
into chunks and blocks (reduce.py), and what they are combined from lies apart where they are shared
out (`write_finish`). Where a machine has work groups, W is 1 and the items of one take elements
next to each other (groups.py), share columns (columns.py) or a scan's rows (scanned.py), or have
band points of their own.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from npaccel.backends.emit.builder import Builder, Lanes, Name, Value
from npaccel.backends.emit.columns import ColumnWriter
from npaccel.backends.emit.combine import Combiner
from npaccel.backends.emit.effects import Scope
from npaccel.backends.emit.frame import Frame, has_own_points
from npaccel.backends.emit.leaves import LeafWriter
from npaccel.backends.emit.reduce import ROW_LEVELS, Counter, load_partial
from npaccel.backends.emit.scanned import ScanWriter, is_scanned
from npaccel.backends.emit.tiles import tile_writer
from npaccel.backends.emit.widths import is_tiled, kernel_width, leaf_width, tile_rows
from npaccel.backends.layout import is_ordered, reductions_of
from npaccel.ir.nodes import Kernel, Leaf, Reduce, Store
from npaccel.ir.scalar import Core, topological

__all__ = ["Skeleton", "skeletons_of", "symbols_of", "write_finish", "write_main"]


class Skeleton(enum.Enum):
    """What a loop does with its index space."""

    GENERATE = "generate"  # values from the index alone
    MAP = "map"  # an element from those at the same index, of arrays or windows of one (a stencil)
    FOLD = "fold"
    SCAN = "scan"
    GATHER = "gather"
    SCATTER = "scatter"


def skeletons_of(kernel: Kernel) -> frozenset[Skeleton]:
    """What a target must be able to do for this kernel."""
    found = set()
    for leaf in kernel.leaves:
        ops = {node.op for node in topological(leaf.all_roots)}
        found |= {_SOURCES[op] for op in ops if op in _SOURCES} or {Skeleton.GENERATE}
        if any(isinstance(effect, Reduce) for effect in leaf.effects):
            found.add(Skeleton.FOLD)
        if any(isinstance(effect, Store) and effect.offset for effect in leaf.effects):
            found.add(Skeleton.SCATTER)
    return frozenset(found)


_SOURCES = {
    Core.LOAD: Skeleton.MAP,
    Core.SCRATCH: Skeleton.MAP,
    Core.ROW: Skeleton.MAP,
    Core.GATHER: Skeleton.GATHER,
    Core.SCAN: Skeleton.SCAN,
}


def symbols_of(kernel: Kernel, main: str) -> tuple[str, ...]:
    """The functions that the code of `kernel` defines."""
    return (main, "finish") if kernel.split and reductions_of(kernel) else (main,)


def write_main(b: Builder, kernel: Kernel) -> None:
    """The function that runs tasks."""
    frame = Frame(b, kernel)
    if b.machine.vector_bytes > 0 and (is_tiled(kernel) or tile_rows(kernel)):
        _write_tiles(frame)
    elif b.machine.group_size > 1 and is_tiled(kernel):
        ColumnWriter(frame).write()
    elif b.machine.group_size > 1 and is_scanned(kernel):
        ScanWriter(frame).write()
    elif b.machine.group_size > 1 and has_own_points(kernel):
        _write_own_points(frame)
    elif kernel.vector_band:
        _write_banded(frame)
    else:
        _write_points(frame)


def _write_leaves(writer: LeafWriter, scope: Scope, width: Callable[[Leaf], int]) -> None:
    """A band point, or a vector of them."""
    frame, leaves = writer.frame, writer.kernel.leaves
    for leaf in leaves:
        if not leaf.row:
            writer.inner(leaf, scope, width(leaf))
        elif not frame.split_sums:
            writer.row(leaf, scope)
        if frame.group is not None and len(leaves) > 1 and not frame.split_sums:
            frame.group.barrier()  # the next leaf, or point, uses what this one stored


def _write_points(frame: Frame) -> None:
    b, kernel = frame.b, frame.kernel
    band = range(kernel.band_rank)
    writer = LeafWriter(frame, 1)
    first, step = b.n(0), b.n(1)
    if frame.group is not None and _is_map(kernel) and frame.rank > 1:
        first, step = writer.share_rows()
    with frame.tasks(), _points(frame, band, first, step) as (flat, at):
        scope = writer.scope(flat, at)
        _write_leaves(writer, scope, lambda leaf: leaf_width(kernel, leaf, b.machine))


def _is_map(kernel: Kernel) -> bool:
    """Whether all points are independent, those of the inner space too."""
    (leaf, *more) = kernel.leaves
    return not (more or leaf.row or Skeleton.FOLD in skeletons_of(kernel))


def _points(
    frame: Frame, band: range, first: Name, step: Name
) -> AbstractContextManager[tuple[Name, list[Name]]]:
    """Run over the task's band points, or over this item's."""
    low, high = frame.task.band_low, frame.task.band_high
    if step == "1":
        return frame.points(band, low, high)
    return frame.spread(band, frame.b.add(low, first), high, step)


def _write_own_points(frame: Frame) -> None:
    """Each item of a group has band points of its own."""
    b, band = frame.b, range(frame.kernel.band_rank)
    writer = LeafWriter(frame, 1)
    step = b.n(frame.group_size)
    with frame.tasks(), _points(frame, band, b.lane_of_group, step) as (flat, at):
        _write_leaves(writer, writer.scope(flat, at), lambda _: 1)


def _march(
    frame: Frame,
    axes: Sequence[int],
    bounds: tuple[Name, Name],
    most: int,
    write: Callable[[Name, list[Name], Name], None],
) -> None:
    """Go along the last of `axes`, at most so many points at a time and none beyond its end.

    bounds : flattened indices. write : flattened index, coordinates, and how many points
    """
    b, (low, high) = frame.b, bounds
    variables = frame.unravel(axes, low, high)
    place = b.variable("n", 1)
    b.set(place, low)
    with b.while_less(place, high) as flat:
        at = [b.get(variable) for variable in variables]
        row_left = b.sub(frame.extents[axes[-1]], at[-1])
        points = b.minimum(b.minimum(b.sub(high, flat), row_left), most)
        write(flat, at, points)
        frame.advance(axes, variables, at, points)
        b.set(place, b.add(flat, points))


def _march_band(frame: Frame, most: int, write: Callable[[Name, list[Name], Name], None]) -> None:
    with frame.tasks() as task:
        band = range(frame.kernel.band_rank)
        _march(frame, band, (task.band_low, task.band_high), most, write)


def _write_banded(frame: Frame) -> None:
    b = frame.b
    width = kernel_width(frame.kernel, b.machine)
    writer = LeafWriter(frame, width)

    def write(flat: Name, at: list[Name], points: Name) -> None:
        scope = writer.scope(flat, at)

        def some(lanes: Lanes | None) -> None:
            _write_leaves(writer, replace(scope, lanes=lanes), lambda _: width)

        if width == 1:
            some(None)
        elif not b.machine.copies:
            some(b.lanes_below(points, width))
        else:
            whole = b.coordinate("==", points, b.n(width))
            b.either(
                whole,
                lambda: some(None),
                lambda: some(b.lanes_below(points, width, fewer=True)),
            )

    _march_band(frame, width, write)


def _write_tiles(frame: Frame) -> None:
    writer, (*outer, _) = tile_writer(frame), frame.inner_axes

    def write(flat: Name, at: list[Name], points: Name) -> None:
        writer.tile(writer.scope(flat, at), points)

    if not outer:
        _march_band(frame, writer.points, write)
        return
    with (
        frame.tasks() as task,
        frame.points(range(frame.kernel.band_rank), task.band_low, task.band_high) as (flat, at),
    ):
        point = writer.scope(flat, at)

        def write_rows(row: Name, places: list[Name], rows: Name) -> None:
            pointers = frame.move(point.pointers, outer, places)
            writer.tile(replace(point, at=[*at, *places], pointers=pointers, row=row), rows)

        _march(frame, outer, (task.low, task.high), writer.points, write_rows)


# ---------------------------------------------------------------------------------------- finish


def write_finish(b: Builder, kernel: Kernel) -> None:
    """The function that combines the parts of a split kernel, then runs the row leaves.

    for each band point:
        for each Reduce r:  for (part = 0; part < parts; part++)  row[r] = row[r] o partial;
        row leaves;

    One band point at a time, whatever main's lanes are.
    """
    frame = Frame(b, kernel)
    writer = LeafWriter(frame, 1)
    band, own = range(kernel.band_rank), b.machine.group_size > 1 and frame.group is None
    first, step = (b.lane_of_group, b.machine.group_size) if own else (b.n(0), 1)
    with frame.tasks(), _points(frame, band, first, b.n(step)) as (flat, at):
        for ordinal, effect in enumerate(reductions_of(kernel)):
            writer.set_row(effect.index, _combine_parts(frame, effect, flat, ordinal))
        scope = writer.scope(flat, at)
        for leaf in kernel.leaves:
            if leaf.row:
                writer.row(leaf, scope)
                if frame.group is not None:
                    frame.group.barrier()


def _combine_parts(frame: Frame, effect: Reduce, flat: Name, ordinal: int) -> Value:
    b, group, combiner = frame.b, frame.group, Combiner(frame.b, effect)

    def part_at(part: Name) -> list[Name]:
        return load_partial(b, combiner, frame.partial(flat, part, ordinal))

    if is_ordered(effect):
        counter = Counter(b, combiner, 1, ROW_LEVELS)
        counter.reset()
        low, high, used = b.n(0), frame.parts, b.n(1)
        if group is not None:
            each, used = group.cut(frame.parts, group.size)
            low = b.mul(b.lane_of_group, each)
            high = b.minimum(b.add(low, each), frame.parts)
        with b.count(low, high) as part:
            counter.push(lambda _: part_at(part))
        counter.finish()
        names = counter.vectors()
        return combiner.result(group.fold_runs(combiner, names, used) if group else names)
    variables = [b.variable(dtype, 1) for dtype in combiner.dtypes]
    for variable, name in zip(variables, combiner.identity(1), strict=True):
        b.set(variable, name)
    low, step = (b.lane_of_group, group.size) if group is not None else (b.n(0), 1)
    with b.count(low, frame.parts, step) as part:
        old = [b.get(variable) for variable in variables]
        for variable, name in zip(variables, combiner.combine(old, part_at(part)), strict=True):
            b.set(variable, name)
    names = [b.get(variable) for variable in variables]
    return combiner.result(group.fold(combiner, names) if group else names)
