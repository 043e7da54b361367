"""What npaccel can compute on here, whether pending memory is guarded, and the settings."""

from __future__ import annotations

import errno
import os
import pickle
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from npaccel import _native, system
from npaccel.config import SETTINGS
from npaccel.errors import BackendUnavailable, CompileError
from npaccel.observe.words import bytes_text, row
from npaccel.runtime.devices.cost import Speeds
from npaccel.runtime.engine.engine import Engine
from npaccel.runtime.process.guarding import UNGUARDED, build

__all__ = ["Device", "Devices", "find_devices"]

NOTHING = "nothing, since nothing is recorded"
# What stops system calls from being served.
CALLS_REMEDIES = {
    errno.ENOSYS: "this processor's import tables are not known",
    errno.ENOENT: "the C library's functions are not found in our own import table",
    errno.EACCES: "no import table of a library could be changed",
    errno.EBUSY: "another thread is loading libraries; ask again",
}


class Device(NamedTuple):
    """A backend and the machine that it computes on.

    state : "ready", or why it cannot be used.
    vector_bytes, memory_bytes : 0 where nobody knows.
    copy_bytes_s : bytes per second of a copy in its memory; transfer_bytes_s : from the host's to
        it; launch_s : the smallest command. Measured once per machine; 0: not measured.
    """

    backend: str
    name: str
    state: str
    threads: int
    vector_bytes: int
    memory_bytes: int
    copy_bytes_s: float = 0.0
    transfer_bytes_s: float = 0.0
    launch_s: float = 0.0


@dataclass(frozen=True, repr=False)
class Devices:
    """What `npaccel.devices` found; `str()` is a table, the attributes are for programs.

    Attributes
    ----------
    devices : one per backend and device; that in use comes first.
    guarded : whether results may stay pending past a call. `guard` says so in words, and why not.
    primitives : which operations on blocks run what is not compiled, in words.
    exact_loops : functions that small arrays have from loops of ours, with NumPy's bits, in words,
        and which ones not, and why.
    system_calls : whether they see the values of pending results, in words, and why not.
    accelerate : what an `accelerate` block reaches here, in words.
    build : for Linux or portable, and what it lacks then, in words.
    settings : those of `npaccel.config` that are in force.
    """

    machine: str
    devices: tuple[Device, ...]
    guarded: bool
    guard: str
    primitives: str
    exact_loops: str
    system_calls: str
    accelerate: str
    build: str
    settings: Mapping[str, str | float]

    def __str__(self) -> str:
        lines = [self.machine, "", *_table(self.devices), ""]
        lines += row("build", self.build)
        lines += row("uncompiled", self.primitives)
        lines += row("small arrays", self.exact_loops)
        lines += row("guard", self.guard)
        lines += row("system calls", self.system_calls)
        lines += row("accelerate", self.accelerate)
        lines += ["", "Settings (npaccel.config; the environment variables are in docs/usage.md)"]
        lines += [f"  {name:26} {value}" for name, value in self.settings.items()]
        return "\n".join(lines)

    __repr__ = __str__


def find_devices(engine: Engine, accelerate: str) -> Devices:
    """Ask the backends, the engine and the settings; a backend's compiler is loaded for it.

    accelerate : what a block reaches, as dispatch describes it.
    """
    memory = _memory()
    owned: dict[str, str] = {}
    backends = engine.machines.names()
    found = [device for name in backends for device in _compiled(name, engine, memory, owned)]
    engine.machines.note_measured(owned)
    loops = f"NumPy {np.__version__}'s own loops"
    found += map(_cluster, _native.clusters())
    numpy = Device("numpy", loops, "ready", engine.threads, 0, memory)
    found.insert(0 if engine.config.backend == "numpy" else len(found), numpy)
    guarded, guard = _guard(engine)
    return Devices(
        f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.platform()}",
        tuple(found),
        guarded,
        guard,
        _primitives() if guarded else NOTHING,
        _exact_loops(),
        _system_calls(guarded),
        accelerate if guarded else NOTHING,
        build(),
        {setting.name: getattr(engine.config, setting.name) for setting in SETTINGS},
    )


def _memory() -> int:
    """What this process may use; 0 where nobody knows."""
    limit = _native.memory_limit()
    return limit if limit <= sys.maxsize else 0


def _cluster(memory: _native.DeviceMemory) -> Device:
    """An open one: its nodes have a thread each."""
    try:
        _, body = memory.call(pickle.dumps(("nodes",)))
    except ConnectionError as error:
        return Device("cluster", memory.name, f"unavailable: {error}", 0, 0, 0)
    return Device("cluster", memory.name, "ready", int(pickle.loads(body)), 0, 0)


