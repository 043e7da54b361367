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
# Of the second accuracy class, too.
FAST = {
    **{name: RARE[name] for name in ("sin", "log", "log1p")},
    "cos": RARE["sin"],
    "log2": RARE["log"],
    "log10": RARE["log"],
    "expm1": (-0.5, (0.0, -0.0, 80.0, 300.0, 1e5, -np.inf)),
    "erf": (0.7, (0.0, -0.0, 1e-310, 5.9, -1e5, np.inf)),
}
N = 301


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize(
    ("name", "fast"), [*((name, False) for name in RARE), *((name, True) for name in FAST)]
)
def test_rare_elements_anywhere_in_a_vector(machine, name, fast, dtype):
    op = find(name, (dtype,), fast=fast)
    made = primitive_kernel(Primitive(op, (dtype,) * (op.nin + 1), (False,) * op.nin))
    compiled = compile_kernel(made, machine)
    usual, rare = (FAST if fast else RARE)[name]
    rng = np.random.default_rng(len(name))
    for share in (0.0, 0.004, 0.1, 1.0):
        x = np.where(rng.random(N) < share, rng.choice(rare, N), usual * rng.uniform(0.9, 1.1, N))
        with np.errstate(over="ignore"):
            arrays = [x.astype(dtype)] + [np.full(N, 3.5, dtype)] * (op.nin - 1)
        check(machine, made, (N,), [*arrays, np.empty(N, dtype)], compiled=compiled)
