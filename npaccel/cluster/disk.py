"""Checkpoints on disk: a folder that all nodes see, and what says what is in it.

    PATH/checkpoint.json     what is kept: arrays, files, checksums; written last, in one step
    PATH/data-ID/*.npy       of each array and node one file: its boxes, one behind another

A folder without that text, or with data that nobody names, is of a checkpoint that did not end.
Where PATH ends in .zarr, it is a group of zarr's, whose attributes have that text, and data-ID is a
group of arrays (zarrs.py).
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from npaccel.cluster import zarrs
from npaccel.cluster.boxes import Box
from npaccel.cluster.nodes import shown
from npaccel.cluster.placing import Layout

__all__ = ["Damaged", "File", "Kept", "begin", "commit", "load", "load_part", "read", "save"]

Array = np.ndarray[Any, Any]
NAME = "checkpoint.json"
FORMAT = 1
DATA = re.compile(r"data-[0-9a-f]{16}\Z")


class Damaged(OSError):
    """A file of a checkpoint is missing, or is not what was written."""


class File(NamedTuple):
    """What one node wrote of an array: its boxes, in order. checksum : None: zarr has its own."""

    name: str
    node: int
    boxes: tuple[Box, ...]
    checksum: int | None


class Kept(NamedTuple):
    """An array in a checkpoint.

    layout : in which boxes are; the array is shape, strides and dtype over the same bytes.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    size: int
    layout: Layout
    nodes: int
    files: tuple[File, ...]


def begin(path: str) -> str:
    """A new folder for data."""
    if zarrs.named_so(path):
        zarrs.check(path)
    folder = Path(path) / f"data-{secrets.token_hex(8)}"
    folder.mkdir(parents=True)
    return str(folder)


def save(folder: str, name: str, node: int, memory: Array, layout: Layout, boxes: Any) -> File:
    """Write boxes of a piece to a file, which is there once all of it is; of zarr's arrays boxes
    are whole chunks."""
    if zarrs.holds(folder):
        zarrs.write(folder, name, memory, layout, boxes)
        return File(name, node, tuple(boxes), None)
    parts = [np.ascontiguousarray(shown(memory, layout, box)).reshape(-1) for box in boxes]
    content = np.concatenate(parts) if len(parts) != 1 else parts[0]
    path = Path(folder) / name
    with open(f"{path}.part", "wb") as file:
        np.save(file, content, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.part", path)
    return File(name, node, tuple(boxes), zlib.crc32(content.view("u1").data))


def load(folder: str, file: File, memory: Array, layout: Layout) -> None:
    """Read such a file's boxes into a piece.

    Raises
    ------
    Damaged : it is not what was written.
    """
    if file.checksum is None:
        try:
            zarrs.read(folder, file.name, memory, layout, file.boxes)
        except (OSError, ValueError) as error:
            raise Damaged(f"{Path(folder) / file.name} can't be read: {error}") from None
        return
    content = _content(folder, file, layout.item)
    if zlib.crc32(content.view("u1").data) != file.checksum:
        raise Damaged(f"{Path(folder) / file.name} is not what was written: its checksum differs")
    for box, part in _parts(file, content):
        shown(memory, layout, box)[...] = part


def _content(folder: str, file: File, item: int) -> Array:
    path = Path(folder) / file.name
    try:
        content: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError) as error:
        raise Damaged(f"{path} can't be read: {type(error).__name__}: {error}") from None
    count = sum(_count(box) for box in file.boxes)
    if content.shape != (count,) or content.dtype.itemsize != item:
        raise Damaged(f"{path} is not what was written: its size differs")
    return content


def _count(box: Box) -> int:
    count = 1
    for axis in box:
        count *= len(axis)
    return count


def _parts(file: File, content: Array) -> Iterator[tuple[Box, Array]]:
    first = 0
    for box in file.boxes:
        part = content[first : first + _count(box)]
        first += len(part)
        yield box, part.reshape([len(axis) for axis in box])


