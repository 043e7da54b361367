"""What planning and compiling cost here, corrected by what they took; speeds of devices, on disk.

What a program itself costs on the host is measured, not predicted: tier 0 and kernels each keep the
times of their runs, and native/run/program.c gives kernels up that lose. What it would cost on a
device is predicted, see choice.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from npaccel.backends.speeds import Speeds
from npaccel.own import os

__all__ = ["Costs", "Speeds", "device_speeds", "note_devices", "noted_devices", "speeds_known"]

DEVICES = "devices"  # a file in the cache's folder

# Compiling, in the helper or here: a kernel and its requests.
COMPILE_S = 0.02
COMPILE_REQUEST_S = 0.001
# Planning known requests for another size, here.
PLAN_S = 0.00006
PLAN_REQUEST_S = 0.00001
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
        return spent_s * SAVED >= self.compiling(requests) * SAVED / 2

    def compiling(self, requests: int) -> float:
        """What it takes, in seconds."""
        return self._compiling * (COMPILE_S + COMPILE_REQUEST_S * requests)

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


def speeds_known(folder: str, identity: str) -> Speeds | None:
    """What was measured of a device, if anybody asked for it here. identity: its digest."""
    return _read(os.path.join(folder, f"speeds-{identity[:16]}"), identity) if folder else None


def device_speeds(folder: str, identity: str, measure: Callable[[], Speeds]) -> Speeds:
    """From a file in `folder`, or measured now and kept there."""
    known = speeds_known(folder, identity)
    if known is not None:
        return known
    speeds = measure()
    lines = [identity, *(f"{name} {value}" for name, value in speeds._asdict().items())]
    _write(folder, f"speeds-{identity[:16]}", lines)
    return speeds


def note_devices(folder: str, identities: Mapping[str, str]) -> None:
    """Keep which devices `auto` may choose by what was measured: their names and digests."""
    _write(folder, DEVICES, [f"{name} {identity}" for name, identity in identities.items()])


def noted_devices(folder: str) -> dict[str, str]:
    """What `note_devices` kept."""
    if not folder:
        return {}
    try:
        with open(os.path.join(folder, DEVICES)) as file:
            pairs = [line.split() for line in file]
    except (OSError, UnicodeDecodeError):
        return {}
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def _read(path: str, identity: str) -> Speeds | None:
    try:
        with open(path) as file:
            machine, *lines = file.read().splitlines()
        if machine != identity:
            return None
        facts = dict(line.split(" ") for line in lines)
        speeds = Speeds(**{name: float(value) for name, value in facts.items()})
    except (OSError, ValueError, TypeError):  # not there, or not as it was written
        return None
    times = speeds.copy_bytes_s, speeds.transfer_bytes_s, speeds.launch_s
    good = all(math.isfinite(v) and v >= 0 for v in speeds._asdict().values()) and min(times) > 0
    return speeds if good else None


def _write(folder: str, name: str, lines: Iterable[str]) -> None:
    if not folder:
        return
    path = os.path.join(folder, name)
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "w") as file:
            file.writelines(f"{line}\n" for line in lines)
        os.replace(temporary, path)
    except OSError:
        return  # measured again next time
