"""`forall`, `reduce` and `scan` by the owners of segments: what the same gives here."""

from __future__ import annotations

import ctypes
import os
import time
import traceback
import warnings
from typing import Any

import numpy as np
import pytest
from test_planner import numbers

import npaccel
from npaccel import Cluster, Map, MapError
from npaccel.cluster import asking, carrying
from npaccel.cluster.wires import TICK_S

pytest.importorskip("distributed")
pytestmark = [pytest.mark.pending, pytest.mark.usefixtures("deferred")]
SHAPE = (96, 60)
MAPS = [
    lambda n: Map.block(SHAPE, n),
    lambda n: Map.block(SHAPE, n, axis=1, memory=(8, 15)),
    lambda n: Map.row_block(SHAPE, n),
    lambda n: Map.block_cyclic(SHAPE, n, (16, 20)),
]


@pytest.fixture(autouse=True)
def no_kernels_here(setting: Any) -> None:
    setting("tiering", "off")


def pair(cluster: Cluster, made: Map, seed: int = 1, dtype: str = "f8") -> tuple[Any, Any]:
    """An array there, and one here."""
    values = numbers(seed, SHAPE, dtype)
    there = npaccel.asarray(values.copy(), device=cluster, map=made)
    return there, npaccel.agile(values.copy(), made)


def same(one: Any, other: Any) -> None:
    assert one.dtype == other.dtype and one.shape == other.shape and one.strides == other.strides
    alike = np.asarray(one).tobytes() == np.asarray(other).tobytes()
    assert alike  # pytest would compare the bytes for minutes


@pytest.mark.parametrize(
    ("made", "granularity"), [(MAPS[1], "memory"), *((m, "node") for m in MAPS)]
)
def test_forall(cluster: Cluster, made: Any, granularity: Any) -> None:
    x, here = pair(cluster, made(cluster.nodes))
    other = numbers(2, SHAPE)

    def function(a: Any, b: Any, c: float, again: Any) -> Any:
        assert type(a) is npaccel.Array and again is not None
        return np.sin(a) * b + c - a.mean() + again.sum(axis=-1, keepdims=True)

    before = npaccel.stats()
    found = npaccel.forall(function, x, other, 2.5, x, granularity=granularity)
    twice = npaccel.evaluate(found * 2.0)
    after = npaccel.stats()
    assert after["downloaded_bytes"] == before["downloaded_bytes"]
    assert carrying.map_of(found) == carrying.map_of(x)
    expected = npaccel.forall(function, here, other, 2.5, here, granularity=granularity)
    same(found, expected)
    same(twice, expected * 2.0)
    same(x, here)


@pytest.mark.parametrize("made", MAPS)
def test_functions_that_write(cluster: Cluster, made: Any) -> None:
    """Into what lives there, a part of something, and an array of the program's."""
    x, here = pair(cluster, made(cluster.nodes))
    mine, expected = numbers(2, SHAPE), numbers(2, SHAPE)
    wide = npaccel.asarray(np.zeros((96, 120)), device=cluster)
    wide_here = np.zeros((96, 120))

    def write(a: Any, b: Any, c: Any) -> None:
        a *= 2.0
        a[0] += b[-1]
        b[...] = a
        c += a.max()

    assert npaccel.forall(write, x, mine, wide[:, ::2]) is None
    assert npaccel.forall(write, here, expected, wide_here[:, ::2]) is None
    same(x, here)
    same(mine, expected)
    same(wide, wide_here)


def test_who_calls_it(two: Cluster) -> None:
    x, _ = pair(two, Map.block(SHAPE, 2))
    found = np.asarray(npaccel.forall(lambda part: np.full(part.shape, os.getpid()), x))
    assert len({int(found[0, 0]), int(found[-1, 0]), os.getpid()}) == 3
    mine = npaccel.forall(lambda part: np.full(part.shape, os.getpid()), x, workers="here")
    assert (mine == os.getpid()).all()


def test_views_and_other_orders(two: Cluster) -> None:
    values = np.asfortranarray(numbers(1, SHAPE))
    made = Map.block(SHAPE, 2, axis=1)
    x = npaccel.asarray(values.copy(order="F"), device=two, map=made)
    here = npaccel.agile(values.copy(order="F"), made)
    same(npaccel.forall(np.cos, x), npaccel.forall(np.cos, here))
    rows = npaccel.asarray(numbers(3, SHAPE), device=two, map=Map.block(SHAPE, 2))
    part = npaccel.forall(np.cos, rows[10:80])
    mine = npaccel.agile(numbers(3, SHAPE), Map.block(SHAPE, 2))
    same(part, npaccel.forall(np.cos, mine[10:80]))
    assert part.segments[1].offset == (38, 0)


@pytest.mark.parametrize("made", MAPS)
def test_reduce(cluster: Cluster, made: Any) -> None:
    x, here = pair(cluster, made(cluster.nodes))
    for function in (np.add, np.maximum, lambda a, b: a, np.hypot):
        found = npaccel.reduce(function, x)
        expected = npaccel.reduce(function, here)
        assert type(found) is type(expected) and found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["f8", "i4", "b1"])
