"""Maps: the laws that each keeps, the numbers of the source, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
import pickle
import re
import xml.dom.minidom
from collections import Counter
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from npaccel.cluster.boxes import boxes_of_run, contains, extents, meet, runs, size, whole
from npaccel.cluster.maps import GRANULARITIES, Map
from npaccel.errors import MapError

# ------------------------------------------------------------------------------------------- laws

LAWS = hypothesis.settings(deadline=None, max_examples=50)
LENGTHS = st.integers(1, 7)
SHAPES = st.lists(LENGTHS, min_size=0, max_size=3).map(tuple)


@st.composite
def weights(draw: Any, nodes: int) -> list[float] | None:
    some = st.lists(st.sampled_from([0.5, 1, 1.5, 2, 7]), min_size=nodes, max_size=nodes)
    return draw(st.none() | some)


@st.composite
def cut(draw: Any, shape: tuple[int, ...]) -> list[tuple[int, tuple[int, ...], tuple[int, ...]]]:
    """Boxes that cover the shape, by halving one of them again and again."""
    boxes = [whole(shape)]
    for _ in range(draw(st.integers(0, 5))):
        box = boxes.pop(draw(st.integers(0, len(boxes) - 1)))
        long = [axis for axis, part in enumerate(box) if len(part) > 1]
        if not long:
            boxes.append(box)
            continue
        axis = draw(st.sampled_from(long))
        at = draw(st.integers(1, len(box[axis]) - 1))
        for half in (box[axis][:at], box[axis][at:]):
            boxes.append((*box[:axis], half, *box[axis + 1 :]))
    nodes = draw(st.integers(1, len(boxes)))
    return [(k % nodes, tuple(r.start for r in b), extents(b)) for k, b in enumerate(boxes)]


@st.composite
def maps(draw: Any) -> Map:
    """Any map at all, some with granularities."""
    shape = draw(SHAPES)
    kind = draw(st.sampled_from(["row_block", "row_cyclic", "block", "split", "tiled", "segments"]))
    n = math.prod(shape)
    if kind == "segments":
        return Map.from_segments(shape, draw(cut(shape)))
    if kind in ("row_block", "row_cyclic"):
        nodes = draw(st.integers(1, n))
        return getattr(Map, kind)(shape, nodes, weights=draw(weights(nodes)))
    if kind == "block" and shape:
        axis = draw(st.integers(0, len(shape) - 1))
        nodes = draw(st.integers(1, shape[axis]))
        return Map.block(shape, nodes, axis=axis, weights=draw(weights(nodes)))
    if kind == "split" or not shape:
        splits = [sorted(draw(st.sets(st.integers(1, k - 1)))) if k > 1 else () for k in shape]
        nodes = draw(st.integers(1, math.prod(len(p) + 1 for p in splits)))
        assign = draw(st.sampled_from(["block", "cyclic", lambda part: part.id % nodes]))
        return Map.split(
            shape, splits, nodes, assign=assign, weights=draw(weights(nodes))
        )  # fmt: skip
    fine = [draw(st.integers(1, 2)) for _ in shape]
    memory = [f * draw(st.integers(1, 2)) for f in fine]
    tile = [m * draw(st.integers(1, 2)) for m in memory]
    nodes = draw(st.integers(1, math.prod(-(-a // b) for a, b in zip(shape, tile, strict=True))))
    make = draw(st.sampled_from([Map.block_cyclic, Map.block_block]))
    return make(shape, nodes, tile, weights=draw(weights(nodes)), memory=memory, algorithm=fine)


@LAWS
@hypothesis.given(maps())
def test_segments_cover_and_do_not_overlap(made: Map) -> None:
    seen = np.zeros(made.space, int)
    for part in made.segments:
        assert math.prod(part.extent) > 0 or 0 in made.shape
        seen[part.slices] += 1
    assert (seen == 1).all()
    boxes = np.zeros(made.shape, int)
    for number in range(len(made)):
        for box in made.boxes(number):
            boxes[np.ix_(*box)] += 1
    assert (boxes == 1).all()
    assert sum(made.loads()) == math.prod(made.shape)
    assert all(0 <= part.owner < made.nodes for part in made.segments)


@LAWS
@hypothesis.given(maps())
def test_look_up_is_brute_force(made: Map) -> None:
    """By division or binary search, by the segment remembered: what going through all says."""
    expected = np.full(made.space, -1)
    for part in made.segments:
        expected[part.slices] = part.id
    expected, owners, cursor = expected.reshape(made.shape), made.owner_array(), made.cursor()
    for index in np.ndindex(made.shape):
        part, local = made.locate(index)
        assert part.id == expected[index] and part.owner == owners[index] == made.owner(index)
        assert cursor.locate(index) == (part, local)
        # The inverse: offset and place in the segment give the index.
        at = tuple(o + i for o, i in zip(part.offset, local, strict=True))
        flat = np.ravel_multi_index(index, made.shape) if made.shape else 0
        assert at == ((flat,) if made.flat else index)
        negative = tuple(i - n for i, n in zip(index, made.shape, strict=True))
        assert made.segment(negative) == part == made.segments[part.id]


@LAWS
@hypothesis.given(maps())
def test_granularities_nest(made: Map) -> None:
    coarser: dict[int, Any] = {part.id: part for part in made.segments}
    for name in ("node", "memory", "algorithm"):
        blocks = list(made.blocks(name))
        assert sorted(block.id for block in blocks) == list(range(len(blocks)))
        assert sum(math.prod(block.extent) for block in blocks) == math.prod(made.shape)
        outside = {"node": "segment", "memory": "segment", "algorithm": "memory"}[name]
        for block in blocks:
            around = coarser[getattr(block, outside)]
            assert around.owner == block.owner == made.owners[block.segment]
            inner = [range(o, o + n) for o, n in zip(block.offset, block.extent, strict=True)]
            outer = [range(o, o + n) for o, n in zip(around.offset, around.extent, strict=True)]
            assert contains(tuple(outer), tuple(inner))
        coarser = {block.id: block for block in blocks}
        for index in np.ndindex(made.shape):
            block = made.block_of(index, name)
            assert coarser[block.id] == block
            at = np.ravel_multi_index(index, made.shape) if made.shape else 0
            place = (at,) if made.flat else index
            assert all(
                o <= i < o + n for i, o, n in zip(place, block.offset, block.extent, strict=True)
            )


@LAWS
@hypothesis.given(maps())
def test_what_is_written_is_read_back(made: Map) -> None:
    copies = [
        pickle.loads(pickle.dumps(made)),
        Map.from_dict(json.loads(json.dumps(made.to_dict()))),
    ]
    for copy in copies:
        assert copy == made and hash(copy) == hash(made)
        assert list(copy.segments) == list(made.segments)
        assert list(copy.blocks("algorithm")) == list(made.blocks("algorithm"))


@LAWS
@hypothesis.given(maps())
def test_pictures(made: Map) -> None:
    text, picture = str(made), made._repr_svg_()
    assert text.startswith("Map of ") and f"{len(made)} segment" in text
    parts = xml.dom.minidom.parseString(picture).getElementsByTagName("rect")
    area = sum(float(r.getAttribute("width")) * float(r.getAttribute("height")) for r in parts)
    rows, columns = (1, 1, *made.shape)[-2:]
    scale = 320 / max(rows, columns)
    drawn = max(8, rows * scale) * max(8, columns * scale)
    assert abs(area - drawn) < 0.02 * drawn + 1  # all of it, once
    if len(made.shape) == 2:
        table = [line.split() for line in text.splitlines() if line.startswith("  ")]
        assert np.array(table, int).tolist() == made.owner_array().tolist()


def test_maps_do_not_change() -> None:
    made = Map.block((4, 4), 2)
    with pytest.raises(AttributeError):
        made.nodes = 3  # type: ignore[misc]
    assert made == Map.block((4, 4), 2) != Map.block((4, 4), 2, axis=1)
    assert len({made, Map.block((4, 4), 2), Map.row_block((4, 4), 2)}) == 2


@LAWS
@hypothesis.given(SHAPES, st.data())
def test_runs_are_boxes_and_back(shape: tuple[int, ...], data: Any) -> None:
    n = math.prod(shape)
    low = data.draw(st.integers(0, n))
    high = data.draw(st.integers(low, n))
    number = np.arange(n).reshape(shape)
    found = list(boxes_of_run(low, high, shape))
    assert len(found) <= max(1, 2 * len(shape) - 1)
    elements = [number[np.ix_(*box)].ravel().tolist() if box else [0] for box in found]
    assert list(itertools.chain(*elements)) == list(range(low, high))
    for box, inside in zip(found, elements, strict=True):
        pieces = [range(*run) for run in runs(box, shape)]
        assert list(itertools.chain(*pieces)) == inside and size(box) == len(inside)


@LAWS
@hypothesis.given(st.lists(st.tuples(*[st.integers(0, 20)] * 5), min_size=1, max_size=3))
def test_what_boxes_share(axes: list[tuple[int, ...]]) -> None:
    first = tuple(range(a, a + n, step + 1) for a, n, step, _, _ in axes)
    second = tuple(range(b, b + n) for _, _, _, b, n in axes)
    shared = [sorted(set(x) & set(y)) for x, y in zip(first, second, strict=True)]
    found = meet(first, second)
    assert (found is None) == (not all(shared))
    assert found is None or [list(part) for part in found] == shared


# ------------------------------------------------------------------------------------ the source
# Its matrix has 6 x 6 elements, its segments are nine of 2 x 2, numbered from 1 row by row.

MATRIX = (6, 6)


def flat(made: Map, node: int) -> list[int]:
    return np.flatnonzero(made.owner_array().ravel() == node).tolist()


def numbers(made: Map, node: int) -> list[int]:
    """The source's numbers of the segments of a node."""
    return [part.id + 1 for part in made.segments if part.owner == node]


