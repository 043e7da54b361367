"""Arrays on a cluster whose memory is read through a pointer: parts of them come home, as read."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from test_living import counts, raw, side_by_side
from test_planner import numbers

import npaccel
from npaccel import Cluster, _native

pytest.importorskip("distributed")
pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("deferred")]
PART = 1 << 16  # of a large array, that is fetched where it is touched first


@pytest.fixture(scope="module")
def two() -> Iterator[Cluster]:
    """Of two workers."""
    if not _native.guarded():
        pytest.skip("nothing can be hidden")
    with Cluster(2) as cluster:
        yield cluster


def plain(array: Any) -> Any:
    """The same memory, read through its address by NumPy, and by nobody else."""
    return np.asarray(array)


def fetched(read: Callable[[], Any]) -> Any:
    """What it returns, and how many bytes came home meanwhile."""
    before = counts()["downloaded_bytes"]
    return read(), counts()["downloaded_bytes"] - before


def test_a_raw_read_fetches_a_part(two: Cluster) -> None:
    values = numbers(1, (800, 300))
    x = npaccel.asarray(values.copy(), device=two)
    y = x * 2.0  # pending
    v = plain(y)
    assert fetched(lambda: v[5, 5]) == (values[5, 5] * 2, PART)
    assert fetched(lambda: v[6, 7]) == (values[6, 7] * 2, 0)
    assert fetched(lambda: v[799, 7]) == (values[799, 7] * 2, y.nbytes % PART)
    assert npaccel.evaluate(y + 1.0)[799, 7] == values[799, 7] * 2 + 1  # it stays there
    assert fetched(lambda: v[5, 5])[1] == 0
    reasons = {home.reason for home in npaccel.explain().brought_home}
    assert "a part, its memory was read directly" in reasons


def test_who_reads_all_through_a_pointer_fetches_each_byte_once(two: Cluster) -> None:
    values = numbers(1, (1600, 300))
    y = npaccel.evaluate(npaccel.asarray(values.copy(), device=two) * 2.0)
    copy = np.empty(values.size)
    calls = counts()["downloads"]
    address = np.ndarray.__array_interface__.__get__(y)["data"][0]

    def read() -> bytes:
        ctypes.memmove(copy.ctypes.data, address, y.nbytes)
        return copy.tobytes()

    assert fetched(read) == ((values * 2.0).tobytes(), y.nbytes)
    assert counts()["downloads"] - calls <= 6  # parts that are larger each time


def test_a_part_that_was_read_shows_what_is_written_later(two: Cluster) -> None:
    values = numbers(1, (800, 300))
    y = npaccel.evaluate(npaccel.asarray(values.copy(), device=two) * 2.0)
    v, expected = plain(y), values * 2.0
    assert v[5, 5] == expected[5, 5] and v[700, 5] == expected[700, 5]
    y += 1.0
    expected += 1.0
    assert v[5, 5] == expected[5, 5]
    y[5, 5] = 7.0  # written there, or recorded
    expected[5, 5] = 7.0
    assert v[5, 5] == 7.0 and v[5, 6] == expected[5, 6]
    v[5, 6] = 8.0  # through the address: all of it comes home
    expected[5, 6] = 8.0
    z = npaccel.evaluate(y * 1.0)
    assert raw(z) == expected.tobytes() == raw(y)


def test_threads_read_parts_while_it_is_written(two: Cluster) -> None:
    """Each sees values that the array has had, and never others."""
    y = npaccel.evaluate(npaccel.zeros((800, 300), device=two) + 1.0)
    v, over, wrong = plain(y), threading.Event(), list[float]()

    def look(seed: int) -> None:
        rng, last = np.random.default_rng(seed), 1.0
        while not over.is_set():
            seen = v[rng.integers(800), rng.integers(300)]
            if seen < last or seen != int(seen):
                wrong.append(seen)
            last = max(last, seen - 1)  # it may have been read before the latest write

    threads = [threading.Thread(target=look, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for k in range(20):
        y += 1.0
        npaccel.evaluate(y)
        assert v[k, 7] == k + 2.0
    over.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not wrong


def test_a_system_call_reads_what_only_part_of_was_looked_at(two: Cluster) -> None:
    values = numbers(1, (800, 300))
    y = npaccel.evaluate(npaccel.asarray(values.copy(), device=two) * 2.0)
    v = plain(y)
    assert v[5, 5] == values[5, 5] * 2
    reading, writing = os.pipe()
    ours = memoryview(v).cast("B")[:40_000]
    assert os.write(writing, ours) == 40_000
    assert os.read(reading, 40_000) == (values * 2.0).tobytes()[:40_000]
    os.close(reading), os.close(writing)


LEFT = 12 << 20  # bytes that more results may take here


@pytest.fixture
def large(two: Cluster) -> Iterator[tuple[Any, Any]]:
    """What is there, and does not fit here, and its values."""
    values = numbers(3, (2400, 1000))
    y = npaccel.evaluate(npaccel.asarray(values.copy(), device=two) * 2.0)
    expected = values * 2.0
    npaccel.evaluate()
    with npaccel.config(host_memory=npaccel.stats()["used_bytes"] + LEFT):
        yield y, expected


def parts() -> int:
    return int(npaccel.stats()["part_bytes"])


def test_what_does_not_fit_here_is_read_in_parts(large: tuple[Any, Any]) -> None:
    y, values = large
    v, most = plain(y), 0

    def read() -> None:
        nonlocal most
        for k in range(0, 2400, 40):
            assert v[k : k + 40].tobytes() == values[k : k + 40].tobytes()
            most = max(most, parts())

    bytes_home = fetched(read)[1]
    assert y.nbytes <= bytes_home <= 1.1 * y.nbytes  # each byte once, or nearly
    assert 0 < most <= LEFT // 2
    assert v[3, 4] == values[3, 4]  # was hidden again
    assert npaccel.evaluate(y + 1.0)[5, 5] == values[5, 5] + 1.0  # it lives there still


def test_results_take_the_place_of_parts(large: tuple[Any, Any]) -> None:
    y, values = large
    v = plain(y)
    assert v[:400].tobytes() == values[:400].tobytes() and parts() > 2 << 20
    z = npaccel.evaluate(npaccel.asarray(np.ones(LEFT // 16 - 20_000)) * 2.0)
    assert z[7] == 2.0 and parts() <= 400_000
    del z
    assert v[:400].tobytes() == values[:400].tobytes()


def test_threads_read_what_does_not_fit_here(large: tuple[Any, Any]) -> None:
    y, values = large
    v, wrong = plain(y), list[tuple[int, int]]()

    def look(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(60):
            i, j = int(rng.integers(2400)), int(rng.integers(900))
            if v[i, j : j + 100].tolist() != values[i, j : j + 100].tolist():
                wrong.append((i, j))

    side_by_side(look)
    assert not wrong


def test_dead_arrays_leave_no_parts(large: tuple[Any, Any]) -> None:
    y, values = large
    assert plain(y)[5, 5] == values[5, 5] and parts() == PART
    y += 1.0
    assert npaccel.evaluate(y) is y and parts() == 0
    assert plain(y)[5, 5] == values[5, 5] + 1.0 and parts() == PART
