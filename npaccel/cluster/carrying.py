"""Arrays that carry a map: `agile` gives one to an array's memory, views find it there.

An array stays what it was. Its map is kept beside it, by the array that owns the memory, and goes
when that does. On one machine all segments are here; what a map changes is which parts `forall`
and `blocks` go by, and how a plan for several nodes is made.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from npaccel import _native
from npaccel.cluster.boxes import extents
from npaccel.cluster.maps import Granularity, Map
from npaccel.cluster.parts import Block, Segment
from npaccel.cluster.placing import Layout, Placed, layout_of, owned_by
from npaccel.errors import MapError
from npaccel.ir.nodes import View
from npaccel.runtime.macros.guards import root

__all__ = ["BlockView", "Carried", "agile", "blocks", "carried", "map_of", "segments"]

Array = np.ndarray[Any, Any]


class Carried(NamedTuple):
    """A map, and the array that was given it: its layout in the memory of the owner."""

    map: Map
    layout: Layout
    owner: weakref.ref[Array]


class Maps:
    """Of the process: by the array that owns the memory."""

    def __init__(self) -> None:
        self._by_owner: dict[int, Carried] = {}

    def put(self, owner: Array, made: Map, layout: Layout) -> None:
        """Give the memory this map; it replaces another."""
        key = id(owner)
        there = weakref.ref(owner, lambda gone: self._forget(key, gone))
        self._by_owner[key] = Carried(made, layout, there)

    def _forget(self, key: int, gone: weakref.ref[Array]) -> None:
        if key in self._by_owner and self._by_owner[key].owner is gone:
            del self._by_owner[key]

    def find(self, owner: Array) -> Carried | None:
        """What this memory carries."""
        found = self._by_owner.get(id(owner))
        return found if found is not None and found.owner() is owner else None

    def all(self) -> list[Carried]:
        """Of all memory that lives."""
        return list(self._by_owner.values())


MAPS: Final = Maps()


def agile(x: Any, map: Map) -> Any:
    """The same array, segmented and placed as a map says.

    Parameters
    ----------
    x : an array, or what `numpy.asarray` takes. Its elements lie one behind another in memory, in
        any order of axes.
    map : of its shape. Another one that it had before is replaced; what would have to move then
        tells ``old.moves_to(map, x.itemsize)``.

    Returns
    -------
    Array
        As `npaccel.asarray` has it: the same memory, indexable as before. ``.segments``
        and ``.blocks(granularity)`` are what the map says of it; of a view, what it says of the
        part that the view shows. Results of operations have none of their own.

    Raises
    ------
    MapError : the map is of another shape, the array holds Python objects, or has gaps.
    """
    if not isinstance(map, Map):
        raise MapError(
            f"npaccel.agile: {map!r} is no npaccel.Map; make one, as Map.block(shape, 4)"
        )
    given = x if isinstance(x, np.ndarray) else np.asarray(x)
    if given.dtype.hasobject:
        raise MapError(
            f"npaccel.agile: an array of dtype {given.dtype} holds Python objects, which can't be "
            "on another node; convert it to numbers first"
        )
    if not isinstance(given, _native.ArrayBase):
        if type(given) is not np.ndarray:
            raise MapError(
                f"npaccel.agile: a {type(given).__name__} keeps its own behaviour, so it can't be "
                "placed; give numpy.asarray of it"
            )
        given = _native.wrap(given)
    if map.shape != given.shape:
        raise MapError(
            f"npaccel.agile: a map of shape {map.shape} for an array of shape {given.shape}; "
            "make a map of that shape"
        )
    owner = root(given)
    layout = layout_of(given.shape, given.strides, _offset(owner, given), given.itemsize)
    if layout is None and given.size:
        raise MapError(
            f"npaccel.agile: an array of shape {given.shape} and strides {given.strides} has gaps "
            "or goes backwards; place the array that it is a view of, or a copy"
        )
    MAPS.put(owner, map, layout or Layout(given.shape, (0,) * given.ndim, 0, given.itemsize))
    return given


def _offset(owner: Array, array: Array) -> int:
    """Bytes from the first element of one array to the other's."""
    first, other = map(_address, (owner, array))
    return other - first


def _address(array: Array) -> int:
    address: int = np.ndarray.__array_interface__.__get__(array)["data"][0]
    return address


def carried(array: Array) -> Carried | None:
    """What an array's memory carries; None: nothing."""
    return MAPS.find(root(array))


def map_of(array: Array) -> Map:
    """The map of an array: the one that it was given, or of a view what that says of its part."""
    found = carried(array)
    if found is None:
        raise AttributeError("this array has no map; npaccel.agile(x, map) gives it one")
    owner, layout = root(array), found.layout
    offset = _offset(owner, array)
    if array.shape == layout.shape and offset == layout.offset:
        here = layout_of(array.shape, array.strides, offset, array.itemsize)
        if here == layout:
            return found.map
    return _seen(array, found, offset)


def _seen(array: Array, found: Carried, offset: int) -> Map:
    item = array.itemsize
    whole = all(step % item == 0 for step in array.strides) and offset % item == 0
    steps = tuple(
        s // item if n != 1 else 0 for n, s in zip(array.shape, array.strides, strict=True)
    )
    view = View(0, f"V{item}", offset // item, steps)
    placed = Placed.by(found.layout, found.map).of_items(item) if whole else None
    shares = owned_by(placed, view, array.shape) if placed is not None else None
    if shares is None:
        raise MapError(
            f"a view of shape {array.shape} and strides {array.strides} shows no boxes of an array "
            f"of shape {found.layout.shape}; use the array that has the map"
        )
    parts = [(node, [axis.start for axis in box], extents(box)) for node, box in shares]
    return Map.of_boxes(array.shape, parts, found.map.nodes)


class BlockView(NamedTuple):
    """A block of an array: `block` says which, `array` is the view of it, to read and write."""

    block: Block
    array: Any


def segments(array: Array) -> Sequence[Segment]:
    """An array's segments."""
    return map_of(array).segments


def placed_view(array: Array, made: Map) -> Array:
    """The array as its map's space has it: of a flat map, all elements as one axis."""
    if not made.flat or array.ndim == 1:
        return array
    line = array.reshape(-1)
    if root(line) is not root(array):
        raise MapError(
            "a map in row-major order, of an array that does not lie so in memory; place a copy "
            "(numpy.ascontiguousarray)"
        )
    return line


def blocks(array: Array, granularity: Granularity = "node") -> Iterator[BlockView]:
    """Each block of a granularity, with the view of it: the loop moves and bounds by blocks."""
    made = map_of(array)
    line = placed_view(array, made)
    return (BlockView(block, line[block.slices]) for block in made.blocks(granularity))
