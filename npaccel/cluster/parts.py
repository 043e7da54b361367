"""What a map consists of: segments, and blocks within them."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Block", "Segment"]


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
