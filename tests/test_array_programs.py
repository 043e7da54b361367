"""The programs of `bench/programs` compute in a block of `accelerate` what NumPy computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npaccel
from npaccel.demo import as_tuple, compare, load

PROGRAMS = Path(__file__).parent.parent / "bench" / "programs"
SMALL = {
    "adam": 2000,
    "advection": 40,
    "lookup": 40,
    "normalise": 30,
    "pairs": 40,
    "picture": 40,
    "regression": 500,
    "sensor": 2000,
    "spectrum": 1 << 13,
    "walks": 20,
}


def test_every_program_is_tested() -> None:
    assert {path.stem for path in PROGRAMS.glob("*.py")} == set(SMALL)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", SMALL)
def test_results_are_those_of_numpy(name: str) -> None:
    module = load(PROGRAMS / f"{name}.py")
    arrays = module.inputs(SMALL[name])
    kept = {key: value.copy() for key, value in arrays.items()}
    expected = as_tuple(module.main(**arrays))
    npaccel.stats(reset=True)
    with npaccel.accelerate(min_size=0):
        results = as_tuple(module.main(**arrays))
    npaccel.evaluate(*results)
    comparison = compare(expected, results)
    assert comparison.ok, comparison.words
    for key, value in kept.items():
        np.testing.assert_array_equal(arrays[key], value)
    assert npaccel.stats()["requests"] > 0 or not npaccel.devices().guarded
