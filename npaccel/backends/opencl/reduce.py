"""Reductions: accumulators, and the order of Note [Reduction order] in ir/nodes.py.

`Ordered` keeps that order for sums and products of floats:

    for chunk: for block: lanes = identity; for step: lanes = lanes + x
               push lanes on a binary counter of blocks
           fold the lanes; push on a counter of chunks
    (then a counter of rows, where there are several inner axes)

`Exact` needs no order and keeps one accumulator per lane of the loop. The 32 lanes of the order
are an array of vectors: wider vectors than the device has make its compiler slow.
"""

from __future__ import annotations

from collections.abc import Sequence

from npaccel.backends.layout import LANES
from npaccel.backends.opencl.access import from_memory, to_memory
from npaccel.backends.opencl.code import Code, memory_type
from npaccel.backends.opencl.combine import Combiner
from npaccel.backends.opencl.groups import Group
from npaccel.backends.opencl.scalar import Mask, Value
from npaccel.ir.nodes import Reduce

__all__ = ["ROW_LEVELS", "Counter", "Exact", "Ordered", "load_partial", "store_partial"]

# Enough for 2048 blocks, 2**30 chunks and 2**44 rows.
BLOCK_LEVELS = 12
CHUNK_LEVELS = 30
ROW_LEVELS = 44


class Counter:
    """A binary counter: equal-sized neighbours combine at once, the rest from the smallest up.

    Counts arrays of `vectors` vectors of `width` lanes, of each of the combiner's components.
    """

    def __init__(
        self, code: Code, combiner: Combiner, width: int, levels: int, vectors: int = 1
    ) -> None:
        self._code, self._combiner, self._width, self._vectors = code, combiner, width, vectors
        kinds = combiner.kinds(width)
        self._stacks = [code.lasting(kind, levels, vectors) for kind in kinds]
        self.values = [code.variable(kind, vectors) for kind in kinds]
        self._counts = code.lasting("long")

    @property
    def _count(self) -> str:
        return f"{self._code.slot(self._counts)}[0]"

    def reset(self) -> None:
        self._code.set(self._count, "0")

    def push(self) -> None:
        """Count one more: what `values` holds."""
        code = self._code
        count = code.long(self._count)
        merges = code.long(f"(long)POPCOUNT((ulong)({count} ^ ({count} + 1))) - 1")
        top = code.long(f"(long)POPCOUNT((ulong){count})")
        with code.count("0", merges) as k:
            self._merge(f"{top} - 1 - {k}")
        with code.count("0", str(self._vectors)) as j:
            for stack, value in zip(self._stacks, self.values, strict=True):
                code.set(f"{code.slot(stack, f'{top} - {merges}')}[{j}]", f"{value}[{j}]")
        code.set(self._count, f"{count} + 1")

    def push_one(self, names: Sequence[str]) -> None:
        """Count one more value, of one vector."""
        self._set("0", names)
        self.push()

    def finish(self) -> None:
        """Put the combination of all that was pushed into `values`; the identity if nothing was."""
        code = self._code
        top = code.long(f"(long)POPCOUNT((ulong){self._count})")
        with code.count("0", str(self._vectors)) as j:
            self._set(j, self._combiner.identity(self._width), plain=True)
        with code.when(f"{top} != 0"):
            with code.count("0", str(self._vectors)) as j:
                for stack, value in zip(self._stacks, self.values, strict=True):
                    code.set(f"{value}[{j}]", f"{code.slot(stack, f'{top} - 1')}[{j}]")
            with code.count("1", top) as k:
                self._merge(f"{top} - 1 - {k}")

    def finish_one(self) -> list[str]:
        """`finish`, of one vector."""
        self.finish()
        return self.value("0")

    def value(self, at: str) -> list[str]:
        """Vector `at` of `values`."""
        kinds = self._combiner.kinds(self._width)
        pairs = zip(kinds, self.values, strict=True)
        names = [self._code.let(kind, f"{value}[{at}]") for kind, value in pairs]
        return self._combiner.read(names, self._width)

    def _merge(self, at: str) -> None:
        code, width = self._code, self._width
        kinds = self._combiner.kinds(width)
        with code.count("0", str(self._vectors)) as j:
            pairs = zip(kinds, self._stacks, strict=True)
            left = [code.let(kind, f"{code.slot(stack, at)}[{j}]") for kind, stack in pairs]
            left = self._combiner.read(left, width)
            self._set(j, self._combiner.combine(left, self.value(j), width))

    def _set(self, at: str, names: Sequence[str], *, plain: bool = False) -> None:
        written = names if plain else self._combiner.write(names, self._width)
        for value, name in zip(self.values, written, strict=True):
            self._code.set(f"{value}[{at}]", name)