def test_the_sources_segments() -> None:
    parts = Map.block_cyclic(MATRIX, 3, (2, 2)).segments
    elements = np.arange(36).reshape(MATRIX)
    assert elements[parts[0].slices].ravel().tolist() == [0, 1, 6, 7]
    assert elements[parts[1].slices].ravel().tolist() == [2, 3, 8, 9]
    # Its own offsets are in blocks: {0, 1} of the second and {1, 2} of the sixth one.
    assert (parts[1].offset, parts[1].extent) == ((0, 2), (2, 2))
    assert (parts[5].offset, parts[5].extent) == ((2, 4), (2, 2))


def test_row_block() -> None:
    three, four = Map.row_block(MATRIX, 3), Map.row_block(MATRIX, 4)
    assert [flat(three, k) for k in range(3)] == [
        list(range(12 * k, 12 * k + 12)) for k in range(3)
    ]
    assert flat(four, 0) == list(range(9)) and flat(four, 1) == list(range(9, 18))
    assert flat(four, 2) == list(range(18, 27)) and flat(four, 3) == list(range(27, 36))


def test_column_block() -> None:
    made, parts = Map.column_block(MATRIX, 3), Map.block_cyclic(MATRIX, 3, (2, 2))
    for node, segments in enumerate([(1, 4, 7), (2, 5, 8), (3, 6, 9)]):
        assert numbers(parts, node) == list(segments)
        columns = [2 * node, 2 * node + 1]
        assert (made.owner_array()[:, columns] == node).all() and made.loads()[node] == 12


