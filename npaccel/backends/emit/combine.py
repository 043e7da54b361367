"""How two values of a fold become one, for every Fold; and the lanes of a vector one value."""

from __future__ import annotations

from collections.abc import Sequence

from npaccel.backends.emit.builder import Builder, Name, Value
from npaccel.backends.layout import identity_value, parts_of
from npaccel.errors import InternalError
from npaccel.ir.nodes import Fold, Reduce
from npaccel.ir.processor import is_aarch64
from npaccel.ir.scalar import Core

__all__ = ["Combiner"]

UNSET = 2**63 - 1
_ARGS = (Fold.ARGMIN, Fold.ARGMAX)
_LOWEST = (Fold.MIN, Fold.FMIN, Fold.ARGMIN)
_OPERATIONS = {
    Fold.SUM: Core.ADD,
    Fold.PRODUCT: Core.MUL,
    Fold.AND: Core.AND,
    Fold.OR: Core.OR,
    Fold.XOR: Core.XOR,
}


class Combiner:
    """Combines accumulators of one Reduce, each a list of `dtypes` components.

    Two components are a complex number, or the value and index of ARGMIN and ARGMAX. f2
    accumulates as f4 in sums and products.
    """

    def __init__(self, b: Builder, effect: Reduce) -> None:
        self._b = b
        self.fold, self.dtype = effect.fold, effect.value.dtype
        summed = self.fold in (Fold.SUM, Fold.PRODUCT)
        self._widened = summed and self.dtype == "f2"
        parts = ("f4",) if self._widened else parts_of(self.dtype)
        self.dtypes: tuple[str, ...] = (*parts, "i8") if self.fold in _ARGS else parts
        self._better = Core.LT if self.fold in _LOWEST else Core.GT
        if self.dtype[0] == "c" and not summed:
            raise InternalError(f"{self.fold} has no meaning for {self.dtype}")
        if self.fold in _ARGS and effect.mask is not None:
            raise InternalError(f"{self.fold} takes no mask")

    def identity(self, width: int) -> list[Name]:
        """Components of the value that changes nothing."""
        constant, value = self._b.constant, identity_value(self.fold, self.dtypes[0])
        if self.fold in _ARGS:
            return [constant(self.dtypes[0], value, width), constant("i8", UNSET, width)]
        if len(self.dtypes) == 2 and self.fold is Fold.PRODUCT:
            return [constant(self.dtypes[0], k, width) for k in (1, 0)]
        return [constant(dtype, value, width) for dtype in self.dtypes]

    def take(
        self, old: Sequence[Name], new: Sequence[Name], active: Name | None, index: Name | None
    ) -> list[Name]:
        """`old` combined with loop values `new` where `active`; `index` is for ARGMIN, ARGMAX."""
        if self._widened:
            new = [self._b.cast(new[0], "f4")]
        combined = self.combine(old, new) if index is None else self._later(old, [*new, index])
        if active is None:
            return combined
        return [self._b.select(active, y, n) for y, n in zip(combined, old, strict=True)]

    @property
    def indexed(self) -> bool:
        """Whether `take` needs an index."""
        return self.fold in _ARGS

    def combine(self, left: Sequence[Name], right: Sequence[Name]) -> list[Name]:
        """left o right."""
        if self.fold in _ARGS:
            return self._argument(left, right)
        if len(self.dtypes) == 2:
            return self._complex(left, right)
        return [self._single(left[0], right[0])]

    def fold_lanes(self, names: Sequence[Name]) -> list[Name]:
        """Lane l with l + width/2, then + width/4, ... 1."""
        names = list(names)
        if self.fold in _ARGS and names[0].width > 1 and self.dtypes[0] != "f2":
            return self._first(names)
        while names[0].width > 1:
            low, high = ([self._b.half(name, k) for name in names] for k in range(2))
            names = self.combine(low, high)
        return names

    def result(self, names: Sequence[Name]) -> Value:
        """The row's value from its accumulator."""
        if self.fold in _ARGS:
            return (names[1],)
        return (self._b.cast(names[0], "f2"),) if self._widened else tuple(names)

    def _of(self, op: Core, *names: Name) -> Name:
        return self._b.instruction(op, names)

    # One component.

    def _single(self, x: Name, y: Name) -> Name:
        if self.fold in _OPERATIONS:
            return self._of(_OPERATIONS[self.fold], x, y)
        if x.dtype == "b1":  # the lower is true where both are, the higher where one is
            return self._of(Core.AND if self.fold in _LOWEST else Core.OR, x, y)
        wins = self._b.compare(self._better, x, y)
        if x.dtype[0] == "f":
            nan = x if self.fold in (Fold.MIN, Fold.MAX) else y
            wins = self._of(Core.OR, wins, self._b.compare(Core.NE, nan, nan))
            if is_aarch64() and x.dtype != "f2":  # the lower or the higher one of two zeros
                wins = self._of(Core.OR, wins, self._first_zero(x, y))
        return self._b.select(wins, x, y)

    def _first_zero(self, x: Name, y: Name) -> Name:
        b, integer = self._b, f"i{x.dtype[1:]}"
        negative = b.compare(Core.LT, b.reinterpret(x, integer), b.constant(integer, 0, x.width))
        chosen = negative if self.fold in _LOWEST else self._of(Core.NOT, negative)
        return self._of(Core.AND, b.compare(Core.EQ, x, y), chosen)

    # Two components.

    def _complex(self, left: Sequence[Name], right: Sequence[Name]) -> list[Name]:
        (a, b), (c, d) = left, right
        if self.fold is Fold.SUM:
            return [self._of(Core.ADD, a, c), self._of(Core.ADD, b, d)]
        ac, bd = self._of(Core.MUL, a, c), self._of(Core.MUL, b, d)
        ad, bc = self._of(Core.MUL, a, d), self._of(Core.MUL, b, c)
        return [self._of(Core.SUB, ac, bd), self._of(Core.ADD, ad, bc)]

    def _argument(self, left: Sequence[Name], right: Sequence[Name]) -> list[Name]:
        """The better value; of equal ones the lower index; an index UNSET has no value yet."""
        b, (x, i), (y, j) = self._b, left, right
        unset = b.constant("i8", UNSET, i.width)
        better, equal = self._ranked(y, x)
        tied = self._of(Core.AND, equal, b.compare(Core.LT, j, i))
        wins = self._of(Core.OR, self._of(Core.OR, better, tied), b.compare(Core.EQ, i, unset))
        takes = self._of(Core.AND, wins, b.compare(Core.NE, j, unset))
        return [b.select(takes, y, x), b.select(takes, j, i)]

    def _ranked(self, y: Name, x: Name) -> tuple[Name, Name]:
        """Whether y comes before x, and whether neither does."""
        b = self._b
        better, equal = b.compare(self._better, y, x), b.compare(Core.EQ, y, x)
        if x.dtype[0] != "f":
            return better, equal
        nan_y, nan_x = b.compare(Core.NE, y, y), b.compare(Core.NE, x, x)
        better = self._of(Core.OR, better, b.compare(Core.GT, nan_y, nan_x))
        return better, self._of(Core.OR, equal, self._of(Core.AND, nan_y, nan_x))

    def _later(self, left: Sequence[Name], right: Sequence[Name]) -> list[Name]:
        """The same where all right indices are set, and higher than the left ones that are."""
        b, (x, i), (y, j) = self._b, left, right
        if x.dtype[0] == "f":  # not ordered, and x is a number: y is NaN
            worse = b.compare(Core.GE if self._better is Core.LT else Core.LE, y, x)
            number = b.compare(Core.EQ, x, x)
            better = self._of(Core.AND, self._of(Core.NOT, worse), number)
        else:
            better = b.compare(self._better, y, x)
        empty = b.compare(Core.EQ, i, b.constant("i8", UNSET, i.width))
        takes = self._of(Core.OR, better, empty)
        return [b.select(takes, y, x), b.select(takes, j, i)]

    def _first(self, names: Sequence[Name]) -> list[Name]:
        """The best value of all lanes, and the lowest index that it has: that of a NaN, if any."""
        b, (values, indices) = self._b, names
        dtype, width = values.dtype, values.width
        low = self.fold in _LOWEST
        if dtype == "b1":
            best = b.over_lanes(Core.AND if low else Core.OR, values)
        else:
            best = b.over_lanes("min" if low else "max", values)
        has = b.compare(Core.EQ, values, b.splat(best, width))
        if dtype[0] == "f":
            nans = b.compare(Core.NE, values, values)
            any_nan = b.any_lane(nans)
            has = b.select(any_nan, nans, has)
            best = b.select(any_nan, b.constant(dtype, float("nan"), 1), best)
        kept = b.select(has, indices, b.constant("i8", UNSET, width))
        return [best, b.over_lanes("min", kept)]
