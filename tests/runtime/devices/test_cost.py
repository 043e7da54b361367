"""What planning and compiling cost, and when they pay."""

from __future__ import annotations

from pathlib import Path

import pytest

from npaccel.backends.llvm.backend import LlvmBackend
from npaccel.backends.opencl.speeds import measure
from npaccel.backends.opencl.target import Target
from npaccel.backends.speeds import Speeds
from npaccel.runtime.devices.cost import (
    Costs,
    device_speeds,
    note_devices,
    noted_devices,
    speeds_known,
)


def test_compiling_pays_for_what_takes_long_enough() -> None:
    costs = Costs()
    assert not costs.compiling_pays(0.001, 10) and costs.compiling_pays(10.0, 10)
    # Slow compilers are waited for.
    assert costs.compiling_pays(0.05, 10)
    for _ in range(10):
        costs.note_compile(10, 10.0)
    assert not costs.compiling_pays(0.05, 10)
    for _ in range(50):
        costs.note_compile(10, 0.001)
    assert costs.compiling_pays(0.05, 10)


def test_planning_pays_for_what_takes_longer() -> None:
    costs = Costs()
    assert not costs.planning_pays(1e-5, 5) and costs.planning_pays(0.01, 5)
    assert not costs.planning_pays(0.002, 100)


def test_what_planning_took_once_while_it_imported_is_soon_forgotten() -> None:
    costs = Costs()
    costs.note_plan(5, 1.0)
    assert costs.planning_pays(0.001, 5)
    for _ in range(40):
        costs.note_plan(5, 0.1)
    assert not costs.planning_pays(0.001, 5)
    costs.note_plan(5, 0.0002)
    assert costs.planning_pays(0.001, 5)


def _speeds(launch_s: float) -> Speeds:
    return Speeds(1e10, 1e9, launch_s, 1e9, 2e9, 1e9)


def test_a_device_is_measured_once(tmp_path: Path) -> None:
    folder, measured = str(tmp_path), iter([_speeds(1e-5), _speeds(2.0)])
    assert speeds_known(folder, "this") is None
    found = device_speeds(folder, "this", lambda: next(measured))
    assert found == _speeds(1e-5) == speeds_known(folder, "this")
    assert device_speeds(folder, "this", lambda: next(measured)) == found
    assert device_speeds(folder, "another", lambda: next(measured)).launch_s == 2.0
    assert device_speeds("", "this", lambda: _speeds(3.0)).launch_s == 3.0
    assert speeds_known("", "this") is None


def test_which_devices_were_measured(tmp_path: Path) -> None:
    assert noted_devices(str(tmp_path)) == {} == noted_devices("")
    note_devices(str(tmp_path), {"opencl:0": "abc", "opencl:1": "def"})
    assert noted_devices(str(tmp_path)) == {"opencl:0": "abc", "opencl:1": "def"}
    (tmp_path / "devices").write_bytes(b"\xff\xfe one\n")
    assert noted_devices(str(tmp_path)) == {}


def test_what_is_measured_is_sane() -> None:
    speeds = LlvmBackend().measure(1)
    assert 1e7 < speeds.copy_bytes_s == speeds.transfer_bytes_s < 1e13
    assert 1e6 < min(speeds.sums_f8_s, speeds.sums_f4_s, speeds.others_f8_s) < 1e14


@pytest.mark.usefixtures("opencl")
def test_what_is_measured_of_a_device_is_sane() -> None:
    speeds = measure(Target(0))
    assert 1e-8 < speeds.launch_s < 1
    assert 1e6 < min(speeds.sums_f8_s, speeds.sums_f4_s, speeds.others_f8_s) < 1e15
    assert measure(Target(0), kernels=False).predicts is False


@pytest.mark.parametrize(
    "text", ["", "this", "this\ncopy_bytes_s nan", "this\nother 1", "this\ncopy_bytes_s -1\n", "\0"]
)
def test_a_file_that_is_not_as_written_is_not_used(text: str, tmp_path: Path) -> None:
    (tmp_path / "speeds-this").write_text(text)
    assert device_speeds(str(tmp_path), "this", lambda: _speeds(3.0)).launch_s == 3.0
