"""The order of axes of a map, and where its lanes run."""

import pytest

from npaccel.ir.passes.layout import lay_out


@pytest.mark.parametrize("shape", [(100_000, 2, 2), (70, 5, 3), (2, 900, 3, 2)])
def test_rows_shorter_than_a_vector_are_a_lane_each_along_a_long_axis(shape) -> None:
    """Also where the axis beside them is short, as of repeated points."""
    source, target = [0] * len(shape), [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        target[axis] = target[axis + 1] * shape[axis + 1]
        source[axis] = target[axis] + 7
    views = tuple(source), tuple(target)
    made = lay_out(shape, None, views, written=frozenset({1}), keep_order=False)
    assert made.vector_band
    assert made.extents[-2] == max(shape)
    assert sorted(made.extents) == sorted(shape)
    for view, strides in zip(views, made.strides, strict=True):
        assert {*zip(made.extents, strides, strict=True)} == {*zip(shape, view, strict=True)}


def test_short_rows_of_short_axes_alone_are_rows() -> None:
    made = lay_out((3, 4, 2), None, [(9, 2, 1), (8, 2, 1)], written=frozenset(), keep_order=False)
    assert not made.vector_band
