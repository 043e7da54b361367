"""The inside of a loop: values of expressions for vectors of lanes, and flags when guards fire.

An iteration has one vector or several, which are written in turns so that they overlap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from npaccel.backends.emit.builder import Builder, Lanes, Name, Value
from npaccel.backends.emit.scalars import single, write_node
from npaccel.ir.nodes import Flag
from npaccel.ir.scalar import Core, Expr, rare_parts

__all__ = ["LEAVES", "Source", "Values", "evaluate", "raise_flags", "when_any"]

LEAVES = frozenset(
    {
        Core.LOAD, Core.GATHER, Core.SCALAR, Core.ROW, Core.SCRATCH, Core.INDEX, Core.SCAN,
        Core.BEFORE,
    }
)  # fmt: skip
# Fewer instructions than this are cheaper than a branch around them.
RARE_BLOCK_NODES = 8

# Of a node whose value is not computed from its operands alone, which are given too.
Source = Callable[[Expr, Sequence[Value]], Value]
Values = dict[Expr, Value]


def evaluate(
    b: Builder, width: int, roots: Sequence[Expr], sources: Sequence[Source]
) -> list[Values]:
    """Write all that `roots` need for a vector of each source, which gives the leaves' values.

    The operands of a RARE node that nothing else needs are in a block of their own, and are not
    in the result.
    """
    order, parts = rare_parts(roots)
    every: list[Values] = [{} for _ in sources]
    for node in order:
        if node.op is Core.RARE and len(parts[node]) >= RARE_BLOCK_NODES:
            _write_rare(b, width, node, parts[node], every, sources)
            continue
        for values, source in zip(every, sources, strict=True):
            local = values
            if node.op is Core.RARE:
                local = dict(values)
                for inner in parts[node]:
                    local[inner] = _write(b, width, inner, local, source)
            values[node] = _write(b, width, node, local, source)
    return every


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
    """A RARE node of all vectors; the block is entered if any of them needs it."""
    variables = []
    for values in every:
        cheap = values[node.args[1]]
        variables.append([b.variable(name.dtype, width) for name in cheap])
        for variable, name in zip(variables[-1], cheap, strict=True):
            b.set(variable, name)
    mask = _any(b, [single(values[node.args[0]]) for values in every])
    with b.when(b.any_lane(mask), rare=True):
        for values, source, own in zip(every, sources, variables, strict=True):
            local = dict(values)
            for inner in part:
                local[inner] = _write(b, width, inner, local, source)
            chosen = _write(b, width, node, local, source)
            for variable, name in zip(own, chosen, strict=True):
                b.set(variable, name)
    for values, own in zip(every, variables, strict=True):
        values[node] = tuple(b.get(variable) for variable in own)


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


def when_any(
    b: Builder, lanes: Lanes | None, masks: Sequence[Expr], every: Sequence[Values]
) -> AbstractContextManager[None]:
    """What is written inside runs where one of `masks` is true in a lane that exists."""
    if not masks:
        return nullcontext()
    found = _any(b, [single(values[mask]) for values in every for mask in masks])
    existing = b.both(found, lanes.below if lanes else None)
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
    local = dict(values)
    for node in _missing([flag.mask for flag in flags], values):
        local[node] = _write(b, width, node, local, source)
    slots: dict[int, Name] = {}
    for flag in flags:
        mask = b.both(single(local[flag.mask]), lanes.below if lanes else None)
        assert mask is not None
        kind, none = (b.constant("u4", bits, 1) for bits in (int(flag.kind), 0))
        bits, before = b.select(b.any_lane(mask), kind, none), slots.get(flag.slot)
        slots[flag.slot] = bits if before is None else b.instruction(Core.OR, (before, bits))
    for slot, bits in slots.items():
        b.raise_flags(slot, bits)
