"""Programs by the key of the requests they run, bounded; the least recently used go first."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

__all__ = ["TraceCache"]

# A Program, and what explain() needs of its plan, take about this many times its key's bytes.
BYTES_PER_KEY_BYTE = 12
# So much goes at once, so that not every new entry has to look for the oldest.
SHRINK_TO = 7 / 8


class TraceCache:
    """Bounds the table in which the C core looks keys up.

    Parameters
    ----------
    table : the core's: key to Program. The core notes at each look-up in `Program.used` the number
        of the flush.
    entries, size_bytes : how many entries are kept, and about how large they may become.
    """

    def __init__(self, table: MutableMapping[bytes, Any], entries: int, size_bytes: int) -> None:
        self._table = table
        self.entries = entries
        self.size_bytes = size_bytes
        self._used_bytes = 0
        self._aside: dict[str, dict[bytes, Any]] = {}

    def add(self, key: bytes, value: Any) -> None:
        """Keep `value` under `key`; the oldest entries go if there are too many."""
        self._used_bytes += _size_bytes(key) if key not in self._table else 0
        self._table[key] = value
        if len(self._table) > self.entries or self._used_bytes > self.size_bytes:
            self.shrink()

    def find(self, key: bytes) -> Any:
        """The program that was planned for this key, or None."""
        found = self._table.get(key)
        return found if found is None or found.planned else None

    def resize(self, entries: int, size_bytes: int) -> None:
        """Keep no more than so many entries and bytes from now on."""
        # Asked after each change of any setting.
        if (entries, size_bytes) != (self.entries, self.size_bytes):
            self.entries, self.size_bytes = entries, size_bytes
            self.shrink()

    def shrink(self) -> None:
        """Drop the entries that were not used for longest until all is within bounds."""
        by_age = sorted(self._table, key=lambda key: self._table[key].used)
        self._used_bytes = sum(map(_size_bytes, by_age))
        entries, size_bytes = self.entries, self.size_bytes
        if len(by_age) <= entries and self._used_bytes <= size_bytes:
            return
        for key in by_age[:-1]:  # the last one is about to run
            if len(self._table) <= SHRINK_TO * entries and self._used_bytes <= (
                SHRINK_TO * size_bytes
            ):
                break
            del self._table[key]
            self._used_bytes -= _size_bytes(key)

    def exchange(self, before: str, after: str) -> None:
        """Put the entries aside as those of backend `before`, and bring those of `after` back."""
        self._aside[before] = dict(self._table)
        self._table.clear()
        self._table.update(self._aside.pop(after, {}))
        self._used_bytes = sum(map(_size_bytes, self._table))

    def clear(self) -> None:
        """Forget all entries, of other backends too."""
        self._table.clear()
        self._aside.clear()
        self._used_bytes = 0

    def __len__(self) -> int:
        return len(self._table)


def _size_bytes(key: bytes) -> int:
    return BYTES_PER_KEY_BYTE * len(key)
