"""Pass `form`: make each group a Kernel with its bindings, and the whole a Plan."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping, Sequence

from npaccel.ir.limits import Limits, worth_splitting
from npaccel.ir.nodes import (
    ArrayParam,
    Binding,
    Flag,
    Fold,
    Kernel,
    KernelStep,
    Kind,
    Leaf,
    Origin,
    Plan,
    Reduce,
    RequestStep,
    RowParam,
    RowRange,
    Source,
    Store,
    StoreRow,
    StoreScratch,
    View,
)
from npaccel.ir.passes.draft import Draft, Fact, Group, Member, Need, Pass, Role
from npaccel.ir.passes.execute import Execution, Key, execute
from npaccel.ir.passes.layout import NARROW_BYTES, Layout, lay_out
from npaccel.ir.passes.leaves import Rows, Unplaceable, make_leaves
from npaccel.ir.scalar import Core, Expr, Pool, item_size, scans, topological
from npaccel.ir.text import body_text, kernel_name
from npaccel.ir.views import squeezed_axes

__all__ = ["FORM", "is_split"]


def _accessed(draft: Draft, group: Group) -> set[int]:
    """Buffers that the group reads or writes."""
    found: set[int] = set()
    for member in group.members:
        silent = draft.needs[member.request] is Need.FLAGS
        for access in draft.facts[member.request].accesses:
            if not (access.write and silent):
                found.add(access.buffer)
    return found


def _shared(draft: Draft, groups: Iterable[Group]) -> set[int]:
    """Buffers that are seen at the end, or by more than one group."""
    shared = {buffer.index for buffer in draft.trace.buffers if not buffer.dead}
    seen: set[int] = set()
    for group in groups:
        found = _accessed(draft, group)
        shared |= found & seen
        seen |= found
    return shared


def _by_level(group: Group, facts: Sequence[Fact]) -> list[Group]:
    """The group cut after every inner leaf and the row leaf that follows it."""
    levels: dict[int, list[Member]] = {}
    for member in group.members:
        level = max(0, (member.time - 1) // 2)
        moved = dataclasses.replace(member, time=member.time - 2 * level)
        levels.setdefault(level, []).append(moved)
    groups: list[Group] = []
    for _, members in sorted(levels.items()):
        flat = all(
            member.role is Role.FULL and facts[member.request].request.kind is not Kind.SCAN
            for member in members
        )
        axes, order = (None, None) if flat else (group.axes, group.order)
        groups.append(Group(group.space, axes, tuple(members), order=order))
    return groups


class _Former:
    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.shared = _shared(draft, draft.groups)
        self.logs = frozenset(buffer.index for buffer in draft.trace.buffers if buffer.log)
        self.kernels: dict[str, Kernel] = {}
        self.steps: list[KernelStep | RequestStep] = []
        self.consumed: set[tuple[int, int]] = set()
        self.dropped: list[int] = []
        self.ranges: list[RowRange] = []

    def group(self, group: Group) -> None:
        if group.reason is not None:
            (member,) = group.members
            request = self.draft.facts[member.request].request
            self.steps.append(RequestStep(request.index, group.reason))
            return
        try:
            self.kernel(group)
        except Unplaceable:
            parts = _by_level(group, self.draft.facts)
            self.shared |= _shared(self.draft, parts)
            for part in parts:
                self.kernel(part)

    def kernel(self, group: Group) -> None:
        execution = execute(self.draft, group, frozenset(self.shared))
        limits = self.draft.limits
        layout = _layout(execution, group, self.logs)
        rows = Rows(layout.scratch_points)
        try:
            leaves, scratch = make_leaves(execution, limits, rows)
        finally:
            self._note(group, layout, rows)
        self.consumed.update(execution.consumed)  # it may be what made a warning impossible
        if leaves:
            self.steps.append(self._step(execution, group, layout, leaves, scratch))
        else:
            # Kept for warnings that turned out to be impossible.
            facts = self.draft.facts
            self.dropped += (facts[member.request].request.index for member in group.members)

    def _note(self, group: Group, layout: Layout, rows: Rows) -> None:
        """Keep the bounds within which the rows' length changes nothing."""
        if rows.low > 0 or rows.high < sys.maxsize:
            request, extents = self._extents(group, layout)
            axes = tuple(axis for run in extents[layout.band_rank :] for axis in run)
            self.ranges.append(RowRange(request, axes, layout.lanes, rows.low, rows.high))

    def _extents(self, group: Group, layout: Layout) -> tuple[int, tuple[tuple[int, ...], ...]]:
        """A request over the group's whole space, and the axes of it that make each domain axis."""
        # The group's first member opened it, with its own space; a level has a whole loop in it.
        place = next(member.request for member in group.members if member.role is not Role.ROW)
        request = self.draft.facts[place].request
        kept = squeezed_axes(request.shape)
        return request.index, tuple(tuple(kept[axis] for axis in run) for run in layout.runs)

    def _source(self, execution: Execution, key: Key, layout: Layout) -> Source:
        member, access = execution.sources[key]
        request = self.draft.facts[member.request].request
        kept: Iterable[int] = squeezed_axes(request.shape)
        if member.role is Role.ROW:
            reduced = execution.group.axes or ()
            band = iter(kept)
            space = range(len(execution.group.space))
            axes = [None if axis in reduced else next(band) for axis in space]
        else:
            axes = list(kept)
        domain = tuple(axes[run[-1]] if run else None for run in layout.runs)
        return Source(request.index, access.position, domain)

    def _step(
        self,
        execution: Execution,
        group: Group,
        layout: Layout,
        leaves: tuple[Leaf, ...],
        scratch: tuple[str, ...],
    ) -> KernelStep:
        uses = _Uses(leaves)
        known = list(execution.arrays)
        keys = [known[index] for index in uses.arrays]
        arrays = _array_params(uses, keys, layout)
        split = is_split(leaves, layout.extents, layout.band_rank, self.draft.limits)
        kernel = Kernel(
            "",
            layout.band_rank,
            len(layout.extents) - layout.band_rank,
            arrays,
            tuple(execution.scalars[index][0] for index in uses.scalars),
            tuple(RowParam(execution.rows[index]) for index in uses.rows),
            scratch,
            uses.renumbered(execution.pool),
            layout.vector_band,
            split or _is_crossed(leaves, arrays, layout),
            len(execution.slots),
        )
        facts = self.draft.facts
        return KernelStep(
            self._named(kernel),
            layout.extents,
            _bindings(uses, keys, layout, group.space),
            tuple(execution.scalars[index][1:] for index in uses.scalars),
            tuple(execution.slots),
            tuple(facts[member.request].request.index for member in group.members),
            Origin(
                *self._extents(group, layout),
                tuple(self._source(execution, key, layout) for key in keys),
            ),
        )

    def _named(self, kernel: Kernel) -> Kernel:
        """The kernel under its name; the same object for the same text."""
        body = body_text(kernel)
        found = self.kernels.get(body)
        if found is None:
            found = dataclasses.replace(kernel, name=kernel_name(body))
            self.kernels[body] = found
        return found

    def plan(self) -> Plan:
        buffers: set[int] = set()
        requests = {fact.request.index: fact.request for fact in self.draft.facts}
        for step in self.steps:
            if isinstance(step, KernelStep):
                buffers.update(binding.buffer for binding in step.arrays)
                continue
            request = requests[step.request]
            views = [*request.inputs, *request.outputs, request.mask]
            buffers.update(view.buffer for view in views if isinstance(view, View))
        for fact, need in zip(self.draft.facts, self.draft.needs, strict=True):
            if need is Need.NOTHING:
                self.dropped.append(fact.request.index)
        return Plan(
            tuple(self.steps),
            tuple(sorted(buffers)),
            tuple(sorted(self.dropped)),
            tuple(sorted(self.consumed)),
            tuple(self.ranges),
        )


