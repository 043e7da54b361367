"""One leaf of a kernel: its loops over rows, chunks, blocks and vectors.

What an iteration does is in effects.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from npaccel.backends.emit.access import Place, load, store
from npaccel.backends.emit.body import when_any
from npaccel.backends.emit.builder import Name, Value, Which
from npaccel.backends.emit.effects import Effects, Reduction, Scope
from npaccel.backends.emit.frame import Frame
from npaccel.backends.emit.guards import looked_back_at
from npaccel.backends.emit.reduce import Exact, Ordered, store_partial
from npaccel.backends.emit.widths import (
    LINE_BYTES,
    SMALL_BODY,
    TINY_BODY,
    has_plain_tail,
    leaf_vectors,
    node_count,
    register_lanes,
)
from npaccel.backends.layout import (
    BAND_BLOCK,
    BLOCK,
    CHUNK,
    LANES,
    PARTIAL_BYTES,
    is_ordered,
    stores_freely,
)
from npaccel.ir.nodes import Leaf, Reduce, Store, Stride
from npaccel.ir.scalar import Core, item_size, topological

__all__ = ["Bounds", "LeafWriter", "parted"]

Bounds = tuple[Name, Name]
# How far ahead a body fetches: onto the next page, where the processor does not look ahead (AMD
# Zen 4: a map of twenty nodes at 1.65 times the speed, with 2 KiB at 1.3 times).
AHEAD_BYTES = 4096


def parted(reductions: Mapping[int, Reduction]) -> tuple[list[Ordered], list[Exact]]:
    """Those that keep an order, and the others."""
    ordered = [r for r in reductions.values() if isinstance(r, Ordered)]
    return ordered, [r for r in reductions.values() if isinstance(r, Exact)]


class LeafWriter(Effects):
    """Writes leaves of one kernel. `width`: lanes of a point's values; 1 if they lie inside."""

    def __init__(self, frame: Frame, width: int) -> None:
        super().__init__(frame, width)
        # Of a group's items: where each begins along a row and among rows, and its steps.
        b = self.b
        if frame.group is not None:
            self._along = b.lane_of_group, b.n(frame.group_size)
        self._down = b.n(0), b.n(1)

    def share_rows(self) -> Bounds:
        """Have a group take several rows at a time where they are short; without barriers.

        Where an item begins among the band points, and its steps: its rows, if there is a band.
        """
        b, size, group = self.b, self.frame.group_size, self.frame.group
        assert group is not None
        step = group.power_of_two(b.minimum(self.frame.extents[self.frame.rank - 1], size))
        self._along = b.coordinate("&", b.lane_of_group, b.sub(step, 1)), step
        down = b.div(b.lane_of_group, step), b.div(b.n(size), step)
        if self.kernel.band_rank:
            return down
        self._down = down
        return b.n(0), b.n(1)

    def row(self, leaf: Leaf, scope: Scope) -> None:
        """A leaf that runs once per band point."""
        with self.b.inside():
            self.effects(leaf, [scope], self.width, {}, {})

    def inner(self, leaf: Leaf, scope: Scope, width: int) -> None:
        """A leaf that runs over the inner axes, `width` lanes at a time."""
        frame = self.frame
        several = len(frame.inner_axes) > 1
        reductions = self.reductions(leaf, width, several_rows=several)
        for reduction in reductions.values():
            reduction.begin()
        low, high = self.b.n(0), frame.row_count
        if several and self.kernel.split:
            low, high = frame.task.low, frame.task.high
        with self._rows(low, high) as (row, at):
            pointers = frame.move(scope.pointers, frame.inner_axes[:-1], at)
            there = replace(scope, at=[*scope.at, *at], pointers=pointers, row=row)
            bounds = self.b.n(0), frame.extents[frame.rank - 1]
            if self.kernel.split and not several:
                bounds = frame.task.low, frame.task.high
            self._one_row(leaf, there, width, bounds, reductions)
        if not frame.split_sums:
            self.finish(reductions)

    @contextmanager
    def _rows(self, low: Name, high: Name) -> Iterator[tuple[Name, list[Name]]]:
        """Run over flattened rows [low, high) of the inner space, or over this item's of them."""
        axes, (first, step) = self.frame.inner_axes[:-1], self._down
        if not axes:
            yield self.b.n(0), []
        elif step == "1":
            with self.frame.points(axes, low, high) as (row, at):
                yield row, at
        else:
            with self.frame.spread(axes, self.b.add(low, first), high, step) as (row, at):
                yield row, at

    def reductions(self, leaf: Leaf, width: int, *, several_rows: bool) -> dict[int, Reduction]:
        """Accumulators of the leaf's reductions."""
        made: dict[int, Reduction] = {}
        b, group, banded = self.b, self.frame.group, self.banded
        for effect in leaf.effects:
            if isinstance(effect, Reduce) and is_ordered(effect):
                made[id(effect)] = Ordered(
                    b, effect, width, group, banded=banded, several_rows=several_rows
                )
            elif isinstance(effect, Reduce):
                made[id(effect)] = Exact(b, effect, width, group, banded=banded)
        return made

    def finish(self, reductions: Mapping[int, Reduction]) -> None:
        """The leaf's end: its reductions' results become rows."""
        for reduction in reductions.values():
            value = reduction.combiner.result(reduction.end())
            self.set_row(reduction.effect.index, value)

    def _one_row(
        self,
        leaf: Leaf,
        scope: Scope,
        width: int,
        bounds: Bounds,
        reductions: Mapping[int, Reduction],
    ) -> None:
        ordered, exact = parted(reductions)
        for reduction in ordered:
            reduction.begin_row()
        for whole in exact if self.frame.row_parts else ():
            whole.begin()
        with self.b.when(self.b.less(*bounds)):
            hoisted = self.hoist(leaf, scope, width)
            first, again = self.looked_back_at(leaf)
            with self._chunks(scope, bounds, reductions) as inside:
                self._vectors(first, scope, width, inside, hoisted, reductions)
                self.look_back(again, scope, width, inside, hoisted, reductions)
        self.end_row(reductions, scope)

    def end_row(self, reductions: Mapping[int, Reduction], scope: Scope) -> None:
        """A row's end: its result is a part, or one of the leaf's."""
        (ordered, exact), parts = parted(reductions), self.frame.row_parts
        for reduction in ordered:
            names = reduction.end_row()
            if parts:
                self.store_part(reduction, names, scope, scope.row)
            else:
                reduction.push_row(names)
        for whole in exact if parts else ():
            self.store_part(whole, whole.end(), scope, scope.row)

    def looked_back_at(self, leaf: Leaf) -> tuple[Leaf, Leaf | None]:
        """What runs always, and what to do again of a block whose sums are not finite."""
        if self.frame.group is not None or node_count(leaf) > SMALL_BODY:
            return leaf, None
        first, again = looked_back_at(leaf)
        if again is None:
            return leaf, None
        return self.part_of(leaf, first), self.part_of(leaf, again)

    def look_back(
        self,
        again: Leaf | None,
        scope: Scope,
        width: int,
        bounds: tuple[Name, Name, Name],
        hoisted: Mapping[int, Value],
        reductions: Mapping[int, Reduction],
    ) -> None:
        """At a block's end: do `again` what sums that are not finite ask for."""
        if again is None:
            return
        ordered, _ = parted(reductions)
        with when_any(self.b, scope.lanes, [mask for sum_ in ordered for mask in sum_.told()]):
            if self.banded or width == 1:
                self._vectors(again, scope, width, bounds, hoisted, reductions)
            else:
                self._masked(again, scope, width, bounds[:2], hoisted, reductions)

    @contextmanager
    def _chunks(
        self, scope: Scope, bounds: Bounds, reductions: Mapping[int, Reduction]
    ) -> Iterator[tuple[Name, Name, Name]]:
        """Cut `bounds` into chunks and blocks as far as the reductions ask for it.

        Yields the bounds of a loop, and a step: of a group's item, else 1.
        """
        b, (ordered, exact) = self.b, parted(reductions)
        if not ordered and not (exact and self.frame.chunk_parts):
            yield self._items(*bounds)
            return
        with b.count(*bounds, CHUNK) as chunk:
            end = b.minimum(b.add(chunk, CHUNK), bounds[1])
            self.begin_chunk(reductions)
            teams = None
            if ordered:
                group, first, last = self.frame.group, chunk, end
                if group is not None:
                    first, last, teams = group.cut_chunk(chunk, end, BLOCK, LANES)
                step = BAND_BLOCK if self.banded else BLOCK
                with b.count(first, last, step) as block:
                    for reduction in ordered:
                        reduction.begin_block()
                    stop = b.minimum(b.add(block, step), end)
                    if group is None:
                        yield block, stop, b.n(1)
                    else:
                        lane = b.coordinate("%", b.lane_of_group, b.n(LANES))
                        yield b.add(block, lane), stop, b.n(LANES)
                    for reduction in ordered:
                        reduction.end_block()
            else:
                yield self._items(chunk, end)
            self.end_chunk(reductions, scope, chunk, teams)

    def begin_chunk(self, reductions: Mapping[int, Reduction]) -> None:
        """A chunk's begin; of a kernel whose chunks are parts, a part's."""
        ordered, exact = parted(reductions)
        for reduction in ordered:
            reduction.begin_chunk()
        for whole in exact if self.frame.chunk_parts else ():
            whole.begin()

    def end_chunk(
        self, reductions: Mapping[int, Reduction], scope: Scope, chunk: Name, teams: Name | None
    ) -> None:
        """Its end."""
        (ordered, exact), parts = parted(reductions), self.frame.chunk_parts
        part = self.b.div(chunk, CHUNK) if parts else chunk
        for reduction in ordered:
            names = reduction.end_chunk(teams)
            if parts:
                self.store_part(reduction, names, scope, part)
            else:
                reduction.push_chunk(names)
        for whole in exact if parts else ():
            self.store_part(whole, whole.end(), scope, part)

    def _items(self, low: Name, high: Name) -> tuple[Name, Name, Name]:
        """Bounds of a loop over [low, high), and its step."""
        if self.frame.group is None:
            return low, high, self.b.n(1)
        first, step = self._along
        return self.b.add(low, first), high, step

    def _vectors(
        self,
        leaf: Leaf,
        scope: Scope,
        width: int,
        bounds: tuple[Name, Name, Name],
        hoisted: Mapping[int, Value],
        reductions: Mapping[int, Reduction],
    ) -> None:
        """The loop along a row: whole iterations, then the elements that are left."""
        b, (low, high, step) = self.b, bounds
        if self.banded or width == 1:
            with b.count(low, high, step) as i:
                self.effects(leaf, [self.at(scope, i)], width, hoisted, reductions)
            return
        if node_count(leaf) > b.machine.large_body:
            self._masked(leaf, scope, width, (low, high), hoisted, reductions)
            return
        vectors, first = leaf_vectors(leaf, b.machine), self._first_line(leaf, scope, bounds)
        length = b.coordinate("&", b.sub(high, first), b.n(-width * vectors))
        main = b.add(first, length)
        with b.count(first, main, width * vectors) as i:
            self._prefetch(leaf, scope, i, width * vectors)
            scopes = [self.at(scope, b.add(i, k * width)) for k in range(vectors)]
            self.effects(leaf, scopes, width, hoisted, reductions)
        if first is low:
            self._ends(leaf, scope, width, (main, high), hoisted, reductions)
            return
        with b.count(b.n(0), b.n(2)) as end:
            at_start = b.coordinate("==", end, b.n(0))
            ends = b.select(at_start, low, main), b.select(at_start, first, high)
            self._ends(leaf, scope, width, ends, hoisted, reductions)

    def _first_line(self, leaf: Leaf, scope: Scope, bounds: tuple[Name, Name, Name]) -> Name:
        """From where on what the leaf stores past the cache fills whole lines, if it matters."""
        b, (low, high, _) = self.b, bounds
        arrays = {e.array for e in leaf.effects if isinstance(e, Store)}
        streamed = [index for index in arrays if self.kernel.arrays[index].nontemporal]
        if not b.machine.streams or not stores_freely(leaf) or len(streamed) != 1:
            return low
        size = item_size(self.kernel.arrays[streamed[0]].dtype)
        place = b.address(b.offset(scope.pointers[streamed[0]], b.mul(low, size)))
        before = b.coordinate("&", b.sub(b.n(0), place), b.n(LINE_BYTES - 1))
        return b.minimum(b.add(low, b.div(before, size)), high)

    def _ends(
        self,
        leaf: Leaf,
        scope: Scope,
        width: int,
        bounds: Bounds,
        hoisted: Mapping[int, Value],
        reductions: Mapping[int, Reduction],
    ) -> None:
        """What whole iterations leave of a row."""
        b = self.b
        if not reductions and has_plain_tail(self.kernel, leaf, b.machine):
            with b.count(*bounds) as i:
                self.effects(leaf, [self.at(scope, i)], 1, {}, {})
        elif leaf_vectors(leaf, b.machine) > 1:
            self._masked(leaf, scope, width, bounds, hoisted, reductions)
        elif not reductions and width > register_lanes(leaf, b.machine):
            least = register_lanes(leaf, b.machine)  # short rows have little else
            self._masked(leaf, scope, least, bounds, {}, reductions)
        else:
            with b.when(b.less(*bounds)):
                lanes = b.lanes_below(b.sub(bounds[1], bounds[0]), width, fewer=True)
                last = self.at(replace(scope, lanes=lanes), bounds[0])
                self._prefetch(leaf, scope, bounds[0], width)
                self.effects(leaf, [last], width, hoisted, reductions)

    def _masked(
        self,
        leaf: Leaf,
        scope: Scope,
        width: int,
        bounds: Bounds,
        hoisted: Mapping[int, Value],
        reductions: Mapping[int, Reduction],
    ) -> None:
        """Vectors some of whose lanes may not exist."""
        with self.b.count(*bounds, width) as i:
            lanes = self.b.lanes_below(self.b.sub(bounds[1], i), width)
            there = self.at(replace(scope, lanes=lanes), i)
            self._prefetch(leaf, scope, i, width)
            self.effects(leaf, [there], width, hoisted, reductions)

    def _prefetch(self, leaf: Leaf, scope: Scope, position: Name, elements: int) -> None:
        """Fetch what a body needs some iterations on, and what the next row begins with.

        Neither can the processor look ahead so far, nor does it know in time: a body's loads wait
        behind its arithmetic, and a row's first loop waits for memory, its later ones do not.
        """
        loops = [other for other in self.kernel.leaves if not other.row]
        before = sum(not other.row for other in self.kernel.leaves[: self.number(leaf)])
        if node_count(leaf) > TINY_BODY:
            written = {e.array for e in leaf.effects if isinstance(e, Store)}
            needed = {*self._read_along(leaf), *self._along_rows(written)}
            for index in sorted(needed.difference(*map(self._read_along, loops[:before]))):
                self._fetch_from(scope.pointers[index], index, position, elements, AHEAD_BYTES)
        if before != 1 or self.kernel.band_rank == 0:
            return
        axis = self.kernel.band_rank - 1
        for index in self._read_along(loops[0]):
            next_row = self.b.offset(scope.pointers[index], self.frame.strides[index][axis])
            self._fetch_from(next_row, index, position, elements, 0)

    def _fetch_from(
        self, row: Name, index: int, position: Name, elements: int, further: int
    ) -> None:
        """Fetch so many elements of an array from `further` bytes behind a place in the row."""
        size = item_size(self.kernel.arrays[index].dtype)
        along = self.b.add(self.b.mul(position, size), further)
        self.fetch(self.b.offset(row, along), elements * size)

    def _read_along(self, leaf: Leaf) -> list[int]:
        """Arrays that the leaf loads element by element."""
        return self._along_rows(
            {int(str(node.attr)) for node in topological(leaf.roots) if node.op is Core.LOAD}
        )

    def _along_rows(self, chosen: set[int]) -> list[int]:
        """Those of the arrays whose elements lie side by side, and in the cache once stored."""
        return [
            index
            for index, array in enumerate(self.kernel.arrays)
            if index in chosen
            and array.vector is Stride.UNIT
            and not (array.band_only or array.nontemporal)
        ]

    def fetch(self, pointer: Name, size_bytes: int) -> None:
        """Fetch so many bytes into the second-level cache, if the machine can."""
        if self.b.machine.fetches:
            for line in range(0, max(1, size_bytes), LINE_BYTES):
                self.b.fetch(self.b.offset(pointer, line))

    def hoist(self, leaf: Leaf, scope: Scope, width: int) -> dict[int, Value]:
        """Load before the loop what does not move in it and is not written in it."""
        written = {e.array for e in leaf.effects if isinstance(e, Store)}
        hoisted: dict[int, Value] = {}
        for node in topological(leaf.all_roots):
            if node.op is not Core.LOAD or node.attr in written:
                continue
            index = node.attr
            assert isinstance(index, int)
            array = self.kernel.arrays[index]
            if array.band_only if self.banded else array.vector is Stride.ZERO:
                place = self.place(index, scope)
                hoisted[index] = load(self.b, place, width, scope.lanes)
        return hoisted

    def store_part(
        self, reduction: Reduction, names: Sequence[Name], scope: Scope, part: Name
    ) -> None:
        """Keep a part's result for the finish function."""
        b, frame = self.b, self.frame
        ordinal = self.ordinals[id(reduction.effect)]
        pointer = frame.partial(scope.flat, part, ordinal)
        if self.width == 1:
            with b.when(b.coordinate("==", b.lane_of_group, b.n(0))) if frame.group else b.inside():
                store_partial(b, names, pointer)
            return
        stride = b.mul(frame.parts, PARTIAL_BYTES * len(self.ordinals))
        for k, name in enumerate(names):
            place = Place(name.dtype, b.offset(pointer, 8 * k), Stride.ANY, stride)
            store(b, place, (name,), Which(scope.lanes))