class Exact:
    """A fold that any order leaves the same. `banded`: each lane is a band point of its own.

    group : whose items take elements of one point, or None
    """

    def __init__(
        self, code: Code, effect: Reduce, width: int, group: Group | None, *, banded: bool
    ) -> None:
        self.effect, self.width, self._group = effect, width, group
        self.combiner = Combiner(code, effect)
        self._code, self._banded = code, banded
        kinds = self.combiner.kinds(width)
        self._lanes = [code.variable(kind) for kind in kinds]
        self._kept = [code.lasting(kind) for kind in kinds] if banded else []

    def resume(self) -> None:
        """In a tile: go on where `pause` left off."""
        for lanes, kept in zip(self._lanes, self._kept, strict=True):
            self._code.set(lanes, f"{self._code.slot(kept)}[0]")

    def pause(self) -> None:
        """In a tile: another vector's turn."""
        for lanes, kept in zip(self._lanes, self._kept, strict=True):
            self._code.set(f"{self._code.slot(kept)}[0]", lanes)

    def begin(self) -> None:
        """A leaf begins, or a part of a split kernel, whose `end` is stored alone."""
        for variable, text in zip(self._lanes, self.combiner.identity(self.width), strict=True):
            self._code.set(variable, text)

    def step(self, value: Value, active: Mask | None, index: str, position: str) -> None:
        """Take in one vector. `index`: its lanes' flattened inner index; `position`: unused."""
        old = self.combiner.read(self._lanes, self.width)
        new = self.combiner.take(old, value, active, index, self.width)
        for variable, name in zip(self._lanes, self.combiner.write(new, self.width), strict=True):
            self._code.set(variable, name)

    def end(self) -> list[str]:
        names = self.combiner.read(self._lanes, self.width)
        if self._group is not None:
            return self._group.fold(self.combiner, names)
        return names if self._banded else self.combiner.fold_lanes(names, self.width)


class Ordered:
    """A float sum or product: 32 lanes, or in a banded loop one per band point.

    group : of items, each of which is one of the 32 lanes and has some of a chunk's blocks; or None
    """

    def __init__(
        self,
        code: Code,
        effect: Reduce,
        width: int,
        group: Group | None,
        *,
        banded: bool,
        several_rows: bool,
    ) -> None:
        self.effect, self.width, self._group = effect, width, group
        self.combiner = Combiner(code, effect)
        self._code, self._banded = code, banded
        self._vectors = 1 if banded or group is not None else LANES // width
        kinds = self.combiner.kinds(width)
        self._lanes = [code.variable(kind, self._vectors) for kind in kinds]
        single = width if banded else 1
        self._blocks = Counter(code, self.combiner, width, BLOCK_LEVELS, self._vectors)
        self._chunks = Counter(code, self.combiner, single, CHUNK_LEVELS)
        self._rows = Counter(code, self.combiner, single, ROW_LEVELS) if several_rows else None

    def begin(self) -> None:
        if self._rows is not None:
            self._rows.reset()

    def begin_row(self) -> None:
        self._chunks.reset()

    def begin_chunk(self) -> None:
        self._blocks.reset()

    def begin_block(self) -> None:
        with self._code.count("0", str(self._vectors)) as j:
            texts = self.combiner.identity(self.width)
            for variable, text in zip(self._lanes, texts, strict=True):
                self._code.set(f"{variable}[{j}]", text)

    def step(self, value: Value, active: Mask | None, index: str, position: str) -> None:
        """Take in one vector, whose first lane is element `position` of its row."""
        code, at = self._code, "0"
        if self._vectors > 1:
            at = code.long(f"({position} & {LANES - 1}) / {self.width}")
        kinds = self.combiner.kinds(self.width)
        pairs = zip(kinds, self._lanes, strict=True)
        old = [code.let(kind, f"{variable}[{at}]") for kind, variable in pairs]
        new = self.combiner.take(old, value, active, index, self.width)
        for variable, name in zip(self._lanes, new, strict=True):
            code.set(f"{variable}[{at}]", name)

    def end_block(self) -> None:
        with self._code.count("0", str(self._vectors)) as j:
            for value, lanes in zip(self._blocks.values, self._lanes, strict=True):
                self._code.set(f"{value}[{j}]", f"{lanes}[{j}]")
        self._blocks.push()

    def end_chunk(self, teams: str = "1") -> list[str]:
        """The chunk's result; `teams` of a group have blocks of it."""
        self._blocks.finish()
        vectors = [self._blocks.value(str(j)) for j in range(self._vectors)]
        if self._group is not None:
            return self._group.fold_chunk(self.combiner, vectors[0], teams)
        while len(vectors) > 1:
            half = len(vectors) // 2
            pairs = zip(vectors[:half], vectors[half:], strict=True)
            vectors = [self.combiner.combine(x, y, self.width) for x, y in pairs]
        return vectors[0] if self._banded else self.combiner.fold_lanes(vectors[0], self.width)

    def push_chunk(self, names: Sequence[str]) -> None:
        self._chunks.push_one(names)

    def end_row(self) -> list[str]:
        """The row's result."""
        return self._chunks.finish_one()

    def push_row(self, names: Sequence[str]) -> None:
        if self._rows is not None:
            self._rows.push_one(names)

    def end(self) -> list[str]:
        return (self._rows or self._chunks).finish_one()


def store_partial(code: Code, combiner: Combiner, names: Sequence[str], pointer: str) -> None:
    """Write a part's scalar result, as the host's code has it; components lie 8 bytes apart."""
    for k, (dtype, name) in enumerate(zip(combiner.dtypes, names, strict=True)):
        value = to_memory(code, dtype, name, 1)
        code.do(f"*(global {memory_type(dtype, 1)} *)({pointer} + {8 * k}) = {value};")


def load_partial(code: Code, combiner: Combiner, pointer: str) -> list[str]:
    """Inverse of `store_partial`."""
    places = [
        (dtype, f"*(global {memory_type(dtype, 1)} *)({pointer} + {8 * k})")
        for k, dtype in enumerate(combiner.dtypes)
    ]
    return [from_memory(code, dtype, place, 1) for dtype, place in places]
