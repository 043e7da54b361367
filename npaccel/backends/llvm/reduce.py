"""Reductions: accumulators, and the order of Note [Reduction order] in ir/nodes.py.

`Ordered` keeps that order for sums and products of floats:

    for chunk: for block: lanes = identity; for step: lanes = lanes + x
               push lanes on a binary counter of blocks
           fold the lanes; push on a counter of chunks
    (then a counter of rows, where there are several inner axes)

`Exact` needs no order and keeps one accumulator per lane of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from npaccel.backends.layout import LANES, parts_of
from npaccel.backends.llvm.code import Code, memory_type, value_names
from npaccel.backends.llvm.combine import Combiner
from npaccel.backends.llvm.scalar import Value, llvm_type
from npaccel.ir.nodes import Reduce
from npaccel.ir.scalar import item_size

__all__ = [
    "ROW_LEVELS",
    "Counter",
    "Exact",
    "Ordered",
    "load_partial",
    "row_kinds",
    "store_partial",
]

# Enough for 2048 blocks, 2**30 chunks and 2**44 rows; they are on the stack.
BLOCK_LEVELS = 12
CHUNK_LEVELS = 30
ROW_LEVELS = 44


class Counter:
    """A binary counter: equal-sized neighbours combine at once, the rest from the smallest up.

    `width` lanes of each of the combiner's components; at most 2**levels - 1 pushes.
    """

    def __init__(self, code: Code, combiner: Combiner, width: int, levels: int) -> None:
        self._code, self._combiner, self._width = code, combiner, width
        self._kinds = combiner.kinds(width)
        self._stacks = [code.lasting(kind, levels) for kind in self._kinds]
        self._values = [code.variable(kind) for kind in self._kinds]
        self._count = code.lasting("i64")

    def reset(self) -> None:
        self._code.set("i64", self._count, "0")

    def push(self, names: Sequence[str]) -> None:
        """Count one more value."""
        code = self._code
        count = code.get("i64", self._count)
        after = code.add(count, "1")
        merges = code.call("i64", "llvm.cttz.i64", [("i64", after), ("i1", "false")])
        top = code.call("i64", "llvm.ctpop.i64", [("i64", count)])
        self._set(names)
        with code.count("0", merges) as k:
            at = code.emit(f"sub i64 {code.emit(f'sub i64 {top}, {k}')}, 1")
            self._merge(at)
        place = code.emit(f"sub i64 {top}, {merges}")
        for kind, stack, name in zip(self._kinds, self._stacks, self._get(), strict=True):
            code.set(kind, self._slot(kind, stack, place), name)
        code.set("i64", self._count, after)

    def finish(self) -> list[str]:
        """The combination of all that was pushed; the identity if nothing was."""
        code = self._code
        count = code.get("i64", self._count)
        top = code.call("i64", "llvm.ctpop.i64", [("i64", count)])
        self._set(self._combiner.identity(self._width))
        with code.when(code.emit(f"icmp ne i64 {top}, 0")):
            last = code.emit(f"sub i64 {top}, 1")
            self._set(self._load(last))
            with code.count("1", top) as k:
                self._merge(code.emit(f"sub i64 {last}, {k}"))
        return self._get()

    def _merge(self, at: str) -> None:
        combined = self._combiner.combine(self._load(at), self._get(), self._width)
        self._set(combined)

    def _slot(self, kind: str, stack: str, at: str) -> str:
        at = self._code.mul(at, str(self._code.spread))
        return self._code.emit(f"getelementptr {kind}, ptr {self._code.place(stack)}, i64 {at}")

    def _load(self, at: str) -> list[str]:
        pairs = zip(self._kinds, self._stacks, strict=True)
        return [self._code.get(kind, self._slot(kind, stack, at)) for kind, stack in pairs]

    def _get(self) -> list[str]:
        pairs = zip(self._kinds, self._values, strict=True)
        return [self._code.get(kind, variable) for kind, variable in pairs]

    def _set(self, names: Sequence[str]) -> None:
        for kind, variable, name in zip(self._kinds, self._values, names, strict=True):
            self._code.set(kind, variable, name)


class Exact:
    """A fold that any order leaves the same. `banded`: each lane is a band point of its own."""

    def __init__(self, code: Code, effect: Reduce, width: int, *, banded: bool) -> None:
        self.effect, self.width = effect, width
        self.combiner = Combiner(code, effect)
        self._code, self._banded = code, banded
        self._kinds = self.combiner.kinds(width)
        self._lanes = [code.variable(kind) for kind in self._kinds]
        self._kept = [code.lasting(kind) for kind in self._kinds] if banded else []

    def resume(self) -> None:
        """In a tile: go on where `pause` left off."""
        for kind, lanes, kept in zip(self._kinds, self._lanes, self._kept, strict=True):
            self._code.set(kind, lanes, self._code.get(kind, kept))

    def pause(self) -> None:
        """In a tile: another vector's turn."""
        for kind, lanes, kept in zip(self._kinds, self._lanes, self._kept, strict=True):
            self._code.set(kind, kept, self._code.get(kind, lanes))

    def begin_leaf(self) -> None:
        self._reset()

    def begin_part(self) -> None:
        """A part of a split kernel begins, whose `end_part` is stored alone."""
        self._reset()

    def end_part(self) -> list[str]:
        return self._total()

    def end_leaf(self, empty: str) -> list[str]:
        return self._total()

    def step(self, value: Value, active: str | None, index: str, position: str) -> None:
        """Take in one vector. `index`: its lanes' flattened inner index; `position`: unused."""
        code, combiner = self._code, self.combiner
        pairs = zip(self._kinds, self._lanes, strict=True)
        old = [code.get(kind, variable) for kind, variable in pairs]
        new = combiner.take(old, value_names(value), active, index, self.width)
        for kind, variable, name in zip(self._kinds, self._lanes, new, strict=True):
            code.set(kind, variable, name)

    def _reset(self) -> None:
        names = self.combiner.identity(self.width)
        for kind, variable, name in zip(self._kinds, self._lanes, names, strict=True):
            self._code.set(kind, variable, name)

    def _total(self) -> list[str]:
        pairs = zip(self._kinds, self._lanes, strict=True)
        names = [self._code.get(kind, variable) for kind, variable in pairs]
        return names if self._banded else self.combiner.fold_lanes(names, self.width)


