"""The IR's nouns: what was requested (`Trace`) and what will run (`Plan` of `Kernel`s).

Everything here is immutable. Offsets and strides are in elements of the view's own dtype.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from npaccel.ir.kinds import FlagKind, Kind
from npaccel.ir.scalar import Expr, Value

__all__ = [
    "ArrayParam",
    "Binding",
    "BufferInfo",
    "Flag",
    "FlagKind",
    "Fold",
    "Kernel",
    "KernelStep",
    "Kind",
    "Leaf",
    "Origin",
    "Plan",
    "Reduce",
    "Request",
    "RequestStep",
    "RowParam",
    "RowRange",
    "ScalarOperand",
    "Source",
    "Store",
    "StoreRow",
    "StoreScratch",
    "Stride",
    "Trace",
    "View",
    "Wrap",
]


# ----------------------------------------------------------------------------- what was requested


@dataclass(frozen=True, slots=True)
class View:
    """Elements of buffer `buffer` at `offset + sum(i * strides)`; the shape is the request's.

    A stride may be negative or 0. `offset * itemsize` is the distance in bytes from the buffer's
    first byte to the element at index 0, so the view's first element in memory may lie before it.
    """

    buffer: int
    dtype: str
    offset: int
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ScalarOperand:
    """A run-time scalar: the `position`-th input of its request, already in dtype `dtype`.

    `value` is for rewrites only; a pass that uses it must report it in `Plan.consumed`.
    """

    dtype: str
    position: int
    value: Value


@dataclass(frozen=True, slots=True)
class Request:
    """One recorded operation. Inputs and outputs are already broadcast to `shape`, and no output
    shows an element twice (native/record/record.c).

    `loop` holds the dtypes of NumPy's inner loop, inputs then outputs; where an operand's own
    dtype differs the value is cast (unsafe) on the way in or out. `mask` is ufunc's ``where``:
    elements where it is false are neither computed nor stored, nor do they warn.
    For REDUCE, inputs[0] is folded into outputs[0], which is first set to the operation's
    identity (or, with `initial`, to that scalar input 1; or, without identity, to the first
    element).
    For GATHER the inputs are source, index, and the scalars extent and step (all but the source
    i8): the source's view lies where every index is 0, and an index moves by `step` elements.
    It lies in [-extent, extent), a negative one counts from the end.
    `errstate` has two bits for each of divide, over, under, invalid, from the lowest:
    0 = ignore, 1 = warn.
    numpys: NumPy's own loop computes it, since it is too small for ours, which has other last bits.
    fast: the body of the second accuracy class does, if the operation has one.
    """

    index: int
    kind: Kind
    op: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    inputs: tuple[View | ScalarOperand, ...]
    outputs: tuple[View, ...]
    loop: tuple[str, ...]
    mask: View | None
    errstate: int
    numpys: bool = False
    fast: bool = False

    @property
    def reads(self) -> tuple[View, ...]:
        """The views that it reads, the mask among them."""
        operands = (*self.inputs, self.mask)
        return tuple(view for view in operands if isinstance(view, View))

    @property
    def views(self) -> tuple[View, ...]:
        """What it reads, and what it writes."""
        return *self.reads, *self.outputs


@dataclass(frozen=True, slots=True)
class BufferInfo:
    """A piece of memory that requests read and write.

    fresh: holds nothing yet (its first content is written by this trace).
    dead: nobody outside the trace can see it any more; it need not be stored at the end.
    owned: memory of npaccel, aligned to 4096 bytes; else foreign, of any alignment.
    log: keeps what is only looked at (check mode); kernels are laid out as if it was not there.
    """

    index: int
    size_bytes: int
    fresh: bool
    dead: bool
    owned: bool
    log: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in program order, and the buffers they name.

    apart: they are rounds of a loop with so many requests each, and no kernel has two rounds'; 0:
    any requests may share one.
    """

    buffers: tuple[BufferInfo, ...]
    requests: tuple[Request, ...]
    apart: int = 0


# ------------------------------------------------------------------------------- what will run


class Stride(enum.Enum):
    """How an array moves along the kernel's vector axis; other axes' strides are run-time.

    ACROSS: as ANY, but along another axis, not a short one, its elements lie closer together.
    BACK: each element lies right before the last one.
    """

    UNIT = "u"
    BACK = "b"
    ZERO = "z"
    ANY = "s"
    ACROSS = "x"

    @property
    def apart(self) -> bool:
        """Whether elements lie apart, or the other way round."""
        return self in (Stride.ANY, Stride.ACROSS, Stride.BACK)


