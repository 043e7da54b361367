"""Loaded kernels by what they compute, bounded by bytes; the least recently used goes first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cachetools import LRUCache

__all__ = ["KernelCache"]


class KernelCache:
    """In-memory cache of machine code; a kernel that leaves it frees its code when the last
    program that uses it goes too.

    Parameters
    ----------
    limit : bytes that are kept.
    size : bytes of a value.
    """

    def __init__(self, limit: int, size: Callable[[Any], int]) -> None:
        self._size = size
        self._kernels: LRUCache[str, Any] = LRUCache(limit, size)

    def get(self, key: str) -> Any:
        """The value under `key`, or None."""
        return self._kernels.get(key)

    def add(self, key: str, value: Any) -> None:
        """Keep `value`, unless it alone is too large."""
        if self._size(value) <= self._kernels.maxsize:
            self._kernels[key] = value

    def resize(self, limit: int) -> None:
        """Keep no more than `limit` bytes from now on."""
        if limit == self._kernels.maxsize:  # asked after each change of any setting
            return
        before, self._kernels = self._kernels, LRUCache[str, Any](limit, self._size)
        while before:
            self.add(*before.popitem())  # the least recently used first

    @property
    def size_bytes(self) -> int:
        return int(self._kernels.currsize)

    def __len__(self) -> int:
        return len(self._kernels)

    def clear(self) -> None:
        self._kernels.clear()
