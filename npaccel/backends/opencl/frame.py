"""A kernel function's surroundings: its arguments, its band and row loops, where elements lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from npaccel.backends.layout import Layout, parts_of, reductions_of
from npaccel.backends.opencl.code import Code
from npaccel.backends.opencl.groups import Group
from npaccel.backends.opencl.scalar import Mask, Value, c_type
from npaccel.errors import InternalError
from npaccel.ir.nodes import Kernel, Stride
from npaccel.ir.scalar import item_size

__all__ = ["EXTRA_WORDS", "Frame", "check"]

# Behind the words that all backends know: band, band_step, inner, inner_step, scratch bytes, and
# where the band and the inner space begin: not at 0 in a part of a kernel (native/cut.c), whose
# arrays' places are moved back by what lies before it.
EXTRA_WORDS = 7


class Frame:
    """The arguments of one function, read at its start.

    group_size : work items of a group, which runs a task; 1 on processors
    group : those of them that share a point; None where each item has points of its own
    """

    def __init__(self, code: Code, kernel: Kernel, group_size: int = 1) -> None:
        self.code, self.kernel, self.group_size = code, kernel, group_size
        shared = group_size > 1 and not kernel.vector_band
        self.group = Group(code, group_size) if shared else None
        self._layout = layout = Layout.of(kernel)
        self.rank = layout.rank
        self.vector_axis = kernel.band_rank - 1 if kernel.vector_band else layout.rank - 1
        self.inner_axes = range(kernel.band_rank, layout.rank)
        self.extents = [self._word(axis) for axis in range(layout.rank)]
        self.bases = [
            code.let("global char *", f"a{k} + words[{layout.array(k)}]")
            for k in range(layout.arrays)
        ]
        self.strides = [self._strides(k) for k in range(layout.arrays)]
        self._scalars = {k: self._scalar(k, dtype) for k, dtype in enumerate(kernel.scalars)}
        self.inner_total = self._product(self.inner_axes)
        self.row_count = self._product(self.inner_axes[:-1])
        self.split_sums = kernel.split and bool(reductions_of(kernel))
        self.parts = self._word(layout.partials + 1)
        self.range: list[str] = []

    def extra(self, index: int) -> str:
        """One of the words that only this backend has."""
        return self._word(self._layout.size + index)

    def _word(self, at: int) -> str:
        return self.code.long(f"words[{at}]")

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
        at = 8 * self._layout.scalar(index)
        names: list[str] = []
        for part in parts_of(dtype):
            place = f"((global const char *)words + {at})"
            if part == "b1":
                name = self.code.let("int", f"*(global const uchar *){place} != 0")
                names.append(Mask(name, 0))
            elif part == "f2":
                self.code.half_widths.add(1)
                names.append(self.code.let("float", f"load_f2_1(*(global const ushort *){place})"))
            else:
                kind = c_type(part, 1)
                names.append(self.code.let(kind, f"*(global const {kind} *){place}"))
            at += item_size(part)
        return tuple(names)

    def scalar(self, index: int) -> Value:
        return self._scalars[index]

    # Places.

    def move(self, pointers: Sequence[str], axes: Sequence[int], at: Sequence[str]) -> list[str]:
        """`pointers` (one per array) moved to coordinates `at` of the given axes."""
        moved = []
        for pointer, strides in zip(pointers, self.strides, strict=True):
            terms = [
                coordinate if strides[axis] == "1" else f"{coordinate} * {strides[axis]}"
                for axis, coordinate in zip(axes, at, strict=True)
                if strides[axis] != "0"
            ]
            moved.append(self.code.offset(pointer, " + ".join(terms) or "0"))
        return moved

    def scratch_bases(self, width: int) -> list[str]:
        """Addresses of the row-local arrays, aligned to 64 bytes; `width` lanes per element."""
        code, place, bases = self.code, "0", []
        for dtype in self.kernel.scratch:
            bases.append(code.offset("scratch", place))
            size = code.mul(self.inner_total, str(item_size(dtype) * width))
            place = code.add(place, code.long(f"({size} + 63) & -64L"))
        return bases

    def partial(self, band: str, part: str, ordinal: int) -> str:
        """Address of the 32 bytes of one reduction's part at a flattened band index."""
        count = len(reductions_of(self.kernel))
        return self.code.offset(
            "partials", f"32 * ((({band}) * {self.parts} + {part}) * {count} + {ordinal})"
        )

    # Loops.

    @contextmanager
    def tasks(self) -> Iterator[None]:
        """Run over the tasks that are this work item's, or group's; sets `range`."""
        code = self.code
        band, band_step, inner, inner_step = (self.extra(k) for k in range(4))
        first = self.extra(5), self.extra(6)
        inner_tasks = code.long(f"({inner} + {inner_step} - 1) / {inner_step}")
        tasks = code.long(f"({band} + {band_step} - 1) / {band_step} * {inner_tasks}")
        with code.count("item", tasks, "items") as task:
            number = code.long(f"{task} / {inner_tasks}"), code.long(f"{task} % {inner_tasks}")
            b, band_end = self._extent(number[0], band_step, band, first[0])
            i, inner_end = self._extent(number[1], inner_step, inner, first[1])
            self.range = [b, band_end, i, inner_end]
            yield

    def _extent(self, number: str, step: str, count: str, first: str) -> tuple[str, str]:
        """From where to where a task of that number goes, of `count` points from `first` on."""
        low = self.code.long(f"{number} * {step}")
        high = self.code.minimum(self.code.long(f"{low} + {step}"), count)
        return self.code.add(first, low), self.code.add(first, high)

    @contextmanager
    def points(self, axes: Sequence[int], low: str, high: str) -> Iterator[tuple[str, list[str]]]:
        """Run over flattened indices [low, high) of `axes`; yields the index and coordinates.

        One division per axis at the start; after that coordinates count like an odometer.
        """
        code = self.code
        if len(axes) < 2:
            with code.count(low, high) as flat:
                yield flat, [flat] * len(axes)
            return
        variables = self.unravel(axes, low, high)
        with code.count(low, high) as flat:
            at = [code.long(variable) for variable in variables]
            yield flat, at
            self.advance(axes, variables, at, "1")

    @contextmanager
    def spread(
        self, axes: Sequence[int], low: str, high: str, step: str
    ) -> Iterator[tuple[str, list[str]]]:
        """As `points`, of every `step`-th index: divisions for each of them."""
        code = self.code
        with code.count(low, high, step) as flat:
            rest, at = flat, list[str]()
            for axis in reversed(axes[1:]):
                at.append(code.long(f"{rest} % {self.extents[axis]}"))
                rest = code.long(f"{rest} / {self.extents[axis]}")
            yield flat, [rest, *reversed(at)][: len(axes)]

    def unravel(self, axes: Sequence[int], flat: str, high: str) -> list[str]:
        """Variables with the coordinates of `flat`; 0 unless flat < high."""
        code = self.code
        variables = [code.variable("long") for _ in axes]
        for variable in variables:
            code.set(variable, "0")
        with code.when(f"{flat} < {high}"):
            rest = flat
            for axis, variable in reversed(list(zip(axes, variables, strict=True))):
                extent = self.extents[axis]
                code.set(variable, f"{rest} % {extent}")
                rest = code.long(f"{rest} / {extent}")
        return variables

    def advance(
        self, axes: Sequence[int], variables: Sequence[str], at: Sequence[str], step: str
    ) -> None:
        """Move coordinates by `step` along the last axis, carrying into the others."""
        code, carry = self.code, step
        for axis, variable, old in reversed(list(zip(axes, variables, at, strict=True))):
            new = code.long(f"{old} + {carry}")
            full = code.let("int", f"{new} >= {self.extents[axis]}")
            code.set(variable, f"{full} ? 0 : {new}")
            carry = full


def check(kernel: Kernel) -> None:
    """Refuse what this backend's skeletons were not made for."""
    if kernel.inner_rank < 1 or (kernel.vector_band and kernel.band_rank < 1):
        raise InternalError(f"kernel {kernel.name} has no axis to run along")