def test_row_cyclic() -> None:
    three, four = Map.row_cyclic(MATRIX, 3), Map.row_cyclic(MATRIX, 4)
    assert [flat(three, r) for r in range(3)] == [[3 * k + r for k in range(12)] for r in range(3)]
    assert [flat(four, r) for r in range(4)] == [[4 * k + r for k in range(9)] for r in range(4)]


def test_block_cyclic_and_block_block() -> None:
    three, four = (Map.block_cyclic(MATRIX, nodes, (2, 2)) for nodes in (3, 4))
    assert [numbers(three, k) for k in range(3)] == [[1, 4, 7], [2, 5, 8], [3, 6, 9]]
    assert [numbers(four, k) for k in range(4)] == [[1, 5, 9], [2, 6], [3, 7], [4, 8]]
    together = Map.block_block(MATRIX, 3, (2, 2))
    assert [numbers(together, k) for k in range(3)] == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]


def test_split_points() -> None:
    """rank 2, an extent of {36, 36}, split points {16} and {16}: four segments."""
    made = Map.split((36, 36), [(16,), (16,)], 4)
    assert len(made) == 4 and made.segments[0].extent == (16, 16)
    three = Map.split((36, 36, 36), [(16,), (), (4, 9)], 2)
    assert len(three) == 2 * 1 * 3


