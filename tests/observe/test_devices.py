"""`npaccel.devices`: what there is, what is on, and why not."""

from __future__ import annotations

import errno
import os
import subprocess
import sys

import numpy as np
import pytest

import npaccel
from npaccel import _native, this_process
from npaccel.backends.llvm.target import Host
from npaccel.backends.opencl import target
from npaccel.config import DEVICES
from npaccel.errors import BackendUnavailable
from npaccel.runtime.devices import machines


def test_the_host(deferred) -> None:
    found = npaccel.devices()
    first, *others = found.devices
    assert (first.backend, first.state) == ("llvm", "ready")
    assert first.vector_bytes == Host().vector_bytes
    assert first.threads == (npaccel.config.threads or len(os.sched_getaffinity(0)))
    assert first.memory_bytes > 1 << 27
    assert first.copy_bytes_s > 0 and first.launch_s > 0
    for device in others:
        if device.backend.startswith(DEVICES) and device.state == "ready":
            assert min(device.copy_bytes_s, device.transfer_bytes_s, device.launch_s) > 0
    others = [device for device in others if not device.backend.startswith(DEVICES)]
    assert [device.backend for device in others] == ["c", "numpy"]
    assert np.__version__ in others[1].name
    assert max(map(len, str(found).splitlines())) <= 100


def test_settings_in_force(deferred, setting) -> None:
    setting("backend", "numpy")
    setting("threads", 3)
    found = npaccel.devices()
    assert found.devices[0].backend == "numpy"
    assert found.settings["threads"] == 3
    threads = {d.backend: d.threads for d in found.devices if not d.backend.startswith(DEVICES)}
    assert threads == dict.fromkeys(("numpy", "llvm", "c"), 3)
    assert ["threads", "3"] in [line.split() for line in str(found).splitlines()]


def test_a_backend_that_does_not_work_says_why(deferred, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(name: str) -> None:
        raise BackendUnavailable(f"{name}: no such library")

    monkeypatch.setattr(machines, "open_backend", fail)
    monkeypatch.setattr(this_process.engine.machines, "_open", {})
    text = str(npaccel.devices())
    assert "unavailable: llvm: no such library" in text


def test_a_driver_that_rejects_every_kernel_says_why(
    deferred, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyopencl")
    monkeypatch.setattr(target, "_pocls_processor", lambda: target.UNKNOWN)
    monkeypatch.setattr(this_process.engine.machines, "_open", {})
    found = target.list_devices()
    if not any("Portable Computing" in device.driver for device in found):
        pytest.skip("there is no PoCL here")
    table = " ".join(str(npaccel.devices()).split())
    assert "does not know this processor" in table and "a newer PoCL does" in table
    if all(device.unusable for device in found):
        with pytest.raises(BackendUnavailable, match="does not know this processor"):
            npaccel.backend("opencl").__enter__()


def test_guard_that_failed_says_why(deferred, monkeypatch: pytest.MonkeyPatch) -> None:
    assert npaccel.devices().guarded
    monkeypatch.setattr(this_process.core, "guard_error", errno.ENOMEM)
    found = npaccel.devices()
    assert not found.guarded
    assert found.guard.startswith("off, ENOMEM") and "ulimit -v" in found.guard


@pytest.mark.pending
def test_system_calls_are_served_or_it_says_why(deferred, monkeypatch: pytest.MonkeyPatch) -> None:
    assert npaccel.devices().system_calls.startswith("served: ")
    monkeypatch.setattr(_native, "system_calls", lambda: (errno.EACCES, 47, 0, 0, 12))
    text = npaccel.devices().system_calls
    assert text.startswith("not served, no import table") and "numpy.array(x)" in text
    monkeypatch.setattr(_native, "system_calls", lambda: (0, 47, 9, 40, 2))
    assert "2 imports can't be changed" in npaccel.devices().system_calls


@pytest.mark.parametrize("form", [["-m", "npaccel", "devices"]])
def test_command_and_environment(form: list[str]) -> None:
    environment = os.environ | {"NPACCEL_GUARD": "off", "NPACCEL_QUEUE_LIMIT": "77"}
    done = subprocess.run(
        [sys.executable, *form],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    words = [line.split() for line in done.stdout.splitlines()]
    assert ["queue_limit", "77"] in words
    assert ["guard", "off,", "as", "set;"] in [line[:4] for line in words]
    assert ["system", "calls", "not", "served:"] in [line[:4] for line in words]
