"""A kernel function's surroundings: its arguments, its band and row loops, where elements lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from npaccel.backends.emit.builder import Builder, Name, Range, Value, Variable
from npaccel.backends.emit.groups import Group
from npaccel.backends.emit.guards import square_sums
from npaccel.backends.layout import PARTIAL_BYTES, Layout, parts_of, reductions_of
from npaccel.errors import InternalError
from npaccel.ir.nodes import Kernel, Store, Stride
from npaccel.ir.scalar import item_size, scans

__all__ = ["Frame", "has_own_points"]


def has_own_points(kernel: Kernel) -> bool:
    """Whether each item of a work group has band points of its own: it alone runs over the rest."""
    return kernel.vector_band or any(
        scans(leaf.all_roots) or any(isinstance(e, Store) and e.offset for e in leaf.effects)
        for leaf in kernel.leaves
    )


class Frame:
    """The arguments of one function, read at its start.

    Attributes
    ----------
    group : items that share a point; None: there are none, or each has points of its own
    bases : each array's address. strides : in bytes, per array and axis
    task : of the function's tasks the one that is being run
    split_sums : folds are combined from parts: of rows, or of chunks (`row_parts`, `chunk_parts`)
    """

    task: Range

    def __init__(self, b: Builder, kernel: Kernel) -> None:
        if kernel.inner_rank < 1 or (kernel.vector_band and kernel.band_rank < 1):
            raise InternalError(f"kernel {kernel.name} has no axis to run along")
        self.b, self.kernel = b, kernel
        self.group_size = b.machine.group_size
        shared = self.group_size > 1 and not has_own_points(kernel)
        self.group = Group(b, self.group_size) if shared else None
        self._layout = layout = Layout.of(kernel)
        self.rank = layout.rank
        self.vector_axis = kernel.band_rank - 1 if kernel.vector_band else layout.rank - 1
        self.inner_axes = range(kernel.band_rank, layout.rank)
        self.extents = [b.word(axis) for axis in range(layout.rank)]
        self.bases = [b.base(k, layout.array(k)) for k in range(layout.arrays)]
        self.strides = [self._strides(k) for k in range(layout.arrays)]
        self._scalars = [self._scalar(k, dtype) for k, dtype in enumerate(kernel.scalars)]
        self.square_sums = square_sums(b, kernel.leaves, self._scalars)
        self.band_total = self._product(range(kernel.band_rank))
        self.inner_total = self._product(self.inner_axes)
        self.row_count = self._product(self.inner_axes[:-1])
        self.split_sums = kernel.split and bool(reductions_of(kernel))
        self.row_parts = self.split_sums and kernel.inner_rank > 1
        self.chunk_parts = self.split_sums and kernel.inner_rank == 1
        if self.split_sums:
            self._partials = b.partials(layout.partials)
            self.parts = b.word(layout.partials + 1)

    def _product(self, axes: Sequence[int]) -> Name:
        total = self.b.n(1)
        for axis in axes:
            total = self.b.mul(total, self.extents[axis])
        return total

    def _strides(self, index: int) -> list[Name]:
        array, b = self.kernel.arrays[index], self.b
        names = []
        for axis in range(self.rank):
            if array.band_only and axis in self.inner_axes:
                names.append(b.n(0))
            elif axis != self.vector_axis or array.vector.apart:
                names.append(b.word(self._layout.array(index) + 1 + axis))
            else:
                names.append(b.n(item_size(array.dtype) if array.vector is Stride.UNIT else 0))
        return names

    def _scalar(self, index: int, dtype: str) -> Value:
        at, parts = 8 * self._layout.scalar(index), parts_of(dtype)
        return tuple(self.b.scalar(part, at + k * item_size(part)) for k, part in enumerate(parts))

    def scalar(self, index: int) -> Value:
        """A run-time scalar, in a single lane."""
        return self._scalars[index]

    # Places.

    def move(self, pointers: Sequence[Name], axes: Sequence[int], at: Sequence[Name]) -> list[Name]:
        """`pointers` (one per array) moved to coordinates `at` of the given axes."""
        b, moved = self.b, []
        for pointer, strides in zip(pointers, self.strides, strict=True):
            offset = b.n(0)
            for axis, coordinate in zip(axes, at, strict=True):
                offset = b.add(offset, b.mul(coordinate, strides[axis]))
            moved.append(b.offset(pointer, offset))
        return moved

    def scratch_bases(self, width: int) -> list[Name]:
        """Addresses of the row-local arrays; `width` lanes per element.

        Each begins at a multiple of 64 bytes; where the items of a group have points of their own,
        each item's part of it follows the one of the item before (`tasks_of` counts the same).
        """
        b, place, bases = self.b, self.b.n(0), []
        items = self.group_size if self.group is None else 1
        for dtype in self.kernel.scratch:
            size = b.mul(self.inner_total, item_size(dtype) * width)
            first = b.offset(b.scratch, place)
            bases.append(b.offset(first, b.mul(b.lane_of_group, size)) if items > 1 else first)
            end = b.add(b.mul(size, items), 63)
            place = b.add(place, b.coordinate("&", end, b.n(-64)))
        return bases

    def partial(self, band: Name, part: Name, ordinal: int) -> Name:
        """Address of one reduction's part at a flattened band index."""
        b = self.b
        row = b.add(b.mul(band, self.parts), part)
        cell = b.add(b.mul(row, len(reductions_of(self.kernel))), ordinal)
        return b.offset(self._partials, b.mul(cell, PARTIAL_BYTES))

    # Loops.

    @contextmanager
    def tasks(self) -> Iterator[Range]:
        """Run over the tasks of this call; sets `task`."""
        with self.b.tasks() as self.task:
            yield self.task

    @contextmanager
    def points(
        self, axes: Sequence[int], low: Name, high: Name
    ) -> Iterator[tuple[Name, list[Name]]]:
        """Run over flattened indices [low, high) of `axes`; yields the index and coordinates.

        One division per axis at the start; after that coordinates count like an odometer.
        """
        b = self.b
        if len(axes) < 2:
            with b.count(low, high) as flat:
                yield flat, [flat] * len(axes)
            return
        variables = self.unravel(axes, low, high)
        with b.count(low, high) as flat:
            at = [b.get(variable) for variable in variables]
            yield flat, at
            self.advance(axes, variables, at, b.n(1))

    @contextmanager
    def spread(
        self, axes: Sequence[int], low: Name, high: Name, step: Name
    ) -> Iterator[tuple[Name, list[Name]]]:
        """As `points`, of every `step`-th index: divisions for each of them."""
        b = self.b
        with b.count(low, high, step) as flat:
            yield flat, self.coordinates(axes, flat)

    def coordinates(self, axes: Sequence[int], flat: Name) -> list[Name]:
        """Those of a flattened index."""
        rest, at = flat, list[Name]()
        for axis in reversed(axes[1:]):
            at.append(self.b.coordinate("%", rest, self.extents[axis]))
            rest = self.b.div(rest, self.extents[axis])
        return [rest, *reversed(at)][: len(axes)]

    def unravel(self, axes: Sequence[int], flat: Name, high: Name) -> list[Variable]:
        """Variables with the coordinates of `flat`; 0 unless flat < high."""
        b = self.b
        variables = [b.variable("n", 1) for _ in axes]
        for variable in variables:
            b.set(variable, b.n(0))
        with b.when(b.less(flat, high)):
            rest = flat
            for axis, variable in reversed(list(zip(axes, variables, strict=True))):
                extent = self.extents[axis]
                b.set(variable, b.coordinate("%", rest, extent))
                rest = b.div(rest, extent)
        return variables

    def advance(
        self, axes: Sequence[int], variables: Sequence[Variable], at: Sequence[Name], step: Name
    ) -> None:
        """Move coordinates by `step` along the last axis, carrying into the others."""
        b, carry = self.b, step
        for axis, variable, old in reversed(list(zip(axes, variables, at, strict=True))):
            new = b.add(old, carry)
            full = b.coordinate(">=", new, self.extents[axis])
            b.set(variable, b.select(full, b.n(0), new))
            carry = b.select(full, b.n(1), b.n(0))
