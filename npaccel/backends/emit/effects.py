"""What one iteration of a leaf does: values from their sources, flags, effects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from npaccel.backends.emit.access import Place, gather, load, scatter, store
from npaccel.backends.emit.body import (
    LEAVES,
    Source,
    Values,
    complete,
    evaluate,
    raise_flags,
    when_any,
)
from npaccel.backends.emit.builder import Builder, Lanes, Name, Value, Variable, Which
from npaccel.backends.emit.frame import Frame
from npaccel.backends.emit.guards import as_a_rule, finite, rare_folds, watched
from npaccel.backends.emit.reduce import Exact, Ordered
from npaccel.backends.emit.scalars import single
from npaccel.backends.emit.widths import has_plain_tail, register_lanes
from npaccel.backends.layout import parts_of, reductions_of
from npaccel.ir.nodes import Leaf, Reduce, Store, StoreRow, StoreScratch, Stride
from npaccel.ir.ops import find
from npaccel.ir.scalar import SCANNED, Core, Expr, Pool, item_size, scans, topological, usual

__all__ = ["Effects", "Reduction", "Scope"]

Reduction = Exact | Ordered

# Masks of so few nodes of their own, or of no more than they share with the leaf, stay where they
# are: compiling a function takes longer (exp: 17 ms inline, 23 apart).
FEW_MASKS = 32


@dataclass(frozen=True, slots=True)
class Scope:
    """Where in the domain code is being written.

    flat: flattened band index. at: coordinates of the axes so far. pointers: each array's element
    there. lanes: those that exist; None: all. row, position: flattened row index and coordinate
    along the last inner axis, once known.
    """

    flat: Name
    at: Sequence[Name]
    pointers: Sequence[Name]
    lanes: Lanes | None
    row: Name
    position: Name


class Effects:
    """Writes what is inside the loops of a kernel's leaves; `width`: lanes of a row's values."""

    def __init__(self, frame: Frame, width: int) -> None:
        self.b, self.frame, self.kernel = frame.b, frame, frame.kernel
        self.width = width
        self.banded = frame.kernel.vector_band
        self._row_variables = [
            [self.b.variable(part, width) for part in parts_of(row.dtype)]
            for row in frame.kernel.rows
        ]
        self._scratch = frame.scratch_bases(width if self.banded else 1)
        self._carries: dict[Expr, Variable] = {}  # per SCAN the result so far
        self.ordinals = {id(e): k for k, e in enumerate(reductions_of(frame.kernel))}
        self._parts: list[tuple[Leaf, Leaf]] = []

    def part_of(self, whole: Leaf, part: Leaf) -> Leaf:
        """`part`, known as one of a leaf of the kernel."""
        self._parts.append((part, whole))
        return part

    def number(self, leaf: Leaf) -> int:
        """Of the kernel's leaves the one that this is, or is a part of."""
        whole = next((whole for part, whole in self._parts if part is leaf), leaf)
        return next(k for k, other in enumerate(self.kernel.leaves) if other is whole)

    def scope(self, flat: Name, at: Sequence[Name]) -> Scope:
        """The band point with these coordinates."""
        band, none = range(self.kernel.band_rank), self.b.n(0)
        return Scope(flat, at, self.frame.move(self.frame.bases, band, at), None, none, none)

    def at(self, scope: Scope, position: Name) -> Scope:
        """There in a row, for lane 0."""
        axis = self.frame.rank - 1
        pointers = self.frame.move(scope.pointers, [axis], [position])
        return replace(scope, at=[*scope.at, position], pointers=pointers, position=position)

    # Values.

    def set_row(self, index: int, value: Value) -> None:
        """rows[index] = value."""
        for variable, name in zip(self._row_variables[index], value, strict=True):
            self.b.set(variable, name)

    def place(self, index: int, scope: Scope) -> Place:
        """Where an array's elements are."""
        array = self.kernel.arrays[index]
        stride = self.frame.strides[index][self.frame.vector_axis]
        return Place(array.dtype, scope.pointers[index], array.vector, stride)

    def _scratch_place(self, index: int, scope: Scope) -> Place:
        b, dtype = self.b, self.kernel.scratch[index]
        size = item_size(dtype)
        moved = b.mul(self._element(scope), size * (self.width if self.banded else 1))
        return Place(dtype, b.offset(self._scratch[index], moved), Stride.UNIT, b.n(size))

    def _element(self, scope: Scope) -> Name:
        """Flattened inner index of lane 0."""
        last = self.frame.extents[self.frame.rank - 1]
        return self.b.add(self.b.mul(scope.row, last), scope.position)

    def _index(self, first: Name, width: int, *, moving: bool) -> Name:
        """A coordinate in every lane; `moving`: one further in each."""
        return self.b.ramp(first, width) if moving else self.b.splat(first, width)

    def _source(self, scope: Scope, width: int, hoisted: Mapping[int, Value]) -> Source:
        before: Values = {}

        def value(node: Expr, operands: Sequence[Value]) -> Value:
            if node.op is Core.SCAN:
                results, before[node] = self._scan(node, single(operands[0]), scope)
                return (results,)
            if node.op is Core.BEFORE:
                return before[node.args[0]]
            at, b = node.attr, self.b
            assert isinstance(at, int)
            match node.op:
                case Core.LOAD if at in hoisted:
                    return hoisted[at]
                case Core.LOAD:
                    return load(b, self.place(at, scope), width, scope.lanes)
                case Core.GATHER:
                    return self._gather(node, single(operands[0]), scope)
                case Core.SCALAR:
                    return tuple(b.splat(name, width) for name in self.frame.scalar(at))
                case Core.ROW:
                    names = [b.get(variable) for variable in self._row_variables[at]]
                    return tuple(n if n.width == width else b.splat(n, width) for n in names)
                case Core.SCRATCH:
                    # There is room for lanes that do not exist: the next row's, or nobody's.
                    return load(b, self._scratch_place(at, scope), width, self._stored(scope))
            moving = at == self.frame.vector_axis
            return (self._index(scope.at[at], width, moving=moving),)

        return value

    def _stored(self, scope: Scope) -> Lanes | None:
        """Lanes of row-local arrays: along the band each vector has its own."""
        return None if self.banded else scope.lanes

    def _gather(self, node: Expr, offset: Name, scope: Scope) -> Value:
        b, place = self.b, self.place(int(str(node.attr)), scope)
        if offset.width == 1 or not self._is_uniform(node.args[0]):
            return gather(b, place, offset, scope.lanes)
        # All lanes move by as much: whole rows are picked.
        first = b.mul(b.as_n(b.lane(offset, 0)), item_size(place.dtype))
        there = place._replace(pointer=b.offset(place.pointer, first))
        return load(b, there, offset.width, scope.lanes)

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

    def _scan(self, node: Expr, x: Name, scope: Scope) -> tuple[Name, Value]:
        """Accumulate, lane after lane if they lie along the row; see Note [Scan].

        Returns the results, and those of the index before.
        """
        b, lanes = self.b, 1 if self.banded else x.width
        carry = self._carries.get(node)
        if carry is None:
            carry = self._carries[node] = b.variable(node.dtype, x.width // lanes)
        last, results, before = b.get(carry), list[Name](), list[Name]()
        first = b.coordinate("==", scope.position, b.n(0))
        for lane in range(lanes):
            value = x if lanes == 1 else b.lane(x, lane)
            if lane == 0:
                last = b.select(first, value, last)
            result = self._accumulated(node, last, value)
            if lane == 0:
                result = b.select(first, value, result)
            results.append(result)
            before.append(last)
            last = result
        b.set(carry, last)
        if lanes == 1:
            return results[0], (before[0],)
        return b.vector(results), (b.vector(before),)

    def _accumulated(self, node: Expr, last: Name, value: Name) -> Name:
        """What the operation of a SCAN makes of the result so far and a value."""
        op = find(SCANNED[int(str(node.attr))], (node.dtype,) * 3)
        assert op is not None and op.body is not None
        pool = Pool()
        result = op.body(pool.scalar(node.dtype, 0), pool.scalar(node.dtype, 1))
        assert isinstance(result, Expr)
        given = (last, value)
        (values,), _ = evaluate(
            self.b, value.width, [result], [lambda leaf, _: (given[int(str(leaf.attr))],)]
        )
        return single(values[result])

    # Effects.

    def effects(
        self,
        leaf: Leaf,
        scopes: Sequence[Scope],
        width: int,
        hoisted: Mapping[int, Value],
        reductions: Mapping[int, Reduction],
    ) -> None:
        """An iteration: a vector at each of these places."""
        b, rule = self.b, as_a_rule(leaf)
        sources = [self._source(scope, width, hoisted) for scope in scopes]
        needed = [*rule.values, *scans(leaf.all_roots)]
        every, masks = evaluate(
            b, width, needed, sources, watched(leaf.guards), self.frame.square_sums
        )
        with self._where_guards_are_true(leaf, scopes, every, masks):
            self._raise_flags(leaf, scopes, width, every, sources)
            for fold in rare_folds(leaf):
                for scope, values, source in zip(scopes, every, sources, strict=True):
                    known = complete(b, width, [fold.value], values, source)
                    self._reduce(reductions[id(fold)], known[fold.value], known, scope)
        sharing = self.frame.group if leaf.row else None
        if sharing is not None and any(isinstance(effect, Store) for effect in leaf.effects):
            sharing.barrier()  # all items have loaded what the first one overwrites
        for effect in rule.effects:
            for scope, values in zip(scopes, every, strict=True):
                value = values[effect.value]
                match effect:
                    case Store():
                        self._store(effect, value, values, scope, alone=sharing is not None)
                    case StoreScratch():
                        place = self._scratch_place(effect.index, scope)
                        store(b, place, value, Which(self._stored(scope)))
                    case StoreRow():
                        self.set_row(effect.index, value)
                    case Reduce():
                        self._reduce(reductions[id(effect)], value, values, scope)

    def _where_guards_are_true(
        self, leaf: Leaf, scopes: Sequence[Scope], every: Sequence[Values], masks: Sequence[Name]
    ) -> AbstractContextManager[None]:
        """Before the leaf's stores, so that masks may load what those overwrite."""
        if not leaf.flags and not rare_folds(leaf):
            return nullcontext()
        for effect in as_a_rule(leaf).effects if masks else ():
            for values in every:
                self.b.keep(values[effect.value])
        return when_any(self.b, scopes[0].lanes, masks)

    def _raise_flags(
        self,
        leaf: Leaf,
        scopes: Sequence[Scope],
        width: int,
        every: Sequence[Values],
        sources: Sequence[Source],
    ) -> None:
        if not leaf.flags:
            return
        apart = self._may_be_apart(leaf)
        for scope, values, source in zip(scopes, every, sources, strict=True):
            if apart:
                self._call_masks(leaf, scope, width)
            else:
                raise_flags(self.b, width, scopes[0].lanes, leaf.flags, values, source)

    def _may_be_apart(self, leaf: Leaf) -> bool:
        """Whether the leaf's masks can be told from arguments alone; see Note [Masks apart]."""
        if not self.b.machine.calls or self.kernel.scratch:
            return False
        masks = topological([flag.mask for flag in leaf.flags])
        row_values = {Core.ROW} if not self.banded else set()
        known = {Core.LOAD, Core.GATHER, Core.SCALAR, Core.INDEX} | row_values
        own = set(masks) - usual(leaf.roots)  # the others are computed again
        few = len(own) <= max(len(masks) - len(own), FEW_MASKS)
        return not few and all(node.op in known for node in masks if node.op in LEAVES)

    def _call_masks(self, leaf: Leaf, scope: Scope, width: int) -> None:
        """Have the masks of a vector's lanes evaluated, a register's worth at a time."""
        b = self.b
        nodes = topological([*leaf.guards, *(flag.mask for flag in leaf.flags)])
        arrays = sorted({int(str(n.attr)) for n in nodes if n.op in (Core.LOAD, Core.GATHER)})
        rows = sorted({int(str(n.attr)) for n in nodes if n.op is Core.ROW})
        lanes = min(width, register_lanes(leaf, b.machine))
        ordinal = self.number(leaf)
        some = scope.lanes is not None or not has_plain_tail(self.kernel, leaf, b.machine)
        name = f"{ordinal}_{lanes}_{int(some)}"

        def inside(other: Builder, given: list[Name]) -> tuple[Effects, Scope]:
            writer, rank = Effects(Frame(other, self.kernel), self.width), len(scope.at)
            pointers = dict(zip(arrays, given[1 + rank :], strict=False))
            rest = iter(given[1 + rank + len(arrays) :])
            for row in rows:
                writer.set_row(row, tuple(next(rest) for _ in self._row_variables[row]))
            existing = other.lanes_below(given[0], lanes) if some and lanes > 1 else None
            at, none = given[1 : 1 + rank], other.n(0)
            every = [pointers.get(k, base) for k, base in enumerate(writer.frame.bases)]
            return writer, Scope(none, at, every, existing, none, at[-1] if at else none)

        def write_masks(other: Builder, given: list[Name]) -> None:
            writer, there = inside(other, given)
            writer.write_masks(leaf, lanes, there)

        def write_guards(other: Builder, given: list[Name]) -> None:
            writer, there = inside(other, given)
            source = writer._source(there, lanes, {})
            _, found = evaluate(other, lanes, [], [source], finite(leaf.guards))
            with when_any(other, there.lanes, found):
                other.apart(f"masks_{name}", given, write_masks)

        for first in range(0, width, lanes):
            names = self._mask_arguments(scope, first, lanes, arrays, rows)
            if watched(leaf.guards).bounded:  # what is large need not be infinite
                b.apart(f"guards_{name}", names, write_guards)
            else:
                b.apart(f"masks_{name}", names, write_masks)

    def _mask_arguments(
        self, scope: Scope, first: int, lanes: int, arrays: Sequence[int], rows: Sequence[int]
    ) -> list[Name]:
        """What masks of these lanes, from `first` on, depend on: how many are in use, coordinates,
        pointers, values of rows."""
        b, axis = self.b, self.frame.vector_axis
        count = b.sub(scope.lanes.count, first) if scope.lanes else b.n(lanes)
        moved = self.frame.move(scope.pointers, [axis], [b.n(first)])
        at = [b.add(c, first) if k == axis else c for k, c in enumerate(scope.at)]
        values = [b.get(v) for row in rows for v in self._row_variables[row]]
        return [count, *at, *(moved[k] for k in arrays), *values]

    def write_masks(self, leaf: Leaf, width: int, scope: Scope) -> None:
        """The masks of a vector there."""
        masks = [flag.mask for flag in leaf.flags]
        source = self._source(scope, width, {})
        (known,), _ = evaluate(self.b, width, masks, [source])
        found = [single(known[mask]) for mask in masks]
        with when_any(self.b, scope.lanes, found):  # as a rule a NaN that was there before
            raise_flags(self.b, width, scope.lanes, leaf.flags, known, source)

    def _store(
        self, effect: Store, value: Value, values: Values, scope: Scope, *, alone: bool
    ) -> None:
        b = self.b
        mask = None if effect.mask is None else single(values[effect.mask])
        if alone:  # one item of the group stores
            mask = b.both(mask, b.coordinate("==", b.lane_of_group, b.n(0)))
        # The parameter's promise covers whole vectors from a row's start only.
        stream = self.kernel.arrays[effect.array].nontemporal and not self.banded
        place = self.place(effect.array, scope)
        which = Which(scope.lanes, mask, stream)
        if effect.offset is not None:
            scatter(b, place, single(values[effect.offset]), value, which)
        else:
            store(b, place, value, which)

    def _reduce(self, reduction: Reduction, value: Value, values: Values, scope: Scope) -> None:
        b, mask = self.b, reduction.effect.mask
        active = b.both(
            None if mask is None else single(values[mask]),
            None if scope.lanes is None else scope.lanes.below,
        )
        index = None
        if reduction.combiner.indexed:
            element = self._element(scope)
            index = self._index(element, value[0].width, moving=not self.banded)
        reduction.step(value, active, index, scope.position)
