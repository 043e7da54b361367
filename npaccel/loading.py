"""`load`: arrays from files, each part of which is read by who is to have it."""

from __future__ import annotations

import functools
from typing import Any

from npaccel import api, making
from npaccel.cluster.stored import part, stored

__all__ = ["load"]


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
    return making.from_blocks(read, found.shape, found.dtype, device=device, map=map)
