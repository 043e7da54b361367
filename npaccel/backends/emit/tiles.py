"""Reductions over leading axes, several vectors of columns at a time.

One vector of columns after the other would read a few lines of each row and jump: slow, since no
hardware runs ahead of such reads. So a tile of neighbouring vectors goes through the rows together:

    for (p = band_lo; p < band_hi; p += tile, or less at the end of that axis)
        for each chunk:
            for each block of 16 rows:
                for each vector v of the tile:  for (i in block)  lanes[v] += x[i][p + v];
                                                push lanes[v] on the counter of v
            for each vector v:  what a chunk's end asks for
        for each vector v:  results, row leaves

What a vector must keep while others have their turn lies in the task's scratch memory. The order
in which each column is added is that of Note [Reduction order] in ir/nodes.py either way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from npaccel.backends.emit.builder import Builder, Name
from npaccel.backends.emit.effects import Reduction, Scope
from npaccel.backends.emit.frame import Frame
from npaccel.backends.emit.leaves import LeafWriter, parted
from npaccel.backends.emit.widths import kernel_width, tile_vectors
from npaccel.backends.layout import BAND_BLOCK, CHUNK
from npaccel.ir.nodes import Kernel, Leaf
from npaccel.ir.scalar import item_size

__all__ = ["TileWriter", "state_bytes"]


def state_bytes(b: Builder, kernel: Kernel) -> int:
    """Bytes of scratch memory that a task needs; `b` is used up."""
    TileWriter(Frame(b, kernel), kernel_width(kernel, b.machine)).begin()
    return b.state_bytes


class TileWriter(LeafWriter):
    """Writes the whole of such a kernel for a tile."""

    def begin(self) -> dict[int, Reduction]:
        """Make the reductions, which last for each vector of a tile."""
        self.b.begin_state(tile_vectors(self.kernel, self.width))
        return self.reductions(self.kernel.leaves[0], self.width, several_rows=False)

    @contextmanager
    def _each(self, scope: Scope, columns: Name) -> Iterator[tuple[Scope, Name]]:
        """Once per vector of the tile: its scope, and how many columns are left."""
        b, last = self.b, self.kernel.band_rank - 1
        with b.count(b.n(0), columns, self.width) as first:
            b.enter(b.div(first, self.width))
            there = replace(
                scope,
                flat=b.add(scope.flat, first),
                at=[*scope.at[:-1], b.add(scope.at[-1], first)],
                pointers=self.frame.move(scope.pointers, [last], [first]),
            )
            yield there, b.sub(columns, first)

    def _some(self, scope: Scope, left: Name, *, fewer: bool = False) -> Scope:
        """`scope` of a vector that has at most `left` lanes."""
        return replace(scope, lanes=self.b.lanes_below(left, self.width, fewer=fewer))

    def tile(self, scope: Scope, columns: Name, reductions: Mapping[int, Reduction]) -> None:
        """Everything, for one tile."""
        b, frame = self.b, self.frame
        ordered, exact = parted(reductions)
        bounds = b.n(0), frame.extents[frame.rank - 1]
        if self.kernel.split:
            bounds = frame.task.low, frame.task.high
        with self._each(scope, columns):
            for reduction in ordered:
                reduction.begin_row()
            for whole in exact:
                whole.begin()
                whole.pause()
        with b.count(*bounds, CHUNK) as chunk:
            end = b.minimum(b.add(chunk, CHUNK), bounds[1])
            self._chunk(scope, columns, (chunk, end), reductions)
        if frame.split_sums:
            return
        with self._each(scope, columns) as (vector, left):
            there = self._some(vector, left)
            for whole in exact:
                whole.resume()
            self.finish(reductions)
            for leaf in self.kernel.leaves[1:]:
                self.row(leaf, there)

    def _chunk(
        self,
        scope: Scope,
        columns: Name,
        bounds: tuple[Name, Name],
        reductions: Mapping[int, Reduction],
    ) -> None:
        b, (_, exact) = self.b, parted(reductions)
        parts = exact if self.frame.split_sums else ()
        with self._each(scope, columns):
            self.begin_chunk(reductions)
            for whole in parts:
                whole.pause()
        with b.count(*bounds, BAND_BLOCK) as block:
            stop = b.minimum(b.add(block, BAND_BLOCK), bounds[1])
            with self._each(scope, columns) as (there, left):
                self._block(there, left, (block, stop), reductions)
        with self._each(scope, columns) as (vector, left):
            there = self._some(vector, left)
            for whole in parts:
                whole.resume()
            self.end_chunk(reductions, there, bounds[0], None)

    def _block(
        self,
        scope: Scope,
        left: Name,
        bounds: tuple[Name, Name],
        reductions: Mapping[int, Reduction],
    ) -> None:
        """One vector's turn: a block of rows, with all lanes or with those that exist."""
        b, leaf = self.b, self.kernel.leaves[0]
        ordered, exact = parted(reductions)

        def rows(there: Scope) -> None:
            for reduction in ordered:
                reduction.begin_block()
            for whole in exact:
                whole.resume()
            hoisted = self.hoist(leaf, there, self.width)
            first, again = self.looked_back_at(leaf)
            with b.count(*bounds) as i:
                self._fetch_ahead(leaf, there, i)
                self.effects(first, [self.at(there, i)], self.width, hoisted, reductions)
            span = *bounds, b.n(1)
            self.look_back(again, there, self.width, span, hoisted, reductions)
            for reduction in ordered:
                reduction.end_block()
            for whole in exact:
                whole.pause()

        full = b.coordinate(">=", left, b.n(self.width))
        b.either(full, lambda: rows(scope), lambda: rows(self._some(scope, left, fewer=True)))

    def _fetch_ahead(self, leaf: Leaf, scope: Scope, position: Name) -> None:
        """Fetch what this vector will read in the next block."""
        b, axis = self.b, self.frame.rank - 1
        ahead = b.add(position, BAND_BLOCK)
        for index in self._read_along(leaf):
            row = b.offset(scope.pointers[index], b.mul(ahead, self.frame.strides[index][axis]))
            self.fetch(row, self.width * item_size(self.kernel.arrays[index].dtype))