def test_scan(cluster: Cluster, dtype: str) -> None:
    values = numbers(1, (5000,), "f8").astype(dtype)
    made = Map.split((5000,), [(700, 701, 3000)], cluster.nodes, assign="cyclic")
    x = npaccel.asarray(values.copy(), device=cluster, map=made)
    here = npaccel.agile(values.copy(), made)
    functions: list[Any] = [lambda a, b: a + b, np.maximum]
    for function in functions + ([np.add] if dtype != "b1" else []):
        same(npaccel.scan(function, x), npaccel.scan(function, here))


def test_errors_come_back_as_they_were(two: Cluster) -> None:
    """With what was written until then, here as there."""
    made = Map.block(SHAPE, 2, memory=(16, 60))

    class Own(Exception):
        pass

    class Odd(ValueError):
        def __init__(self, what: str, number: int) -> None:
            super().__init__(what, number)

    def fails(a: Any, kind: Any) -> None:
        a += 1.0
        if a[0, 0] > 1000.0:
            a[-1] = 0.5
            raise kind

    for kind in (KeyError("no file"), Odd("what", 3), Own("mine"), SystemExit(3)):
        x, here = pair(two, made)
        for one in (x, here):
            one[32] = 2000.0
            one[70] = 3000.0
        kinds = []
        for one in (x, here):
            with pytest.raises(BaseException) as info:
                npaccel.forall(fails, one, kind, granularity="memory")
            kinds.append((type(info.value), info.value.args))
            if one is x:
                told = "".join(traceback.format_exception(info.value))
                assert "raise kind" in told and "in fails" in told
        assert kinds[0] == kinds[1]
        same(x, here)
    y = npaccel.evaluate(x + 1.0)  # it goes on
    same(y, here + 1.0)


def test_what_a_function_gives_is_checked(two: Cluster) -> None:
    x, here = pair(two, Map.block(SHAPE, 2))
    functions: list[Any] = [
        lambda a: a[:1],
        lambda a: a if a[0, 0] == x00 else None,
        lambda a: a.astype("f4") if a[0, 0] == x00 else a,
    ]
    x00 = float(here[0, 0])
    for function in functions:
        texts = []
        for one in (x, here):
            with pytest.raises(MapError) as info:
                npaccel.forall(function, one)
            texts.append(str(info.value))
        assert texts[0] == texts[1]
    with pytest.raises(MapError, match="Python objects, which can't be on a cluster"):
        npaccel.forall(lambda a: a.astype(object), x)
    with pytest.raises(MapError, match="does not live on a cluster"):
        npaccel.forall(np.sin, here, workers="owners")
    with pytest.raises(MapError, match=r"shape \(5,\) beside one of shape"):
        npaccel.forall(np.add, x, np.ones(5))


def test_warnings_and_errstate(two: Cluster) -> None:
    x, here = pair(two, Map.block(SHAPE, 2))

    def function(a: Any) -> Any:
        if a[0, 0] == 0.0:
            warnings.warn("as asked", DeprecationWarning, stacklevel=1)
        return np.log(a - a)

    lists = []
    for one in (x, here):
        one[0] = 0.0
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            npaccel.evaluate(npaccel.forall(function, one))
        lists.append([(str(w.message), w.category, w.filename, w.lineno) for w in raised])
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide"):
            npaccel.evaluate(npaccel.forall(lambda a: 1.0 / (a - a), one))
    assert lists[0] == lists[1] and len(lists[0]) == 3


def test_what_only_this_process_can_do_is_done_here(two: Cluster) -> None:
    """Arrays that overlap, objects."""
    x, here = pair(two, Map.block(SHAPE, 2))

    def write(a: Any, b: Any) -> None:
        a[...] = b + 1.0

    npaccel.forall(write, x, x[::-1])
    npaccel.forall(write, here, here[::-1])
    same(x, here)
    names = np.full(SHAPE, None)
    found = npaccel.forall(lambda a, b: a * 2.0, x, names)
    same(found, npaccel.forall(lambda a, b: a * 2.0, here, names))


def test_after_a_checkpoint(two: Cluster) -> None:
    x, here = pair(two, Map.block(SHAPE, 2))
    npaccel.checkpoint(x)
    found = npaccel.forall(np.exp, x)
    same(found, npaccel.forall(np.exp, here))


def test_who_holds_the_interpreter_lives(two: Cluster) -> None:
    """For longer than a worker may be silent, so that no thread of its Python answers."""
    made = Map.block(SHAPE, 2)
    x, _ = pair(two, made)
    seconds = int(asking.LATE * TICK_S) + 2

    def holds(part: Any) -> Any:
        begin = time.monotonic()
        ctypes.PyDLL(None).sleep(seconds)
        assert time.monotonic() - begin > seconds - 1
        return part * 2.0

    losses = two.stats()["reasons"]
    found = npaccel.forall(holds, x)
    assert two.stats()["reasons"] == losses
    assert np.asarray(found).tobytes() == (numbers(1, SHAPE) * 2.0).tobytes()
