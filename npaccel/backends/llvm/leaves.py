"""One leaf of a kernel: its loops over rows, chunks, blocks and vectors, and its effects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from npaccel.backends.layout import (
    BAND_BLOCK,
    BLOCK,
    CHUNK,
    is_ordered,
    parts_of,
    reductions_of,
)
from npaccel.backends.llvm.access import Place, gather, load, store
from npaccel.backends.llvm.body import both, evaluate, raise_flags
from npaccel.backends.llvm.code import Code, as_value, value_names
from npaccel.backends.llvm.frame import Frame
from npaccel.backends.llvm.reduce import (
    Exact,
    Ordered,
    row_kinds,
    store_partial,
)
from npaccel.backends.llvm.scalar import Value, llvm_type
from npaccel.backends.llvm.widths import LARGE_BODY, has_plain_tail, node_count
from npaccel.backends.tiles import LINE_BYTES
from npaccel.ir.nodes import Leaf, Reduce, Store, StoreRow, StoreScratch, Stride
from npaccel.ir.ops import find
from npaccel.ir.scalar import SCANNED, Core, Expr, Pool, item_size, scans, topological

__all__ = ["LeafWriter", "Scope"]

Reduction = Exact | Ordered


@dataclass(frozen=True, slots=True)
class Scope:
    """Where in the domain code is being written.

    flat: flattened band index. at: coordinates of the axes so far. pointers: each array's element
    there. active: mask of the lanes that exist, None for all. row: flattened row index and
    coordinate along the last inner axis (i64), once known.
    """

    flat: str
    at: Sequence[str]
    pointers: Sequence[str]
    active: str | None
    row: str = "0"
    position: str = "0"


class LeafWriter:
    """Writes leaves of one kernel.

    Parameters
    ----------
    width : lanes of a band point's values; 1 if lanes lie along an inner axis
    vector_bytes : size of the host's widest vector register
    """

    def __init__(self, code: Code, frame: Frame, width: int, vector_bytes: int) -> None:
        self.vector_bytes = vector_bytes
        self.code, self.frame, self.kernel = code, frame, frame.kernel
        self.width = width
        self.banded = frame.kernel.vector_band and width > 1
        self._rows = [
            [code.variable(kind) for kind in row_kinds(row.dtype, width)]
            for row in frame.kernel.rows
        ]
        self._scratch = frame.scratch_bases(width)
        self._carries: dict[Expr, str] = {}  # per SCAN the result so far
        self._ordinals = {id(e): k for k, e in enumerate(reductions_of(frame.kernel))}

    # Values.

    def lanes_below(self, count: str, width: int) -> str:
        """Mask of the lanes whose number is less than `count`."""
        lanes = ", ".join(f"i64 {k}" for k in range(width))
        limit = self.code.splat("i64", count, width)
        return self.code.emit(f"icmp slt <{width} x i64> <{lanes}>, {limit}")

    def set_row(self, index: int, value: Value) -> None:
        """rows[index] = value."""
        kinds = row_kinds(self.kernel.rows[index].dtype, self.width)
        for kind, variable, name in zip(kinds, self._rows[index], value_names(value), strict=True):
            self.code.set(kind, variable, name)

    def _row_value(self, index: int, width: int) -> Value:
        dtype = self.kernel.rows[index].dtype
        kinds = row_kinds(dtype, self.width)
        names = [
            self.code.get(kind, variable)
            for kind, variable in zip(kinds, self._rows[index], strict=True)
        ]
        value = as_value(names)
        return value if width == self.width else self._spread(dtype, value, width)

    def _spread(self, dtype: str, value: Value, width: int) -> Value:
        names = [
            self.code.splat(llvm_type(part, 1), name, width)
            for part, name in zip(parts_of(dtype), value_names(value), strict=True)
        ]
        return as_value(names)

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

    def _axis_index(self, axis: int, scope: Scope, width: int) -> str:
        name = scope.at[axis]
        return (
            self._ramp(name, width)
            if axis == self.frame.vector_axis
            else self.code.splat("i64", name, width)
        )

    def _ramp(self, first: str, width: int) -> str:
        if width == 1:
            return first
        lanes = ", ".join(f"i64 {k}" for k in range(width))
        start = self.code.splat("i64", first, width)
        return self.code.emit(f"add <{width} x i64> {start}, <{lanes}>")

    def _source(
        self, scope: Scope, width: int, hoisted: Mapping[int, Value]
    ) -> Callable[[Expr, Sequence[Value]], Value]:
        before: dict[Expr, Value] = {}

        def value(node: Expr, operands: Sequence[Value]) -> Value:
            if node.op is Core.SCAN:
                result, before[node] = self._scan(node, operands[0], scope, width)
                return result
            if node.op is Core.BEFORE:
                return before[node.args[0]]
            at = node.attr
            assert isinstance(at, int)
            match node.op:
                case Core.LOAD if at in hoisted:
                    return hoisted[at]
                case Core.LOAD:
                    return load(self.code, self._place(at, scope), width, scope.active)
                case Core.GATHER:
                    (offset,) = value_names(operands[0])
                    return self._gather(node, offset, scope, width)
                case Core.SCALAR:
                    return self._spread(node.dtype, self.frame.scalar(at), width)
                case Core.ROW:
                    return self._row_value(at, width)
                case Core.SCRATCH:
                    return load(self.code, self._scratch_place(at, scope), width, None)
            return self._axis_index(at, scope, width)

        return value

    def _scan(self, node: Expr, value: Value, scope: Scope, width: int) -> tuple[Value, Value]:
        """Accumulate `width` lanes, one after the other if they lie along the row; see Note [Scan].

        Returns the results, and those of the index before.
        """
        code, (name,) = self.code, value_names(value)
        lanes = 1 if self.banded else width
        one, whole = llvm_type(node.dtype, width // lanes), llvm_type(node.dtype, width)
        carry = self._carries.get(node)
        if carry is None:
            carry = self._carries[node] = code.variable(one)
        last = code.get(one, carry)
        first = code.emit(f"icmp eq i64 {scope.position}, 0")
        results, before = "poison", "poison"
        for lane in range(lanes):
            x = name if lanes == 1 else code.emit(f"extractelement {whole} {name}, i64 {lane}")
            if lane == 0:
                last = code.emit(f"select i1 {first}, {one} {x}, {one} {last}")
            result = self._accumulated(node, last, x, width // lanes)
            if lane == 0:
                result = code.emit(f"select i1 {first}, {one} {x}, {one} {result}")
            if lanes == 1:
                results, before = result, last
            else:
                at = f"i64 {lane}"
                results = code.emit(f"insertelement {whole} {results}, {one} {result}, {at}")
                before = code.emit(f"insertelement {whole} {before}, {one} {last}, {at}")
            last = result
        code.set(one, carry, last)
        return results, before

    def _accumulated(self, node: Expr, last: str, value: str, width: int) -> str:
        """What the operation of a SCAN makes of the result so far and a value."""
        op = find(SCANNED[int(str(node.attr))], (node.dtype,) * 3)
        assert op is not None and op.body is not None
        pool = Pool()
        result = op.body(pool.scalar(node.dtype, 0), pool.scalar(node.dtype, 1))
        assert isinstance(result, Expr)
        given = (last, value)
        values = evaluate(self.code, width, [result], lambda leaf, _: given[int(str(leaf.attr))])
        return value_names(values[result])[0]

    def _gather(self, node: Expr, offset: str, scope: Scope, width: int) -> Value:
        code, place = self.code, self._place(int(str(node.attr)), scope)
        if width == 1 or not self._is_uniform(node.args[0]):
            return gather(code, place, offset, width, scope.active)
        # All lanes move by as much: whole rows are picked.
        first = code.emit(f"extractelement <{width} x i64> {offset}, i64 0")
        moved = code.offset(place.pointer, code.mul(first, str(item_size(place.dtype))))
        return load(code, replace(place, pointer=moved), width, scope.active)

    def _is_uniform(self, node: Expr) -> bool:
        """Whether a value is the same in all lanes."""
        moving = {Core.SCRATCH, Core.SCAN, Core.BEFORE} | ({Core.ROW} if self.banded else set())
        for part in topological([node]):
            if part.op in (Core.LOAD, Core.GATHER):
                assert isinstance(part.attr, int)
                if self.kernel.arrays[part.attr].vector is not Stride.ZERO:
                    return False
            elif part.op is Core.INDEX:
                if part.attr == self.frame.vector_axis:
                    return False
            elif part.op in moving:
                return False
        return True

    # Effects.

    def _effects(
        self,
        leaf: Leaf,
        scope: Scope,
        width: int,
        hoisted: Mapping[int, Value],
        reductions: Mapping[int, Reduction],
    ) -> None:
        source = self._source(scope, width, hoisted)
        values = evaluate(self.code, width, [*leaf.roots, *scans(leaf.all_roots)], source)
        raise_flags(self.code, width, scope.active, leaf, values=values, source=source)
        for effect in leaf.effects:
            value = values[effect.value]
            match effect:
                case Store():
                    self._store(effect, value, values, scope, width)
                case StoreScratch():
                    place = self._scratch_place(effect.index, scope)
                    store(self.code, place, value, width, None if self.banded else scope.active)
                case StoreRow():
                    self.set_row(effect.index, value)
                case Reduce():
                    mask = None if effect.mask is None else value_names(values[effect.mask])[0]
                    active = both(self.code, mask, scope.active, width)
                    element = self._element(scope)
                    index = (
                        self.code.splat("i64", element, width)
                        if self.banded
                        else self._ramp(element, width)
                    )
                    reductions[id(effect)].step(value, active, index, scope.position)

    def _store(
        self, effect: Store, value: Value, values: Mapping[Expr, Value], scope: Scope, width: int
    ) -> None:
        mask = None if effect.mask is None else value_names(values[effect.mask])[0]
        active = both(self.code, mask, scope.active, width)
        array = self.kernel.arrays[effect.array]
        place = self._place(effect.array, scope)
        # The parameter's promise covers whole vectors from a row's start only.
        stream = array.nontemporal and not self.banded
        store(self.code, place, value, width, active, nontemporal=stream)

    # Leaves.

    def row(self, leaf: Leaf, scope: Scope) -> None:
        """A leaf that runs once per band point."""
        self._effects(leaf, scope, self.width, {}, {})

    def inner(self, leaf: Leaf, scope: Scope, width: int) -> None:
        """A leaf that runs over the inner axes, `width` lanes at a time."""
        frame = self.frame
        several = len(frame.inner_axes) > 1
        reductions = self._reductions(leaf, width, several_rows=several)
        for reduction in reductions.values():
            reduction.begin_leaf()
        splitting = self.kernel.split
        low, high = ("0", frame.row_count) if several else ("0", "1")
        if several and splitting:
            low, high = frame.range[2], frame.range[3]
        with frame.points(frame.inner_axes[:-1], low, high) as (row, at):
            pointers = frame.move(scope.pointers, frame.inner_axes[:-1], at)
            there = replace(scope, at=[*scope.at, *at], pointers=pointers, row=row)
            start, stop = "0", frame.extents[frame.rank - 1]
            if splitting and not several:
                start, stop = frame.range[2], frame.range[3]
            self._one_row(leaf, there, width, (start, stop), reductions)
        if not frame.partials:
            self._finish_leaf(reductions, width)

    def _reductions(self, leaf: Leaf, width: int, *, several_rows: bool) -> dict[int, Reduction]:
        made: dict[int, Reduction] = {}
        for effect in leaf.effects:
            if isinstance(effect, Reduce) and is_ordered(effect):
                made[id(effect)] = Ordered(
                    self.code, effect, width, banded=self.banded, several_rows=several_rows
                )
            elif isinstance(effect, Reduce):
                made[id(effect)] = Exact(self.code, effect, width, banded=self.banded)
        return made

    def _finish_leaf(self, reductions: Mapping[int, Reduction], width: int) -> None:
        if not reductions:
            return
        empty = self.code.emit(f"icmp eq i64 {self.frame.inner_total}, 0")
        for reduction in reductions.values():
            names = reduction.end_leaf(empty)
            value = reduction.combiner.result(names, self.width)
            self.set_row(reduction.effect.index, value)

    def _one_row(
        self,
        leaf: Leaf,
        scope: Scope,
        width: int,
        bounds: tuple[str, str],
        reductions: Mapping[int, Reduction],
    ) -> None:
        code, frame = self.code, self.frame
        ordered = [r for r in reductions.values() if isinstance(r, Ordered)]
        exact = [r for r in reductions.values() if isinstance(r, Exact)]
        row_parts = bool(frame.partials) and len(frame.inner_axes) > 1
        for reduction in ordered:
            reduction.begin_row()
        if row_parts:
            for whole in exact:
                whole.begin_part()
        filled = code.emit(f"icmp slt i64 {bounds[0]}, {bounds[1]}")
        with code.when(filled):
            hoisted = self._hoist(leaf, scope, width)
            with self._chunks(scope, bounds, reductions) as (start, stop):
                self._vectors(
                    leaf, scope, width, (start, stop), hoisted=hoisted, reductions=reductions
                )
        for reduction in ordered:
            names = reduction.end_row()
            if row_parts:
                self._store_part(reduction, names, scope, scope.row)
            else:
                reduction.push_row(names)
        if row_parts:
            for whole in exact:
                self._store_part(whole, whole.end_part(), scope, scope.row)

    @contextmanager
    def _chunks(
        self, scope: Scope, bounds: tuple[str, str], reductions: Mapping[int, Reduction]
    ) -> Iterator[tuple[str, str]]:
        """Cut `bounds` into chunks and blocks as far as the reductions ask for it."""
        code = self.code
        ordered = [r for r in reductions.values() if isinstance(r, Ordered)]
        exact = [r for r in reductions.values() if isinstance(r, Exact)]
        chunk_parts = bool(self.frame.partials) and len(self.frame.inner_axes) == 1
        if not ordered and not (exact and chunk_parts):
            yield bounds
            return
        with code.count(*bounds, str(CHUNK)) as chunk:
            chunk_end = code.minimum(code.add(chunk, str(CHUNK)), bounds[1])
            for reduction in ordered:
                reduction.begin_chunk()
            if chunk_parts:
                for whole in exact:
                    whole.begin_part()
            if ordered:
                step = str(BAND_BLOCK if self.banded else BLOCK)
                with code.count(chunk, chunk_end, step) as block:
                    for reduction in ordered:
                        reduction.begin_block()
                    yield block, code.minimum(code.add(block, step), chunk_end)
                    for reduction in ordered:
                        reduction.end_block()
            else:
                yield chunk, chunk_end
            part = code.emit(f"sdiv i64 {chunk}, {CHUNK}") if chunk_parts else ""
            for reduction in ordered:
                names = reduction.end_chunk()
                if chunk_parts:
                    self._store_part(reduction, names, scope, part)
                else:
                    reduction.push_chunk(names)
            if chunk_parts:
                for whole in exact:
                    self._store_part(whole, whole.end_part(), scope, part)

    def _vectors(
        self,
        leaf: Leaf,
        scope: Scope,
        width: int,
        bounds: tuple[str, str],
        *,
        hoisted: Mapping[int, Value],
        reductions: Mapping[int, Reduction],
    ) -> None:
        code, (low, high) = self.code, bounds
        if self.banded:
            with code.count(low, high) as i:
                self._effects(leaf, self._at(scope, i, scope.active), width, hoisted, reductions)
            return
        if node_count(leaf) > LARGE_BODY:
            with code.count(low, high, str(width)) as i:
                active = self.lanes_below(code.emit(f"sub i64 {high}, {i}"), width)
                self._effects(leaf, self._at(scope, i, active), width, hoisted, reductions)
            return
        length = code.emit(f"sub i64 {high}, {low}")
        main = code.add(low, code.emit(f"and i64 {length}, -{width}"))
        with code.count(low, main, str(width)) as i:
            self._prefetch(leaf, scope, i, width)
            self._effects(leaf, self._at(scope, i, None), width, hoisted, reductions)
        if not reductions and has_plain_tail(self.kernel, leaf, self.vector_bytes):
            with code.count(main, high) as i:
                self._effects(leaf, self._at(scope, i, None), 1, {}, {})
            return
        with code.when(code.emit(f"icmp slt i64 {main}, {high}")):
            active = self.lanes_below(code.emit(f"sub i64 {high}, {main}"), width)
            self._effects(leaf, self._at(scope, main, active), width, hoisted, reductions)

    def _prefetch(self, leaf: Leaf, scope: Scope, position: str, width: int) -> None:
        """In a row's second loop: fetch what the next row's first loop will read.

        A row's first loop waits for memory and its later ones for arithmetic; this overlaps them.
        """
        loops = [other for other in self.kernel.leaves if not other.row]
        if len(loops) < 2 or leaf is not loops[1] or self.kernel.band_rank == 0:
            return
        reads = {node.attr for node in topological(loops[0].roots) if node.op is Core.LOAD}
        axis = self.kernel.band_rank - 1
        for index, array in enumerate(self.kernel.arrays):
            if index not in reads or array.band_only or array.vector is not Stride.UNIT:
                continue
            size = item_size(array.dtype)
            offset = self.code.mul(position, str(size))
            next_row = self.code.add(self.frame.strides[index][axis], offset)
            for line in range(0, max(1, width * size), LINE_BYTES):
                at = self.code.add(next_row, str(line))
                pointer = self.code.offset(scope.pointers[index], at)
                # Read, moderate locality (second-level cache), data. Never faults.
                arguments = [("ptr", pointer), ("i32", "0"), ("i32", "2"), ("i32", "1")]
                self.code.call("", "llvm.prefetch.p0", arguments)

    def _at(self, scope: Scope, position: str, active: str | None) -> Scope:
        axis = self.frame.rank - 1
        pointers = self.frame.move(scope.pointers, [axis], [position])
        return replace(
            scope, at=[*scope.at, position], pointers=pointers, active=active, position=position
        )

    def _hoist(self, leaf: Leaf, scope: Scope, width: int) -> dict[int, Value]:
        """Load before the loop what does not move in it and is not written in it."""
        roots = leaf.all_roots
        written = {e.array for e in leaf.effects if isinstance(e, Store)}
        hoisted: dict[int, Value] = {}
        for node in topological(roots):
            if node.op is not Core.LOAD or node.attr in written:
                continue
            index = node.attr
            assert isinstance(index, int)
            array = self.kernel.arrays[index]
            if array.band_only if self.banded else array.vector is Stride.ZERO:
                hoisted[index] = load(self.code, self._place(index, scope), width, scope.active)
        return hoisted

    def _store_part(
        self, reduction: Reduction, names: Sequence[str], scope: Scope, part: str
    ) -> None:
        code, frame = self.code, self.frame
        ordinal = self._ordinals[id(reduction.effect)]
        combiner = reduction.combiner
        pointer = frame.partial(scope.flat, part, ordinal)
        if not self.banded:
            store_partial(code, combiner, names, pointer)
            return
        stride = code.mul(frame.parts, str(32 * len(self._ordinals)))
        for k, (dtype, name) in enumerate(zip(combiner.dtypes, names, strict=True)):
            place = Place(dtype, code.offset(pointer, str(8 * k)), Stride.ANY, stride)
            store(code, place, name, self.width, scope.active)
