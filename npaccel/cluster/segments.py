"""Functions over the segments of an array that is on this machine: `forall`, `reduce`, `scan`.

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

__all__ = ["agreed", "combined", "folded", "forall", "reduce", "same_shape", "scan", "scanned"]

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
    """See `npaccel.forall`; on this machine."""
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
    same_shape(one, x)
    return placed_view(one, made), True


def same_shape(one: Array, x: Array) -> None:
    """An array beside one that is segmented.

    Raises
    ------
    MapError : it has another shape.
    """
    if one.shape != x.shape:
        raise MapError(
            f"forall: an array of shape {one.shape} beside one of shape {x.shape} that is "
            "segmented; each has the same shape, or is a scalar"
        )


def _together(x: Array, made: Map, found: Sequence[tuple[Block, Any]]) -> Any:
    """An array like `x` of what the segments gave."""
    kinds = [
        (block, None if part is None else (np.asarray(part).dtype, np.shape(part)))
        for block, part in found
    ]
    dtype = agreed(kinds)
    whole = np.empty_like(_native.view_plain(x), dtype=dtype, subok=False)
    result = _native.wrap(whole)
    line = placed_view(result, made)
    for block, part in found:
        line[block.slices] = part
    return agile(result, made)


def agreed(found: Sequence[tuple[Block, tuple[np.dtype[Any], tuple[int, ...]] | None]]) -> Any:
    """The dtype of what blocks gave, of which there is the dtype and shape.

    Raises
    ------
    MapError : there are several, some gave nothing, or a shape is not the block's.
    """
    dtypes = {one[0] for _, one in found if one is not None}
    if len(dtypes) != 1 or any(one is None for _, one in found):
        names = sorted(map(str, dtypes))
        raise MapError(
            f"forall: segments gave arrays of dtypes {', '.join(names)}"
            f"{' and None' if any(one is None for _, one in found) else ''}; it is one everywhere"
        )
    for block, one in found:
        if one is not None and one[1] != block.extent:
            raise MapError(
                f"forall: the function gave shape {one[1]} for block {block.id} of shape "
                f"{block.extent}; it gives an array of the block's shape, or writes into it"
            )
    return dtypes.pop()


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
    """See `npaccel.reduce`; on this machine."""
    made = map_of(x)
    parts = sorted(made.blocks("node"), key=lambda block: block.id)
    if not math.prod(made.shape):
        raise MapError("reduce: an array without elements; there is nothing to combine")
    line = placed_view(x, made)
    arguments = lambda block: (line[block.slices], function)  # noqa: E731
    found = [result for _, result in _run(folded, parts, arguments, workers, made.nodes)]
    return combined(found, function)


def combined(found: Sequence[Any], function: Callable[[Any, Any], Any]) -> Any:
    """What segments gave, put together."""
    return _fold(np.concatenate([np.reshape(part, 1) for part in found]), function)[0]


def folded(part: Array, function: Callable[[Any, Any], Any]) -> Any:
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
    """See `npaccel.scan`; on this machine."""
    made = map_of(x)
    if x.ndim != 1:
        raise MapError(
            f"scan: an array of {x.ndim} axes; it goes along the one axis of a 1-d array"
        )
    parts = sorted(made.blocks("node"), key=lambda block: block.offset)
    arguments = lambda block: (x[block.slices], function)  # noqa: E731
    found = _run(scanned, parts, arguments, workers, made.nodes)
    results, before = [], None
    for block, part in found:
        whole = part if before is None else function(np.broadcast_to(before, part.shape), part)
        results.append((block, whole))
        before = whole[-1:]
    return _together(x, made, results)


def scanned(part: Array, function: Callable[[Any, Any], Any]) -> Any:
    """Of one segment; runs where it is."""
    if isinstance(function, np.ufunc):
        return function.accumulate(part)
    line, step = np.array(part), 1
    while step < len(line):
        line = np.concatenate([line[:step], function(line[:-step], line[step:])])
        step *= 2
    return line
