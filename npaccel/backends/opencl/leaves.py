"""One leaf of a kernel: its loops over rows, chunks, blocks and vectors, and its effects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

from npaccel.backends.layout import (
    BAND_BLOCK,
    BLOCK,
    CHUNK,
    LANES,
    is_ordered,
    parts_of,
    reductions_of,
)
from npaccel.backends.opencl.access import Place, gather, load, store
from npaccel.backends.opencl.body import as_mask, both, evaluate, raise_flags
from npaccel.backends.opencl.code import Code
from npaccel.backends.opencl.frame import Frame
from npaccel.backends.opencl.reduce import Exact, Ordered, store_partial
from npaccel.backends.opencl.scalar import Mask, Value, c_type
from npaccel.backends.opencl.widths import LARGE_BODY, node_count
from npaccel.ir.nodes import Leaf, Reduce, Store, StoreRow, StoreScratch, Stride
from npaccel.ir.scalar import Core, Expr, item_size, topological

__all__ = ["LeafWriter", "Scope"]

Reduction = Exact | Ordered


@dataclass(frozen=True, slots=True)
class Scope:
    """Where in the domain code is being written.

    flat: flattened band index. at: coordinates of the axes so far. pointers: each array's element
    there. lanes, active: how many lanes exist, and their mask; None for all. row, position:
    flattened row index and coordinate along the last inner axis, once known.
    """

    flat: str
    at: Sequence[str]
    pointers: Sequence[str]
    lanes: str | None
    active: Mask | None
    row: str = "0"
    position: str = "0"


class LeafWriter:
    """Writes leaves of one kernel. `width`: lanes of a band point's values; 1 if lanes lie inside.

    vector_bytes is not needed here: widths come with each call.
    """

    def __init__(self, code: Code, frame: Frame, width: int) -> None:
        self.code, self.frame, self.kernel = code, frame, frame.kernel
        self.width = width
        self.banded = frame.kernel.vector_band
        self._rows = [
            [code.variable(c_type(part, width)) for part in parts_of(row.dtype)]
            for row in frame.kernel.rows
        ]
        self._scratch = frame.scratch_bases(width if self.banded else 1)
        self._ordinals = {id(e): k for k, e in enumerate(reductions_of(frame.kernel))}
        # Of a group's items: where each begins along a row and among rows, and its steps.
        self._along = ("lane", str(frame.group_size))
        self._down = ("0", "1")

    def share_rows(self) -> tuple[str, str]:
        """Have a group take several rows at a time where they are short; without barriers.

        Where an item begins among the band points, and its steps: its rows, if there is a band.
        """
        code, size = self.code, self.frame.group_size
        columns = code.variable("long")
        most = code.minimum(self.frame.extents[self.frame.rank - 1], str(size))
        code.do(f"for ({columns} = 1; {columns} < {most}; {columns} *= 2) {{}}")
        step = code.long(columns)
        self._along = code.long(f"lane & ({step} - 1)"), step
        down = code.long(f"lane / {step}"), code.long(f"{size} / {step}")
        if self.kernel.band_rank:
            return down
        self._down = down
        return "0", "1"

    # Values.

    def set_row(self, index: int, value: Value) -> None:
        """rows[index] = value."""
        dtype, writer = self.kernel.rows[index].dtype, self.code.writer(self.width)
        for variable, name in zip(self._rows[index], value, strict=True):
            self.code.set(variable, writer.mask_as(name, 1) if dtype == "b1" else name)

    def _row_value(self, index: int, width: int) -> Value:
        dtype, variables = self.kernel.rows[index].dtype, self._rows[index]
        if dtype == "b1":
            (name,) = variables
            mask = Mask(name, 0 if self.width == 1 else 1)
            return (mask,) if width == self.width else self._spread(dtype, (mask,), width)
        names = tuple(
            self.code.let(c_type(part, self.width), variable)
            for part, variable in zip(parts_of(dtype), variables, strict=True)
        )
        return names if width == self.width else self._spread(dtype, names, width)

    def _spread(self, dtype: str, value: Value, width: int) -> Value:
        if width == 1:
            return value
        if dtype == "b1":
            return (Mask(self.code.let(f"char{width}", f"(char{width})(-{value[0]})"), 1),)
        kinds = [c_type(part, width) for part in parts_of(dtype)]
        return tuple(
            self.code.let(kind, f"({kind})({name})")
            for kind, name in zip(kinds, value, strict=True)
        )

    def _place(self, index: int, scope: Scope) -> Place:
        array = self.kernel.arrays[index]
        stride = self.frame.strides[index][self.frame.vector_axis]
        return Place(array.dtype, scope.pointers[index], array.vector, stride)

    def _scratch_place(self, index: int, scope: Scope) -> Place:
        code, dtype = self.code, self.kernel.scratch[index]
        size = str(item_size(dtype) * (self.width if self.banded else 1))
        pointer = code.offset(self._scratch[index], code.mul(self._element(scope), size))
        return Place(dtype, pointer, Stride.UNIT, str(item_size(dtype)))

    def _element(self, scope: Scope) -> str:
        """Flattened inner index of lane 0."""
        last = self.frame.extents[self.frame.rank - 1]
        return self.code.add(self.code.mul(scope.row, last), scope.position)

    def _index(self, name: str, width: int, *, moving: bool) -> str:
        """A coordinate in every lane; `moving`: one further in each."""
        kind = c_type("i8", width)
        text = f"({kind})({name})" if width > 1 else f"(ulong)({name})"
        if moving and width > 1:
            text += f" + {self.code.ramp('ulong', width)}"
        return self.code.let(kind, text)

    def _source(
        self, scope: Scope, width: int, hoisted: Mapping[int, Value]
    ) -> Callable[[Expr, Sequence[Value]], Value]:
        def value(node: Expr, operands: Sequence[Value]) -> Value:
            at = node.attr
            assert isinstance(at, int)
            match node.op:
                case Core.LOAD if at in hoisted:
                    return hoisted[at]
                case Core.LOAD:
                    return load(self.code, self._place(at, scope), width, scope.lanes)
                case Core.GATHER:
                    place = self._place(at, scope)
                    return gather(self.code, place, operands[0][0], width, scope.lanes)
                case Core.SCALAR:
                    return self._spread(node.dtype, self.frame.scalar(at), width)
                case Core.ROW:
                    return self._row_value(at, width)
                case Core.SCRATCH:
                    lanes = None if self.banded else scope.lanes
                    return load(self.code, self._scratch_place(at, scope), width, lanes)
            return (self._index(scope.at[at], width, moving=at == self.frame.vector_axis),)

        return value

    # Effects.

    def _effects(
        self,
        leaf: Leaf,
        scope: Scope,
        width: int,
        hoisted: Mapping[int, Value],
        reductions: Mapping[int, Reduction],
    ) -> None:
        code, source = self.code, self._source(scope, width, hoisted)
        values = evaluate(code, width, leaf.roots, source)
        raise_flags(code, width, scope.active, leaf, values=values, source=source)
        sharing = self.frame.group if leaf.row else None
        if sharing is not None and any(isinstance(effect, Store) for effect in leaf.effects):
            sharing.barrier()  # all items have loaded what the first one overwrites
        for effect in leaf.effects:
            value = values[effect.value]
            match effect:
                case Store():
                    mask = None if effect.mask is None else as_mask(values[effect.mask])
                    place = self._place(effect.array, scope)
                    if width == 1:
                        mask = both(code, mask, scope.active, 1)
                    if sharing is not None:
                        mask = both(code, mask, Mask("(lane == 0)", 0), 1)
                    store(code, place, value, width, scope.lanes, mask)
                case StoreScratch():
                    lanes = None if self.banded else scope.lanes
                    store(code, self._scratch_place(effect.index, scope), value, width, lanes)
                case StoreRow():
                    self.set_row(effect.index, value)
                case Reduce():
                    mask = None if effect.mask is None else as_mask(values[effect.mask])
                    active = both(code, mask, scope.active, width)
                    index = self._index(self._element(scope), width, moving=not self.banded)
                    reductions[id(effect)].step(value, active, index, scope.position)

    # Leaves.

    def row(self, leaf: Leaf, scope: Scope) -> None:
        """A leaf that runs once per band point."""
        with self.code.block(""):
            self._effects(leaf, scope, self.width, {}, {})

    def inner(self, leaf: Leaf, scope: Scope, width: int) -> None:
        """A leaf that runs over the inner axes, `width` lanes at a time."""
        frame = self.frame
        several = len(frame.inner_axes) > 1
        reductions = self._reductions(leaf, width, several_rows=several)
        for reduction in reductions.values():
            reduction.begin()
        splitting = self.kernel.split
        low, high = ("0", frame.row_count) if several else ("0", "1")
        if several and splitting:
            low, high = frame.range[2], frame.range[3]
        with self._each_row(low, high) as (row, at):
            pointers = frame.move(scope.pointers, frame.inner_axes[:-1], at)
            there = replace(scope, at=[*scope.at, *at], pointers=pointers, row=row)
            start, stop = "0", frame.extents[frame.rank - 1]
            if splitting and not several:
                start, stop = frame.range[2], frame.range[3]
            self._one_row(leaf, there, width, (start, stop), reductions)
        if not frame.split_sums:
            for reduction in reductions.values():
                value = reduction.combiner.result(reduction.end(), self.width)
                self.set_row(reduction.effect.index, value)

    @contextmanager
    def _each_row(self, low: str, high: str) -> Iterator[tuple[str, list[str]]]:
        """Run over flattened rows [low, high) of the inner space, or over this item's of them."""
        axes, (first, step) = self.frame.inner_axes[:-1], self._down
        if step == "1" or not axes:
            with self.frame.points(axes, low, high) as (row, at):
                yield row, at
            return
        with self.frame.spread(axes, self.code.add(low, first), high, step) as (row, at):
            yield row, at

    def _reductions(self, leaf: Leaf, width: int, *, several_rows: bool) -> dict[int, Reduction]:
        made: dict[int, Reduction] = {}
        for effect in leaf.effects:
            if isinstance(effect, Reduce) and is_ordered(effect):
                made[id(effect)] = Ordered(
                    self.code,
                    effect,
                    width,
                    self.frame.group,
                    banded=self.banded,
                    several_rows=several_rows,
                )
            elif isinstance(effect, Reduce):
                made[id(effect)] = Exact(
                    self.code, effect, width, self.frame.group, banded=self.banded
                )
        return made

    def _one_row(
        self,
        leaf: Leaf,
        scope: Scope,
        width: int,
        bounds: tuple[str, str],
        reductions: Mapping[int, Reduction],
    ) -> None:
        code, frame = self.code, self.frame
        row_parts = frame.split_sums and len(frame.inner_axes) > 1
        for reduction in reductions.values():
            if isinstance(reduction, Ordered):
                reduction.begin_row()
            elif row_parts:
                reduction.begin()
        with code.when(f"{bounds[0]} < {bounds[1]}"):
            hoisted = self._hoist(leaf, scope, width)
            with self._chunks(scope, bounds, reductions) as inside:
                self._vectors(leaf, scope, width, inside, hoisted=hoisted, reductions=reductions)
        for reduction in reductions.values():
            names = reduction.end_row() if isinstance(reduction, Ordered) else []
            if row_parts:
                self._store_part(reduction, names or reduction.end(), scope, scope.row)
            elif isinstance(reduction, Ordered):
                reduction.push_row(names)

    @contextmanager
    def _chunks(
        self, scope: Scope, bounds: tuple[str, str], reductions: Mapping[int, Reduction]
    ) -> Iterator[tuple[str, str, str]]:
        """Cut `bounds` into chunks and blocks as far as the reductions ask for it.

        Yields the bounds of a loop, and a step: of a group's item, else 1.
        """
        code, group = self.code, self.frame.group
        ordered = [r for r in reductions.values() if isinstance(r, Ordered)]
        exact = [r for r in reductions.values() if isinstance(r, Exact)]
        chunk_parts = self.frame.split_sums and len(self.frame.inner_axes) == 1
        if not ordered and not (exact and chunk_parts):
            yield self._items_bounds(*bounds)
            return
        with code.count(*bounds, str(CHUNK)) as chunk:
            chunk_end = code.minimum(code.add(chunk, str(CHUNK)), bounds[1])
            for reduction in ordered:
                reduction.begin_chunk()
            if chunk_parts:
                for whole in exact:
                    whole.begin()
            teams = "1"
            if ordered:
                step = str(BAND_BLOCK if self.banded else BLOCK)
                first, last = chunk, chunk_end
                if group is not None:
                    first, last, teams = group.cut_chunk(chunk, chunk_end)
                with code.count(first, last, step) as block:
                    for reduction in ordered:
                        reduction.begin_block()
                    block_end = code.minimum(code.add(block, step), chunk_end)
                    if group is None:
                        yield block, block_end, "1"
                    else:
                        yield code.long(f"{block} + lane % {LANES}"), block_end, str(LANES)
                    for reduction in ordered:
                        reduction.end_block()
            else:
                yield self._items_bounds(chunk, chunk_end)
            part = code.long(f"{chunk} / {CHUNK}")
            for reduction in ordered:
                names = reduction.end_chunk(teams)
                if chunk_parts:
                    self._store_part(reduction, names, scope, part)
                else:
                    reduction.push_chunk(names)
            if chunk_parts:
                for whole in exact:
                    self._store_part(whole, whole.end(), scope, part)

    def _items_bounds(self, low: str, high: str) -> tuple[str, str, str]:
        """Those of a loop over [low, high), and its step."""
        if self.frame.group is None:
            return low, high, "1"
        first, step = self._along
        return self.code.add(low, first), high, step

    def _vectors(
        self,
        leaf: Leaf,
        scope: Scope,
        width: int,
        bounds: tuple[str, str, str],
        *,
        hoisted: Mapping[int, Value],
        reductions: Mapping[int, Reduction],
    ) -> None:
        code, (low, high, step) = self.code, bounds
        if self.banded or width == 1:
            with code.count(low, high, step) as i:
                self._effects(leaf, self._at(scope, i), width, hoisted, reductions)
            return
        if node_count(leaf) <= LARGE_BODY:
            main = code.long(f"{low} + (({high} - {low}) & -{width}L)")
            with code.count(low, main, str(width)) as i:
                self._effects(leaf, self._at(scope, i), width, hoisted, reductions)
            low = main
        with code.count(low, high, str(width)) as i:
            lanes = code.minimum(f"({high} - {i})", str(width))
            some = replace(scope, lanes=lanes, active=code.lanes_below(lanes, width))
            self._effects(leaf, self._at(some, i), width, hoisted, reductions)

    def _at(self, scope: Scope, position: str) -> Scope:
        axis = self.frame.rank - 1
        pointers = self.frame.move(scope.pointers, [axis], [position])
        return replace(scope, at=[*scope.at, position], pointers=pointers, position=position)

    def _hoist(self, leaf: Leaf, scope: Scope, width: int) -> dict[int, Value]:
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
                hoisted[index] = load(self.code, self._place(index, scope), width, scope.lanes)
        return hoisted

    def _store_part(
        self, reduction: Reduction, names: Sequence[str], scope: Scope, part: str
    ) -> None:
        code, frame = self.code, self.frame
        ordinal = self._ordinals[id(reduction.effect)]
        combiner = reduction.combiner
        if self.width == 1:
            pointer = frame.partial(scope.flat, part, ordinal)
            with code.when("lane == 0") if frame.group is not None else nullcontext():
                store_partial(code, combiner, names, pointer)
            return
        writer = code.writer(self.width)
        for lane in range(self.width):
            one = [
                Mask(code.let("int", f"{writer.mask_as(name, 1)}.s{lane:x} != 0"), 0)
                if dtype == "b1"
                else f"{name}.s{lane:x}"
                for dtype, name in zip(combiner.dtypes, names, strict=True)
            ]
            with code.when(f"{lane} < {scope.lanes or self.width}"):
                pointer = frame.partial(f"{scope.flat} + {lane}", part, ordinal)
                store_partial(code, combiner, one, pointer)