def test_granularities() -> None:
    """6144 x 6144 elements: 36 algorithm blocks, 18 memory blocks of 2048 x 1024, 9 of nodes."""
    made = Map.block_cyclic(
        (6144, 6144), 4, (2048, 2048), memory=(2048, 1024), algorithm=(1024, 1024)
    )
    assert [len(list(made.blocks(name))) for name in GRANULARITIES] == [36, 18, 9]
    # Its blocks are numbered from 0: 3 and 9 lie in memory block 3 of segment 2.
    by_number = {block.id: block for block in made.blocks("algorithm")}
    assert (by_number[3].memory, by_number[9].memory) == (3, 3)
    assert (by_number[2].memory, by_number[8].memory) == (2, 2)
    assert {by_number[k].segment + 1 for k in (2, 3, 8, 9)} == {2}


def tasks(made: Map) -> list[list[tuple[int, int]]]:
    """Per node the queue of its tasks: the algorithm blocks of C = A + B.T, row by row."""
    queues: list[list[tuple[int, int]]] = [[] for _ in range(made.nodes)]
    for block in sorted(made.blocks("algorithm"), key=lambda block: block.id):
        queues[block.owner].append(divmod(block.id, 6))
    return queues


def test_tasks_of_a_sum_with_a_transpose() -> None:
    made = Map.block_cyclic((6144, 6144), 4, (2048, 2048), algorithm=(1024, 1024))
    queues = tasks(made)
    assert list(map(len, queues)) == [12, 8, 8, 8]
    wanted = [(0, 4), (0, 5), (1, 4), (1, 5), (4, 0), (4, 1), (5, 0), (5, 1)]
    assert queues[2] == wanted
    # B's block stays where C's is for segments 1, 5 and 9, says the source; and for 3 and 7, whose
    # blocks it takes from each other: both are on node 2.
    still = {
        block.segment + 1
        for block in made.blocks("algorithm")
        if block.owner == made.owner(block.offset[::-1])
    }
    assert still == {1, 5, 9} | {3, 7}
    # Segment 4's come from segment 2, so from its node, 1, to 3.
    assert made.owner((2048, 0)) == 3 and made.owner((0, 2048)) == 1


def test_tasks_of_unequal_nodes() -> None:
    """Weights 4, 2, 2, 1: as many of the nine segments, so 16, 8, 8 and 4 tasks."""
    made = Map.block_cyclic(
        (6144, 6144), 4, (2048, 2048), algorithm=(1024, 1024), weights=(4, 2, 2, 1)
    )
    assert list(map(len, tasks(made))) == [16, 8, 8, 4]
    assert Counter(made.owners) == {0: 4, 1: 2, 2: 2, 3: 1}
    assert Map.row_block(MATRIX, 4, weights=(4, 2, 2, 1)).loads() == (16, 8, 8, 4)


