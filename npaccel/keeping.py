"""`checkpoint` and `restore`: arrays as they are, on neighbours or on disk, and from there again.

What nodes copy and write is cluster's; here are arrays, wherever they live.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from npaccel import _native, api, making
from npaccel.cluster import Map, disk, zarrs
from npaccel.cluster.boxes import box_at, extents, whole
from npaccel.cluster.client import OPEN
from npaccel.cluster.disk import Kept
from npaccel.cluster.parts import Block
from npaccel.cluster.placing import Layout, dense_strides, layout_of
from npaccel.errors import ConfigError, MapError

__all__ = ["checkpoint", "restore"]

Array = np.ndarray[Any, Any]


def checkpoint(*arrays: Any, to: Any = None) -> int:
    """Keep arrays as they are, in case a worker of their cluster dies, or the program does.

    Without a path each node's part is copied there, and to the memory of the node that follows; so
    an array takes three times its memory. With one, each node writes its part to a file. If a
    worker dies, all that lives there becomes what it was then, and what was done since is done
    again, by a log of up to 256 MiB. This replaces an earlier checkpoint.

    Parameters
    ----------
    arrays : what is to be kept. What has come home, and is at home alone, is safe anyway. What is
        computed from these later is made again; another array that is written in place later is
        lost with the worker, unless it is kept, too. `Cluster.checkpoint()` keeps all.
    to : a folder that this process and all nodes see, under one name. All arrays are written, those
        at home, too; `npaccel.restore` reads them, in another program as well. What was kept there
        before stays until all of this is there, and goes then. Where its name ends in ``.zarr`` it
        is a zarr store, which other programs open: `zarr.open_group(to)` is a group whose attribute
        ``arrays`` names its arrays, in order. That takes zarr (``pip install npaccel[files]``), and
        for a moment as much memory again.

    Returns
    -------
    int
        How many of them lie on a cluster, and are kept.

    Raises
    ------
    BackendUnavailable : something of them is lost already, or the driving process has ended.
        zarr is missing.
    MapError : with `to`, an array that shows a part of another one, or holds Python objects; for a
        zarr store, has a dtype that zarr's description has no name for.
    OSError : a node can't write; what was kept there before, is. The zarr store is not npaccel's.
    """
    if to is not None:
        return _to_disk(arrays, os.path.abspath(to))
    found = 0
    for cluster in list(OPEN):
        mine = [one for one in arrays if _native.place_of([one]) is cluster.memory]
        found += cluster.checkpoint(*mine) if mine else 0
    return found


def _to_disk(arrays: Any, path: str) -> int:
    if not arrays:
        raise ConfigError("npaccel.checkpoint(to=...): name the arrays, which come back in order")
    arrays = [one if isinstance(one, np.ndarray) else np.asarray(one) for one in arrays]
    _native.evaluate()
    layouts = [_dense(one) for one in arrays]
    folder = disk.begin(path)
    found: dict[str, Any] = {}
    nodes: dict[str, int] = {}
    for cluster in list(OPEN):
        mine = {
            f"array{k}": one
            for k, one in enumerate(arrays)
            if _native.place_of([one]) is cluster.memory
        }
        copies = _in_chunks(mine, cluster, folder) if zarrs.named_so(path) else None
        written = cluster.save(mine, folder, copies) if mine else {}
        found.update(written)
        nodes.update(dict.fromkeys(written, cluster.nodes))
    kept = []
    for k, (one, layout) in enumerate(zip(arrays, layouts, strict=True)):
        name = f"array{k}"
        size, there, files = found.get(name) or _written_here(one, layout, folder, name)
        if size != one.nbytes:
            raise MapError(_part_of(k))
        kept.append(
            Kept(one.shape, layout.strides, one.dtype, size, there, nodes.get(name, 1), files)
        )
    disk.commit(path, folder, kept)
    return len(found)


def _in_chunks(arrays: dict[str, Any], cluster: Any, folder: str) -> dict[str, Any]:
    """Copies that nodes can write to zarr's arrays, each by whole chunks."""
    found = {}
    for name, one in arrays.items():
        zarrs.create(folder, name, one, cluster.nodes)
        parts = zarrs.parts_of(one.shape, one.itemsize, cluster.nodes)
        made = Map.of_boxes(one.shape, parts, cluster.nodes)
        found[name] = making.empty(one.shape, one.dtype, device=cluster, map=made)
        found[name][...] = one
    return found


