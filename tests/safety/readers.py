"""Ways of reading an array that npaccel is not told of; `python readers.py NAME ...` runs them.

A reader takes a deferred array and what it must hold (2-d, float64). Each is written as someone
would who has never heard of npaccel. `RAW` are those that reach the memory through the pointer
alone, so that a protected page is touched; the others go through something that Array defines.
"""

from __future__ import annotations

import ctypes
import hashlib
import io
import os
import pickle
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import npaccel
from npaccel import _native

if __package__:
    from . import foreign
else:
    import foreign  # run as a program

WATCHDOG_S = 20
SIDE = 384  # 384 x 384 float64: more than the threshold of recording
Reader = Callable[[Any, Any], None]
RAW: dict[str, Reader] = {}
HOOKED: dict[str, Reader] = {}
NEEDS: dict[str, str] = {}


def _registers(table: dict[str, Reader], needs: str) -> Callable[[Reader], Reader]:
    def register(reader: Reader) -> Reader:
        table[reader.__name__] = reader
        if needs:
            NEEDS[reader.__name__] = needs
        return reader

    return register


def raw(needs: str = "") -> Callable[[Reader], Reader]:
    return _registers(RAW, needs)


def hooked(needs: str = "") -> Callable[[Reader], Reader]:
    return _registers(HOOKED, needs)


def same(got: Any, want: Any) -> None:
    np.testing.assert_array_equal(got, want)


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


@raw()
def numpy_loop(x: Any, want: Any) -> None:
    plain = np.asarray(x)
    assert type(plain) is np.ndarray
    same(plain + 1.0, want + 1.0)


@raw()
def numpy_reduction_of_a_view(x: Any, want: Any) -> None:
    same(np.asarray(x)[3:-3, ::-2].max(axis=0), want[3:-3, ::-2].max(axis=0))


@raw()
def numpy_subclass_view(x: Any, want: Any) -> None:
    same(np.asarray(x).view(np.recarray).view(np.int64)[7], want.view(np.int64)[7])


@raw()
def numpy_fancy_index(x: Any, want: Any) -> None:
    rows = np.array([5, 1, 300])
    same(np.asarray(x)[rows], want[rows])


@raw()
def blas(x: Any, want: Any) -> None:
    plain = np.asarray(x)
    close(plain @ plain, want @ want)


@raw("scipy")
def blas_fortran_with_gil(x: Any, want: Any) -> None:
    from scipy.linalg.blas import dgemm

    plain = np.asarray(x).T  # Fortran order: f2py takes the pointer itself, and keeps the GIL
    assert plain.flags.f_contiguous
    close(dgemm(1.0, plain, plain), want.T @ want.T)


@raw("scipy")
def lapack_unchecked(x: Any, want: Any) -> None:
    from scipy.linalg import lu_factor, lu_solve

    right = np.ones(SIDE)
    solved = lu_solve(lu_factor(np.asarray(x), check_finite=False), right, check_finite=False)
    close(want @ solved, right)


@raw()
def lapack_svd(x: Any, want: Any) -> None:
    plain = np.asarray(x)[:64]
    close(np.linalg.svd(plain)[1], np.linalg.svd(want[:64])[1])


@raw()
def fourier(x: Any, want: Any) -> None:
    close(np.fft.fft(np.asarray(x)), np.fft.fft(want))


@raw("scipy")
def ndimage(x: Any, want: Any) -> None:
    from scipy import ndimage as nd

    close(nd.gaussian_filter(np.asarray(x), 2.0), nd.gaussian_filter(want, 2.0))


@raw("scipy")
def sparse_product(x: Any, want: Any) -> None:
    from scipy import sparse

    matrix = sparse.eye(SIDE, format="csr") * 3.0
    same(matrix @ np.asarray(x), matrix @ want)


@raw("numba")
def numba_function(x: Any, want: Any) -> None:
    close(foreign.numba_total()(np.asarray(x)), want.sum())


