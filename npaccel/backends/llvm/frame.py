"""A kernel function's surroundings: its arguments, its band and row loops, where elements lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from npaccel.backends.layout import Layout, parts_of, reductions_of
from npaccel.backends.llvm.code import Code, memory_type
from npaccel.backends.llvm.scalar import Value
from npaccel.errors import InternalError
from npaccel.ir.nodes import Kernel, Stride
from npaccel.ir.scalar import item_size

__all__ = ["Frame", "check"]


class Frame:
    """The arguments of one function as SSA names, read in its entry block."""

    def __init__(self, code: Code, kernel: Kernel) -> None:
        self.code, self.kernel = code, kernel
        self._layout = layout = Layout.of(kernel)
        self.rank = layout.rank
        self.vector_axis = kernel.band_rank - 1 if kernel.vector_band else layout.rank - 1
        self.inner_axes = range(kernel.band_rank, layout.rank)
        self.extents = [self._word(axis) for axis in range(layout.rank)]
        self.bases = [self._word(layout.array(k), "ptr") for k in range(layout.arrays)]
        self.strides = [self._strides(k) for k in range(layout.arrays)]
        self._scalars: dict[int, Value] = {
            k: self._scalar(k, dtype) for k, dtype in enumerate(kernel.scalars)
        }
        self.range = [code.get("i64", code.offset("%range", str(8 * k))) for k in range(4)]
        self.inner_total = self._product(self.inner_axes)
        self.row_count = self._product(self.inner_axes[:-1])
        self.partials, self.parts = "", ""
        if kernel.split and reductions_of(kernel):
            self.partials = self._word(layout.partials, "ptr")
            self.parts = self._word(layout.partials + 1)

    def _word(self, at: int, kind: str = "i64") -> str:
        return self.code.get(kind, self.code.offset("%words", str(8 * at)))

    def _product(self, axes: Sequence[int]) -> str:
        total = "1"
        for axis in axes:
            total = self.code.mul(total, self.extents[axis])
        return total

    def _strides(self, index: int) -> list[str]:
        array = self.kernel.arrays[index]
        names = []
        for axis in range(self.rank):
            if array.band_only and axis in self.inner_axes:
                names.append("0")
            elif axis != self.vector_axis or array.vector is Stride.ANY:
                names.append(self._word(self._layout.array(index) + 1 + axis))
            else:
                unit = array.vector is Stride.UNIT
                names.append(str(item_size(array.dtype)) if unit else "0")
        return names

    def _scalar(self, index: int, dtype: str) -> Value:
        at, names = 8 * self._layout.scalar(index), []
        for part in parts_of(dtype):
            name = self.code.get(memory_type(part, 1), self.code.offset("%words", str(at)))
            names.append(self.code.emit(f"icmp ne i8 {name}, 0") if part == "b1" else name)
            at += item_size(part)
        return names[0] if len(names) == 1 else (names[0], names[1])

    def scalar(self, index: int) -> Value:
        return self._scalars[index]

    # Places.

    def move(self, pointers: Sequence[str], axes: Sequence[int], at: Sequence[str]) -> list[str]:
        """`pointers` (one per array) moved to coordinates `at` of the given axes."""
        code, moved = self.code, []
        for pointer, strides in zip(pointers, self.strides, strict=True):
            offset = "0"
            for axis, coordinate in zip(axes, at, strict=True):
                offset = code.add(offset, code.mul(coordinate, strides[axis]))
            moved.append(code.offset(pointer, offset))
        return moved

    def scratch_bases(self, width: int) -> list[str]:
        """Addresses of the row-local arrays, aligned to 64 bytes; `width` lanes per element."""
        code, place, bases = self.code, "0", []
        for dtype in self.kernel.scratch:
            bases.append(code.offset("%scratch", place))
            size = code.mul(self.inner_total, str(item_size(dtype) * width))
            rounded = code.emit(f"and i64 {code.add(size, '63')}, -64")
            place = code.add(place, rounded)
        return bases

    def partial(self, band: str, part: str, ordinal: int) -> str:
        """Address of the 32 bytes of one reduction's part at a flattened band index."""
        code = self.code
        row = code.add(code.mul(band, self.parts), part)
        cell = code.add(code.mul(row, str(len(reductions_of(self.kernel)))), str(ordinal))
        return code.offset(self.partials, code.mul(cell, "32"))

    # Loops.

    @contextmanager
    def points(self, axes: Sequence[int], low: str, high: str) -> Iterator[tuple[str, list[str]]]:
        """Run over flattened indices [low, high) of `axes`; yields the index and coordinates.

        One division per axis at the start; after that coordinates count like an odometer.
        """
        code = self.code
        if not axes:
            with code.count(low, high) as flat:
                yield flat, []
            return
        variables = self.unravel(axes, low, high)
        with code.count(low, high) as flat:
            at = [code.get("i64", variable) for variable in variables]
            yield flat, at
            self.advance(axes, variables, at, "1")

    def unravel(self, axes: Sequence[int], flat: str, high: str) -> list[str]:
        """Variables with the coordinates of `flat`; undefined unless flat < high."""
        code = self.code
        variables = [code.variable("i64") for _ in axes]
        with code.when(code.emit(f"icmp slt i64 {flat}, {high}")):
            rest = flat
            for axis, variable in reversed(list(zip(axes, variables, strict=True))):
                extent = self.extents[axis]
                code.set("i64", variable, code.emit(f"urem i64 {rest}, {extent}"))
                rest = code.emit(f"udiv i64 {rest}, {extent}")
        return variables

    def advance(
        self, axes: Sequence[int], variables: Sequence[str], at: Sequence[str], step: str
    ) -> None:
        """Move coordinates by `step` along the last axis, carrying into the others."""
        code, carry = self.code, step
        for axis, variable, old in reversed(list(zip(axes, variables, at, strict=True))):
            new = code.add(old, carry)
            full = code.emit(f"icmp sge i64 {new}, {self.extents[axis]}")
            code.set("i64", variable, code.emit(f"select i1 {full}, i64 0, i64 {new}"))
            carry = code.emit(f"zext i1 {full} to i64")


def check(kernel: Kernel) -> None:
    """Refuse what this backend's skeletons were not made for."""
    if kernel.inner_rank < 1 or (kernel.vector_band and kernel.band_rank < 1):
        raise InternalError(f"kernel {kernel.name} has no axis to run along")