class Ordered:
    """A float sum or product. `lanes` is 32, or in a banded loop its width; `width` divides it."""

    def __init__(
        self, code: Code, effect: Reduce, width: int, *, banded: bool, several_rows: bool
    ) -> None:
        self.effect, self.width = effect, width
        self.combiner = Combiner(code, effect)
        self._code, self._banded, self._several_rows = code, banded, several_rows
        self._lanes_count = width if banded else LANES
        self._lane_kinds = self.combiner.kinds(self._lanes_count)
        self._lanes = [code.variable(kind) for kind in self._lane_kinds]
        single = width if banded else 1
        self._blocks = Counter(code, self.combiner, self._lanes_count, BLOCK_LEVELS)
        self._chunks = Counter(code, self.combiner, single, CHUNK_LEVELS)
        self._rows = Counter(code, self.combiner, single, ROW_LEVELS) if several_rows else None
        self._single = single

    def begin_leaf(self) -> None:
        if self._rows is not None:
            self._rows.reset()

    def begin_row(self) -> None:
        self._chunks.reset()

    def begin_chunk(self) -> None:
        self._blocks.reset()

    def begin_block(self) -> None:
        names = self.combiner.identity(self._lanes_count)
        for kind, variable, name in zip(self._lane_kinds, self._lanes, names, strict=True):
            self._code.set(kind, variable, name)

    def step(self, value: Value, active: str | None, index: str, position: str) -> None:
        """Take in one vector, whose first lane is element `position` of its row."""
        code, combiner = self._code, self.combiner
        kinds = combiner.kinds(self.width)
        places = self._places(position)
        old = [code.get(kind, place) for kind, place in zip(kinds, places, strict=True)]
        new = combiner.take(old, value_names(value), active, index, self.width)
        for kind, place, name in zip(kinds, places, new, strict=True):
            code.set(kind, place, name)

    def _places(self, position: str) -> list[str]:
        if self._banded or self.width == LANES:
            return self._lanes
        lane = self._code.emit(f"and i64 {position}, {LANES - 1}")
        size = item_size(self.combiner.dtypes[0])
        at = self._code.mul(lane, str(size))
        return [self._code.offset(variable, at) for variable in self._lanes]

    def end_block(self) -> None:
        pairs = zip(self._lane_kinds, self._lanes, strict=True)
        self._blocks.push([self._code.get(kind, variable) for kind, variable in pairs])

    def end_chunk(self) -> list[str]:
        """The chunk's result."""
        names = self._blocks.finish()
        return names if self._banded else self.combiner.fold_lanes(names, LANES)

    def push_chunk(self, names: Sequence[str]) -> None:
        self._chunks.push(names)

    def end_row(self) -> list[str]:
        """The row's result."""
        return self._chunks.finish()

    def push_row(self, names: Sequence[str]) -> None:
        if self._rows is not None:
            self._rows.push(names)

    def end_leaf(self, empty: str) -> list[str]:
        names = (self._rows or self._chunks).finish()
        return self.combiner.unless_empty(names, empty, self._single)


def store_partial(code: Code, combiner: Combiner, names: Sequence[str], pointer: str) -> None:
    """Write a part's scalar result; components lie 8 bytes apart."""
    for k, (dtype, name) in enumerate(zip(combiner.dtypes, names, strict=True)):
        place = code.offset(pointer, str(8 * k))
        kind = memory_type(dtype, 1)
        value = code.emit(f"zext i1 {name} to i8") if dtype == "b1" else name
        code.do(f"store {kind} {value}, ptr {place}")


def load_partial(code: Code, combiner: Combiner, pointer: str) -> list[str]:
    """Inverse of `store_partial`."""
    names = []
    for k, dtype in enumerate(combiner.dtypes):
        name = code.get(memory_type(dtype, 1), code.offset(pointer, str(8 * k)))
        names.append(code.emit(f"icmp ne i8 {name}, 0") if dtype == "b1" else name)
    return names


def row_kinds(dtype: str, width: int) -> list[str]:
    """LLVM types of the variables that hold a row value."""
    return [llvm_type(part, width) for part in parts_of(dtype)]