def _primitives() -> str:
    level, count = _native.primitives()
    loops = "block by block, by NumPy's loops"
    if not level:
        return f"{loops}; results that are not exact may have other last bits than compiled ones"
    return f"{loops} and {count} operations of our own, for processors of level {level}"


def _exact_loops() -> str:
    found = _native.exact_loops()
    ours = ", ".join(name for name, same in found.items() if same)
    other = ", ".join(name for name, same in found.items() if same is False)
    if set(found.values()) == {None}:
        return "by NumPy's loops; ours need AVX2 and FMA for vectors of the C library's functions"
    said = f"{ours} of float64 by loops of our own that have NumPy's bits" if ours else ""
    if not other:
        return said
    return f"{said}; {other} by NumPy's loop: it has other bits than ours".removeprefix("; ")


def _compiled(name: str, engine: Engine, memory: int, owned: dict[str, str]) -> list[Device]:
    """Of a backend all devices, measured. owned: those that `auto` may choose by that are added, by
    name their identity."""
    try:
        backend = engine.backend(name)
    except BackendUnavailable as error:
        return [Device(name, "", f"unavailable: {error}", 0, 0, 0)]
    listed = getattr(backend, "list_devices", None)
    if listed is not None:
        return [_measured(engine, owned, *fields) for fields in listed()]
    machine = f"{_processor()} ({backend.device})"
    row = Device(name, machine, "ready", engine.threads, backend.vector_bytes, memory)
    measure = getattr(backend, "measure", None)
    if measure is None:
        return [row]
    machines, threads = engine.machines, engine.threads
    try:
        speeds = machines.measured_speeds(machines.host_identity(backend), lambda: measure(threads))
    except CompileError as error:
        return [row._replace(state=f"not measured: {error}")]
    return [row._replace(copy_bytes_s=speeds.copy_bytes_s, launch_s=speeds.launch_s)]


def _measured(
    engine: Engine,
    owned: dict[str, str],
    name: str,
    what: str,
    state: str,
    units: int,
    vector_bytes: int,
    memory_bytes: int,
    identity: str,
    measure: Callable[[], Speeds] | None,
    may_choose: bool,
) -> Device:
    row = Device(name, what, state, units, vector_bytes, memory_bytes)
    if measure is None:
        return row
    try:
        speeds = engine.machines.measured_speeds(identity, measure)
    except CompileError as error:
        return row._replace(state=f"not measured: {error}")
    if may_choose:
        owned[name] = identity
    return row._replace(
        copy_bytes_s=speeds.copy_bytes_s,
        transfer_bytes_s=speeds.transfer_bytes_s,
        launch_s=speeds.launch_s,
    )


def _guard(engine: Engine) -> tuple[bool, str]:
    why = engine.unguarded
    if why:
        return False, f"off, {why}; {UNGUARDED}"
    return True, "on: memory of pending results is protected, and its first touch computes them"


def _system_calls(guarded: bool) -> str:
    if not guarded:
        return "not served: nothing is pending when they are made"
    code, functions, libraries, entries, refused = _native.system_calls()
    if code:
        why = CALLS_REMEDIES.get(code, os.strerror(code))
        return f"not served, {why}; pass numpy.array(x) where they take an address"
    text = f"served: {functions} functions of the C library, "
    text += f"through {entries} imports of {libraries} libraries"
    return f"{text}; {refused} imports can't be changed" if refused else text


def _processor() -> str:
    return system.processor() or platform.processor() or platform.machine()


# ------------------------------------------------------------------------------------------ table


def _table(devices: Sequence[Device]) -> list[str]:
    head = ("backend", "threads", "vectors", "memory", "copies", "launch", "device", "state")
    rows = [head, *(_cells(device) for device in devices)]
    # The last two columns are as long as they need to be.
    widths = [max(len(cells[i]) for cells in rows) for i in range(6)]
    lines: list[str] = []
    for cells in rows:
        start = "  ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=False))
        if cells[7] in ("state", "ready"):
            lines.append(f"  {start}  {cells[7]:7}{cells[6]}"[:100].rstrip())
        else:
            lines += [f"  {start}".rstrip(), *row("", cells[7])]
    return lines


def _cells(device: Device) -> tuple[str, ...]:
    return (
        device.backend,
        str(device.threads or "-"),
        f"{8 * device.vector_bytes} bit" if device.vector_bytes else "-",
        bytes_text(device.memory_bytes) if device.memory_bytes else "-",
        f"{bytes_text(int(device.copy_bytes_s))}/s" if device.copy_bytes_s else "-",
        f"{1e6 * device.launch_s:.0f} us" if device.launch_s else "-",
        device.name,
        device.state,
    )
