"""Locks of other libraries that are taken before a fork: the child finds them free.

A process forked while another thread holds one would wait for that thread, which it lacks. What
is pending is evaluated before: who plans it and waits for such a lock is not waited for with the
lock in hand. `before` hooks run in the order opposite to their making, so this module is imported
before the core makes its own.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from npaccel.system import at_fork

__all__ = ["hold"]

_locks: list[AbstractContextManager[Any]] = []
_held: dict[int, ExitStack] = {}  # by threads that fork


def hold(lock: AbstractContextManager[Any]) -> None:
    """Take this lock, too, before each fork from now on, and give it back in both processes."""
    if not any(lock is other for other in _locks):
        _locks.append(lock)


def _before() -> None:
    held = _held[threading.get_ident()] = ExitStack()
    for lock in tuple(_locks):
        held.enter_context(lock)


def _after() -> None:
    held = _held.pop(threading.get_ident(), None)
    if held is not None:
        held.close()


at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
