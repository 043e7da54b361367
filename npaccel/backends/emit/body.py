"""The inside of a loop: values of expressions for vectors of lanes, and flags when guards fire.

An iteration has one vector or several, which are written in turns so that they overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from npaccel.backends.emit.builder import Builder, Lanes, Name, Value, Variable
from npaccel.backends.emit.guards import Watch, Watched
from npaccel.backends.emit.scalars import single, write_node
from npaccel.ir.nodes import Flag
from npaccel.ir.scalar import BOOL, Core, Expr, rare_parts

__all__ = ["LEAVES", "Source", "Values", "complete", "evaluate", "raise_flags", "when_any"]

LEAVES = frozenset(
    {
        Core.LOAD, Core.GATHER, Core.SCALAR, Core.ROW, Core.SCRATCH, Core.INDEX, Core.SCAN,
        Core.BEFORE,
    }
)  # fmt: skip
# Fewer instructions than this are cheaper than a branch around them.
RARE_BLOCK_NODES = 8
NOTHING = Watched()
# So many, of vectors wider than registers, are computed by registers.
RARE_LOOP_NODES = 24

# Of a node whose value is not computed from its operands alone, which are given too.
Source = Callable[[Expr, Sequence[Value]], Value]
Values = dict[Expr, Value]


def evaluate(
    b: Builder,
    width: int,
    roots: Sequence[Expr],
    sources: Sequence[Source],
    looked: Watched = NOTHING,
    sums: Mapping[str, Name] | None = None,
) -> tuple[list[Values], list[Name]]:
    """Write all that `roots` need for a vector of each source, which gives the leaves' values.

    The operands of a RARE node that nothing else needs are in a branch of their own, and are not
    in the result. Second: masks, true in each lane where what is `looked` at is not as it should
    be; `sums` are `square_sums`.
    """
    order, parts = rare_parts([*roots, *looked.values, *looked.masks])
    every: list[Values] = [{} for _ in sources]
    begun = (sums or {}) if looked.bounded else None
    watches = [Watch(b, width, begun) for _ in sources]
    told, masks = set(looked.values), set(looked.masks)
    for node in order:
        if node.op is Core.RARE and len(parts[node]) >= RARE_BLOCK_NODES:
            _write_rare(b, width, node, parts[node], every, sources)
        else:
            for values, source in zip(every, sources, strict=True):
                local = values
                if node.op is Core.RARE:
                    local = dict(values)
                    for inner in parts[node]:
                        local[inner] = _write(b, width, inner, local, source)
                values[node] = _write(b, width, node, local, source)
        for values, watch in zip(every, watches, strict=True):
            if node in told:
                watch.add(single(values[node]))
            elif node in masks:
                watch.add_mask(single(values[node]))
    return every, [mask for watch in watches for mask in watch.masks()]


def _write(
    b: Builder, width: int, node: Expr, values: Mapping[Expr, Value], source: Source
) -> Value:
    operands = [values[arg] for arg in node.args]
    if node.op in LEAVES:
        return source(node, operands)
    return write_node(b, node, operands, width)


def _write_rare(
    b: Builder,
    width: int,
    node: Expr,
    part: Sequence[Expr],
    every: list[Values],
    sources: Sequence[Source],
) -> None:
    """A RARE node of all vectors; the branch is taken if any of them needs it."""
    variables = []
    for values in every:
        cheap = values[node.args[1]]
        variables.append([b.variable(name.dtype, width) for name in cheap])
        for variable, name in zip(variables[-1], cheap, strict=True):
            b.set(variable, name)
    mask = _any(b, [single(values[node.args[0]]) for values in every])
    piece = _piece(b, width, node, part)
    with b.when(b.any_lane(mask), rare=True):
        for values, source, own in zip(every, sources, variables, strict=True):
            if piece < width:
                chosen = _by_pieces(b, piece, node, part, values)
            else:
                local = dict(values)
                for inner in part:
                    local[inner] = _write(b, width, inner, local, source)
                chosen = _write(b, width, node, local, source)
            for variable, name in zip(own, chosen, strict=True):
                b.set(variable, name)
    for values, own in zip(every, variables, strict=True):
        values[node] = tuple(b.get(variable) for variable in own)


def _piece(b: Builder, width: int, node: Expr, part: Sequence[Expr]) -> int:
    """Lanes with which a rare branch is computed: code for wide vectors is long, and seldom run."""
    plain = node.dtype[0] == "f" and not any(x.op in LEAVES or x.dtype[0] == "c" for x in part)
    if not b.machine.wide or not plain or len(part) < RARE_LOOP_NODES:
        return width
    sizes = [b.machine.carried_bytes(x.dtype) for x in part if x.dtype != BOOL]
    return min(width, max(2, b.machine.vector_bytes // max(sizes, default=8)))


def _by_pieces(
    b: Builder, piece: int, node: Expr, part: Sequence[Expr], values: Mapping[Expr, Value]
) -> Value:
    """The value of a RARE node, in a loop over pieces of its vector: those where it is needed."""
    inside = set(part)
    needed = dict.fromkeys(x for each in (*part, node) for x in each.args if x not in inside)
    memory = {x: _kept(b, single(values[x])) for x in needed if x.op is not Core.CONST}
    cheap = single(values[node.args[1]])
    result = _kept(b, cheap)
    with b.count(b.n(0), b.n(cheap.width), piece) as lane:
        local: Values = {x: write_node(b, x, [], piece) for x in needed if x.op is Core.CONST}
        for x, variable in memory.items():
            name = b.get(b.part(variable, lane, piece))
            local[x] = (name if x.dtype != BOOL else _is_set(b, name),)
        with b.when(b.any_lane(single(local[node.args[0]]))):
            for x in (*part, node):
                local[x] = write_node(b, x, [local[arg] for arg in x.args], piece)
            b.set(b.part(result, lane, piece), single(local[node]))
    return (b.get(result),)


def _kept(b: Builder, name: Name) -> Variable:
    """A variable with that value; bools as bytes."""
    if name.dtype == BOOL:
        name = b.select(name, *(b.constant("u1", bit, name.width) for bit in (1, 0)))
    variable = b.variable(name.dtype, name.width)
    b.set(variable, name)
    return variable


def _is_set(b: Builder, name: Name) -> Name:
    return b.compare(Core.NE, name, b.constant(name.dtype, 0, name.width))


def _any(b: Builder, masks: Sequence[Name]) -> Name:
    found = masks[0]
    for mask in masks[1:]:
        found = b.instruction(Core.OR, (found, mask))
    return found


def _missing(roots: Iterable[Expr], known: Mapping[Expr, Value]) -> list[Expr]:
    """Nodes that the roots need and that are not known, each after its operands."""
    done: set[Expr] = set()
    order: list[Expr] = []
    stack = list(roots)
    while stack:
        node = stack[-1]
        waiting = [a for a in node.args if a not in done and a not in known]
        if node in done or node in known:
            stack.pop()
        elif waiting:
            stack.extend(waiting)
        else:
            done.add(node)
            order.append(node)
            stack.pop()
    return order


def complete(
    b: Builder, width: int, roots: Sequence[Expr], values: Values, source: Source
) -> Values:
    """`values` of a vector, and what else the roots need."""
    local = dict(values)
    for node in _missing(roots, values):
        local[node] = _write(b, width, node, local, source)
    return local


def when_any(
    b: Builder, lanes: Lanes | None, masks: Sequence[Name]
) -> AbstractContextManager[None]:
    """What is written inside runs where one of `masks` is true in a lane that exists."""
    if not masks:
        return nullcontext()
    existing = b.both(_any(b, masks), lanes.below if lanes else None)
    assert existing is not None
    return b.when(b.any_lane(existing), rare=True)


def raise_flags(
    b: Builder,
    width: int,
    lanes: Lanes | None,
    flags: Sequence[Flag],
    values: Values,
    source: Source,
) -> None:
    """Evaluate the masks of `flags`, of a vector whose `values` are known, and set their bits."""
    local = complete(b, width, [flag.mask for flag in flags], values, source)
    slots: dict[int, Name] = {}
    for flag in flags:
        mask = b.both(single(local[flag.mask]), lanes.below if lanes else None)
        assert mask is not None
        kind, none = (b.constant("u4", bits, 1) for bits in (int(flag.kind), 0))
        bits, before = b.select(b.any_lane(mask), kind, none), slots.get(flag.slot)
        slots[flag.slot] = bits if before is None else b.instruction(Core.OR, (before, bits))
    for slot, bits in slots.items():
        b.raise_flags(slot, bits)
