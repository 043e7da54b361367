"""What the last process with the same command line used, for the next one.

A command that runs again mostly does what it did. So at its end a process notes which programs it
took from disk, how much new memory they got, and how its calls were typed; the next one has all
that ready before it is asked.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from npaccel.caches.store import Store, digest
from npaccel.own import os

__all__ = ["StartupProfile", "StartupProfiles"]

# Programs that are noted: reading one takes about half a millisecond, before anybody wants it.
MOST_PROGRAMS = 16

# The name of a program's entry, and whether its requests were in the queue.
Use = tuple[str, bool]


class StartupProfile(NamedTuple):
    """programs : in order of use.

    sizes : bytes of ranges that got new pages.

    rules : of calls, as plain data that dispatch knows how to read.

    jobs : what was compiled after its end, or at least was to be.

    smaller : it paid to record arrays below the threshold.
    """

    programs: tuple[Use, ...] = ()
    sizes: tuple[int, ...] = ()
    rules: tuple[tuple[Any, ...], ...] = ()
    jobs: tuple[tuple[Any, ...], ...] = ()
    smaller: bool = False


class StartupProfiles:
    """Finds and keeps the StartupProfile of this process's command.

    Parameters
    ----------
    store : the cache on disk as it is now; None: there is none.
    identity : what programs depend on besides requests.
    """

    def __init__(self, store: Callable[[], Store | None], identity: Callable[[], str]) -> None:
        self._store = store
        self._identity = identity
        self.found = StartupProfile()
        self._own = True

    def read(self) -> StartupProfile:
        """That of the last process; an empty one if there was none."""
        store = self._store()
        # A folder that is not there is made when something is to be kept.
        if store is None or not os.path.isdir(store.folder) or store.problem() is not None:
            return self.found
        name = self._name()
        if name:
            entry = store.get(name, hit=False)
            self.found = (
                StartupProfile() if entry is None else StartupProfile(*marshal.loads(entry))
            )
        return self.found

    def keep(
        self,
        programs: Sequence[Use],
        sizes: tuple[int, ...],
        rules: tuple[tuple[Any, ...], ...] = (),
        jobs: Sequence[tuple[Any, ...]] = (),
        smaller: bool = False,
    ) -> str:
        """Note what this process used, unless that is what is known already. Returns the entry's
        name, if there is one now."""
        used = tuple(programs[:MOST_PROGRAMS])
        profile = StartupProfile(used, sizes, rules, tuple(jobs), smaller)
        same = set(profile.programs) == set(self.found.programs)
        same = same and sorted(profile.sizes) == sorted(self.found.sizes)
        same = same and set(profile.rules) == set(self.found.rules)
        same = same and profile.jobs == self.found.jobs and smaller == self.found.smaller
        store, name = self._store(), self._name()
        if not self._own or store is None or not name:
            return ""
        if same:
            return name
        if profile.programs or profile.jobs:
            return name if store.put(name, marshal.dumps(tuple(profile)), tidy=False) else ""
        store.drop(name)
        return ""

    def forget(self) -> None:
        """In a child process: its parent's command is not its own."""
        self._own = False

    def _name(self) -> str:
        """Of the entry; '' where there can be none."""
        try:
            folder = os.getcwd()
        except OSError:  # it was removed
            return ""
        return digest("startup profile", self._identity(), folder, *map(os.fsencode, sys.orig_argv))