@dataclass(frozen=True, slots=True)
class ArrayParam:
    """An array argument. `strides` of all domain axes are run-time words, in bytes.

    vector: class of its stride along the vector axis. Under UNIT the stride word is itemsize,
    under ZERO it is 0. band_only: it does not move along any inner axis (all inner strides 0).
    nontemporal: stores may bypass the cache; only with UNIT, 64-byte aligned at each chunk start.
    gathered: read by GATHER alone, or written by stores with an offset alone: elsewhere than at
    the current index.
    """

    dtype: str
    vector: Stride
    read: bool
    written: bool
    band_only: bool = False
    nontemporal: bool = False
    gathered: bool = False

    @property
    def lies_across(self) -> bool:
        """Whether a loop along the vector axis goes from one distant place to the next."""
        return self.vector is Stride.ACROSS and not self.gathered


@dataclass(frozen=True, slots=True)
class RowParam:
    """A value per band point: the result of a Reduce, or of a StoreRow."""

    dtype: str


class Fold(enum.Enum):
    """How a reduction combines. The emitter keeps the order of Note [Reduction order]."""

    SUM = "sum"  # f*, i*, u*, c*
    PRODUCT = "product"
    MIN = "min"  # a NaN wins
    MAX = "max"
    FMIN = "fmin"  # a NaN loses
    FMAX = "fmax"
    AND = "and"  # b1, i*, u* bitwise
    OR = "or"
    XOR = "xor"
    ARGMIN = "argmin"  # result i8: flattened inner index of the first minimum; first NaN wins
    ARGMAX = "argmax"


@dataclass(frozen=True, slots=True)
class Store:
    """Write `value` (of the array's dtype) to arrays[array], where `mask` (b1) if given.

    offset : i8, how many elements from the current index on, in a scattered array. Of indices that
        write to one element the last one's value stays, so a kernel with one is never split.
    """

    array: int
    value: Expr
    mask: Expr | None = None
    offset: Expr | None = None


@dataclass(frozen=True, slots=True)
class StoreScratch:
    """Write `value` to row-local array scratch[index]; read by later leaves of the same row."""

    index: int
    value: Expr


@dataclass(frozen=True, slots=True)
class StoreRow:
    """Only in row leaves: rows[index] = value."""

    index: int
    value: Expr


@dataclass(frozen=True, slots=True)
class Reduce:
    """rows[index] = fold of `value` over all inner axes of this leaf; `mask` false: left out.

    An empty inner space gives the fold's identity (a REDUCE without one is never empty).
    """

    index: int
    fold: Fold
    value: Expr
    mask: Expr | None = None


@dataclass(frozen=True, slots=True)
class Flag:
    """Where `mask` is true, slot `slot` raised `kind`. Evaluated only when a guard fires."""

    slot: int
    kind: FlagKind
    mask: Expr


Effect = Store | StoreScratch | StoreRow | Reduce


@dataclass(frozen=True, slots=True)
class Leaf:
    """One loop over the inner axes (or, with row=True, one execution per band point).

    Within one index all loads happen before all stores. `guards` are b1 expressions, cheap and
    conservative: the flags of a leaf need evaluating only for a vector in which one is true.
    A row leaf reads arrays that are band_only, rows and scalars; and holds Store (of band_only
    arrays) and StoreRow.
    """

    row: bool
    effects: tuple[Effect, ...]
    guards: tuple[Expr, ...] = ()
    flags: tuple[Flag, ...] = ()

    @property
    def values(self) -> list[Expr]:
        """What its effects need."""
        roots: list[Expr] = []
        for effect in self.effects:
            roots.append(effect.value)
            if isinstance(effect, Store | Reduce) and effect.mask is not None:
                roots.append(effect.mask)
            if isinstance(effect, Store) and effect.offset is not None:
                roots.append(effect.offset)
        return roots

    @property
    def roots(self) -> list[Expr]:
        """What every iteration needs: values, masks and guards, but not the flags."""
        return [*self.values, *self.guards]

    @property
    def all_roots(self) -> list[Expr]:
        """`roots`, and the masks of the flags."""
        return [*self.roots, *(flag.mask for flag in self.flags)]


