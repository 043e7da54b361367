"""Functions of the user's that nodes call with the blocks that they have.

    call      each block's parts are given to the function; what it makes is kept aside
    settle    what was kept becomes the content of a piece, or is forgotten

Between the two the program has seen of what type it is. The first block whose call fails is the
one of which the error is told, whoever calls sooner.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from npaccel.cluster.boxes import Box, box_at
from npaccel.cluster.nodes import shown
from npaccel.cluster.parts import Block
from npaccel.cluster.placing import Layout
from npaccel.cluster.shipping import carried_over, unpacked

__all__ = ["Call", "Called", "Calls", "Failed", "Far", "Settle", "Source", "Told", "part_shown"]

Array = np.ndarray[Any, Any]
Piece = Callable[[int, int], Array]  # memory by its number and size


class Source(NamedTuple):
    """A piece whose blocks a function is given; it lies as what the function makes."""

    piece: int
    size: int
    layout: Layout
    dtype: np.dtype[Any]


class Call(NamedTuple):
    """Call a function with blocks, each with its place in their order, and its part of sources.

    number : of what it makes. code : see shipping.py; it is given a block and parts. brings : what
    it makes is sent back.
    """

    number: int
    code: bytes
    blocks: Sequence[tuple[int, Block]]
    sources: tuple[Source, ...]
    brings: bool


class Settle(NamedTuple):
    """What a call made becomes a piece, in which its blocks are boxes; piece 0: it is forgotten."""

    number: int
    piece: int
    size: int
    layout: Layout | None


class Failed(NamedTuple):
    """Which block's call failed, and the error, see shipping.py."""

    place: int
    error: bytes


class Told(NamedTuple):
    """A warning: of which block, what, and for which line."""

    place: int
    message: bytes
    file: str
    line: int


class Called(NamedTuple):
    """What came of it: of each block None, the dtype and shape of what was made, or that itself;
    which sources were written; what went wrong, if it did."""

    made: dict[int, Any]
    written: frozenset[int]
    told: tuple[Told, ...]
    failed: Failed | None


class Far(Exception):
    """Where on a worker an error was raised: the cause of it, as the program sees it."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def part_shown(memory: Array, source: Source, box: Box) -> Array:
    """A box of a source."""
    return shown(memory, source.layout, box).view(source.dtype)


class Calls:
    """What a node has called, and what that made."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._made: dict[int, dict[int, tuple[Block, Array]]] = {}

    def call(self, call: Call) -> Called:
        """Call a function with each of this node's blocks, in order, until one fails."""
        function = unpacked(call.code)
        aside = self._made[call.number] = {}
        made: dict[int, Any] = {}
        written: set[int] = set()
        told: list[Told] = []
        for place, block in call.blocks:
            try:
                result = self._one(function, call, place, block, written, told)
            except BaseException as error:  # SystemExit, too, is the program's
                failed = Failed(place, carried_over(error, Far(_where(error))))
                return Called(made, frozenset(written), tuple(told), failed)
            if result is None or call.brings or result.dtype.hasobject:
                made[place] = result
            else:
                aside[place] = block, result
                made[place] = result.dtype, result.shape
        return Called(made, frozenset(written), tuple(told), None)

    def _one(
        self,
        function: Callable[..., Any],
        call: Call,
        place: int,
        block: Block,
        written: set[int],
        told: list[Told],
    ) -> Any:
        box = box_at(block.offset, block.extent)
        parts = [part_shown(self._piece(s.piece, s.size), s, box) for s in call.sources]
        before = [part.tobytes() for part in parts]
        try:
            with warnings.catch_warnings(record=True) as raised:
                warnings.simplefilter("always")
                result = function(block, *parts)
        finally:
            for k, part in enumerate(parts):
                if k not in written and part.tobytes() != before[k]:
                    written.add(k)
            for one in raised:
                message = carried_over(one.message, None)
                told.append(Told(place, message, one.filename, one.lineno))
        if result is None:
            return None
        alias = any(np.may_share_memory(result, part) for part in parts)
        return np.array(result) if alias else np.asarray(result)

    def settle(self, settle: Settle) -> None:
        """What a call made has its place, or none.

        Raises
        ------
        RuntimeError : it is gone with the worker that had it.
        """
        made = self._made.pop(settle.number, None)
        if not settle.piece or settle.layout is None:
            return
        if made is None:
            raise RuntimeError("what a function made is gone with the worker that had it")
        memory = self._piece(settle.piece, settle.size)
        for block, content in made.values():
            box = box_at(block.offset, block.extent)
            shown(memory, settle.layout, box).view(content.dtype)[...] = content


def _where(error: BaseException) -> str:
    """The traceback from the user's function on."""
    trace = error.__traceback__
    own = f"{__name__.partition('.')[0]}."
    while trace is not None and trace.tb_next is not None:
        name = trace.tb_frame.f_globals.get("__name__", "")
        if not name.startswith(own):
            break
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))
