"""The process that drives a cluster for a program: it plans, and speaks to the workers.

Started by `npaccel.Cluster`, given the number of a socket's end, and an address or a number of
workers to start. It ends with the program, and the workers that it has started with it.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from npaccel import system
from npaccel.cluster.dask_local import local_cluster
from npaccel.cluster.dask_workers import Fleet, WorkersLost, connected
from npaccel.cluster.directing import Functions
from npaccel.cluster.directory import Directory, Lost
from npaccel.cluster.messages import (
    CALL,
    CHECK,
    DONE,
    LOST,
    READ,
    REFUSED,
    RUN,
    WRITE,
    Question,
    hear,
    receive,
    send,
    unpack_run,
)
from npaccel.errors import BackendUnavailable

__all__ = ["Driver", "main"]

TRIES = 5  # to answer, while workers die
LOOK_S = 2.0  # how often it is looked whether the program lives
Answer = tuple[int, bytes | bytearray | memoryview]


class Driver:
    """Answers questions."""

    def __init__(self, directory: Directory) -> None:
        self.directory = directory
        self._functions = Functions(directory)
        self._why = "it is gone with the worker that had it"
        self._ways: dict[int, Callable[[Question], Answer]] = {
            RUN: self._run,
            WRITE: self._write,
            READ: self._read,
            CALL: self._call,
            CHECK: self._check,
        }

    def answer(self, question: Question) -> Answer:
        """What is to be said; what goes wrong is said, too."""
        self.directory.release(question.released)
        for again in range(TRIES):
            try:
                return self._ways[question.what](question)
            except WorkersLost as error:
                why = self._why = f"workers are gone: {', '.join(error.args[1])}"
                self.directory.reasons[why] += 1
                self.directory.lose(error.args[0])
                if question.what == RUN and self.directory.checkpoint is None:
                    return self._spoilt(question, why)
            except Exception as error:
                why = self._why = f"{type(error).__name__}: {error}"
                if question.what == RUN:
                    return self._spoilt(question, why)
                return LOST if again else REFUSED, why.encode()
        return self._spoilt(question, why) if question.what == RUN else (LOST, why.encode())

    def _spoilt(self, question: Question, why: str) -> Answer:
        """A run that may have begun: nobody knows what is in what it writes."""
        self.directory.spoil(unpack_run(question.body))
        return LOST, why.encode()

    def _run(self, question: Question) -> Answer:
        return self.directory.run(unpack_run(question.body), question.size)

    def _write(self, q: Question) -> Answer:
        return self.directory.write(q.number, q.map, q.total, q.low, q.body), b""

    def _read(self, q: Question) -> Answer:
        try:
            return DONE, self.directory.read(q.number, q.map, q.total, q.low, q.size).data
        except Lost:
            return LOST, self._why.encode()

    def _check(self, question: Question) -> Answer:
        piece = self.directory.pieces.get(question.number)
        return (LOST if piece is not None and piece.lost else DONE), b""

    def _call(self, question: Question) -> Answer:
        what, *args = pickle.loads(question.body)
        return DONE, pickle.dumps(getattr(self, f"call_{what}")(*args))

    def call_nodes(self) -> int:
        """How many there are."""
        return self.directory.fleet.nodes

    def call_speeds(self) -> list[float]:
        """What nodes do in a second."""
        return self.directory.fleet.speeds()

    def call_told(self, run: int) -> str:
        """The plan of a run."""
        return str(self.directory.told.get(run, "nothing is known of it any more"))

    def call_plans(self, most: int) -> list[Any]:
        """The plans of the last runs, the first of them first."""
        told = self.directory.told
        return [told[run] for run in sorted(told)[-most:]]

    def call_map(self, layout: Any, shares: Any) -> int:
        """The number of a map."""
        return self.directory.note_map(layout, shares)

    def call_fill(self, *args: Any) -> Exception | None:
        """Have a piece made by a function; what that raises."""
        try:
            self.directory.fill(*args)
        except WorkersLost:
            raise
        except Exception as error:  # it is the caller's
            return error
        return None

    def call_call(self, *args: Any) -> Any:
        """Have a function called by the owners of blocks; what keeps that from being done."""
        try:
            return self._functions.call(*args)
        except WorkersLost:
            raise
        except Exception as error:  # such as that it can't be unpacked there
            return error

    def call_settle(self, *args: Any) -> None:
        """Where what a call made is to be."""
        self._functions.settle(*args)

    def call_checkpoint(self, numbers: list[int]) -> int:
        """Keep pieces as they are."""
        return self.directory.take_checkpoint(numbers)

    def call_save(self, *args: Any) -> Any:
        """Keep pieces as they are, on disk; what keeps that from being done."""
        try:
            return self.directory.save(*args)
        except (OSError, BackendUnavailable) as error:  # a full disk, another folder, no zarr
            return error

    def call_stats(self) -> tuple[dict[str, int], dict[str, int]]:
        """Counts, and reasons why not all ran on all workers."""
        return dict(self.directory.counts), dict(self.directory.reasons)


def serve(connection: socket.socket, driver: Driver) -> None:
    """Answer until the program ends."""
    parent = os.getppid()
    connection.settimeout(LOOK_S)
    while True:
        try:
            question = receive(connection)
        except TimeoutError:
            if os.getppid() != parent:
                return
            continue
        if question is None:
            return
        status, body = driver.answer(question)
        send(connection, status, driver.directory.losses, bytes(body))
        connection.settimeout(LOOK_S)


def main(descriptor: int, where: str) -> None:
    """Serve the program at the other end of a socket.

    where : how many workers to start, or the address of a scheduler.
    """
    system.many_files()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the program's; it decides what follows of it
    connection = socket.socket(fileno=descriptor)
    with ExitStack() as stack:
        try:
            security = hear(connection)
            if where.isdigit():
                client = stack.enter_context(local_cluster(int(where)))
            else:
                client = connected(where, security)
            fleet = Fleet(client)
            if fleet.scheduler() == (os.getppid(), socket.gethostname()):
                raise BackendUnavailable(
                    f"npaccel.Cluster: the scheduler at {where} is a thread of this program, which "
                    "waits while arrays are computed; start it apart, by `dask scheduler`, or ask "
                    "for workers by their number, as npaccel.Cluster(4)"
                )
        except Exception as error:
            send(connection, REFUSED, 0, str(error).encode())
            return
        send(connection, DONE, 0, str(fleet.nodes).encode())
        try:
            serve(connection, Driver(Directory(fleet)))
        except OSError:
            pass  # the program has ended in the middle of a question
        finally:
            fleet.close()
