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

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from npaccel.backends.layout import BAND_BLOCK, CHUNK
from npaccel.backends.llvm.code import Code
from npaccel.backends.llvm.frame import Frame
from npaccel.backends.llvm.leaves import LeafWriter, Reduction, Scope
from npaccel.backends.llvm.reduce import Exact, Ordered
from npaccel.backends.llvm.widths import kernel_width
from npaccel.backends.tiles import LINE_BYTES, tile_vectors
from npaccel.ir.nodes import Kernel, Leaf, Stride
from npaccel.ir.scalar import Core, item_size, topological

__all__ = ["state_bytes", "write_tiled"]


def state_bytes(kernel: Kernel, vector_bytes: int) -> int:
    """Bytes of scratch memory that a task needs."""
    code = Code(set())
    writer = _TileWriter(
        code, Frame(code, kernel), kernel_width(kernel, vector_bytes), vector_bytes
    )
    writer.begin(kernel.leaves[0])
    return code.state_bytes


def write_tiled(kernel: Kernel, code: Code, frame: Frame, vector_bytes: int) -> None:
    """Write the body of ``main``."""
    width = kernel_width(kernel, vector_bytes)
    writer = _TileWriter(code, frame, width, vector_bytes)
    reductions = writer.begin(kernel.leaves[0])
    band = range(kernel.band_rank)
    low, high = frame.range[0], frame.range[1]
    variables = frame.unravel(band, low, high)
    flat_variable = code.variable("i64")
    code.set("i64", flat_variable, low)
    with code.loop_while("i64", flat_variable, "slt", high) as flat:
        at = [code.get("i64", variable) for variable in variables]
        left = code.emit(f"sub i64 {high}, {flat}")
        row_left = code.emit(f"sub i64 {frame.extents[band[-1]]}, {at[-1]}")
        most = str(width * tile_vectors(kernel, width))
        columns = code.minimum(code.minimum(left, row_left), most)
        scope = Scope(flat, at, frame.move(frame.bases, band, at), None)
        writer.tile(scope, columns, reductions)
        frame.advance(band, variables, at, columns)
        code.set("i64", flat_variable, code.add(flat, columns))


