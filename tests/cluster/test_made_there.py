"""Blocks that are made by their owners, on a cluster, from nothing or from what lies there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_planner import numbers

import npaccel
from npaccel import Cluster, Map, MapError

pytest.importorskip("distributed")
pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("deferred")]
SHAPE = (96, 60)


@pytest.fixture(autouse=True)
def no_kernels_here(setting: Any) -> None:
    setting("tiering", "off")


@pytest.mark.parametrize(
    "made",
    [
        lambda n: None,
        lambda n: Map.block(SHAPE, n, axis=1, memory=(8, 15)),
        lambda n: Map.row_block(SHAPE, n),
    ],
)
def test_owners_make_their_blocks(cluster: Cluster, made: Any) -> None:
    def numbered(block: Any) -> Any:  # in a function, since workers do not find this file
        start = block.offset[0] if len(block.offset) == 1 else 1000.0 * block.owner
        return start + np.arange(float(np.prod(block.extent))).reshape(block.extent)

    given = made(cluster.nodes)
    before = npaccel.stats()
    there = npaccel.from_blocks(numbered, SHAPE, device=cluster, map=given)
    total = float((there * 2.0).sum())
    assert npaccel.stats()["uploaded_bytes"] == before["uploaded_bytes"]
    here = npaccel.from_blocks(numbered, SHAPE, map=given or Map.block(SHAPE, cluster.nodes))
    assert total == float((here * 2.0).sum())
    assert np.asarray(there).tobytes() == np.asarray(here).tobytes()


@pytest.mark.parametrize(
    "made",
    [
        lambda n: Map.block(SHAPE, n, axis=1),
        lambda n: Map.row_block(SHAPE, n),
        lambda n: Map.block_cyclic(SHAPE, n, (16, 20)),
    ],
)
@pytest.mark.parametrize("dtype", ["f8", "i4"])
def test_owners_are_given_their_parts(cluster: Cluster, made: Any, dtype: str) -> None:
    """Of arrays wherever they are, one of them computed there; they are not to be written."""

    def combined(block: Any, x: Any, y: Any) -> Any:
        assert x.shape == y.shape == block.extent and type(x) is np.ndarray
        assert not x.flags.writeable
        return np.cumsum(x, axis=-1) * 2 + y

    values, mine = numbers(3, SHAPE, dtype), made(cluster.nodes)
    x = npaccel.asarray(values.copy(), device=cluster)
    y = x.T.copy().T * x.dtype.type(3)
    npaccel.evaluate(y)
    before = cluster.stats().get("read_bytes", 0)
    found = npaccel.from_blocks(combined, SHAPE, dtype, of=(x, y), device=cluster, map=mine)
    assert cluster.stats().get("read_bytes", 0) == before
    alone = npaccel.from_blocks(combined, SHAPE, dtype, of=(values, values * 3), map=mine)
    assert np.asarray(found).tobytes() == np.asarray(alone).tobytes()
    assert np.asarray(x).tobytes() == values.tobytes()
    with pytest.raises(MapError, match=r"shape \(3,\)"):
        npaccel.from_blocks(combined, SHAPE, of=(values, values[0, :3]), device=cluster)


def test_what_goes_wrong_in_a_function_is_raised(two: Cluster) -> None:
    def fails(block: Any) -> Any:
        raise KeyError(f"no file for {block.offset}")

    with pytest.raises(KeyError, match="no file for"):
        npaccel.from_blocks(fails, SHAPE, device=two)
    for device in (None, two):
        with pytest.raises(MapError, match=r"gave shape \(3,\) for block"):
            npaccel.from_blocks(lambda block: np.ones(3), SHAPE, device=device)
