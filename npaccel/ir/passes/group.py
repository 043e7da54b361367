"""Pass `group`: which requests share a kernel, and at which time of it each runs.

Greedy and in one walk: a request joins the last group that it depends on, or else a later one
that reads the same views, or else opens a new group. See Note [Times] in draft.py.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys
from collections import Counter
from collections.abc import Iterable, Iterator

from npaccel.ir.fold_order import FoldOrder
from npaccel.ir.limits import Limits
from npaccel.ir.nodes import Kind, Wrap
from npaccel.ir.passes.draft import Access, Draft, Fact, Group, Member, Need, Pass, Role
from npaccel.ir.views import Region, overlaps

__all__ = ["GROUP"]

# That a kernel with wraps is run over: neighbours in three dimensions make 27.
MOST_BOXES = 32

Key = tuple[int, str, int, tuple[int, ...], tuple[int, ...], tuple[Wrap, ...]]


class _Use:
    """One view that a group touches: the last times of reading and of writing it."""

    __slots__ = ("read", "region", "written")

    def __init__(self, region: Region) -> None:
        self.region = region
        self.read = -1
        self.written = -1


class _Open:
    """A group while it grows."""

    def __init__(
        self, index: int, fact: Fact, limits: Limits, dead: frozenset[int], turn: int
    ) -> None:
        self.index = index
        self.turn = turn  # of a loop whose rounds have kernels of their own
        self.limits = limits
        self.dead = dead
        self.space = fact.space
        self.axes: tuple[int, ...] | None = None
        self.order: FoldOrder | None = None
        self.by_number = False  # a reduction tells numbers of elements: axes stay in their order
        self.strides: set[tuple[int, ...]] = set()  # of views over the whole domain
        self.reason = fact.reason
        self.members: list[Member] = []
        self.size = 0
        self.uses: dict[int, dict[Key, _Use]] = {}
        self.views = 0
        self.maps = True  # so far; only these may have wraps
        self.cuts: frozenset[tuple[int, int]] = frozenset()  # axis and place, of wraps
        self.most = sys.maxsize  # members that it may have

    def key(self, access: Access, role: Role) -> Key:
        strides = access.strides
        if role is Role.ROW:
            strides = self._spread(strides)
        return (access.buffer, access.dtype, access.offset, strides, access.table, access.wraps)

    def _spread(self, strides: tuple[int, ...]) -> tuple[int, ...]:
        kept = iter(strides)
        axes = self.axes or ()
        return tuple(0 if axis in axes else next(kept) for axis in range(len(self.space)))

    def role(self, fact: Fact) -> Role | None:
        """How the request fits the group's domain; None if it does not."""
        if self.reason is not None or fact.reason is not None:
            return None
        if not _may_wrap(self.maps and fact.request.kind is Kind.MAP, self.cuts | _cuts(fact)):
            return None
        if fact.space == self.space:
            if not self._keeps_order(fact):
                return None
            if not _along_rows(fact):
                return Role.FULL
            return _role(fact) if self.axes in (None, fact.axes) else None
        if self.axes is None or fact.axes:
            return None
        axes = self.axes
        band = tuple(n for axis, n in enumerate(self.space) if axis not in axes)
        return Role.ROW if fact.space == band else None

    def _keeps_order(self, fact: Fact) -> bool:
        """Whether the order of sums and products stays what it is, with this one beside them."""
        by_number = self.by_number or fact.request.kind is Kind.ARG
        strides = self.strides.union(self._strides(fact))
        return _order_holds(self.space, _both(self.order, fact.order), strides, by_number=by_number)

    def _strides(self, fact: Fact) -> Iterator[tuple[int, ...]]:
        return (a.strides for a in fact.accesses if self._is_argument(a))

    def time(self, fact: Fact, role: Role, need: Need) -> int | None:
        """The earliest time at which the request may run here; None if it must not."""
        # Where the inner space is split nothing may run before it.
        time = 1 if role is not Role.ROW else 0 if self._latest(fact, role) > 2 else 2
        new_views = 0
        for access in fact.accesses:
            if access.write and need is Need.FLAGS:
                continue
            key = self.key(access, role)
            uses = self.uses.get(access.buffer)
            if uses is None:
                new_views += self._is_argument(access)
                continue
            if key not in uses:
                new_views += self._is_argument(access)
            earliest = self._after(access, key, uses)
            if earliest is None:
                return None
            if role is Role.REDUCE and access.write:
                earliest -= 1
            time = max(time, earliest)
        if time % 2 != (role is not Role.ROW):
            time += 1
        if self.size + fact.size > self.limits.nodes:
            return None
        if self.views + new_views > self.limits.arrays or time > self._latest(fact, role):
            return None
        return time

    def _is_argument(self, access: Access) -> bool:
        # What is dead and first written here most likely never gets memory.
        return not access.write or access.buffer not in self.dead

    def _after(self, access: Access, key: Key, uses: dict[Key, _Use]) -> int | None:
        earliest = 0
        for other, use in uses.items():
            if not access.write and use.written < 0:
                continue
            if other == key:
                earliest = max(use.written, use.read if access.write else -1)
            elif overlaps(access.region, use.region):
                return None
        return earliest

    def _latest(self, fact: Fact, role: Role) -> int:
        axes = fact.axes if _along_rows(fact) and self.axes is None else self.axes
        if axes is None or rows_fuse(self.space, axes, _reduced_inside(fact, axes), self.limits):
            return 31
        return 2 if role is Role.ROW else 1

    def join(self, place: int, fact: Fact, role: Role, time: int, need: Need) -> None:
        if _along_rows(fact):
            self.axes = fact.axes
        if role is not Role.ROW:
            self.order = self.order or fact.order
            self.by_number |= fact.request.kind is Kind.ARG
            self.strides.update(self._strides(fact))
        self.members.append(Member(place, time, role))
        self.maps &= fact.request.kind is Kind.MAP
        self.cuts |= _cuts(fact)
        self.size += fact.size
        for access in fact.accesses:
            if access.write and need is Need.FLAGS:
                continue
            key = self.key(access, role)
            uses = self.uses.setdefault(access.buffer, {})
            use = uses.get(key)
            if use is None:
                use = uses[key] = _Use(access.region)
                self.views += self._is_argument(access)
            if access.write:
                use.written = max(use.written, time + (role is Role.REDUCE))
            else:
                use.read = max(use.read, time)

    def shares(self, fact: Fact, role: Role) -> bool:
        for access in fact.accesses:
            uses = self.uses.get(access.buffer)
            if uses is not None and self.key(access, role) in uses:
                return True
        return False

    def takes(self, other: _Open) -> bool:
        """Whether all of `other`, if it is independent, may become part of this group."""
        return (
            self.space == other.space
            and bool(self.members and other.members)
            and self.turn == other.turn
            and self.reason is None
            and other.reason is None
            and (self.axes is None or other.axes is None or self.axes == other.axes)
            and _may_wrap(self.maps and other.maps, self.cuts | other.cuts)
            and _order_holds(
                self.space,
                _both(self.order, other.order),
                self.strides | other.strides,
                by_number=self.by_number or other.by_number,
            )
            and self.size + other.size <= self.limits.nodes
            and self.views + other.views <= self.limits.arrays
            and len(self.members) + len(other.members) <= min(self.most, other.most)
        )

    def conflicts(self, other: _Open) -> bool:
        """Whether the order of the two groups matters."""
        for buffer in self.uses.keys() & other.uses.keys():
            for mine in self.uses[buffer].values():
                for theirs in other.uses[buffer].values():
                    writes = mine.written >= 0 or theirs.written >= 0
                    if writes and overlaps(mine.region, theirs.region):
                        return True
        return False

    def absorb(self, other: _Open) -> None:
        """Take over the members of an independent group."""
        self.members = sorted([*other.members, *self.members], key=lambda m: m.request)
        self.axes = other.axes if self.axes is None else self.axes
        self.order = self.order or other.order
        self.by_number |= other.by_number
        self.strides |= other.strides
        self.maps &= other.maps
        self.cuts |= other.cuts
        self.size += other.size
        self.views += other.views
        self.most = min(self.most, other.most)
        for buffer, uses in other.uses.items():
            mine = self.uses.setdefault(buffer, {})
            for key, use in uses.items():
                found = mine.setdefault(key, use)
                found.read = max(found.read, use.read)
                found.written = max(found.written, use.written)
        other.members = []
        other.uses = {}

    def close(self) -> Group:
        return Group(self.space, self.axes, tuple(self.members), self.reason, self.order)


