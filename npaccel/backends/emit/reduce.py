"""Reductions: accumulators, and the order of Note [Reduction order] in ir/nodes.py.

`Ordered` keeps that order for sums and products of floats:

    for chunk: for block: lanes = identity; for step: lanes = lanes + x
               push lanes on a binary counter of blocks
           fold the lanes; push on a counter of chunks
    (then a counter of rows, where there are several inner axes)

`Exact` needs no order and keeps one accumulator per lane of the loop. The 32 lanes of the order are
one vector where the machine takes wide ones, else several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from npaccel.backends.emit.builder import Builder, Name, Value, Variable
from npaccel.backends.emit.combine import Combiner
from npaccel.backends.emit.groups import Group
from npaccel.backends.layout import LANES
from npaccel.ir.nodes import Reduce
from npaccel.ir.scalar import Core

__all__ = ["ROW_LEVELS", "Counter", "Exact", "Ordered", "load_partial", "store_partial"]

# Enough for 2048 blocks, 2**30 chunks and 2**44 rows; they are on the stack.
BLOCK_LEVELS = 12
CHUNK_LEVELS = 30
ROW_LEVELS = 44


@contextmanager
def _each(b: Builder, vectors: int) -> Iterator[Name | None]:
    """Run over that many vectors; of one nothing says which."""
    if vectors == 1:
        yield None
        return
    with b.count(b.n(0), b.n(vectors)) as j:
        yield j


class Counter:
    """A binary counter: equal-sized neighbours combine at once, the rest from the smallest up.

    Counts sets of `vectors` vectors of `width` lanes, of each of the combiner's components.
    """

    def __init__(
        self, b: Builder, combiner: Combiner, width: int, levels: int, vectors: int = 1
    ) -> None:
        self._b, self._combiner, self._vectors, self._width = b, combiner, vectors, width
        self._stacks = [b.lasting(dtype, width, levels * vectors) for dtype in combiner.dtypes]
        self._values = [b.variable(dtype, width, vectors) for dtype in combiner.dtypes]
        self._count = b.lasting("n", 1)

    def reset(self) -> None:
        self._b.set(self._count, self._b.n(0))

    def push(self, value: Callable[[Name | None], Sequence[Name]]) -> None:
        """Count one more; `value` gives its vectors."""
        b = self._b
        count = b.get(self._count)
        after = b.add(count, 1)
        merges, top = b.coordinate("zeros", after, after), b.coordinate("ones", count, count)
        with _each(b, self._vectors) as j:
            self._set(j, value(j))
        with b.count(b.n(0), merges) as k:
            self._merge(b.sub(b.sub(top, k), 1))
        place = b.sub(top, merges)
        with _each(b, self._vectors) as j:
            at = self._at(place, j)
            for stack, name in zip(self._stacks, self.vectors(j), strict=True):
                b.set(stack, name, at)
        b.set(self._count, after)

    def finish(self) -> None:
        """Have `vectors` give what all that was pushed comes to; the identity if nothing was."""
        b = self._b
        count = b.get(self._count)
        top = b.coordinate("ones", count, count)
        with _each(b, self._vectors) as j:
            self._set(j, self._combiner.identity(self._width))
        with b.when(b.coordinate("!=", top, b.n(0))):
            last = b.sub(top, 1)
            with _each(b, self._vectors) as j:
                self._set(j, self._load(last, j))
            with b.count(b.n(1), top) as k:
                self._merge(b.sub(last, k))

    def vectors(self, j: Name | None = None) -> list[Name]:
        """Vector `j` of what `finish` made."""
        return [self._b.get(value, j) for value in self._values]

    def _merge(self, at: Name) -> None:
        with _each(self._b, self._vectors) as j:
            self._set(j, self._combiner.combine(self._load(at, j), self.vectors(j)))

    def _at(self, level: Name, j: Name | None) -> Name:
        return level if j is None else self._b.add(self._b.mul(level, self._vectors), j)

    def _load(self, level: Name, j: Name | None) -> list[Name]:
        at = self._at(level, j)
        return [self._b.get(stack, at) for stack in self._stacks]

    def _set(self, j: Name | None, names: Sequence[Name]) -> None:
        for value, name in zip(self._values, names, strict=True):
            self._b.set(value, name, j)


def _copy(b: Builder, variables: Sequence[Variable], to: Sequence[Variable]) -> None:
    for one, other in zip(variables, to, strict=True):
        for j in range(one.count):
            at = b.n(j) if one.count > 1 else None
            b.set(other, b.get(one, at), at)


class _Kept:
    """What a member of a tile keeps of its `_lanes` while others have their turn."""

    _b: Builder
    _lanes: list[Variable]
    _kept: list[Variable]

    def _keep(self) -> None:
        b = self._b
        made = [b.lasting(v.dtype, v.width, v.count) for v in self._lanes] if b.members else []
        self._kept = made

    def resume(self) -> None:
        """In a tile: go on where `pause` left off."""
        _copy(self._b, self._kept, self._lanes)

    def pause(self) -> None:
        """In a tile: another member's turn."""
        _copy(self._b, self._lanes, self._kept)


