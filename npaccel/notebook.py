"""Acceleration from a call on, without a block; and how IPython loads the package's magics."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from npaccel import api
from npaccel.blocks import Accelerate
from npaccel.later import later

if TYPE_CHECKING:
    from npaccel.observe import magics
else:
    magics = later("npaccel.observe.magics")

__all__ = ["disable", "enable", "load_ipython_extension", "unload_ipython_extension"]


class _Switch:
    """The block that `enable` opened, if it is open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._block: Accelerate | None = None

    def turn(self, block: Accelerate | None) -> None:
        """Close what is open, and open this one."""
        with self._lock:
            before, self._block = self._block, None
            if before is not None:
                before.__exit__(None, None, None)
            if block is not None:
                block.__enter__()
                self._block = block


_SWITCH: Final = _Switch()


def enable(*, min_size: int | None = None, backend: str | None = None) -> None:
    """Have plain ndarrays recorded from now on, in all threads, until `disable` is called.

    It is what a ``with npaccel.accelerate:`` block does, for notebooks and sessions, which have no
    place for one. Called again, the new arguments replace the old ones. Blocks inside have their
    own.

    Parameters
    ----------
    min_size : bytes of the largest operand from which operations are recorded; None: as
        `npaccel.config.threshold` says.
    backend : what runs; None: as `npaccel.config.backend` says.

    Raises
    ------
    ConfigError : a value that is not allowed.
    BackendUnavailable : there is no such device here.
    """
    _SWITCH.turn(api.accelerate_everywhere(min_size, backend))


def disable() -> None:
    """End what `enable` began. Results stay usable, and what is pending may stay so."""
    _SWITCH.turn(None)


def load_ipython_extension(shell: Any) -> None:
    """What ``%load_ext npaccel`` calls: the magics ``%%accelerate`` and ``%%profile``."""
    magics.load(shell, api.accelerate, api.profile)


def unload_ipython_extension(shell: Any) -> None:
    """What ``%unload_ext npaccel`` calls."""
    magics.unload(shell)
