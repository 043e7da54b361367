"""Loads and stores of vectors of elements: unit stride, any stride, splat; all lanes or some."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from npaccel.backends.layout import parts_of
from npaccel.backends.opencl.code import Code, memory_type
from npaccel.backends.opencl.scalar import Mask, Value, c_type
from npaccel.ir.nodes import Stride
from npaccel.ir.scalar import item_size

__all__ = ["Place", "gather", "load", "store"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where lane 0 of an access lies and how the lanes follow. `stride`: bytes."""

    dtype: str
    pointer: str
    vector: Stride
    stride: str


def load(code: Code, place: Place, width: int, lanes: str | None) -> Value:
    """Read `width` lanes, or only the first `lanes` of them; the others are 1."""
    part = parts_of(place.dtype)[0]
    if width == 1 or place.vector is Stride.ZERO:
        return tuple(
            from_memory(code, part, _splat(part, _element(part, p.pointer, "0"), width), width)
            for p in _part_places(code, place)
        )
    if place.vector is Stride.UNIT and part != place.dtype:
        return _load_pairs(code, place, part, width, lanes)
    return tuple(_load_lanes(code, p, width, lanes) for p in _part_places(code, place))


def gather(code: Code, place: Place, offset: str, width: int, lanes: str | None) -> Value:
    """Read element `offset` (i8) from each lane's own place on; as `load` beyond `lanes`."""
    size, names = item_size(place.dtype), []
    moved = code.let(c_type("i8", width), f"{offset} * {code.writer(width).literal('i8', size)}")
    for p in _part_places(code, place):
        every = []
        for k in range(width):
            lane = f"(long){_lane(moved, k)}" if width > 1 else f"(long){moved}"
            element = _element(p.dtype, p.pointer, f"{_lane_offset(p, k)} + {lane}")
            some = f"{k} < {lanes} ? {element} : {_one(p.dtype)}"
            every.append(element if lanes is None or width == 1 else some)
        text = code.lanes_text(memory_type(p.dtype, width), every)
        names.append(from_memory(code, p.dtype, text, width))
    return tuple(names)


def store(
    code: Code, place: Place, value: Value, width: int, lanes: str | None, mask: Mask | None = None
) -> None:
    """Write `width` lanes: those below `lanes`, if given, for which `mask` holds, if given."""
    part = parts_of(place.dtype)[0]
    names = [to_memory(code, part, name, width) for name in value]
    pairs = width > 1 and part != place.dtype and place.vector is Stride.UNIT
    if pairs and lanes is None and mask is None:
        _store_pairs(code, place, part, value, width)
        return
    for p, name in zip(_part_places(code, place), names, strict=True):
        if width == 1:
            statement = f"{_element(part, p.pointer, '0')} = {name};"
            code.do(f"if ({mask}) {statement}" if mask is not None else statement)
        elif place.vector is Stride.UNIT and part == place.dtype and mask is None:
            _store_unit(code, p, name, width, lanes)
        else:
            _store_lanes(code, p, name, width, lanes, mask)


def _part_places(code: Code, place: Place) -> list[Place]:
    parts = parts_of(place.dtype)
    return [
        replace(
            place,
            dtype=part,
            pointer=code.offset(place.pointer, str(k * item_size(part))),
            vector=Stride.ANY if len(parts) > 1 and place.vector is Stride.UNIT else place.vector,
            stride=str(item_size(place.dtype)) if place.vector is Stride.UNIT else place.stride,
        )
        for k, part in enumerate(parts)
    ]


def _element(dtype: str, pointer: str, offset: str) -> str:
    where = pointer if offset == "0" else f"({pointer} + {offset})"
    return f"(*(global {memory_type(dtype, 1)}_at *){where})"


def _splat(dtype: str, text: str, width: int) -> str:
    return text if width == 1 else f"({memory_type(dtype, width)})({text})"


def from_memory(code: Code, dtype: str, text: str, width: int) -> str:
    name = code.let(memory_type(dtype, width), text)
    if dtype == "b1":
        if width == 1:
            return Mask(code.let("int", f"{name} != 0"), 0)
        return Mask(code.let(f"char{width}", f"{name} != (uchar{width})(0)"), 1)
    if dtype == "f2":
        code.half_widths.add(width)
        return code.let(c_type("f2", width), f"load_f2_{width}({name})")
    return name


