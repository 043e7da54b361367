"""What planning and compiling cost, and when they pay."""

from __future__ import annotations

from pathlib import Path

import pytest

from npaccel.runtime.cost import Costs, DeviceCosts, device_costs, measure_host


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


def test_a_device_is_measured_once(tmp_path: Path) -> None:
    measured = iter([(1e10, 1e9, 1e-5), (2.0, 2.0, 2.0)])
    costs = device_costs(str(tmp_path), "this", lambda: next(measured))
    assert costs == DeviceCosts(1e10, 1e9, 1e-5)
    assert device_costs(str(tmp_path), "this", lambda: next(measured)) == costs
    assert device_costs(str(tmp_path), "another", lambda: next(measured)).launch_s == 2.0
    assert device_costs("", "this", lambda: (3.0, 3.0, 3.0)).launch_s == 3.0


def test_what_is_measured_is_sane() -> None:
    copy_bytes_s, transfer_bytes_s, launch_s = measure_host(0.05)
    assert 1e6 < copy_bytes_s == transfer_bytes_s < 1e13
    assert 1e-8 < launch_s < 1e-2


@pytest.mark.parametrize(
    "text", ["", "this", "this\ncopy_bytes_s nan", "this\nother 1", "this\ncopy_bytes_s -1\n", "\0"]
)
def test_a_file_that_is_not_as_written_is_not_used(text: str, tmp_path: Path) -> None:
    (tmp_path / "costs-this").write_text(text)
    assert device_costs(str(tmp_path), "this", lambda: (3.0, 3.0, 3.0)).launch_s == 3.0
