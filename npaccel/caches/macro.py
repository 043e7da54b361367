"""Recorded variants of macro sections, bounded by number; the least recently used go first."""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["MacroCache"]


class MacroCache:
    """Bounds the variants that all sections keep together.

    A variant says itself when it was last used (`used` grows from use to use), since replays do
    not pass here.

    Parameters
    ----------
    limit : how many variants are kept.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._owners: dict[Any, Any] = {}
        self._lock = threading.RLock()  # threads record at the same time

    def add(self, owner: Any, variant: Any) -> None:
        """Keep `variant` of the section `owner`, which has `drop(variant)`; None: all of them."""
        with self._lock:
            self._owners[variant] = owner
            self.shrink(but=variant)

    def shrink(self, but: Any = None) -> None:
        """Drop the oldest until no more than `limit` are left."""
        with self._lock:
            surplus = len(self._owners) - self.limit
            if surplus <= 0:
                return
            by_age = sorted((v for v in self._owners if v is not but), key=lambda v: int(v.used))
            for variant in by_age[:surplus]:
                self._owners.pop(variant).drop(variant)

    def forget(self, owner: Any) -> None:
        """Drop all variants of one section."""
        with self._lock:
            for variant in [v for v, of in self._owners.items() if of is owner]:
                del self._owners[variant]
            owner.drop(None)

    def clear(self) -> None:
        """Drop everything."""
        with self._lock:
            for owner in {id(owner): owner for owner in self._owners.values()}.values():
                owner.drop(None)
            self._owners.clear()

    def __len__(self) -> int:
        return len(self._owners)
