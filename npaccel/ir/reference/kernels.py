"""A plain interpreter of Kernel trees: what a compiled kernel must equal, bit for bit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from npaccel.ir.fold_order import LANES
from npaccel.ir.nodes import Fold, Kernel, Leaf, Reduce, Store, StoreRow, StoreScratch
from npaccel.ir.reference.expressions import Array, constant, evaluate
from npaccel.ir.scalar import SCANNED, Core, Expr

__all__ = ["CHUNK", "combine", "fold_chunk", "reduce_inner", "run_kernel"]

BLOCK = 512
BAND_BLOCK = 16
CHUNK = 32768


def run_kernel(
    kernel: Kernel, extents: Sequence[int], arrays: Sequence[Array], scalars: Sequence[Any]
) -> list[int]:
    """Run `kernel` over the whole domain and return per slot the FlagKind bits that were raised.

    Parameters
    ----------
    extents : extent of each domain axis, band axes first
    arrays : one per ArrayParam, each a view of shape `extents` (stride 0 where it does not
        move); written ones are written in place. A band_only array may instead have the band's
        shape followed by ones, which is needed where the inner space is empty.
    scalars : one per entry of `Kernel.scalars`

    Notes
    -----
    All leaves run over the whole band before the next leaf, which no Kernel can tell from the
    order band point by band point.
    """
    run = _Run(kernel, tuple(extents), arrays, scalars)
    for leaf in kernel.leaves:
        run.leaf(leaf)
    return run.flags


class _Run:
    def __init__(
        self, kernel: Kernel, extents: tuple[int, ...], arrays: Sequence[Array], scalars: Any
    ) -> None:
        self.kernel = kernel
        self.extents = extents
        self.band = extents[: kernel.band_rank]
        self.arrays = arrays
        self.scalars = scalars
        self.rows = [np.empty(self.band, row.dtype) for row in kernel.rows]
        self.scratch = [np.empty(extents, dtype) for dtype in kernel.scratch]
        self.flags = [0] * kernel.slots

    def leaf(self, leaf: Leaf) -> None:
        shape = self.band if leaf.row else self.extents
        values = evaluate(
            leaf.all_roots,
            lambda node: self._value(node, row=leaf.row),
            lambda node, offset: self._gather(node, offset, row=leaf.row),
            self._scan,
        )
        for flag in leaf.flags:
            # An empty domain raises nothing, not even where the mask is a constant.
            if np.broadcast_to(values[flag.mask], shape).any():
                self.flags[flag.slot] |= int(flag.kind)
        for effect in leaf.effects:
            value = np.broadcast_to(values[effect.value], shape)
            mask = getattr(effect, "mask", None)
            where = np.True_ if mask is None else np.broadcast_to(values[mask], shape)
            match effect:
                case Store() if effect.offset is not None:
                    offset = np.broadcast_to(values[effect.offset], shape)
                    self._scatter(effect.array, value, where, offset)
                case Store():
                    np.copyto(self._array(effect.array, row=leaf.row), value, where=where)
                case StoreScratch():
                    self.scratch[effect.index][...] = value
                case StoreRow():
                    self.rows[effect.index][...] = value
                case Reduce():
                    self.rows[effect.index] = reduce_inner(
                        effect.fold,
                        value,
                        np.broadcast_to(where, shape),
                        self.kernel.inner_rank,
                        vector_band=self.kernel.vector_band,
                    ).astype(self.kernel.rows[effect.index].dtype)

    def _scan(self, node: Expr, value: Array) -> Array:
        whole = np.broadcast_to(value, self.extents)
        accumulate = getattr(np, SCANNED[int(str(node.attr))]).accumulate
        return np.asarray(accumulate(whole, axis=-1, dtype=node.dtype))

    def _array(self, index: int, *, row: bool) -> Array:
        array = self.arrays[index]
        if not row:
            return array
        # Not an index: there is no inner index 0 where the inner space is empty.
        strides = array.strides[: len(self.band)]
        return np.lib.stride_tricks.as_strided(array, self.band, strides)

    def _gather(self, node: Expr, offset: Array, *, row: bool) -> Array:
        assert isinstance(node.attr, int)
        array = self._array(node.attr, row=row)
        offset = np.broadcast_to(offset, array.shape)
        if offset.size == 0:
            return np.empty(array.shape, array.dtype)
        # A window of one memory that holds all elements which the offsets name.
        low, high = int(offset.min()), int(offset.max())
        start = array.__array_interface__["data"][0] + low * array.itemsize
        window = (array.itemsize,)
        source = np.lib.stride_tricks.as_strided(
            _at(array, start), (*array.shape, high - low + 1), array.strides + window
        )
        return np.take_along_axis(source, (offset - low)[..., None], -1)[..., 0]

    def _scatter(self, index: int, value: Array, where: Any, offset: Array) -> None:
        array = self._array(index, row=False)
        start = array.__array_interface__["data"][0]
        for at in np.ndindex(array.shape):
            if np.broadcast_to(where, array.shape)[at]:
                moved = np.dot(at, array.strides) + int(offset[at]) * array.itemsize
                _at(array, start + int(moved))[0] = value[at]

    def _value(self, node: Expr, *, row: bool) -> Array:
        at = node.attr
        assert isinstance(at, int)
        match node.op:
            case Core.LOAD:
                # A copy: what is stored in this leaf must not change what was loaded.
                return self._array(at, row=row).copy()
            case Core.SCALAR:
                return np.asarray(self.scalars[at]).astype(node.dtype)
            case Core.ROW:
                value = self.rows[at]
                return value if row else value.reshape(self.band + (1,) * self.kernel.inner_rank)
            case Core.SCRATCH:
                return self.scratch[at].copy()
        shape = self.band if row else self.extents
        ramp = np.arange(shape[at], dtype="i8")
        return ramp.reshape((-1,) + (1,) * (len(shape) - at - 1))


class _Block:
    """Memory at an address, for NumPy."""

    def __init__(self, dtype: str, address: int) -> None:
        self.__array_interface__ = {
            "shape": (1,), "typestr": dtype, "data": (address, False), "version": 3
        }  # fmt: skip


def _at(array: Array, address: int) -> Array:
    """One element of the array's dtype at `address`."""
    return np.asarray(_Block(array.dtype.str, address))


