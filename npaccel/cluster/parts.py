"""What a map consists of, segments and blocks within them, and what others need to know of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from npaccel.cluster.boxes import Box

__all__ = ["Block", "Placement", "Segment", "Shown"]


def _slices(part: Any) -> tuple[Any, ...]:
    return (*(slice(o, o + n) for o, n in zip(part.offset, part.extent, strict=True)), ...)


class Segment(NamedTuple):
    """A part of the index space that one node has.

    id : its number, row by row; owner : its node, from 0.
    offset, extent : where it begins and how long it is, per axis of `Map.space`.
    """

    id: int
    owner: int
    offset: tuple[int, ...]
    extent: tuple[int, ...]

    @property
    def slices(self) -> tuple[Any, ...]:
        """Picks the view of it from an array of the shape `Map.space`."""
        return _slices(self)


class Block(NamedTuple):
    """A part of a segment: what is moved (memory) or worked on (algorithm) at a time.

    id : row by row of the whole space, where segments form a grid; else segment by segment.
    segment : the segment's number; memory : the memory block's that it lies in.
    """

    id: int
    segment: int
    memory: int
    owner: int
    offset: tuple[int, ...]
    extent: tuple[int, ...]

    @property
    def slices(self) -> tuple[Any, ...]:
        """Picks the view of it from an array of the shape `Map.space`."""
        return _slices(self)


class Placement(Protocol):
    """Which node has what, as boxes: a map, for those who place buffers by it."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def owners(self) -> tuple[int, ...]: ...
    def boxes(self, number: int) -> Iterator[Box]: ...


class Shown(Placement, Protocol):
    """What text and pictures say of a map besides."""

    @property
    def nodes(self) -> int: ...
    @property
    def flat(self) -> bool: ...
    @property
    def memory(self) -> tuple[int, ...] | None: ...
    @property
    def algorithm(self) -> tuple[int, ...] | None: ...
    @property
    def segments(self) -> Sequence[Segment]: ...
    def owner(self, index: int | tuple[int, ...]) -> int: ...
    def loads(self) -> tuple[int, ...]: ...
    def __len__(self) -> int: ...
