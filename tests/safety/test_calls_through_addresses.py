"""System calls that get an address: when they are served, and what else goes on meanwhile.

tests/ecosystem/system_calls.py has the ways of making them.
"""

from __future__ import annotations

import platform
import sys

import pytest

from npaccel import _native

from .fresh import succeed

pytestmark = pytest.mark.pending

C_LIBRARY = """
import ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)
def place_of_write():
    return ctypes.cast(ctypes.CDLL(None).write, ctypes.c_void_p).value
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library lacks some")
def test_every_function_is_found_in_our_own_table() -> None:
    error, functions, libraries, entries, refused = _native.system_calls()
    assert (error, functions, refused) == (0, 53, 0)
    assert 1 < libraries < entries


def test_nothing_is_changed_without_the_guard() -> None:
    program = """
_native.memory(False)
ours = place_of_write()
x, want = pending()
npaccel.config.guard = "off"
assert place_of_write() == ours, "a result is alive, and may be hidden"
np.testing.assert_array_equal(np.asarray(x), want)
del x
gc.collect()
npaccel.config.guard = "on"
npaccel.config.guard = "off"
assert place_of_write() != ours
npaccel.config.guard = "on"
assert place_of_write() == ours
"""
    succeed(C_LIBRARY + program)
    off = """
real = place_of_write()
pending()
assert place_of_write() == real and _native.system_calls() == (0, 0, 0, 0, 0)
"""
    succeed(C_LIBRARY + off, env={"NPACCEL_GUARD": "off"})


def test_a_call_that_waits_for_data_is_left_alone() -> None:
    """What it will write into is read by operations meanwhile: these have what was there."""
    program = """
def receive(a):
    left, right = socket.socketpair()
    done = []
    def call():
        size = ctypes.c_size_t(a.nbytes)
        at = ctypes.c_void_p(np.asarray(a).ctypes.data)
        done.append(libc.recv(right.fileno(), at, size, socket.MSG_WAITALL))
    thread = threading.Thread(target=call)
    thread.start()
    left.sendall(new[:10].tobytes())
    while a[9] != new[9]:
        time.sleep(0.001)
    return left, right, thread, done
def send(left, right, thread, done):
    left.sendall(new[10:].tobytes())
    thread.join()
    assert done == [new.nbytes], done
new = np.random.default_rng(3).standard_normal(1 << 17)
x, want = pending()
a = want.copy()
for target in (a, np.asarray(x)):
    call = receive(target)
    old = target.copy()
    y = npaccel.asarray(target) * 2.0
    send(*call)
    np.testing.assert_array_equal(np.asarray(y), old * 2.0)
    np.testing.assert_array_equal(target, new)
y = npaccel.asarray(a) * 2.0
assert _native.is_pending(y)
np.testing.assert_array_equal(np.asarray(y), new * 2.0)
"""
    succeed(C_LIBRARY + program)


def test_a_descriptor_that_is_none_stays_an_error() -> None:
    program = """
import errno
x, want = pending()
at = ctypes.c_void_p(np.asarray(x).ctypes.data)
assert libc.write(-1, at, ctypes.c_size_t(8)) == -1 and ctypes.get_errno() == errno.EBADF
assert libc.write(-1, None, ctypes.c_size_t(8)) == -1 and ctypes.get_errno() == errno.EBADF
np.testing.assert_array_equal(np.asarray(x), want)
"""
    succeed(C_LIBRARY + program)


@pytest.mark.skipif(sys.platform != "linux", reason="no forks with threads elsewhere")
def test_children_are_served() -> None:
    program = """
x, want = pending()
def check():
    y = npaccel.asarray(want) * 3.0
    reading, writing = os.pipe()
    at = ctypes.c_void_p(np.asarray(y).ctypes.data)
    assert libc.write(writing, at, ctypes.c_size_t(800)) == 800, os.strerror(ctypes.get_errno())
    assert os.read(reading, 800) == (want[:100] * 3.0).tobytes()
child = os.fork()
if child == 0:
    check()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
check()
"""
    succeed(C_LIBRARY + program)


def test_what_is_hidden_by_a_write_alone() -> None:
    """No result was made: an array of NumPy's making waits for what is written into it."""
    program = """
_native.trials(False)
real = place_of_write()
with npaccel.accelerate():
    u = np.array(memoryview(bytearray(8 << 17)).cast("d"))
    place, (end, begin) = u.ctypes.data, os.pipe()
    assert place_of_write() == real or not GUARDED
    u += 1.5
    assert _native.is_pending(u) == GUARDED
    assert libc.write(begin, ctypes.c_void_p(place + 4096), 16) == 16, ctypes.get_errno()
assert np.frombuffer(os.read(end, 16)).tolist() == [1.5, 1.5]
"""
    succeed(C_LIBRARY + program)