@dataclass(frozen=True, slots=True)
class Kernel:
    """A tree: an outer parallel band of axes; inside, leaves in sequence over the inner axes.

    for b in band (parallel):
        for leaf in leaves:
            row leaf:  effects, once
            else:      for i in inner: effects

    The domain's axes are the band's, then the inner ones. `band_rank` may be 0; `inner_rank` is
    at least 1. vector_band: lanes run along the last band axis instead of the last inner axis
    (reductions over leading axes of row-major data); it needs band_rank >= 1.
    split: the inner space may be cut into chunks that run in parallel: a single non-row leaf,
    perhaps followed by row leaves, without SCAN. With Reduce in it, chunk partials are combined by
    the finish function, which also runs the row leaves. A map (no Reduce) with inner_rank 1 may be
    split, and is where an array lies across its rows.
    slots: how many requests can set flags.
    """

    name: str
    band_rank: int
    inner_rank: int
    arrays: tuple[ArrayParam, ...]
    scalars: tuple[str, ...]
    rows: tuple[RowParam, ...]
    scratch: tuple[str, ...]
    leaves: tuple[Leaf, ...]
    vector_band: bool = False
    split: bool = False
    slots: int = 0


# Note [Reduction order]
# Results must not depend on thread count, vector width or backend. For SUM and PRODUCT over f*
# and c* the elements of the inner space (in row-major order of the inner axes as the kernel lists
# them, n of them) are cut into chunks of 32768, chunks into blocks of 512; within a block element
# k goes to lane k % 32, lanes accumulate in order of k from the fold's identity (0.0 for SUM of
# floats: NumPy's sum of nothing but -0.0 is 0.0; 1 for PRODUCT), 16 steps at most. Block results
# are 32-lane vectors; they are combined lane by lane as a binary counter does (equal-sized
# neighbours, left + right; what remains at the
# end of the chunk from the smallest up: left + right). Then lanes fold as halves: lane l with
# l + 16, then + 8, 4, 2, 1. Chunk results combine as a binary counter too. With inner_rank > 1
# the last inner axis is one such sequence of its own and the rows' results are combined in
# row-major order of the other inner axes as a binary counter. For vector_band each band point has
# 1 lane and blocks of 16: the same counter, no lane fold, chunks of 32768 likewise. Which of both a
# sum has is fold_order.py's: 1 lane for columns, and for short rows, by which 32 would not be full.
# f2 accumulates in f4 and rounds once at the end. Other folds are exact in any order; where a
# fold may return either of two equal values (0.0 and -0.0) any is right.


class Wrap(NamedTuple):
    """Where a read array goes on elsewhere: from index `cut` of `axis` on, `step` elements further.

    So a[i - 1] around an axis of n is a at offset n - 1 with a wrap at 1 of step -n.
    """

    axis: int
    cut: int
    step: int


@dataclass(frozen=True, slots=True)
class Binding:
    """Where an array argument of a kernel lies: buffer, offset in elements, strides in elements.

    wraps : along axes of the domain; of an array that is only read, in a kernel of maps alone. The
        kernel knows nothing of it: it is run over each box between cuts.
    """

    buffer: int
    offset: int
    strides: tuple[int, ...]
    wraps: tuple[Wrap, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Which operand of the trace a kernel's array is. position: as in `passes.draft.Access`.

    axes: per domain axis of the kernel the request's axis whose stride it has; None: it has a
    stride that does not depend on sizes.
    """

    request: int
    position: int | None
    axes: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the numbers of a KernelStep come from, so that other ones can take their place.

    extents : per domain axis the axes of request `request` that it is made of
    arrays : one per Binding
    """

    request: int
    extents: tuple[tuple[int, ...], ...]
    arrays: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class RowRange:
    """What was decided by the length of rows: their elements were in [low, high).

    extents : axes of request `request` that make a row; lanes: rows worked on at a time
    """

    request: int
    extents: tuple[int, ...]
    lanes: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class KernelStep:
    """Run `kernel` over `extents` (all domain axes). One Binding per array; per scalar the
    (request index, input position) whose run-time value it is; per flag slot its request index.
    `requests` are those the kernel computes, for explain()."""

    kernel: Kernel
    extents: tuple[int, ...]
    arrays: tuple[Binding, ...]
    scalars: tuple[tuple[int, int], ...]
    slots: tuple[int, ...]
    requests: tuple[int, ...]
    origin: Origin


@dataclass(frozen=True, slots=True)
class RequestStep:
    """Run one request as it is, by the C core with NumPy's own inner loop; `reason` says why."""

    request: int
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order. `dropped`: requests never computed (dead). `buffers`: those that need memory.

    consumed: (request, position) of each scalar whose value a rewrite used; the plan holds only
    for those values. ranges: what was decided by the length of rows.
    """

    steps: tuple[KernelStep | RequestStep, ...]
    buffers: tuple[int, ...]
    dropped: tuple[int, ...] = ()
    consumed: tuple[tuple[int, int], ...] = ()
    ranges: tuple[RowRange, ...] = ()
