"""Writes by the kernel and by other processes into memory that a pending request will read."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import threading
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native

from .writing import BIG, SMALL, Wrap, agree, view_of

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("whose_memory")]
Array = np.ndarray[Any, Any]


def test_readinto_in_full(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    np.full(BIG, 3.0).tofile(path)

    def program(wrap: Wrap) -> list[Array]:
        a: Any = np.arange(float(BIG))
        y = wrap(a) * 2.0
        with path.open("rb", buffering=0) as file:
            assert file.readinto(a) == a.nbytes
        return [y, a]

    agree(program)


def test_readinto_an_old_memoryview(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    np.full(BIG, 3.0).tofile(path)

    def program(wrap: Wrap) -> list[Array]:
        a = np.arange(float(BIG))
        wrap(a) * 2.0
        view = view_of(a[10:-10]).cast("B")  # a view's buffer is the array's
        y = wrap(a) * 2.0
        with path.open("rb", buffering=0) as file:
            assert file.readinto(view) == len(view)
        return [y, a]

    agree(program)


def test_a_subclass_hands_out_buffers_too(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    np.full(BIG, 3.0).tofile(path)

    def program(wrap: Wrap) -> list[Array]:
        a = np.arange(float(BIG))
        y = wrap(a) * 2.0
        with path.open("rb", buffering=0) as file:
            assert file.readinto(a.view(np.recarray)) == a.nbytes
        return [y, a]

    agree(program)


def test_recv_into_in_full() -> None:
    sent = np.full(BIG, 3.0).tobytes()

    def program(wrap: Wrap) -> list[Array]:
        a: Any = np.arange(float(BIG))
        y = wrap(a) * 2.0
        left, right = socket.socketpair()
        with left, right:
            sender = threading.Thread(target=left.sendall, args=(sent,))
            sender.start()
            got = right.recv_into(a, a.nbytes, socket.MSG_WAITALL)
            sender.join()
        assert got == a.nbytes
        return [y, a]

    agree(program)


def test_system_calls_read_what_is_pending_on() -> None:
    """A result that a request reads is hidden again; whoever has a buffer on it sees it."""
    x = npaccel.asarray(np.arange(float(BIG))) + 0.0
    view = view_of(x)
    y = x * 2.0
    read_end, write_end = os.pipe()
    assert os.write(write_end, view[:100].cast("B")) == 800
    assert np.frombuffer(os.read(read_end, 800))[99] == 99.0
    os.close(read_end)
    os.close(write_end)
    assert y[99] == 198.0


def test_tofile_of_an_alias(tmp_path: Path) -> None:
    x = npaccel.asarray(np.arange(float(BIG))) + 0.0
    alias = np.asarray(x)  # of memory that is not there yet
    alias.tofile(tmp_path / "pending")
    y = x * 2.0
    alias.tofile(tmp_path / "hidden")
    for name in ("pending", "hidden"):
        assert (np.fromfile(tmp_path / name) == np.arange(BIG)).all()
    assert y[5] == 10.0


# ---------------------------------------------------------------------- memory of other kinds


def in_another_process(code: str, *args: str) -> None:
    subprocess.run([sys.executable, "-c", code, *args], check=True, timeout=30)


def test_a_file_that_another_process_writes(tmp_path: Path) -> None:
    path = tmp_path / "numbers"

    def program(wrap: Wrap) -> list[Array]:
        np.arange(float(BIG)).tofile(path)
        mapped = np.memmap(path, dtype="d", mode="r+")
        y = wrap(mapped.view(np.ndarray)) * 2.0
        in_another_process(
            "import sys; f = open(sys.argv[1], 'r+b'); f.seek(80000); f.write(bytes(800))",
            str(path),
        )
        return [y, np.array(mapped)]

    agree(program)


def test_shared_memory_that_another_process_writes() -> None:
    def program(wrap: Wrap) -> list[Array]:
        shared = shared_memory.SharedMemory(create=True, size=8 * BIG)
        try:
            a: Array = np.ndarray((BIG,), buffer=shared.buf)
            a[:] = np.arange(BIG)
            y = wrap(a) * 2.0
            in_another_process(
                "import sys; from multiprocessing import shared_memory as m\n"
                "s = m.SharedMemory(sys.argv[1]); s.buf[80000:80800] = bytes(800); s.close()\n"
                "from multiprocessing import resource_tracker as t; t.unregister('/' + s.name,"
                " 'shared_memory')",
                shared.name,
            )
            results = [np.array(y), a.copy()]
            del a, y
            gc.collect()
            return results
        finally:
            shared.close()
            shared.unlink()

    agree(program)


def test_memory_that_nobody_can_write() -> None:
    a = np.frombuffer(np.arange(float(BIG)).tobytes())
    y = npaccel.asarray(a) * 2.0
    assert _native.is_pending(y)
    assert y[5] == 10.0


@pytest.mark.parametrize("size", [SMALL, BIG])
def test_memory_of_other_objects(size: int) -> None:
    def program(wrap: Wrap) -> list[Array]:
        memory = bytearray(8 * size)
        y = wrap(np.frombuffer(memory)) + 1.0
        memory[80:88] = np.float64(5.0).tobytes()
        return [y, np.frombuffer(memory)]

    agree(program)
