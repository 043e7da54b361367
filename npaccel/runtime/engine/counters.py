"""Counts of the C core and of the engine, as `npaccel.stats` has them."""

from __future__ import annotations

from typing import Any

from npaccel import _native
from npaccel.backends.registry import HOST
from npaccel.caches.trace import TraceCache
from npaccel.runtime.checking.comparing import Comparing
from npaccel.runtime.devices.machines import Machines
from npaccel.runtime.engine.tiers import Tiers
from npaccel.runtime.programs.kernels import Kernels

__all__ = ["Counters"]

FAULTS = ("guard_faults", "write_faults")  # counted by the core for good


class Counters:
    """Reads them where they are kept, and begins again at 0.

    Attributes
    ----------
    moved : programs that the plan of other sizes was taken for.
    """

    def __init__(
        self,
        kernels: Kernels,
        machines: Machines,
        tiers: Tiers,
        comparing: Comparing,
        traces: TraceCache,
    ) -> None:
        self._kernels, self._machines, self._tiers = kernels, machines, tiers
        self._comparing, self._traces = comparing, traces
        self._faults_before: dict[str, int] = {}
        self.moved = 0

    def read(self, *, reset: bool = False) -> dict[str, Any]:
        """Since the start, or since they were last reset."""
        counts: dict[str, Any] = dict(_native.stats(reset))
        faults = {name: counts[name] for name in FAULTS}
        for name in FAULTS:
            counts[name] -= self._faults_before.get(name, 0)
        if reset:
            self._faults_before = faults
        compilers = [self._kernels, *(device.kernels for device in self._machines.devices)]
        counts["kernels_by_backend"] = self._by_backend(counts.pop("launches"))
        counts["compiles"] = sum(kernels.compiled for kernels in compilers)
        unasked = counts.pop("fault_misses") + counts.pop("rests")
        counts["tier0_runs"] = self._tiers.runs + unasked
        counts["kernels_loaded"] = sum(kernels.loaded for kernels in compilers)
        counts["plans_moved"] = self.moved + counts.pop("filled")
        counts["checked_runs"] = self._comparing.compared
        counts["traces"] = len(self._traces)
        if reset:
            self._tiers.runs = 0
            for kernels in compilers:
                kernels.compiled = kernels.loaded = 0
            self.moved = self._comparing.compared = 0
        return counts

    def _by_backend(self, launches: tuple[int, ...]) -> dict[str, int]:
        """launches : by the owner of kernels; the host's first."""
        found = {HOST: launches[0]}
        for device in self._machines.devices:
            kind = device.name.partition(":")[0]
            if launches[device.owner]:
                found[kind] = found.get(kind, 0) + launches[device.owner]
        return found
