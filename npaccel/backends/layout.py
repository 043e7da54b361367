"""What kernels of all backends agree on: their argument words, and the order of sums in numbers.

See Note [Reduction order] in ir/nodes.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from npaccel.ir.fold_order import LANES
from npaccel.ir.scalar import item_size, scans
from npaccel.later import later

if TYPE_CHECKING:
    from npaccel.ir import nodes
else:
    nodes = later("npaccel.ir.nodes")

__all__ = [
    "BAND_BLOCK",
    "BLOCK",
    "CHUNK",
    "LANES",
    "PARTIAL_BYTES",
    "Layout",
    "identity_value",
    "is_ordered",
    "parts_of",
    "parts_of_inner",
    "reductions_of",
    "stores_freely",
]

BLOCK = 512
BAND_BLOCK = 16
CHUNK = 32768
PARTIAL_BYTES = 32
_PARTS = {"c8": ("f4", "f4"), "c16": ("f8", "f8")}


def parts_of(dtype: str) -> tuple[str, ...]:
    """Dtypes of the values that carry a value of `dtype`: one, or two if it is complex."""
    return _PARTS.get(dtype, (dtype,))


def reductions_of(kernel: nodes.Kernel) -> list[nodes.Reduce]:
    """Every Reduce of the kernel, by ordinal."""
    return [e for leaf in kernel.leaves for e in leaf.effects if isinstance(e, nodes.Reduce)]


def is_ordered(effect: nodes.Reduce) -> bool:
    """Whether the fold's result depends on the order of its operands."""
    return effect.fold in (nodes.Fold.SUM, nodes.Fold.PRODUCT) and effect.value.dtype[0] in "fc"


def stores_freely(leaf: nodes.Leaf) -> bool:
    """Whether the leaf is a map, whose elements may be computed in any order."""
    stores = (nodes.Store, nodes.StoreScratch)
    in_place = all(isinstance(e, stores) and not getattr(e, "offset", None) for e in leaf.effects)
    return in_place and not leaf.row and not scans(leaf.all_roots)


def parts_of_inner(inner: Sequence[int]) -> int:
    """Parts that an inner space of a split kernel is cut into."""
    return math.prod(inner[:-1]) if len(inner) > 1 else -(-inner[0] // CHUNK)


def identity_value(fold: nodes.Fold, dtype: str) -> bool | int | float:
    """The value that changes no result of `fold`."""
    kind, bits = dtype[0], 8 * item_size(dtype)
    match fold:
        case nodes.Fold.SUM:
            return 0
        case nodes.Fold.PRODUCT:
            return 1
        case nodes.Fold.OR | nodes.Fold.XOR:
            return False if kind == "b" else 0
        case nodes.Fold.AND:
            return True if kind == "b" else -1
        case nodes.Fold.FMIN | nodes.Fold.FMAX if kind == "f":
            return float("nan")
    low = fold in (nodes.Fold.MIN, nodes.Fold.FMIN, nodes.Fold.ARGMIN)
    if kind == "f":
        return float("inf") if low else float("-inf")
    if kind == "b":
        return low
    if kind == "u":
        return (1 << bits) - 1 if low else 0
    return (1 << (bits - 1)) - 1 if low else -(1 << (bits - 1))


class Layout(NamedTuple):
    """Where a kernel's arguments lie in `words`, counted in words of 8 bytes.

    extent per domain axis; per array its address and a stride in bytes per domain axis; two
    words per scalar; and, if parts are combined by the finish function, the partials' address
    and the number of parts.
    """

    rank: int
    arrays: int
    scalars: int

    @classmethod
    def of(cls, kernel: nodes.Kernel) -> Layout:
        rank = kernel.band_rank + kernel.inner_rank
        return cls(rank, len(kernel.arrays), len(kernel.scalars))

    def array(self, index: int) -> int:
        """Address of array `index`; its strides follow."""
        return self.rank + index * (self.rank + 1)

    def scalar(self, index: int) -> int:
        return self.array(self.arrays) + 2 * index

    @property
    def partials(self) -> int:
        return self.scalar(self.scalars)

    @property
    def size(self) -> int:
        """Words in all."""
        return self.partials + 2
