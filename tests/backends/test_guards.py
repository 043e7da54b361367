"""Guards: whatever is not finite in whatever lane is told, and nothing else is asked about."""

from __future__ import annotations

import numpy as np
import pytest

from npaccel.backends.emit.guards import parted_guards
from npaccel.backends.llvm.target import Host
from npaccel.ir.nodes import Flag, FlagKind, Leaf, Store
from npaccel.ir.scalar import Pool

from .support import Llvm, compile_kernel, kernel, param, run_step

INF, NAN = float("inf"), float("nan")
DTYPES = ("f8", "f4", "f2", "f8")
SIZES = (1, 7, 33, 130)


def watched_kernel():
    """Four arrays whose elements nothing uses but guards; and a guard that is no value's."""
    pool = Pool()
    loads = [pool.load(dtype, k) for k, dtype in enumerate(DTYPES)]
    below = loads[3] < 0.0
    flags = [Flag(k, FlagKind.INVALID, x.nonfinite()) for k, x in enumerate(loads)]
    guards = (loads[0].nonfinite() | loads[1].nonfinite(), loads[2].nonfinite(), below)
    shown = below.select(loads[0].like(1.0), 2.0)
    guards = (*guards, loads[3].nonfinite())
    flags.append(Flag(4, FlagKind.OVER, below))
    leaf = Leaf(False, (Store(4, shown),), guards, tuple(flags))
    return kernel([*map(param, DTYPES), param("f8", out=True)], [leaf], slots=5)


def check_lanes(machine) -> None:
    compiled = compile_kernel(watched_kernel(), machine)
    for n in SIZES:
        usual = [np.linspace(1, 2, n).astype(dtype) for dtype in DTYPES]
        for x in usual:
            x[::3] = np.finfo(x.dtype).max  # sums of these are no reason to say anything
        usual[0][::3] *= -1.0
        assert run_step(compiled, (n,), [*usual, np.empty(n)]) == [0] * 5
        for which, value, lane in [(w, v, p) for w in range(4) for v in (INF, -INF, NAN)
                                   for p in sorted({0, n // 2, n - 1})]:  # fmt: skip
            arrays = [x.copy() for x in usual]
            arrays[which][lane] = value
            other = [x.copy() for x in arrays]
            other[which][-1 - lane] = -value  # sums of both are NaN, too
            for given in (arrays, other):
                flags = run_step(compiled, (n,), [*given, np.empty(n)])
                raised = [int(FlagKind.INVALID) * (k == which) for k in range(4)]
                below = which == 3 and bool((given[3] < 0).any())
                assert flags == [*raised, int(FlagKind.OVER) * below], (n, which, value, lane)


def test_every_lane_of_every_value(machine) -> None:
    check_lanes(machine)


@pytest.mark.parametrize(("cpu", "size"), [("x86-64-v3", 32), ("x86-64-v2", 16)])
def test_every_lane_of_narrow_vectors(cpu, size, host) -> None:
    if not host.triple.startswith("x86_64") or host.vector_bytes < size:
        pytest.skip(f"this processor is no {cpu}")
    check_lanes(Llvm(Host(cpu, size)))


def test_guards_of_values_need_no_masks() -> None:
    pool = Pool()
    x, y, h = pool.load("f8", 0), pool.load("f4", 1), pool.load("f2", 2)
    others = [x < 0.0, h.nonfinite(), ~(abs(x) < 5.0), ~(x < INF)]
    given = [x.nonfinite() | y.nonfinite(), others[0] | x.nonfinite(), *others[1:]]
    assert parted_guards(given) == ([x, y], others)
