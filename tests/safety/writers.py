"""Ways of writing into an array that npaccel is not told of; `python writers.py NAME ...`.

A writer is prepared with a plain array and returns what writes into it: requests on the memory
are recorded between the two. Each writes the same into equal arrays. `RAW` are those that reach the
memory through the pointer alone; the others go through something that ndarray defines, or write
from where no page can be protected.
"""

from __future__ import annotations

import ctypes
import io
import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from multiprocessing import shared_memory
from typing import Any

import numpy as np

import npaccel
from npaccel import _native

if __package__:
    from . import foreign
else:
    import foreign  # run as a program

WATCHDOG_S = 20
SIDE = 384  # 384 x 384 float64: more than the threshold of recording, and than what is copied
Act = Callable[[], object]
Writer = Callable[[Any], Act]
RAW: dict[str, Writer] = {}
HOOKED: dict[str, Writer] = {}
# Writers that need memory of a certain kind make it: an array like the one they are given.
NEEDS: dict[str, str] = {}
MAKES: dict[str, Callable[[Any], Any]] = {}


def _registers(table: dict[str, Writer], needs: str, makes: Any) -> Callable[[Writer], Writer]:
    def register(writer: Writer) -> Writer:
        table[writer.__name__] = writer
        if needs:
            NEEDS[writer.__name__] = needs
        if makes is not None:
            MAKES[writer.__name__] = makes
        return writer

    return register


def raw(needs: str = "") -> Callable[[Writer], Writer]:
    return _registers(RAW, needs, None)


def hooked(needs: str = "", makes: Any = None) -> Callable[[Writer], Writer]:
    return _registers(HOOKED, needs, makes)


def numbers(seed: int = 5) -> Any:
    return np.random.default_rng(seed).standard_normal((SIDE, SIDE))


# NumPy itself, on a plain alias.


