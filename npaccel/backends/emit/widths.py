"""How many elements an iteration takes, and which loops write their last elements otherwise."""

from __future__ import annotations

from npaccel.backends.emit.guards import as_a_rule, watched
from npaccel.backends.emit.machine import Machine
from npaccel.backends.layout import LANES, is_ordered, parts_of, reductions_of
from npaccel.ir.nodes import ArrayParam, Fold, Kernel, Leaf, Reduce, Store, Stride
from npaccel.ir.scalar import Core, Expr, item_size, scans, topological, usual

__all__ = [
    "LINE_BYTES",
    "SMALL_BODY",
    "TINY_BODY",
    "has_plain_tail",
    "is_tiled",
    "kernel_width",
    "leaf_vectors",
    "leaf_width",
    "node_count",
    "register_lanes",
    "rows_across",
    "tile_rows",
    "tile_vectors",
]

# An iteration of so many nodes takes several registers' worth, to overlap latencies.
SMALL_BODY = 48
# One of so few waits for memory.
TINY_BODY = 16
# Elements apart are loaded one by one; more of them than this only make more code.
WIDEST_APART = 16
# Bytes of a row that a tile reads at once. Shorter ones are slow to fetch; longer ones would leave
# less of the second-level cache to the next block's rows.
TILE_BYTES = 4096
LINE_BYTES = 64  # of a cache
_SHARED = (Core.CONST, Core.SCALAR)  # by all vectors of an iteration
_ROWS, _ARRAY, _BAND = range(3)  # of Machine.in_flight
_INDEXED = (Fold.ARGMIN, Fold.ARGMAX)  # their accumulators hold an i8


def node_count(leaf: Leaf) -> int:
    """Nodes that an iteration of `leaf` evaluates as a rule; a guarded value is one more."""
    looked = watched(leaf.guards)
    needed = usual([*as_a_rule(leaf).values, *looked.values, *looked.masks])
    return len(looked.values) + sum(node.op is not Core.CONST for node in needed)


