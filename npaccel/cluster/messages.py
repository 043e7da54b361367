"""What a program and the process that drives its cluster say to each other.

The program's side is the C core's (native/place/channel.c, native/run/cluster.c): a question, the
numbers of pieces of memory that it needs no longer, a body; then an answer with a body. Pieces are
numbered by the program.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from npaccel.runtime.programs.trace import RuleText, type_code

__all__ = [
    "CALL",
    "CHECK",
    "DONE",
    "LOST",
    "READ",
    "REFUSED",
    "RUN",
    "WRITE",
    "Asked",
    "Question",
    "hear",
    "receive",
    "send",
    "tell",
    "unpack_run",
]

RUN, WRITE, READ, CALL, CHECK = 1, 2, 3, 4, 5
DONE, REFUSED, LOST = 0, 1, 2
_SIZE: Final = struct.Struct("=Q")
_QUESTION: Final = struct.Struct("=IIQQQQQQ")
_ANSWER: Final = struct.Struct("=IIQ")
_HEAD: Final = struct.Struct("=4Q")
_ROW: Final = struct.Struct("=2Q")
_RULE: Final = struct.Struct("=IBBBx8s48s")


def tell(connection: socket.socket, what: Any) -> None:
    """The program's first words, before any question."""
    body = pickle.dumps(what)
    connection.sendall(_SIZE.pack(len(body)) + body)


def hear(connection: socket.socket) -> Any:
    """What the program begins with."""
    (size,) = _SIZE.unpack(connection.recv(_SIZE.size, socket.MSG_WAITALL))
    return pickle.loads(connection.recv(size, socket.MSG_WAITALL))


class Question(NamedTuple):
    """One, with the numbers of pieces that nobody needs any more.

    number, map, total : of a piece: its number, that of its map (0: none), its bytes.
    low, size : which of them are meant; of a run, size is how many requests it has.
    """

    what: int
    released: tuple[int, ...]
    number: int
    map: int
    total: int
    low: int
    size: int
    body: bytearray


class Asked(NamedTuple):
    """A run: requests as words, and per buffer its piece and map (0: it has none)."""

    key: bytes
    scalars: bytes
    rules: Mapping[int, RuleText]
    pieces: tuple[tuple[int, int], ...]


def _read(connection: socket.socket, size: int) -> bytearray:
    """So many bytes; fewer: the other side has ended."""
    found = bytearray(size)
    have = 0
    with memoryview(found) as view:
        while have < size:
            got = connection.recv_into(view[have:])
            if not got:
                break
            have += got
    return found if have == size else bytearray()


def receive(connection: socket.socket) -> Question | None:
    """The next question; None: the program has ended.

    Raises
    ------
    TimeoutError : none began, for as long as the socket waits.
    """
    connection.recv(1, socket.MSG_PEEK)
    connection.settimeout(None)
    head = _read(connection, _QUESTION.size)
    if not head:
        return None
    what, count, number, made, total, low, size, length = _QUESTION.unpack(head)
    released = struct.unpack(f"={count}Q", _read(connection, 8 * count))
    return Question(what, released, number, made, total, low, size, _read(connection, length))


def send(connection: socket.socket, status: int, losses: int, body: bytes | bytearray) -> None:
    """An answer. losses : how many workers have died with something."""
    connection.sendall(_ANSWER.pack(status, losses, len(body)))
    connection.sendall(body)


def unpack_run(body: bytearray) -> Asked:
    """The body of a run's question."""
    key_size, nscalars, nrules, nbuffers = _HEAD.unpack_from(body)
    at = _HEAD.size
    pieces = tuple(_ROW.iter_unpack(body[at : at + _ROW.size * nbuffers]))
    at += _ROW.size * nbuffers
    rules = {}
    for number, kind, n, length, types, name in _RULE.iter_unpack(
        body[at : at + _RULE.size * nrules]
    ):
        text = name[:length].decode("ascii")
        rules[number] = RuleText(number, text, kind, tuple(map(type_code, types[:n])))
    at += _RULE.size * nrules
    key, scalars = bytes(body[at : at + key_size]), bytes(body[at + key_size :])
    assert len(scalars) == 16 * nscalars
    return Asked(key, scalars, rules, pieces)
