"""Scans along rows, by a work group that has several rows: tiles of them go through local memory.

A row is added in its order by one item; what it adds, and what is made of it, all items compute,
neighbours neighbouring elements, so that their accesses lie together:

    for (p = band_lo; p < band_hi; p += ROWS)
        for (i = 0; i < n; i += TILE)
            all:             tile[r][j + 1] = what is scanned, at row p + r and index i + j
            items r < ROWS:  tile[r][0] = the result so far;  for (j): tile[r][j + 1] = its result
            all:             the leaf, where a scan is tile[r][j + 1] and the one before tile[r][j]
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from npaccel.backends.emit.body import evaluate
from npaccel.backends.emit.builder import Name, Value
from npaccel.backends.emit.effects import Scope
from npaccel.backends.emit.frame import Frame
from npaccel.backends.emit.leaves import LeafWriter
from npaccel.backends.emit.scalars import single
from npaccel.ir.nodes import Kernel, Store
from npaccel.ir.scalar import Core, Expr, scans

__all__ = ["LONGEST", "ROWS", "ScanWriter", "is_scanned"]

# A tile's rows, and their elements at most: 8 KiB of doubles, of which a unit keeps several
# (an H200: running sums of 16 Mi doubles 0.67 ms, `x + y` 0.44; other sizes were not tried).
ROWS, LONGEST = 16, 64


def is_scanned(kernel: Kernel) -> bool:
    """Whether it is one loop along rows that stores what it makes of one scan."""
    leaf, *more = kernel.leaves
    return (
        not (more or kernel.vector_band or kernel.scratch or leaf.row)
        and kernel.inner_rank == 1
        and all(isinstance(effect, Store) and effect.offset is None for effect in leaf.effects)
        and len(_scans(kernel)) == 1
    )


def _scans(kernel: Kernel) -> list[Expr]:
    roots = kernel.leaves[0].all_roots
    return [node for node in scans(roots) if node.op is Core.SCAN]


class ScanWriter(LeafWriter):
    """Writes the whole of such a kernel."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame, 1)
        b = frame.b
        self._leaf = self.kernel.leaves[0]
        (self._node,) = _scans(self.kernel)
        self._length = min(LONGEST, frame.group_size)
        # One more, so that what lies one below the other is in different banks.
        self._pitch = self._length + 1
        self._tile = b.shared_tile(self._node.dtype, ROWS * self._pitch)
        self._carry = b.variable(self._node.dtype, 1)
        self._at = b.n(0)  # of the element at hand, in the tile

    def write(self) -> None:
        """All tasks of a group."""
        b, frame = self.b, self.frame
        length = frame.extents[frame.rank - 1]
        with frame.tasks() as task, b.count(task.band_low, task.band_high, ROWS) as first:
            rows = b.minimum(b.sub(task.band_high, first), ROWS)
            with b.count(b.n(0), length, self._length) as begin:
                columns = b.minimum(b.sub(length, begin), self._length)
                with self._elements(first, rows, begin, columns) as scope:
                    self._give(scope)
                b.barrier()
                with b.when(b.less(b.lane_of_group, rows)):
                    self._scan_row(begin, columns)
                b.barrier()
                with self._elements(first, rows, begin, columns) as scope:
                    self.effects(self._leaf, [scope], 1, {}, {})
                b.barrier()  # the next tile overwrites this one

    @contextmanager
    def _elements(self, first: Name, rows: Name, begin: Name, columns: Name) -> Iterator[Scope]:
        """Run over this item's elements of the tile."""
        b, frame, lane = self.b, self.frame, self.b.lane_of_group
        column = b.coordinate("&", lane, b.n(self._length - 1))
        with (
            b.when(b.less(column, columns)),
            b.count(b.div(lane, self._length), rows, frame.group_size // self._length) as row,
        ):
            flat = b.add(first, row)
            point = self.scope(flat, frame.coordinates(range(self.kernel.band_rank), flat))
            self._at = b.add(b.mul(row, self._pitch), column)
            yield self.at(point, b.add(begin, column))

    def _give(self, scope: Scope) -> None:
        """What is scanned there, into the tile."""
        operand = self._node.args[0]
        (values,), _ = evaluate(self.b, 1, [operand], [self._source(scope, 1, {})])
        self.b.set(self._tile, single(values[operand]), self.b.add(self._at, 1))

    def _scan_row(self, begin: Name, columns: Name) -> None:
        """This item's row of the tile: what was given becomes results. See Note [Scan]."""
        b = self.b
        row = b.mul(b.lane_of_group, self._pitch)
        start = b.coordinate("==", begin, b.n(0))
        given = b.get(self._tile, b.add(row, 1))
        last = b.select(start, given, b.get(self._carry))
        b.set(self._tile, last, row)
        result = b.select(start, given, self._accumulated(self._node, last, given))
        b.set(self._tile, result, b.add(row, 1))
        b.set(self._carry, result)
        with b.count(b.n(1), columns) as j:
            at = b.add(b.add(row, j), 1)
            result = self._accumulated(self._node, b.get(self._carry), b.get(self._tile, at))
            b.set(self._tile, result, at)
            b.set(self._carry, result)

    def _scan(self, node: Expr, x: Name, scope: Scope) -> tuple[Name, Value]:
        here = self.b.get(self._tile, self.b.add(self._at, 1))
        return here, (self.b.get(self._tile, self._at),)
