"""What leaves the trace cache: the least recently used, and no more than must."""

from __future__ import annotations

from dataclasses import dataclass

from npaccel.caches.trace import TraceCache


@dataclass
class Program:
    used: int


def filled(n: int, *, entries: int = 100, size_bytes: int = 1 << 30) -> TraceCache:
    cache = TraceCache({}, entries, size_bytes)
    for number in range(n):
        cache.add(b"%4d" % number, Program(number))
    return cache


def test_nothing_leaves_within_the_bounds() -> None:
    assert len(filled(100)) == 100


def test_the_least_recently_used_leave_first() -> None:
    cache = filled(100)
    table = cache._table
    table[b"   0"].used = 1000  # the core looked it up
    cache.add(b"new", Program(1001))
    assert len(cache) == 87 and b"   0" in table and b"new" in table
    assert b"   1" not in table and b"  99" in table


def test_bytes_are_bounded_too() -> None:
    cache = filled(1000, entries=10_000, size_bytes=4 * 12 * 50)
    assert len(cache) <= 50


def test_one_entry_stays_however_large() -> None:
    cache = TraceCache({}, 1, 1)
    cache.add(b"a" * 1000, Program(1))
    cache.add(b"b" * 1000, Program(2))
    assert list(cache._table) == [b"b" * 1000]


def test_entries_that_others_removed_do_not_count() -> None:
    cache = filled(100)
    cache._table.clear()
    for number in range(100):
        cache.add(b"%4d" % number, Program(number))
    assert len(cache) == 100
