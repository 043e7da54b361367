"""`forall`, `reduce` and `scan` where an array lives: on a cluster the owners call the function.

Knows what a function is to see on a worker, and what of it comes back. Which nodes do that is
cluster's; arrays that live here are its segments.py's alone.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from npaccel import _native, making
from npaccel.cluster import Cluster, segments
from npaccel.cluster.carrying import agile, map_of, placed_view
from npaccel.cluster.client import OPEN
from npaccel.cluster.maps import Granularity, Map
from npaccel.cluster.parts import Block
from npaccel.cluster.placing import Layout, layout_of
from npaccel.cluster.shipping import packed
from npaccel.errors import MapError
from npaccel.this_process import config

__all__ = ["forall", "reduce", "scan"]

Array = np.ndarray[Any, Any]
Workers = Literal["owners", "here", "threads", "processes"]
HANDLED: Final = frozenset({"ignore", "warn", "raise", "print"})  # by what a worker has, too
SHOWN: Final[dict[str, dict[Any, Any]]] = {}  # per file, warnings that were shown


def forall(
    function: Callable[..., Any],
    x: Any,
    *others: Any,
    granularity: Granularity = "node",
    workers: Workers | None = None,
) -> Any:
    """Call a function with each segment of an array that has a map, and put together what it gives.

    Parameters
    ----------
    function : given the segment's part of `x` and of each of the others, it returns an array of
        that shape; or it writes into them and returns None, everywhere.
    x : an array with a map (`npaccel.agile`, or ``map=`` where it was placed).
    others : arrays of the same shape, or scalars, which it gets as they are.
    granularity : "node" for segments; "memory" or "algorithm" for blocks in them.
    workers : None: "owners" where `x` lives on a cluster, else "here".
        "owners": the function is sent to the workers, as cloudpickle has it, and called there by
        who has the segment; its results stay there. What it imports has to be there, and what it
        knows of the program besides its arguments is a copy.
        "here": one after another, in this thread; what is done with the parts is recorded and
        fused as ever, and kernels use all cores.
        "threads": a thread per node, at most one per core, which are given plain arrays: worth it
        for functions that leave the interpreter lock.
        "processes": as many processes; parts are copied there and results back, so nothing that
        the function writes into them arrives. It is found there by its module and name, and the
        program's main module is imported there (``if __name__ == "__main__":``).

    Returns
    -------
    An Array with the map of `x`, which lives where `x` does, or None.

    Raises
    ------
    MapError : what it gives has another shape, or several dtypes.
    Exception : what the function raises, of the first segment that fails. Of one that was raised
        on a worker, the traceback there is its cause; segments after it are as they were.
    """
    sent = _sent(function, x, others, workers)
    if sent is None:
        return segments.forall(
            function, x, *others, granularity=granularity, workers=_local(workers)
        )
    blocks = list(sent.map.blocks(granularity))
    return _result(sent, blocks, sent.call(blocks, Each(function, sent.slots)))


def reduce(function: Callable[[Any, Any], Any], x: Any, *, workers: Workers | None = None) -> Any:
    """Combine all elements of an array with a map, segment by segment.

    Parameters
    ----------
    function : of two arrays of one shape, element by element: a ufunc, ``lambda a, b: ...``. It is
        associative; the order of elements stays, how they are grouped is decided by the map's
        segments and their sizes alone, not by who computes them when.
    x : an array with a map, of one element at least.
    workers : as in `forall`; on a cluster one element of each segment comes back.

    Returns
    -------
    A NumPy scalar. Sums of floats have other last bits than ``x.sum()``, whose order does not
    depend on maps.
    """
    sent = _sent(function, x, (), workers)
    if sent is None:
        return segments.reduce(function, x, workers=_local(workers))
    blocks = sorted(sent.map.blocks("node"), key=lambda block: block.id)
    came = sent.call(blocks, Folded(function), brings=True)
    return segments.combined([came.made[k] for k in range(len(blocks))], function)


def scan(function: Callable[[Any, Any], Any], x: Any, *, workers: Workers | None = None) -> Any:
    """Combine each element of a 1-d array with all before it, segment by segment.

    Each segment is scanned by itself, then what all segments before it amount to is combined with
    it.

    Parameters
    ----------
    function, workers : as in `reduce`.
    x : a 1-d array with a map.

    Returns
    -------
    An Array with the map of `x`. Of integers, ``scan(numpy.add, x)`` is ``numpy.cumsum(x)``.
    """
    sent = _sent(function, x, (), workers) if x.ndim == 1 else None
    if sent is None:
        return segments.scan(function, x, workers=_local(workers))
    blocks = sorted(sent.map.blocks("node"), key=lambda block: block.offset)
    alone = _result(sent, blocks, sent.call(blocks, Scanned(function)))
    before: dict[int, Any] = {}
    last = None
    for block in blocks:
        end = block.offset[0] + block.extent[0]
        mine = np.array(alone[end - 1 : end])
        if last is not None:
            before[block.id] = last
            mine = np.asarray(function(np.broadcast_to(last, mine.shape), mine))
        last = mine
    again = _sent(function, alone, (), "owners")
    assert again is not None
    return _result(again, blocks, again.call(blocks, Combined(function, before)))


def _local(workers: Workers | None) -> Any:
    return "here" if workers in (None, "owners") else workers


# ------------------------------------------------------------------------------ what is sent there


class Task:
    """What a worker calls with a block and its parts: the function sees what it would see here."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.threshold = config.threshold
        self.errors = np.geterr()

    def __call__(self, block: Block, *parts: Array) -> Any:
        with config(threshold=self.threshold), np.errstate(**self.errors):
            result = self.of(block, [_native.wrap(part) for part in parts])
            _native.evaluate()
        return None if result is None else _native.plain(np.asarray(result))

    def of(self, block: Block, parts: list[Any]) -> Any:
        """Its result."""
        raise NotImplementedError


