"""Messages that nodes send each other: taken in as they come, and waited for.

Who has sent nothing yet need not be connected. That such a node is gone the driver tells, which
asks all whether they live; of one that is connected it is known at once.
"""

from __future__ import annotations

import threading

from npaccel.cluster.asking import SILENCE_S, Silence
from npaccel.cluster.nodes import Message
from npaccel.cluster.wires import TICK_S, Wire

__all__ = ["Mail"]


class Mail:
    """Messages of other nodes, which may come before this one is there; who is gone."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._news = threading.Condition()
        self._messages: dict[tuple[int, int, int], Message] = {}
        self._readers: dict[int, Wire] = {}  # per node whom it last connected by
        self._ended: set[int] = set()  # whose connections have, since the run began
        self._given_up = -1  # the last run that is to end

    def listen(self, wire: Wire, source: int) -> None:
        """Take in all that a node sends, until it says that this is all."""
        wire.patience = round(SILENCE_S / TICK_S)
        with self._news:
            self._readers[source] = wire
            self._ended.discard(source)
        ended = True
        try:
            wire.send(None)  # from now on it is heard
            while (said := wire.receive()) is not None:
                run, stage, message = said
                with self._news:
                    self._messages[run, stage, source] = message
                    self._news.notify_all()
            ended = False
        finally:
            with self._news:
                if self._readers.get(source) is wire:
                    del self._readers[source]
                    if ended:
                        self._ended.add(source)
                self._news.notify_all()

    def forget(self, source: int) -> None:
        """Another node is in its place."""
        with self._news:
            self._ended.discard(source)
            wire = self._readers.pop(source, None)
        if wire is not None:
            wire.close()

    def give_up(self, run: int) -> None:
        """A node that this one may wait for is gone."""
        with self._news:
            self._given_up = run
            self._news.notify_all()

    def is_given_up(self, run: int) -> bool:
        """Whether it is to end."""
        return run <= self._given_up

    def begin(self, run: int) -> None:
        """What came of runs that were given up is forgotten.

        Raises
        ------
        Silence : this one is among them: who was to tell of it was late.
        """
        with self._news:
            if run <= self._given_up:
                raise Silence(self.number, 0, self.number, 0)
            self._ended.clear()
            for old in [key for key in self._messages if key[0] < run]:
                del self._messages[old]

    def take(self, run: int, stage: int, source: int, silence_s: float) -> Message:
        """A node's message.

        Raises
        ------
        Silence : it does not come.
        """
        key = run, stage, source

        def is_over() -> bool:
            return key in self._messages or run <= self._given_up or source in self._ended

        with self._news:
            came = self._news.wait_for(is_over, silence_s)
            if key not in self._messages:
                raise Silence(source, stage, self.number, 0 if came else silence_s)
            return self._messages.pop(key)
