"""Checkpoints that other programs can open: arrays of zarr's (version 3) in a group.

Chunks have a checksum of zarr's (crc32c). A node writes whole chunks, so no two write one; any box
can be read.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from npaccel.cluster.boxes import Box
from npaccel.cluster.nodes import new_memory, shown
from npaccel.cluster.placing import Layout
from npaccel.cluster.stored import zarrs
from npaccel.errors import MapError

__all__ = [
    "NAME",
    "check",
    "create",
    "group_text",
    "holds",
    "named_so",
    "parts_of",
    "read",
    "write",
]

Array = np.ndarray[Any, Any]
NAME = "zarr.json"
MOST_BYTES = 1 << 23  # of a chunk
KINDS = "biufcmM"  # what zarr's own description has names for


def named_so(path: str) -> bool:
    """Whether a checkpoint at that path is zarr's."""
    return Path(path).suffix == ".zarr"


def holds(folder: str) -> bool:
    """Whether it is a folder of data in such a one."""
    return named_so(str(Path(folder).parent))


def check(path: str) -> None:
    """There is no store of another program, which would be written over."""
    zarrs()
    try:
        there = json.loads((Path(path) / NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    if "npaccel" not in there.get("attributes", {}):
        raise FileExistsError(
            f"npaccel.checkpoint: {path} is a zarr store that npaccel has not written; name another"
        )


def group_text(attributes: Mapping[str, Any]) -> str:
    """What makes a folder a group."""
    return json.dumps({"zarr_format": 3, "node_type": "group", "attributes": attributes})


def _chunks(shape: Sequence[int], item: int, nodes: int) -> tuple[int, list[int]]:
    """Along which axis nodes share chunks out, and their extent."""
    longest = max(range(len(shape)), key=shape.__getitem__)
    axis = next((k for k, n in enumerate(shape) if n >= nodes), longest)
    chunk = [max(1, n) for n in shape]
    chunk[axis] = -(-chunk[axis] // nodes)
    while math.prod(chunk) * item > MOST_BYTES and max(chunk) > 1:
        split = axis if chunk[axis] > 1 else max(range(len(chunk)), key=chunk.__getitem__)
        chunk[split] = -(-chunk[split] // 2)
    return axis, chunk


def parts_of(shape: tuple[int, ...], item: int, nodes: int) -> list[tuple[int, Any, Any]]:
    """Nodes, and the box of whole chunks that each has, as (node, offset, extent)."""
    if not shape:
        return [(0, (), ())]
    axis, chunk = _chunks(shape, item, nodes)
    n = shape[axis]
    mine = math.ceil(math.ceil(n / nodes) / chunk[axis]) * chunk[axis]
    found = []
    for node, first in enumerate(range(0, n, mine)):
        offset, extent = [0] * len(shape), list(shape)
        offset[axis], extent[axis] = first, min(mine, n - first)
        found.append((node, tuple(offset), tuple(extent)))
    return found


def create(folder: str, name: str, one: Array, nodes: int) -> None:
    """A new array, of which all chunks are to be written.

    Raises
    ------
    MapError : zarr has no such dtype.
    """
    if one.dtype.kind not in KINDS or not one.dtype.isnative or one.dtype.char in "gG":
        raise MapError(
            f"npaccel.checkpoint: zarr's description of arrays has no dtype {one.dtype}; keep them "
            "in a folder whose name does not end in .zarr"
        )
    (Path(folder) / NAME).write_text(group_text({}), encoding="utf-8")
    library = zarrs()
    library.create_array(
        os.path.join(folder, name),
        shape=one.shape,
        dtype=one.dtype,
        chunks=tuple(_chunks(one.shape, one.itemsize, nodes)[1]) if one.shape else (),
        compressors=[library.codecs.ZstdCodec(), library.codecs.Crc32cCodec()],
        attributes={"order": "F" if one.flags.fnc else "C"},
    )


def write(folder: str, name: str, memory: Array, layout: Layout, boxes: Iterable[Box]) -> None:
    """Boxes of an array, each of whole chunks, as they are in memory in the same index space."""
    array = (
        zarrs()
        .open_array(os.path.join(folder, name), mode="r+")
        .with_config({"write_empty_chunks": True})
    )
    for box in boxes:
        content = shown(memory, layout, box).view(array.dtype)
        array[_where(box)] = np.ascontiguousarray(content).reshape(content.shape)


def read(folder: str, name: str, memory: Array, layout: Layout, boxes: Iterable[Box]) -> None:
    """Boxes of a layout over an array's memory, from the chunks that have something of them."""
    array = zarrs().open_array(os.path.join(folder, name), mode="r")
    if array.nchunks_initialized != array.nchunks:
        raise ValueError(f"of {array.nchunks} chunks there are {array.nchunks_initialized}")
    if layout.shape != array.shape:
        # Of its bytes it is another index space: those of all of it, as they lie there.
        line, order = new_memory(math.prod(array.shape) * layout.item), array.attrs["order"]
        np.ndarray(array.shape, array.dtype, line, order=order)[...] = array[...]
    for box in boxes:
        if layout.shape == array.shape:
            shown(memory, layout, box).view(array.dtype)[...] = array[_where(box)]
        else:
            shown(memory, layout, box)[...] = shown(line, layout, box)


def _where(box: Box) -> Any:
    return (*(slice(p.start, p.stop, p.step) for p in box), ...)
