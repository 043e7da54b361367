"""What things cost: measured, kept for one machine, and used only if it is sane."""

from __future__ import annotations

from pathlib import Path

import pytest

from npaccel.runtime.cost import (
    USUAL,
    Costs,
    DeviceCosts,
    HostCosts,
    Work,
    calibrate,
    device_costs,
)


def costs(path: Path, machine: str = "this") -> Costs:
    return Costs(lambda: str(path), lambda: machine)


def test_measured_once_and_read_after_that(tmp_path: Path) -> None:
    measured = costs(tmp_path / "costs").measure()
    assert costs(tmp_path / "costs").host == measured
    assert costs(tmp_path / "costs").measure() == measured
    assert costs(tmp_path / "costs", "another").host == USUAL
    assert costs(tmp_path / "nowhere" / "costs").measure() != USUAL


def test_a_device_is_measured_once(tmp_path: Path) -> None:
    measured = iter([(1e10, 1e9, 1e-5), (2.0, 2.0, 2.0)])
    costs = device_costs(str(tmp_path), "this", lambda: next(measured))
    assert costs == DeviceCosts(1e10, 1e9, 1e-5)
    assert device_costs(str(tmp_path), "this", lambda: next(measured)) == costs
    assert device_costs(str(tmp_path), "another", lambda: next(measured)).launch_s == 2.0
    assert device_costs("", "this", lambda: (3.0, 3.0, 3.0)).launch_s == 3.0


def test_what_is_measured_is_sane() -> None:
    measured = calibrate(0.05)
    assert 1e8 < measured.copy_bytes_s < 1e13
    assert 1e-8 < measured.numpy_call_s < 1e-3
    assert 0 < measured.numpy_element_s < 1e-6


@pytest.mark.parametrize(
    "text", ["", "this", "this\ncopy_bytes_s nan", "this\nother 1", "this\ncopy_bytes_s -1\n", "\0"]
)
def test_a_file_that_is_not_as_written_is_not_used(text: str, tmp_path: Path) -> None:
    (tmp_path / "costs").write_text(text)
    assert costs(tmp_path / "costs").host == USUAL


def test_predictions_grow_with_work() -> None:
    model = HostCosts(1e10, 1e-6, 1e-9, 5e-6)
    little, much = Work(1 << 16, 3, 1 << 13), Work(1 << 26, 3, 1 << 23)
    assert model.launch_s < model.seconds(little) < model.seconds(much)
    assert model.seconds(much) < model.numpy_seconds(much)


def test_compiling_pays_for_what_takes_long_enough(tmp_path: Path) -> None:
    model = costs(tmp_path / "costs")
    assert not model.compiling_pays(0.001, 10) and model.compiling_pays(10.0, 10)
    # Slow compilers are waited for.
    assert model.compiling_pays(0.05, 10)
    for _ in range(20):
        model.note_compile(10, 3.0)
    assert not model.compiling_pays(0.05, 10)
