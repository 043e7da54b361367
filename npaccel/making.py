"""Arrays that are made on a cluster: `zeros` and its like, `from_blocks`, `load`; and `move`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from npaccel import _native, api
from npaccel.cluster.carrying import agile, carried, map_of, placed_view
from npaccel.cluster.client import OPEN
from npaccel.cluster.maps import Map
from npaccel.cluster.stored import part, stored
from npaccel.errors import MapError

__all__ = ["arange", "empty", "from_blocks", "full", "load", "move", "ones", "zeros"]


def _made(device: Any, map: Any, make: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """What NumPy makes; on a cluster it is recorded, and computed there."""
    if not api.is_cluster(device):
        return api.asarray(make(*args, **options), device=device, map=map)
    with api.accelerate(min_size=0, device=device):
        made = make(*args, **options)
    return api.asarray(made, device=device, map=map)


def zeros(
    shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, map: Any = None
) -> Any:
    """As `numpy.zeros`; an Array, which lives on `device`.

    Parameters
    ----------
    device, map : as in `npaccel.asarray`.
    """
    return _made(device, map, np.zeros, shape, dtype, order)


def ones(
    shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, map: Any = None
) -> Any:
    """As `numpy.ones`; see `zeros`."""
    return _made(device, map, np.ones, shape, dtype, order)


def empty(
    shape: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, map: Any = None
) -> Any:
    """As `numpy.empty`; see `zeros`. What is in it on a cluster are zeros."""
    make = np.zeros if api.is_cluster(device) else np.empty
    return _made(device, map, make, shape, dtype, order)


def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    order: Any = "C",
    *,
    device: Any = None,
    map: Any = None,
) -> Any:
    """As `numpy.full`; see `zeros`."""
    return _made(device, map, np.full, shape, fill_value, dtype, order)


def arange(*limits: Any, dtype: Any = None, device: Any = None, map: Any = None) -> Any:
    """As `numpy.arange`; see `zeros`."""
    return _made(device, map, np.arange, *limits, dtype=dtype)


def from_blocks(
    function: Callable[..., Any],
    shape: Any,
    dtype: Any = float,
    *,
    of: Any = (),
    device: Any = None,
    map: Any = None,
) -> Any:
    """An Array of what a function gives for each block, computed or read by the block's owner.

    Parameters
    ----------
    function : given a block, whose `offset` and `extent` say which part of the array it is, it
        returns an array of that extent. On a cluster it runs on the workers, where it is sent as
        cloudpickle has it: what it imports has to be there.
    of : arrays of that shape. The function is given the block's part of each, too, to be read, as
        plain arrays; what of them lies with others is moved to the owner first.
    map : an `npaccel.Map`; its memory blocks are what the function is called with, and segments
        where it has none. None: equal parts along the first axis.
    device : as in `npaccel.asarray`; None: the function is called here.

    Raises
    ------
    MapError : the function gives another shape, or an array of `of` has one. What the function
        raises, is raised.
    """
    there = api.is_cluster(device)
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    made = map if map is not None else Map.block(shape, device.nodes if there else 1)
    result = empty(shape, dtype, device=device, map=made if there else None)
    beside = [_beside(one, made, device) for one in of]
    if there and device.fill(result, function, made, beside):
        return result
    line = placed_view(result, made)
    parts = [placed_view(np.asarray(one), made) for one in beside]
    for block in made.blocks("memory"):
        part = np.asarray(function(block, *(_read_only(one[block.slices]) for one in parts)))
        if part.shape != block.extent:
            raise MapError(
                f"npaccel.from_blocks: the function gave shape {part.shape} for block {block.id} "
                f"of shape {block.extent}; it gives an array of the block's shape"
            )
        line[block.slices] = part
    return agile(result, made)


def _beside(one: Any, made: Map, device: Any) -> Any:
    """A copy of an array that is where a map says; without a device, the array."""
    if np.shape(one) != made.shape:
        raise MapError(
            f"npaccel.from_blocks: `of` has an array of shape {np.shape(one)} for one of shape "
            f"{made.shape}; give arrays of that shape"
        )
    if not api.is_cluster(device):
        return one
    one = one if isinstance(one, np.ndarray) else np.asarray(one)
    copy = empty(one.shape, one.dtype, device=device, map=made)
    copy[...] = one
    return copy


def _read_only(part: Any) -> Any:
    part = part.view()
    part.flags.writeable = False
    return part


def load(
    source: Any, name: str | None = None, *, axis: int = 0, device: Any = None, map: Any = None
) -> Any:
    """An Array of what is in a file; on a cluster the owners read their parts of it.

    Parameters
    ----------
    source : the path of a .npy file, of a folder with 0.npy, 1.npy and so on (as
        `dask.array.to_npy_stack` makes it), of an HDF5 file or of a zarr store; a `zarr.Array`, or
        an `h5py.Dataset` of a file that is open to be read. On a cluster each worker has to find
        it under this name. HDF5 takes h5py, zarr the library of that name:
        ``pip install npaccel[files]``.
    name : of the array in an HDF5 file or a zarr store that has several.
    axis : along which files of a folder are one behind another.
    device, map : as in `npaccel.from_blocks`. A worker reads those chunks that have something of
        its segments, for each memory block of the map once; those with something of two segments
        are read by both.

    Raises
    ------
    ConfigError : it is no such file; there are several arrays in it, and none is named; its
        elements are Python objects. BackendUnavailable : h5py or zarr is missing. What reading
        raises, is raised.
    """
    found = stored(source, name, axis)
    if 0 in found.shape or not found.shape:
        return api.asarray(found.read(()), device=device, map=map)
    read = functools.partial(part, found)
    return from_blocks(read, found.shape, found.dtype, device=device, map=map)


def move(c: Any, b: Any) -> Any:
    """A copy of `b` that is where `c` is, so that what needs both has them on one node.

    It is recorded as all operations are: what moves goes with the messages of the flush that needs
    it. `Cluster.stats` counts moves, messages and bytes.

    Parameters
    ----------
    c : an array with a map (`npaccel.agile`, or ``map=`` when it was placed), or a part of one.
    b : an array of its shape; of any shape, if all of `c` is on one node.

    Raises
    ------
    MapError : `c` has no map, or several nodes have parts of it and `b` has another shape.
    """
    if not isinstance(c, np.ndarray) or carried(c) is None:
        raise MapError(
            "npaccel.move: the first array has no map, so it is not said where it is; "
            "npaccel.agile(x, map) gives it one"
        )
    made = map_of(c)
    b = np.asarray(b) if not isinstance(b, np.ndarray) else b
    if made.shape != b.shape:
        owners = set(made.owners)
        if len(owners) != 1:
            raise MapError(
                f"npaccel.move: an array of shape {b.shape} to where one of shape {made.shape} is, "
                "which several nodes have; give one of that shape"
            )
        everything = [(owners.pop(), (0,) * b.ndim, b.shape)]
        made = Map.of_boxes(b.shape, everything, made.nodes)
    cluster = next((one for one in OPEN if one.memory is _native.place_of([c])), None)
    result = empty(b.shape, b.dtype, device=cluster, map=made if cluster is not None else None)
    result[...] = b
    if cluster is None:
        return agile(result, made)
    cluster.moves += 1
    return result
