"""The C core, as the settings have it."""

from __future__ import annotations

from npaccel import _native
from npaccel.config import Config
from npaccel.runtime.process.guarding import why_aside, why_unguarded

__all__ = ["Core"]

# Changes after which the core reads what the process's control group allows: some files, which
# takes longer than all the rest.
LIMITS = ("", "guard", "nursery", "threads")
DIVIDES = ("off", "on", "auto")  # as the core numbers them


class Core:
    """One per process, from the import on.

    Attributes
    ----------
    guard_error : 0, or the errno that stops the guard from working.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self.guard_error = 0
        self._host_memory = 0
        self.tell()

    def tell(self, changed: str = "") -> None:
        """Have the settings hold from the next operation on, after what is pending was run.

        changed: the only setting that may be another than before; empty: any may.
        """
        config, aside = self._config, why_aside()
        limits = {"nursery_bytes": config.nursery, "threads": 1 if aside else config.threads}
        most, before = config.host_memory, self._host_memory
        self._host_memory = most
        if most == 0 or most > before > 0:  # what is pending may need it
            _native.limit_memory(most)
        self.guard_error = _native.configure(
            **(limits if changed in LIMITS else {}),
            threshold_bytes=config.threshold,
            queue_limit=config.queue_limit,
            memory_limit=config.memory_limit,
            guard=int(config.guard == "on" and not aside),
            check=int(config.check_every) if config.check != "off" else 0,
            boundscheck=int(config.boundscheck == "on"),
            numpy=int(config.backend == "numpy"),
            fast=int(config.accuracy == "fast"),
            divide=DIVIDES.index(config.divide),
        )
        _native.limit_memory(most)
        _native.trials(config.tiering == "adaptive")

    @property
    def unguarded(self) -> str:
        """Why nothing may stay pending, so that NumPy computes everything; empty where it may."""
        return why_unguarded(str(self._config.guard), self.guard_error)
