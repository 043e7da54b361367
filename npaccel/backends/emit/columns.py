"""Reductions over leading axes, by a work group that has several columns and several teams.

A team of items has neighbouring columns, so that what it reads lies together; each team has a run
of a chunk's blocks of 16 rows, which is a subtree of the order of sums (groups.py):

    for (p = band_lo; p < band_hi; p += columns)
        for each chunk:
            for each block of 16 rows of this team's run:
                for (i in block)  lane = lane + x[i][p + column];
                push lane on the counter of blocks
            combine the teams' runs in local memory
        results, row leaves: the first team

Few rows make few teams of many columns. An item beyond the last column has no rows.
"""

from __future__ import annotations

from npaccel.backends.emit.builder import Name
from npaccel.backends.emit.effects import Reduction, Scope
from npaccel.backends.emit.frame import Frame
from npaccel.backends.emit.groups import Group
from npaccel.backends.emit.leaves import LeafWriter, parted
from npaccel.backends.layout import BAND_BLOCK, CHUNK

__all__ = ["COLUMNS", "ColumnWriter"]

# Of a team: 8 bytes of each are a line of 64, of which devices read whole parts of 32.
COLUMNS = 8


class ColumnWriter(LeafWriter):
    """Writes the whole of such a kernel."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame, 1)
        b, size = frame.b, frame.group_size
        self._group = group = Group(b, size)
        points = frame.band_total
        fewest = group.power_of_two(b.minimum(points, COLUMNS))
        rows = b.minimum(frame.extents[frame.rank - 1], CHUNK)
        blocks = b.div(b.add(rows, BAND_BLOCK - 1), BAND_BLOCK)
        teams = group.power_of_two(b.minimum(blocks, b.div(b.n(size), fewest)))
        self._columns = b.div(b.n(size), teams)
        self._teams = teams
        self._first_team = b.less(b.lane_of_group, self._columns)
        self._reductions = self.reductions(self.kernel.leaves[0], 1, several_rows=False)

    def write(self) -> None:
        """All tasks of a group."""
        b, frame = self.b, self.frame
        band = range(self.kernel.band_rank)
        column = b.coordinate("&", b.lane_of_group, b.sub(self._columns, 1))
        with (
            frame.tasks() as task,
            b.count(task.band_low, task.band_high, self._columns) as first,
        ):
            flat = b.add(first, column)
            self._point(self.scope(flat, frame.coordinates(band, flat)))

    def _point(self, scope: Scope) -> None:
        """One column of each item of a team."""
        b, frame, reductions = self.b, self.frame, self._reductions
        ordered, exact = parted(reductions)
        for reduction in ordered:
            reduction.begin_row()
        for whole in exact:
            whole.begin()
        exists = b.less(scope.flat, frame.task.band_high)
        bounds = b.n(0), frame.extents[frame.rank - 1]
        if self.kernel.split:
            bounds = frame.task.low, frame.task.high
        with b.count(*bounds, CHUNK) as chunk:
            self._chunk(scope, exists, (chunk, b.minimum(b.add(chunk, CHUNK), bounds[1])))
        if frame.split_sums:
            return
        ends = {id(each): each.end() for each in ordered}
        ends |= {id(each): self._folded(each, each.end(), self._teams) for each in exact}
        for each in reductions.values():
            self.set_row(each.effect.index, each.combiner.result(ends[id(each)]))
        alone = b.both(exists, self._first_team)
        assert alone is not None
        with b.when(alone):
            for leaf in self.kernel.leaves[1:]:
                self.row(leaf, scope)

    def _chunk(self, scope: Scope, exists: Name, bounds: tuple[Name, Name]) -> None:
        b, leaf, reductions = self.b, self.kernel.leaves[0], self._reductions
        ordered, exact = parted(reductions)
        self.begin_chunk(reductions)
        low, end, teams = self._group.cut_chunk(*bounds, BAND_BLOCK, self._columns)
        high = b.select(exists, end, low)
        with b.when(b.less(low, high)):
            hoisted = self.hoist(leaf, scope, 1)
            with b.count(low, high, BAND_BLOCK) as block:
                for reduction in ordered:
                    reduction.begin_block()
                with b.count(block, b.minimum(b.add(block, BAND_BLOCK), high)) as i:
                    self.effects(leaf, [self.at(scope, i)], 1, hoisted, reductions)
                for reduction in ordered:
                    reduction.end_block()
        folded = {id(r): self._folded(r, r.end_chunk(None), teams) for r in ordered}
        if not self.frame.split_sums:
            for reduction in ordered:
                reduction.push_chunk(folded[id(reduction)])
            return
        folded |= {id(r): self._folded(r, r.end(), self._teams) for r in exact}
        alone, part = b.both(exists, self._first_team), b.div(bounds[0], CHUNK)
        assert alone is not None
        with b.when(alone):
            for each in reductions.values():
                self.store_part(each, folded[id(each)], scope, part)

    def _folded(self, reduction: Reduction, names: list[Name], teams: Name) -> list[Name]:
        return self._group.fold_teams(reduction.combiner, names, self._columns, teams)
