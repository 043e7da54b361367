"""Work groups: how the items of one share a task, on devices that are no processors.

The builder's `lane_of_group` is the item's number in its group, of `size` items, a power of two and
at least LANES. What holds a barrier is reached by all items or by none: they run the loops over
tasks, points, rows and chunks together, each with its own copy of what those keep, and take
elements next to each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from npaccel.backends.emit.builder import Builder, Name, Variable
from npaccel.backends.emit.combine import Combiner
from npaccel.backends.layout import LANES

__all__ = ["Group"]


class _Tree(NamedTuple):
    """Steps in which items combine: distances from `first`, to be halved or doubled up to `end`.

    joins : distance to (whether an item takes part, whose value it takes)
    """

    falling: bool
    end: Name
    joins: Callable[[Name], tuple[Name, Name]]


class Group:
    """The items of a work group that compute one point together."""

    def __init__(self, b: Builder, size: int) -> None:
        self._b, self.size = b, size
        self._shared: dict[tuple[str, int], Variable] = {}

    def barrier(self) -> None:
        """What any item stored before, all see after it."""
        self._b.barrier()

    def fold(self, combiner: Combiner, names: Sequence[Name]) -> list[Name]:
        """All items' values in one, for folds that have no order."""
        return self._combine(combiner, names, [self._halves(self.size)])

    def fold_chunk(self, combiner: Combiner, names: Sequence[Name], teams: Name) -> list[Name]:
        """A chunk from `cut_chunk`, in its order: the teams' blocks, then the lanes."""
        trees = [self._neighbours(LANES, teams), self._halves(LANES)]
        return self._combine(combiner, names, trees)

    def fold_teams(
        self, combiner: Combiner, names: Sequence[Name], unit: Name, teams: Name
    ) -> list[Name]:
        """Of each item of a team of `unit` its own value with those of the others' same item."""
        home = self._b.coordinate("&", self._b.lane_of_group, self._b.sub(unit, 1))
        return self._combine(combiner, names, [self._neighbours(unit, teams)], home)

    def fold_runs(self, combiner: Combiner, names: Sequence[Name], used: Name) -> list[Name]:
        """What `cut` gave to the items, in order; `used` of them have any."""
        return self._combine(combiner, names, [self._neighbours(1, used)])

    def cut(self, count: Name, takers: Name | int) -> tuple[Name, Name]:
        """How many of `count` each taker gets, a power of two, and how many get any.

        Then each one's part is a subtree of what a binary counter makes of all of them, and the
        parts' results combine as a counter's do: neighbours first, a last one without a
        neighbour waits.
        """
        b = self._b
        share = b.div(b.sub(b.add(count, takers), 1), takers)
        each = self.power_of_two(share)
        return each, b.div(b.sub(b.add(count, each), 1), each)

    def power_of_two(self, least: Name) -> Name:
        """The smallest one that is not less."""
        b = self._b
        power = b.variable("n", 1)
        b.set(power, b.n(1))
        with b.while_less(power, least) as now:
            b.set(power, b.mul(now, 2))
        return b.get(power)

    def cut_chunk(
        self, chunk: Name, end: Name, block: int, unit: Name | int
    ) -> tuple[Name, Name, Name]:
        """This item's bounds, whole blocks, and how many teams of `unit` items have blocks."""
        b = self._b
        blocks = b.div(b.add(b.sub(end, chunk), block - 1), block)
        each, teams = self.cut(blocks, b.div(b.n(self.size), unit))
        length = b.mul(each, block)
        first = b.add(chunk, b.mul(b.div(b.lane_of_group, unit), length))
        return first, b.minimum(b.add(first, length), end), teams

    def _combine(
        self,
        combiner: Combiner,
        names: Sequence[Name],
        trees: Sequence[_Tree],
        home: Name | None = None,
    ) -> list[Name]:
        """The value of item `home` after these steps; None: of the first."""
        b = self._b
        places = [b.shared(dtype, k) for k, dtype in enumerate(combiner.dtypes)]

        def write(values: Sequence[Name]) -> None:
            for place, name in zip(places, values, strict=True):
                b.set(place, name, b.lane_of_group)

        def read(at: Name) -> list[Name]:
            return [b.get(place, at) for place in places]

        write(names)
        b.barrier()
        for tree in trees:
            distance = b.variable("n", 1)
            # A falling distance h is that of step h' = end / (2 * h).
            b.set(distance, b.n(1))
            with b.while_less(distance, tree.end) as h:
                takes, other = tree.joins(b.div(b.div(tree.end, h), 2) if tree.falling else h)
                with b.when(takes):
                    write(combiner.combine(read(b.lane_of_group), read(other)))
                b.barrier()
                b.set(distance, b.mul(h, 2))
        result = read(b.n(0) if home is None else home)
        b.barrier()  # before the next one writes
        return result

    def _halves(self, size: int) -> _Tree:
        """Item l with l + size/2, then + size/4, ... 1."""
        b = self._b

        def joins(h: Name) -> tuple[Name, Name]:
            return b.less(b.lane_of_group, h), b.add(b.lane_of_group, h)

        return _Tree(falling=True, end=b.n(size), joins=joins)

    def _neighbours(self, unit: Name | int, used: Name) -> _Tree:
        """Runs of `unit` items, `used` of them: each even one with the next, and so on."""
        b = self._b

        def joins(h: Name) -> tuple[Name, Name]:
            place = b.div(b.lane_of_group, unit)
            even = b.coordinate("==", b.coordinate("%", place, b.mul(h, 2)), b.n(0))
            takes = b.both(even, b.less(b.add(place, h), used))
            assert takes is not None
            return takes, b.add(b.lane_of_group, b.mul(h, unit))

        return _Tree(falling=False, end=used, joins=joins)