def _cuts(fact: Fact) -> frozenset[tuple[int, int]]:
    return frozenset((wrap.axis, wrap.cut) for access in fact.accesses for wrap in access.wraps)


def _may_wrap(maps: bool, cuts: frozenset[tuple[int, int]]) -> bool:
    """Whether a kernel may have these cuts: what tells numbers of elements, or folds them, not."""
    per_axis = Counter(axis for axis, _ in cuts)
    return not cuts or (maps and math.prod(n + 1 for n in per_axis.values()) <= MOST_BOXES)


def _along_rows(fact: Fact) -> bool:
    """Whether the request says which axes make a row."""
    return bool(fact.axes) and fact.request.kind in (Kind.REDUCE, Kind.ARG, Kind.SCAN)


def _role(fact: Fact) -> Role:
    """That of a request over the whole domain."""
    return Role.REDUCE if _along_rows(fact) and fact.request.kind is not Kind.SCAN else Role.FULL


def _both(one: FoldOrder | None, other: FoldOrder | None) -> tuple[FoldOrder, ...]:
    return tuple({order for order in (one, other) if order is not None})


def _order_holds(
    space: tuple[int, ...],
    orders: tuple[FoldOrder, ...],
    strides: Iterable[tuple[int, ...]],
    *,
    by_number: bool,
) -> bool:
    """Whether a kernel with these views can take elements in that one order; by_number: its reduced
    axes must stay as they are.
    """
    if len(orders) != 1:
        return not orders
    (order,) = orders
    row = order.row
    if by_number and list(order.inner) != sorted(order.inner):
        return False
    return all(
        view[axis] == view[behind] * space[behind]
        for view in (strides if len(row) > 1 else ())
        for axis, behind in itertools.pairwise(row)
    )


