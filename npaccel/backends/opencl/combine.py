"""How two values of a fold become one, for every Fold; and the lanes of a vector one value."""

from __future__ import annotations

from collections.abc import Sequence

from npaccel.backends.layout import identity_value, parts_of
from npaccel.backends.opencl.code import Code
from npaccel.backends.opencl.scalar import SIGNED, Mask, Value, Writer, c_type
from npaccel.errors import InternalError
from npaccel.ir.nodes import Fold, Reduce

__all__ = ["Combiner"]

UNSET = 2**63 - 1
_ARGS = (Fold.ARGMIN, Fold.ARGMAX)
_LOWEST = (Fold.MIN, Fold.FMIN, Fold.ARGMIN)
_OPERATORS = {
    Fold.SUM: "+",
    Fold.PRODUCT: "*",
    Fold.AND: "&",
    Fold.OR: "|",
    Fold.XOR: "^",
}


class Combiner:
    """Combines accumulators of one Reduce, each a list of `dtypes` components.

    Two components are a complex number, or the value and index of ARGMIN and ARGMAX. f2
    accumulates as f4 in sums and products.
    """

    def __init__(self, code: Code, effect: Reduce) -> None:
        self._code = code
        self.fold, self.dtype = effect.fold, effect.value.dtype
        summed = self.fold in (Fold.SUM, Fold.PRODUCT)
        self._widened = summed and self.dtype == "f2"
        parts = ("f4",) if self._widened else parts_of(self.dtype)
        self.dtypes: tuple[str, ...] = (*parts, "i8") if self.fold in _ARGS else parts
        if self.dtype[0] == "c" and not summed:
            raise InternalError(f"{self.fold} has no meaning for {self.dtype}")
        if self.fold in _ARGS and effect.mask is not None:
            raise InternalError(f"{self.fold} takes no mask")

    def kinds(self, width: int) -> list[str]:
        """C types of the components in variables."""
        return [c_type(dtype, width) for dtype in self.dtypes]

    def read(self, names: Sequence[str], width: int) -> list[str]:
        """Values of variables of these kinds."""
        return [
            Mask(name, 0 if width == 1 else 1) if dtype == "b1" else name
            for dtype, name in zip(self.dtypes, names, strict=True)
        ]

    def write(self, names: Sequence[str], width: int) -> list[str]:
        """Inverse of `read`."""
        writer = self._code.writer(width)
        return [
            writer.mask_as(name, 1) if dtype == "b1" else name
            for dtype, name in zip(self.dtypes, names, strict=True)
        ]

    def identity(self, width: int) -> list[str]:
        """Text of the components of the value that changes nothing."""
        literal = self._code.writer(width).literal
        value = identity_value(self.fold, self.dtypes[0])
        if self.fold in _ARGS:
            return [literal(self.dtypes[0], value), literal("i8", UNSET)]
        if len(self.dtypes) == 2 and self.fold is Fold.PRODUCT:
            return [literal(self.dtypes[0], 1), literal(self.dtypes[0], 0)]
        return [literal(dtype, value) for dtype in self.dtypes]

    def take(
        self, old: Sequence[str], new: Sequence[str], active: Mask | None, index: str, width: int
    ) -> list[str]:
        """`old` combined with loop values `new` where `active`; `index` is for ARGMIN, ARGMAX."""
        if self.fold in _ARGS:
            new = [*new, index]
        combined = self.combine(old, new, width)
        if active is None:
            return combined
        writer = self._code.writer(width)
        return [
            writer.choose(active, dtype, yes, no)
            for dtype, yes, no in zip(self.dtypes, combined, old, strict=True)
        ]

    def combine(self, left: Sequence[str], right: Sequence[str], width: int) -> list[str]:
        """left o right."""
        writer = self._code.writer(width)
        if self.fold in _ARGS:
            return self._argument(writer, left, right)
        if len(self.dtypes) == 2:
            return self._complex(left, right, width)
        return [self._single(writer, left[0], right[0])]

    def fold_lanes(self, names: Sequence[str], width: int) -> list[str]:
        """Lane l with l + width/2, then + width/4, ... 1."""
        names = list(names)
        while width > 1:
            half = width // 2
            low = [self._half(n, d, "lo", half) for n, d in zip(names, self.dtypes, strict=True)]
            high = [self._half(n, d, "hi", half) for n, d in zip(names, self.dtypes, strict=True)]
            names, width = self.combine(low, high, half), half
        return names

    def _half(self, name: str, dtype: str, part: str, half: int) -> str:
        if dtype != "b1":
            return self._code.let(c_type(dtype, half), f"{name}.{part}")
        if half == 1:
            return Mask(self._code.let("int", f"{name}.{part} != 0"), 0)
        name = self._code.writer(2 * half).mask_as(name, 1)
        return Mask(self._code.let(f"char{half}", f"{name}.{part}"), 1)

    def result(self, names: Sequence[str], width: int) -> Value:
        """The row's value from its accumulator."""
        if self.fold in _ARGS:
            return (names[1],)
        if self._widened:
            self._code.half_widths.add(width)
            return (self._code.let(c_type("f2", width), f"round_f2_{width}({names[0]})"),)
        return tuple(names)

    # One component.

    def _single(self, writer: Writer, x: str, y: str) -> str:
        dtype, width = self.dtypes[0], writer.width
        if self.fold in _OPERATORS:
            sign = _OPERATORS[self.fold]
            if dtype == "b1":
                assert isinstance(x, Mask) and isinstance(y, Mask)
                size = max(x.size, y.size)
                x, y = writer.mask_as(x, size), writer.mask_as(y, size)
                kind = "int" if width == 1 else f"{SIGNED[size]}{width}"
                return Mask(self._code.let(kind, f"{x} {sign} {y}"), size)
            kind = c_type(dtype, width)
            if dtype[0] in "iu" and width == 1:
                return self._code.let(kind, f"({kind})((ulong){x} {sign} (ulong){y})")
            return self._code.let(kind, f"{x} {sign} {y}")
        if dtype == "b1":  # the lower is true where both are, the higher where one is
            x, y = (writer.mask_as(m, 1) for m in (x, y))
            sign = "&" if self.fold in _LOWEST else "|"
            return Mask(self._code.let(c_type("b1", width), f"{x} {sign} {y}"), y.size)
        less = "<" if self.fold in _LOWEST else ">"
        if dtype[0] != "f":
            wins = f"{self._ordered(writer, x)} {less} {self._ordered(writer, y)}"
        else:
            nan = x if self.fold in (Fold.MIN, Fold.MAX) else y
            wins = f"({x} {less} {y}) | ({nan} != {nan})"
        return self._code.let(c_type(dtype, width), f"({wins}) ? {x} : {y}")

    def _ordered(self, writer: Writer, name: str) -> str:
        """Text of an integer that compares as its dtype does."""
        if self.dtypes[0][0] == "i":
            return writer.signed(self.dtypes[0], name)
        return name

    # Two components.

    def _complex(self, left: Sequence[str], right: Sequence[str], width: int) -> list[str]:
        kind, let = c_type(self.dtypes[0], width), self._code.let
        (a, b), (c, d) = left, right
        if self.fold is Fold.SUM:
            return [let(kind, f"{a} + {c}"), let(kind, f"{b} + {d}")]
        return [let(kind, f"{a} * {c} - {b} * {d}"), let(kind, f"{a} * {d} + {b} * {c}")]

    def _argument(self, writer: Writer, left: Sequence[str], right: Sequence[str]) -> list[str]:
        """The better value; of equal ones the lower index; an index UNSET has no value yet."""
        code, dtype, width = self._code, self.dtypes[0], writer.width
        (x, i), (y, j) = left, right
        if dtype == "b1":  # as the bytes 0 and 1
            values = [code.let(c_type("i1", width), self._as_byte(writer, m)) for m in (x, y)]
            better, equal = self._better(writer, "i1", values[1], values[0])
        else:
            better, equal = self._better(writer, dtype, y, x)
        size = 0 if width == 1 else 8
        kind = "int" if width == 1 else f"long{width}"
        better, equal = writer.mask_as(better, 8), writer.mask_as(equal, 8)
        unset = writer.literal("i8", UNSET)
        # No index is negative, so that they compare alike signed and unsigned.
        wins = f"({better} | ({equal} & ({j} < {i})) | ({i} == {unset})) & ({j} != {unset})"
        takes = Mask(code.let(kind, wins), size)
        return [writer.choose(takes, dtype, y, x), writer.choose(takes, "i8", j, i)]

    def _as_byte(self, writer: Writer, mask: str) -> str:
        mask = writer.mask_as(mask, 1)
        width = writer.width
        return f"(uchar){mask}" if width == 1 else f"AS(uchar{width}, {mask}) & (uchar{width})(1)"

    def _better(self, writer: Writer, dtype: str, y: str, x: str) -> tuple[Mask, Mask]:
        """Whether y comes before x, and whether neither does."""
        less = "<" if self.fold in _LOWEST else ">"
        size = {"f2": 4}.get(dtype, int(dtype[1:]))
        mask = writer.mask
        if dtype[0] != "f":
            a, b = (writer.signed(dtype, v) if dtype[0] == "i" else v for v in (y, x))
            return mask(f"{a} {less} {b}", size), mask(f"{y} == {x}", size)
        nan_y, nan_x = mask(f"{y} != {y}", size), mask(f"{x} != {x}", size)
        not_x = f"!{nan_x}" if writer.width == 1 else f"~{nan_x}"
        better = mask(f"({y} {less} {x}) | ({nan_y} & {not_x})", size)
        return better, mask(f"({y} == {x}) | ({nan_y} & {nan_x})", size)
