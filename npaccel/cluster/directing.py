"""What the process that drives a cluster tells nodes of functions of the user's (calling.py)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from npaccel.cluster.calling import Call, Called, Failed, Settle, Source, Told
from npaccel.cluster.checkpoints import Piece
from npaccel.cluster.messages import DONE, LOST
from npaccel.cluster.orders import Order, Reply
from npaccel.cluster.parts import Block
from npaccel.cluster.placing import Layout

__all__ = ["Came", "Functions"]


class Came(NamedTuple):
    """What came of a call, of all nodes: see `Called`; number : of what was made."""

    number: int
    made: dict[int, Any]
    written: frozenset[int]
    told: tuple[Told, ...]
    failed: Failed | None


class Asks(Protocol):
    """What knows of pieces and nodes, as `Directory`."""

    pieces: dict[int, Piece]

    def source(self, number: int, dtype: np.dtype[Any], layout: Layout) -> Source: ...
    def ask(self, orders: Mapping[int, Order]) -> dict[int, Reply]: ...
    def note(self, again: Any, reads: Any, writes: Any, size_bytes: int) -> None: ...


class Functions:
    """Calls, numbered."""

    def __init__(self, directory: Asks) -> None:
        self._directory = directory
        self._number = 0

    def call(
        self,
        code: bytes,
        blocks: Sequence[Block],
        layout: Layout,
        of: Sequence[tuple[int, np.dtype[Any]]],
        brings: bool,
    ) -> Came:
        """Have a function called with blocks, each by its owner.

        layout : in which blocks are boxes. of : pieces that are placed as blocks are owned.
        """
        self._number += 1
        number = self._number
        came = self._called(number, code, blocks, layout, of, brings)
        pieces = [n for n, _ in of]
        sizes = {pieces[k]: self._directory.pieces[pieces[k]].size for k in came.written}
        if sizes or not brings:
            again = functools.partial(self._again, number, code, blocks, layout, of, brings)
            self._directory.note(again, frozenset(pieces), sizes, len(code))
        return came

    def _called(
        self,
        number: int,
        code: bytes,
        blocks: Sequence[Block],
        layout: Layout,
        of: Sequence[tuple[int, np.dtype[Any]]],
        brings: bool,
    ) -> Came:
        sources = tuple(self._directory.source(n, dtype, layout) for n, dtype in of)
        by_node: dict[int, list[tuple[int, Block]]] = {}
        for place, block in enumerate(blocks):
            by_node.setdefault(block.owner, []).append((place, block))
        replies = self._directory.ask(
            {
                node: Order(call=Call(number, code, mine, sources, brings))
                for node, mine in by_node.items()
            }
        )
        return _together(number, [one.called for one in replies.values() if one.called])

    def _again(self, *args: Any) -> int:
        self._called(*args)
        return DONE

    def settle(self, number: int, piece: int, layout: Layout | None, nodes: Sequence[int]) -> None:
        """What a call made is a piece, or (0) is not needed."""
        self._settle(number, piece, layout, nodes)
        size = self._directory.pieces[piece].size if piece else 0
        again = functools.partial(self._settle_again, number, piece, layout, nodes)
        self._directory.note(again, frozenset(), {piece: size} if piece else {}, 0)

    def _settle(self, number: int, piece: int, layout: Layout | None, nodes: Sequence[int]) -> None:
        size = self._directory.pieces[piece].size if piece else 0
        order = Order(settle=Settle(number, piece, size, layout))
        self._directory.ask(dict.fromkeys(nodes, order))
        if piece:
            self._directory.pieces[piece].lost = False

    def _settle_again(self, *args: Any) -> int:
        try:
            self._settle(*args)
        except RuntimeError:
            return LOST
        return DONE


def _together(number: int, all_called: Sequence[Called]) -> Came:
    made: dict[int, Any] = {}
    for one in all_called:
        made.update(one.made)
    told = sorted((one for called in all_called for one in called.told), key=lambda one: one.place)
    failed = [one.failed for one in all_called if one.failed is not None]
    written = frozenset().union(*(one.written for one in all_called))
    first = min(failed, key=lambda one: one.place, default=None)
    return Came(number, made, written, tuple(told), first)