def _part_of(k: int) -> str:
    return (
        f"npaccel.checkpoint(to=...): array {k} shows a part of another one; keep that one, or a "
        "copy"
    )


def _dense(one: Array) -> Layout:
    if one.dtype.hasobject:
        raise MapError(
            f"npaccel.checkpoint(to=...): an array of dtype {one.dtype} holds Python objects"
        )
    found = layout_of(one.shape, one.strides, 0, one.itemsize)
    if found is None and one.size:
        raise MapError(
            f"npaccel.checkpoint(to=...): an array of shape {one.shape} and strides {one.strides} "
            "has gaps or goes backwards; keep a copy of it"
        )
    return found or Layout(one.shape, dense_strides(one.shape, one.itemsize), 0, one.itemsize)


def _written_here(one: Array, layout: Layout, folder: str, name: str) -> Any:
    line = np.empty(one.nbytes, "u1")
    if zarrs.holds(folder):
        zarrs.create(folder, name, one, 1)
        layout = Layout(one.shape, dense_strides(one.shape, one.itemsize), 0, one.itemsize)
    np.ndarray(one.shape, one.dtype, line, 0, layout.strides)[...] = np.asarray(one)
    box = whole(layout.shape)
    name = name if zarrs.holds(folder) else f"{name}-0.npy"
    file = disk.save(folder, name, 0, line, layout, [box])
    return one.nbytes, layout, (file,)


def restore(path: Any, *, device: Any = None) -> list[Any]:
    """The arrays of the checkpoint in a folder, in the order in which they were named.

    Parameters
    ----------
    path : as `npaccel.checkpoint` was given it. All that is read is compared with checksums.
    device : an `npaccel.Cluster`, whose workers read their parts, placed as they were where it has
        as many nodes; None: they are read here.

    Raises
    ------
    OSError : there is none, or one that ended half way, or a file is not what was written.
    """
    folder, arrays = disk.read(os.path.abspath(path))
    return [_restored(folder, one, device) for one in arrays]


def _restored(folder: str, kept: Kept, device: Any) -> Any:
    layout = kept.layout
    as_it_was = layout.shape == kept.shape and layout.strides == kept.strides
    if not api.is_cluster(device) or not as_it_was or not _in_c_order(kept):
        return api.asarray(_read_here(folder, kept), device=device)

    def read(block: Block) -> Array:
        return disk.load_part(folder, kept, box_at(block.offset, block.extent))

    return making.from_blocks(
        read, kept.shape, kept.dtype, device=device, map=_map(kept, device.nodes)
    )


def _in_c_order(kept: Kept) -> bool:
    return bool(np.ndarray(kept.shape, kept.dtype, None, 0).strides == kept.strides)


def _map(kept: Kept, nodes: int) -> Map | None:
    boxes = [(file.node, box) for file in kept.files for box in file.boxes]
    if kept.nodes > nodes or any(axis.step != 1 for _, box in boxes for axis in box):
        return None
    parts = [(node, [axis.start for axis in box], extents(box)) for node, box in boxes]
    return Map.of_boxes(kept.shape, parts, nodes)


def _read_here(folder: str, kept: Kept) -> Array:
    memory = np.empty(kept.size, "u1")
    for file in kept.files:
        disk.load(folder, file, memory, kept.layout)
    return np.ndarray(kept.shape, kept.dtype, memory, 0, kept.strides)
