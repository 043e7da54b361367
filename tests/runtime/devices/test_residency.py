"""Data that lives on a device with memory of its own: what moves and when.

PoCL shares the host's memory; the setting `device_memory` has it treated as if it did not.
"""

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest
from own_memory import (
    DEVICE,
    LIMIT,
    NUMBERED,
    ROOM,
    N,
    halved_sum,
    launched,
    moved,
    numbers,
    on_device,
)

import npaccel
from npaccel.errors import BackendUnavailable, ConfigError
from npaccel.this_process import engine

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("device", "little_memory")]


def test_a_chain_of_programs_moves_its_inputs_once_and_its_result_once():
    a, b = numbers(0), numbers(1)
    x, y, expected = on_device(a), on_device(b), a
    for _ in range(20):
        x, expected = npaccel.evaluate(halved_sum(x, y)), halved_sum(expected, b)
    assert launched() == 20
    assert moved() == (2, 2 * a.nbytes, 0, 0)
    np.testing.assert_array_equal(np.asarray(x), expected)
    assert moved() == (2, 2 * a.nbytes, 1, a.nbytes)


def test_transfers_are_timed():
    a = numbers()
    x = npaccel.evaluate(halved_sum(on_device(a), 1.0))
    told = npaccel.explain(x)
    assert told.moved == (a.nbytes, 0) and told.moving_s[0] > 0 == told.moving_s[1]
    assert "to devices, 0 B back" in str(told) and " ms to devices" in str(told)
    before = npaccel.stats()
    assert before["uploading_ns"] > 0 == before["downloading_ns"]
    np.testing.assert_array_equal(np.asarray(x), halved_sum(a, 1.0))
    after = npaccel.stats()
    assert after["uploading_ns"] == before["uploading_ns"] and after["downloading_ns"] > 0
    assert npaccel.stats(reset=True)["downloading_ns"] > 0 == npaccel.stats()["downloading_ns"]


def test_of_a_view_that_was_written_there_only_the_written_range_moves():
    a = numbers()
    x = on_device(a)
    part = x[1000:2000]
    part *= 2.0
    npaccel.evaluate()
    assert launched() == 1
    assert moved() == (1, 8000, 0, 0)
    a[1000:2000] *= 2.0
    np.testing.assert_array_equal(np.asarray(x), a)
    assert moved() == (1, 8000, 1, 8000)


