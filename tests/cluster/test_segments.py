"""Arrays that carry a map, and functions over their segments: what NumPy says of the whole."""

from __future__ import annotations

import gc
import pickle
import re
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st
from test_maps import maps

import npaccel
from npaccel import Map, MapError, _native
from npaccel.cluster import carrying

LAWS = hypothesis.settings(deadline=None, max_examples=20)


@pytest.fixture(autouse=True)
def no_kernels(setting: Any) -> None:
    """What is computed here says nothing of kernels."""
    setting("tiering", "off")


def placed(made: Map, dtype: str = "f8", order: str = "C") -> Any:
    values = np.arange(int(np.prod(made.shape, dtype=int)), dtype=dtype).reshape(made.shape)
    return npaccel.agile(np.array(values, order=order), made)


@LAWS
@hypothesis.given(maps())
def test_the_array_is_what_it_was(made: Map) -> None:
    values = np.random.default_rng(1).normal(size=made.shape)
    x = npaccel.agile(values, made)
    assert type(x) is npaccel.Array and np.shares_memory(np.asarray(x), values)
    assert x.shape == made.shape and np.array_equal(x, values)
    assert np.array_equal(np.asarray(x * 2 + 1), values * 2 + 1)
    assert list(x.segments) == list(made.segments) and carrying.map_of(x) == made
    assert npaccel.agile(x, made) is x
    if x.ndim and len(x) > 1:
        x[0] = 5  # written through it as ever
        assert (values[0] == 5).all()


@LAWS
@hypothesis.given(maps(), st.data())
def test_views_show_their_part_of_the_map(made: Map, data: Any) -> None:
    hypothesis.assume(made.shape)
    x, owners = placed(made), made.owner_array()
    key = []
    for n in made.shape:
        start, stop = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, n))
        key.append(slice(start, max(start + 1, stop), data.draw(st.sampled_from([1, 1, 2]))))
    axes = data.draw(st.permutations(range(len(made.shape))))
    for view, theirs in (
        (x[tuple(key)], owners[tuple(key)]),
        (x[-1:], owners[-1:]),
        (x[::-1], owners[::-1]),
        (x.transpose(axes), owners.transpose(axes)),
        (x.reshape(-1), owners.reshape(-1)),
    ):
        assert carrying.map_of(view).owner_array().tolist() == theirs.tolist()


def test_views_of_other_item_sizes() -> None:
    """Elements of other sizes have the owner of their bytes; those of two have none."""
    x = npaccel.agile(np.arange(48.0).reshape(4, 12), Map.block_cyclic((4, 12), 3, (2, 4)))
    owners = carrying.map_of(x).owner_array()
    for dtype, times in (("i4", 2), ("u1", 8), ("i8", 1)):
        found = carrying.map_of(x.view(dtype)[1:, ::3]).owner_array()
        assert found.tolist() == np.repeat(owners, times, axis=1)[1:, ::3].tolist()
    assert carrying.map_of(x.view("c16")).owner_array().tolist() == owners[:, ::2].tolist()
    columns = npaccel.agile(np.asfortranarray(np.ones((6, 4))), Map.block((6, 4), 2))
    found = carrying.map_of(columns.T.view("i4").T).owner_array()
    assert found.tolist() == [[0] * 4] * 6 + [[1] * 4] * 6
    odd = npaccel.agile(np.ones((2, 6)), Map.split((2, 6), [(), (3,)], 2))
    with pytest.raises(MapError, match="shows no boxes"):
        carrying.map_of(odd.view("c16"))
    halves = carrying.map_of(x.view("V8,V4,V4")["f1"])  # of every other element the first half
    assert halves.owner_array().tolist() == owners[:, 1::2].tolist()


def test_a_map_goes_with_the_memory() -> None:
    gc.collect()
    before = len(carrying.MAPS.all())
    x = placed(Map.block((8, 4), 2))
    y = x[2:]
    again = npaccel.asarray(np.asarray(x))
    assert len(carrying.MAPS.all()) == before + 1
    assert list(again.segments) == list(x.segments)  # the same memory
    del x, again
    gc.collect()
    assert y.segments[0].extent == (2, 4)  # still there
    del y
    gc.collect()
    assert len(carrying.MAPS.all()) == before


def test_what_is_computed_has_none() -> None:
    x = placed(Map.block((8, 4), 2))
    for made in (x + 1, x.copy(), pickle.loads(pickle.dumps(x)), np.ones(3)):
        one = npaccel.asarray(made)
        with pytest.raises(AttributeError, match=r"no map; npaccel.agile\(x, map\) gives it one"):
            _ = one.segments
        assert not hasattr(one, "segments")


@pytest.mark.pending
@pytest.mark.usefixtures("deferred")
def test_what_is_pending_stays_pending() -> None:
    base = npaccel.asarray(np.arange(32.0).reshape(8, 4))
    y = base * 2
    x = npaccel.agile(y, Map.block((8, 4), 4))
    assert x is y and _native.is_pending(y) and len(x.segments) == 4 and _native.is_pending(x)
    parts = [view for _, view in x.blocks()]
    assert _native.is_pending(parts[1])
    assert np.array_equal(parts[1], np.arange(8.0, 16).reshape(2, 4) * 2)


@LAWS
@hypothesis.given(maps(), st.sampled_from(["algorithm", "memory", "node"]))
def test_blocks_are_views(made: Map, granularity: Any) -> None:
    x = placed(made)
    expected = np.array(x)
    for block, view in x.blocks(granularity):
        assert view.shape == block.extent
        view[...] += 100 * block.owner
    assert np.array_equal(x, expected + 100 * made.owner_array())