class Exact(_Kept):
    """A fold that any order leaves the same. `banded`: each lane is a band point of its own.

    group : whose items take elements of one point, or None
    """

    def __init__(
        self, b: Builder, effect: Reduce, width: int, group: Group | None, *, banded: bool
    ) -> None:
        self.effect, self._width, self._group = effect, width, group
        self.combiner = Combiner(b, effect)
        self._b, self._banded = b, banded
        self._lanes = [b.variable(dtype, width) for dtype in self.combiner.dtypes]
        self._keep()

    def begin(self) -> None:
        """A leaf begins, or a part of a split kernel, whose `end` is stored alone."""
        for variable, name in zip(self._lanes, self.combiner.identity(self._width), strict=True):
            self._b.set(variable, name)

    def step(self, value: Value, active: Name | None, index: Name | None, position: Name) -> None:
        """Take in one vector. `index`: its lanes' flattened inner index; `position`: unused."""
        old = [self._b.get(variable) for variable in self._lanes]
        new = self.combiner.take(old, value, active, index)
        for variable, name in zip(self._lanes, new, strict=True):
            self._b.set(variable, name)

    def end(self) -> list[Name]:
        """The result."""
        names = [self._b.get(variable) for variable in self._lanes]
        if self._group is not None:
            return self._group.fold(self.combiner, names)
        return names if self._banded else self.combiner.fold_lanes(names)


class Ordered(_Kept):
    """A float sum or product: 32 lanes, or in a banded loop one per band point.

    group : of items, each of which is one of the 32 lanes and has some of a chunk's blocks; or None
    """

    def __init__(
        self,
        b: Builder,
        effect: Reduce,
        width: int,
        group: Group | None,
        *,
        banded: bool,
        several_rows: bool,
    ) -> None:
        self.effect, self._width, self._group = effect, width, group
        self.combiner = combiner = Combiner(b, effect)
        self._b, self._banded = b, banded
        single = banded or group is not None
        # One wide vector, of which a step takes a part, or several.
        self._whole = width if single or not b.machine.wide else LANES
        self._vectors = 1 if single else LANES // self._whole
        self._lanes = [b.variable(d, self._whole, self._vectors) for d in combiner.dtypes]
        self._keep()
        self._blocks = Counter(b, combiner, self._whole, BLOCK_LEVELS, self._vectors)
        lanes = width if banded else 1
        self._chunks = Counter(b, combiner, lanes, CHUNK_LEVELS)
        self._rows = Counter(b, combiner, lanes, ROW_LEVELS) if several_rows else None

    def begin(self) -> None:
        if self._rows is not None:
            self._rows.reset()

    def begin_row(self) -> None:
        self._chunks.reset()

    def begin_chunk(self) -> None:
        self._blocks.reset()

    def begin_block(self) -> None:
        with _each(self._b, self._vectors) as j:
            for variable, name in zip(
                self._lanes, self.combiner.identity(self._whole), strict=True
            ):
                self._b.set(variable, name, j)

    def step(self, value: Value, active: Name | None, index: Name | None, position: Name) -> None:
        """Take in one vector, whose first lane is element `position` of its row."""
        b, at, places = self._b, None, self._lanes
        if self._vectors > 1 or self._whole != self._width:
            lane = b.coordinate("&", position, b.n(LANES - 1))
            if self._vectors > 1:
                at = b.div(lane, self._width)
            else:
                places = [b.part(variable, lane, self._width) for variable in places]
        old = [b.get(place, at) for place in places]
        for place, name in zip(places, self.combiner.take(old, value, active, None), strict=True):
            b.set(place, name, at)

    def told(self) -> list[Name]:
        """In which lanes, of each vector, what the block has so far is not finite."""
        b, masks = self._b, list[Name]()
        for j in range(self._vectors):
            for variable in self._lanes:
                x = b.get(variable, b.n(j) if self._vectors > 1 else None)
                zero = b.instruction(Core.MUL, (x, b.constant(x.dtype, 0.0, x.width)))
                masks.append(b.compare(Core.NE, zero, zero))
        return masks

    def end_block(self) -> None:
        self._blocks.push(lambda j: [self._b.get(variable, j) for variable in self._lanes])

    def end_chunk(self, teams: Name | None = None) -> list[Name]:
        """The chunk's result; `teams` of a group have blocks of it."""
        self._blocks.finish()
        if self._group is not None:
            assert teams is not None
            return self._group.fold_chunk(self.combiner, self._blocks.vectors(), teams)
        if self._vectors == 1:
            names = self._blocks.vectors()
            return names if self._banded else self.combiner.fold_lanes(names)
        vectors = [self._blocks.vectors(self._b.n(j)) for j in range(self._vectors)]
        while len(vectors) > 1:
            half = len(vectors) // 2
            pairs = zip(vectors[:half], vectors[half:], strict=True)
            vectors = [self.combiner.combine(x, y) for x, y in pairs]
        return self.combiner.fold_lanes(vectors[0])

    def push_chunk(self, names: Sequence[Name]) -> None:
        self._chunks.push(lambda _: names)

    def end_row(self) -> list[Name]:
        """The row's result."""
        self._chunks.finish()
        return self._chunks.vectors()

    def push_row(self, names: Sequence[Name]) -> None:
        if self._rows is not None:
            self._rows.push(lambda _: names)

    def end(self) -> list[Name]:
        """The leaf's result."""
        counter = self._rows or self._chunks
        counter.finish()
        return counter.vectors()


def store_partial(b: Builder, names: Sequence[Name], pointer: Name) -> None:
    """Write a part's scalar result; components lie 8 bytes apart."""
    for k, name in enumerate(names):
        b.store(b.offset(pointer, 8 * k), name)


def load_partial(b: Builder, combiner: Combiner, pointer: Name) -> list[Name]:
    """Inverse of `store_partial`."""
    return [b.load(dtype, b.offset(pointer, 8 * k)) for k, dtype in enumerate(combiner.dtypes)]
