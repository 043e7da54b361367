"""The inside of a loop: values of expressions for a vector of lanes, and flags when guards fire."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from npaccel.backends.layout import parts_of
from npaccel.backends.llvm.code import Code, as_value, value_names
from npaccel.backends.llvm.scalar import Value, Writer, llvm_type
from npaccel.ir.nodes import Flag, Leaf
from npaccel.ir.scalar import Core, Expr, rare_parts

__all__ = ["LEAVES", "both", "evaluate", "raise_flags"]

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


def both(code: Code, x: str | None, y: str | None, width: int) -> str | None:
    """AND of two masks, where None is all true."""
    if x is None or y is None:
        return x or y
    return code.emit(f"and {llvm_type('b1', width)} {x}, {y}")


def evaluate(code: Code, width: int, roots: Sequence[Expr], source: Source) -> dict[Expr, Value]:
    """Write all that `roots` need for `width` lanes; `source` gives the leaves' values.

    The operands of a RARE node that nothing else needs are in a block of their own, and are not
    in the result.
    """
    writer = code.writer(width)
    order, parts = rare_parts(roots)
    values: dict[Expr, Value] = {}
    for node in order:
        if node.op is Core.RARE:
            values[node] = _write_rare(
                code, writer, node, part=parts[node], values=values, source=source
            )
        else:
            values[node] = _write(writer, node, values, source)
    return values


def _write(writer: Writer, node: Expr, values: Mapping[Expr, Value], source: Source) -> Value:
    operands = [values[arg] for arg in node.args]
    return source(node, operands) if node.op in LEAVES else writer.node(node, operands)


def _write_rare(
    code: Code,
    writer: Writer,
    node: Expr,
    *,
    part: Sequence[Expr],
    values: Mapping[Expr, Value],
    source: Source,
) -> Value:
    local = dict(values)
    if len(part) < RARE_BLOCK_NODES:
        for inner in part:
            local[inner] = _write(writer, inner, local, source)
        return writer.node(node, [local[arg] for arg in node.args])
    mask = value_names(values[node.args[0]])[0]
    before, block, after = code.block, code.fresh("rare"), code.fresh("joined")
    code.branch(code.any_lane(mask, writer.width), block, after, rare=True)
    code.start(block)
    for inner in part:
        local[inner] = _write(writer, inner, local, source)
    chosen = writer.node(node, [local[arg] for arg in node.args])
    last = code.block
    code.jump(after)
    code.start(after)
    pairs = zip(value_names(values[node.args[1]]), value_names(chosen), strict=True)
    kinds = [llvm_type(part, writer.width) for part in parts_of(node.dtype)]
    return as_value(
        [
            code.emit(f"phi {kind} [ {cheap}, %{before} ], [ {exact}, %{last} ]")
            for kind, (cheap, exact) in zip(kinds, pairs, strict=True)
        ]
    )


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


def raise_flags(
    code: Code,
    width: int,
    active: str | None,
    leaf: Leaf,
    *,
    values: Mapping[Expr, Value],
    source: Source,
) -> None:
    """Where a guard is true in an active lane, evaluate the leaf's flags and set their bits.

    The test comes before the leaf's stores, so that flags may load what those overwrite.
    """
    if not leaf.flags:
        return
    if not leaf.guards:
        _cold(code, width, active, leaf.flags, values=values, source=source)
        return
    guard = value_names(values[leaf.guards[0]])[0]
    for other in leaf.guards[1:]:
        guard = code.emit(f"or {llvm_type('b1', width)} {guard}, {value_names(values[other])[0]}")
    guarded = both(code, guard, active, width)
    assert guarded is not None
    with code.when(code.any_lane(guarded, width), rare=True):
        _cold(code, width, active, leaf.flags, values=values, source=source)


def _cold(
    code: Code,
    width: int,
    active: str | None,
    flags: Sequence[Flag],
    *,
    values: Mapping[Expr, Value],
    source: Source,
) -> None:
    writer = code.writer(width)
    local = dict(values)
    for node in _missing([flag.mask for flag in flags], values):
        local[node] = _write(writer, node, local, source)
    slots: dict[int, str] = {}
    for flag in flags:
        mask = both(code, value_names(local[flag.mask])[0], active, width)
        assert mask is not None
        raised = code.any_lane(mask, width)
        bits = code.emit(f"select i1 {raised}, i32 {int(flag.kind)}, i32 0")
        before = slots.get(flag.slot)
        slots[flag.slot] = bits if before is None else code.emit(f"or i32 {before}, {bits}")
    for slot, bits in slots.items():
        with code.when(code.emit(f"icmp ne i32 {bits}, 0")):
            target = code.offset("%flags", str(4 * slot))
            code.do(f"atomicrmw or ptr {target}, i32 {bits} monotonic")
