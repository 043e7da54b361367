"""Nodes that are told something: their replies, and who of them is gone."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from npaccel.cluster.orders import Reply
from npaccel.cluster.wires import TICK_S, Gone, Wire

__all__ = ["SILENCE_S", "Asked", "Group", "Line", "Silence"]

_Selector = getattr(selectors, "PollSelector", selectors.SelectSelector)  # has no limit of 1024
SILENCE_S = 60.0  # how long a node waits for another's message, and for its next piece
LATE = 8  # ticks after which a node that does not say that it lives is gone
NO_PULSE = f"it did not answer for {LATE * TICK_S:g} s"


class Silence(Exception):
    """A node's message did not come: (the node, stage, who waited, seconds)."""

    def __str__(self) -> str:
        node, stage, waiting, seconds = self.args
        return (
            f"node {waiting} waited {seconds:g} s in stage {stage} for a message of node {node}, "
            "which did not come; its worker may be gone"
        )


class Group(NamedTuple):
    """What came of an order for several nodes, as `Asked` has it."""

    replies: dict[int, Reply]
    errors: dict[int, Exception]
    lost: dict[int, str]

    @property
    def failed(self) -> bool:
        """Whether it is not done."""
        return bool(self.errors or self.lost)


class Line:
    """The connections to a node: for orders, for what is given up, and for whether it lives: there
    a native thread sends back what it is sent.

    asked : how often it was told to give up, and has not answered; ticks : in which nothing of it
    was heard.
    """

    def __init__(self, orders: Wire, pulse: Wire, life: socket.socket) -> None:
        self.orders, self.pulse, self.life = orders, pulse, life
        life.setblocking(False)
        self.asked = self.ticks = 0

    def ask_life(self) -> None:
        """Whether it lives.

        Raises
        ------
        Gone : it does not.
        """
        try:
            self.life.send(b"?")
        except BlockingIOError:  # it was asked often enough
            return
        except OSError as error:
            raise Gone(str(error)) from None

    def hear_life(self) -> None:
        """It lives.

        Raises
        ------
        Gone : it has ended.
        """
        try:
            if not self.life.recv(1 << 10):
                raise Gone("it has ended")
        except BlockingIOError:
            return
        except OSError as error:
            raise Gone(str(error)) from None
        self.ticks = 0

    def close(self) -> None:
        self.orders.close()
        self.pulse.close()
        self.life.close()


class Asked:
    """Nodes that were told something: what they reply, and who is gone, and why.

    A node is gone when a connection ends, when it has not said for so many ticks that it lives, or
    when another one has waited for it too long.
    """

    def __init__(self, lines: Mapping[int, Line], run: int) -> None:
        self._lines, self._run = lines, run
        self._waiting: set[int] = set()
        self._selector: selectors.BaseSelector | None = None
        self._hurried = False
        self.replies: dict[int, Any] = {}  # a Reply, or of who tells others a Group
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
        with _Selector() as selector:
            self._selector = selector
            for k in self._waiting:
                line = self._lines[k]
                selector.register(line.orders, selectors.EVENT_READ, (self._hear, k))
                selector.register(line.life, selectors.EVENT_READ, (self._lives, k))
                if line.asked:
                    self._watch_pulse(k)
            while self._waiting:
                events = selector.select(TICK_S)
                if self._hurried:
                    self._hurried = False
                    self._have_given_up()
                for key, _ in events:
                    hear, k = key.data
                    if k in self._waiting:
                        hear(k)
                if not events:
                    self._look()
        self._selector = None

    def _watch_pulse(self, k: int) -> None:
        selector, pulse = self._selector, self._lines[k].pulse
        if selector is not None and k in self._waiting and pulse not in selector.get_map():
            selector.register(pulse, selectors.EVENT_READ, (self._beat, k))

    def _done(self, k: int) -> None:
        """It is not waited for any more."""
        if k not in self._waiting:
            return
        self._waiting.discard(k)
        if self._selector is not None:
            line = self._lines[k]
            for one in (line.orders, line.pulse, line.life):
                if one in self._selector.get_map():
                    self._selector.unregister(one)

    def _hear(self, k: int) -> None:
        try:
            reply = self._lines[k].orders.receive()
        except Gone as error:
            self._lose(k, str(error))
            return
        self._done(k)
        if not isinstance(reply, Exception):
            self.replies[k] = reply
            if isinstance(reply, Group) and reply.failed:
                self._have_given_up()
            return
        self.errors[k] = reply
        if isinstance(reply, Silence) and reply.args[3]:
            self._lose(reply.args[0], str(reply))
        self._have_given_up()  # the others may wait for what it does not send any more

    def _beat(self, k: int) -> None:
        line = self._lines[k]
        try:
            line.pulse.receive()
        except Gone as error:
            self._lose(k, str(error))
        line.asked, line.ticks = line.asked - 1, 0

    def _lives(self, k: int) -> None:
        try:
            self._lines[k].hear_life()
        except Gone as error:
            self._lose(k, str(error))

    def _look(self) -> None:
        """Nobody has said anything for a tick."""
        for k in sorted(self._waiting):
            line = self._lines[k]
            line.ticks += 1
            if line.ticks >= LATE:
                self._lose(k, NO_PULSE)
                continue
            try:
                line.ask_life()
            except Gone as error:
                self._lose(k, str(error))

    def _tell_to_give_up(self, k: int) -> None:
        """It gives up this run."""
        try:
            self._lines[k].pulse.send(self._run)
            self._lines[k].asked += 1
            self._watch_pulse(k)
        except Gone as error:
            self._lose(k, str(error))

    def _lose(self, node: int, why: str) -> None:
        self._done(node)
        if node in self.lost:
            return
        self.lost[node] = why
        self._have_given_up()

    def hurry(self) -> None:
        """Those that are waited for give up the run, within a tick; from any thread."""
        self._hurried = True

    def _have_given_up(self) -> None:
        for k in sorted(self._waiting) if self._run >= 0 else ():
            self._tell_to_give_up(k)
