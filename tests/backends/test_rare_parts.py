"""Functions whose rare parts are computed by pieces of a vector: bits do not follow from where."""

from __future__ import annotations

import numpy as np
import pytest

from npaccel.backends.primitives import Primitive, primitive_kernel
from npaccel.ir.ops import find

from .support import check, compile_kernel

# Per function an argument that is usual, and some that are rare.
RARE = {
    "sin": (1.25, (1e9, -3e25, np.inf)),
    "exp": (-2.5, (300.0, 1e5, -np.inf)),
    "log": (3.0, (0.0, -1.0, 1e-310, 1e-40, np.inf)),
    "log1p": (0.5, (-1.0, -3.0, 1e300, 1e30, np.inf)),
    "cbrt": (5.0, (0.0, -1e-310, 1e-40, np.inf)),
    "power": (1.75, (0.0, -2.0, 1e-310, 1e-40, np.inf)),
}
N = 301


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("name", RARE)
def test_rare_elements_anywhere_in_a_vector(machine, name, dtype):
    op = find(name, (dtype,))
    made = primitive_kernel(Primitive(op, (dtype,) * (op.nin + 1), (False,) * op.nin))
    compiled = compile_kernel(made, machine)
    usual, rare = RARE[name]
    rng = np.random.default_rng(len(name))
    for share in (0.0, 0.004, 0.1, 1.0):
        x = np.where(rng.random(N) < share, rng.choice(rare, N), usual * rng.uniform(0.9, 1.1, N))
        with np.errstate(over="ignore"):
            arrays = [x.astype(dtype)] + [np.full(N, 3.5, dtype)] * (op.nin - 1)
        check(machine, made, (N,), [*arrays, np.empty(N, dtype)], compiled=compiled)