def load_part(folder: str, kept: Kept, box: Box) -> Array:
    """A box of an array, from the files that have some of it."""
    memory = np.empty(kept.size, "u1")
    for file in kept.files:
        if any(_meet(one, box) for one in file.boxes):
            load(folder, file, memory, kept.layout)
    return shown(memory, kept.layout, box).view(kept.dtype)


def _meet(one: Box, other: Box) -> bool:
    pairs = zip(one, other, strict=True)
    return all(a.start < b.stop and b.start < a.stop for a, b in pairs)


def commit(path: str, folder: str, arrays: Sequence[Kept]) -> None:
    """From now on this is the checkpoint at a path; what was there before goes."""
    _sync(folder)
    text = json.dumps({"data": Path(folder).name, "arrays": [_described(one) for one in arrays]})
    outer = {"format": FORMAT, "checksum": zlib.crc32(text.encode()), "content": text}
    name, text = NAME, json.dumps(outer)
    if zarrs.named_so(path):
        names = [f"{Path(folder).name}/{one.files[0].name}" for one in arrays]
        name, text = zarrs.NAME, zarrs.group_text({"arrays": names, "npaccel": outer})
    part = Path(path) / f"{name}.part"
    with open(part, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, Path(path) / name)
    _sync(path)
    for old in Path(path).iterdir():
        if DATA.match(old.name) and old.name != Path(folder).name:
            shutil.rmtree(old, ignore_errors=True)


def _sync(folder: str) -> None:
    """What is named in a folder is so after a failure of power, too, where that can be."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read(path: str) -> tuple[str, list[Kept]]:
    """The folder of data, and the arrays, of the checkpoint at a path.

    Raises
    ------
    Damaged : there is none, or it is not what was written.
    """
    where = Path(path) / (zarrs.NAME if zarrs.named_so(path) else NAME)
    try:
        outer = json.loads(where.read_text(encoding="utf-8"))
        outer = outer["attributes"]["npaccel"] if zarrs.named_so(path) else outer
        form, text = outer["format"], outer["content"]
        good = form == FORMAT and zlib.crc32(text.encode()) == outer["checksum"]
    except FileNotFoundError:
        raise Damaged(
            f"{path} has no {where.name}: no checkpoint was taken there, or the first did not end"
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"{where} is not what was written ({type(error).__name__})") from None
    if not good:
        raise Damaged(f"{where} is of format {form}, not {FORMAT}, or its checksum differs")
    content = json.loads(text)
    return str(Path(path) / content["data"]), [_known(one) for one in content["arrays"]]


def _described(kept: Kept) -> Mapping[str, Any]:
    layout = kept.layout
    return {
        **kept._asdict(),
        "dtype": np.lib.format.dtype_to_descr(kept.dtype),
        "layout": [layout.shape, layout.strides, layout.offset, layout.item],
        "files": [
            [one.name, one.node, [[_ends(axis) for axis in b] for b in one.boxes], one.checksum]
            for one in kept.files
        ],
    }


def _ends(axis: range) -> list[int]:
    return [axis.start, axis.stop, axis.step]


def _known(given: Mapping[str, Any]) -> Kept:
    shape, strides, offset, item = given["layout"]
    files = tuple(
        File(name, node, tuple(tuple(range(*axis) for axis in box) for box in boxes), checksum)
        for name, node, boxes, checksum in given["files"]
    )
    descr = given["dtype"]
    if isinstance(descr, list):  # of fields, which are tuples
        descr = [tuple(tuple(x) if isinstance(x, list) else x for x in one) for one in descr]
    return Kept(
        tuple(given["shape"]),
        tuple(given["strides"]),
        np.lib.format.descr_to_dtype(descr),
        given["size"],
        Layout(tuple(shape), tuple(strides), offset, item),
        given["nodes"],
        files,
    )
