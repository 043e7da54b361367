"""Checkpoints: copies of pieces on their nodes and on the neighbours, and a log of what came after.

    checkpoint   a piece's part on node k: there, and on node k + 1
    log          writes, runs and releases since, up to a limit
    death        all pieces are again what they were; then the log is run once more

What is not in the checkpoint is made again where the log makes it. What the log can't make is lost,
and so is all that was computed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from npaccel.cluster.disk import File
from npaccel.cluster.placing import Layout, Placed
from npaccel.cluster.plans import Keep, Stage, Transfer
from npaccel.ir.nodes import Kind, Trace, View

__all__ = [
    "COPY",
    "PIECE",
    "Checkpoint",
    "Entry",
    "Piece",
    "goes_astray",
    "neighbour",
    "restoring",
    "saving",
    "spread_loss",
]

MOST_BYTES = 1 << 28  # of the log
MOST_ENTRIES = 20_000
PIECE, COPY = 0, 1  # buffers of a plan that copies


@dataclass(slots=True)
class Piece:
    """An array's memory. held : what was written before it was placed, by first byte."""

    size: int
    placed: Placed | None = None
    held: list[tuple[int, bytes]] = field(default_factory=list)
    lost: bool = False

    @property
    def layout(self) -> Layout:
        """Where it is placed."""
        assert self.placed is not None, "it is placed"
        return self.placed.layout


class Entry(NamedTuple):
    """Something that was done: again() does it once more.

    reads, writes : pieces by number, of what it writes their sizes; what needs one that is lost
        loses what it writes.
    """

    again: Callable[[], Any]
    reads: frozenset[int]
    writes: Mapping[int, int]
    size_bytes: int


@dataclass(slots=True)
class Checkpoint:
    """Pieces as they were.

    pieces : all there were; copies : by number of piece that of its copy; files : or on disk, in
    a folder.
    """

    pieces: dict[int, Piece]
    copies: dict[int, int]
    files: dict[int, tuple[str, tuple[File, ...]]] = field(default_factory=dict)
    log: list[Entry] = field(default_factory=list)
    size_bytes: int = 0

    def note(self, entry: Entry) -> bool:
        """Put it into the log; False: there is no room any more."""
        self.log.append(entry)
        self.size_bytes += entry.size_bytes
        return self.size_bytes <= MOST_BYTES and len(self.log) <= MOST_ENTRIES

    def written(self) -> set[int]:
        """Pieces that were changed since."""
        return {number for entry in self.log for number in entry.writes}

    def keeps(self, number: int) -> bool:
        """Whether it has a piece's content."""
        return number in self.copies or number in self.files

    def can_give(self, number: int, placed: Placed, gone: set[int], nodes: int) -> bool:
        """Whether a piece's content is there, when these nodes are gone."""
        owners = {share.node for share in placed.shares}
        if number in self.files:
            return True
        if number not in self.copies:
            return not owners & gone
        return not any(k in gone and neighbour(k, nodes) in gone for k in owners)


def neighbour(node: int, nodes: int) -> int:
    """Who has a node's copies."""
    return (node + 1) % nodes


def _copied(placed: Placed, source: int, target: int) -> Stage:
    stage = Stage()
    for node, box in placed.shares:
        stage.copies.setdefault(node, []).append(Keep(source, target, box))
    return stage


def _sent(pairs: Iterable[Transfer]) -> list[Transfer]:
    return [move for move in pairs if move.source != move.target]


def saving(placed: Placed, nodes: int) -> list[Stage]:
    """Each node's part is copied there, and to the neighbour."""
    moves = (Transfer(k, neighbour(k, nodes), COPY, box) for k, box in placed.shares)
    return [_copied(placed, PIECE, COPY), Stage(transfers=_sent(moves))]


def restoring(placed: Placed, gone: set[int], nodes: int) -> list[Stage]:
    """All is as it was copied; nodes in the place of those that are gone get what these had."""

    def moves() -> Iterator[Transfer]:
        for k, box in placed.shares:
            beside = neighbour(k, nodes)
            if k in gone:
                yield Transfer(beside, k, COPY, box)
            elif beside in gone:
                yield Transfer(k, beside, COPY, box)

    stage = _copied(placed, COPY, PIECE)
    stage.transfers.extend(_sent(moves()))
    return [stage]


def spread_loss(trace: Trace, lost: Iterable[int]) -> set[int]:
    """The buffers whose content nobody knows after a run, of which nobody knew these before."""
    found = {k for k in lost if not trace.buffers[k].fresh}
    for request in trace.requests:
        if any(view.buffer in found for view in request.views):
            found.update(view.buffer for view in request.outputs)
    return found


def goes_astray(trace: Trace, lost: set[int]) -> bool:
    """Whether a run would read at places that nobody knows."""
    return any(
        request.kind is Kind.GATHER
        and any(isinstance(view, View) and view.buffer in lost for view in request.inputs[1:])
        for request in trace.requests
    )