@LAWS
@hypothesis.given(maps(), st.sampled_from(["algorithm", "memory", "node"]))
def test_forall(made: Map, granularity: Any) -> None:
    x = placed(made)
    other = np.array(x) % 5
    found = npaccel.forall(lambda a, b, c: a * b + c, x, other, 2.5, granularity=granularity)
    assert np.array_equal(found, np.array(x) * other + 2.5)
    assert type(found) is npaccel.Array and carrying.map_of(found) == made

    def write(a: Any) -> None:
        a[...] = -a

    expected = -np.array(x)
    assert npaccel.forall(write, x, granularity=granularity) is None
    assert np.array_equal(x, expected)


@LAWS
@hypothesis.given(maps())
def test_reduce(made: Map) -> None:
    x = placed(made, "i8")
    values = np.array(x)
    assert npaccel.reduce(np.add, x) == values.sum()
    assert npaccel.reduce(lambda a, b: np.where(a > b, a, b), x) == values.max()
    first = npaccel.reduce(lambda a, b: a, x)  # who is first is so by the map, not by luck
    assert first == values.reshape(made.space)[made.segments[0].slices].flat[0]


@LAWS
@hypothesis.given(maps())
def test_scan(made: Map) -> None:
    n = int(np.prod(made.shape, dtype=int))
    line = Map.of_boxes((n,), [(0, (0,), (n,))], 1)
    if len(made.space) == 1:
        parts = [(p.owner, p.offset, p.extent) for p in made.segments]
        line = Map.of_boxes((n,), parts, made.nodes)
    x = npaccel.agile(np.arange(n) % 7 - 3, line)
    for function in (np.add, lambda a, b: a + b, np.maximum):
        ufunc = function if isinstance(function, np.ufunc) else np.add
        found = npaccel.scan(function, x)
        assert np.array_equal(found, ufunc.accumulate(np.array(x)))
        assert carrying.map_of(found) == line


@pytest.mark.parametrize("workers", ["threads", "processes"])
def test_workers(workers: Any) -> None:
    x = placed(Map.block_cyclic((60, 40), 3, (20, 20)))
    values = np.array(x)
    assert np.array_equal(npaccel.forall(np.sqrt, x, workers=workers), np.sqrt(values))
    assert npaccel.reduce(np.maximum, x, workers=workers) == values.max()
    if workers == "threads":

        def write(part: Any) -> None:
            assert type(part) is np.ndarray
            part += 1

        npaccel.forall(write, x, workers=workers)
        assert np.array_equal(x, values + 1)


def test_errors_of_the_function_are_its_own() -> None:
    x = placed(Map.block((8,), 2))
    for workers in ("here", "threads"):
        with pytest.raises(ZeroDivisionError):
            npaccel.forall(lambda part: 1 / 0, x, workers=workers)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: npaccel.agile(np.array([1, None]), Map.block((2,), 2)),
            "dtype object holds",
        ),
        (lambda: npaccel.agile(np.ones(3), Map.block((4,), 2)), r"map of shape (4,) for .* (3,)"),
        (lambda: npaccel.agile(np.ones(6)[::2], Map.block((3,), 2)), "has gaps or goes backwards"),
        (lambda: npaccel.agile(np.ones(6)[::-1], Map.block((6,), 2)), "has gaps or goes backwards"),
        (lambda: npaccel.agile(np.ones(6), 2), "2 is no npaccel.Map; make one"),
        (lambda: npaccel.agile(np.ma.ones(6), Map.block((6,), 2)), "MaskedArray keeps its own"),
        (
            lambda: placed(Map.row_block((3, 4), 2), order="F").blocks(),
            "row-major order, of an array that does not lie so",
        ),
        (
            lambda: npaccel.forall(np.sin, placed(Map.block((4,), 2)), workers="many"),
            "'many'; it is",
        ),
        (lambda: npaccel.forall(lambda a: a[:1], placed(Map.block((4,), 2))), r"gave shape (1,)"),
        (
            lambda: npaccel.forall(lambda a, b: a, placed(Map.block((4,), 2)), np.ones(5)),
            r"shape (5,) beside one of shape (4,)",
        ),
        (
            lambda: npaccel.forall(lambda a: a if a[0] else None, placed(Map.block((4,), 2))),
            "gave arrays of dtypes float64 and None",
        ),
        (lambda: npaccel.scan(np.add, placed(Map.block((4, 4), 2))), "array of 2 axes"),
        (
            lambda: placed(Map.block((4, 4), 2)).diagonal().segments,
            "shows no boxes of an array of shape (4, 4)",
        ),
    ],
)
def test_what_is_refused(make: Any, text: str) -> None:
    with pytest.raises(MapError, match=re.sub(r"([()])", r"\\\1", text.replace("\\", ""))):
        make()


# --------------------------------------------------------------------------------- redistribution


@LAWS
@hypothesis.given(st.data())
def test_redistribution_moves_what_has_another_owner(data: Any) -> None:
    before = data.draw(maps())
    nodes = data.draw(st.integers(1, 4))
    n = int(np.prod(before.shape, dtype=int))
    after = Map.row_block(before.shape, min(nodes, n))
    for a, b in ((before, after), (after, before), (before, before)):
        found = a.moves_to(b, 8)
        source, target = a.owner_array(), b.owner_array()
        seen = np.zeros(a.shape, int)
        for move in found.moves:
            where = np.ix_(*move.box) if move.box else ()
            assert (source[where] == move.source).all() and (target[where] == move.target).all()
            seen[where] += 1
        assert np.array_equal(seen, source != target)
        assert found.moved_bytes == 8 * (source != target).sum()
        assert found.kept_bytes == 8 * (source == target).sum()
        assert found.messages == len({(m.source, m.target) for m in found.moves})
