"""Ways of handing an array's memory to the kernel; `python system_calls.py NAME ...` runs them.

A sender takes a deferred array and what it must hold (2-d, float64), and a folder; what arrives on
the other side must be that. A filler fills an array with other numbers, which pending operations
read as it was. Each is written as someone would who has never heard of npaccel. Where TEST_USER is
set, what is tried runs as that user, without any privilege, after all of it has run on plain arrays
(who may not even read the interpreter's folder, so that `setpriv` can't start it).
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

import npaccel
from npaccel import _native

WATCHDOG_S = 60
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


# ------------------------------------------------------------------------------------------- HDF5


HDF5: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (100, 70)},
    "one_chunk": {"chunks": (SIDE, SIDE)},
    "compressed": {"compression": "gzip", "shuffle": True},
    "compressed_fast": {"compression": "lzf", "chunks": (64, SIDE), "fletcher32": True},
}


@sender("h5py")
def h5py_item(x: Any, want: Any, folder: Path) -> None:
    import h5py

    with h5py.File(folder / "item.h5", "w") as file:
        file["x"] = x
        file.create_dataset("y", data=np.asarray(x))
        same(file["x"][...], want)
    with h5py.File(folder / "item.h5") as file:
        same(file["y"][3:50, ::2], want[3:50, ::2])


@sender("h5py")
def h5py_assignment(x: Any, want: Any, folder: Path) -> None:
    import h5py

    with h5py.File(folder / "assigned.h5", "w") as file:
        for name, how in HDF5.items():
            d = file.create_dataset(name, x.shape, x.dtype, **how)
            y = x * 1.0
            d[...] = y
            y += 1.0
            d[100:200] = y[100:200]
            y += 1.0
            d.write_direct(np.asarray(y), np.s_[5:9], np.s_[5:9])
    with h5py.File(folder / "assigned.h5") as file:
        want = want.copy()
        want[100:200] += 1.0
        want[5:9] = want[5:9] + 1.0 + 1.0
        for name in HDF5:
            same(file[name][...], want)


@filler("h5py")
def h5py_read_direct(a: Any, new: Any, folder: Path) -> None:
    import h5py

    with h5py.File(folder / "read.h5", "w") as file:
        for name, how in HDF5.items():
            file.create_dataset(name, data=new, **how)
    with h5py.File(folder / "read.h5") as file:
        file["contiguous"].read_direct(a)
        for name in HDF5:
            b = a * 1.0  # pending, and read from while it is written into
            c = b + 1.0
            file[name].read_direct(np.asarray(b), np.s_[:50], np.s_[-50:])
            same(np.asarray(c), new + 1.0)
            same(b[-50:], new[:50])
            same(b[:-50], new[:-50])


@sender("tables")
def pytables(x: Any, want: Any, folder: Path) -> None:
    import tables

    how = tables.Filters(complevel=5, complib="blosc")
    with tables.open_file(folder / "tables.h5", "w") as file:
        file.create_array("/", "plain", np.asarray(x))
        file.create_carray("/", "compressed", obj=np.asarray(x * 1.0), filters=how)
        growing = file.create_earray("/", "growing", tables.Float64Atom(), (0, SIDE))
        growing.append(np.asarray(x * 1.0))
        growing.append(np.asarray(x + 1.0))
    with tables.open_file(folder / "tables.h5") as file:
        same(file.root.plain[:], want)
        same(file.root.compressed[:], want)
        same(file.root.growing[:], np.concatenate([want, want + 1.0]))


@sender("tables")
def data_frame_to_hdf(x: Any, want: Any, folder: Path) -> None:
    import pandas as pd

    with npaccel.accelerate():
        frame = pd.DataFrame(np.asarray(x).T, copy=False) + 1.0
        frame.to_hdf(folder / "all.h5", key="x")
    same(pd.read_hdf(folder / "all.h5").to_numpy(), want.T + 1.0)
    for form in ("fixed", "table"):
        path = folder / f"{form}.h5"
        columns = [f"c{i}" for i in range(40)]
        frame = pd.DataFrame(np.asarray(x * 1.0)[:, :40], columns=columns, copy=False)
        frame.to_hdf(path, key="x", format=form)
        same(pd.read_hdf(path, "x").to_numpy(), want[:, :40])


@sender("netCDF4")
def netcdf(x: Any, want: Any, folder: Path) -> None:
    import netCDF4

    for form in ("NETCDF4", "NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET"):
        how = [{}, {"zlib": True}] if form == "NETCDF4" else [{}]
        with netCDF4.Dataset(folder / f"{form}.nc", "w", format=form) as file:
            file.createDimension("i", SIDE), file.createDimension("j", SIDE)
            for k, options in enumerate(how):
                v = file.createVariable(f"x{k}", "f8", ("i", "j"), **options)
                v[:] = np.asarray(x * 1.0)
                v[5:9] = np.asarray(x + 1.0)[5:9]
        wanted = want.copy()
        wanted[5:9] += 1.0
        with netCDF4.Dataset(folder / f"{form}.nc") as file:
            for k in range(len(how)):
                same(file[f"x{k}"][:], wanted)


@sender("zarr")
def zarr_array(x: Any, want: Any, folder: Path) -> None:
    import zarr

    for name, how in {"plain": {"compressors": None}, "compressed": {}}.items():
        for k, chunks in enumerate([(SIDE, SIDE), (100, 70)]):
            place = folder / f"{name}{k}.zarr"
            array = zarr.create_array(
                place, shape=want.shape, chunks=chunks, dtype=want.dtype, overwrite=True, **how
            )
            array[:] = np.asarray(x * 1.0)
            array[5:9] = (x + 1.0)[5:9]
            wanted = want.copy()
            wanted[5:9] += 1.0
            same(zarr.open_array(place, mode="r")[:], wanted)


# --------------------------------------------------------------------------------------- others


@sender("torch")
def torch_storage(x: Any, want: Any, folder: Path) -> None:
    import torch

    with (folder / "storage").open("wb") as file:
        tensor = torch.from_numpy(np.asarray(x))
        tensor.untyped_storage()._write_file(file, True, True, 1)
    data = (folder / "storage").read_bytes()
    assert data[:8] == want.nbytes.to_bytes(8, "little") and data[8:] == want.tobytes()


@sender("torch")
def torch_save(x: Any, want: Any, folder: Path) -> None:
    import torch

    for old in (False, True):
        tensor = torch.from_numpy(np.asarray(x * 1.0))
        torch.save(tensor, folder / "saved.pt", _use_new_zipfile_serialization=not old)
        same(torch.load(folder / "saved.pt").numpy(), want)


@filler("torch")
def torch_read_into_a_storage(a: Any, new: Any, folder: Path) -> None:
    import torch

    path = folder / "stored"
    with path.open("wb") as file:
        torch.from_numpy(new.copy()).untyped_storage()._write_file(file, True, True, 1)
    with path.open("rb") as file:
        tensor = torch.from_numpy(a)
        tensor.untyped_storage()._set_from_file(file, 0, True, 1)


@sender("pyarrow")
def arrow_files(x: Any, want: Any, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    def column(k: float) -> Any:
        return pa.table({"x": pa.array(np.asarray(x + k).reshape(-1))})

    def check(table: Any, k: float) -> None:
        same(table["x"].to_numpy(), (want + k).reshape(-1))

    with pa.OSFile(str(folder / "raw"), "wb") as file:
        file.write(pa.py_buffer(np.asarray(x)))
    assert (folder / "raw").read_bytes() == want.tobytes()
    with pa.OSFile(str(folder / "ipc"), "wb") as sink:
        table = column(1.0)
        with pa.ipc.new_file(sink, table.schema) as out:
            out.write_table(table)
    with pa.OSFile(str(folder / "ipc")) as file:
        check(pa.ipc.open_file(file).read_all(), 1.0)
    pyarrow.feather.write_feather(column(2.0), folder / "feather", compression="uncompressed")
    check(pyarrow.feather.read_table(folder / "feather"), 2.0)
    how = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    pyarrow.parquet.write_table(column(3.0), folder / "parquet", **how)
    check(pyarrow.parquet.read_table(folder / "parquet"), 3.0)


@filler("pyarrow")
def arrow_read_into(a: Any, new: Any, folder: Path) -> None:
    import pyarrow as pa

    (folder / "arrow").write_bytes(new.tobytes())
    with pa.OSFile(str(folder / "arrow"), "rb") as file:
        assert file.readinto(a) == new.nbytes


@sender("PIL")
def pillow(x: Any, want: Any, folder: Path) -> None:
    from PIL import Image

    for form in ("tiff", "png", "bmp"):
        values = np.asarray((x * 10.0 + 128.0).astype(np.uint8).repeat(2, 0))
        Image.fromarray(values).save(folder / f"image.{form}")
        with Image.open(folder / f"image.{form}") as image:
            same(np.asarray(image), (want * 10.0 + 128.0).astype(np.uint8).repeat(2, 0))


# ------------------------------------------------------------------------------------------------


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
