"""Ways of handing an array's memory to the kernel; `python system_calls.py NAME ...` runs them.

A sender takes a deferred array and what it must hold (2-d, float64), and a folder; what arrives on
the other side must be that. A filler fills an array with other numbers, which pending operations
read as it was. Each is written as someone would who has never heard of npaccel; those of libraries
are in library_calls.py. Where TEST_USER is set, what is tried runs as that user, without any
privilege, after all of it has run on plain arrays (who may not even read the interpreter's folder,
so that `setpriv` can't start it).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import npaccel
from npaccel import _native

sys.path.insert(0, str(Path(__file__).parent))
import library_calls  # it registers its ways
from handing import (
    EARLY_READ,
    EARLY_WRITE,
    FILLERS,
    LIBC,
    NEEDS,
    SENDERS,
    SIDE,
    SYS_READ,
    SYS_WRITE,
    address,
    arriving,
    checked,
    filler,
    halves,
    holding,
    receive_all,
    same,
    send_all,
    sender,
    size,
)

__all__ = ["NEEDS", "library_calls"]
WATCHDOG_S = 60


# ----------------------------------------------------------------------- the C library, by ctypes


@sender()
def c_write(x: Any, want: Any, folder: Path) -> None:
    with arriving(want) as file:
        checked(LIBC.write(file.fileno(), address(x), size(x.nbytes)), want.nbytes)


@sender()
def c_write_of_the_data(x: Any, want: Any, folder: Path) -> None:
    with arriving(want) as file:
        data = ctypes.c_void_p(x.ctypes.data)
        checked(LIBC.write(file.fileno(), data, size(x.nbytes)), want.nbytes)


@sender()
def c_write_looked_up_before(x: Any, want: Any, folder: Path) -> None:
    with arriving(want) as file:
        checked(EARLY_WRITE(file.fileno(), address(x), size(x.nbytes)), want.nbytes)


@sender()
def c_write_keeping_the_lock(x: Any, want: Any, folder: Path) -> None:
    library = ctypes.PyDLL(None)
    with arriving(want) as file:
        checked(library.write(file.fileno(), address(x), size(x.nbytes)), want.nbytes)


@sender()
def c_write_of_a_view(x: Any, want: Any, folder: Path) -> None:
    with arriving(want[100:200]) as file:
        part = np.asarray(x)[100:200]
        checked(LIBC.write(file.fileno(), address(part), size(part.nbytes)), part.nbytes)


@sender()
def c_pwrite(x: Any, want: Any, folder: Path) -> None:
    with arriving(want) as file:
        done = LIBC.pwrite(file.fileno(), address(x), size(x.nbytes), ctypes.c_long(0))
        checked(done, want.nbytes)


@sender()
def c_writev(x: Any, want: Any, folder: Path) -> None:
    with arriving(want) as file:
        checked(LIBC.writev(file.fileno(), halves(x), 2), want.nbytes)


@sender()
def c_syscall_write(x: Any, want: Any, folder: Path) -> None:
    with arriving(want) as file:
        number = ctypes.c_long(SYS_WRITE)
        checked(LIBC.syscall(number, file.fileno(), address(x), size(x.nbytes)), want.nbytes)


@sender()
def c_fwrite(x: Any, want: Any, folder: Path) -> None:
    LIBC.fopen.restype = ctypes.c_void_p
    path = folder / "fwrite"
    file = ctypes.c_void_p(LIBC.fopen(os.fsencode(path), b"w"))
    checked(LIBC.fwrite(address(x), size(8), size(x.size), file), want.size)
    assert LIBC.fclose(file) == 0
    assert path.read_bytes() == want.tobytes()


@sender()
def c_send(x: Any, want: Any, folder: Path) -> None:
    send_all(want, lambda fd: LIBC.send(fd, address(x), size(x.nbytes), 0))


@sender()
def c_write_into_a_pipe_of_a_subprocess(x: Any, want: Any, folder: Path) -> None:
    path = folder / "from_a_pipe"
    with path.open("wb") as file:
        child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=file, bufsize=0)
        assert child.stdin is not None
        done = 0
        while done < want.nbytes:
            part = LIBC.write(child.stdin.fileno(), address(x, done), size(x.nbytes - done))
            checked(min(part, 0), 0)
            done += part
        child.stdin.close()
        assert child.wait() == 0
    assert path.read_bytes() == want.tobytes()


@filler()
def c_read(a: Any, new: Any, folder: Path) -> None:
    with holding(new) as file:
        checked(LIBC.read(file.fileno(), address(a), size(a.nbytes)), new.nbytes)


@filler()
def c_read_looked_up_before(a: Any, new: Any, folder: Path) -> None:
    with holding(new) as file:
        checked(EARLY_READ(file.fileno(), address(a), size(a.nbytes)), new.nbytes)


@filler()
def c_pread(a: Any, new: Any, folder: Path) -> None:
    with holding(new) as file:
        done = LIBC.pread(file.fileno(), address(a), size(a.nbytes), ctypes.c_long(0))
        checked(done, new.nbytes)


@filler()
def c_readv(a: Any, new: Any, folder: Path) -> None:
    with holding(new) as file:
        checked(LIBC.readv(file.fileno(), halves(a), 2), new.nbytes)


@filler()
def c_syscall_read(a: Any, new: Any, folder: Path) -> None:
    with holding(new) as file:
        number = ctypes.c_long(SYS_READ)
        checked(LIBC.syscall(number, file.fileno(), address(a), size(a.nbytes)), new.nbytes)


@filler()
def c_fread(a: Any, new: Any, folder: Path) -> None:
    LIBC.fopen.restype = ctypes.c_void_p
    path = folder / "fread"
    path.write_bytes(new.tobytes())
    file = ctypes.c_void_p(LIBC.fopen(os.fsencode(path), b"r"))
    checked(LIBC.fread(address(a), size(8), size(a.size), file), new.size)
    LIBC.fclose(file)


@filler()
def c_recv(a: Any, new: Any, folder: Path) -> None:
    wait_for_all = socket.MSG_WAITALL
    receive_all(new, lambda fd: LIBC.recv(fd, address(a), size(a.nbytes), wait_for_all))


# ----------------------------------------------------------------------- Python's own, and NumPy's


@sender()
def socket_sendall(x: Any, want: Any, folder: Path) -> None:
    def send(fd: int) -> int:
        with socket.socket(fileno=os.dup(fd)) as end:
            end.sendall(np.asarray(x))
        return int(want.nbytes)

    send_all(want, send)


@sender()
def socket_sendmsg(x: Any, want: Any, folder: Path) -> None:
    def send(fd: int) -> int:
        with socket.socket(fileno=os.dup(fd)) as end:
            return end.sendmsg([np.asarray(x)[:100], np.asarray(x)[100:]])

    send_all(want, send)


@sender()
def pipe_to_a_subprocess(x: Any, want: Any, folder: Path) -> None:
    done = subprocess.run(
        ["/bin/cat"], input=memoryview(x).cast("B"), capture_output=True, check=True
    )
    assert done.stdout == want.tobytes()


@sender()
def memory_map(x: Any, want: Any, folder: Path) -> None:
    path = folder / "map"
    path.write_bytes(bytes(want.nbytes))
    mapped = np.memmap(path, np.float64, "r+", shape=want.shape)
    mapped[:] = np.asarray(x)
    mapped.flush()
    assert path.read_bytes() == want.tobytes()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as raw:
        raw.write(bytes(want.nbytes))
        raw[:] = np.asarray(x)
    assert path.read_bytes() == want.tobytes()


@sender()
def to_file(x: Any, want: Any, folder: Path) -> None:
    with arriving(want) as file:
        np.asarray(x).tofile(file)


@sender()
def save(x: Any, want: Any, folder: Path) -> None:
    np.save(folder / "saved.npy", np.asarray(x))
    same(np.load(folder / "saved.npy", mmap_mode="r"), want)


@filler()
def read_into(a: Any, new: Any, folder: Path) -> None:
    with holding(new) as file:
        assert file.readinto(a) == new.nbytes  # type: ignore[attr-defined]


@filler()
def vectored_read(a: Any, new: Any, folder: Path) -> None:
    with holding(new) as file:
        assert os.preadv(file.fileno(), [a[:100], a[100:]], 0) == new.nbytes


@filler()
def receive_into(a: Any, new: Any, folder: Path) -> None:
    def receive(fd: int) -> int:
        with socket.socket(fileno=os.dup(fd)) as end:
            return end.recv_into(a, a.nbytes, socket.MSG_WAITALL)

    receive_all(new, receive)


@filler()
def from_file(a: Any, new: Any, folder: Path) -> None:
    with holding(new) as file:
        a[:] = np.fromfile(file).reshape(a.shape)


def try_sender(name: str, folder: Path) -> None:
    source = np.random.default_rng(len(name)).standard_normal((SIDE, SIDE))
    x = npaccel.asarray(source) * 2.0 + 1.0
    assert _native.is_pending(x) == _native.guarded()
    SENDERS[name](x, source * 2.0 + 1.0, folder)
    same(np.asarray(x), source * 2.0 + 1.0)


def try_filler(name: str, folder: Path) -> None:
    """Into a plain array that a pending operation reads, and into a pending result."""
    rng = np.random.default_rng(len(name))
    old, new, newer = (rng.standard_normal((SIDE, SIDE)) for _ in range(3))
    a = old.copy()
    y = npaccel.asarray(a) * 2.0
    FILLERS[name](a, new, folder)
    same(a, new)
    same(np.asarray(y), old * 2.0)
    x = npaccel.asarray(a) + 1.0
    y = x * 2.0
    FILLERS[name](np.asarray(x), newer, folder)
    same(np.asarray(x), newer)
    same(np.asarray(y), (new + 1.0) * 2.0)
    same(a, new)


def become(user: int) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    status = Path("/proc/thread-self/status").read_text()
    assert int(status.partition("CapEff:")[2].split()[0], 16) == 0


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    user = int(os.environ.get("TEST_USER", "0"))
    with tempfile.TemporaryDirectory() as at:
        folder = Path(at)
        rng = np.random.default_rng(1)
        for name in names:  # all that it imports
            a, b = rng.standard_normal((SIDE, SIDE)), rng.standard_normal((SIDE, SIDE))
            (SENDERS.get(name) or FILLERS[name])(a, a.copy() if name in SENDERS else b, folder)
        if user:
            os.chown(folder, user, user)
            for path in folder.rglob("*"):
                os.chown(path, user, user)
            become(user)
        for name in names:
            signal.alarm(WATCHDOG_S)
            (try_sender if name in SENDERS else try_filler)(name, folder)
            signal.alarm(0)
            print("done", name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or [*SENDERS, *FILLERS])
