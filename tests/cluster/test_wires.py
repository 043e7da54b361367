"""Connections of nodes, their doors, and messages that are waited for; without dask."""

from __future__ import annotations

import errno
import socket
import threading
import time
from typing import Any

import numpy as np
import pytest

from npaccel.cluster import peers, wires
from npaccel.cluster.asking import Silence
from npaccel.cluster.mail import Mail

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of connections that nobody closes
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
TOKEN = bytes(range(32))


def listening(mail: Mail) -> wires.Door:
    return wires.open_door("127.0.0.1", TOKEN, [mail.listen])


def peers_of(number: int, mail: Mail) -> peers.Peers:
    return peers.Peers(number, lambda there: wires.connect(there, 0, number), mail.is_given_up)


def test_a_node_that_is_gone_takes_no_message() -> None:
    mine, theirs = Mail(0), Mail(1)
    door = listening(theirs)
    found = peers_of(0, mine)
    found.learn({1: door.place})
    found.send(1, 1, 0, "first", 60.0)
    assert theirs.take(1, 0, 0, 60.0) == "first"
    door.close()
    theirs.forget(0)  # its connections end
    with pytest.raises(Silence):
        for _ in range(100):  # the first may still be taken by the system
            found.send(1, 2, 0, "second", 60.0)
            time.sleep(0.05)
    assert not found.connected
    again = listening(theirs)  # another one in its place
    found.learn({1: again.place})
    found.send(1, 3, 0, "third", 60.0)
    assert theirs.take(3, 0, 0, 60.0) == "third"
    again.close()


@pytest.mark.parametrize("knows", [False, True])
def test_who_does_not_listen_is_waited_for_until_the_run_is_given_up(knows: bool) -> None:
    """It has accepted, and does not say that it hears; or it takes no more of a large message."""
    mail = Mail(0)

    def listen(wire: wires.Wire, _: int) -> None:
        if knows:
            wire.send(None)
        time.sleep(20.0)

    door = wires.open_door("127.0.0.1", TOKEN, [listen])
    found = peers_of(0, mail)
    found.learn({1: door.place})
    timer = threading.Timer(0.2, mail.give_up, (7,))
    timer.start()
    with pytest.raises(Silence) as raised:
        found.send(1, 7, 0, np.zeros(1 << 24), 60.0)
    assert raised.value.args == (1, 0, 0, 0) and not found.connected
    with pytest.raises(Silence) as late:
        found.send(1, 8, 0, np.zeros(1 << 24), 0.5)
    assert late.value.args == (1, 0, 0, 0.5)
    door.close()


def test_a_connection_that_ends_counts_for_its_run() -> None:
    mail = Mail(0)
    door = listening(mail)
    one = wires.connect(door.place, 0, 1)
    one.receive()
    one.close()
    with pytest.raises(Silence):
        mail.take(1, 0, 1, 60.0)
    mail.begin(2)
    two = wires.connect(door.place, 0, 1)
    two.receive()
    two.send((2, 0, "message"))
    two.send(None)  # that is all; it is there yet
    two.close()
    assert mail.take(2, 0, 1, 60.0) == "message"
    with pytest.raises(Silence) as raised:
        mail.take(2, 1, 1, 0.2)
    assert raised.value.args == (1, 1, 0, 0.2)  # it was waited for
    door.close()


def test_a_door_stays_open_where_files_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who knocks waits until there are some."""
    monkeypatch.setattr(wires, "TICK_S", 0.05)
    failing = [True]
    accept = socket.socket.accept

    def short(self: socket.socket) -> Any:
        if failing and failing.pop():
            raise OSError(errno.EMFILE, "Too many open files")
        return accept(self)

    monkeypatch.setattr(socket.socket, "accept", short)
    heard = threading.Event()
    door = wires.open_door("127.0.0.1", TOKEN, [lambda *_: heard.set()])
    wires.connect(door.place, 0, 1)
    assert heard.wait(20) and not failing
    door.close()


def test_a_node_does_not_wait_for_the_dead() -> None:
    """Its connection ends, or it is told to give the run up."""
    mail = Mail(0)
    door = wires.open_door("127.0.0.1", TOKEN, [mail.listen])
    one = wires.connect(door.place, 0, 1)
    one.receive()
    one.send((3, 0, "message"))
    assert mail.take(3, 0, 1, 60.0) == "message"
    threading.Timer(0.1, mail.give_up, (4,)).start()
    with pytest.raises(Silence):
        mail.take(4, 0, 1, 60.0)
    threading.Timer(0.1, one.close).start()
    with pytest.raises(Silence):
        mail.take(5, 0, 1, 60.0)
    door.close()


def test_a_run_that_was_given_up_does_not_begin() -> None:
    """Who was to tell of it was late."""
    mail = Mail(0)
    mail.begin(3)
    mail.give_up(4)
    with pytest.raises(Silence):
        mail.begin(4)
    mail.begin(5)


def test_who_does_not_know_the_token_is_not_heard() -> None:
    heard: list[int] = []
    door = wires.open_door("127.0.0.1", TOKEN, [lambda _, number: heard.append(number)])
    wire = wires.connect(door.place._replace(token=b"x" * 32), 0, 1)
    with pytest.raises(wires.Gone):
        wire.receive()
    door.close()
    with pytest.raises(wires.Gone, match="nobody answers"):
        wires.connect(door.place, 0, 1)
    assert not heard


def test_arrays_go_over_a_wire() -> None:
    sent = [np.arange(300_000.0).view("V8"), {"a": np.ones((3, 0))}, "text" * 9000]
    found: list[Any] = []
    there = threading.Event()

    def hear(wire: wires.Wire, _: int) -> None:
        found.extend(wire.receive())
        there.set()

    door = wires.open_door("127.0.0.1", TOKEN, [hear])
    wires.connect(door.place, 0, 1).send(sent)
    assert there.wait(20)
    assert found[0].tobytes() == sent[0].tobytes() and found[1]["a"].shape == (3, 0)
    assert found[2] == sent[2]
    door.close()
