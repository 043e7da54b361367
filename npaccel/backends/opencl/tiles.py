"""Reductions over leading axes, several vectors of columns at a time.

The same loops as in the LLVM backend, whose `tiles.py` says why:

    for (p = band_lo; p < band_hi; p += tile, or less at the end of that axis)
        for each chunk:
            for each block of 16 rows:
                for each vector v of the tile:  for (i in block)  lanes[v] += x[i][p + v];
                                                push lanes[v] on the counter of v
            for each vector v:  what a chunk's end asks for
        for each vector v:  results, row leaves

What a vector must keep while others have their turn lies in the work item's scratch memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from npaccel.backends.layout import BAND_BLOCK, CHUNK
from npaccel.backends.opencl.code import Code
from npaccel.backends.opencl.frame import Frame
from npaccel.backends.opencl.leaves import LeafWriter, Reduction, Scope
from npaccel.backends.opencl.reduce import Exact, Ordered
from npaccel.backends.opencl.widths import kernel_width
from npaccel.backends.tiles import LINE_BYTES, tile_vectors
from npaccel.ir.nodes import Kernel, Leaf, Stride
from npaccel.ir.scalar import Core, item_size, topological

__all__ = ["state_bytes", "write_tiled"]


def state_bytes(kernel: Kernel, vector_bytes: int) -> int:
    """Bytes of scratch memory that a work item needs."""
    code = Code()
    writer = _TileWriter(code, Frame(code, kernel), kernel_width(kernel, vector_bytes))
    writer.begin(kernel.leaves[0], vector_bytes)
    return code.state_bytes


def write_tiled(kernel: Kernel, code: Code, frame: Frame, vector_bytes: int) -> None:
    """Write the body of ``run``."""
    width = kernel_width(kernel, vector_bytes)
    writer = _TileWriter(code, frame, width)
    reductions = writer.begin(kernel.leaves[0], vector_bytes)
    band = range(kernel.band_rank)
    with frame.tasks():
        low, high = frame.range[0], frame.range[1]
        variables = frame.unravel(band, low, high)
        flat = code.variable("long")
        with code.block(f"for ({flat} = {low}; {flat} < {high}; )"):
            at = [code.long(variable) for variable in variables]
            row_left = code.long(f"{frame.extents[band[-1]]} - {at[-1]}")
            left = code.minimum(code.long(f"{high} - {flat}"), row_left)
            columns = code.minimum(left, str(width * tile_vectors(kernel, width)))
            here = code.long(flat)
            scope = Scope(here, at, frame.move(frame.bases, band, at), None, None)
            writer.tile(scope, columns, reductions)
            frame.advance(band, variables, at, columns)
            code.set(flat, f"{flat} + {columns}")


class _TileWriter(LeafWriter):
    def begin(self, leaf: Leaf, vector_bytes: int) -> dict[int, Reduction]:
        """Make the leaf's reductions, which last for each vector of a tile."""
        self.code.begin_state(tile_vectors(self.kernel, self.width))
        return self._reductions(leaf, self.width, several_rows=False)

    @contextmanager
    def _each(self, scope: Scope, columns: str) -> Iterator[tuple[Scope, str]]:
        """Once per vector of the tile: its scope, and how many columns are left."""
        code, last = self.code, self.kernel.band_rank - 1
        with code.count("0", columns, str(self.width)) as first:
            code.enter(f"{first} / {self.width}")
            there = replace(
                scope,
                flat=code.add(scope.flat, first),
                at=[*scope.at[:-1], code.add(scope.at[-1], first)],
                pointers=self.frame.move(scope.pointers, [last], [first]),
            )
            yield there, code.long(f"{columns} - {first}")

    def _some(self, scope: Scope, left: str) -> Scope:
        """`scope` of a vector that has at most `left` lanes."""
        lanes = self.code.minimum(left, str(self.width))
        return replace(scope, lanes=lanes, active=self.code.lanes_below(lanes, self.width))

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
                whole.begin()
                whole.pause()
        with code.count(*bounds, str(CHUNK)) as chunk:
            end = code.minimum(code.add(chunk, str(CHUNK)), bounds[1])
            self._chunk(scope, columns, (chunk, end), reductions)
        if frame.split_sums:
            return
        with self._each(scope, columns) as (vector, left):
            there = self._some(vector, left)
            for ready in reductions.values():
                if isinstance(ready, Exact):
                    ready.resume()
                names = ready.end_row() if isinstance(ready, Ordered) else ready.end()
                self.set_row(ready.effect.index, ready.combiner.result(names, self.width))
            for leaf in self.kernel.leaves[1:]:
                self.row(leaf, there)

    def _chunk(
        self,
        scope: Scope,
        columns: str,
        bounds: tuple[str, str],
        reductions: Mapping[int, Reduction],
    ) -> None:
        code, parts = self.code, self.frame.split_sums
        ordered, exact = _parted(reductions)
        with self._each(scope, columns):
            for reduction in ordered:
                reduction.begin_chunk()
            for whole in exact if parts else ():
                whole.begin()
                whole.pause()
        with code.count(*bounds, str(BAND_BLOCK)) as block:
            stop = code.minimum(code.add(block, str(BAND_BLOCK)), bounds[1])
            with self._each(scope, columns) as (there, left):
                self._block(there, left, (block, stop), reductions)
        part = code.long(f"{bounds[0]} / {CHUNK}") if parts else ""
        with self._each(scope, columns) as (vector, left):
            there = self._some(vector, left)
            for reduction in ordered:
                names = reduction.end_chunk()
                if parts:
                    self._store_part(reduction, names, there, part)
                else:
                    reduction.push_chunk(names)
            for whole in exact if parts else ():
                whole.resume()
                self._store_part(whole, whole.end(), there, part)

    def _block(
        self, scope: Scope, left: str, bounds: Sequence[str], reductions: Mapping[int, Reduction]
    ) -> None:
        """One vector's turn: a block of rows, with all lanes or with those that exist."""
        code, leaf = self.code, self.kernel.leaves[0]
        ordered, exact = _parted(reductions)
        for reduction in ordered:
            reduction.begin_block()
        for whole in exact:
            whole.resume()
        for head, masked in ((f"if ({left} >= {self.width})", False), ("else", True)):
            with code.block(head):
                there = self._some(scope, left) if masked else scope
                hoisted = self._hoist(leaf, there, self.width)
                with code.count(*bounds) as i:
                    if not masked:
                        self._fetch_ahead(leaf, there, i)
                    self._effects(leaf, self._at(there, i), self.width, hoisted, reductions)
        for reduction in ordered:
            reduction.end_block()
        for whole in exact:
            whole.pause()

    def _fetch_ahead(self, leaf: Leaf, scope: Scope, position: str) -> None:
        """Fetch into the second-level cache what this vector will read in the next block."""
        code, axis = self.code, self.frame.rank - 1
        reads = {node.attr for node in topological(leaf.roots) if node.op is Core.LOAD}
        for index, array in enumerate(self.kernel.arrays):
            if index not in reads or array.band_only or array.vector is not Stride.UNIT:
                continue
            stride = self.frame.strides[index][axis]
            row = f"{scope.pointers[index]} + ({position} + {BAND_BLOCK}) * {stride}"
            for line in range(0, max(1, self.width * item_size(array.dtype)), LINE_BYTES):
                code.do(f"FETCH({row} + {line});")


def _parted(reductions: Mapping[int, Reduction]) -> tuple[list[Ordered], list[Exact]]:
    ordered = [r for r in reductions.values() if isinstance(r, Ordered)]
    return ordered, [r for r in reductions.values() if isinstance(r, Exact)]