# -------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: Map.from_segments((4, 4), [(0, (0, 0), (2, 4))]),
            "not cover.*element at (2, 0)",
        ),
        (
            lambda: Map.from_segments((4,), [(0, (0,), (3,)), (1, (2,), (2,))]),
            "segments 0 and 1 overlap",
        ),
        (lambda: Map.from_segments((4,), [(0, (0,), (5,))]), "segment 0 .* not within shape (4,)"),
        (lambda: Map((6, 6), ((2,), ()), (0,), 1), "1 owners for 2 segments.*does not cover"),
        (lambda: Map((4,), ((2,),), (0, 0), 1, cells=(0,)), "1 numbers of segments for 2 cells"),
        (lambda: Map((6,), ((2, 4),), (0, 0), 1, cells=(0, 1, 0)), "cells of segment 0 are no box"),
        (lambda: Map.block((3, 8), 4), "4 nodes for 3 along axis 0.*3 nodes at most"),
        (lambda: Map.block_cyclic((6, 6), 10, (2, 2)), "10 nodes for 9 segments.*at most"),
        (lambda: Map.row_cyclic((2, 2), 5), "5 nodes for 4 segments"),
        (lambda: Map.row_block((0, 3), 1), "1 nodes for 0 elements"),
        (
            lambda: Map.block((6,), 2, memory=(2,)),
            "memory=(2,) does not divide a .* length 3",
        ),
        (
            lambda: Map.block((8,), 2, memory=(4,), algorithm=(3,)),
            "algorithm=(3,) does not divide the memory block of length 4 along axis 0",
        ),
        (
            lambda: Map.block((8,), 2, algorithm=(3,)),
            "divide a node's segment of length 4",
        ),
        (lambda: Map.block((8,), 2, memory=(0,)), "a positive number per axis"),
        (lambda: Map.block((8, 8), 2, memory=4), "memory=4 for an index space of shape (8, 8)"),
        (lambda: Map.split((8,), [(3, 3)], 1), "split points (3, 3) .* rise between 0 and that"),
        (lambda: Map.split((8,), [(8,)], 1), "split points (8,)"),
        (lambda: Map.split((8, 2), [(4,)], 1), "split points for 1 axes"),
        (lambda: Map.split((8,), [(4,)], 2, assign="best"), "assign='best'; it is"),
        (lambda: Map.split((8,), [(4,)], 2, assign=lambda part: 2), "on node 2, where nodes are 0"),
        (lambda: Map.block((8,), 2, weights=(1, 0)), "each is a positive number"),
        (lambda: Map.block((8,), 2, weights=(1,)), "1 weights for 2 nodes"),
        (lambda: Map.block((8,), 0), "nodes=0; there is at least one"),
        (lambda: Map.block((8,), 2, axis=1), "axis 1 of a shape with 1 axes"),
        (lambda: Map.grid((8, 8), (2,)), "number of nodes per axis"),
        (lambda: Map.block((8.5,), 2), "it is integers"),
        (lambda: Map.block((-8,), 2), "negative"),
        (
            lambda: Map.from_dict({"npaccel.Map": 2}),
            "format 2 of a map, where .* reads 1",
        ),
        (lambda: Map.from_dict({"npaccel.Map": 1}), "not what Map.to_dict writes"),
        (lambda: list(Map.block((8,), 2).blocks("page")), "a granularity is one of algorithm"),
    ],
)
def test_what_is_refused(make: Any, text: str) -> None:
    """It says what was asked, what was found, what to do."""
    pattern = re.sub(r"([()])", r"\\\1", text)
    with pytest.raises(MapError, match=pattern):
        make()


def test_indices_out_of_bounds_are_numpys_errors() -> None:
    made = Map.block((4, 6), 2)
    with pytest.raises(IndexError, match="index 6 is out of bounds for axis 1 with size 6"):
        made.owner((0, 6))
    with pytest.raises(IndexError, match="1 indices for a map of shape"):
        made.owner(3)
    with pytest.raises(IndexError, match="segment 2 of 2"):
        made.segments[2]
    assert [part.id for part in made.segments[::-1]] == [1, 0] and made.segments[-1].id == 1


def test_large_maps_cost_by_segments() -> None:
    """A thousand nodes and 10^12 elements: nothing here goes through elements."""
    made = Map.grid((10**6, 10**6), (40, 25), memory=(1000, 1000))
    assert len(made) == 1000 and made.owner((10**6 - 1, 10**6 - 1)) == 999
    assert made.block_of((25_000, 40_000), "memory").offset == (25_000, 40_000)
    assert "every element of 24 × 24 stands for several" in str(made)
    assert len(made._repr_svg_()) < 300_000
