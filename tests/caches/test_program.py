"""Kernels kept in memory, bounded by bytes."""

from __future__ import annotations

from npaccel.caches.program import KernelCache


def kept(cache: KernelCache) -> str:
    return "".join(key for key in "abcd" if cache.get(key) is not None)


def test_the_least_recently_used_goes_first() -> None:
    cache = KernelCache(4, len)
    for key in "ab":
        cache.add(key, b"12")
    assert cache.get("a") == b"12"
    cache.add("c", b"12")
    cache.add("d", b"12345")  # too large by itself
    assert (kept(cache), len(cache), cache.size_bytes) == ("ac", 2, 4)


def test_a_lower_limit_holds_at_once_and_a_higher_one_from_then_on() -> None:
    cache = KernelCache(6, len)
    for key in "abc":
        cache.add(key, b"12")
    cache.get("a")
    cache.resize(4)
    assert kept(cache) == "ac"
    cache.resize(8)
    for key in "bd":
        cache.add(key, b"12")
    assert kept(cache) == "abcd"


def test_the_limit_that_there_is_costs_nothing() -> None:
    """It is told after each change of any setting, with thousands of kernels."""
    asked: list[bytes] = []

    def size(value: bytes) -> int:
        asked.append(value)
        return len(value)

    cache = KernelCache(6, size)
    cache.add("a", b"12")
    asked.clear()
    cache.resize(6)
    assert asked == [] and kept(cache) == "a"
