"""Elements picked by integer arrays, recorded as gathers: `take`, and subscripts with arrays.

An index array must be in bounds when the call returns, or NumPy's error is raised there. Known
indices are looked through at the speed of memory; for pending ones the smallest and the largest
are computed together with them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from npaccel import _native
from npaccel.dispatch.fallback import NotRecorded, unrecordable
from npaccel.dispatch.operands import MAX_DIMENSIONS, fresh_along, is_array, take_array
from npaccel.dispatch.rules import copy_rule, fold_rule, gather_rule
from npaccel.ir.kinds import Kind

__all__ = ["get", "take"]

Array = np.ndarray[Any, Any]
WHOLE = slice(None)

# Note [Worthwhile]
# NumPy picks elements as fast as one core reads memory, and needs no look through the indices
# before. Where nothing is pending, a gather wins by its threads, and by what it is fused with; both
# need more elements than a map does to make up for what recording costs. Rows, be they points of
# two coordinates, are copied by NumPy as a whole for each index.
TIMES = 4  # of config.threshold, in bytes of the result
ROWS_TIMES = 16
INDEX = np.dtype(np.intp)


# ------------------------------------------------------------------------------------- indices


def _indices(value: Any) -> Array:
    """`value` as an array of integers of at least one dimension and element."""
    index = np.asarray(value) if type(value) is list else value
    if not is_array(index) or index.dtype.kind not in "iu" or index.ndim == 0 or index.size == 0:
        raise NotRecorded
    return take_array(index)


def _extremes(index: Array) -> list[Array]:
    """The smallest and the largest of indices, recorded."""
    axes = tuple(range(index.ndim))
    found = []
    for fold in (np.minimum, np.maximum):
        rule = fold_rule(Kind.REDUCE, fold, index.dtype, None, None)
        result = None if rule is None else _native.reduce(rule, index, axes)
        if result is None:
            raise unrecordable()
        found.append(result)
    return found


def _check_at_replays(index: Array, extent: int) -> None:
    """In a macro section: replays look whether the indices are in bounds; else the body runs."""
    if not _native.check_index(index, extent):
        if index.dtype == np.uint64:
            _native.refuse("it picks elements by unsigned indices that it computes")
        least, most = _extremes(_native.wrap(index).astype(INDEX))
        _native.check_extremes(least, most, extent)


def _has_negative(index: Array, extent: int) -> bool:
    """Whether indices may count from the end; NumPy raises its error if one is out of bounds."""
    if not _native.boundscheck():
        return True
    if _native.in_section():
        _check_at_replays(index, extent)
        return True
    if _native.is_pending(index):
        # In one run with them.
        low, high = (int(_native.plain(found)[()]) for found in _extremes(index))
        if low < -extent or high >= extent:
            raise NotRecorded
        return low < 0
    found = _native.index_bounds(index, extent)
    if found not in (0, 1):
        raise NotRecorded
    return found == 1


def _bring_inside(index: Array, extent: int, mode: str) -> Array:
    """What `mode` makes of the indices: all of them in bounds."""
    ours: Any = _native.wrap(index if index.dtype == INDEX else index.astype(INDEX))
    inside: Array
    if mode == "wrap":
        inside = np.remainder(ours, extent)
    else:
        inside = np.minimum(np.maximum(ours, 0), extent - 1)
    return inside


# ------------------------------------------------------------------------------------- gathers


class _Gather(NamedTuple):
    """`source` picked along some of its axes.

    base : the source's elements at index 0, the gathered axes replaced by those of the indices
        (of extent 1).
    shape : of the result; the indices' axes are `first` to `first + rank`.
    """

    source: Array
    base: Array
    shape: tuple[int, ...]
    first: int
    rank: int

    @classmethod
    def of(cls, source: Array, axes: Sequence[int], shape: tuple[int, ...], first: int) -> _Gather:
        plain = _native.view_plain(source)
        # The ellipsis makes it a view, not a scalar, where no axis is left.
        kept = plain[(*(0 if axis in axes else WHOLE for axis in range(plain.ndim)), ...)]
        base = kept[(WHOLE,) * first + (None,) * len(shape)]
        whole = (*base.shape[:first], *shape, *base.shape[first + len(shape) :])
        return cls(source, base, whole, first, len(shape))

    def is_worthwhile(self, *indices: Array) -> bool:
        """Something is pending or on a device, or the result is large: see Note [Worthwhile]."""
        if _native.is_far(self.source):
            return True
        if any(map(_native.in_section, (self.source, *indices))):
            return True
        if any(map(_native.is_pending, (self.source, *indices))):
            return True
        times = ROWS_TIMES if self.picks_rows() else TIMES
        return math.prod(self.shape) * self.source.itemsize >= times * _native.threshold()

    def picks_rows(self) -> bool:
        """Whether what an index picks lies side by side in memory."""
        after = self.shape[self.first + self.rank :]
        return bool(after) and after[-1] > 1 and self.base.strides[-1] == self.source.itemsize

    def record(self, index: Array, extent: int, step: int, order: Sequence[int]) -> Any:
        """Pick by `index`, which spans the result's axes from `first` on.

        order : the result's axes, outermost in memory first.
        """
        after = len(self.shape) - self.first - self.rank
        spread = _native.view_plain(index)[(..., *(None,) * after)]
        rule = gather_rule(self.source.dtype)
        if rule is None:
            raise NotRecorded(f"dtype {self.source.dtype.name} has no kernel")
        out = fresh_along(self.shape, self.source.dtype, order)
        result = _native.gather(rule, self.source, self.base, spread, extent, step, out)
        if result is None:
            raise unrecordable()
        return result


def _check(source: Array) -> Array:
    take_array(source)
    if source.size == 0 or source.ndim == 0 or source.ndim > MAX_DIMENSIONS:
        raise NotRecorded
    return source


def _step(source: Array, axis: int) -> int:
    step, odd = divmod(source.strides[axis], source.itemsize)
    if odd:
        raise NotRecorded("elements between others")
    return step


@functools.cache
def _takes_unsigned() -> bool:
    """Whether this NumPy's `take` casts uint64; 2.0 raises TypeError, as it is no safe cast."""
    try:
        np.zeros(1).take(np.zeros(1, np.uint64))
    except TypeError:
        return False
    return True


