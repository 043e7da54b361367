"""What things cost on this machine: measured once, kept with the cache, asked before choosing.

Predictions need to be right within a factor of two: what really decides between NumPy's loops and
a kernel is the time that each has taken (native/program.c gives kernels up that lose).
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Protocol, TypeVar

import numpy as np

from npaccel import _native

__all__ = [
    "CostModel",
    "Costs",
    "DeviceCosts",
    "HostCosts",
    "Work",
    "calibrate",
    "costs_of",
    "device_costs",
]

# Compiling, in the helper or here: a kernel and its requests. Scaled by how fast this machine is.
COMPILE_S = 0.02
COMPILE_REQUEST_S = 0.001
PLAN_REQUEST_S = 0.0002
# A kernel saves at least this part of the time of NumPy's loops, where it is worth anything.
SAVED = 0.5


@dataclass(frozen=True, slots=True)
class Work:
    """What a step does: bytes moved, arithmetic operations, and how many elements it runs over."""

    size_bytes: int
    operations: int
    elements: int


class CostModel(Protocol):
    """Predicts, for one device. A backend with memory of its own adds transfers to `seconds`."""

    def seconds(self, work: Work) -> float:
        """How long a step takes, launch included."""


@dataclass(frozen=True, slots=True)
class HostCosts:
    """This machine's processor.

    copy_bytes_s : bytes per second of a copy that does not fit in a cache.
    numpy_call_s : one operation of NumPy on very small arrays.
    numpy_element_s : one element of an addition in cache.
    launch_s : one compiled kernel without work.
    """

    copy_bytes_s: float
    numpy_call_s: float
    numpy_element_s: float
    launch_s: float

    def seconds(self, work: Work) -> float:
        """Predicted seconds of a compiled step: memory or arithmetic, whichever takes longer."""
        arithmetic = work.operations * work.elements * self.numpy_element_s / 2
        return self.launch_s + max(work.size_bytes / self.copy_bytes_s, arithmetic)

    def numpy_seconds(self, work: Work) -> float:
        """Predicted seconds of the same with NumPy's loops, each operation through memory."""
        moved = 3 * work.size_bytes / max(1, min(3, work.operations)) * work.operations / 3
        arithmetic = work.operations * work.elements * self.numpy_element_s
        calls = work.operations * self.numpy_call_s
        return calls + max(moved / self.copy_bytes_s, arithmetic)


@dataclass(frozen=True, slots=True)
class DeviceCosts:
    """A device.

    copy_bytes_s : bytes per second of a copy within its memory, read and written ones counted.
    transfer_bytes_s : from the host's memory to it.
    launch_s : the smallest command, from the call until its end is known.
    """

    copy_bytes_s: float
    transfer_bytes_s: float
    launch_s: float


# A machine of 2020, until this one has been measured.
USUAL = HostCosts(1e10, 1e-6, 5e-10, 5e-6)


def _best(call: Callable[[], object], seconds: float) -> float:
    """The shortest of repeated calls, within about `seconds`; of three if that takes longer."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def calibrate(budget_s: float = 0.2) -> HostCosts:
    """Measure this machine; takes about `budget_s`."""
    part = budget_s / 3
    large = np.zeros(1 << 22)
    target = np.empty_like(large)
    copy = _best(lambda: np.copyto(target, large), part)
    little = np.zeros(4)
    small = np.zeros(1 << 12)
    result = np.empty_like(small)
    tiny = _best(lambda: [np.add(little, little) for _ in range(100)], part) / 100
    row = _best(lambda: np.add(small, small, result), part)
    element = max(1e-12, (row - tiny) / small.size)
    return HostCosts(2 * large.nbytes / copy, tiny, element, max(2e-6, 2 * tiny))


def costs_of(folder: Callable[[], str]) -> Costs:
    """The Costs of this machine, kept in the cache's folder; '' if there is none."""
    return Costs(
        lambda: os.path.join(folder(), "costs") if folder() else "", lambda: _native.cpu()[0]
    )


class Costs:
    """The host's costs: the helper process measures them once, when it has nothing else to do.

    Parameters
    ----------
    path : the file they are kept in; '' keeps them in memory.
    identity : of this machine; a file of another one is not used.
    """

    def __init__(self, path: Callable[[], str], identity: Callable[[], str]) -> None:
        self._path = path
        self._identity = identity
        self._host: HostCosts | None = None
        self._looked = False
        self._slowness = 1.0

    @property
    def host(self) -> HostCosts:
        """This machine's, once they have been measured; what is usual, before that."""
        if not self._looked:
            self._looked = True
            self._host = self._read()
        return self._host or USUAL

    def measure(self) -> HostCosts:
        """Read the file, or measure and write it."""
        self._host = self._read()
        if self._host is None:
            self._host = calibrate()
            self._write(self._host)
        return self._host

    def compiling_pays(self, spent_s: float, requests: int) -> bool:
        """Whether a program of so many requests that has taken `spent_s` should be compiled: its
        future is taken to be as long as its past."""
        return spent_s * SAVED >= self.compile_seconds(requests) * SAVED / 2

    def compile_seconds(self, requests: int) -> float:
        """What planning and compiling is expected to take."""
        return self._slowness * (COMPILE_S + COMPILE_REQUEST_S * requests)

    def note_compile(self, requests: int, seconds: float) -> None:
        """What it took this time."""
        seen = seconds / (COMPILE_S + COMPILE_REQUEST_S * requests)
        self._slowness += (min(16.0, max(1 / 16, seen)) - self._slowness) / 4

    def plan_seconds(self, requests: int) -> float:
        """What planning alone takes, in this process."""
        return PLAN_REQUEST_S * requests

    def _read(self) -> HostCosts | None:
        return _read(self._path(), self._identity(), HostCosts)

    def _write(self, costs: HostCosts) -> None:
        _write(self._path(), self._identity(), costs)


def device_costs(
    folder: str, identity: str, measure: Callable[[], tuple[float, float, float]]
) -> DeviceCosts:
    """From a file in `folder`, or measured now and kept there. identity: the device's digest."""
    path = os.path.join(folder, f"costs-{identity[:16]}") if folder else ""
    known = _read(path, identity, DeviceCosts)
    if known is not None:
        return known
    costs = DeviceCosts(*measure())
    _write(path, identity, costs)
    return costs


Kind = TypeVar("Kind", HostCosts, DeviceCosts)


def _read(path: str, identity: str, kind: type[Kind]) -> Kind | None:
    try:
        with open(path) as file:
            machine, *lines = file.read().splitlines()
        if machine != identity:
            return None
        facts = dict(line.split(" ") for line in lines)
        costs = kind(**{name: float(value) for name, value in facts.items()})
    except (OSError, ValueError, TypeError):  # not there, or not as it was written
        return None
    good = all(math.isfinite(value) and value > 0 for value in asdict(costs).values())
    return costs if good else None


def _write(path: str, identity: str, costs: HostCosts | DeviceCosts) -> None:
    if not path:
        return
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w") as file:
            print(identity, file=file)
            for name, value in asdict(costs).items():
                print(name, value, file=file)
        os.replace(temporary, path)
    except OSError:
        return  # measured again next time