@raw()
def item(a: Any) -> Act:
    return lambda: a.__setitem__((SIDE // 2, 7), 99.0)


@raw()
def numpy_loop(a: Any) -> Act:
    return lambda: np.multiply(a, 3.0, out=a)


@raw()
def numpy_in_place_of_a_view(a: Any) -> Act:
    def act() -> None:
        a[3:-3, ::-2] -= 1.0

    return act


@raw()
def numpy_sort_and_put(a: Any) -> Act:
    def act() -> None:
        a.sort(axis=0)
        np.put(a, [5, 70000], [1.5, 2.5])
        np.fill_diagonal(a, 0.25)

    return act


@raw()
def numpy_random_out(a: Any) -> Act:
    return lambda: np.random.default_rng(3).standard_normal(out=a)


@raw()
def numpy_shuffle(a: Any) -> Act:
    return lambda: np.random.default_rng(3).shuffle(a)


@raw()
def numpy_matrix_product_out(a: Any) -> Act:
    left, right = numbers(), numbers(6)
    return lambda: np.matmul(left, right, out=a)


@raw()
def numpy_fourier_out(a: Any) -> Act:
    line = numbers()[0, : SIDE // 2]
    return lambda: np.fft.fft(line, out=a.reshape(-1)[50 * SIDE : 51 * SIDE].view(complex))


# BLAS and LAPACK.


@raw("scipy")
def blas_dgemm(a: Any) -> Act:
    from scipy.linalg.blas import dgemm

    left, right = np.asfortranarray(numbers()), np.asfortranarray(numbers(6))

    def act() -> None:  # Fortran order: f2py takes the pointer itself, and keeps the GIL
        c = dgemm(0.5, left, right, beta=2.0, c=a.T, overwrite_c=1)
        assert np.shares_memory(c, a)

    return act


@raw("scipy")
def blas_dgemv(a: Any) -> Act:
    from scipy.linalg.blas import dgemv

    matrix, vector = np.asfortranarray(numbers()), numbers(6)[0]

    def act() -> None:
        y = dgemv(0.5, matrix, vector, beta=2.0, y=a[SIDE // 2], overwrite_y=1)
        assert np.shares_memory(y, a)

    return act


@raw("scipy")
def blas_daxpy(a: Any) -> Act:
    from scipy.linalg.blas import daxpy

    vector = numbers().reshape(-1)
    return lambda: daxpy(vector, a.reshape(-1), a=0.5)


@raw("scipy")
def lapack_solve_over_its_inputs(a: Any) -> Act:
    from scipy.linalg import lapack

    matrix = np.asfortranarray(numbers() + 30.0 * np.eye(SIDE))
    return lambda: lapack.dgesv(matrix.copy("F"), a.T, overwrite_b=1)


@raw("scipy")
def lapack_factor_unchecked(a: Any) -> Act:
    from scipy.linalg import lu_factor

    return lambda: lu_factor(a.T, overwrite_a=True, check_finite=False)


@raw("scipy")
def ndimage_output(a: Any) -> Act:
    from scipy import ndimage as nd

    source = numbers()
    return lambda: nd.gaussian_filter(source, 2.0, output=a)


# Compiled code of others.


@raw("numba")
def numba_function(a: Any) -> Act:
    foreign.numba_scale(nogil=True)(np.ones((2, 2)), 1.0)
    return lambda: foreign.numba_scale(nogil=True)(a, 3.0)


@raw("numba")
def numba_function_with_gil(a: Any) -> Act:
    foreign.numba_scale(nogil=False)(np.ones((2, 2)), 1.0)
    return lambda: foreign.numba_scale(nogil=False)(a[5:50], 3.0)


@raw("gcc")
def foreign_threads_without_gil(a: Any) -> Act:
    library = foreign.c_library(keep_gil=False)
    return lambda: library.scales(a.ctypes.data, a.size, 4, 3.0)


@raw("gcc")
def foreign_threads_with_gil(a: Any) -> Act:
    library = foreign.c_library(keep_gil=True)
    return lambda: library.scales(a.ctypes.data, a.size, 4, 3.0)


@raw()
def ctypes_pointer(a: Any) -> Act:
    pointer = ctypes.cast(a.ctypes.data, ctypes.POINTER(ctypes.c_double))

    def act() -> None:
        for i in (0, 777, SIDE * SIDE // 2, SIDE * SIDE - 1):
            pointer[i] = -5.0

    return act


@raw()
def ctypes_memset(a: Any) -> Act:
    address = a.ctypes.data
    return lambda: ctypes.memset(address + 8000, 7, a.nbytes - 16000)


@raw()
def python_threads(a: Any) -> Act:
    def write(part: Any) -> None:
        part *= 3.0

    def act() -> None:
        threads = [threading.Thread(target=write, args=(part,)) for part in np.split(a, 4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return act


@raw("sklearn")
def scikit_learn_without_copy(a: Any) -> Act:
    from sklearn.preprocessing import StandardScaler

    return lambda: StandardScaler(copy=False).fit_transform(a)


@raw("pandas")
def pandas_values_made_writable(a: Any) -> Act:
    import pandas as pd

    frame = pd.DataFrame(a, copy=False)

    def act() -> None:
        values = frame.to_numpy(copy=False)
        values.flags.writeable = True  # it says read-only, the memory is not
        values[7] = 4.0

    return act


# Through a buffer; taken before anything is recorded, or after.


@hooked()
def memory_view(a: Any) -> Act:
    def act() -> None:
        memoryview(a).cast("B")[80000:80008] = struct.pack("d", 9.0)

    return act


@hooked()
def memory_view_taken_before(a: Any) -> Act:
    view = memoryview(a).cast("B")

    def act() -> None:
        view[80000:80008] = struct.pack("d", 9.0)

    return act


@hooked()
def pack_into(a: Any) -> Act:
    return lambda: struct.pack_into("3d", a, 8000, 1.0, 2.0, 3.0)


@hooked()
def ctypes_from_buffer(a: Any) -> Act:
    own = (ctypes.c_double * a.size).from_buffer(a)

    def act() -> None:
        own[SIDE] = own[SIDE * 100] = -5.0

    return act


@hooked("Cython")
def cython_typed_memoryview(a: Any) -> Act:
    return lambda: foreign.cython_module().scale(a, 3.0)


@hooked("Cython")
def cython_view_taken_before(a: Any) -> Act:
    holder = foreign.cython_module().Holder(a)
    return lambda: holder.scale(3.0)


@hooked()
def read_into(a: Any) -> Act:
    data = numbers().tobytes()

    def act() -> None:
        with tempfile.TemporaryFile(buffering=0) as file:
            file.write(data)
            file.seek(0)
            assert file.readinto(a) == a.nbytes

    return act


@hooked()
def read_into_from_memory(a: Any) -> Act:
    data = numbers().tobytes()
    return lambda: io.BytesIO(data).readinto(a)


@hooked()
def vectored_read(a: Any) -> Act:
    data = numbers().tobytes()

    def act() -> None:
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            assert os.preadv(file.fileno(), [a[: SIDE // 2], a[SIDE // 2 :]], 0) == a.nbytes

    return act


@hooked()
def receive_into(a: Any) -> Act:
    data = numbers().tobytes()

    def act() -> None:
        left, right = socket.socketpair()
        with left, right:
            sender = threading.Thread(target=left.sendall, args=(data,))
            sender.start()
            assert right.recv_into(a, a.nbytes, socket.MSG_WAITALL) == a.nbytes
            sender.join()

    return act


# From elsewhere.


@hooked()
def forked_child(a: Any) -> Act:
    """A child writes into its copy; this process sees nothing of it."""

    def act() -> None:
        child = os.fork()
        if child == 0:
            a[:] = 0.0
            os._exit(0 if (np.asarray(a) == 0.0).all() else 1)
        assert os.waitpid(child, 0)[1] == 0

    return act


def mapped_file(like: Any) -> Any:
    file = tempfile.NamedTemporaryFile()  # noqa: SIM115 (it lives as long as the array)
    file.write(like.tobytes())
    file.flush()
    array = np.memmap(file.name, dtype=like.dtype, mode="r+", shape=like.shape)
    FILES[array.ctypes.data] = file
    return array.view(np.ndarray)


FILES: dict[int, Any] = {}
PATCH_FILE = "import sys; f = open(sys.argv[1], 'r+b'); f.seek(80000); f.write(bytes(800))"


@hooked(makes=mapped_file)
def another_process_through_a_file(a: Any) -> Act:
    path = FILES[a.ctypes.data].name
    return lambda: subprocess.run([sys.executable, "-c", PATCH_FILE, path], check=True)


def in_shared_memory(like: Any) -> Any:
    block = shared_memory.SharedMemory(create=True, size=like.nbytes)
    array: Any = np.ndarray(like.shape, like.dtype, buffer=block.buf)
    array[:] = like
    FILES[array.ctypes.data] = block
    block.unlink()
    return array


@hooked(makes=in_shared_memory)
def another_process_through_shared_memory(a: Any) -> Act:
    def act() -> None:
        child = os.fork()
        if child == 0:
            a[100:200] = 0.5
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0

    return act


def in_an_anonymous_mapping(like: Any) -> Any:
    array: Any = np.frombuffer(mmap.mmap(-1, like.nbytes), like.dtype).reshape(like.shape)
    array[:] = like
    return array


@hooked(makes=in_an_anonymous_mapping)
def a_mapping_that_is_no_array(a: Any) -> Act:
    memory = a.base.base if isinstance(a.base, np.ndarray) else a.base
    return lambda: memory.obj.__setitem__(slice(80000, 80800), bytes(800))


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def written(writer: Writer, like: Any, makes: Callable[[Any], Any]) -> Any:
    a = makes(like)
    writer(a)()
    return a


def check(name: str, *, own: bool) -> int:
    """Record, write, compare. Returns how many faults the write took.

    own : the memory is a pending result's, else one that NumPy made.
    """
    writer = RAW.get(name) or HOOKED[name]
    makes = MAKES.get(name, np.copy)
    source = np.random.default_rng(len(name)).standard_normal((SIDE, SIDE))
    before = source * 2.0 + 1.0
    after = written(writer, before, makes)
    if own:
        x = npaccel.asarray(source) * 2.0 + 1.0
        plain = np.asarray(x)
    else:
        plain = makes(before)
        x = npaccel.asarray(plain)
    act = writer(plain)
    results = [x * 3.0, x[::2].T - 1.0, np.maximum(x, 0.0).sum(axis=1)]
    wanted = [before * 3.0, before[::2].T - 1.0, np.maximum(before, 0.0).sum(axis=1)]
    if name in RAW and _native.guarded():
        assert all(_native.is_pending(result) for result in results)
    counts = npaccel.stats()
    signal.alarm(WATCHDOG_S)
    act()
    signal.alarm(0)
    faults = sum(npaccel.stats()[key] - counts[key] for key in ("guard_faults", "write_faults"))
    for result, want in zip(results, wanted, strict=True):
        close(np.asarray(result), want)
    close(plain, after)
    close(np.asarray(x + 0.0), after)
    return int(faults)


def main(names: list[str]) -> None:
    for name in names:
        if foreign.unmet(NEEDS.get(name, "")):
            print("skipped", name, NEEDS[name], flush=True)
            continue
        faults = [check(name, own=False)]
        if name not in MAKES:
            faults.append(check(name, own=True))
        print("done", name, min(faults), flush=True)


if __name__ == "__main__":
    if os.environ.get("TEST_FAULTHANDLER") == "after":
        import faulthandler

        faulthandler.enable()
    main(sys.argv[1:] or [*RAW, *HOOKED])
