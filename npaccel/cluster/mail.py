"""Messages that nodes send each other: taken in as they come, and waited for."""

from __future__ import annotations

import threading

from npaccel.cluster.asking import Silence
from npaccel.cluster.nodes import Message
from npaccel.cluster.wires import Wire

__all__ = ["Mail"]


class Mail:
    """Messages of other nodes, which may come before this one is there; who is gone."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._news = threading.Condition()
        self._messages: dict[tuple[int, int, int], Message] = {}
        self._readers: dict[int, Wire] = {}  # per node whom it last connected by
        self._given_up = -1  # the last run that is to end

    def listen(self, wire: Wire, source: int) -> None:
        """Take in all that a node sends."""
        with self._news:
            self._readers[source] = wire
        wire.send(None)  # from now on it is known who is gone
        try:
            while True:
                run, stage, message = wire.receive()
                with self._news:
                    self._messages[run, stage, source] = message
                    self._news.notify_all()
        finally:
            with self._news:
                if self._readers.get(source) is wire:
                    del self._readers[source]
                self._news.notify_all()

    def give_up(self, run: int) -> None:
        """A node that this one may wait for is gone."""
        with self._news:
            self._given_up = run
            self._news.notify_all()

    def begin(self, run: int) -> None:
        """What came of runs that were given up is forgotten.

        Raises
        ------
        Silence : this one is among them: who was to tell of it was late.
        """
        with self._news:
            if run <= self._given_up:
                raise Silence(self.number, 0, self.number, 0)
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
            ended = self._given_up == run or source not in self._readers
            return key in self._messages or ended

        with self._news:
            came = self._news.wait_for(is_over, silence_s)
            if key not in self._messages:
                raise Silence(source, stage, self.number, 0 if came else silence_s)
            return self._messages.pop(key)
