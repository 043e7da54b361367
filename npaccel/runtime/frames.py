"""Messages through a pipe: eight bytes of length, then a pickle."""

from __future__ import annotations

import io
import pickle
from typing import Any

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
    """Takes bytes as they come and gives whole messages."""

    def __init__(self) -> None:
        self._parts = bytearray()

    def feed(self, data: bytes) -> None:
        self._parts += data

    @property
    def missing(self) -> int:
        """Bytes until the next message is whole, as far as that is known."""
        if len(self._parts) < LENGTH_BYTES:
            return 0
        length = int.from_bytes(self._parts[:LENGTH_BYTES], "little")
        return max(0, LENGTH_BYTES + length - len(self._parts))

    def take(self) -> Any:
        """The next message; None while it is not whole."""
        if len(self._parts) < LENGTH_BYTES:
            return None
        end = LENGTH_BYTES + int.from_bytes(self._parts[:LENGTH_BYTES], "little")
        if len(self._parts) < end:
            return None
        with memoryview(self._parts) as parts, parts[LENGTH_BYTES:end] as content:
            message = pickle.loads(content)
        del self._parts[:end]
        return message