def _layout(execution: Execution, group: Group, logs: frozenset[int]) -> Layout:
    """logs : buffers that have no say in it."""
    stores = [store for moment in execution.moments.values() for store in moment.stores]
    reduces = [reduce for moment in execution.moments.values() for reduce in moment.reduces]
    stored = frozenset(store.array for store in stores)
    silent = frozenset(k for k, key in enumerate(execution.arrays) if key[0] in logs)
    argument = any(reduce.fold in (Fold.ARGMIN, Fold.ARGMAX) for reduce in reduces)
    values = [store.value for store in stores] + [reduce.value for reduce in reduces]
    views = [key[3] for key in execution.arrays]
    return lay_out(
        group.space,
        group.axes,
        views,
        written=stored - silent,
        silent=silent,
        keep_order=argument,
        order=group.order,
        scanned=bool(scans(values)),
        cut=frozenset(wrap.axis for key in execution.arrays for wrap in key[5]),
        narrow=all(item_size(key[1]) <= NARROW_BYTES for key in execution.arrays),
    )


def _array_params(uses: _Uses, keys: Sequence[Key], layout: Layout) -> tuple[ArrayParam, ...]:
    return tuple(
        ArrayParam(
            key[1],
            layout.vector_class(index),
            index in uses.loaded,
            index in uses.stored,
            layout.is_band_only(index),
            gathered=bool(key[4]),
        )
        for index, key in zip(uses.arrays, keys, strict=True)
    )


def _bindings(
    uses: _Uses, keys: Sequence[Key], layout: Layout, space: tuple[int, ...]
) -> tuple[Binding, ...]:
    return tuple(
        Binding(key[0], key[2], layout.strides[index], layout.wraps(key[5], space))
        for index, key in zip(uses.arrays, keys, strict=True)
    )


