"""The cache on disk as the settings have it, and what all that is in it depends on."""

from __future__ import annotations

from npaccel import _native, system
from npaccel.caches.identity import package_identity
from npaccel.caches.startup_profile import StartupProfiles
from npaccel.caches.store import Store
from npaccel.config import Config
from npaccel.ir.differences import loops
from npaccel.runtime.process.warn import tell

__all__ = ["Disk"]


class Disk:
    """One per process, from the import on.

    Attributes
    ----------
    startup_profiles : what the last process with this command used.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._store: Store | None = None
        # Now: by the first flush the files may not be those any more that are being imported.
        self._identity = package_identity(("llvmlite",), loops())
        self._processor = _native.cpu()[0]
        self.startup_profiles = StartupProfiles(self.store, self.full_identity)
        system.at_fork(after_in_child=self._forked)
        config.subscribe(self._changed)

    def store(self) -> Store | None:
        """The cache; None when it is switched off."""
        if self._store is None and self._config.cache == "on":
            self._store = Store(self._config.cache_dir, self._config.cache_limit, tell)
        return self._store

    def folder(self) -> str:
        """Its folder; '' if there is none that can be used."""
        store = self.store()
        return store.folder if store is not None and store.usable() else ""

    def identity(self) -> str:
        """What all entries depend on."""
        return self._identity

    def full_identity(self) -> str:
        """What those depend on that hold for this processor alone."""
        return self._identity + self._processor

    def processor(self) -> str:
        """The processor, as it describes itself."""
        return self._processor

    def note_hits(self) -> None:
        """Count on disk what was found there."""
        if self._store is not None:
            self._store.note_hits()

    def end(self) -> None:
        """At the process's end: what was found is counted, what is too much goes."""
        self.note_hits()
        if self._store is not None:
            self._store.tidy()

    def _changed(self, name: str, value: str | float) -> None:
        if name in ("cache", "cache_dir", "cache_limit"):
            self.note_hits()
            self._store = None

    def _forked(self) -> None:
        if self._store is not None:
            self._store.forget_hits()  # they are the parent's
        self.startup_profiles.forget()
