"""Folds whose columns, or rows, go through memory several at a time.

One vector of columns after the other would read a few lines of each row and jump: slow, since no
hardware runs ahead of such reads. So a tile of neighbouring vectors goes through the rows together:

    for (p = band_lo; p < band_hi; p += tile, or less at the end of that axis)
        for each chunk:
            for each block of 16 rows:
                for each vector v of the tile:  for (i in block)  lanes[v] += x[i][p + v];
                                                push lanes[v] on the counter of v
            for each vector v:  what a chunk's end asks for
        for each vector v:  results, row leaves

One row after the other would fetch each line of an array that lies across them (y.T of x * y.T)
again for each of its elements, from more pages than the processor finds at once. So a tile of rows
that share such lines goes along together:

    for (p = band_lo; p < band_hi; p += tile, or less)
        for each chunk:
            for each block of 512 elements:
                for each piece of them:
                    for each row r of the tile:  for (i of these)  lanes[r] += x[r][i] * y[i][r]
                for each row r:  push lanes[r] on the counter of r
            for each row r:  what a chunk's end asks for
        for each row r:  results, row leaves

What a member of the tile must keep while others have their turn lies in the task's scratch memory.
The order in which each is added is that of Note [Reduction order] in ir/nodes.py either way.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from npaccel.backends.emit.builder import Builder, Name
from npaccel.backends.emit.effects import Scope
from npaccel.backends.emit.frame import Frame
from npaccel.backends.emit.leaves import Bounds, LeafWriter, parted
from npaccel.backends.emit.widths import is_tiled, kernel_width, leaf_width, tile_rows, tile_vectors
from npaccel.backends.layout import BAND_BLOCK, BLOCK, CHUNK
from npaccel.backends.tasks import ACROSS_TILE
from npaccel.ir.nodes import Kernel, Leaf
from npaccel.ir.scalar import item_size

__all__ = ["TileWriter", "state_bytes", "tile_writer"]


def tile_writer(frame: Frame) -> TileWriter:
    """Of a kernel that `is_tiled`, or has rows that take turns."""
    return ColumnTiles(frame) if is_tiled(frame.kernel) else RowTiles(frame)


def state_bytes(b: Builder, kernel: Kernel) -> int:
    """Bytes of scratch memory that a task needs; `b` is used up."""
    tile_writer(Frame(b, kernel))
    return b.state_bytes


class TileWriter(LeafWriter):
    """Writes the whole of such a kernel for a tile.

    points : so many are a tile. lanes : of a loop's vectors. block : elements of a turn
    """

    def __init__(
        self, frame: Frame, *, width: int, lanes: int, members: int, points: int, block: int
    ) -> None:
        super().__init__(frame, width)
        self.points, self._lanes, self._block = points, lanes, block
        self.b.begin_state(members)
        self._reductions = self.reductions(self.kernel.leaves[0], lanes, several_rows=False)

    @abstractmethod
    def _each(self, scope: Scope, points: Name) -> AbstractContextManager[tuple[Scope, Name]]:
        """Once per member of the tile: its scope, and how many points are left."""

    @abstractmethod
    def _some(self, scope: Scope, left: Name) -> Scope:
        """`scope` of a member that has at most `left` points."""

    @abstractmethod
    def _take_in(self, scope: Scope, points: Name, bounds: Bounds) -> None:
        """A block of all members."""

    def _moved(self, scope: Scope, by: Name) -> Scope:
        """So many points further: of the band, or rows of the inner axes."""
        b, axis = self.b, len(scope.at) - 1
        inside = axis >= self.kernel.band_rank
        return replace(
            scope,
            flat=scope.flat if inside else b.add(scope.flat, by),
            row=b.add(scope.row, by) if inside else scope.row,
            at=[*scope.at[:-1], b.add(scope.at[-1], by)],
            pointers=self.frame.move(scope.pointers, [axis], [by]),
        )

    def tile(self, scope: Scope, points: Name) -> None:
        """Everything, for one tile."""
        b, frame = self.b, self.frame
        ordered, exact = parted(self._reductions)
        bounds = b.n(0), frame.extents[frame.rank - 1]
        if frame.chunk_parts:
            bounds = frame.task.low, frame.task.high
        with self._each(scope, points):
            for reduction in ordered:
                reduction.begin_row()
            for whole in exact:
                whole.begin()
                whole.pause()
        with b.count(*bounds, CHUNK) as chunk:
            self._chunk(scope, points, (chunk, b.minimum(b.add(chunk, CHUNK), bounds[1])))
        if frame.chunk_parts:
            return
        with self._each(scope, points) as (member, left):
            for whole in exact:
                whole.resume()
            if frame.row_parts:
                self.end_row(self._reductions, member)
            else:
                self._end(self._some(member, left))

    def _end(self, scope: Scope) -> None:
        self.finish(self._reductions)
        for leaf in self.kernel.leaves[1:]:
            self.row(leaf, scope)

    def _chunk(self, scope: Scope, points: Name, bounds: Bounds) -> None:
        b, (_, exact) = self.b, parted(self._reductions)
        parts = exact if self.frame.chunk_parts else ()
        with self._each(scope, points):
            self.begin_chunk(self._reductions)
            for whole in parts:
                whole.pause()
        with b.count(*bounds, self._block) as block:
            stop = b.minimum(b.add(block, self._block), bounds[1])
            self._take_in(scope, points, (block, stop))
        with self._each(scope, points) as (member, left):
            there = self._some(member, left)
            for whole in parts:
                whole.resume()
            self.end_chunk(self._reductions, there, bounds[0], None)


class ColumnTiles(TileWriter):
    """Members are vectors of columns."""

    def __init__(self, frame: Frame) -> None:
        width = kernel_width(frame.kernel, frame.b.machine)
        vectors = tile_vectors(frame.kernel, width)
        super().__init__(
            frame,
            width=width,
            lanes=width,
            members=vectors,
            points=width * vectors,
            block=BAND_BLOCK,
        )

    @contextmanager
    def _each(self, scope: Scope, points: Name) -> Iterator[tuple[Scope, Name]]:
        b = self.b
        with b.count(b.n(0), points, self.width) as first:
            b.enter(b.div(first, self.width))
            yield self._moved(scope, first), b.sub(points, first)

    def _some(self, scope: Scope, left: Name, *, fewer: bool = False) -> Scope:
        return replace(scope, lanes=self.b.lanes_below(left, self.width, fewer=fewer))

    def _take_in(self, scope: Scope, points: Name, bounds: Bounds) -> None:
        b = self.b
        with self._each(scope, points) as (there, left):
            b.either(
                b.coordinate(">=", left, b.n(self.width)),
                lambda: self._rows_of(there, bounds),
                lambda: self._rows_of(self._some(there, left, fewer=True), bounds),
            )

    def _rows_of(self, scope: Scope, bounds: Bounds) -> None:
        """A block, with the lanes of `scope`."""
        b, leaf, reductions = self.b, self.kernel.leaves[0], self._reductions
        ordered, exact = parted(reductions)
        for reduction in ordered:
            reduction.begin_block()
        for whole in exact:
            whole.resume()
        hoisted = self.hoist(leaf, scope, self.width)
        first, again = self.looked_back_at(leaf)
        with b.count(*bounds) as i:
            self._fetch_ahead(leaf, scope, i)
            self.effects(first, [self.at(scope, i)], self.width, hoisted, reductions)
        self.look_back(again, scope, self.width, (*bounds, b.n(1)), hoisted, reductions)
        for reduction in ordered:
            reduction.end_block()
        for whole in exact:
            whole.pause()

    def _fetch_ahead(self, leaf: Leaf, scope: Scope, position: Name) -> None:
        """Fetch what this vector will read in the next block."""
        b, axis = self.b, self.frame.rank - 1
        ahead = b.add(position, BAND_BLOCK)
        for index in self._read_along(leaf):
            row = b.offset(scope.pointers[index], b.mul(ahead, self.frame.strides[index][axis]))
            self.fetch(row, self.width * item_size(self.kernel.arrays[index].dtype))


class RowTiles(TileWriter):
    """Members are rows: band points, or of several inner axes all but the last one's."""

    def __init__(self, frame: Frame) -> None:
        kernel, rows = frame.kernel, tile_rows(frame.kernel)
        lanes = leaf_width(kernel, kernel.leaves[0], frame.b.machine)
        super().__init__(frame, width=1, lanes=lanes, members=rows, points=rows, block=BLOCK)

    @contextmanager
    def _each(self, scope: Scope, points: Name) -> Iterator[tuple[Scope, Name]]:
        b = self.b
        with b.count(b.n(0), points) as k:
            b.enter(k)
            yield self._moved(scope, k), b.sub(points, k)

    def _some(self, scope: Scope, left: Name) -> Scope:
        return scope

    def _take_in(self, scope: Scope, points: Name, bounds: Bounds) -> None:
        b, leaf, reductions = self.b, self.kernel.leaves[0], self._reductions
        ordered, _ = parted(reductions)
        first, again = self.looked_back_at(leaf)
        with self._each(scope, points):
            for reduction in ordered:
                reduction.begin_block()
                reduction.pause()
        with b.count(*bounds, ACROSS_TILE) as turn:
            span = turn, b.minimum(b.add(turn, ACROSS_TILE), bounds[1]), b.n(1)
            with self._each(scope, points) as (there, _), self._turn():
                hoisted = self.hoist(leaf, there, self._lanes)
                self._vectors(first, there, self._lanes, span, hoisted, reductions)
        if not ordered:
            return
        with self._each(scope, points) as (there, _), self._turn():
            hoisted = self.hoist(leaf, there, self._lanes) if again is not None else {}
            self.look_back(again, there, self._lanes, (*bounds, b.n(1)), hoisted, reductions)
            for reduction in ordered:
                reduction.end_block()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """What is written inside goes on with what the member has."""
        for reduction in self._reductions.values():
            reduction.resume()
        yield
        for reduction in self._reductions.values():
            reduction.pause()
