"""How many elements an iteration takes."""

from __future__ import annotations

from npaccel.backends.layout import LANES, is_ordered, parts_of
from npaccel.ir.nodes import ArrayParam, Kernel, Leaf, Reduce, Store, Stride
from npaccel.ir.scalar import Core, item_size, topological, usual

__all__ = ["LARGE_BODY", "has_plain_tail", "kernel_width", "leaf_width", "node_count"]

# Up to so many nodes an iteration takes two registers' worth, to overlap latencies.
SMALL_BODY = 48
# Beyond so many, masked iterations alone: a second copy of the body costs more to compile.
LARGE_BODY = 400
WIDEST = 128
# Elements apart are loaded one by one; more of them than this only make more code.
WIDEST_APART = 16


def node_count(leaf: Leaf) -> int:
    """Nodes that an iteration of `leaf` evaluates as a rule."""
    return sum(node.op is not Core.CONST for node in usual(leaf.roots))


def _register_lanes(leaf: Leaf, vector_bytes: int) -> int:
    # What rare branches and flags compute may take several registers.
    sizes = [item_size(parts_of(node.dtype)[0]) for node in usual(leaf.roots)]
    return max(2, vector_bytes // max(sizes, default=8))


def _used(kernel: Kernel, leaf: Leaf) -> list[ArrayParam]:
    roots = leaf.all_roots
    used = {node.attr for node in topological(roots) if node.op in (Core.LOAD, Core.GATHER)}
    used |= {effect.array for effect in leaf.effects if isinstance(effect, Store)}
    return [array for index, array in enumerate(kernel.arrays) if index in used]


def _limit(kernel: Kernel, leaf: Leaf) -> int:
    apart = any(array.vector is Stride.ANY or array.gathered for array in _used(kernel, leaf))
    return WIDEST_APART if apart else WIDEST


def has_plain_tail(kernel: Kernel, leaf: Leaf, vector_bytes: int) -> bool:
    """Whether a map's last elements run one by one: the host has no masked access to them."""
    if vector_bytes >= 64:
        return False
    return any(
        array.vector is Stride.ANY
        or array.gathered
        or vector_bytes < 32
        or item_size(array.dtype) < 4
        for array in _used(kernel, leaf)
    )


def leaf_width(kernel: Kernel, leaf: Leaf, vector_bytes: int) -> int:
    """Lanes of one iteration of an inner leaf; a power of two."""
    lanes = _register_lanes(leaf, vector_bytes)
    small = node_count(leaf) <= SMALL_BODY
    limit = _limit(kernel, leaf)
    if any(isinstance(effect, Reduce) and is_ordered(effect) for effect in leaf.effects):
        return min(limit, LANES if small else lanes)
    return min(limit, lanes * 2 if small else lanes)


def kernel_width(kernel: Kernel, vector_bytes: int) -> int:
    """Lanes of a vector_band kernel, the same in all its leaves."""
    leaves = kernel.leaves
    lanes = min(_register_lanes(leaf, vector_bytes) for leaf in leaves)
    small = all(node_count(leaf) <= SMALL_BODY for leaf in leaves)
    limit = min(_limit(kernel, leaf) for leaf in leaves)
    return min(limit, lanes * 4 if small else lanes)
