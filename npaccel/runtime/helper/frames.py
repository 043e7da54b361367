"""Messages through a pipe: eight bytes of length, then a pickle."""

from __future__ import annotations

import io
import pickle
from typing import Any

from npaccel.own import os

__all__ = ["Unpacker", "pack"]

LENGTH_BYTES = 8


def pack(message: Any) -> bytes:
    """The bytes of one message."""
    whole = io.BytesIO()
    whole.write(bytes(LENGTH_BYTES))  # and not put in front later, for that would copy everything
    pickle.dump(message, whole, pickle.HIGHEST_PROTOCOL)
    length = whole.tell() - LENGTH_BYTES
    whole.seek(0)
    whole.write(length.to_bytes(LENGTH_BYTES, "little"))
    return whole.getvalue()


class Unpacker:
    """Reads messages from a pipe, as they come; each into room of its size, so that nothing is
    copied and no more memory is touched than it takes."""

    def __init__(self) -> None:
        self._room = bytearray(LENGTH_BYTES)
        self._have = 0  # bytes of what is read now: a length, or the message itself
        self._inside = False  # it is the message

    def read(self, descriptor: int) -> bool:
        """Take what has come, up to the end of a part; False: the pipe has ended.

        Raises
        ------
        OSError : of the pipe; BlockingIOError where there is nothing now, and it does not wait.
        """
        with memoryview(self._room) as room, room[self._have :] as rest:
            count = os.readv(descriptor, [rest])
        self._have += count
        if self._have == LENGTH_BYTES and not self._inside:
            self._begin(int.from_bytes(self._room, "little"), inside=True)
        return count > 0

    def take(self) -> Any:
        """The message that was read; None while it is not whole."""
        if not self._inside or self._have < len(self._room):
            return None
        message = pickle.loads(self._room)
        self._begin(LENGTH_BYTES, inside=False)
        return message

    def _begin(self, size: int, *, inside: bool) -> None:
        self._room, self._have, self._inside = bytearray(size), 0, inside
