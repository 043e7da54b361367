"""From timed effects to leaves: what is computed where, and what is kept for later leaves.

A value that a later leaf needs again is, in this order: read back from an array that it was
stored to, computed again if that is cheap, kept in row-local scratch if the row is short, or
computed again. Where none is possible `Unplaceable` is raised; the kernel is then split.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from npaccel.ir.limits import Limits
from npaccel.ir.nodes import Flag, Leaf, Reduce, Store, StoreRow, StoreScratch
from npaccel.ir.passes.execute import Execution, Moment
from npaccel.ir.scalar import Core, Expr, Pool, item_size, topological

__all__ = ["Rows", "Unplaceable", "make_leaves"]

FREE = (Core.CONST, Core.SCALAR, Core.ROW, Core.INDEX)
SLOW = (Core.DIV, Core.SQRT, Core.REM, Core.GATHER, Core.SCAN)
CHEAP = 4


class Unplaceable(Exception):
    """A leaf needs a value that can neither be kept nor computed again."""


@dataclass(slots=True)
class Rows:
    """How long rows are, and between which lengths, [low, high), all would be decided alike."""

    points: int
    low: int = 0
    high: int = sys.maxsize

    def fit(self, item_bytes: int, limit_bytes: int) -> bool:
        """Whether rows of so many bytes per point stay within the limit."""
        longest = limit_bytes // item_bytes
        if self.points <= longest:
            self.high = min(self.high, longest + 1)
            return True
        self.low = max(self.low, longest + 1)
        return False


class _Placer:
    def __init__(self, execution: Execution, limits: Limits, rows: Rows) -> None:
        self.pool: Pool = execution.pool
        self.moments = execution.moments
        self.limits = limits
        self.rows = rows
        self.scratch: list[str] = []
        self.scratch_bytes = 0  # per point
        self.scratch_of: dict[Expr, Expr] = {}
        self.first: dict[Expr, int] = {}
        self.physical: dict[int, dict[Expr, Expr]] = {}
        self.kept: dict[int, list[StoreScratch]] = {}
        self.stored: dict[int, int] = {}  # array -> when
        self.stored_value: dict[Expr, tuple[int, int]] = {}  # value -> (array, when)
        for time, moment in execution.moments.items():
            for store in moment.stores:
                self.stored[store.array] = time
                if store.mask is None and time % 2:
                    self.stored_value.setdefault(store.value, (store.array, time))

    def check_row(self, time: int, roots: Iterable[Expr]) -> None:
        """Row leaves compute nothing again; but what they load must still be there."""
        for node in topological(roots):
            self._check_load(node, time)

    def _check_load(self, node: Expr, time: int) -> None:
        if node.op is Core.LOAD:
            assert isinstance(node.attr, int)
            if self.stored.get(node.attr, time) < time:
                raise Unplaceable

    def lower(self, time: int, roots: Iterable[Expr], *, certain: bool) -> None:
        """Give every root its form in the leaf at `time`.

        certain: the roots are computed at every index, so later leaves may rely on them.
        """
        done = self.physical.setdefault(time, {})
        if time == min(self.moments):
            # Nothing ran before: every value is computed here, as it is.
            done.update((node, node) for node in topological(roots))
            if certain and len(self.moments) > 1:
                self.first.update((node, time) for node in done)
            return
        stack = list(roots)
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            found = self._elsewhere(node, time, certain=certain)
            if found is None:
                missing = [arg for arg in node.args if arg not in done]
                if missing:
                    stack.extend(missing)
                    continue
                found = self._again(node, done)
                if certain:
                    self.first.setdefault(node, time)
            done[node] = found
            stack.pop()

    def _again(self, node: Expr, done: dict[Expr, Expr]) -> Expr:
        args = tuple(done[arg] for arg in node.args)
        if all(new is old for new, old in zip(args, node.args, strict=True)):
            return node
        return self.pool.make(node.op, node.dtype, args, node.attr)

    def _elsewhere(self, node: Expr, time: int, *, certain: bool) -> Expr | None:
        """The form of a value that need not be computed again in the leaf at `time`."""
        if node.op in FREE:
            return node
        if node in self.scratch_of:
            return self.scratch_of[node]
        array, when = self.stored_value.get(node, (0, time))
        if when < time:
            return self.pool.load(node.dtype, array)
        if node.op is Core.LOAD:
            self._check_load(node, time)
            return node
        first = self.first.get(node, time)
        if first == time:
            return None
        cost = self._cost(node, time)
        if (cost <= CHEAP or not certain) and not self._is_stale(node, time):
            # What only warnings need is hardly ever computed.
            return None
        size = item_size(node.dtype)
        if self.rows.fit(self.scratch_bytes + size, self.limits.scratch_bytes):
            return self._keep(node, first, size)
        if cost > self.limits.recompute_cost:
            raise Unplaceable
        return None

    def _again_parts(self, node: Expr, time: int) -> list[Expr]:
        """The nodes that computing `node` in the leaf at `time` takes."""
        seen: dict[Expr, None] = {}
        stack = [node]
        while stack:
            part = stack.pop()
            stored = self.stored_value.get(part, (0, time))[1] < time
            if part not in seen and part not in self.scratch_of and not stored:
                seen[part] = None
                stack.extend(part.args)
        return list(seen)

    def _cost(self, node: Expr, time: int) -> int:
        parts = [part.op for part in self._again_parts(node, time)]
        free = (*FREE, Core.LOAD)
        return sum((5 if op in SLOW else 1) for op in parts if op not in free)

    def _is_stale(self, node: Expr, time: int) -> bool:
        return any(
            part.op is Core.LOAD and self.stored.get(_index(part), time) < time
            for part in self._again_parts(node, time)
        )

    def _keep(self, node: Expr, first: int, size: int) -> Expr:
        self.scratch_bytes += size
        self.scratch.append(node.dtype)
        index = len(self.scratch) - 1
        value = self.physical[first][node]
        self.kept.setdefault(first, []).append(StoreScratch(index, value))
        self.scratch_of[node] = self.pool.scratch(node.dtype, index)
        return self.scratch_of[node]

    # ------------------------------------------------------------------------------- leaves

    def run(self) -> tuple[Leaf, ...]:
        times = sorted(self.moments)
        for time in times:
            moment = self.moments[time]
            if time % 2:
                self.lower(time, _effect_roots(moment), certain=True)
                self.lower(time, _flag_roots(moment), certain=False)
            else:
                self.check_row(time, [*_effect_roots(moment), *_flag_roots(moment)])
        leaves = [self._leaf(time, self.moments[time]) for time in times]
        return tuple(leaf for leaf in leaves if leaf.effects or leaf.flags)

    def _leaf(self, time: int, moment: Moment) -> Leaf:
        if time % 2 == 0:
            effects: tuple[StoreRow | Store, ...] = (*moment.rows, *moment.stores)
            return Leaf(True, effects, tuple(moment.guards), tuple(moment.flags))
        form = self.physical[time]

        def mask(where: Expr | None) -> Expr | None:
            return None if where is None else form[where]

        reduces = [Reduce(r.index, r.fold, form[r.value], mask(r.mask)) for r in moment.reduces]
        stores = [Store(s.array, form[s.value], mask(s.mask)) for s in moment.stores]
        guards = tuple(dict.fromkeys(form[guard] for guard in moment.guards))
        flags = tuple(Flag(f.slot, f.kind, form[f.mask]) for f in moment.flags)
        return Leaf(False, (*self.kept.get(time, ()), *reduces, *stores), guards, flags)


def _index(load: Expr) -> int:
    assert isinstance(load.attr, int)
    return load.attr


def _effect_roots(moment: Moment) -> list[Expr]:
    roots: list[Expr] = []
    effects: list[Reduce | StoreRow | Store] = [*moment.reduces, *moment.rows, *moment.stores]
    for effect in effects:
        roots.append(effect.value)
        if isinstance(effect, Store | Reduce) and effect.mask is not None:
            roots.append(effect.mask)
    return roots


def _flag_roots(moment: Moment) -> list[Expr]:
    return [*moment.guards, *(flag.mask for flag in moment.flags)]


def make_leaves(
    execution: Execution, limits: Limits, rows: Rows
) -> tuple[tuple[Leaf, ...], tuple[str, ...]]:
    """Return the leaves and the dtypes of the scratch arrays.

    Parameters
    ----------
    rows : elements of a row's scratch array; notes what is decided by it

    Raises
    ------
    Unplaceable : a value cannot be brought to the leaf that needs it
    """
    placer = _Placer(execution, limits, rows)
    leaves = placer.run()
    return leaves, tuple(placer.scratch)
