"""Messages arrive whole, in whatever pieces they come."""

from __future__ import annotations

import pytest

from npaccel.runtime.frames import Unpacker, pack


@pytest.mark.parametrize("piece", [1, 7, 8, 9, 1000, 1 << 20])
def test_pieces_of_any_size_make_the_messages(piece: int) -> None:
    messages = [b"a" * 3000, "", {"number": 1}]
    sent = b"".join(map(pack, messages))
    unpacker, found = Unpacker(), []
    for begin in range(0, len(sent), piece):
        unpacker.feed(sent[begin : begin + piece])
        while (message := unpacker.take()) is not None:
            found.append(message)
    assert found == messages
    assert unpacker.missing == 0


def test_what_is_missing_is_known_once_the_length_has_come() -> None:
    sent = pack(b"x" * 5000)
    unpacker = Unpacker()
    unpacker.feed(sent[:7])
    assert unpacker.missing == 0
    unpacker.feed(sent[7:100])
    assert unpacker.missing == len(sent) - 100
    unpacker.feed(sent[100:] + pack("next")[:50])
    assert unpacker.missing == 0
    assert unpacker.take() == b"x" * 5000