def take(source: Array, indices: Any, axis: Any, out: Any, mode: Any) -> Any:
    """What ``source.take(indices, axis, out, mode)`` gives, or NotRecorded."""
    index = _indices(indices)
    if index.dtype == np.uint64 and not _takes_unsigned():
        raise NotRecorded
    _check(source)
    if mode not in ("raise", "wrap", "clip"):
        raise NotRecorded
    if axis is None:
        if not source.flags.c_contiguous and not _native.wants(source):
            raise NotRecorded
        source, axis = np.ravel(_native.wrap(source)), 0
    elif type(axis) is int and -source.ndim <= axis < source.ndim:
        axis = normalize_axis_index(axis, source.ndim)
    else:
        raise NotRecorded
    gather = _Gather.of(source, (axis,), index.shape, axis)
    if len(gather.shape) > MAX_DIMENSIONS or not gather.is_worthwhile(index):
        raise NotRecorded
    if out is not None and not _takes(out, source.dtype, gather.shape):
        raise NotRecorded("out of another dtype")
    extent = source.shape[axis]
    if mode == "raise":
        _has_negative(index, extent)
    else:
        index = _bring_inside(index, extent, mode)
    result = gather.record(index, extent, _step(source, axis), range(len(gather.shape)))
    if out is None:
        return result
    rule = copy_rule(source.dtype)
    if rule is None or _native.map(rule, (result,), out) is None:
        raise unrecordable()
    return out


