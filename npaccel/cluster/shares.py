"""How many each node gets: shares of things in a row, things dealt in turn.

Everything here is plain integers; what is asked for and can't be done is a `MapError`.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from npaccel.errors import MapError

__all__ = ["axis_of", "blocks", "counts", "dealt", "integers", "shares", "tile", "tiled"]


def integers(given: Any, what: str) -> tuple[int, ...]:
    try:
        found = tuple(map(operator.index, given if isinstance(given, Iterable) else (given,)))
    except TypeError:
        raise MapError(f"Map: {what}={given!r}; it is integers, one per axis") from None
    if any(n < 0 for n in found):
        raise MapError(f"Map: {what}={given!r} has a negative number; count from the start")
    return found


def axis_of(axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise MapError(f"Map: axis {axis} of a shape with {ndim} axes; it is below {ndim}")
    return axis % ndim


def _checked(nodes: int, weights: Sequence[float] | None) -> list[float]:
    if nodes < 1:
        raise MapError(f"Map: nodes={nodes}; there is at least one")
    found = [1.0] * nodes if weights is None else [float(w) for w in weights]
    if len(found) != nodes:
        raise MapError(f"Map: {len(found)} weights for {nodes} nodes; give one for each")
    if not all(w > 0 and math.isfinite(w) for w in found):
        raise MapError(f"Map: weights={list(weights or ())}; each is a positive number")
    return found


def shares(n: int, nodes: int, weights: Sequence[float] | None, what: str) -> tuple[int, ...]:
    """Where each node's share of `n` things in a row ends, but for the last one's."""
    found = _checked(nodes, weights)
    if nodes > n:
        raise MapError(
            f"Map: {nodes} nodes for {what}, so that some would have nothing; "
            f"ask for {n} nodes at most"
        )
    total, before = sum(found), itertools.accumulate(found[:-1])
    # As near to its share as whole numbers are; but everybody has something.
    ends = [max(k + 1, min(n - nodes + k + 1, int(n * w / total))) for k, w in enumerate(before)]
    for k in range(1, len(ends)):
        ends[k] = max(ends[k], ends[k - 1] + 1)
    return tuple(ends)


def dealt(n: int, nodes: int, weights: Sequence[float] | None) -> tuple[int, ...]:
    """Things dealt to nodes in turn; a node of twice the weight has twice as many turns."""
    found = _checked(nodes, weights)
    if nodes > n:
        raise MapError(f"Map: {nodes} nodes for {n} segments; ask for {n} nodes at most")
    if weights is None:
        return tuple(k % nodes for k in range(n))
    total, credit, turns = sum(found), [0.0] * nodes, []
    for _ in range(n):
        credit = [c + w for c, w in zip(credit, found, strict=True)]
        turn = max(range(nodes), key=credit.__getitem__)
        credit[turn] -= total
        turns.append(turn)
    return tuple(turns)


def blocks(space: tuple[int, ...], block: Any, what: str) -> tuple[int, ...]:
    found = integers(block, what)
    if len(found) != len(space) or 0 in found:
        raise MapError(
            f"Map: {what}={block!r} for an index space of shape {space}; "
            "it is a positive number per axis"
        )
    return found


def tiled(shape: tuple[int, ...], block: Any) -> tuple[tuple[int, ...], ...]:
    extent = blocks(shape, block, "block")
    return tuple(tuple(range(n, length, n)) for n, length in zip(extent, shape, strict=True))


def tile(edges: tuple[int, ...]) -> int:
    """The length of an axis's cells, of which the last may be shorter; 0: they differ."""
    tile = edges[1] - edges[0]
    regular = all(b - a == tile for a, b in itertools.pairwise(edges[:-1]))
    return tile if regular and edges[-1] - edges[-2] <= tile else 0


def counts(extent: Sequence[int], block: Sequence[int]) -> list[int]:
    return [-(-n // b) for n, b in zip(extent, block, strict=True)]
