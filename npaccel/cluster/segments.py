"""Functions over the segments of an array: `forall`, `reduce`, `scan`.

The function is the user's, on arrays. What it is given is a segment's part of each array; segments
of one node are worked on in order, nodes at a time as `workers` says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, Literal

import numpy as np

from npaccel import _native
from npaccel.cluster.carrying import agile, map_of, placed_view
from npaccel.cluster.maps import Granularity, Map
from npaccel.cluster.parts import Block
from npaccel.errors import MapError

__all__ = ["forall", "reduce", "scan"]

Array = np.ndarray[Any, Any]
Workers = Literal["here", "threads", "processes"]
WORKERS = ("here", "threads", "processes")


def forall(
    function: Callable[..., Any],
    x: Any,
    *others: Any,
    granularity: Granularity = "node",
    workers: Workers = "here",
) -> Any:
    """Call a function with each segment of an array that has a map, and put together what it gives.

    Parameters
    ----------
    function : given the segment's part of `x` and of each of the others, it returns an array of
        that shape; or it writes into them and returns None, everywhere.
    x : an array with a map (`npaccel.agile`).
    others : arrays of the same shape, or scalars, which it gets as they are.
    granularity : "node" for segments; "memory" or "algorithm" for blocks in them.
    workers : "here": one after another, in this thread; what is done with the parts is recorded and
        fused as ever, and kernels use all cores. "threads": a thread per node, at most one per
        core, which are given plain arrays: worth it for functions that leave the interpreter lock.
        "processes": as many processes; parts are copied there and results back, so nothing that
        the function writes into them arrives. It is found there by its module and name, and the
        program's main module is imported there (``if __name__ == "__main__":``).

    Returns
    -------
    An Array with the map of `x`, or None.
    """
    made = map_of(x)
    parts = list(made.blocks(granularity))
    lines = [_line(one, x, made) for one in (x, *others)]

    def arguments(block: Block) -> tuple[Any, ...]:
        return tuple(one[block.slices] if is_array else one for one, is_array in lines)

    found = _run(function, parts, arguments, workers, made.nodes)
    results = [result for _, result in found]
    if all(result is None for result in results):
        return None
    return _together(x, made, found)


def _line(one: Any, x: Array, made: Map) -> tuple[Any, bool]:
    """An argument of `forall` as the map's space has it, and whether it is an array."""
    if not isinstance(one, np.ndarray) or (one is not x and one.ndim == 0):
        return one, False
    if one.shape != x.shape:
        raise MapError(
            f"forall: an array of shape {one.shape} beside one of shape {x.shape} that is "
            "segmented; each has the same shape, or is a scalar"
        )
    return placed_view(one, made), True


def _together(x: Array, made: Map, found: Sequence[tuple[Block, Any]]) -> Any:
    """An array like `x` of what the segments gave."""
    dtypes = {np.asarray(result).dtype for _, result in found if result is not None}
    if len(dtypes) != 1 or any(result is None for _, result in found):
        names = sorted(map(str, dtypes))
        raise MapError(
            f"forall: segments gave arrays of dtypes {', '.join(names)}"
            f"{' and None' if any(r is None for _, r in found) else ''}; it is one everywhere"
        )
    (dtype,) = dtypes
    whole = np.empty_like(_native.view_plain(x), dtype=dtype, subok=False)
    result = _native.wrap(whole)
    line = placed_view(result, made)
    for block, part in found:
        if np.shape(part) != block.extent:
            raise MapError(
                f"forall: the function gave shape {np.shape(part)} for block {block.id} of shape "
                f"{block.extent}; it gives an array of the block's shape, or writes into it"
            )
        line[block.slices] = part
    return agile(result, made)


# ------------------------------------------------------------------------------------ who does it


@contextmanager
def _pool(workers: str, nodes: int) -> Iterator[Executor]:
    most = max(1, min(nodes, _native.threads()))
    if workers == "threads":
        with ThreadPoolExecutor(most, "npaccel segment") as threads:
            yield threads
    else:
        # A fork would copy locks that other threads hold.
        with ProcessPoolExecutor(most, get_context("spawn")) as processes:
            yield processes