def rows_fuse(space: tuple[int, ...], axes: tuple[int, ...], inside: bool, limits: Limits) -> bool:
    """Whether loops over a row may follow each other in one kernel; by shape and strides alone.

    inside: whether a row lies along memory (else each of its elements is a cache line).
    """
    if len(axes) == len(space):
        return False
    band = inner = 1
    for axis, extent in enumerate(space):
        if axis in axes:
            inner *= extent
        else:
            band *= extent
    if not inside and inner > limits.column_points:
        return False
    return band >= limits.band_points or inner < limits.inner_points


def _reduced_inside(fact: Fact, axes: tuple[int, ...]) -> bool:
    """Whether the axis with the smallest stride of the widest operand is a reduced one."""
    for access in fact.accesses:
        steps = [(abs(step), -axis) for axis, step in enumerate(access.strides) if step]
        if len(steps) == len(fact.space) and steps:
            return -min(steps)[1] in axes
    return len(fact.space) - 1 in axes


class _Index:
    """Per buffer, who touched what: finds the groups that a request depends on."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.entries: dict[int, dict[tuple[int, Region, bool], None]] = {}
        self.barriers: dict[int, tuple[int, int]] = {}  # last group read by, written by
        self.merged: dict[int, int] = {}

    def now(self, group: int) -> int:
        """The group that this one has become part of."""
        while group in self.merged:
            group = self.merged[group]
        return group

    def dependencies(self, accesses: list[Access]) -> set[int]:
        """Return groups that must not run after these accesses, among them the last one."""
        found: set[int] = set()
        for access in accesses:
            read, written = self.barriers.get(access.buffer, (-1, -1))
            found.add(max(written, read if access.write else -1))
            for group, place, write in self.entries.get(access.buffer, ()):
                if (write or access.write) and overlaps(place, access.region):
                    found.add(self.now(group))
        found.discard(-1)
        return found

    def record(self, group: int, accesses: list[Access]) -> None:
        for access in accesses:
            entries = self.entries.setdefault(access.buffer, {})
            if access.write:
                # What meets an older access of the same bytes meets this write as well.
                same = [e for e in entries if e[1] == access.region and self.now(e[0]) <= group]
                for entry in same:
                    del entries[entry]
            entries[group, access.region, access.write] = None
            if len(entries) > self.limit:
                self._forget(access.buffer, entries)

    def _forget(self, buffer: int, entries: dict[tuple[int, Region, bool], None]) -> None:
        read, written = self.barriers.get(buffer, (-1, -1))
        for entry in list(entries)[: self.limit // 2]:
            del entries[entry]
            if entry[2]:
                written = max(written, self.now(entry[0]))
            else:
                read = max(read, self.now(entry[0]))
        self.barriers[buffer] = (read, written)

    def merge(self, group: _Open, into: int) -> None:
        self.merged[group.index] = into
        for buffer in group.uses:
            read, written = self.barriers.get(buffer, (-1, -1))
            # What was forgotten of this buffer may have been the group's.
            if buffer in self.barriers:
                self.barriers[buffer] = (max(read, into), max(written, into))


class _Grouper:
    def __init__(self, draft: Draft) -> None:
        self.limits, self.cuts = draft.limits, draft.cuts
        self.groups: list[_Open] = []
        self.index = _Index(draft.limits.views)
        self.dead = frozenset(b.index for b in draft.trace.buffers if b.dead)
        self.apart = draft.trace.apart or len(draft.trace.requests)

    def place(self, place: int, fact: Fact, need: Need) -> None:
        accesses = [a for a in fact.accesses if not a.write or need is Need.VALUES]
        found = self.index.dependencies(accesses)
        group = None
        if fact.reason is None:
            last = max(found, default=-1)
            if len(found) > 1 and self._role_in(self.groups[last], fact) is not None:
                for other in sorted(found - {last}, reverse=True):
                    self._merge(self.groups[other], self.groups[last])
            group = self._host(place, fact, need, last)
        if group is None:
            group = _Open(len(self.groups), fact, self.limits, self.dead, self._turn(fact))
            self.groups.append(group)
            group.join(place, fact, _role(fact), 1, need)
        group.most = min(group.most, self._most(fact))
        self.index.record(group.index, accesses)

    def _turn(self, fact: Fact) -> int:
        return fact.request.index // self.apart

    def _role_in(self, group: _Open, fact: Fact) -> Role | None:
        return group.role(fact) if group.turn == self._turn(fact) else None

    def _most(self, fact: Fact) -> int:
        """Requests that may be in a group with this one, itself included."""
        cut = self.cuts.get(fact.request.index)
        return sys.maxsize if cut is None else cut.most

    def _host(self, place: int, fact: Fact, need: Need, last: int) -> _Open | None:
        newest = len(self.groups) - 1
        candidates = [] if last < 0 else [self.groups[last]]
        first = max(last, newest - self.limits.recent)
        candidates += [self.groups[at] for at in range(newest, first, -1)]
        for group in candidates:
            role = self._role_in(group, fact) if group.members else None
            if len(group.members) >= min(group.most, self._most(fact)):
                continue
            if role is None or (group.index != last and not group.shares(fact, role)):
                continue
            time = group.time(fact, role, need)
            if time is not None:
                group.join(place, fact, role, time, need)
                return group
        return None

    def _merge(self, early: _Open, late: _Open) -> None:
        """Move a group into a later one if nothing from it to there minds.

        A request depends on both; together they may serve it without a temporary.
        """
        if not 0 < late.index - early.index <= self.limits.recent or not late.takes(early):
            return
        between = self.groups[early.index + 1 : late.index + 1]
        if any(group.conflicts(early) for group in between):
            return
        self.index.merge(early, late.index)
        late.absorb(early)


def _run(draft: Draft) -> Draft:
    grouper = _Grouper(draft)
    for place, (fact, need) in enumerate(zip(draft.facts, draft.needs, strict=True)):
        if need is not Need.NOTHING:
            grouper.place(place, fact, need)
    groups = tuple(group.close() for group in grouper.groups if group.members)
    return dataclasses.replace(draft, groups=groups)


GROUP = Pass("group", "requests that share a loop", _run)
