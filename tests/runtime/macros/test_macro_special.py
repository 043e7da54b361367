"""Sections with functions of scipy.special: those with a kernel, and SciPy's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

import npaccel


@pytest.mark.parametrize("name", ["erf", "gammaln"])
def test_results_are_those_of_the_body(name: str) -> None:
    function, x = getattr(special, name), np.linspace(0.1, 3.0, 40_000)

    def body(x: Any) -> Any:
        return function(x * 2.0) + 1.0

    section = npaccel.macro(body)
    for _ in range(3):
        np.testing.assert_allclose(section(npaccel.asarray(x)), body(x), 1e-14)
    for _ in range(3):
        with npaccel.macro(f"a block with {name}", x) as m:
            result = body(m.arrays[0])
        np.testing.assert_allclose(result, body(x), 1e-14)