def _run(
    function: Callable[..., Any],
    blocks: Sequence[Block],
    arguments: Callable[[Block], tuple[Any, ...]],
    workers: str,
    nodes: int,
) -> list[tuple[Block, Any]]:
    """What the function gives for each block, in their order."""
    if workers not in WORKERS:
        raise MapError(f"workers={workers!r}; it is one of {', '.join(WORKERS)}")
    if workers == "here":
        return [(block, function(*arguments(block))) for block in blocks]
    of_node: dict[int, list[Block]] = {}
    for block in blocks:
        of_node.setdefault(block.owner, []).append(block)
    done: dict[int, Any] = {}
    with _pool(workers, nodes) as pool:
        jobs = []
        for mine in of_node.values():
            given = [tuple(map(_plain, arguments(block))) for block in mine]
            jobs.append((mine, pool.submit(_in_turn, function, given)))
        for mine, job in jobs:
            done.update(zip((block.id for block in mine), job.result(), strict=True))
    return [(block, done[block.id]) for block in blocks]


def _in_turn(function: Callable[..., Any], given: Iterable[tuple[Any, ...]]) -> list[Any]:
    """One node's segments; runs there."""
    return [function(*arguments) for arguments in given]


def _plain(part: Any) -> Any:
    """Evaluated, and NumPy's."""
    if not isinstance(part, _native.ArrayBase):
        return part
    _native.touch(part, write=True)
    return _native.plain(part)


# -------------------------------------------------------------------------------- reduce and scan


def reduce(function: Callable[[Any, Any], Any], x: Any, *, workers: Workers = "here") -> Any:
    """Combine all elements of an array with a map, segment by segment.

    Parameters
    ----------
    function : of two arrays of one shape, element by element: a ufunc, ``lambda a, b: ...``. It is
        associative; the order of elements stays, how they are grouped is decided by the map's
        segments and their sizes alone, not by who computes them when.
    x : an array with a map, of one element at least.

    Returns
    -------
    A NumPy scalar. Sums of floats have other last bits than ``x.sum()``, whose order does not
    depend on maps.
    """
    made = map_of(x)
    parts = sorted(made.blocks("node"), key=lambda block: block.id)
    if not math.prod(made.shape):
        raise MapError("reduce: an array without elements; there is nothing to combine")
    line = placed_view(x, made)
    arguments = lambda block: (line[block.slices], function)  # noqa: E731
    found = [result for _, result in _run(_folded, parts, arguments, workers, made.nodes)]
    return _fold(np.concatenate([np.reshape(part, 1) for part in found]), function)[0]


def _folded(part: Array, function: Callable[[Any, Any], Any]) -> Any:
    """All elements of a segment, as an array of one; runs where the segment is."""
    return _fold(np.ascontiguousarray(part).reshape(-1), function)


def _fold(line: Any, function: Callable[[Any, Any], Any]) -> Any:
    """Neighbours in pairs, again and again: an array of one element."""
    while len(line) > 1:
        even = len(line) & ~1
        pairs = function(line[0:even:2], line[1:even:2])
        line = np.concatenate([pairs, line[even:]]) if even < len(line) else pairs
    return line


def scan(function: Callable[[Any, Any], Any], x: Any, *, workers: Workers = "here") -> Any:
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
    made = map_of(x)
    if x.ndim != 1:
        raise MapError(
            f"scan: an array of {x.ndim} axes; it goes along the one axis of a 1-d array"
        )
    parts = sorted(made.blocks("node"), key=lambda block: block.offset)
    arguments = lambda block: (x[block.slices], function)  # noqa: E731
    found = _run(_scanned, parts, arguments, workers, made.nodes)
    results, before = [], None
    for block, part in found:
        whole = part if before is None else function(np.broadcast_to(before, part.shape), part)
        results.append((block, whole))
        before = whole[-1:]
    return _together(x, made, results)


def _scanned(part: Array, function: Callable[[Any, Any], Any]) -> Any:
    """Of one segment; runs where it is."""
    if isinstance(function, np.ufunc):
        return function.accumulate(part)
    line, step = np.array(part), 1
    while step < len(line):
        line = np.concatenate([line[:step], function(line[:-step], line[step:])])
        step *= 2
    return line
