"""Symbolic execution of a group: every value as an expression, every effect with its time.

In these expressions LOAD means what an array held before the kernel; which leaf computes what,
and what has to be kept for later leaves, is decided in leaves.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from npaccel.ir.nodes import (
    Flag,
    FlagKind,
    Fold,
    Kind,
    Reduce,
    Request,
    ScalarOperand,
    Store,
    StoreRow,
    Wrap,
)
from npaccel.ir.operation import Op
from npaccel.ir.ops import find
from npaccel.ir.passes.draft import Access, Draft, Fact, Group, Member, Need, Role
from npaccel.ir.passes.facts import FLOATING, kinds_asked
from npaccel.ir.passes.rewrite import RewritingPool, refined, substitute
from npaccel.ir.scalar import Core, Expr, item_size, may_hold, topological

__all__ = ["Execution", "Key", "Moment", "execute"]

# buffer, dtype, offset, strides over the domain, table and wraps (see Access)
Key = tuple[int, str, int, tuple[int, ...], tuple[int, ...], tuple[Wrap, ...]]
KNOWN = (Core.CONST, Core.SCALAR, Core.ROW)


@dataclass(slots=True)
class _Entry:
    """What a view holds: its value, when it was written, by which member (by place)."""

    value: Expr
    time: int
    row: bool
    place: int


@dataclass(slots=True)
class _Watch:
    """The warnings of one request at one time.

    guards: that stay. natural: results that are not finite wherever a mask is true; no guard is
    needed where they flow into another watched result. where: the request's mask.
    """

    place: int
    time: int
    masks: list[tuple[FlagKind, Expr]] = field(default_factory=list)
    guards: list[Expr] = field(default_factory=list)
    natural: list[Expr] = field(default_factory=list)
    where: Expr | None = None

    def guarded(self) -> list[Expr]:
        return [_masked(_nonfinite(value), self.where) for value in self.natural]


@dataclass(slots=True)
class _Call:
    """One member while it is run: its operands in memory by position, and what it may warn of."""

    member: Member
    fact: Fact
    accesses: dict[int | None, Access]
    watch: _Watch

    @property
    def request(self) -> Request:
        return self.fact.request


@dataclass(slots=True)
class Moment:
    """What happens at one time, see Note [Times]."""

    reduces: list[Reduce] = field(default_factory=list)
    rows: list[StoreRow] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)
    guards: list[Expr] = field(default_factory=list)
    flags: list[Flag] = field(default_factory=list)


def _masked(value: Expr, where: Expr | None) -> Expr:
    return value if where is None else value & where


def _parts(value: Expr) -> tuple[Expr, ...]:
    return (value.real(), value.imag()) if value.dtype[0] == "c" else (value,)


def _nonfinite(value: Expr) -> Expr:
    first, *rest = (part.nonfinite() for part in _parts(value))
    return first | rest[0] if rest else first


def _need_any(masks: list[Expr], results: tuple[Expr, ...]) -> bool:
    """Whether some mask is made of a result."""
    return not set(results).isdisjoint(topological(masks))


class Execution:
    """The state of the walk over a group's members, and its result.

    arrays : views that are loaded or stored, in order of first use
    sources : per view a member (by place) and its access that is this view
    scalars : (dtype, request index, input position)
    rows : dtypes
    slots : request indices
    moments : by time
    """

    def __init__(self, draft: Draft, group: Group, shared: frozenset[int]) -> None:
        self.draft = draft
        self.group = group
        self.shared = shared
        self.pool = RewritingPool()
        self.arrays: dict[Key, int] = {}
        self.sources: dict[Key, tuple[Member, Access]] = {}
        self.scalars: list[tuple[str, int, int]] = []
        self.rows: list[str] = []
        self.slots: list[int] = []
        self.consumed: list[tuple[int, int]] = []
        self.moments: dict[int, Moment] = {}
        self._entries: dict[Key, _Entry] = {}
        self._stores: dict[Key, tuple[int, Expr, Expr | None]] = {}
        self._kept_rows: dict[tuple[int, Expr], Expr] = {}
        self._folds: dict[tuple[int, Fold, Expr, Expr | None], Expr] = {}
        self._largest: dict[Expr, tuple[int, Expr]] = {}  # see Note [Growth]
        self._watches: list[_Watch] = []
        # (place, time) -> those whose result is not finite wherever this one's is not.
        self._feeds: dict[tuple[int, int], list[tuple[int, int]]] = {}

    # ------------------------------------------------------------------------ reading, writing

    def moment(self, time: int) -> Moment:
        return self.moments.setdefault(time, Moment())

    def array(self, key: Key) -> int:
        return self.arrays.setdefault(key, len(self.arrays))

    def key(self, access: Access, member: Member) -> Key:
        strides = access.strides
        if member.role is Role.ROW:
            kept = iter(strides)
            axes = self.group.axes or ()
            domain = range(len(self.group.space))
            strides = tuple(0 if axis in axes else next(kept) for axis in domain)
        key = (access.buffer, access.dtype, access.offset, strides, access.table, access.wraps)
        self.sources.setdefault(key, (member, access))
        return key

    def read(self, access: Access, member: Member) -> tuple[Expr, int | None]:
        """Return the view's value, and the place of the request it comes from in this leaf."""
        key = self.key(access, member)
        entry = self._entries.get(key)
        if entry is None:
            return self.pool.load(access.dtype, self.array(key)), None
        if not entry.row:
            return entry.value, entry.place if entry.time == member.time else None
        if member.role is Role.ROW and entry.time == member.time:
            return entry.value, entry.place
        return self._kept_row(entry), None

    def _kept_row(self, entry: _Entry) -> Expr:
        if entry.value.op in KNOWN:
            return entry.value
        row = self._kept_rows.get((entry.time, entry.value))
        if row is None:
            row = self._kept_rows[entry.time, entry.value] = self.new_row(entry.value.dtype)
            assert isinstance(row.attr, int)
            self.moment(entry.time).rows.append(StoreRow(row.attr, entry.value))
        return row

    def new_row(self, dtype: str) -> Expr:
        self.rows.append(dtype)
        return self.pool.row(dtype, len(self.rows) - 1)

    def write(
        self, access: Access, member: Member, time: int, value: Expr, where: Expr | None
    ) -> None:
        key = self.key(access, member)
        row = member.role is not Role.FULL
        stored = (time, value, where)
        old = self._entries.get(key)
        # What was never written to, and nobody else sees, may hold anything elsewhere.
        fresh = self.draft.trace.buffers[access.buffer].fresh
        anything = old is None and fresh and access.buffer not in self.shared
        if where is not None and not anything:
            before, _ = self.read(access, member)
            value = where.select(value, before)
            if old is not None:
                stored = (time, value, None)
        self._entries[key] = _Entry(value, time, row, member.request)
        if access.buffer in self.shared:
            self._stores[key] = stored

    def fold(self, time: int, fold: Fold, value: Expr, where: Expr | None) -> Expr:
        """Return the row that holds this reduction, made by the inner leaf at `time`."""
        found = self._folds.get((time, fold, value, where))
        if found is None:
            dtype = "i8" if fold in (Fold.ARGMIN, Fold.ARGMAX) else value.dtype
            found = self._folds[time, fold, value, where] = self.new_row(dtype)
            assert isinstance(found.attr, int)
            self.moment(time).reduces.append(Reduce(found.attr, fold, value, where))
        return found

    # --------------------------------------------------------------------------------- requests

    def run(self, member: Member) -> None:
        fact = self.draft.facts[member.request]
        accesses = {access.position: access for access in fact.accesses}
        where = None
        if None in accesses:
            where, _ = self.read(accesses[None], member)
        watch = _Watch(member.request, member.time, where=where)
        call = _Call(member, fact, accesses, watch)
        if fact.request.kind is Kind.IOTA:
            self._iota(call)
        elif fact.request.kind is Kind.GATHER:
            self._gather(call)
        elif fact.request.kind is Kind.MAP:
            self._map(call)
        elif fact.request.kind is Kind.SCAN:
            self._scan(call)
        else:
            self._reduce(call)

    def _operand(self, position: int, call: _Call) -> tuple[Expr, int | None]:
        operand = call.request.inputs[position]
        if isinstance(operand, ScalarOperand):
            self.scalars.append((operand.dtype, call.request.index, position))
            return self.pool.scalar(operand.dtype, len(self.scalars) - 1), None
        return self.read(call.accesses[position], call.member)

    def _map(self, call: _Call) -> None:
        request, op = call.request, call.fact.op
        assert op is not None
        replaced = substitute(request)
        if replaced is not None:
            op = replaced[0]
            assert op is not None
            self.consumed.append((request.index, replaced[1]))
        else:
            op = refined(request, op)
        operands: list[Expr] = []
        for position, dtype in enumerate(request.loop[: op.nin]):
            if replaced is not None and position == replaced[1]:
                operands.append(self.pool.const(dtype, replaced[2]))
            else:
                operands.append(self._map_operand(position, op, call))
        results = self._apply(op, tuple(operands), call)
        for position, result in enumerate(results):
            self._put(call, call.accesses[-1 - position], result)
        self._note(call.watch)

    def _map_operand(self, position: int, op: Op, call: _Call) -> Expr:
        """The operand in the loop's dtype; notes whether the result follows from it."""
        value, source = self._operand(position, call)
        dtype, given = call.request.loop[position], call.request.inputs[position]
        scalar = isinstance(given, ScalarOperand)  # of which NumPy has warned
        operand = value.convert(dtype) if scalar else self._cast(value, dtype, call)
        follows = position < len(op.propagates) and op.propagates[position]
        floats = value.dtype[0] in FLOATING and operand.dtype[0] in FLOATING
        if source is not None and follows and floats and call.request.mask is None:
            time = call.member.time
            self._feeds.setdefault((source, time), []).append((call.member.request, time))
        return operand

    def _apply(self, op: Op, operands: tuple[Expr, ...], call: _Call) -> tuple[Expr, ...]:
        """Results of the body, with its warnings noted in the call's watch."""
        assert op.body is not None
        body = op.body(*operands)
        results = body if isinstance(body, tuple) else (body,)
        self._watch(op, operands, results, call)
        return results

    def _watch(
        self, op: Op, operands: tuple[Expr, ...], results: tuple[Expr, ...], call: _Call
    ) -> None:
        """Note what the operation may warn of."""
        watch = call.watch
        asked = kinds_asked(call.request.errstate)
        masks = op.flags(operands, results) if op.flags is not None and asked else ()
        masks = tuple((kind, mask) for kind, mask in masks if kind in asked and may_hold(mask))
        if not masks:
            return
        watch.masks.extend(masks)
        if self._only_warns(call) and not _need_any([mask for _, mask in masks], results):
            watch.guards.extend(mask for _, mask in masks)  # the result itself is not computed
            return
        guard = None if op.guard is None else op.guard(operands, results)
        if guard is not None:
            watch.guards.append(guard)
        elif op.guard is None:
            floats = [result for result in results if result.dtype[0] in FLOATING]
            watch.natural.extend(floats)
            if not floats:
                watch.guards.extend(mask for _, mask in masks)

    def _only_warns(self, call: _Call) -> bool:
        return self.draft.needs[call.member.request] is Need.FLAGS

    def _cast(self, value: Expr, dtype: str, call: _Call) -> Expr:
        if value.dtype == dtype:
            return value
        op = find("copy", (value.dtype, dtype))
        assert op is not None
        (result,) = self._apply(op, (value,), call)
        return result

    def _put(self, call: _Call, access: Access, value: Expr) -> None:
        """Write a result, cast to what it is stored in, at the time of the call's watch."""
        value = self._cast(value, access.dtype, call)
        if not self._only_warns(call):
            self.write(access, call.member, call.watch.time, value, call.watch.where)

    def _iota(self, call: _Call) -> None:
        dtype = call.request.loop[-1]
        # NumPy fills halves with arithmetic of singles.
        work = "f4" if dtype == "f2" else dtype
        start, step = (
            self._operand(position, call)[0].convert(dtype).convert(work) for position in (0, 1)
        )
        value = start + self.pool.index(0).convert(work) * step
        self._put(call, call.accesses[-1], value.convert(dtype))
        self._note(call.watch)

    def _gather(self, call: _Call) -> None:
        """See Note [Gather]."""
        access = call.accesses[0]
        index, extent, step = (
            self._operand(position, call)[0].convert("i8") for position in (1, 2, 3)
        )
        index = (index < 0).select(index + extent, index)
        inside = index.bitcast("u8") < extent.bitcast("u8")
        index = inside.select(index, 0)
        if access.table[1] != 1:
            index = index * step
        array = self.array(self.key(access, call.member))
        self._put(call, call.accesses[-1], self.pool.gather(access.dtype, array, index))
        self._note(call.watch)

    def _scan(self, call: _Call) -> None:
        op = call.fact.op
        assert op is not None
        value, _ = self._operand(0, call)
        value = self._cast(value, call.request.loop[0], call)
        result = value
        if call.fact.axes:
            result = self.pool.scan(op.name, value)
            self._watch(op, (self.pool.before(result), value), (result,), call)
        self._put(call, call.accesses[-1], result)
        self._note(call.watch)

    def _reduce(self, call: _Call) -> None:
        request, op, member = call.request, call.fact.op, call.member
        assert op is not None and op.fold is not None
        value, _ = self._operand(0, call)
        value = self._cast(value, request.loop[0], call)
        if request.kind is Kind.REDUCE:
            value = value.convert(request.loop[-1])
        if member.role is Role.REDUCE:
            inner = call.watch
            self._note(inner)
            call.watch = _Watch(member.request, member.time + 1)
            result = self.fold(member.time, op.fold, value, inner.where)
            self._growth(op.fold, value, inner, result, call)
        else:
            # Over axes of extent 1. A sum begins with 0, which -0.0 does not survive.
            result = self.pool.const("i8", 0) if request.kind is Kind.ARG else value
            if op.fold is Fold.SUM and len(request.inputs) == 1 and result.dtype[0] in FLOATING:
                assert op.body is not None
                begun = op.body(result.like(0), result)
                assert isinstance(begun, Expr)
                result = begun
        if len(request.inputs) > 1:
            initial, _ = self._operand(1, call)
            (result,) = self._apply(op, (initial.convert(result.dtype), result), call)
        self._put(call, call.accesses[-1], result)
        self._note(call.watch)

    def _growth(self, fold: Fold, value: Expr, inner: _Watch, result: Expr, call: _Call) -> None:
        """Warnings of a sum or product; see Note [Growth]."""
        asked, watch = kinds_asked(call.request.errstate), call.watch
        if fold not in (Fold.SUM, Fold.PRODUCT) or value.dtype[0] not in FLOATING:
            return
        if FlagKind.OVER not in asked and FlagKind.INVALID not in asked:
            return
        first, *rest = _parts(value)
        size = item_size(first.dtype)
        # Without the sign: not of abs(first), as a device may leave a NaN its own.
        integer, unsigned = f"i{size}", (1 << (8 * size - 1)) - 1
        widest = first.bitcast(integer) & unsigned
        for part in rest:
            other = part.bitcast(integer) & unsigned
            widest = (widest > other).select(widest, other)
        most = self.fold(inner.time, Fold.MAX, widest, inner.where)
        self._largest[most] = inner.time, value
        infinity = most.like(_INFINITY[integer])
        parts = _parts(result)
        infinite, nan = (abs(parts[0]).eq(float("inf")), parts[0].isnan())
        for part in parts[1:]:
            infinite, nan = infinite | abs(part).eq(float("inf")), nan | part.isnan()
        if FlagKind.OVER in asked:
            watch.masks.append((FlagKind.OVER, infinite & (most < infinity)))
        if FlagKind.INVALID in asked:
            watch.masks.append((FlagKind.INVALID, nan & (most <= infinity)))
        watch.natural.append(result)

    # --------------------------------------------------------------------------------- warnings

    def _note(self, watch: _Watch) -> None:
        if watch.masks:
            self._watches.append(watch)

    def finish(self) -> None:
        """Put stores, guards and flags where they belong."""
        for key, (time, value, where) in self._stores.items():
            self.moment(time).stores.append(Store(self.array(key), value, where))
        self._guards()
        self._take_rarely()
        for watch in self._watches:
            index = self.draft.facts[watch.place].request.index
            if not self.slots or self.slots[-1] != index:
                self.slots.append(index)
            slot = len(self.slots) - 1
            flags = self.moment(watch.time).flags
            for kind, mask in watch.masks:
                flags.append(Flag(slot, kind, _masked(mask, watch.where)))

    def _guards(self) -> None:
        # Backward: a natural guard is not needed where the value flows into one that is watched.
        watched = {(watch.place, watch.time) for watch in self._watches if watch.natural}
        reaches: set[tuple[int, int]] = set()
        for member in reversed(self.group.members):
            for time in (member.time + 1, member.time):
                here = (member.request, time)
                if here in watched or any(to in reaches for to in self._feeds.get(here, ())):
                    reaches.add(here)
        for watch in self._watches:
            guards = self.moment(watch.time).guards
            feeds = self._feeds.get((watch.place, watch.time), ())
            covered = any(to in reaches for to in feeds)
            single = len(self.draft.facts[watch.place].request.outputs) == 1
            wanted = [_masked(guard, watch.where) for guard in watch.guards]
            if not (covered and single):
                wanted += watch.guarded()
            guards.extend(guard for guard in dict.fromkeys(wanted) if guard not in guards)

    def _take_rarely(self) -> None:
        """Have the largest taken of elements that are not finite only, of which a guard tells."""
        for row, (time, value) in self._largest.items():
            moment, guard = self.moment(time), _nonfinite(value)
            if guard not in moment.guards:
                moment.guards.append(guard)
            at = next(k for k, effect in enumerate(moment.reduces) if effect.index == row.attr)
            effect = moment.reduces[at]
            if effect.mask is None:
                lowest = -(1 << (8 * item_size(effect.value.dtype) - 1))
                moment.reduces[at] = replace(effect, value=guard.select(effect.value, lowest))


_INFINITY = {"i2": 0x7C00, "i4": 0x7F800000, "i8": 0x7FF0000000000000}

# Note [Growth]
# A sum overflows if its result is infinite though no element was, and is invalid if it is NaN
# though no element was. Both are told from one more fold: the largest absolute value, taken as
# an integer (which orders floats of one sign, infinity above all numbers and NaN above infinity).
# Finite ones make no difference, so only the others are taken: none as long as no guard is true.


# Note [Gather]
# Indices were found to be in bounds when the request was recorded, and what they lie in is watched
# since. But a write that is noticed while the kernel runs (the run is then repeated) must not make
# it read elsewhere than in the source, so an index out of bounds counts as 0. No entry of the
# walk is ever a gather's source: a request that writes into it is in another group.


def execute(draft: Draft, group: Group, shared: frozenset[int]) -> Execution:
    """Run the group's members symbolically; `shared` buffers are seen outside the group."""
    execution = Execution(draft, group, shared)
    for member in group.members:
        execution.run(member)
    execution.finish()
    return execution