class Each(Task):
    """Of `forall`. slots : numbers of parts, as (number,), or values that are no arrays."""

    def __init__(self, function: Callable[..., Any], slots: Sequence[Slot]) -> None:
        super().__init__(function)
        self.slots = slots

    def of(self, block: Block, parts: list[Any]) -> Any:
        """What the function gives."""
        given = (parts[one.part] if one.part is not None else one.value for one in self.slots)
        return self.function(*given)


class Folded(Task):
    """Of `reduce`."""

    def of(self, block: Block, parts: list[Any]) -> Any:
        """All elements of a segment, as an array of one."""
        return segments.folded(parts[0], self.function)


class Scanned(Task):
    """Of `scan`."""

    def of(self, block: Block, parts: list[Any]) -> Any:
        """A segment by itself."""
        return segments.scanned(parts[0], self.function)


class Combined(Task):
    """Of `scan`, with what all segments before one amount to, by its number."""

    def __init__(self, function: Callable[..., Any], before: dict[int, Any]) -> None:
        super().__init__(function)
        self.before = before

    def of(self, block: Block, parts: list[Any]) -> Any:
        """The segment, with what is before it."""
        (part,) = parts
        if block.id not in self.before:
            return part
        return self.function(np.broadcast_to(self.before[block.id], part.shape), part)


class Slot(NamedTuple):
    """An argument: the number of a part, or else a value."""

    part: int | None
    value: Any = None


class Sent(NamedTuple):
    """A call on a cluster: arrays, and copies of them that are there as the map says."""

    cluster: Cluster
    map: Map
    arrays: list[Any]
    copies: list[Any]
    slots: list[Slot]

    def call(self, blocks: Sequence[Block], task: Task, *, brings: bool = False) -> Any:
        """Have it done; what was written is in the arrays, too, and what it warned of is told."""
        layout = self.layout(self.copies[0])
        of = [(self.cluster.memory.number(one), one.dtype) for one in self.copies]
        came = self.cluster.ask("call", packed(task), blocks, layout, of, brings)
        if isinstance(came, Exception):
            raise came
        last = len(blocks) if came.failed is None else came.failed.place + 1
        for k in sorted(came.written):
            source, target = (placed_view(one[k], self.map) for one in (self.copies, self.arrays))
            if last == len(blocks):
                target[...] = source
            else:  # those after the one that failed are as they were
                for block in blocks[:last]:
                    target[block.slices] = source[block.slices]
        try:
            _warn([one for one in came.told if one.place < last])
            if came.failed is not None:
                error, cause = pickle.loads(came.failed.error)
                raise error from cause
        except BaseException:
            self.forget(blocks, came)
            raise
        return came

    def forget(self, blocks: Sequence[Block], came: Any) -> None:
        """What it made is not needed."""
        self.cluster.ask("settle", came.number, 0, None, _owners(blocks))

    def layout(self, array: Array) -> Layout:
        """Of a copy, as blocks are boxes of it."""
        if self.map.flat:
            return Layout((array.size,), (array.itemsize,), 0, array.itemsize)
        found = layout_of(array.shape, array.strides, 0, array.itemsize)
        assert found is not None
        return found


