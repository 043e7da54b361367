"""Folders that PoCL keeps its files in while a process runs.

Each has a file that its owner keeps locked, so whoever finds it unlocked knows that the owner was
killed, or it would have removed the folder, and removes it. Locks hold between containers,
where numbers of processes say nothing.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import suppress

from npaccel import system

__all__ = ["Folder", "remove_abandoned"]

PREFIX = "npaccel-pocl-"
LOCK = "in-use"
# A folder may be so old before it has its lock.
YOUNG_SECONDS = 600.0


class Folder:
    """A new folder, for as long as this process lives or until it is removed."""

    def __init__(self) -> None:
        remove_abandoned(tempfile.gettempdir())
        self.path = tempfile.mkdtemp(prefix=PREFIX)
        self._owner = os.getpid()
        number = os.open(os.path.join(self.path, LOCK), os.O_RDWR | os.O_CREAT, 0o600)
        self._lock = system.Descriptor(number)
        system.lock(number)

    def remove(self) -> None:
        """Remove it, unless this is a fork of the process that made it."""
        if os.getpid() == self._owner:
            shutil.rmtree(self.path, ignore_errors=True)
            self._lock.close()


def remove_abandoned(place: str) -> None:
    """Remove this user's folders in `place` whose processes were killed."""
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with suppress(OSError):  # its owner is removing it, or another process is
                    _remove_if_abandoned(entry)


def _remove_if_abandoned(entry: os.DirEntry[str]) -> None:
    state = entry.stat(follow_symlinks=False)
    mine = entry.is_dir(follow_symlinks=False) and state.st_uid == system.user()
    if not mine or time.time() - state.st_mtime < YOUNG_SECONDS:
        return
    with suppress(FileNotFoundError):  # made by an older version, or killed before it had one
        lock = os.open(os.path.join(entry.path, LOCK), os.O_RDWR | system.PLAIN)
        try:
            if not system.lock(lock):
                return
        finally:
            os.close(lock)
    shutil.rmtree(entry.path, ignore_errors=True)
