"""What planning and compiling cost here, corrected by what they took; what devices are capable of.

What a program itself costs is measured, not predicted: tier 0 and kernels each keep the times of
their runs, and native/program.c gives kernels up that lose.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import numpy as np

__all__ = ["Costs", "DeviceCosts", "device_costs", "measure_host"]

# Compiling, in the helper or here: a kernel and its requests.
COMPILE_S = 0.02
COMPILE_REQUEST_S = 0.001
# Planning known requests for another size, here.
PLAN_S = 0.0001
PLAN_REQUEST_S = 0.00003
# What NumPy's loops take for an element, where they have not been measured.
POINT_S = 5e-10
# A kernel saves at least this part of the time of NumPy's loops, where it is worth anything.
SAVED = 0.5


class Costs:
    """Estimates for this machine; one per engine."""

    def __init__(self) -> None:
        self._compiling = 1.0  # times the figures above
        self._planning = 1.0

    def compiling_pays(self, spent_s: float, requests: int) -> bool:
        """Whether a program of so many requests that has taken `spent_s` should be compiled: its
        future is taken to be as long as its past."""
        expected = self._compiling * (COMPILE_S + COMPILE_REQUEST_S * requests)
        return spent_s * SAVED >= expected * SAVED / 2

    def note_compile(self, requests: int, seconds: float) -> None:
        """What it took this time."""
        seen = seconds / (COMPILE_S + COMPILE_REQUEST_S * requests)
        self._compiling += (min(16.0, max(1 / 16, seen)) - self._compiling) / 4

    def planning_pays(self, spent_s: float, requests: int) -> bool:
        """Whether known requests of a new size, which took `spent_s` with NumPy's loops, the run at
        hand included, should be planned for it."""
        return spent_s * SAVED >= self._planning * (PLAN_S + PLAN_REQUEST_S * requests)

    def note_plan(self, requests: int, seconds: float) -> None:
        """What it took this time. The first of all also imports: what rises, rises slowly."""
        seen = max(1 / 16, seconds / (PLAN_S + PLAN_REQUEST_S * requests))
        self._planning = min(seen, 1.1 * self._planning)


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


def _best(call: Callable[[], object], seconds: float) -> float:
    """The shortest of repeated calls, within about `seconds`; of three if that takes longer."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def measure_host(budget_s: float = 0.2) -> tuple[float, float, float]:
    """As DeviceCosts, of the host itself; takes about `budget_s`."""
    large = np.zeros(1 << 22)
    target, little = np.empty_like(large), np.zeros(4)
    copy = 2 * large.nbytes / _best(lambda: np.copyto(target, large), budget_s / 2)
    tiny = _best(lambda: [np.add(little, little) for _ in range(100)], budget_s / 2) / 100
    return copy, copy, max(2e-6, 2 * tiny)


def device_costs(
    folder: str, identity: str, measure: Callable[[], tuple[float, float, float]]
) -> DeviceCosts:
    """From a file in `folder`, or measured now and kept there. identity: the device's digest."""
    path = os.path.join(folder, f"costs-{identity[:16]}") if folder else ""
    known = _read(path, identity)
    if known is not None:
        return known
    costs = DeviceCosts(*measure())
    _write(path, identity, costs)
    return costs


def _read(path: str, identity: str) -> DeviceCosts | None:
    try:
        with open(path) as file:
            machine, *lines = file.read().splitlines()
        if machine != identity:
            return None
        facts = dict(line.split(" ") for line in lines)
        costs = DeviceCosts(**{name: float(value) for name, value in facts.items()})
    except (OSError, ValueError, TypeError):  # not there, or not as it was written
        return None
    good = all(math.isfinite(value) and value > 0 for value in asdict(costs).values())
    return costs if good else None


def _write(path: str, identity: str, costs: DeviceCosts) -> None:
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
