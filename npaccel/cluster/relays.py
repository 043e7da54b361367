"""Orders on their way to many nodes: the driver tells some, and each of these tells its group.

    driver ──► node 0 ──► 0, 1, 2, 3         replies of a group come back as one
           ──► node 4 ──► 4, 5, 6, 7

To tell and to hear a node takes as long as the driver's thread takes for it; so of many nodes it
tells as many as a group has. That is for runs, where all are told the same. Where something goes
wrong all are asked directly: then those that are left have ended what they did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from npaccel.cluster.asking import Asked, Group, Line
from npaccel.cluster.costs import MANY, group_size
from npaccel.cluster.orders import Order
from npaccel.cluster.wires import Gone, Place, Wire, spoken

__all__ = ["MANY", "Group", "Relay", "Relays"]

Open: TypeAlias = Callable[[Place], Line]


class Relay:
    """A node's part: it tells its group. open_line : connects to a node."""

    def __init__(self, open_line: Open) -> None:
        self._open, self._asked = open_line, list[Asked]()

    def serve(self, wire: Wire, _: int) -> None:
        """Tell the nodes that are named first what is said then, as long as it is asked for."""
        lines: dict[int, Line] = {}
        try:
            for k, place in wire.receive().items():
                lines[k] = self._open(place)
            wire.send(None)
            while True:
                order, silence_s = wire.receive()
                asked = Asked(lines, order.run.run)
                self._asked.append(asked)
                for k in lines:
                    asked.send(k, spoken((order, silence_s)))
                asked.wait()
                self._asked.remove(asked)
                wire.send(Group(asked.replies, asked.errors, asked.lost))
        finally:
            for line in lines.values():
                line.close()

    def give_up(self) -> None:
        """Another group has failed."""
        for asked in [*self._asked]:
            asked.hurry()


class Relays:
    """The driver's part.

    Parameters
    ----------
    places : of all nodes. open_relay : connects to a node that is to tell others.

    Raises
    ------
    Gone : one of these does not answer, or does not reach its group.
    """

    def __init__(self, places: Sequence[Place], open_relay: Open) -> None:
        self._lines: dict[int, Line] = {}
        size = group_size(len(places))
        for head in range(0, len(places), size):
            self._lines[head] = open_relay(places[head])
        asked = Asked(self._lines, -1)
        for head in self._lines:
            asked.send(head, spoken(dict(enumerate(places[head : head + size], head))))
        asked.wait()
        if asked.lost:
            self.close()
            raise Gone("one that is to tell others is gone")

    def ask(self, order: Order, silence_s: float, run: int) -> Group:
        """Have all nodes do it. Of a group whose head is gone nothing is known."""
        asked = Asked(self._lines, run)
        said = spoken((order, silence_s))
        for head in self._lines:
            asked.send(head, said)
        asked.wait()
        whole = Group({}, asked.errors, asked.lost)
        for group in asked.replies.values():
            whole.replies.update(group.replies)
            whole.errors.update(group.errors)
            whole.lost.update(group.lost)
        return whole

    def close(self) -> None:
        """Groups are told so no more."""
        for line in self._lines.values():
            line.close()
