"""Loads and stores of vectors of elements: unit stride, any stride, splat; masked or not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from npaccel.backends.layout import parts_of
from npaccel.backends.llvm.code import Code, memory_type, value_names
from npaccel.backends.llvm.scalar import Value, llvm_type
from npaccel.ir.nodes import Stride
from npaccel.ir.scalar import item_size

__all__ = ["Place", "gather", "load", "store"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where lane 0 of an access lies and how the lanes follow. `stride`: bytes, i64."""

    dtype: str
    pointer: str
    vector: Stride
    stride: str


def load(code: Code, place: Place, width: int, active: str | None) -> Value:
    """Read `width` lanes; where `active` (b1) is false nothing is read and the lane is 1."""
    part, parts = parts_of(place.dtype)[0], len(parts_of(place.dtype))
    if width == 1 or place.vector is Stride.ZERO:
        names = [
            _splat(code, part, _load_one(code, part, pointer), width)
            for pointer in _part_pointers(code, place)
        ]
    elif place.vector is Stride.UNIT:
        names = _load_unit(code, place, parts, width, active)
    else:
        names = [_gather(code, lane0, width, active) for lane0 in _part_places(code, place)]
    return names[0] if parts == 1 else (names[0], names[1])


def gather(code: Code, place: Place, offset: str, width: int, active: str | None) -> Value:
    """Read element `offset` (i64) from each lane's own place on; as `load` where not active."""
    size = str(item_size(place.dtype))
    kind = llvm_type("i8", width)
    moved = offset
    if size != "1":
        moved = code.emit(f"mul {kind} {offset}, {code.splat('i64', size, width)}")
    if place.vector is not Stride.ZERO and width > 1:
        moved = code.emit(f"add {kind} {moved}, {_lane_steps(code, place, width)}")
    parts = parts_of(place.dtype)
    names = []
    for pointer in _part_pointers(code, place):
        if width == 1:
            names.append(_load_one(code, parts[0], code.offset(pointer, moved)))
            continue
        lanes = code.emit(f"getelementptr i8, ptr {pointer}, {kind} {moved}")
        names.append(_load_lanes(code, parts[0], lanes, width, active))
    return names[0] if len(parts) == 1 else (names[0], names[1])


def store(
    code: Code,
    place: Place,
    value: Value,
    width: int,
    active: str | None,
    *,
    nontemporal: bool = False,
) -> None:
    """Write `width` lanes, those where `active` (b1) is true."""
    part = parts_of(place.dtype)[0]
    names = [_to_memory(code, part, name, width) for name in value_names(value)]
    if width == 1:
        for pointer, name in zip(_part_pointers(code, place), names, strict=True):
            _store_one(code, part, pointer, name, active)
    elif place.vector is Stride.UNIT:
        _store_unit(code, place, names, width, active, nontemporal=nontemporal)
    else:
        for lane0, name in zip(_part_places(code, place), names, strict=True):
            _scatter(code, lane0, name, width, active)


def _part_pointers(code: Code, place: Place) -> list[str]:
    parts = parts_of(place.dtype)
    return [code.offset(place.pointer, str(k * item_size(parts[0]))) for k in range(len(parts))]


def _part_places(code: Code, place: Place) -> list[Place]:
    part = parts_of(place.dtype)[0]
    return [replace(place, dtype=part, pointer=p) for p in _part_pointers(code, place)]


def _from_memory(code: Code, dtype: str, name: str, width: int) -> str:
    if dtype != "b1":
        return name
    kind = memory_type(dtype, width)
    zero = "0" if width == 1 else "zeroinitializer"
    return code.emit(f"icmp ne {kind} {name}, {zero}")


def _to_memory(code: Code, dtype: str, name: str, width: int) -> str:
    if dtype != "b1":
        return name
    return code.emit(f"zext {llvm_type(dtype, width)} {name} to {memory_type(dtype, width)}")


def _load_one(code: Code, dtype: str, pointer: str) -> str:
    kind = memory_type(dtype, 1)
    name = code.emit(f"load {kind}, ptr {pointer}, align {item_size(dtype)}")
    return _from_memory(code, dtype, name, 1)


def _splat(code: Code, dtype: str, name: str, width: int) -> str:
    return code.splat(llvm_type(dtype, 1), name, width)


def _store_one(code: Code, dtype: str, pointer: str, name: str, active: str | None) -> None:
    text = f"store {memory_type(dtype, 1)} {name}, ptr {pointer}, align {item_size(dtype)}"
    if active is None:
        code.do(text)
        return
    with code.when(active):
        code.do(text)


def _suffix(dtype: str, width: int) -> str:
    kind = memory_type(dtype, 1)
    return f"v{width}" + {"half": "f16", "float": "f32", "double": "f64"}.get(kind, kind)


def _ones(code: Code, dtype: str, width: int) -> str:
    return code.writer(width).constant("u1" if dtype == "b1" else dtype, 1)


def _twice(code: Code, active: str, width: int) -> str:
    lanes = [lane for k in range(width) for lane in (k, k)]
    return code.shuffle("i1", active, "poison", lanes, width)