@raw("pandas")
def pandas_frame(x: Any, want: Any) -> None:
    import pandas as pd

    close(pd.DataFrame(np.asarray(x)).mean().to_numpy(), want.mean(axis=0))


@raw("sklearn")
def scikit_learn(x: Any, want: Any) -> None:
    from sklearn.preprocessing import StandardScaler

    close(StandardScaler().fit_transform(np.asarray(x)), (want - want.mean(0)) / want.std(0))


@raw("matplotlib")
def matplotlib_image(x: Any, want: Any) -> None:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import image

    drawn = []
    for values in (np.asarray(x), want):
        file = io.BytesIO()
        image.imsave(file, values, format="png")
        drawn.append(file.getvalue())
    assert drawn[0] == drawn[1]


@raw()
def ctypes_pointer(x: Any, want: Any) -> None:
    plain = np.asarray(x)
    p = ctypes.cast(plain.ctypes.data, ctypes.POINTER(ctypes.c_double))
    assert [p[i] for i in (0, 12345, SIDE * SIDE - 1)] == [
        want.flat[i] for i in (0, 12345, SIDE * SIDE - 1)
    ]


@raw()
def ctypes_string_at(x: Any, want: Any) -> None:
    assert ctypes.string_at(np.asarray(x).ctypes.data, want.nbytes) == want.tobytes()


def foreign_threads(x: Any, want: Any, *, keep_gil: bool) -> None:
    library = foreign.c_library(keep_gil=keep_gil)
    out = (ctypes.c_double * 4)()
    pointer = ctypes.c_void_p(np.asarray(x).ctypes.data)
    assert library.sums(pointer, ctypes.c_long(want.size), 4, out) == 0
    close(list(out), want.reshape(4, -1).sum(axis=1))


@raw("gcc")
def foreign_threads_without_gil(x: Any, want: Any) -> None:
    foreign_threads(x, want, keep_gil=False)


@raw("gcc")
def foreign_threads_with_gil(x: Any, want: Any) -> None:
    foreign_threads(x, want, keep_gil=True)


