"""Bounds: where what was chosen is small, everything that was asked about is finite."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from npaccel.backends.emit.bounds import SMALL, small_ones
from npaccel.ir.reference.expressions import evaluate
from npaccel.ir.scalar import Core, Pool, topological

EDGES = (0.0, 1.0, -1.0, 0.5, 3.0)


def one_more(draw, pool, nodes):
    """Some operation of values that are there."""
    pick = st.sampled_from(nodes)
    x, y, z = draw(pick), draw(pick), draw(pick)
    same = [node for node in nodes if node.dtype == x.dtype]
    y, z = (node if node.dtype == x.dtype else draw(st.sampled_from(same)) for node in (y, z))
    number = draw(st.sampled_from((0.0, -2.0, 1e-30, 1e9, float("inf"))))
    other = "f4" if x.dtype == "f8" else "f8"
    return draw(st.sampled_from((
        x + y, x * y, x * x, y * y, x - y, x.fma(y, z), -x, abs(x), x * number, x + number, x / y,
        (x < y).select(x, z), (x < y).rare(y, z), x.unary(Core.FLOOR), x.unary(Core.SQRT),
        x.binary(Core.COPYSIGN, y), x.convert(other), (x < y).convert(x.dtype), x.flipped(),
    )))  # fmt: skip


@st.composite
def bodies(draw):
    pool = Pool()
    nodes = [pool.load("f8", 0), pool.load("f4", 1), pool.load("f8", 2), pool.scalar("f8", 0)]
    for _ in range(draw(st.integers(1, 25))):
        nodes.append(one_more(draw, pool, nodes))
    asked = draw(st.lists(st.sampled_from(nodes[4:]), min_size=1, max_size=8))
    return list(dict.fromkeys(asked))


@settings(deadline=None)
@given(bodies(), st.integers(0, 2**32 - 1))
def test_what_is_small_keeps_the_rest_finite(asked, seed) -> None:
    chosen = small_ones(asked)
    rng = np.random.default_rng(seed)
    n, leaves = 64, {}
    for node in topological([*asked, *chosen]):
        if node.op in (Core.LOAD, Core.SCALAR):
            most = SMALL[node.dtype]
            sizes = 2.0 ** rng.choice([-400, 0, 40, most - 1, most + 3], n)
            x = rng.choice([*EDGES, 1.999, np.nan, np.inf], n) * sizes
            x[:16] = np.nextafter(2.0**most, 0)  # all as large as they may be
            with np.errstate(all="ignore"):
                leaves[node] = x.astype(node.dtype)
    values = evaluate([*asked, *chosen], leaves.__getitem__)
    small = np.ones(n, bool)
    for node in chosen:
        small &= abs(values[node]) < 2.0 ** SMALL[node.dtype]
    for node in asked:
        assert np.isfinite(np.broadcast_to(values[node], n)[small]).all(), node
