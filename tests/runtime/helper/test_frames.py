"""Messages arrive whole, in whatever pieces they come."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import pytest

from npaccel.runtime.helper.frames import Unpacker, pack


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """Where it is read, without waiting, and written."""
    ends = os.pipe()
    os.set_blocking(ends[0], False)
    yield ends
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)


@pytest.mark.parametrize("piece", [1, 7, 8, 9, 1000, 1 << 20])
def test_pieces_of_any_size_make_the_messages(piece: int, pipe: tuple[int, int]) -> None:
    messages = [b"a" * 3000, "", {"number": 1}]
    sent = b"".join(map(pack, messages))
    unpacker, found = Unpacker(), []
    for begin in range(0, len(sent), piece):
        os.write(pipe[1], sent[begin : begin + piece])
        with contextlib.suppress(BlockingIOError):
            while unpacker.read(pipe[0]):
                if (message := unpacker.take()) is not None:
                    found.append(message)
    assert found == messages


def test_the_end_of_the_pipe_is_told(pipe: tuple[int, int]) -> None:
    unpacker = Unpacker()
    with pytest.raises(BlockingIOError):
        unpacker.read(pipe[0])
    os.write(pipe[1], pack("whole") + pack("cut")[:-1])
    os.close(pipe[1])
    found = []
    while unpacker.read(pipe[0]):
        found.append(unpacker.take())
    assert [message for message in found if message is not None] == ["whole"]
    assert unpacker.take() is None and not unpacker.read(pipe[0])