def _owners(blocks: Sequence[Block]) -> list[int]:
    return sorted({block.owner for block in blocks})


def _sent(
    function: Callable[..., Any], x: Any, others: Sequence[Any], workers: Workers | None
) -> Sent | None:
    """What is to be done on a cluster; None: here."""
    if workers not in (None, "owners"):
        return None
    made = map_of(x)
    if _native.is_pending(x):
        _native.evaluate()
    cluster = next((one for one in OPEN if one.memory is _native.place_of([x])), None)
    if cluster is None:
        if workers == "owners":
            raise MapError(
                'workers="owners": the array does not live on a cluster; place it there '
                "(npaccel.asarray(x, device=cluster, map=...)), or leave `workers` out"
            )
        return None
    arrays: list[Any] = []
    slots = []
    for one in (x, *others):
        if not isinstance(one, np.ndarray) or (one is not x and one.ndim == 0):
            slots.append(Slot(None, one))
            continue
        segments.same_shape(one, x)
        known = [k for k, other in enumerate(arrays) if other is one]
        slots.append(Slot(known[0] if known else len(arrays)))
        arrays += [] if known else [one]
    if not _can_go(arrays):
        return None
    copies = [_copy(one, made, cluster) for one in arrays]
    _native.evaluate()
    if not all(cluster.memory.number(one) for one in copies):
        return None
    return Sent(cluster, made, arrays, copies, slots)


def _can_go(arrays: Sequence[Any]) -> bool:
    """Whether a worker could do to these what would be done here."""
    known = all(type(one) is np.ndarray or isinstance(one, _native.ArrayBase) for one in arrays)
    overlap = any(
        np.may_share_memory(_native.view_plain(one), _native.view_plain(other))
        for k, one in enumerate(arrays)
        for other in arrays[:k]
    )
    plain = not any(one.dtype.hasobject or not one.size for one in arrays)
    return known and plain and not overlap and set(np.geterr().values()) <= HANDLED


def _copy(one: Any, made: Map, cluster: Cluster) -> Any:
    copy = making.empty(one.shape, one.dtype, _order(one, made), device=cluster, map=made)
    copy[...] = one
    return copy


def _order(one: Any, made: Map) -> str:
    columns = one.flags.f_contiguous and not one.flags.c_contiguous and not made.flat
    return "F" if columns else "C"


def _warn(told: Sequence[Any]) -> None:
    """As here, for the lines of the function."""
    for one in told:
        message, _ = pickle.loads(one.message)
        seen = SHOWN.setdefault(one.file, {})
        warnings.warn_explicit(message, type(message), one.file, one.line, registry=seen)


def _result(sent: Sent, blocks: Sequence[Block], came: Any) -> Any:
    """An array of what the function made, there."""
    found = [(block, came.made[k]) for k, block in enumerate(blocks)]
    if all(one is None for _, one in found):
        return None
    try:
        if any(isinstance(one, np.ndarray) for _, one in found):
            raise MapError(
                "forall: the function gave Python objects, which can't be on a cluster; give "
                'numbers, or call it here (workers="here")'
            )
        dtype = segments.agreed(found)
    except BaseException:
        sent.forget(blocks, came)
        raise
    x = sent.arrays[0]
    result = making.empty(x.shape, dtype, _order(x, sent.map), device=sent.cluster, map=sent.map)
    _native.evaluate()
    number = sent.cluster.memory.number(result)
    assert number, "it was made there"
    sent.cluster.ask("settle", came.number, number, sent.layout(result), _owners(blocks))
    return agile(result, sent.map)
