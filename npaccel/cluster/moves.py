"""What moves where one map takes another's place: boxes, bytes, messages."""

from __future__ import annotations

from typing import NamedTuple

from npaccel.cluster.boxes import Box, size
from npaccel.cluster.parts import Placement
from npaccel.cluster.placing import Layout, Placed, dense_strides
from npaccel.errors import MapError

__all__ = ["Move", "Redistribution", "redistribution"]


class Move(NamedTuple):
    """A box of the array's index space that goes from one node to another."""

    source: int
    target: int
    box: Box


class Redistribution(NamedTuple):
    """Moves between nodes, and what they amount to.

    kept_bytes : that stay where they are; moved_bytes : that do not.
    messages : one for each pair of nodes between which anything goes.
    """

    moves: tuple[Move, ...]
    kept_bytes: int
    moved_bytes: int
    messages: int

    def __str__(self) -> str:
        return (
            f"{len(self.moves)} boxes in {self.messages} messages, {self.moved_bytes} bytes; "
            f"{self.kept_bytes} bytes stay"
        )


def redistribution(before: Placement, after: Placement, item_bytes: int) -> Redistribution:
    """What goes where when elements of that size, placed by one map, are placed by another."""
    if before.shape != after.shape:
        raise MapError(
            f"redistribution from a map of shape {before.shape} to one of {after.shape}; both are "
            "of one array, so of one shape"
        )
    layout = Layout(before.shape, dense_strides(before.shape, item_bytes), 0, item_bytes)
    there, moves, kept = Placed.by(layout, before), [], 0
    for number, target in enumerate(after.owners):
        for box in after.boxes(number):
            for source, part in there.split(box):
                if source == target:
                    kept += size(part)
                else:
                    moves.append(Move(source, target, part))
    pairs = {(move.source, move.target) for move in moves}
    moved = sum(size(move.box) for move in moves)
    return Redistribution(tuple(moves), kept * item_bytes, moved * item_bytes, len(pairs))
