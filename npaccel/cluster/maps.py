"""Maps: how an index space is split into segments without overlap, and which node has each.

A map knows shapes and numbers of nodes, no array and no machine. It does not change.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from npaccel.cluster import shares
from npaccel.cluster.boxes import Box, box_at, boxes_of_run
from npaccel.cluster.cells import boxes_of, cells_of, check_inside
from npaccel.cluster.parts import Block, Segment
from npaccel.errors import MapError
from npaccel.later import later

if TYPE_CHECKING:
    from npaccel.cluster import moves, pictures
else:
    moves = later("npaccel.cluster.moves")
    pictures = later("npaccel.cluster.pictures")

__all__ = ["GRANULARITIES", "Block", "Cursor", "Granularity", "Map", "Segment"]

Index = int | tuple[int, ...]
Granularity = Literal["algorithm", "memory", "node"]
Assign = Literal["block", "cyclic"] | Callable[["Segment"], int]
GRANULARITIES: Final = ("algorithm", "memory", "node")
FORMAT: Final = 1  # of `Map.to_dict`


class _Grid(NamedTuple):
    """Blocks of a granularity: per axis its extent, and per cell of the axis how many there are
    before it."""

    extent: tuple[int, ...] | None
    before: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Map:
    """A split of an index space into segments, each on a node.

    Made by `row_block`, `block`, `column_block`, `row_cyclic`, `block_cyclic`, `block_block`,
    `grid`, `split` or `from_segments`. Immutable; equal where segments, nodes and granularities
    are.

    Parameters
    ----------
    shape : of the arrays that it is for.
    splits : per axis of the space where a segment ends, without 0 and the end.
    owners : per segment its node.
    nodes : how many there are.
    flat : the space is `shape` in row-major order, as one axis: segments may end within a row.
    cells : per cell between split points its segment's number; None: each is one of its own.
    memory, algorithm : extents of the blocks that are moved and worked on at a time, each dividing
        the one before; None: as the coarser granularity.

    Raises
    ------
    MapError : segments overlap or do not cover, a granularity does not divide, more nodes than
        segments.
    """

    shape: tuple[int, ...]
    splits: tuple[tuple[int, ...], ...]
    owners: tuple[int, ...]
    nodes: int
    flat: bool = False
    cells: tuple[int, ...] | None = None
    memory: tuple[int, ...] | None = None
    algorithm: tuple[int, ...] | None = None
    _edges: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    _tiles: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _ends: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = field(
        init=False, repr=False, compare=False
    )
    _grids: dict[str, _Grid] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        put = functools.partial(object.__setattr__, self)
        put("shape", shares.integers(self.shape, "shape"))
        put("owners", tuple(map(operator.index, self.owners)))
        put("splits", tuple(shares.integers(points, "splits") for points in self.splits))
        _check_splits(self.space, self.splits)
        edges = tuple((0, *p, n) for n, p in zip(self.space, self.splits, strict=True))
        put("_edges", edges)
        put("_tiles", tuple(map(shares.tile, edges)))
        cells = math.prod(len(axis) - 1 for axis in edges) if math.prod(self.shape) else 0
        _check_owners(self, cells)
        put(
            "_ends",
            () if self.cells is None else boxes_of(self.cells, self._edges, len(self.owners)),
        )
        put("_grids", {})
        for name in ("memory", "algorithm"):
            extent = getattr(self, name)
            put(name, extent if extent is None else shares.blocks(self.space, extent, name))
        _check_granularities(self)
        for name in GRANULARITIES:
            self._grids[name] = self._grid(name)

    # What it is made by.

    @classmethod
    def row_block(
        cls,
        shape: Sequence[int],
        nodes: int,
        *,
        weights: Sequence[float] | None = None,
        **blocks: Any,
    ) -> Map:
        """As many elements for each node, in row-major order: 36 on 4 nodes are 0-8, 9-17, ...

        weights : of nodes; who has a larger one gets more. blocks : memory=, algorithm=.
        """
        shape = shares.integers(shape, "shape")
        splits = shares.shares(math.prod(shape), nodes, weights, f"{math.prod(shape)} elements")
        return cls(shape, (splits,), tuple(range(nodes)), nodes, flat=True, **blocks)

    @classmethod
    def block(
        cls,
        shape: Sequence[int],
        nodes: int,
        *,
        axis: int = 0,
        weights: Sequence[float] | None = None,
        **blocks: Any,
    ) -> Map:
        """Whole rows (columns along another axis) without gaps for each node."""
        shape = shares.integers(shape, "shape")
        axis = shares.axis_of(axis, len(shape))
        splits: list[tuple[int, ...]] = [()] * len(shape)
        splits[axis] = shares.shares(
            shape[axis], nodes, weights, f"{shape[axis]} along axis {axis}"
        )
        return cls(shape, tuple(splits), tuple(range(nodes)), nodes, **blocks)

    @classmethod
    def column_block(cls, shape: Sequence[int], nodes: int, **options: Any) -> Map:
        """`block` along the last axis."""
        return cls.block(shape, nodes, axis=-1, **options)

    @classmethod
    def row_cyclic(
        cls, shape: Sequence[int], nodes: int, *, weights: Sequence[float] | None = None
    ) -> Map:
        """Element k of row-major order is on node k modulo `nodes`."""
        shape = shares.integers(shape, "shape")
        n = math.prod(shape)
        owners = shares.dealt(n, nodes, weights)
        return cls(shape, (tuple(range(1, n)),), owners, nodes, flat=True)

    @classmethod
    def block_cyclic(cls, shape: Sequence[int], nodes: int, block: Index, **options: Any) -> Map:
        """Segments of the extent `block`, dealt to the nodes in turn, row by row."""
        shape = shares.integers(shape, "shape")
        return cls.split(shape, shares.tiled(shape, block), nodes, assign="cyclic", **options)

    @classmethod
    def block_block(cls, shape: Sequence[int], nodes: int, block: Index, **options: Any) -> Map:
        """Segments of the extent `block`; each node has some that follow each other row by row."""
        shape = shares.integers(shape, "shape")
        return cls.split(shape, shares.tiled(shape, block), nodes, assign="block", **options)

    @classmethod
    def grid(cls, shape: Sequence[int], nodes: Sequence[int], **blocks: Any) -> Map:
        """A grid of nodes: ``nodes[k]`` of them along axis k, one segment for each."""
        shape, counts = shares.integers(shape, "shape"), shares.integers(nodes, "nodes")
        if len(counts) != len(shape):
            raise MapError(
                f"Map.grid: nodes={counts} for {len(shape)} axes of shape {shape}; give a number "
                "of nodes per axis (1: the axis is not split)"
            )
        splits = tuple(
            shares.shares(n, count, None, f"{n} along axis {axis}")
            for axis, (n, count) in enumerate(zip(shape, counts, strict=True))
        )
        total = math.prod(counts)
        return cls(shape, splits, tuple(range(total)), total, **blocks)

    @classmethod
    def split(
        cls,
        shape: Sequence[int],
        splits: Sequence[Sequence[int]],
        nodes: int,
        *,
        assign: Assign = "block",
        weights: Sequence[float] | None = None,
        **blocks: Any,
    ) -> Map:
        """Segments between split points, as irregular as they are given.

        Parameters
        ----------
        splits : per axis where segments end, without 0 and the end; (): the axis is not split.
        assign : "block" (neighbours together), "cyclic" (in turn), or a function that is given each
            `Segment` (its owner is -1) and returns its node.
        weights : of the nodes, for the first two; who has a larger one gets more segments.
        """
        shape = shares.integers(shape, "shape")
        points = tuple(shares.integers(axis, "splits") for axis in splits)
        _check_splits(shape, points)
        n = math.prod(len(axis) + 1 for axis in points)
        _check_nodes(nodes, n)
        owners: Sequence[int]
        if callable(assign):
            plain = cls(shape, points, (0,) * n, 1)
            owners = [int(assign(part._replace(owner=-1))) for part in plain.segments]
        elif assign == "cyclic":
            owners = shares.dealt(n, nodes, weights)
        elif assign == "block":
            ends = (0, *shares.shares(n, nodes, weights, f"{n} segments"), n)
            owners = [k for k in range(nodes) for _ in range(ends[k + 1] - ends[k])]
        else:
            raise MapError(f"Map.split: assign={assign!r}; it is 'block', 'cyclic' or a function")
        return cls(shape, points, tuple(owners), nodes, **blocks)

    @classmethod
    def from_segments(
        cls,
        shape: Sequence[int],
        segments: Iterable[tuple[int, Sequence[int], Sequence[int]]],
        nodes: int | None = None,
        **blocks: Any,
    ) -> Map:
        """Segments given one by one, as (node, offset, extent): any boxes that cover the space."""
        shape = shares.integers(shape, "shape")
        given = [(int(owner), tuple(offset), tuple(extent)) for owner, offset, extent in segments]
        if nodes is not None:
            _check_nodes(nodes, len(given))
        count = max((owner for owner, _, _ in given), default=0) + 1 if nodes is None else nodes
        return cls.of_boxes(shape, given, count, **blocks)

    @classmethod
    def of_boxes(
        cls,
        shape: tuple[int, ...],
        given: Sequence[tuple[int, Sequence[int], Sequence[int]]],
        nodes: int,
        **blocks: Any,
    ) -> Map:
        """As `from_segments`; some nodes may have nothing."""
        boxes = [box_at(offset, extent) for _, offset, extent in given]
        check_inside(shape, given, boxes)
        edges = [
            sorted({0, n, *(part[axis].start for part in boxes), *(p[axis].stop for p in boxes)})
            for axis, n in enumerate(shape)
        ]
        cells = cells_of(shape, edges, boxes)
        owners = tuple(owner for owner, _, _ in given)
        splits = tuple(tuple(points[1:-1]) for points in edges)
        return cls(shape, splits, owners, nodes, cells=cells, **blocks)

    # What it says.

    @property
    def space(self) -> tuple[int, ...]:
        """What is split: `shape`, or all of it as one axis."""
        return (math.prod(self.shape),) if self.flat else self.shape

    @property
    def segments(self) -> Sequence[Segment]:
        """All segments, by number."""
        return _Segments(self)

    def __len__(self) -> int:
        return len(self.owners)

    def _box(self, number: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Offset and extent of a segment."""
        if self.cells is not None:
            return self._ends[number]
        offset: list[int] = []
        extent: list[int] = []
        for edges in reversed(self._edges):
            number, place = divmod(number, len(edges) - 1)
            offset.append(edges[place])
            extent.append(edges[place + 1] - edges[place])
        return tuple(offset[::-1]), tuple(extent[::-1])

    def _cell(self, axis: int, i: int) -> int:
        """The cell of an axis that holds index `i`: by division, else by binary search."""
        tile = self._tiles[axis]
        return i // tile if tile else bisect.bisect_right(self._edges[axis], i) - 1

    def _at(self, index: Index) -> tuple[int, ...]:
        """An index of `shape` as one of the space; negative ones count from the end."""
        given = index if isinstance(index, tuple) else (index,)
        if len(given) != len(self.shape):
            raise IndexError(f"{len(given)} indices for a map of shape {self.shape}")
        found = []
        for axis, (i, n) in enumerate(zip(map(operator.index, given), self.shape, strict=True)):
            if not -n <= i < n:
                raise IndexError(f"index {i} is out of bounds for axis {axis} with size {n}")
            found.append(i + n if i < 0 else i)
        if not self.flat:
            return tuple(found)
        number = 0
        for i, n in zip(found, self.shape, strict=True):
            number = number * n + i
        return (number,)

    def segment(self, index: Index) -> Segment:
        """The segment with the element at `index` of an array of this shape."""
        return self.segments[self._number(self._at(index))]

    def _number(self, at: tuple[int, ...]) -> int:
        number = 0
        for axis, i in enumerate(at):
            number = number * (len(self._edges[axis]) - 1) + self._cell(axis, i)
        return number if self.cells is None else self.cells[number]

    def owner(self, index: Index) -> int:
        """The node with the element at `index`."""
        return self.owners[self._number(self._at(index))]

    def locate(self, index: Index) -> tuple[Segment, tuple[int, ...]]:
        """The segment with the element at `index`, and where in it."""
        at = self._at(index)
        found = self.segments[self._number(at)]
        return found, tuple(i - o for i, o in zip(at, found.offset, strict=True))

    def cursor(self) -> Cursor:
        """A look-up that remembers the last segment."""
        return Cursor(self)

    def boxes(self, number: int) -> Iterator[Box]:
        """A segment as boxes of `shape`: one, or of a flat map perhaps several."""
        offset, extent = self._box(number)
        if self.flat:
            return boxes_of_run(offset[0], offset[0] + extent[0], self.shape)
        return iter((box_at(offset, extent),))

    def owner_array(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Per element its node, as an array of this shape."""
        found = np.empty(self.space, np.int64)
        for part in self.segments:
            found[part.slices] = part.owner
        return found.reshape(self.shape)

    def loads(self) -> tuple[int, ...]:
        """Per node how many elements it has."""
        found = [0] * self.nodes
        for part in self.segments:
            found[part.owner] += math.prod(part.extent)
        return tuple(found)

    # Granularities.

    def _grid(self, name: str) -> _Grid:
        extent = self.algorithm if name == "algorithm" and self.algorithm else None
        extent = extent or (self.memory if name != "node" else None)
        if extent is None or self.cells is not None:
            return _Grid(extent, ())
        before = tuple(
            tuple(
                itertools.accumulate(
                    (-(-(b - a) // n) for a, b in itertools.pairwise(e)), initial=0
                )
            )
            for e, n in zip(self._edges, extent, strict=True)
        )
        return _Grid(extent, before)

    def _block_extent(self, name: str, segment: Segment) -> tuple[int, ...]:
        return self._grids[name].extent or segment.extent

    def _block_id(self, name: str, segment: Segment, place: Sequence[int]) -> int:
        """Of the block at `place` of the segment's own grid of blocks."""
        grid = self._grids[name]
        if grid.extent is None:
            return segment.id
        if grid.before:
            number = 0
            for axis, (before, i) in enumerate(zip(grid.before, place, strict=True)):
                at = before[self._cell(axis, segment.offset[axis])] + i
                number = number * before[-1] + at
            return number
        counts = [shares.counts(part.extent, grid.extent) for part in self.segments[: segment.id]]
        inside = 0
        for i, n in zip(place, shares.counts(segment.extent, grid.extent), strict=True):
            inside = inside * n + i
        return sum(map(math.prod, counts)) + inside

    def blocks(self, granularity: Granularity = "node") -> Iterator[Block]:
        """All blocks of a granularity, segment by segment."""
        _check_granularity(granularity)
        return (block for part in self.segments for block in self._inside(granularity, part))

    def _inside(self, name: str, part: Segment) -> Iterator[Block]:
        extent = self._block_extent(name, part)
        for place in itertools.product(*map(range, shares.counts(part.extent, extent))):
            yield self._block(name, part, place)

    def _block(self, name: str, part: Segment, place: Sequence[int]) -> Block:
        extent = self._block_extent(name, part)
        local = [i * n for i, n in zip(place, extent, strict=True)]
        length = tuple(
            min(n, whole - at) for n, whole, at in zip(extent, part.extent, local, strict=True)
        )
        moved = [at // n for at, n in zip(local, self._block_extent("memory", part), strict=True)]
        offset = tuple(o + at for o, at in zip(part.offset, local, strict=True))
        memory = self._block_id("memory", part, moved)
        number = self._block_id(name, part, place)
        return Block(number, part.id, memory, part.owner, offset, length)

    def block_of(self, index: Index, granularity: Granularity = "node") -> Block:
        """The block with the element at `index`."""
        _check_granularity(granularity)
        part, local = self.locate(index)
        extent = self._block_extent(granularity, part)
        return self._block(granularity, part, [i // n for i, n in zip(local, extent, strict=True)])

    def moves_to(self, other: Map, item_bytes: int) -> moves.Redistribution:
        """What goes where when an array with elements of that size is placed by another map."""
        return moves.redistribution(self, other, item_bytes)

    # Outside.

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain numbers, lists and texts, which JSON can hold."""
        return {
            "npaccel.Map": FORMAT,
            "shape": list(self.shape),
            "splits": [list(points) for points in self.splits],
            "owners": list(self.owners),
            "nodes": self.nodes,
            "flat": self.flat,
            "cells": None if self.cells is None else list(self.cells),
            "memory": None if self.memory is None else list(self.memory),
            "algorithm": None if self.algorithm is None else list(self.algorithm),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Map:
        """The map that `to_dict` wrote; it is checked as any other."""
        given = dict(data)
        version = given.pop("npaccel.Map", None)
        if version != FORMAT:
            raise MapError(
                f"Map.from_dict: format {version!r} of a map, where this npaccel reads {FORMAT}; "
                "write it again with Map.to_dict"
            )
        try:
            cells = given.pop("cells")
            return cls(**given, cells=None if cells is None else tuple(cells))
        except (KeyError, TypeError) as error:
            raise MapError(f"Map.from_dict: not what Map.to_dict writes ({error})") from None

    def __reduce__(self) -> tuple[Any, ...]:
        return Map.from_dict, (self.to_dict(),)

    def __str__(self) -> str:
        return pictures.text(self)

    def _repr_svg_(self) -> str:
        return pictures.svg(self)


class _Segments(Sequence[Segment]):
    """A map's segments, each made when it is asked for."""

    def __init__(self, of: Map) -> None:
        self._map = of

    def __len__(self) -> int:
        return len(self._map.owners)

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[k] for k in range(*number.indices(len(self)))]
        n = len(self)
        if not -n <= number < n:
            raise IndexError(f"segment {number} of {n}")
        number %= n
        return Segment(number, self._map.owners[number], *self._map._box(number))

    def __repr__(self) -> str:
        return f"[{', '.join(map(repr, self))}]"


class Cursor:
    """Finds segments, beginning with the last one found: for who goes from element to element.

    segment : that one.
    """

    __slots__ = ("_map", "segment")

    def __init__(self, of: Map) -> None:
        self._map = of
        self.segment: Segment | None = None

    def locate(self, index: Index) -> tuple[Segment, tuple[int, ...]]:
        """As `Map.locate`."""
        at, here = self._map._at(index), self.segment
        if here is not None:
            local = tuple(i - o for i, o in zip(at, here.offset, strict=True))
            if all(0 <= i < n for i, n in zip(local, here.extent, strict=True)):
                return here, local
        self.segment = here = self._map.segments[self._map._number(at)]
        return here, tuple(i - o for i, o in zip(at, here.offset, strict=True))


# ------------------------------------------------------------------------------- what is refused


def _check_splits(space: tuple[int, ...], splits: tuple[tuple[int, ...], ...]) -> None:
    if len(splits) != len(space):
        raise MapError(
            f"Map: split points for {len(splits)} axes of an index space of shape {space}; "
            "give a sequence per axis, () for one that is not split"
        )
    for axis, (n, points) in enumerate(zip(space, splits, strict=True)):
        ends = (0, *points, n)
        if points and any(a >= b for a, b in itertools.pairwise(ends)):
            raise MapError(
                f"Map: split points {points} of axis {axis}, whose length is {n}; "
                "they rise between 0 and that, both excluded"
            )


def _check_owners(of: Map, cells: int) -> None:
    parts = cells if of.cells is None else max(of.cells, default=-1) + 1
    if of.cells is not None and (len(of.cells) != cells or min(of.cells, default=0) < 0):
        raise MapError(
            f"Map: {len(of.cells)} numbers of segments for {cells} cells; "
            "the map does not cover its space: give one for each cell"
        )
    if len(of.owners) != parts:
        raise MapError(
            f"Map: {len(of.owners)} owners for {parts} segments of shape {of.space}; "
            "the map does not cover its space: give one for each segment"
        )
    wrong = [owner for owner in of.owners if not 0 <= owner < of.nodes]
    if wrong:
        raise MapError(
            f"Map: a segment is on node {wrong[0]}, where nodes are 0 to {of.nodes - 1}; "
            "give `nodes` or another owner"
        )


def _check_nodes(nodes: int, parts: int) -> None:
    if not 1 <= nodes <= max(1, parts):
        raise MapError(
            f"Map: {nodes} nodes for {parts} segments, so that some would have nothing; "
            f"ask for {max(1, parts)} nodes at most, or split further"
        )


def _check_granularities(of: Map) -> None:
    coarse = [_lengths(of, axis) for axis in range(len(of.space))]
    what = "a node's segment"
    for name in ("memory", "algorithm"):
        extent = getattr(of, name)
        if extent is None:
            continue
        for axis, n in enumerate(extent):
            wrong = [length for length in coarse[axis] if length % n]
            if wrong:
                raise MapError(
                    f"Map: {name}={extent} does not divide {what} of length {wrong[0]} along axis "
                    f"{axis}; take a divisor of it, or split elsewhere"
                )
        coarse, what = [[n] for n in extent], "the memory block"


def _lengths(of: Map, axis: int) -> list[int]:
    """Lengths of segments along an axis, but for those that its end may have cut."""
    if of.cells is None:
        return [b - a for a, b in itertools.pairwise(of._edges[axis][:-1])]
    end = of.space[axis]
    parts = ((o[axis], n[axis]) for o, n in of._ends)
    return [n for o, n in parts if o + n < end]


def _check_granularity(name: str) -> None:
    if name not in GRANULARITIES:
        raise MapError(f"blocks({name!r}): a granularity is one of {', '.join(GRANULARITIES)}")