def test_what_the_next_kernel_reads_moves_while_one_runs():
    a, b, c = numbers(0), numbers(1), numbers(2, N // 2)
    with npaccel.backend(DEVICE):
        x, y = npaccel.asarray(a) * 2.0, npaccel.asarray(b)
        z = halved_sum(npaccel.asarray(c), y[: N // 2])  # of another shape: a kernel of its own
        npaccel.evaluate(x, z)
    assert launched() == 2
    assert npaccel.stats()["uploads_ahead"] == 2 and npaccel.stats()["uploads"] == 3
    np.testing.assert_array_equal(np.asarray(z), halved_sum(c, b[: N // 2]))
    np.testing.assert_array_equal(np.asarray(x), a * 2.0)


def test_what_does_not_fit_moves_out_and_in_again():
    sources = [numbers(k) for k in range(2 * ROOM)]
    arrays = [on_device(source) for source in sources]
    for _ in range(2):
        arrays = [npaccel.evaluate(halved_sum(x, arrays[0])) for x in arrays]
        sources = [halved_sum(x, sources[0]) for x in sources]
        assert engine.backend(DEVICE).memory.used <= LIMIT
    assert launched() == 4 * ROOM
    assert npaccel.stats()["evictions"] > 2 * ROOM
    for x, source in zip(arrays, sources, strict=True):
        np.testing.assert_array_equal(np.asarray(x), source)


def test_raw_readers_and_writers_find_it():
    a, b = numbers(0), numbers(1)
    expected = halved_sum(a, b)
    for look in (
        lambda x: np.frombuffer(ctypes.string_at(x.ctypes.data, x.nbytes)),
        lambda x: np.frombuffer(x.tobytes()),
        lambda x: np.frombuffer(bytes(memoryview(x))),
        lambda x: np.sort(x)[np.argsort(np.argsort(x))],
        lambda x: np.array([float(value) for value in x[:100]] + x[100:].tolist()),
    ):
        x = npaccel.evaluate(halved_sum(on_device(a), on_device(b)))
        np.testing.assert_array_equal(look(x), expected)
    x = npaccel.evaluate(halved_sum(on_device(a), on_device(b)))
    ctypes.memset(x.ctypes.data, 0, 80)  # and what is computed from it afterwards sees that
    expected[:10] = 0
    np.testing.assert_array_equal(np.asarray(halved_sum(x, x)), halved_sum(expected, expected))


def test_requests_of_the_host_between_those_of_the_device():
    a, b = numbers(0), numbers(1)
    x, y = on_device(a), on_device(b)
    found = npaccel.evaluate(halved_sum(np.cumsum(halved_sum(x, y)), y))
    np.testing.assert_array_equal(np.asarray(found), halved_sum(np.cumsum(halved_sum(a, b)), b))


def test_memory_of_others_is_read_and_written():
    a, b, out = numbers(0), numbers(1), np.zeros(N)
    with npaccel.backend(DEVICE):
        np.multiply(npaccel.asarray(a), b, out=out)
    np.testing.assert_array_equal(out, a * b)
    a[:] = 1.0  # what was read of it does not stay there
    with npaccel.backend(DEVICE):
        np.multiply(npaccel.asarray(a), b, out=out)
    np.testing.assert_array_equal(out, b)
    assert launched() == 2


def test_the_users_choice_of_a_backend_comes_before_where_data_lies():
    a, b = numbers(0), numbers(1)
    x = npaccel.evaluate(halved_sum(on_device(a), on_device(b)))
    before = launched()
    with npaccel.backend("llvm"):
        np.testing.assert_array_equal(
            np.asarray(halved_sum(x, x)), halved_sum(halved_sum(a, b), halved_sum(a, b))
        )
    assert launched() == before


def test_a_macro_section_and_a_forked_process_find_it():
    section = npaccel.macro(halved_sum)
    a, b = numbers(0), numbers(1)
    x = npaccel.evaluate(halved_sum(on_device(a), on_device(b)))
    expected = halved_sum(a, b)
    np.testing.assert_array_equal(np.asarray(section(x, x)), halved_sum(expected, expected))
    x = npaccel.evaluate(halved_sum(on_device(a), on_device(b)))
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(np.asarray(x), expected) else 1)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(np.asarray(halved_sum(x, x)), halved_sum(expected, expected))


def test_where_memory_is_shared_it_is_computed_there_and_nothing_moves():
    npaccel.config.device_memory = 0
    if not engine.backend(DEVICE).shares_memory:
        pytest.skip("this device's memory is its own")
    a, b = numbers(0), numbers(1)
    x = on_device(a)
    for _ in range(2):
        x, a = npaccel.evaluate(halved_sum(x, b)), halved_sum(a, b)
    assert launched() == 2
    assert moved() == (0, 0, 0, 0)
    np.testing.assert_array_equal(np.asarray(x), a)


LATE_DRIVER = """
import ctypes, numpy as np, npaccel
from npaccel.backends.opencl.target import Target
found, kept, late = Target._addresses, [], []
word, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32
MOVE = ctypes.CFUNCTYPE(ctypes.c_int32, word, word, number, size, size, word, number, word, word)
FINISH = ctypes.CFUNCTYPE(ctypes.c_int32, word)

def addresses(self, names):
    real = dict(zip(names, found(self, names)))
    if "clFinish" not in names:
        return tuple(real.values())
    read, write = (MOVE(real[f"clEnqueue{way}Buffer"]) for way in ("Read", "Write"))
    end = FINISH(real["clFinish"])

    def arrive(queue):
        if queue == self.transfers.int_ptr:
            for memory, at, data in late:
                assert write(queue, memory, 1, at, len(data), data, 0, None, None) == 0
            late.clear()

    def late_write(queue, memory, wait, at, n, host, *events):
        if queue != self.transfers.int_ptr:
            return write(queue, memory, wait, at, n, host, *events)
        late.append((memory, at, ctypes.string_at(host, n)))
        return 0

    def late_read(queue, *arguments):
        arrive(queue)
        return read(queue, *arguments)

    def late_end(queue):
        arrive(queue)
        return end(queue)

    changed = MOVE(late_read), MOVE(late_write), FINISH(late_end)
    kept.extend(changed)
    of = ("clEnqueueReadBuffer", "clEnqueueWriteBuffer", "clFinish")
    real |= {name: ctypes.cast(f, word).value for name, f in zip(of, changed)}
    return tuple(real.values())

Target._addresses = addresses
npaccel.config.tiering, npaccel.config.threshold = "eager", 0
npaccel.config.device_memory = 1 << 20
for n in (1 << 14, 1 << 18):  # as a whole, and in parts
    source = np.random.default_rng(0).random(n)
    x = npaccel.asarray(source, device="opencl:0")
    for _ in range(3):
        source, x = source * 0.5 + 1.0, npaccel.evaluate(x * 0.5 + 1.0)
    assert memoryview(x).tobytes() == source.tobytes(), n  # no fault: the driver is Python
    assert not late
counts = npaccel.stats()
assert counts["kernels_by_backend"]["opencl"] >= 6 and counts["uploads"] > 4, counts
"""


@pytest.mark.usefixtures("opencl")
def test_kernels_wait_for_what_a_driver_has_only_taken():
    """A blocking write may return before the bytes are there, where other queues see them."""
    command = [sys.executable, "-c", LATE_DRIVER]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_names_of_devices():
    with pytest.raises(BackendUnavailable, match=rf"no device {DEVICE}:7; there are: {NUMBERED}"):
        npaccel.asarray(numbers(), device=f"{DEVICE}:7")
    with pytest.raises(ConfigError, match="opencl"):
        npaccel.asarray(numbers(), device="moon")


@pytest.mark.parametrize("fused", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_programs_of_random_views_are_numpys(fused):
    """A little of everything on few arrays with little room: all orders of moving in and out."""
    rng = np.random.default_rng(7)
    theirs = [numbers(k) for k in range(2 * ROOM)]
    ours = [on_device(source) for source in theirs]
    for _ in range(150):
        i, j = rng.integers(0, len(ours), 2)
        low, n = int(rng.integers(0, N // 2)), int(rng.integers(1, N // 2))
        what = rng.integers(0, 6)
        for arrays in (theirs, ours):
            if what < 2:
                part = arrays[i][low : low + n]
                part *= 0.5
            elif what == 2:
                arrays[i][low : low + n] = arrays[j][:n]
            elif what == 3:
                arrays[i] = halved_sum(arrays[i], arrays[j])
            elif what == 4:
                arrays[i][::2] = arrays[j][1::2]
            else:
                arrays[i] = arrays[j][::-1] + 0.25
        if rng.integers(0, 3) == 0:
            k = rng.integers(0, len(ours))
            assert float(ours[k][low]) == theirs[k][low]
        elif not fused or rng.integers(0, 2) == 0:  # a driver takes its time for each new kernel
            npaccel.evaluate()
    for x, source in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(np.asarray(x), source)
    assert launched() > 20 and npaccel.stats()["evictions"] > 0
