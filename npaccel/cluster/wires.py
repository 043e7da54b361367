"""Direct connections: of who has the nodes to each of them, and of nodes to each other.

    driver ──orders──► node 0 ◄──messages──► node 1 ◄──orders── driver
           ──pulse───►                              ◄───pulse──
           ──life────►                              ◄───life───

dask.distributed starts the nodes and tells who is where; what is said at each flush goes here, from
thread to thread, without an event loop. Who connects says the token that the nodes were given
through dask, before anything is unpickled, and uses TLS where dask does.
"""

from __future__ import annotations

import hmac
import pickle
import socket
import struct
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from typing import Any, Final, NamedTuple

import numpy as np

__all__ = [
    "PATIENCE",
    "TICK_S",
    "TOKEN_BYTES",
    "Door",
    "Gone",
    "Late",
    "Place",
    "Wire",
    "connect",
    "open_door",
    "spoken",
]

TICK_S = 0.5
PATIENCE = 10  # ticks in which nothing of a message goes on
TOKEN_BYTES = 32
_HELLO: Final = struct.Struct(f"={TOKEN_BYTES}sii")
_HEAD: Final = struct.Struct("=QQ")  # how many parts, and the size of the first
_MOST_AT_ONCE = 1 << 30
AT_ONCE = 1 << 14  # bytes that are put together, rather than sent one part after another


class Gone(ConnectionError):
    """The other side has ended, or does not go on."""


class Late(Gone):
    """It does not go on: it may be there yet."""


class Place(NamedTuple):
    """Where a node listens, and what it wants to hear."""

    host: str
    port: int
    token: bytes


class Wire:
    """A connection that carries Python objects; arrays go without being copied.

    A message once begun goes on, or the other side is gone: that is told by ticks in which this
    process waited, since both may have been stopped in between.

    Attributes
    ----------
    patience : so many of them. is_over : asked at each whether nobody needs that any more.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(TICK_S)
        self._socket = connection
        self.patience = PATIENCE
        self.is_over: Callable[[], bool] = _never

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, what: Any) -> None:
        """Say it.

        Raises
        ------
        Gone : nobody takes it.
        """
        self.say(spoken(what))

    def say(self, parts: Sequence[memoryview]) -> None:
        """The same of what `spoken` gave, which may be said to several."""
        sizes = struct.pack(f"={len(parts) + 1}Q", len(parts), *map(len, parts))
        if sum(map(len, parts)) < AT_ONCE:
            self._push(b"".join((sizes, *parts)))
            return
        self._push(sizes)
        for part in parts:
            self._push(part)

    def _push(self, data: Any) -> None:
        view, quiet = memoryview(data), 0
        while view:
            try:
                view = view[self._socket.send(view[:_MOST_AT_ONCE]) :]
                quiet = 0
            except TimeoutError:
                quiet += 1
                self._look(quiet, "it takes nothing")
            except OSError as error:
                raise Gone(str(error)) from None

    def _look(self, quiet: int, why: str) -> None:
        if self.is_over():
            raise Gone("it is not waited for any more")
        if quiet > self.patience:
            raise Late(why)

    def receive(self, *, for_ever: bool = True) -> Any:
        """What the other side says next, however long that takes, or as long as it is waited for.

        Raises
        ------
        Gone : it has ended.
        """
        count, first = _HEAD.unpack(self._pull(_HEAD.size, for_ever=for_ever))
        rest = struct.unpack(f"={count - 1}Q", self._pull(8 * (count - 1)))
        body, *buffers = map(self._pull, (first, *rest))
        return pickle.loads(body, buffers=buffers)

    def _pull(self, size: int, *, for_ever: bool = False) -> Any:
        found = np.empty(size, "u1").data if size > 1 << 12 else memoryview(bytearray(size))
        have = quiet = 0
        while have < size:
            try:
                got = self._socket.recv_into(found[have:])
            except TimeoutError:
                quiet += not (for_ever and have == 0)
                self._look(quiet, "it says no more")
                continue
            except OSError as error:
                raise Gone(str(error)) from None
            if not got:
                raise Gone("it has ended")
            have, quiet = have + got, 0
        return found

    def bare(self) -> socket.socket:
        """The connection alone, which is not encrypted any more; both sides do that at once, and
        say nothing else with it.

        Raises
        ------
        Gone : the other side does not.
        """
        self._socket.settimeout(PATIENCE * TICK_S)
        try:
            unwrap = getattr(self._socket, "unwrap", None)
            found: socket.socket = self._socket if unwrap is None else unwrap()
        except OSError as error:
            raise Gone(str(error)) from None
        return found

    def close(self) -> None:
        """End it; who listens at either side is told."""
        with suppress(OSError):  # the other side was first
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _never() -> bool:
    return False


def spoken(what: Any) -> list[memoryview]:
    """What is sent to say something; arrays in it are not copied."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(what, 5, buffer_callback=buffers.append)
    return [memoryview(body), *(one.raw() for one in buffers)]


def connect(place: Place, kind: int, number: int, tls: Any = None) -> Wire:
    """A wire to who listens there.

    Parameters
    ----------
    kind, number : what it is for, and who asks; the other side is told.
    tls : an `ssl.SSLContext`, or None
    """
    connection = None
    try:
        connection = socket.create_connection((place.host, place.port), PATIENCE * TICK_S)
        if tls is not None:
            connection = tls.wrap_socket(connection)
        connection.sendall(_HELLO.pack(place.token, kind, number))
    except OSError as error:
        if connection is not None:
            connection.close()
        why = Late if isinstance(error, TimeoutError) else Gone
        raise why(f"nobody answers at {place.host}:{place.port}: {error}") from None
    return Wire(connection)


class Door(NamedTuple):
    """An open one; `close` ends it."""

    place: Place
    close: Callable[[], None]


def _greet(
    connection: socket.socket, token: bytes, enter: Sequence[Callable[[Wire, int], None]], tls: Any
) -> None:
    try:
        connection.settimeout(PATIENCE * TICK_S)
        if tls is not None:
            connection = tls.wrap_socket(connection, server_side=True)
        hello = connection.recv(_HELLO.size, socket.MSG_WAITALL if tls is None else 0)
        said, kind, number = _HELLO.unpack(hello)
    except (OSError, struct.error):
        connection.close()
        return
    if not hmac.compare_digest(said, token) or not 0 <= kind < len(enter):
        connection.close()
        return
    wire = Wire(connection)
    with closing(wire), suppress(Gone):  # who connected has ended
        enter[kind](wire, number)


def open_door(
    host: str, token: bytes, enter: Sequence[Callable[[Wire, int], None]], tls: Any = None
) -> Door:
    """Listen. Who knows the token gets a thread, in which `enter[kind](wire, number)` runs."""
    listening = socket.create_server((host, 0), family=_family(host), backlog=socket.SOMAXCONN)
    port = listening.getsockname()[1]
    closed = threading.Event()

    def listen() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:  # such as that this process has too many files open
                if closed.wait(TICK_S):
                    return
                continue
            args = connection, token, enter, tls
            threading.Thread(target=_greet, args=args, daemon=True).start()

    threading.Thread(target=listen, daemon=True).start()

    def close() -> None:
        closed.set()
        with suppress(OSError):  # not everywhere can what listens be shut
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()

    return Door(Place(host, port, token), close)


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
