"""Which device a kernel runs on, and what is done when one fails.

The host's code is compiled for every step, also for one that runs on a device: where a launch
fails the core runs that instead, so nothing is lost (native/run/program.c).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from npaccel.backends.base import Backend, Compiled
from npaccel.backends.registry import HOST
from npaccel.caches.store import Store
from npaccel.errors import BackendUnavailable, BuildTimeout, CompileError, Unsupported
from npaccel.later import later
from npaccel.runtime.programs.kernels import Kernels
from npaccel.runtime.programs.program import StepInfo

if TYPE_CHECKING:
    from npaccel.ir import nodes
else:
    nodes = later("npaccel.ir.nodes")

__all__ = ["HOST", "Device", "Several"]

# Launches of a device that may fail, each by another kernel, before nothing is tried on it again.
PATIENCE = 3


class Device:
    """A backend that the user chose, with the kernels compiled for it.

    Parameters
    ----------
    name : as the user gave it.
    owner : its number among those whose launches the core counts.
    tell : warns the user, once for each text.

    Attributes
    ----------
    kernels : how many times kernels were built or loaded is counted there.
    lost : why nothing runs there any more, or ''.
    """

    def __init__(
        self,
        name: str,
        owner: int,
        backend: Callable[[], Backend],
        store: Callable[[], Store | None],
        identity: Callable[[], str],
        limit: int,
        tell: Callable[..., None],
    ) -> None:
        self.name, self.owner = name, owner
        self.lost = ""
        self.kernels = Kernels(backend, store, identity, limit)
        self._backend = backend
        self._tell = tell
        self._refused: dict[str, str] = {}
        self._failures = 0

    def place(self, kernel: nodes.Kernel, info: StepInfo) -> tuple[Compiled | None, str]:
        """The kernel compiled for this device and its name; or None and why it runs elsewhere.

        Raises
        ------
        CompileError : it was rejected; a smaller one may not be.
        """
        if self.lost:
            return None, self.lost
        known = self._refused.get(kernel.name)
        if known is not None:
            return None, known
        try:
            return self.kernels.get(kernel)[1], self._backend().name
        except BackendUnavailable as error:
            self.lost = str(error)
            self._tell(f"{error}; kernels run with {HOST} instead", error)
        except Unsupported as error:
            self._refused[kernel.name] = str(error)
        except CompileError as error:
            if len(info.requests) > 1 and not isinstance(error, BuildTimeout):
                raise
            self._refused[kernel.name] = str(error)
            self._tell(f"{error}; the kernel runs with {HOST} instead", error, kernel.name)
        return None, self.lost or self._refused[kernel.name]

    def of_step(self, reads: Sequence[int], writes: Sequence[int]) -> Device:
        """Every step runs here."""
        return self

    def note_failure(self, error: int) -> None:
        """A launch failed: the kernel is not tried again, after some not even the device."""
        self._failures += 1
        failed = BackendUnavailable(f"{self.name}: a launch failed with error {error}")
        self._tell(f"{failed}; it ran with {HOST} instead", failed)
        if self._failures >= PATIENCE:
            self.lost = f"{self.name}: {self._failures} launches failed"


class Several:
    """Devices of one run: a step runs where what it reads first lives, and its results live there.

    Parameters
    ----------
    first : where steps run that read nothing of any device's.
    homes : the device that each buffer lives on.

    Attributes
    ----------
    name : that of the first.
    """

    def __init__(self, first: Device, homes: Mapping[int, Device]) -> None:
        self.name, self.owner = first.name, first.owner
        self._first, self._homes = first, dict(homes)

    def place(self, kernel: nodes.Kernel, info: StepInfo) -> tuple[Compiled | None, str]:
        """As the first one has it."""
        return self._first.place(kernel, info)

    def of_step(self, reads: Sequence[int], writes: Sequence[int]) -> Device:
        """The device of the next step."""
        found = next((self._homes[b] for b in reads if b in self._homes), self._first)
        for buffer in writes:
            self._homes.setdefault(buffer, found)
        return found