# ----------------------------------------------------------------------------------- reductions


def reduce_inner(
    fold: Fold, value: Array, where: Array, inner_rank: int, *, vector_band: bool
) -> Array:
    """Fold `value` over its last `inner_rank` axes in the order of Note [Reduction order].

    `where` has the same shape; elements where it is false are left out. The result has the
    fold's dtype (i8 for ARGMIN and ARGMAX).
    """
    shape = value.shape
    band, inner = shape[: len(shape) - inner_rank], shape[len(shape) - inner_rank :]
    n_band, n_inner = int(np.prod(band, dtype=int)), int(np.prod(inner, dtype=int))
    flat = value.reshape(n_band, n_inner)
    if fold in (Fold.ARGMIN, Fold.ARGMAX):
        if not where.all():
            raise ValueError(f"{fold} takes no mask")
        find = np.argmin if fold is Fold.ARGMIN else np.argmax
        return np.asarray(find(flat, axis=1)).astype("i8").reshape(band)
    dtype = value.dtype.str[1:]
    active = where.reshape(n_band, n_inner)
    flat = np.where(active, flat, fold_identity(fold, dtype))
    with np.errstate(all="ignore"):
        if fold in (Fold.SUM, Fold.PRODUCT) and dtype[0] in "fc":
            if n_inner == 0:
                return np.full(band, 0 if fold is Fold.SUM else 1, dtype)
            wide = flat.astype("f4") if dtype == "f2" else flat
            rows = (n_band, n_inner // inner[-1], inner[-1])
            total = _ordered(
                fold, wide.reshape(rows), active.reshape(rows), vector_band=vector_band
            )
            return total.astype(dtype).reshape(band)
        function = _EXACT[fold]
        result = function.reduce(flat, axis=1, initial=fold_identity(fold, dtype)[()], dtype=dtype)
    return np.asarray(result).reshape(band)


_EXACT: dict[Fold, np.ufunc] = {
    Fold.SUM: np.add,
    Fold.PRODUCT: np.multiply,
    Fold.MIN: np.minimum,
    Fold.MAX: np.maximum,
    Fold.FMIN: np.fmin,
    Fold.FMAX: np.fmax,
    Fold.AND: np.bitwise_and,
    Fold.OR: np.bitwise_or,
    Fold.XOR: np.bitwise_xor,
}


def fold_identity(fold: Fold, dtype: str) -> Array:
    """The value that changes no result of `fold`, of `dtype`, 0-d."""
    kind = dtype[0]
    match fold:
        case Fold.SUM:
            return constant(dtype, 0)
        case Fold.PRODUCT:
            return constant(dtype, 1)
        case Fold.FMIN | Fold.FMAX if kind == "f":
            return constant(dtype, float("nan"))
        case Fold.AND:
            return constant(dtype, -1)
        case Fold.OR | Fold.XOR:
            return constant(dtype, 0)
    lowest = fold in (Fold.MAX, Fold.FMAX)
    if kind == "f":
        return constant(dtype, float("-inf") if lowest else float("inf"))
    if kind == "b":
        return constant(dtype, not lowest)
    limits = np.iinfo(dtype)
    return constant(dtype, int(limits.min if lowest else limits.max))


def combine(fold: Fold, left: Array, right: Array) -> Array:
    if fold is Fold.SUM:
        return np.asarray(left + right)
    if left.dtype.kind != "c":
        return np.asarray(left * right)
    result = np.empty(left.shape, left.dtype)
    result.real = left.real * right.real - left.imag * right.imag
    result.imag = left.real * right.imag + left.imag * right.real
    return result


def _counter(fold: Fold, items: Iterable[Array]) -> Array:
    """Combine as a binary counter does: equal-sized neighbours, then the rest, smallest first."""
    stack: list[tuple[int, Array]] = []
    for item in items:
        size, value = 1, item
        while stack and stack[-1][0] == size:
            value = combine(fold, stack.pop()[1], value)
            size *= 2
        stack.append((size, value))
    value = stack.pop()[1]
    while stack:
        value = combine(fold, stack.pop()[1], value)
    return value


def _ordered(fold: Fold, value: Array, active: Array, *, vector_band: bool) -> Array:
    """(band, rows, n) -> (band,), n > 0, rows > 0."""
    lanes, block = (1, BAND_BLOCK) if vector_band else (LANES, BLOCK)
    n: int = value.shape[-1]
    cuts = [slice(at, min(at + CHUNK, n)) for at in range(0, n, CHUNK)]
    chunks = (fold_chunk(fold, value[:, :, cut], active[:, :, cut], lanes, block) for cut in cuts)
    rows = _counter(fold, chunks)
    return _counter(fold, rows.T)


def fold_chunk(fold: Fold, value: Array, active: Array, lanes: int, block: int) -> Array:
    """(band, rows, at most CHUNK) -> (band, rows)."""
    n_band, rows = value.shape[:2]
    n: int = value.shape[-1]
    identity = fold_identity(fold, value.dtype.str[1:])
    padded = np.full((n_band, rows, -(-n // block) * block), identity)
    padded[:, :, :n] = value
    taken = np.zeros(padded.shape, bool)
    taken[:, :, :n] = active
    shape = (n_band, rows, -(-n // block), block // lanes, lanes)
    steps, taken = padded.reshape(shape), taken.reshape(shape)
    accumulator = np.full(steps[:, :, :, 0].shape, identity)
    for step in range(block // lanes):
        # Left out, not combined with the identity: 1 * inf is not inf for complex numbers.
        combined = combine(fold, accumulator, steps[:, :, :, step])
        accumulator = np.where(taken[:, :, :, step], combined, accumulator)
    total = _counter(fold, np.moveaxis(accumulator, 2, 0))
    while lanes > 1:
        lanes //= 2
        total = combine(fold, total[..., :lanes], total[..., lanes:])
    return total[..., 0]