class _TileWriter(LeafWriter):
    def begin(self, leaf: Leaf) -> dict[int, Reduction]:
        """Make the leaf's reductions, which last for each vector of a tile."""
        self.code.begin_state(tile_vectors(self.kernel, self.width))
        return self._reductions(leaf, self.width, several_rows=False)

    @contextmanager
    def _each(self, scope: Scope, columns: str) -> Iterator[tuple[Scope, str]]:
        """Once per vector of the tile: its scope, and how many columns are left."""
        code, last = self.code, self.kernel.band_rank - 1
        with code.count("0", columns, str(self.width)) as first:
            code.enter("%scratch", code.emit(f"udiv exact i64 {first}, {self.width}"))
            there = replace(
                scope,
                flat=code.add(scope.flat, first),
                at=[*scope.at[:-1], code.add(scope.at[-1], first)],
                pointers=self.frame.move(scope.pointers, [last], [first]),
            )
            yield there, code.emit(f"sub i64 {columns}, {first}")

    def tile(self, scope: Scope, columns: str, reductions: Mapping[int, Reduction]) -> None:
        """The whole kernel for one tile."""
        code, frame = self.code, self.frame
        ordered, exact = _parted(reductions)
        bounds = ("0", frame.extents[frame.rank - 1])
        if self.kernel.split:
            bounds = (frame.range[2], frame.range[3])
        with self._each(scope, columns):
            for reduction in ordered:
                reduction.begin_row()
            for whole in exact:
                whole.begin_leaf()
                whole.pause()
        with code.count(*bounds, str(CHUNK)) as chunk:
            end = code.minimum(code.add(chunk, str(CHUNK)), bounds[1])
            self._chunk(scope, columns, (chunk, end), reductions)
        if frame.partials:
            return
        with self._each(scope, columns) as (vector, left):
            there = replace(vector, active=self.lanes_below(left, self.width))
            for whole in exact:
                whole.resume()
            self._finish_leaf(reductions, self.width)
            for leaf in self.kernel.leaves[1:]:
                self.row(leaf, there)

    def _chunk(
        self,
        scope: Scope,
        columns: str,
        bounds: tuple[str, str],
        reductions: Mapping[int, Reduction],
    ) -> None:
        code, parts = self.code, bool(self.frame.partials)
        ordered, exact = _parted(reductions)
        with self._each(scope, columns):
            for reduction in ordered:
                reduction.begin_chunk()
            for whole in exact if parts else ():
                whole.begin_part()
                whole.pause()
        with code.count(*bounds, str(BAND_BLOCK)) as block:
            stop = code.minimum(code.add(block, str(BAND_BLOCK)), bounds[1])
            with self._each(scope, columns) as (there, left):
                self._block(there, left, (block, stop), reductions)
        part = code.emit(f"sdiv i64 {bounds[0]}, {CHUNK}") if parts else ""
        with self._each(scope, columns) as (vector, left):
            there = replace(vector, active=self.lanes_below(left, self.width))
            for reduction in ordered:
                names = reduction.end_chunk()
                if parts:
                    self._store_part(reduction, names, there, part)
                else:
                    reduction.push_chunk(names)
            for whole in exact if parts else ():
                whole.resume()
                self._store_part(whole, whole.end_part(), there, part)

    def _block(
        self, scope: Scope, left: str, bounds: Sequence[str], reductions: Mapping[int, Reduction]
    ) -> None:
        """One vector's turn: a block of rows, with all lanes or with those that exist."""
        code, leaf = self.code, self.kernel.leaves[0]
        ordered, exact = _parted(reductions)
        full, tail, after = code.fresh("whole"), code.fresh("tail"), code.fresh("after")
        code.branch(code.emit(f"icmp sge i64 {left}, {self.width}"), full, tail)
        for label, masked in ((full, False), (tail, True)):
            code.start(label)
            active = self.lanes_below(left, self.width) if masked else None
            there = replace(scope, active=active)
            for reduction in ordered:
                reduction.begin_block()
            for whole in exact:
                whole.resume()
            hoisted = self._hoist(leaf, there, self.width)
            with code.count(bounds[0], bounds[1]) as i:
                self._fetch_ahead(leaf, there, i)
                self._effects(leaf, self._at(there, i, active), self.width, hoisted, reductions)
            for reduction in ordered:
                reduction.end_block()
            for whole in exact:
                whole.pause()
            code.jump(after)
        code.start(after)

    def _fetch_ahead(self, leaf: Leaf, scope: Scope, position: str) -> None:
        """Fetch into the second-level cache what this vector will read in the next block."""
        code, axis = self.code, self.frame.rank - 1
        reads = {node.attr for node in topological(leaf.roots) if node.op is Core.LOAD}
        ahead = code.add(position, str(BAND_BLOCK))
        for index, array in enumerate(self.kernel.arrays):
            if index not in reads or array.band_only or array.vector is not Stride.UNIT:
                continue
            row = code.offset(
                scope.pointers[index], code.mul(self.frame.strides[index][axis], ahead)
            )
            for line in range(0, max(1, self.width * item_size(array.dtype)), LINE_BYTES):
                # Read, moderate locality, data. Never faults.
                arguments = [("ptr", code.offset(row, str(line)))]
                arguments += [("i32", "0"), ("i32", "2"), ("i32", "1")]
                code.call("", "llvm.prefetch.p0", arguments)


def _parted(reductions: Mapping[int, Reduction]) -> tuple[list[Ordered], list[Exact]]:
    ordered = [r for r in reductions.values() if isinstance(r, Ordered)]
    return ordered, [r for r in reductions.values() if isinstance(r, Exact)]