def _takes(out: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
    return (
        is_array(out)
        and out.dtype == dtype
        and out.shape == shape
        and out.flags.writeable
        and out.flags.aligned
    )


# ---------------------------------------------------------------------------------- subscripts


def _is_integer(part: Any) -> bool:
    return type(part) is int or isinstance(part, np.integer)


def _full(key: Any, ndim: int) -> list[Any]:
    """The parts of a subscript with its ellipsis, or the end of it, written out."""
    parts = list(key) if type(key) is tuple else [key]
    parts = [_indices(part) if isinstance(part, np.ndarray | list) else part for part in parts]
    if not all(
        part is None or part is ... or isinstance(part, slice | np.ndarray) or _is_integer(part)
        for part in parts
    ):
        raise NotRecorded
    dots = [place for place, part in enumerate(parts) if part is ...]
    missing = ndim - sum(part is not None and part is not ... for part in parts)
    if len(dots) > 1 or missing < 0:
        raise NotRecorded
    place = dots[0] if dots else len(parts)
    parts[place : place + 1] = [WHOLE] * missing
    return parts


def _adjacent(parts: Sequence[Any]) -> bool:
    """Whether the arrays and integers of a subscript follow each other."""
    places = [k for k, p in enumerate(parts) if isinstance(p, np.ndarray) or _is_integer(p)]
    return places[-1] - places[0] == len(places) - 1


def get(array: Array, key: Any) -> Any:
    """`array[key]` for integer arrays, perhaps mixed with basic subscripts, or NotRecorded."""
    _check(array)
    parts = _full(key, array.ndim)
    indices = [part for part in parts if isinstance(part, np.ndarray)]
    if not indices:
        raise NotRecorded
    try:
        shape = indices[0].shape
        if len(indices) > 1:
            shape = np.broadcast_shapes(*(index.shape for index in indices))
        basic = tuple(WHOLE if isinstance(part, np.ndarray) else part for part in parts)
        source = np.asarray(_native.view_plain(array)[basic])
    except (ValueError, IndexError):
        raise NotRecorded from None
    kept = [part for part in parts if not _is_integer(part)]
    axes = [axis for axis, part in enumerate(kept) if isinstance(part, np.ndarray)]
    first = 0
    if _adjacent(parts):
        places = [k for k, p in enumerate(parts) if isinstance(p, np.ndarray) or _is_integer(p)]
        first = sum(not _is_integer(part) for part in parts[: places[0]])
    _check(source)
    gather = _Gather.of(source, axes, shape, first)
    if not gather.is_worthwhile(*indices) or math.prod(gather.shape) == 0:
        raise NotRecorded
    if len(gather.shape) > MAX_DIMENSIONS:
        raise NotRecorded("many dimensions")
    order = _order(gather, indices)
    if len(indices) == 1:
        (axis,) = axes
        if len(parts) == 1 and indices[0].dtype == np.intp and indices[0].flags.fnc:
            order.sort(reverse=True)  # NumPy asks no iterator, also where axes have one element
        _has_negative(indices[0], source.shape[axis])
        return gather.record(indices[0], source.shape[axis], _step(source, axis), order)
    return _pick_together(gather, axes, indices, order)


def _order(gather: _Gather, indices: Sequence[Array]) -> list[int]:
    """The result's axes as they lie in NumPy's memory: the indices' before all others.

    The indices' axes lie as theirs do where each picks one element, else in C order.
    """
    middle = list(range(gather.first, gather.first + gather.rank))
    rest = [axis for axis in range(len(gather.shape)) if axis not in middle]
    if all(gather.shape[axis] == 1 for axis in rest):
        middle = [gather.first + axis for axis in _sorted_axes(indices, gather.rank)]
    rest.sort(key=lambda axis: -abs(gather.base.strides[axis]))
    return [*middle, *rest]


def _sorted_axes(arrays: Sequence[Array], rank: int) -> list[int]:
    """Axes as NumPy's iterator sorts them; those along which nothing moves stay, and so do those
    that two arrays want in different orders."""
    steps = [_moves(array, rank) for array in arrays]
    inner = list(range(rank))[::-1]
    for start in range(1, rank):
        to = start
        for place in range(start - 1, -1, -1):
            pairs = [(moves[inner[start]], moves[inner[place]]) for moves in steps]
            pairs = [(step, other) for step, other in pairs if step and other]
            if any(other <= step for step, other in pairs):
                break
            if pairs:
                to = place
        inner.insert(to, inner.pop(start))
    return inner[::-1]


def _moves(array: Array, rank: int) -> list[int]:
    """How far apart in memory neighbours are, along each of `rank` axes."""
    pairs = zip(array.strides, array.shape, strict=True)
    own = [abs(stride) if extent > 1 else 0 for stride, extent in pairs]
    return [0] * (rank - array.ndim) + own


def _pick_together(
    gather: _Gather, axes: Sequence[int], indices: Sequence[Array], order: Sequence[int]
) -> Any:
    """Several index arrays: their places in the source, added up, are one index array."""
    source, total, reach = gather.source, None, 0
    checked = [
        (index, source.shape[axis], _step(source, axis), _has_negative(index, source.shape[axis]))
        for axis, index in zip(axes, indices, strict=True)
    ]
    for index, extent, step, negative in checked:
        if step < 0:
            raise NotRecorded("several index arrays along falling strides")
        place: Any = _native.wrap(index if index.dtype == INDEX else index.astype(INDEX))
        if negative:
            place = np.where(place < 0, place + extent, place)
        place = place * step if step != 1 else place
        total = place if total is None else total + place
        reach += (extent - 1) * step
    assert total is not None
    return gather.record(total, reach + 1, 1, order)
