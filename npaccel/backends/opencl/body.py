"""The inside of a loop: values of expressions for a vector of lanes, and flags when guards fire."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from npaccel.backends.layout import parts_of
from npaccel.backends.opencl.code import Code
from npaccel.backends.opencl.scalar import Mask, Value, Writer, c_type
from npaccel.ir.nodes import Flag, Leaf
from npaccel.ir.scalar import Core, Expr, rare_parts

__all__ = ["LEAVES", "both", "evaluate", "raise_flags"]

LEAVES = frozenset({Core.LOAD, Core.GATHER, Core.SCALAR, Core.ROW, Core.SCRATCH, Core.INDEX})
# Fewer operations than this are cheaper than a branch around them.
RARE_BLOCK_NODES = 8

# Of a node whose value is not computed from its operands alone, which are given too.
Source = Callable[[Expr, Sequence[Value]], Value]


def both(code: Code, x: Mask | None, y: Mask | None, width: int) -> Mask | None:
    """AND of two masks, where None is all true."""
    if x is None or y is None:
        return x if y is None else y
    size = max(x.size, y.size)
    writer = code.writer(width)
    kind = "int" if width == 1 else f"{ {1: 'char', 2: 'short', 4: 'int', 8: 'long'}[size] }{width}"
    return Mask(code.let(kind, f"{writer.mask_as(x, size)} & {writer.mask_as(y, size)}"), size)


def as_mask(value: Value) -> Mask:
    """The one name of a b1 value."""
    (name,) = value
    assert isinstance(name, Mask)
    return name


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
            values[node] = _write(code, writer, node, values, source)
    return values


def _write(
    code: Code, writer: Writer, node: Expr, values: Mapping[Expr, Value], source: Source
) -> Value:
    if "f2" in (node.dtype, *(arg.dtype for arg in node.args)):
        code.half_widths.add(writer.width)
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
    if len(part) < RARE_BLOCK_NODES or node.dtype == "b1":
        for inner in part:
            local[inner] = _write(code, writer, inner, local, source)
        return writer.node(node, [local[arg] for arg in node.args])
    mask, width = as_mask(values[node.args[0]]), writer.width
    names = []
    for dtype, cheap in zip(parts_of(node.dtype), values[node.args[1]], strict=True):
        name = code.fresh("rare")
        code.do(f"{c_type(dtype, width)} {name} = {cheap};")
        names.append(name)
    with code.when(code.any_lane(mask, width)):
        for inner in part:
            local[inner] = _write(code, writer, inner, local, source)
        chosen = writer.node(node, [local[arg] for arg in node.args])
        for name, better in zip(names, chosen, strict=True):
            code.set(name, better)
    return tuple(names)


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
    active: Mask | None,
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
    writer = code.writer(width)
    masks = [as_mask(values[guard]) for guard in leaf.guards]
    size = max(mask.size for mask in masks)
    together = " | ".join(writer.mask_as(mask, size) for mask in masks)
    kind = "int" if width == 1 else f"{ {1: 'char', 2: 'short', 4: 'int', 8: 'long'}[size] }{width}"
    guarded = both(code, Mask(code.let(kind, together), size), active, width)
    assert guarded is not None
    with code.when(code.any_lane(guarded, width)):
        _cold(code, width, active, leaf.flags, values=values, source=source)


def _cold(
    code: Code,
    width: int,
    active: Mask | None,
    flags: Sequence[Flag],
    *,
    values: Mapping[Expr, Value],
    source: Source,
) -> None:
    writer = code.writer(width)
    local = dict(values)
    for node in _missing([flag.mask for flag in flags], values):
        local[node] = _write(code, writer, node, local, source)
    slots: dict[int, list[str]] = {}
    for flag in flags:
        mask = both(code, as_mask(local[flag.mask]), active, width)
        assert mask is not None
        raised = f"({code.any_lane(mask, width)} ? {int(flag.kind)} : 0)"
        slots.setdefault(flag.slot, []).append(raised)
    for slot, bits in slots.items():
        name = code.let("uint", " | ".join(bits))
        code.do(f"if ({name} != 0) atomic_or(flags + {slot}, {name});")
