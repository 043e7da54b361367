"""Nobody changes, behind npaccel's back, memory that a pending request will read.

Each program is run with NumPy alone and with npaccel; `wrap` is what makes the difference.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import npaccel
from npaccel import _native

from .writing import BIG, SMALL, Wrap, Write, agree, count, read_then_write, view_of

pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("whose_memory")]
Array = np.ndarray[Any, Any]


def scatter(a: Array) -> None:
    a[::97] = -1.0


def through_alias(a: Array) -> None:
    np.asarray(npaccel.asarray(a))[len(a) // 2] = 99.0


def through_memoryview(a: Array) -> None:
    view_of(a)[len(a) // 2] = 99.0


def through_pointer(a: Array) -> None:
    pointer = a.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    pointer[len(a) // 2] = 99.0


def through_memset(a: Array) -> None:
    ctypes.memset(a.ctypes.data, 7, a.nbytes)


def through_copyto(a: Array) -> None:
    np.copyto(a, 5.0)


def through_out(a: Array) -> None:
    np.add(a, 1.0, out=a)


def through_operator(a: Array) -> None:
    a *= 3.0


def through_sort(a: Array) -> None:
    a[::-1].sort()


def through_thread(a: Array) -> None:
    thread = threading.Thread(target=scatter, args=(a,))
    thread.start()
    thread.join()


def through_wrapper(a: Array) -> None:
    npaccel.asarray(a)[3:] = -4.0


WRITES: list[Write] = [
    scatter,
    through_alias,
    through_memoryview,
    through_pointer,
    through_memset,
    through_copyto,
    through_out,
    through_operator,
    through_sort,
    through_thread,
    through_wrapper,
]


@pytest.mark.parametrize("size", [SMALL, BIG, 3 * BIG + 5])
@pytest.mark.parametrize("write", WRITES)
def test_a_write_does_not_change_what_was_recorded(write: Write, size: int) -> None:
    read_then_write(write, size)


@pytest.mark.parametrize("index", [0, 1, -1, -2, 512, -512, BIG // 2])
def test_bytes_that_no_page_protects(index: int) -> None:
    def write(a: Array) -> None:
        a[index] = 99.0

    read_then_write(write, BIG)


@pytest.mark.parametrize("offset", [0, 1, 7, 300, 511])
def test_blocks_anywhere_in_a_page(offset: int) -> None:
    """A view's ends lie inside pages of the same array, which are protected."""

    def program(wrap: Wrap) -> list[Array]:
        a = np.arange(2.0 * BIG)
        part = wrap(a)[BIG // 2 + offset : BIG + offset]
        y = part + 1.0
        a[BIG // 2 + offset] = a[BIG + offset - 1] = -7.0
        return [y, a]

    agree(program)


@pytest.mark.parametrize("protocol", [4, 5])
@pytest.mark.parametrize("write", [scatter, through_pointer, lambda a: a[:8].fill(-1.0)])
def test_what_was_unpickled_may_be_written(write: Write, protocol: int) -> None:
    """NumPy lets it show the bytes that were read, and write them."""

    def program(wrap: Wrap) -> list[Array]:
        a = pickle.loads(pickle.dumps(np.arange(float(BIG)), protocol))
        assert isinstance(a.base, bytes) == (protocol == 4)
        y = wrap(a) * 2.0
        write(a)
        return [y, a]

    agree(program)


def test_requests_before_and_after_a_write() -> None:
    def program(wrap: Wrap) -> list[Array]:
        a = np.arange(float(BIG))
        x = wrap(a)
        results = []
        for at in (0, BIG - 1, 5000, 0, BIG - 1, 70000):
            results.append(x * 2.0)
            a[at] += 100.0
            results.append(x * 2.0)
        return results

    agree(program)


def test_a_write_while_idle_opens_the_memory_at_once() -> None:
    a = np.arange(float(BIG))
    y = npaccel.asarray(a) * 2.0
    npaccel.evaluate()
    armed, faults = count("armed_blocks"), count("write_faults")
    assert armed >= 1
    a[5000] = 0.0
    assert (count("armed_blocks"), count("write_faults")) == (armed - 1, faults + 1)
    a[6000] = 0.0
    assert count("write_faults") == faults + 1
    assert y[5000] == 10000.0


def test_the_same_inputs_again_cost_no_protection() -> None:
    a = np.arange(float(BIG))
    for _ in range(5):
        y = npaccel.asarray(a) * 2.0 + npaccel.asarray(a)[::-1]
        assert _native.is_pending(y)
        npaccel.evaluate()
    before = count("write_faults"), count("early_reads"), count("snapshots")
    y = npaccel.asarray(a) * 2.0
    assert _native.is_pending(y)
    assert (count("write_faults"), count("early_reads"), count("snapshots")) == before


def test_who_writes_again_and_again_is_waited_for_more_and_more_seldom() -> None:
    a = np.zeros(BIG)
    x = npaccel.asarray(a)
    pending = []
    for i in range(16):
        y = x + 1.0
        pending.append(_native.is_pending(y))
        a[5000] = i
        assert y[5000] == (i if i == 0 else i - 1) + 1.0
    assert [i for i, waits in enumerate(pending) if waits] == [0, 1, 6, 15]


# ------------------------------------------------------------------------------------- views


def test_views_of_one_array() -> None:
    def program(wrap: Wrap) -> list[Array]:
        a = np.arange(4.0 * BIG).reshape(4, BIG)
        results = []
        for view in (a[1], a[::2], a[:, ::-3], a.T, a[2:, 5:], a.reshape(-1)[1::2], a[3, :50]):
            results.append(wrap(view) * 2.0)
            a[1:, 7000] += 1.0
        windows = np.lib.stride_tricks.sliding_window_view(a[0], 3)
        results.append(wrap(windows).sum(axis=1))
        a[0, 9000:] = 0.0
        return [*results, a]

    agree(program)


def test_a_row_of_a_large_matrix_is_not_a_matter_of_the_whole() -> None:
    _native.memory(False)  # of ours, all is protected or nothing
    a = np.ones((64, BIG))
    y = npaccel.asarray(a[7]) * 2.0
    assert _native.is_pending(y)
    a[9] = 0.0
    assert _native.is_pending(y)
    a[7, 5000] = 0.0
    assert not _native.is_pending(y)
    assert y[5000] == 2.0


# --------------------------------------------------------------------- our own arrays' memory


@pytest.mark.parametrize("size", [SMALL, BIG])
@pytest.mark.parametrize("write", WRITES[:-1])
def test_a_result_is_written_through_an_alias(write: Write, size: int) -> None:
    def program(wrap: Wrap) -> list[Array]:
        x = wrap(np.arange(float(size))) + 1.0
        plain = np.asarray(x)
        plain[0] = 7.0
        y = x * 2.0
        write(plain)
        z = x * 2.0
        return [z, y, plain.copy()]

    agree(program)


# --------------------------------------------------------------------------- lives and deaths


def test_freed_memory_is_ordinary_memory() -> None:
    for i in range(12):
        a = np.full(BIG, float(i))
        y = npaccel.asarray(a) * 2.0
        if i % 2:
            npaccel.evaluate()
        del a
        assert y[5000] == 2.0 * i
        del y
        gc.collect()
        b = np.empty(BIG)
        b.fill(1.0)
        assert (b == 1.0).all()
    npaccel.evaluate()
    npaccel.asarray(np.zeros(1)) + 0.0
    gc.collect()


def test_armed_blocks_end_with_their_arrays() -> None:
    npaccel.evaluate()
    gc.collect()
    before = count("armed_blocks")
    arrays = [np.ones(BIG) for _ in range(5)]
    total = sum((npaccel.asarray(a) * 2.0)[0] for a in arrays)
    assert total == 10.0
    assert count("armed_blocks") == before + 5
    del arrays
    gc.collect()
    assert count("armed_blocks") == before


def test_an_array_can_still_be_resized() -> None:
    a = np.arange(float(BIG))
    y = npaccel.asarray(a) * 2.0
    npaccel.evaluate()
    assert y[1] == 2.0
    a.resize(2 * BIG)
    a += 1.0
    assert (a[1], a[-1]) == (2.0, 1.0)
    z = npaccel.asarray(a) * 2.0
    a.resize(10, refcheck=False)
    assert (z[1], z.sum()) == (4.0, 2.0 * (BIG * (BIG - 1) / 2 + 2 * BIG))


def test_more_arrays_than_can_be_watched() -> None:
    arrays = [np.full(10000, float(i)) for i in range(1500)]
    results = [npaccel.asarray(a) * 2.0 for a in arrays]
    for a in arrays:
        a[5000] = -1.0
    assert all(r[5000] == 2.0 * i for i, r in enumerate(results))


def test_fork() -> None:
    a = np.arange(float(BIG))
    y = npaccel.asarray(a) * 2.0
    child = os.fork()
    if child == 0:
        z = npaccel.asarray(a) * 2.0
        a[5000] = 1.0
        a[9000] = 1.0
        os._exit(0 if (y[5000], z[5000], (z + y)[9000]) == (1e4, 1e4, 3.6e4) else 1)
    a[5000] = 1.0
    assert y[5000] == 10000.0
    assert os.waitpid(child, 0)[1] == 0


def test_guard_off_leaves_nothing_protected() -> None:
    a = np.arange(float(BIG))
    y = npaccel.asarray(a) * 2.0
    try:
        npaccel.config.guard = "off"
        assert count("armed_blocks") == 0
        faults = count("write_faults")
        a[5000] = 1.0
        z = npaccel.asarray(a) * 2.0
        a[5000] = 2.0
        assert (count("write_faults"), y[5000], z[5000]) == (faults, 10000.0, 2.0)
    finally:
        npaccel.config.guard = "on"


# ----------------------------------------------------------------------------------- at length


@pytest.mark.parametrize("size", [SMALL, 20000, BIG])
def test_writes_and_reads_in_turn(size: int) -> None:
    a = np.zeros(size)
    x = npaccel.asarray(a)
    rng = np.random.default_rng(1)
    y, expected = x + 0.0, a.copy()
    for _ in range(1000):
        at, value = int(rng.integers(size)), float(rng.integers(9))
        kind = rng.integers(6)
        if kind == 0:
            a[at] = value
        elif kind == 1:
            a[at:] += value
        elif kind == 2:
            x[at] = value
        elif kind == 3:
            assert y[at] == expected[at]
        elif kind == 4:
            y, expected = x - y, a - expected
        else:
            y, expected = x * value, a * value
    np.testing.assert_array_equal(np.asarray(y), expected)


def test_a_thread_writes_all_the_time() -> None:
    """Whole fills by another thread, handed over by events: a recorded read sees one fill."""
    a = np.zeros(BIG)
    x = npaccel.asarray(a)
    go, done = threading.Event(), threading.Event()
    values = range(1, 60)

    def writer() -> None:
        for value in values:
            assert go.wait(20)
            go.clear()
            a.fill(value)
            done.set()

    thread = threading.Thread(target=writer)
    thread.start()
    for value in values:
        y = x + 1.0
        go.set()
        assert done.wait(20)
        done.clear()
        assert (np.asarray(y) == value).all()
    thread.join()


@pytest.mark.parametrize("size", [SMALL, BIG])
def test_a_base_that_is_no_owner_of_the_memory(size: int) -> None:
    """nditer's copy, to be written back, has the array that it is a copy of as its base."""

    def program(wrap: Wrap) -> list[Array]:
        a = wrap(np.arange(float(size)).reshape(-1, 2).T)
        with np.nditer(
            [a], [], [["readwrite", "updateifcopy"]], casting="same_kind", op_dtypes=[np.float32]
        ) as steps:
            copied = steps.operands[0]
            sums = [wrap(copied) + a, wrap(copied)[:, ::2] * 2]
            copied[:, 1] = -12.5
        return [*sums, a + 1]

    agree(program)


def test_threads_that_write_while_others_evaluate() -> None:
    """One queue for all: a thread's writes meet runs, and plans, that another thread began."""
    if npaccel.config.check != "off":
        pytest.skip("check mode reads the memory a second time, after other threads wrote to it")
    wrong: list[str] = []

    def work(seed: int, size: int) -> None:
        rng = np.random.default_rng(seed)
        a, pending = np.zeros(size), []
        for _ in range(400):
            kind = rng.integers(8)
            if kind < 2:
                a[rng.choice([0, size - 1, int(rng.integers(size))])] = rng.random()
            elif kind == 2:
                a *= rng.random()
            elif kind == 3:
                npaccel.asarray(a)[5:] = rng.random()
            elif kind < 7:
                m = float(rng.random())
                pending.append((a * m, npaccel.asarray(a) * m))
            elif pending:
                expected, y = pending.pop(int(rng.integers(len(pending))))
                if not np.array_equal(np.asarray(y), expected):
                    wrong.append(f"thread {seed}, {size} elements")
            a = a.copy() if rng.random() < 0.02 else a
            del pending[:-6]

    threads = [threading.Thread(target=work, args=(k, n)) for k, n in enumerate((9000, 20000, BIG))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
