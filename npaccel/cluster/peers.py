"""A node's connections to others, made when there is first something to say.

    node 0 ──messages──► node 1        none to those that it never sends anything
           ──messages──► node 4

Of a thousand nodes most send to a few only, as a stencil's do to their neighbours. Where each sends
to each, those that were used last are kept, and the others are ended: with a word, since a
connection that ends without one is that of a node that is gone.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from npaccel.cluster.asking import Silence
from npaccel.cluster.wires import PATIENCE, TICK_S, Gone, Late, Place, Wire

__all__ = ["MOST", "Peers"]

MOST: Final = 256  # that are kept


class Peers:
    """Where other nodes are, and the connections to them.

    Parameters
    ----------
    number : of this node. open_wire : connects to a node.
    is_given_up : of a run, whether it is to end; then nobody waits for who does not listen.
    """

    def __init__(
        self, number: int, open_wire: Callable[[Place], Wire], is_given_up: Callable[[int], bool]
    ) -> None:
        self._number, self._open, self._is_given_up = number, open_wire, is_given_up
        self._places: dict[int, Place] = {}
        self._wires: OrderedDict[int, Wire] = OrderedDict()  # the one that was used last is last

    @property
    def connected(self) -> list[int]:
        """To whom there are connections."""
        return sorted(self._wires)

    def learn(self, places: Mapping[int, Place]) -> None:
        """Where nodes are; those that are elsewhere than before are others."""
        for k, place in places.items():
            if self._places.get(k, place) != place:
                self._drop(k)
            self._places[k] = place

    def send(self, target: int, run: int, stage: int, message: Any, silence_s: float) -> None:
        """Send a message of a stage.

        Raises
        ------
        Silence : it is not taken: the node is gone, or the run was given up.
        """
        try:
            wire = self._wires.get(target)
            if wire is None:
                wire = self._connected(target, run, silence_s)
            wire.is_over = functools.partial(self._is_given_up, run)
            wire.send((run, stage, message))
        except Gone as error:
            self._drop(target)  # it may have got a part of it
            seconds = silence_s if isinstance(error, Late) else 0
            raise Silence(target, stage, self._number, seconds) from None
        self._wires.move_to_end(target)

    def _connected(self, target: int, run: int, silence_s: float) -> Wire:
        """A new connection, whose other side has said that it listens: who is not let in hears of
        it late."""
        ticks = 0
        while True:
            try:
                wire = self._open(self._places[target])
                break
            except Late:  # it may be stopped, or all others knock, too
                ticks += PATIENCE
                if ticks * TICK_S >= silence_s or self._is_given_up(run):
                    raise
        self._wires[target] = wire
        wire.patience = round(silence_s / TICK_S)
        wire.is_over = functools.partial(self._is_given_up, run)
        wire.receive(for_ever=False)
        while len(self._wires) > MOST:
            self._end()
        return wire

    def _end(self) -> None:
        """The connection that was used the longest ago."""
        _, wire = self._wires.popitem(last=False)
        with suppress(Gone):
            wire.send(None)
        wire.close()

    def _drop(self, k: int) -> None:
        wire = self._wires.pop(k, None)
        if wire is not None:
            wire.close()
