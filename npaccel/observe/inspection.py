"""What the array API's inspection answers: NumPy's answers, and the devices that there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

import numpy as np

__all__ = ["Inspection"]


class Inspection:
    """As `numpy.__array_namespace_info__`, which describes the functions that arrays are used with.

    Parameters
    ----------
    find_places : gives names of devices, as `npaccel.asarray(device=...)` takes them, besides the
        host's; called when somebody asks.
    """

    def __init__(self, find_places: Callable[[], Iterable[str]]) -> None:
        self._numpy: Any = np.__array_namespace_info__()
        self._find_places = find_places

    @cached_property
    def _places(self) -> tuple[str, ...]:
        return tuple(self._find_places())

    def capabilities(self) -> dict[str, Any]:
        """What NumPy's functions can do, by the array API's names."""
        return dict(self._numpy.capabilities())

    def default_device(self) -> str:
        """Where arrays live unless something else is said."""
        return str(self._numpy.default_device())

    def devices(self) -> list[str]:
        """Names of all places where an array can live."""
        return [*self._numpy.devices(), *self._places]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, np.dtype[Any]]:
        """The dtypes that creation functions choose; the same on each device."""
        return dict(self._numpy.default_dtypes(device=self._known(device)))

    def dtypes(
        self, *, device: str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype[Any]]:
        """The dtypes there are, of that kind; what a device lacks, the host computes."""
        return dict(self._numpy.dtypes(device=self._known(device), kind=kind))

    def _known(self, device: str | None) -> str | None:
        host = device is None or device in self._numpy.devices()
        return "cpu" if not host and device in self._places else device
