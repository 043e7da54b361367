"""Elements of arrays: next to each other, apart, one for all lanes, or picked by an offset."""

from __future__ import annotations

from contextlib import nullcontext
from typing import NamedTuple

from npaccel.backends.emit.builder import Builder, Lanes, Name, Value, Which
from npaccel.backends.layout import parts_of
from npaccel.ir.nodes import Stride
from npaccel.ir.scalar import Core, item_size

__all__ = ["Place", "gather", "load", "scatter", "store"]


class Place(NamedTuple):
    """Where lane 0 of an access lies and how the lanes follow. stride: bytes, n."""

    dtype: str
    pointer: Name
    vector: Stride
    stride: Name


def load(b: Builder, place: Place, width: int, lanes: Lanes | None) -> Value:
    """Read `width` lanes; those that do not exist are 1."""
    part, pointers = _parts(b, place)
    if width == 1 or place.vector is Stride.ZERO:
        return tuple(b.splat(b.load(part, pointer), width) for pointer in pointers)
    if place.vector is Stride.UNIT and len(pointers) == 2:
        return b.load_pairs(part, place.pointer, width, lanes)
    if place.vector is Stride.BACK and lanes is None:
        first = _last(b, place, width)
        if len(pointers) == 2:
            return b.load_pairs(part, first, width, None, back=True)
        return (b.reversed(b.load_lanes(part, first, None, width, None)),)
    stride = _stride(place)
    return tuple(b.load_lanes(part, pointer, stride, width, lanes) for pointer in pointers)


def store(b: Builder, place: Place, value: Value, which: Which) -> None:
    """Write lanes."""
    _, pointers = _parts(b, place)
    if value[0].width == 1:
        _store_one(b, pointers, value, which)
    elif place.vector is Stride.UNIT and len(pointers) == 2:
        b.store_pairs(place.pointer, value, which)
    elif place.vector is Stride.BACK and which == Which():
        first = _last(b, place, value[0].width)
        if len(pointers) == 2:
            b.store_pairs(first, value, which, back=True)
        else:
            b.store_lanes(first, None, b.reversed(value[0]), which)
    else:
        for pointer, name in zip(pointers, value, strict=True):
            b.store_lanes(pointer, _stride(place), name, which)


def gather(b: Builder, place: Place, offset: Name, lanes: Lanes | None) -> Value:
    """Read element `offset` (i8) from each lane's own place on; as `load` where there is none."""
    part, pointers = _parts(b, place)
    moved = _moved(b, place, offset)
    if moved.width == 1:
        return tuple(b.load(part, b.offset(pointer, b.as_n(moved))) for pointer in pointers)
    return tuple(b.load_each(part, pointer, moved, lanes) for pointer in pointers)


def scatter(b: Builder, place: Place, offset: Name, value: Value, which: Which) -> None:
    """The inverse; of lanes that write to the same element the last one stays."""
    _, pointers = _parts(b, place)
    moved = _moved(b, place, offset)
    if moved.width == 1:
        _store_one(b, [b.offset(p, b.as_n(moved)) for p in pointers], value, which)
        return
    for pointer, name in zip(pointers, value, strict=True):
        b.store_each(pointer, moved, name, which)


def _parts(b: Builder, place: Place) -> tuple[str, list[Name]]:
    """Dtype and addresses of what makes up an element."""
    parts = parts_of(place.dtype)
    size = item_size(parts[0])
    return parts[0], [b.offset(place.pointer, k * size) for k in range(len(parts))]


def _last(b: Builder, place: Place, width: int) -> Name:
    """Where the last of so many lanes lies, of which each lies before the one before it."""
    return b.offset(place.pointer, (1 - width) * item_size(place.dtype))


def _stride(place: Place) -> Name | None:
    return None if place.vector is Stride.UNIT else place.stride


def _store_one(b: Builder, pointers: list[Name], value: Value, which: Which) -> None:
    exists = b.both(which.mask, which.lanes.below if which.lanes else None)
    with b.when(exists) if exists is not None else nullcontext():
        for pointer, name in zip(pointers, value, strict=True):
            b.store(pointer, name)


def _moved(b: Builder, place: Place, offset: Name) -> Name:
    """Distances in bytes from lane 0's place."""
    size, width = item_size(place.dtype), offset.width
    if size != 1:
        offset = b.instruction(Core.MUL, (offset, b.constant("i8", size, width)))
    if width > 1 and place.vector is not Stride.ZERO:
        offset = b.instruction(Core.ADD, (offset, b.steps(place.stride, width)))
    return offset
