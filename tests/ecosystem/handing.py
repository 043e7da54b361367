"""What ways of handing an array's memory to the kernel share: the table of them, files, sockets."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

SIDE = 384  # 384 x 384 float64: more than the threshold of recording, and than what is copied
Way = Callable[[Any, Any, Path], None]
SENDERS: dict[str, Way] = {}
FILLERS: dict[str, Way] = {}
NEEDS: dict[str, str] = {}

# One function of each was looked up before anything was deferred.
LIBC = ctypes.CDLL(None, use_errno=True)
EARLY_WRITE, EARLY_READ = LIBC.write, LIBC.read
SYS_READ, SYS_WRITE = (0, 1) if os.uname().machine == "x86_64" else (63, 64)


class Part(ctypes.Structure):
    """struct iovec"""

    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


def _registers(table: dict[str, Way], needs: str) -> Callable[[Way], Way]:
    def register(way: Way) -> Way:
        table[way.__name__] = way
        NEEDS[way.__name__] = needs
        return way

    return register


def sender(needs: str = "") -> Callable[[Way], Way]:
    return _registers(SENDERS, needs)


def filler(needs: str = "") -> Callable[[Way], Way]:
    return _registers(FILLERS, needs)


def same(got: Any, want: Any) -> None:
    np.testing.assert_array_equal(got, want)


def address(a: Any, offset: int = 0) -> ctypes.c_void_p:
    """Of what `a` shows. Asked of the array itself, `a.ctypes` would evaluate it."""
    return ctypes.c_void_p(np.asarray(a).ctypes.data + offset)


def size(n: int) -> ctypes.c_size_t:
    return ctypes.c_size_t(n)


def halves(a: Any) -> Any:
    half = a.nbytes // 2
    return (Part * 2)(Part(address(a).value, half), Part(address(a, half).value, a.nbytes - half))


def checked(done: int, want: int) -> None:
    assert done == want, f"{done} of {want} bytes: {os.strerror(ctypes.get_errno())}"


@contextlib.contextmanager
def arriving(want: Any) -> Iterator[BinaryIO]:
    """A file; in the end it must hold the bytes of `want`."""
    with tempfile.TemporaryFile(buffering=0) as file:
        yield file  # type: ignore[misc]
        file.seek(0)
        assert file.read() == want.tobytes()


@contextlib.contextmanager
def holding(new: Any) -> Iterator[BinaryIO]:
    """A file with the bytes of `new`, at its beginning."""
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(new.tobytes())
        file.seek(0)
        yield file  # type: ignore[misc]


def send_all(want: Any, send: Callable[[int], int]) -> None:
    """Call `send` with a socket; all of `want` must come out of the other end."""
    left, right = socket.socketpair()
    left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 * want.nbytes)
    received = bytearray()

    def receive() -> None:
        while data := right.recv(1 << 20):
            received.extend(data)

    thread = threading.Thread(target=receive)
    thread.start()
    with right:
        with left:
            checked(send(left.fileno()), want.nbytes)
        thread.join()
    assert bytes(received) == want.tobytes()


def receive_all(new: Any, receive: Callable[[int], int]) -> None:
    """Call `receive` with a socket out of which the bytes of `new` come."""
    left, right = socket.socketpair()
    thread = threading.Thread(target=left.sendall, args=(new.tobytes(),))
    thread.start()
    with left, right:
        checked(receive(right.fileno()), new.nbytes)
        thread.join()
