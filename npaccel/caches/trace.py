"""Programs by the key of the requests they run, bounded; the least recently used go first."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

__all__ = ["TraceCache"]

# A Program, and what explain() needs of its plan, take about this many times its key's bytes.
BYTES_PER_KEY_BYTE = 12
# So much goes at once, so that not every new entry has to look for the oldest.
SHRINK_TO = 7 / 8
# Combinations of values that programs are kept for, where a plan depends on scalars' values.
VARIANTS = 64


class TraceCache:
    """Bounds the table in which the C core looks keys up.

    Parameters
    ----------
    table : the core's: key to Program, or to (positions of scalars, {their values: Program}, a
        Program for other values or None).
        The core notes at each look-up in `Program.used` the number of the flush.
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

    def find(self, key: bytes, values: Callable[[tuple[int, ...]], bytes]) -> Any:
        """The program that was planned for this key and these values of scalars, or None."""
        found = self._table.get(key)
        if isinstance(found, tuple):
            positions, variants, _ = found
            found = variants.get(values(positions))
        return found if found is None or found.planned else None

    def positions(self, key: bytes) -> tuple[int, ...]:
        """The scalars whose values tell apart what is known under the key."""
        found = self._table.get(key)
        return found[0] if isinstance(found, tuple) else ()

    def keep(self, key: bytes, positions: tuple[int, ...], values: bytes, program: Any) -> None:
        """Keep a program that was planned, for these values; the oldest values go first."""
        if not positions:
            self.add(key, program)
            return
        known = self._table.get(key)
        variants: dict[bytes, Any] = {}
        otherwise = None
        if isinstance(known, tuple):
            variants, otherwise = known[1] if known[0] == positions else {}, known[2]
        elif known is not None and not known.planned:
            otherwise = known
        variants[values] = program
        if len(variants) > VARIANTS:
            del variants[next(iter(variants))]
        self.add(key, (positions, variants, otherwise))

    def keep_otherwise(self, key: bytes, program: Any) -> None:
        """Keep what runs for values that nothing was planned for."""
        known = self._table.get(key)
        if isinstance(known, tuple):
            if known[2] is not program:
                self.add(key, (known[0], known[1], program))
        elif known is not program:
            self.add(key, program)

    def resize(self, entries: int, size_bytes: int) -> None:
        """Keep no more than so many entries and bytes from now on."""
        # Asked after each change of any setting.
        if (entries, size_bytes) != (self.entries, self.size_bytes):
            self.entries, self.size_bytes = entries, size_bytes
            self.shrink()

    def shrink(self) -> None:
        """Drop the entries that were not used for longest until all is within bounds."""
        by_age = sorted(self._table, key=lambda key: _last_used(self._table[key]))
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


def _last_used(value: Any) -> int:
    programs = (*value[1].values(), value[2]) if isinstance(value, tuple) else (value,)
    return max((program.used for program in programs if program is not None), default=0)