@raw()
def python_threads(x: Any, want: Any) -> None:
    plain, found = np.asarray(x), [None] * 4
    parts = [slice(i * SIDE // 4, (i + 1) * SIDE // 4) for i in range(4)]

    def read(i: int) -> None:
        found[i] = plain[parts[i]].copy()  # type: ignore[call-overload]

    threads = [threading.Thread(target=read, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(np.concatenate(found), want)  # type: ignore[arg-type]


# Through a buffer, a file or a system call.


@hooked("Cython")
def cython_typed_memoryview(x: Any, want: Any) -> None:
    close(foreign.cython_module().total(x), want.sum())


@hooked("Cython")
def cython_view_of_what_is_hidden_again(x: Any, want: Any) -> None:
    """A typed memoryview that was taken before an operation: it shows the memory all the time."""
    held = foreign.cython_module().Holder(np.asarray(x))
    y = x * 2.0
    assert held.first() == want[0, 0]
    same(np.asarray(y), want * 2.0)


@hooked("Cython")
def alias_cython_typed_memoryview(x: Any, want: Any) -> None:
    close(foreign.cython_module().total(np.asarray(x)[2:, ::3]), want[2:, ::3].sum())


@hooked()
def memory_view(x: Any, want: Any) -> None:
    assert memoryview(x).tobytes() == want.tobytes()


@hooked()
def array_interface(x: Any, want: Any) -> None:
    class Holder:
        __array_interface__ = x.__array_interface__

    same(np.array(Holder()), want)


@hooked()
def dlpack(x: Any, want: Any) -> None:
    same(np.from_dlpack(x), want)


@hooked()
def system_write(x: Any, want: Any) -> None:
    with tempfile.TemporaryFile() as file:
        assert os.write(file.fileno(), x) == want.nbytes
        file.seek(0)
        assert file.read() == want.tobytes()


@hooked()
def to_file(x: Any, want: Any) -> None:
    with tempfile.TemporaryFile() as file:
        x.tofile(file)
        file.seek(0)
        assert file.read() == want.tobytes()


@hooked()
def save(x: Any, want: Any) -> None:
    file = io.BytesIO()
    np.save(file, x)
    file.seek(0)
    same(np.load(file), want)


@hooked()
def hashing(x: Any, want: Any) -> None:
    assert hashlib.sha256(x).digest() == hashlib.sha256(want).digest()


@hooked()
def pickling(x: Any, want: Any) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        same(pickle.loads(pickle.dumps(x + 0.0, protocol)), want)


@hooked()
def socket_send(x: Any, want: Any) -> None:
    left, right = socket.socketpair()
    with left, right:
        sender = threading.Thread(target=left.sendall, args=(x,))
        sender.start()
        received = bytearray()
        while len(received) < want.nbytes:
            received += right.recv(1 << 20)
        sender.join()
    assert bytes(received) == want.tobytes()


# The same, through a plain alias: the slots of ndarray itself, no method of Array's.


@hooked()
def alias_memory_view(x: Any, want: Any) -> None:
    assert memoryview(np.asarray(x)).tobytes() == want.tobytes()


@hooked()
def alias_hashing(x: Any, want: Any) -> None:
    assert hashlib.sha256(np.asarray(x)).digest() == hashlib.sha256(want).digest()


@hooked()
def alias_pickling(x: Any, want: Any) -> None:
    same(pickle.loads(pickle.dumps(np.asarray(x))), want)


@hooked()
def alias_system_write(x: Any, want: Any) -> None:
    system_write(np.asarray(x), want)


@hooked()
def alias_to_file(x: Any, want: Any) -> None:
    to_file(np.asarray(x), want)


@hooked()
def alias_save(x: Any, want: Any) -> None:
    with tempfile.TemporaryFile() as file:
        np.save(file, np.asarray(x))
        file.seek(0)
        same(np.load(file), want)


@hooked()
def alias_socket_send(x: Any, want: Any) -> None:
    socket_send(np.asarray(x), want)


@hooked()
def array_of_a_list(x: Any, want: Any) -> None:
    same(np.array([x, x]), np.array([want, want]))


@hooked()
def methods(x: Any, want: Any) -> None:
    assert x.tolist() == want.tolist()
    assert (x + 0.0).tobytes() == want.tobytes()
    assert (x + 0.0).item(7) == want.item(7)
    assert float((x + 0.0)[3, 4]) == want[3, 4]
    assert repr(x * 1.0) == repr(want)
    same(np.sort(x * 1.0), np.sort(want))
    same((x * 1.0).flat[5:9], want.flat[5:9])
    assert [float(v) for v in (x * 1.0)[2][:3]] == want[2][:3].tolist()


def main(names: list[str]) -> None:
    guarded = _native.guarded()
    for name in names:
        if foreign.unmet(NEEDS.get(name, "")):
            print("skipped", name, NEEDS[name], flush=True)
            continue
        source = np.random.default_rng(len(name)).standard_normal((SIDE, SIDE))
        want = source * 2.0 + 1.0
        reader = RAW.get(name) or HOOKED[name]
        reader(want.copy(), want)  # an import changes warning filters, and that evaluates
        x = npaccel.asarray(source) * 2.0 + 1.0
        assert _native.is_pending(x) == guarded
        before = npaccel.stats()["guard_faults"]
        signal.alarm(WATCHDOG_S)
        reader(x, want)
        signal.alarm(0)
        faults = npaccel.stats()["guard_faults"] - before
        same(np.asarray(x), want)
        print("done", name, faults, flush=True)


if __name__ == "__main__":
    if os.environ.get("TEST_FAULTHANDLER") == "after":
        import faulthandler

        faulthandler.enable()
    main(sys.argv[1:] or [*RAW, *HOOKED])
