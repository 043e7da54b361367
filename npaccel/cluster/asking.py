"""Nodes that are told something: their replies, and who of them is gone."""

from __future__ import annotations

import select
from collections.abc import Mapping, Sequence

from npaccel.cluster.orders import Reply
from npaccel.cluster.wires import TICK_S, Gone, Wire

__all__ = ["Asked", "Line", "Silence"]

LATE = 8  # ticks after which a node that does not answer its pulse is gone
NO_PULSE = f"it did not answer for {LATE * TICK_S:g} s"


class Silence(Exception):
    """A node's message did not come: (the node, stage, who waited, seconds)."""

    def __str__(self) -> str:
        node, stage, waiting, seconds = self.args
        return (
            f"node {waiting} waited {seconds:g} s in stage {stage} for a message of node {node}, "
            "which did not come; its worker may be gone"
        )


class Line:
    """The connections to a node: for orders, and for its pulse.

    asked : how often it was asked whether it lives, and has not answered; ticks : since when.
    """

    def __init__(self, orders: Wire, pulse: Wire) -> None:
        self.orders, self.pulse = orders, pulse
        self.asked = self.ticks = 0

    def close(self) -> None:
        self.orders.close()
        self.pulse.close()


class Asked:
    """Nodes that were told something: what they reply, and who is gone, and why.

    A node is gone when its connection ends, when it has not answered its pulse for so many ticks,
    or when another one has waited for it too long.
    """

    def __init__(self, lines: Mapping[int, Line], run: int) -> None:
        self._lines, self._run = lines, run
        self._waiting: set[int] = set()
        self.replies: dict[int, Reply] = {}
        self.errors: dict[int, Exception] = {}
        self.lost: dict[int, str] = {}

    def send(self, k: int, what: Sequence[memoryview]) -> None:
        """Tell a node what was `spoken`."""
        if k not in self._lines:  # it was not replaced
            self._lose(k, "nothing is in its place")
            return
        try:
            self._lines[k].orders.say(what)
        except Gone as error:
            self._lose(k, str(error))
        else:
            self._lines[k].ticks = 0
            self._waiting.add(k)

    def wait(self) -> None:
        """Until all have answered but those that are gone."""
        while self._waiting:
            lines = [self._lines[k] for k in self._waiting]
            wires = [one.orders for one in lines] + [one.pulse for one in lines if one.asked]
            ready, _, _ = select.select(wires, [], [], TICK_S)
            for k in sorted(self._waiting):
                if self._lines[k].pulse in ready:
                    self._beat(k)
                if self._lines[k].orders in ready and k in self._waiting:
                    self._hear(k)
            if not ready:
                self._look()

    def _hear(self, k: int) -> None:
        try:
            reply = self._lines[k].orders.receive()
        except Gone as error:
            self._lose(k, str(error))
            return
        self._waiting.discard(k)
        if not isinstance(reply, Exception):
            self.replies[k] = reply
            return
        self.errors[k] = reply
        if isinstance(reply, Silence) and reply.args[3]:
            self._lose(reply.args[0], str(reply))

    def _beat(self, k: int) -> None:
        line = self._lines[k]
        try:
            line.pulse.receive()
        except Gone as error:
            self._lose(k, str(error))
        line.asked, line.ticks = line.asked - 1, 0

    def _look(self) -> None:
        """Nobody has said anything for a tick."""
        for k in sorted(self._waiting):
            line = self._lines[k]
            line.ticks += 1
            if line.ticks >= LATE:
                self._lose(k, NO_PULSE)
            elif not line.asked:
                self._ask_pulse(k, -1)

    def _ask_pulse(self, k: int, give_up: int) -> None:
        """Whether it lives; it gives up this run."""
        try:
            self._lines[k].pulse.send(give_up)
            self._lines[k].asked += 1
        except Gone as error:
            self._lose(k, str(error))

    def _lose(self, node: int, why: str) -> None:
        self._waiting.discard(node)
        if node in self.lost:
            return
        self.lost[node] = why
        if self._run >= 0:
            for k in sorted(self._waiting):
                self._ask_pulse(k, self._run)