def register_lanes(leaf: Leaf, machine: Machine) -> int:
    """Lanes of one register, by the widest element."""
    # What rare branches and flags compute may take several registers of a machine that can.
    nodes = usual(leaf.roots) if machine.wide else topological(leaf.all_roots)
    sizes = [_size(node, machine) for node in nodes]
    if not machine.wide:
        sizes += [8 for e in leaf.effects if isinstance(e, Reduce) and e.fold in _INDEXED]
    return max(2, min(machine.widest, machine.vector_bytes // max(sizes, default=8)))


def _size(node: Expr, machine: Machine) -> int:
    dtype = parts_of(node.dtype)[0]
    return 1 if dtype == "b1" else machine.carried_bytes(dtype)


def _used(kernel: Kernel, leaf: Leaf) -> list[ArrayParam]:
    roots = leaf.all_roots
    used = {node.attr for node in topological(roots) if node.op in (Core.LOAD, Core.GATHER)}
    used |= {effect.array for effect in leaf.effects if isinstance(effect, Store)}
    return [array for index, array in enumerate(kernel.arrays) if index in used]


def _limit(kernel: Kernel, leaf: Leaf, machine: Machine) -> int:
    used = _used(kernel, leaf)
    apart = any(array.vector in (Stride.ANY, Stride.ACROSS) or array.gathered for array in used)
    return min(machine.widest, WIDEST_APART) if apart else machine.widest


def has_plain_tail(kernel: Kernel, leaf: Leaf, machine: Machine) -> bool:
    """Whether a map's last elements run one by one: there is no masked access to them."""
    least = machine.masked_bytes
    return least > 0 and any(
        array.vector.apart or array.gathered or int(array.dtype[1:]) < least
        for array in _used(kernel, leaf)
    )


def _held(leaf: Leaf) -> int:
    """Values that each vector of an iteration of `leaf` holds at once, about."""
    looked = watched(leaf.guards)
    values = as_a_rule(leaf).values
    roots = [*values, *looked.values, *looked.masks]
    needed = usual(roots)
    order = [node for node in topological(roots) if node in needed and node.op not in _SHARED]
    last = {arg: at for at, node in enumerate(order) for arg in (node, *node.args)}
    last |= dict.fromkeys((*values, *looked.masks), len(order))
    ends = [0] * (len(order) + 1)
    most = held = 0
    for at, node in enumerate(order):
        held += 1
        most = max(most, held)
        ends[last[node]] += 1
        held -= ends[at]
    return most


def _in_flight(leaves: tuple[Leaf, ...], machine: Machine, along: int) -> int:
    """Vectors of an iteration: a long body waits for itself where there is but one."""
    nodes, several = max(node_count(leaf) for leaf in leaves), 1
    if nodes <= SMALL_BODY:
        if along == _BAND or nodes <= TINY_BODY:
            return machine.in_flight[along]
        several = machine.in_flight[_ROWS]
    held = max(_held(leaf) for leaf in leaves)
    while (
        2 * several <= max(machine.in_flight)
        and 2 * several * held <= machine.held
        and nodes <= machine.large_body
    ):
        several *= 2
    # A chain of operations that holds little waits for each of them.
    return 2 * several if 0 < several * held < machine.few else several


def leaf_width(kernel: Kernel, leaf: Leaf, machine: Machine) -> int:
    """Lanes of a vector of an inner leaf; a power of two. 1 where vectors have no use."""
    if machine.vector_bytes == 0:
        return 1
    lanes = register_lanes(leaf, machine)
    if not machine.wide:
        return lanes
    along = _ARRAY if (kernel.band_rank, kernel.inner_rank) == (0, 1) else _ROWS
    limit, several = _limit(kernel, leaf, machine), _in_flight((leaf,), machine, along)
    if any(isinstance(effect, Reduce) and is_ordered(effect) for effect in leaf.effects):
        return min(limit, LANES if several > 1 else lanes)
    return min(limit, lanes * several)


def leaf_vectors(leaf: Leaf, machine: Machine) -> int:
    """Vectors of an iteration of an inner leaf."""
    if machine.wide or machine.vector_bytes == 0:
        return 1
    return _in_flight((leaf,), machine, _ROWS)


def kernel_width(kernel: Kernel, machine: Machine) -> int:
    """Lanes of a vector_band kernel, the same in all its leaves."""
    if machine.vector_bytes == 0:
        return 1
    leaves = kernel.leaves
    lanes = min(register_lanes(leaf, machine) for leaf in leaves)
    limit = min(_limit(kernel, leaf, machine) for leaf in leaves)
    several = _in_flight(leaves, machine, _BAND) if machine.wide else 1
    return min(limit, lanes * several)


def is_tiled(kernel: Kernel) -> bool:
    """Whether this kernel is one loop that reduces a matrix's columns."""
    leaf, *rows = kernel.leaves
    return (
        kernel.vector_band
        and kernel.inner_rank == 1
        and not kernel.scratch
        and not leaf.row
        and all(row.row for row in rows)
        and not scans(leaf.all_roots)
        and any(isinstance(effect, Reduce) for effect in leaf.effects)
    )


def tile_rows(kernel: Kernel) -> int:
    """How many rows of a kernel that is one loop of folds go along together, 0: it is no such one.

    Those that share lines of an array that lies across them.
    """
    leaf, *rows = kernel.leaves
    sizes = [item_size(array.dtype) for array in kernel.arrays if array.lies_across]
    alone = not leaf.row and all(row.row for row in rows) and not kernel.scratch
    parts = kernel.inner_rank == 1 or kernel.split
    if not (sizes and alone and parts and reductions_of(kernel)) or kernel.vector_band:
        return 0
    return 0 if scans(leaf.all_roots) else LINE_BYTES // min(sizes)


def rows_across(kernel: Kernel) -> int:
    """How many rows of a map share lines of arrays that lie across them; 0: there are none."""
    rows = kernel.split and kernel.band_rank > 0 and not kernel.vector_band
    sizes = [item_size(array.dtype) for array in kernel.arrays if array.lies_across]
    if not (rows and sizes) or reductions_of(kernel):
        return 0
    return LINE_BYTES // min(sizes)


def tile_vectors(kernel: Kernel, width: int) -> int:
    """How many vectors of `width` columns go through the rows together."""
    moving = [item_size(array.dtype) for array in kernel.arrays if not array.band_only]
    return max(1, TILE_BYTES // (width * max(moving, default=8)))