def _load_unit(code: Code, place: Place, parts: int, width: int, active: str | None) -> list[str]:
    dtype, lanes = parts_of(place.dtype)[0], width * parts
    kind = memory_type(dtype, lanes)
    if active is None:
        whole = code.emit(f"load {kind}, ptr {place.pointer}, align {item_size(dtype)}")
    else:
        mask = active if parts == 1 else _twice(code, active, width)
        arguments = [
            ("ptr", place.pointer),
            ("i32", str(item_size(dtype))),
            (f"<{lanes} x i1>", mask),
            (kind, _ones(code, dtype, lanes)),
        ]
        whole = _masked(code, kind, f"llvm.masked.load.{_suffix(dtype, lanes)}.p0", arguments)
    if parts == 1:
        return [_from_memory(code, dtype, whole, width)]
    element = llvm_type(dtype, 1)
    return [
        code.shuffle(element, whole, "poison", range(part, lanes, 2), lanes) for part in range(2)
    ]


def _store_unit(
    code: Code,
    place: Place,
    names: list[str],
    width: int,
    active: str | None,
    *,
    nontemporal: bool,
) -> None:
    dtype, lanes, pointer = parts_of(place.dtype)[0], width * len(names), place.pointer
    whole, size_bytes = names[0], lanes * item_size(dtype)
    if len(names) == 2:
        order = [lane for k in range(width) for lane in (k, width + k)]
        whole = code.shuffle(llvm_type(dtype, 1), names[0], names[1], order, width)
    kind = memory_type(dtype, lanes)
    if active is None:
        if nontemporal and size_bytes % 64 == 0:
            code.do(f"store {kind} {whole}, ptr {pointer}, align 64, !nontemporal !1")
        else:
            code.do(f"store {kind} {whole}, ptr {pointer}, align {item_size(dtype)}")
        return
    mask = active if len(names) == 1 else _twice(code, active, width)
    arguments = [
        (kind, whole),
        ("ptr", pointer),
        ("i32", str(item_size(dtype))),
        (f"<{lanes} x i1>", mask),
    ]
    _masked(code, "", f"llvm.masked.store.{_suffix(dtype, lanes)}.p0", arguments)


def _lane_steps(code: Code, place: Place, width: int) -> str:
    steps = ", ".join(f"i64 {k}" for k in range(width))
    return code.emit(f"mul <{width} x i64> {code.splat('i64', place.stride, width)}, <{steps}>")


def _lane_pointers(code: Code, place: Place, width: int) -> str:
    offsets = _lane_steps(code, place, width)
    return code.emit(f"getelementptr i8, ptr {place.pointer}, <{width} x i64> {offsets}")


def _lane_pointer(code: Code, place: Place, lane: int) -> str:
    return code.offset(place.pointer, code.mul(place.stride, str(lane)))


# Lanes that are all in use are loaded and stored one by one: the processor's own gathers and
# scatters took up to six times as long (AMD Zen 4).


def _load_each(code: Code, dtype: str, pointers: Iterable[str], width: int) -> str:
    kind, element, whole = memory_type(dtype, width), memory_type(dtype, 1), "poison"
    for lane, pointer in enumerate(pointers):
        one = code.emit(f"load {element}, ptr {pointer}, align {item_size(dtype)}")
        whole = code.emit(f"insertelement {kind} {whole}, {element} {one}, i32 {lane}")
    return _from_memory(code, dtype, whole, width)


def _gather(code: Code, place: Place, width: int, active: str | None) -> str:
    if active is None:
        pointers = (_lane_pointer(code, place, lane) for lane in range(width))
        return _load_each(code, place.dtype, pointers, width)
    return _load_lanes(code, place.dtype, _lane_pointers(code, place, width), width, active)


def _load_lanes(code: Code, dtype: str, pointers: str, width: int, active: str | None) -> str:
    if active is None:
        each = (
            code.emit(f"extractelement <{width} x ptr> {pointers}, i32 {lane}")
            for lane in range(width)
        )
        return _load_each(code, dtype, each, width)
    kind = memory_type(dtype, width)
    arguments = [
        (f"<{width} x ptr>", pointers),
        ("i32", str(item_size(dtype))),
        (f"<{width} x i1>", active),
        (kind, _ones(code, dtype, width)),
    ]
    suffix = f"{_suffix(dtype, width)}.v{width}p0"
    name = _masked(code, kind, f"llvm.masked.gather.{suffix}", arguments)
    return _from_memory(code, dtype, name, width)


def _scatter(code: Code, place: Place, name: str, width: int, active: str | None) -> None:
    dtype, kind = place.dtype, memory_type(place.dtype, width)
    if active is None:
        for lane in range(width):
            one = code.emit(f"extractelement {kind} {name}, i32 {lane}")
            _store_one(code, dtype, _lane_pointer(code, place, lane), one, None)
        return
    arguments = [
        (kind, name),
        (f"<{width} x ptr>", _lane_pointers(code, place, width)),
        ("i32", str(item_size(dtype))),
        (f"<{width} x i1>", active),
    ]
    suffix = f"{_suffix(dtype, width)}.v{width}p0"
    _masked(code, "", f"llvm.masked.scatter.{suffix}", arguments)


def _masked(code: Code, result: str, name: str, arguments: list[tuple[str, str]]) -> str:
    # The form with the alignment as an operand; newer LLVM upgrades it while parsing.
    return code.call(result, name, arguments)
