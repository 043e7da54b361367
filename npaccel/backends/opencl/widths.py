"""How many elements an iteration takes."""

from __future__ import annotations

from npaccel.backends.layout import parts_of
from npaccel.backends.opencl.scalar import WIDEST, carried_size
from npaccel.ir.nodes import Fold, Kernel, Leaf, Reduce
from npaccel.ir.scalar import Core, Expr, topological, usual

__all__ = ["LARGE_BODY", "kernel_width", "leaf_width", "node_count"]

# Beyond so many nodes the last elements of a row share the loop's text, which checks for them.
LARGE_BODY = 120
_INDEXED = (Fold.ARGMIN, Fold.ARGMAX)  # their accumulators hold an i8


def node_count(leaf: Leaf) -> int:
    """Nodes that an iteration of `leaf` evaluates as a rule."""
    return sum(node.op is not Core.CONST for node in usual(leaf.roots))


def _size(node: Expr) -> int:
    dtype = parts_of(node.dtype)[0]
    return 1 if dtype == "b1" else carried_size(dtype)


def leaf_width(leaf: Leaf, vector_bytes: int) -> int:
    """Lanes of one iteration of an inner leaf; a power of two. 1 where vectors have no use."""
    if vector_bytes == 0:
        return 1
    sizes = [_size(node) for node in topological(leaf.all_roots)]
    sizes += [8 for e in leaf.effects if isinstance(e, Reduce) and e.fold in _INDEXED]
    return max(2, min(WIDEST, vector_bytes // max(sizes, default=8)))


def kernel_width(kernel: Kernel, vector_bytes: int) -> int:
    """Lanes of a vector_band kernel, the same in all its leaves."""
    return min(leaf_width(leaf, vector_bytes) for leaf in kernel.leaves)
