"""Loads and stores in LLVM IR, of all lanes or of some."""

from __future__ import annotations

from collections.abc import Iterator

from npaccel.backends.emit.builder import Lanes, Name, Value, Which
from npaccel.backends.llvm.values import LlvmValues, memory_type, suffix, typed
from npaccel.ir.scalar import Core, item_size

__all__ = ["LlvmMemory"]


class LlvmMemory(LlvmValues):
    """The part of a printer that writes what reads and writes memory."""

    def load(self, dtype: str, pointer: Name) -> Name:
        return self._from_memory(self._load(dtype, 1, pointer))

    def _load(self, dtype: str, width: int, pointer: Name) -> Name:
        text = f"load {memory_type(dtype, width)}, ptr {pointer}, align {item_size(dtype)}"
        return self._emit(text, dtype, width)

    def _from_memory(self, x: Name) -> Name:
        if x.dtype != "b1":
            return x
        return self.compare(Core.NE, Name(x, "u1", x.width), self.constant("u1", 0, x.width))

    def _to_memory(self, x: Name) -> Name:
        return self.cast(x, "u1") if x.dtype == "b1" else x

    def store(self, pointer: Name, x: Name) -> None:
        self._do(f"store {typed(self._to_memory(x))}, ptr {pointer}, align {item_size(x.dtype)}")

    def load_lanes(
        self, dtype: str, pointer: Name, stride: Name | None, width: int, lanes: Lanes | None
    ) -> Name:
        if lanes is None and stride is not None:
            return self._load_apart(dtype, self._pointers(pointer, stride, width))
        if stride is not None:
            return self._load_masked(
                dtype, self._lane_pointers(pointer, self.steps(stride, width)), lanes
            )
        if lanes is None:
            return self._from_memory(self._load(dtype, width, pointer))
        return self._from_memory(self._load_some(dtype, pointer, width, lanes.below))

    def _load_some(self, dtype: str, pointer: Name, width: int, below: Name) -> Name:
        ones = self.constant("u1" if dtype == "b1" else dtype, 1, width)
        size, kind = item_size(dtype), memory_type(dtype, width)
        arguments = [pointer, f"i32 {size}", below, ones]
        call = self._call(f"masked.load.{suffix(ones.dtype, width)}.p0", arguments, kind)
        return self._emit(call, dtype, width)

    def load_pairs(
        self, dtype: str, pointer: Name, width: int, lanes: Lanes | None, *, back: bool = False
    ) -> Value:
        if lanes is None:
            whole = self._load(dtype, 2 * width, pointer)
        else:
            whole = self._load_some(dtype, pointer, 2 * width, self._twice(lanes.below))
        order = range(width)[:: -1 if back else 1]
        parts = tuple(self._shuffle(whole, whole, [2 * at + k for at in order]) for k in range(2))
        self._apart.update(parts)
        return parts

    def _twice(self, mask: Name) -> Name:
        return self._shuffle(mask, mask, [lane for k in range(mask.width) for lane in (k, k)])

    def load_each(self, dtype: str, pointer: Name, offsets: Name, lanes: Lanes | None) -> Name:
        pointers = self._lane_pointers(pointer, offsets)
        if lanes is None:
            return self._load_apart(dtype, self._each(pointers))
        return self._load_masked(dtype, pointers, lanes)

    def _lane_pointers(self, pointer: Name, offsets: Name) -> Name:
        return self._emit(f"getelementptr i8, ptr {pointer}, {typed(offsets)}", "p", offsets.width)

    def _each(self, pointers: Name) -> Iterator[Name]:
        return (self.lane(pointers, lane) for lane in range(pointers.width))

    def _pointers(self, pointer: Name, stride: Name, width: int) -> Iterator[Name]:
        return (self.offset(pointer, self.mul(stride, lane)) for lane in range(width))

    # Lanes that are all in use are loaded and stored one by one: the processor's own gathers and
    # scatters took up to six times as long (AMD Zen 4).

    def _load_apart(self, dtype: str, pointers: Iterator[Name]) -> Name:
        memory = "u1" if dtype == "b1" else dtype
        whole = self._joined([self._load(memory, 1, pointer) for pointer in pointers], memory)
        return self._from_memory(Name(whole, dtype, whole.width))

    def _load_masked(self, dtype: str, pointers: Name, lanes: Lanes | None) -> Name:
        assert lanes is not None
        width = pointers.width
        ones = self.constant("u1" if dtype == "b1" else dtype, 1, width)
        if (
            dtype == "f2"
        ):  # LLVM 22 ends the process at a gather of halves that it does not optimise
            ones = self.reinterpret(ones, "u2")
        arguments = [pointers, f"i32 {item_size(dtype)}", lanes.below, ones]
        ending = f"{suffix(ones.dtype, width)}.v{width}p0"
        call = self._call(f"masked.gather.{ending}", arguments, memory_type(ones.dtype, width))
        if dtype == "f2":
            return self.reinterpret(self._emit(call, "u2", width), dtype)
        return self._from_memory(self._emit(call, dtype, width))

    def store_lanes(self, pointer: Name, stride: Name | None, x: Name, which: Which) -> None:
        active = self._active(which)
        x = self._to_memory(x)
        if stride is None:
            self._store_unit(pointer, x, active, stream=which.stream)
        elif active is None:
            self._store_apart(x, self._pointers(pointer, stride, x.width))
        else:
            self._scatter(self._lane_pointers(pointer, self.steps(stride, x.width)), x, active)

    def _active(self, which: Which) -> Name | None:
        return self.both(which.mask, which.lanes.below if which.lanes else None)

    def _store_unit(self, pointer: Name, x: Name, active: Name | None, *, stream: bool) -> None:
        size = item_size(x.dtype)
        if active is not None:
            arguments = [x, pointer, f"i32 {size}", active]
            self._do(self._call(f"masked.store.{suffix(x.dtype, x.width)}.p0", arguments))
        elif stream and x.width * size % 64 == 0:
            self._do(f"store {typed(x)}, ptr {pointer}, align 64, !nontemporal !1")
        else:
            self._do(f"store {typed(x)}, ptr {pointer}, align {size}")

    def store_pairs(self, pointer: Name, x: Value, which: Which, *, back: bool = False) -> None:
        active = self._active(which)
        width = x[0].width
        order = range(width)[:: -1 if back else 1]
        whole = self._shuffle(x[0], x[1], [at for k in order for at in (k, width + k)])
        twice = None if active is None else self._twice(active)
        self._store_unit(pointer, whole, twice, stream=which.stream)

    def store_each(self, pointer: Name, offsets: Name, x: Name, which: Which) -> None:
        active = self._active(which)
        pointers, x = self._lane_pointers(pointer, offsets), self._to_memory(x)
        if active is None:
            self._store_apart(x, self._each(pointers))
        else:
            self._scatter(pointers, x, active)

    def _store_apart(self, x: Name, pointers: Iterator[Name]) -> None:
        for lane in range(x.width):
            one = self.lane(x, lane)
            self._do(f"store {typed(one)}, ptr {next(pointers)}, align {item_size(x.dtype)}")

    def _scatter(self, pointers: Name, x: Name, active: Name) -> None:
        arguments = [x, pointers, f"i32 {item_size(x.dtype)}", active]
        ending = f"{suffix(x.dtype, x.width)}.v{x.width}p0"
        self._do(self._call(f"masked.scatter.{ending}", arguments))

    def fetch(self, pointer: Name) -> None:
        # Read, moderate locality, data. Never faults.
        self._do(self._call("prefetch.p0", [pointer, "i32 0", "i32 2", "i32 1"]))

    def fence_stores(self) -> None:
        """Before other threads are told that all is written."""
        self._do(self._call("x86.sse.sfence", []))