def is_split(
    leaves: tuple[Leaf, ...], extents: tuple[int, ...], band_rank: int, limits: Limits
) -> bool:
    """Whether the inner space of a kernel with these leaves is cut into chunks."""
    inner_rank = len(extents) - band_rank
    return may_be_split(leaves, inner_rank) and worth_splitting(extents, band_rank, limits)


def may_be_split(leaves: tuple[Leaf, ...], inner_rank: int) -> bool:
    """Whether the inner space of these leaves can be cut, whatever its extents."""
    if leaves[0].row or any(not leaf.row for leaf in leaves[1:]):
        return False
    if inner_rank > 1 and not _reduces(leaves[0]):
        return False
    return not scans(leaves[0].all_roots)


def _is_crossed(leaves: tuple[Leaf, ...], arrays: tuple[ArrayParam, ...], layout: Layout) -> bool:
    """Whether it is a map over rows that an array lies across, whose lines of the cache are used
    whole where pieces of rows take turns (`ACROSS_TILE` in backends/tasks.py)."""
    alone = len(leaves) == 1 and layout.band_rank > 0 and not layout.vector_band
    inner_rank = len(layout.extents) - layout.band_rank
    may = alone and not _reduces(leaves[0]) and may_be_split(leaves, inner_rank)
    return may and any(array.lies_across for array in arrays)


def _reduces(leaf: Leaf) -> bool:
    return any(isinstance(effect, Reduce) for effect in leaf.effects)


class _Uses:
    """Which arrays, scalars and rows the leaves name, in order of first use."""

    def __init__(self, leaves: tuple[Leaf, ...]) -> None:
        self.leaves = leaves
        self.loaded: set[int] = set()
        self.stored: set[int] = set()
        self.arrays: dict[int, int] = {}
        self.scalars: dict[int, int] = {}
        self.rows: dict[int, int] = {}
        for leaf in leaves:
            self._leaf(leaf)

    def _leaf(self, leaf: Leaf) -> None:
        tables: Mapping[Core, dict[int, int]] = {
            Core.LOAD: self.arrays,
            Core.GATHER: self.arrays,
            Core.SCALAR: self.scalars,
            Core.ROW: self.rows,
        }
        for node in topological(leaf.all_roots):
            table = tables.get(node.op)
            if table is not None:
                assert isinstance(node.attr, int)
                table.setdefault(node.attr, len(table))
                if node.op in (Core.LOAD, Core.GATHER):
                    self.loaded.add(node.attr)
        for effect in leaf.effects:
            if isinstance(effect, Store):
                self.stored.add(effect.array)
                self.arrays.setdefault(effect.array, len(self.arrays))
            elif isinstance(effect, Reduce | StoreRow):
                self.rows.setdefault(effect.index, len(self.rows))

    def renumbered(self, pool: Pool) -> tuple[Leaf, ...]:
        """The leaves with arrays, scalars and rows numbered by first use."""
        tables = {
            Core.LOAD: self.arrays,
            Core.GATHER: self.arrays,
            Core.SCALAR: self.scalars,
            Core.ROW: self.rows,
        }
        if all(all(old == new for old, new in table.items()) for table in tables.values()):
            return self.leaves
        # A pool of its own: the numbers of old and new nodes must not be mistaken.
        fresh = Pool()
        form: dict[Expr, Expr] = {}
        for node in topological(root for leaf in self.leaves for root in leaf.all_roots):
            attr = node.attr
            if node.op in tables:
                assert isinstance(attr, int)
                attr = tables[node.op][attr]
            args = tuple(form[arg] for arg in node.args)
            form[node] = fresh.make(node.op, node.dtype, args, attr)
        return tuple(self._moved(leaf, form) for leaf in self.leaves)

    def _moved(self, leaf: Leaf, form: dict[Expr, Expr]) -> Leaf:
        effects: list[Store | StoreScratch | StoreRow | Reduce] = []
        for effect in leaf.effects:
            value = form[effect.value]
            match effect:
                case Store():
                    mask = None if effect.mask is None else form[effect.mask]
                    offset = None if effect.offset is None else form[effect.offset]
                    effects.append(Store(self.arrays[effect.array], value, mask, offset))
                case Reduce():
                    mask = None if effect.mask is None else form[effect.mask]
                    row = self.rows[effect.index]
                    effects.append(Reduce(row, effect.fold, value, mask))
                case StoreRow():
                    effects.append(StoreRow(self.rows[effect.index], value))
                case StoreScratch():
                    effects.append(StoreScratch(effect.index, value))
        guards = tuple(form[guard] for guard in leaf.guards)
        flags = tuple(Flag(f.slot, f.kind, form[f.mask]) for f in leaf.flags)
        return Leaf(leaf.row, tuple(effects), guards, flags)


def _run(draft: Draft) -> Draft:
    former = _Former(draft)
    for group in draft.groups:
        former.group(group)
    plan = former.plan()
    return dataclasses.replace(draft, steps=plan.steps, plan=plan)


FORM = Pass("form", "kernels with their arguments, and the plan", _run)