def to_memory(code: Code, dtype: str, name: str, width: int) -> str:
    if dtype == "b1":
        if width == 1:
            return code.let("uchar", f"(uchar){name}")
        mask = code.writer(width).mask_as(name, 1)
        return code.let(f"uchar{width}", f"AS(uchar{width}, {mask}) & (uchar{width})(1)")
    if dtype == "f2":
        code.half_widths.add(width)
        return code.let(c_type("u2", width), f"bits_f2_{width}({name})")
    return name


def _one(dtype: str) -> str:
    return "0x3c00" if dtype == "f2" else "1"


def _load_lanes(code: Code, place: Place, width: int, lanes: str | None) -> str:
    """One part, lanes next to each other or apart."""
    dtype, kind = place.dtype, memory_type(place.dtype, width)
    whole = _whole_load(place, width)
    if lanes is None:
        return from_memory(code, dtype, whole, width)
    name = code.fresh("x")
    some = [
        f"{k} < {lanes} ? {_element(dtype, place.pointer, _lane_offset(place, k))} : {_one(dtype)}"
        for k in range(width)
    ]
    code.do(f"{kind} {name};")
    code.do(f"if ({lanes} == {width}) {name} = {whole};")
    code.do(f"else {name} = {code.lanes_text(kind, some)};")
    return from_memory(code, dtype, name, width)


def _lane_offset(place: Place, lane: int) -> str:
    if lane == 0 or place.vector is Stride.ZERO:
        return "0"
    if place.vector is Stride.UNIT:
        return str(lane * item_size(place.dtype))
    return place.stride if lane == 1 else f"{lane} * {place.stride}"


def _whole_load(place: Place, width: int) -> str:
    dtype = place.dtype
    if place.vector is Stride.UNIT:
        return f"LOAD({memory_type(dtype, 1)}, {width}, {place.pointer})"
    every = [_element(dtype, place.pointer, _lane_offset(place, k)) for k in range(width)]
    return f"({memory_type(dtype, width)})({', '.join(every)})"


def _load_pairs(code: Code, place: Place, part: str, width: int, lanes: str | None) -> Value:
    """Complex numbers next to each other: their parts alternate.

    Two loads and not a twice as wide one: PoCL passes vectors wider than the machine's wrongly.
    """
    if lanes is not None:
        return tuple(_load_lanes(code, p, width, lanes) for p in _part_places(code, place))
    kind, element = memory_type(part, width), memory_type(part, 1)
    half = width * item_size(part)
    low, high = (
        code.let(kind, f"LOAD({element}, {width}, {place.pointer} + {k * half})") for k in range(2)
    )
    return tuple(code.let(kind, f"({kind})({low}.{of}, {high}.{of})") for of in ("even", "odd"))


def _store_pairs(code: Code, place: Place, part: str, value: Value, width: int) -> None:
    """Inverse of `_load_pairs`, all lanes."""
    kind, (x, y) = memory_type(part, width), value
    for k in range(2):
        lanes = range(k * width // 2, (k + 1) * width // 2)
        mixed = ", ".join(_lane(name, lane) for lane in lanes for name in (x, y))
        pointer = f"{place.pointer} + {k * width * item_size(part)}"
        code.do(f"STORE({memory_type(part, 1)}, {width}, (({kind})({mixed})), {pointer});")


def _store_unit(code: Code, place: Place, name: str, width: int, lanes: str | None) -> None:
    whole = f"STORE({memory_type(place.dtype, 1)}, {width}, {name}, {place.pointer});"
    if lanes is None:
        code.do(whole)
        return
    code.do(f"if ({lanes} == {width}) {whole}")
    with code.block("else"):
        for k in range(width - 1):
            target = _element(place.dtype, place.pointer, _lane_offset(place, k))
            code.do(f"if ({k} < {lanes}) {target} = {_lane(name, k)};")


def _store_lanes(
    code: Code, place: Place, name: str, width: int, lanes: str | None, mask: Mask | None
) -> None:
    for k in range(width):
        conditions: Sequence[str] = [
            *([f"{k} < {lanes}"] if lanes is not None else []),
            *([_lane(mask, k)] if mask is not None else []),
        ]
        target = _element(place.dtype, place.pointer, _lane_offset(place, k))
        statement = f"{target} = {_lane(name, k)};"
        code.do(f"if ({' && '.join(conditions)}) {statement}" if conditions else statement)


def _lane(name: str, lane: int) -> str:
    return f"{name}.s{lane:x}"
