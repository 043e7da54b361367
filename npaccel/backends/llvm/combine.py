"""How two values of a fold become one, for every Fold; and the lanes of a vector one value."""

from __future__ import annotations

from collections.abc import Sequence

from npaccel.backends.layout import identity_value, parts_of
from npaccel.backends.llvm.code import Code, as_value
from npaccel.backends.llvm.scalar import Value, llvm_type
from npaccel.errors import InternalError
from npaccel.ir.nodes import Fold, Reduce
from npaccel.ir.scalar import item_size

__all__ = ["Combiner"]

UNSET = str(2**63 - 1)
_ARGS = (Fold.ARGMIN, Fold.ARGMAX)
_LOWEST = (Fold.MIN, Fold.FMIN, Fold.ARGMIN)
_INTEGER = {
    Fold.SUM: "add",
    Fold.PRODUCT: "mul",
    Fold.AND: "and",
    Fold.OR: "or",
    Fold.XOR: "xor",
}


class Combiner:
    """Combines accumulators of one Reduce, each a list of `dtypes` components.

    Two components are a complex number, or the value and index of ARGMIN and ARGMAX. f2
    accumulates as f4 in sums and products.
    """

    def __init__(self, code: Code, effect: Reduce) -> None:
        self._code = code
        self.fold, self.dtype = effect.fold, effect.value.dtype
        self._summed = self.fold in (Fold.SUM, Fold.PRODUCT)
        self._widened = self._summed and self.dtype == "f2"
        parts = ("f4",) if self._widened else parts_of(self.dtype)
        self.dtypes: tuple[str, ...] = (*parts, "i8") if self.fold in _ARGS else parts
        if self.dtype[0] == "c" and not self._summed:
            raise InternalError(f"{self.fold} has no meaning for {self.dtype}")
        if self.fold in _ARGS and effect.mask is not None:
            raise InternalError(f"{self.fold} takes no mask")

    def kinds(self, width: int) -> list[str]:
        """LLVM types of the components."""
        return [llvm_type(dtype, width) for dtype in self.dtypes]

    def identity(self, width: int) -> list[str]:
        """Components of the value that changes nothing."""
        constant = self._code.writer(width).constant
        value = identity_value(self.fold, self.dtypes[0])
        if self.fold in _ARGS:
            return [constant(self.dtypes[0], value), constant("i8", int(UNSET))]
        if len(self.dtypes) == 2 and self.fold is Fold.PRODUCT:
            return [constant(self.dtypes[0], 1), constant(self.dtypes[0], 0)]
        return [constant(dtype, value) for dtype in self.dtypes]

    def take(
        self, old: Sequence[str], new: Sequence[str], active: str | None, index: str, width: int
    ) -> list[str]:
        """`old` combined with loop values `new` where `active`; `index` is for ARGMIN, ARGMAX."""
        code = self._code
        if self._widened:
            kinds = llvm_type("f2", width), llvm_type("f4", width)
            new = [code.emit(f"fpext {kinds[0]} {new[0]} to {kinds[1]}")]
        if self.fold in _ARGS:
            combined = self._later(old, [*new, index], width)
        else:
            combined = self.combine(old, new, width)
        if active is None:
            return combined
        mask = f"{llvm_type('b1', width)} {active}"
        return [
            code.emit(f"select {mask}, {kind} {yes}, {kind} {no}")
            for kind, yes, no in zip(self.kinds(width), combined, old, strict=True)
        ]

    def combine(self, left: Sequence[str], right: Sequence[str], width: int) -> list[str]:
        """left o right."""
        if self.fold in _ARGS:
            return self._argument(left, right, width)
        if len(self.dtypes) == 2:
            return self._complex(left, right, width)
        return [self._single(left[0], right[0], width)]

    def fold_lanes(self, names: Sequence[str], width: int) -> list[str]:
        """Lane l with l + width/2, then + width/4, ... 1."""
        if self.fold in _ARGS and width > 1 and self.dtypes[0] != "f2":
            return self._first(names, width)
        names = list(names)
        while width > 1:
            half = width // 2
            low = [self._half(n, d, 0, width) for n, d in zip(names, self.dtypes, strict=True)]
            high = [self._half(n, d, half, width) for n, d in zip(names, self.dtypes, strict=True)]
            names, width = self.combine(low, high, half), half
        return names

    def _half(self, name: str, dtype: str, start: int, width: int) -> str:
        kind, half = llvm_type(dtype, 1), width // 2
        if half == 1:
            return self._code.emit(f"extractelement <2 x {kind}> {name}, i64 {start}")
        return self._code.shuffle(kind, name, "poison", range(start, start + half), width)

    def unless_empty(self, names: Sequence[str], empty: str, width: int) -> list[str]:
        """`names`, or 0.0 in a float sum for which the i1 `empty` holds: not its identity -0.0."""
        if self.fold is not Fold.SUM or self.dtypes[0][0] != "f":
            return list(names)
        constant, emit = self._code.writer(width).constant, self._code.emit
        return [
            emit(f"select i1 {empty}, {kind} {constant(dtype, 0.0)}, {kind} {name}")
            for kind, dtype, name in zip(self.kinds(width), self.dtypes, names, strict=True)
        ]

    def result(self, names: Sequence[str], width: int) -> Value:
        """The row's value from its accumulator."""
        if self.fold in _ARGS:
            return names[1]
        if self._widened:
            kinds = llvm_type("f4", width), llvm_type("f2", width)
            return self._code.emit(f"fptrunc {kinds[0]} {names[0]} to {kinds[1]}")
        return as_value(names)

    # One component.

    def _single(self, x: str, y: str, width: int) -> str:
        dtype, emit = self.dtypes[0], self._code.emit
        kind = llvm_type(dtype, width)
        if self._summed and dtype[0] == "f":
            return emit(f"{'fadd' if self.fold is Fold.SUM else 'fmul'} {kind} {x}, {y}")
        if self.fold in _INTEGER:
            return emit(f"{_INTEGER[self.fold]} {kind} {x}, {y}")
        if dtype == "b1":
            return emit(f"{'and' if self.fold in _LOWEST else 'or'} {kind} {x}, {y}")
        return self._choose(self._keeps_left(x, y, width), kind, x, y, width)

    def _keeps_left(self, x: str, y: str, width: int) -> str:
        dtype, emit = self.dtypes[0], self._code.emit
        kind = llvm_type(dtype, width)
        less = "lt" if self.fold in _LOWEST else "gt"
        if dtype[0] != "f":
            return emit(f"icmp {'s' if dtype[0] == 'i' else 'u'}{less} {kind} {x}, {y}")
        better = emit(f"fcmp o{less} {kind} {x}, {y}")
        nan = x if self.fold in (Fold.MIN, Fold.MAX) else y
        isnan = emit(f"fcmp uno {kind} {nan}, {nan}")
        return emit(f"or {llvm_type('b1', width)} {better}, {isnan}")

    def _choose(self, mask: str, kind: str, yes: str, no: str, width: int) -> str:
        flags = llvm_type("b1", width)
        return self._code.emit(f"select {flags} {mask}, {kind} {yes}, {kind} {no}")

    # Two components.

    def _complex(self, left: Sequence[str], right: Sequence[str], width: int) -> list[str]:
        kind, emit = llvm_type(self.dtypes[0], width), self._code.emit
        (a, b), (c, d) = left, right
        if self.fold is Fold.SUM:
            return [emit(f"fadd {kind} {a}, {c}"), emit(f"fadd {kind} {b}, {d}")]
        ac, bd = emit(f"fmul {kind} {a}, {c}"), emit(f"fmul {kind} {b}, {d}")
        ad, bc = emit(f"fmul {kind} {a}, {d}"), emit(f"fmul {kind} {b}, {c}")
        return [emit(f"fsub {kind} {ac}, {bd}"), emit(f"fadd {kind} {ad}, {bc}")]

    def _argument(self, left: Sequence[str], right: Sequence[str], width: int) -> list[str]:
        """The better value; of equal ones the lower index; an index UNSET has no value yet."""
        code, dtype = self._code, self.dtypes[0]
        kind, flags, index = (llvm_type(d, width) for d in (dtype, "b1", "i8"))
        (x, i), (y, j) = left, right
        unset = UNSET if width == 1 else f"splat (i64 {UNSET})"
        better, equal = self._better(y, x, kind, flags)
        lower = code.emit(f"icmp slt {index} {j}, {i}")
        tied = code.emit(f"and {flags} {equal}, {lower}")
        empty = code.emit(f"icmp eq {index} {i}, {unset}")
        wins = code.emit(f"or {flags} {code.emit(f'or {flags} {better}, {tied}')}, {empty}")
        filled = code.emit(f"icmp ne {index} {j}, {unset}")
        takes = code.emit(f"and {flags} {wins}, {filled}")
        return [
            code.emit(f"select {flags} {takes}, {kind} {y}, {kind} {x}"),
            code.emit(f"select {flags} {takes}, {index} {j}, {index} {i}"),
        ]

    def _later(self, left: Sequence[str], right: Sequence[str], width: int) -> list[str]:
        """The same where all right indices are set, and higher than the left ones that are."""
        code, dtype = self._code, self.dtypes[0]
        kind, flags, index = (llvm_type(d, width) for d in (dtype, "b1", "i8"))
        (x, i), (y, j) = left, right
        less = "lt" if self.fold in _LOWEST else "gt"
        if dtype[0] == "f":  # not ordered, and x is a number: y is NaN
            before = code.emit(f"fcmp u{less} {kind} {y}, {x}")
            number = code.emit(f"fcmp ord {kind} {x}, {x}")
            better = code.emit(f"and {flags} {before}, {number}")
        else:
            better = code.emit(f"icmp {'s' if dtype[0] == 'i' else 'u'}{less} {kind} {y}, {x}")
        unset = UNSET if width == 1 else f"splat (i64 {UNSET})"
        empty = code.emit(f"icmp eq {index} {i}, {unset}")
        takes = code.emit(f"or {flags} {better}, {empty}")
        return [
            self._choose(takes, kind, y, x, width),
            self._choose(takes, index, j, i, width),
        ]

    def _first(self, names: Sequence[str], width: int) -> list[str]:
        """The best value of all lanes, and the lowest index that it has: that of a NaN, if any."""
        code, dtype = self._code, self.dtypes[0]
        kind, one, flags, index = (
            llvm_type(*of) for of in ((dtype, width), (dtype, 1), ("b1", width), ("i8", width))
        )
        values, indices = names
        low = self.fold in _LOWEST
        if dtype[0] == "f":
            best = self._over_lanes("fmin" if low else "fmax", dtype, kind, values)
        elif dtype == "b1":
            best = self._over_lanes("and" if low else "or", dtype, kind, values)
        else:
            sign = "s" if dtype[0] == "i" else "u"
            best = self._over_lanes(f"{sign}{'min' if low else 'max'}", dtype, kind, values)
        every = code.emit(f"insertelement {kind} poison, {one} {best}, i64 0")
        every = code.shuffle(one, every, "poison", [0] * width, width)
        if dtype[0] == "f":
            has = code.emit(f"fcmp oeq {kind} {values}, {every}")
            nans = code.emit(f"fcmp uno {kind} {values}, {values}")
            any_nan = self._over_lanes("or", "b1", flags, nans)
            has = code.emit(f"select i1 {any_nan}, {flags} {nans}, {flags} {has}")
            nan = code.writer(1).constant(dtype, float("nan"))
            best = code.emit(f"select i1 {any_nan}, {one} {nan}, {one} {best}")
        else:
            has = code.emit(f"icmp eq {kind} {values}, {every}")
        kept = self._choose(has, index, indices, f"splat (i64 {UNSET})", width)
        return [best, self._over_lanes("smin", "i8", index, kept)]

    def _over_lanes(self, how: str, dtype: str, kind: str, name: str) -> str:
        width = kind.removeprefix("<").partition(" x ")[0]
        suffix = "f" if dtype[0] == "f" else "i"
        bits = 1 if dtype == "b1" else 8 * item_size(dtype)
        intrinsic = f"llvm.vector.reduce.{how}.v{width}{suffix}{bits}"
        # Where there is a NaN, nothing is made of what this says.
        flags = "nnan" if dtype[0] == "f" else ""
        return self._code.call(llvm_type(dtype, 1), intrinsic, [(kind, name)], flags)

    def _better(self, y: str, x: str, kind: str, flags: str) -> tuple[str, str]:
        """Whether y comes before x, and whether neither does."""
        emit, dtype = self._code.emit, self.dtypes[0]
        less = "lt" if self.fold in _LOWEST else "gt"
        if dtype[0] != "f":
            sign = "s" if dtype[0] == "i" else "u"
            better = emit(f"icmp {sign}{less} {kind} {y}, {x}")
            return better, emit(f"icmp eq {kind} {y}, {x}")
        nan_y, nan_x = emit(f"fcmp uno {kind} {y}, {y}"), emit(f"fcmp uno {kind} {x}, {x}")
        ordered = emit(f"fcmp o{less} {kind} {y}, {x}")
        only_y = emit(f"icmp ugt {flags} {nan_y}, {nan_x}")
        better = emit(f"or {flags} {ordered}, {only_y}")
        same = emit(f"fcmp oeq {kind} {y}, {x}")
        equal = emit(f"or {flags} {same}, {emit(f'and {flags} {nan_y}, {nan_x}')}")
        return better, equal
