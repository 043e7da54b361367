"""What the emitter writes with. A target's printer says how each thing looks in its language.

Coordinates and sizes have dtype "n", addresses "p", all else one of the IR's that is not complex; a
complex value is two names. What a target lacks its `Machine` says, and the emitter does without.
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

from npaccel.backends.emit.machine import Machine
from npaccel.errors import InternalError
from npaccel.ir.scalar import Core, item_size

__all__ = ["Builder", "Lanes", "Name", "Range", "Value", "Variable", "Which", "pack_float"]


def pack_float(code: str, value: float) -> bytes:
    """The bytes of a constant, by `struct`'s code."""
    try:
        return struct.pack(code, value)
    except OverflowError:  # struct refuses what IEEE rounds to infinity
        return struct.pack(code, float("inf") if value > 0 else float("-inf"))


class Name(str):
    """Text of a value in the target's language.

    size : of a b1 where the target compares into integers: bytes of an element; 0: a single one
    """

    __slots__ = ("dtype", "size", "width")
    dtype: str
    width: int
    size: int

    def __new__(cls, text: str, dtype: str, width: int = 1, size: int = 0) -> Name:
        name = super().__new__(cls, text)
        name.dtype, name.width, name.size = dtype, width, size
        return name


Value = tuple[Name, ...]
Inside = AbstractContextManager[None]


@dataclass(frozen=True, slots=True)
class Variable:
    """`count` values that may change. offset: in the task's scratch memory; None: a local one."""

    text: str
    dtype: str
    width: int
    count: int
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Lanes:
    """Those that exist: the first `count`, which are those where `below` is true.

    fewer : whether one is sure not to
    """

    count: Name
    below: Name
    fewer: bool


class Which(NamedTuple):
    """What a store writes: lanes that exist (None: all do) where `mask` is true (None: everywhere).

    stream : past the caches; the address is a multiple of 64
    """

    lanes: Lanes | None = None
    mask: Name | None = None
    stream: bool = False


class Range(NamedTuple):
    """A task: from where to where in the band, and in the inner space of a kernel that is split."""

    band_low: Name
    band_high: Name
    low: Name
    high: Name


class Builder(ABC):
    """Writes one function.

    Attributes
    ----------
    machine : what the target has
    scratch : address of the task's scratch memory
    state_bytes : of it, for what `lasting` declared after `begin_state`
    members : of a tile, which take turns; 0: there are no tiles
    """

    scratch: Name

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.state_bytes = 0
        self._lasting: list[Variable] = []
        self.members = 0
        self._count = 0

    def fresh(self, hint: str) -> str:
        """A name that is new in the function."""
        self._count += 1
        return f"{hint}{self._count}"

    # Coordinates, none of which is negative.

    @abstractmethod
    def coordinate(self, op: str, x: Name, y: Name) -> Name:
        """n: + - * / % &, "ones" of x, "zeros" that x ends with; b1: < >= == !=."""

    def n(self, value: Name | int) -> Name:
        """A number."""
        return value if isinstance(value, Name) else Name(str(value), "n")

    def add(self, x: Name, y: Name | int) -> Name:
        """x + y; folds a 0."""
        y = self.n(y)
        return y if x == "0" else x if y == "0" else self.coordinate("+", x, y)

    def sub(self, x: Name, y: Name | int) -> Name:
        """x - y; folds a 0."""
        y = self.n(y)
        return x if y == "0" else self.coordinate("-", x, y)

    def mul(self, x: Name, y: Name | int) -> Name:
        """x * y; folds 0 and 1."""
        y = self.n(y)
        if "0" in (x, y):
            return self.n(0)
        return y if x == "1" else x if y == "1" else self.coordinate("*", x, y)

    def div(self, x: Name, y: Name | int) -> Name:
        """x / y, rounded down; folds a 1."""
        y = self.n(y)
        return x if y == "1" else self.coordinate("/", x, y)

    def less(self, x: Name, y: Name | int) -> Name:
        """Whether x < y."""
        return self.coordinate("<", x, self.n(y))

    def minimum(self, x: Name, y: Name | int) -> Name:
        """The smaller one."""
        y = self.n(y)
        return self.select(self.less(x, y), x, y)

    @abstractmethod
    def offset(self, pointer: Name, count_bytes: Name | int) -> Name:
        """The address so many bytes further on."""

    # Values.

    @abstractmethod
    def constant(self, dtype: str, value: bool | int | float, width: int) -> Name:
        """A constant in every lane."""

    @abstractmethod
    def instruction(self, op: Core, names: Sequence[Name]) -> Name:
        """Arithmetic and bits, of operands of one dtype; `scalars.py` says which it must know."""

    @abstractmethod
    def compare(self, op: Core, x: Name, y: Name) -> Name:
        """EQ to GE."""

    @abstractmethod
    def cast(self, x: Name, dtype: str, *, exact: bool = False) -> Name:
        """x as another dtype than b1: of an integer the low bits, of a float one rounding.

        exact : it is a value of that dtype, and needs no rounding
        """

    def truncated(self, x: Name, dtype: str, inside: Name) -> Name:
        """A float as an integer where `inside` (it is in range), else anything."""
        return self.cast(x, dtype)

    @abstractmethod
    def reinterpret(self, x: Name, dtype: str) -> Name:
        """The same bits."""

    @abstractmethod
    def select(self, mask: Name, yes: Name, no: Name) -> Name:
        """`yes` where the mask is true, else `no`; of n, too. A single mask is for all lanes."""

    def both(self, x: Name | None, y: Name | None) -> Name | None:
        """AND of two b1, where None is all true."""
        if x is None or y is None:
            return x if y is None else y
        return self.instruction(Core.AND, (x, y))

    def flipped(self, x: Name) -> Name:
        """A float with the other sign, also where it is NaN, whatever is done with it."""
        integer = f"i{item_size(x.dtype)}"
        sign = self.constant(integer, -(1 << (8 * item_size(x.dtype) - 1)), x.width)
        return self.reinterpret(
            self.instruction(Core.XOR, (self.reinterpret(x, integer), sign)), x.dtype
        )

    def fence(self, x: Name) -> Name:
        """x, computed neither elsewhere nor in another way."""
        return x

    def keep(self, value: Value) -> Value:
        """What was just computed is not to be computed later, where it is used."""
        return value

    # Lanes.

    def as_n(self, x: Name) -> Name:
        """A single i8 as a coordinate."""
        return Name(x, "n")

    @abstractmethod
    def address(self, pointer: Name) -> Name:
        """Where it points to, as a coordinate."""

    @abstractmethod
    def splat(self, x: Name, width: int) -> Name:
        """A single value (n: as i8) in every lane."""

    @abstractmethod
    def ramp(self, first: Name, width: int) -> Name:
        """i8: an n, and one more in each lane."""

    @abstractmethod
    def steps(self, stride: Name, width: int) -> Name:
        """i8: 0, and so many more in each lane."""

    @abstractmethod
    def lanes_below(self, count: Name, width: int, *, fewer: bool = False) -> Lanes:
        """The first `count` lanes; fewer: it is less than `width`."""

    @abstractmethod
    def lane(self, x: Name, lane: int) -> Name:
        """One lane."""

    @abstractmethod
    def vector(self, names: Sequence[Name]) -> Name:
        """Single values as lanes."""

    @abstractmethod
    def half(self, x: Name, which: int) -> Name:
        """The first or the second half of the lanes."""

    @abstractmethod
    def reversed(self, x: Name) -> Name:
        """The lanes from the last one to the first."""

    @abstractmethod
    def any_lane(self, mask: Name) -> Name:
        """Whether a lane of a b1 is true."""

    def over_lanes(self, op: Core | str, x: Name) -> Name:
        """All lanes in one, of which none is NaN: AND, OR, "min" or "max"."""
        while x.width > 1:
            low, high = self.half(x, 0), self.half(x, 1)
            if isinstance(op, Core):
                x = self.instruction(op, (low, high))
            else:
                x = self.select(
                    self.compare(Core.LT if op == "min" else Core.GT, low, high), low, high
                )
        return x

    # Memory. A b1 is a byte there. Lanes that do not exist are not read, but 1.

    @abstractmethod
    def load(self, dtype: str, pointer: Name) -> Name:
        """A single element."""

    @abstractmethod
    def store(self, pointer: Name, x: Name) -> None:
        """A single element."""

    @abstractmethod
    def load_lanes(
        self, dtype: str, pointer: Name, stride: Name | None, width: int, lanes: Lanes | None
    ) -> Name:
        """Elements so many bytes apart; None: next to each other."""

    @abstractmethod
    def store_lanes(self, pointer: Name, stride: Name | None, x: Name, which: Which) -> None:
        """The inverse."""

    @abstractmethod
    def load_pairs(
        self, dtype: str, pointer: Name, width: int, lanes: Lanes | None, *, back: bool = False
    ) -> Value:
        """Two vectors, whose elements take turns; back: from the last pair to the first one, all of
        which exist."""

    @abstractmethod
    def store_pairs(self, pointer: Name, x: Value, which: Which, *, back: bool = False) -> None:
        """The inverse."""

    @abstractmethod
    def load_each(self, dtype: str, pointer: Name, offsets: Name, lanes: Lanes | None) -> Name:
        """Elements at offsets (i8, bytes) of their own."""

    @abstractmethod
    def store_each(self, pointer: Name, offsets: Name, x: Name, which: Which) -> None:
        """The inverse; of equal offsets the last lane stays."""

    @abstractmethod
    def fetch(self, pointer: Name) -> None:
        """Have this line in the second-level cache soon."""

    # Arguments.

    @abstractmethod
    def word(self, index: int) -> Name:
        """One of layout.py's words."""

    @abstractmethod
    def base(self, array: int, index: int) -> Name:
        """The address of an array, which is in that word."""

    @abstractmethod
    def scalar(self, dtype: str, offset: int) -> Name:
        """What lies so many bytes behind the begin of the words."""

    @abstractmethod
    def partials(self, index: int) -> Name:
        """The address of partial results, which is in that word."""

    @abstractmethod
    def tasks(self) -> AbstractContextManager[Range]:
        """Run over the tasks of this call."""

    @abstractmethod
    def raise_flags(self, slot: int, bits: Name) -> None:
        """Set the bits of a u4."""

    # Variables.

    @abstractmethod
    def variable(self, dtype: str, width: int, count: int = 1) -> Variable:
        """Values of the function, not yet set."""

    @abstractmethod
    def get(self, variable: Variable, at: Name | None = None) -> Name:
        """One of them."""

    @abstractmethod
    def set(self, variable: Variable, x: Name, at: Name | None = None) -> None:
        """Change one."""

    def part(self, variable: Variable, lane: Name, width: int) -> Variable:
        """Of a wide vector, `width` lanes from `lane` on."""
        raise InternalError("no part of a vector is a variable here")

    # Variables that every member of a tile has one of; they lie in memory, not in registers.

    def begin_state(self, members: int) -> None:
        """From here on `lasting` variables are kept for each member of a tile."""
        self.members = members

    def lasting(self, dtype: str, width: int, count: int = 1) -> Variable:
        """A variable that keeps its value while other members of the tile have their turn."""
        if not self.members:
            return self.variable(dtype, width, count)
        made = Variable(self.fresh("s"), dtype, width, count, self.state_bytes)
        self.state_bytes += -(-self.stored_bytes(made) * count * self.members // 64) * 64
        self._lasting.append(made)
        return made

    @abstractmethod
    def stored_bytes(self, variable: Variable) -> int:
        """Bytes of one of its values in memory."""

    @abstractmethod
    def enter(self, member: Name) -> None:
        """Let lasting variables be those of that member of the tile."""

    # Branches.

    def inside(self) -> Inside:
        """What is written inside has names of its own, where the language has such."""
        return nullcontext()

    @abstractmethod
    def when(self, condition: Name, *, rare: bool = False) -> Inside:
        """What is written inside runs if the condition holds."""

    @abstractmethod
    def either(self, condition: Name, yes: Callable[[], None], no: Callable[[], None]) -> None:
        """What one of the two writes runs."""

    @abstractmethod
    def count(self, low: Name, high: Name, step: Name | int = 1) -> AbstractContextManager[Name]:
        """for (i = low; i < high; i += step); yields i."""

    @abstractmethod
    def while_less(self, variable: Variable, limit: Name) -> AbstractContextManager[Name]:
        """Repeat while the n is less than the limit; yields it."""

    def apart(
        self, what: str, names: Sequence[Name], write: Callable[[Builder, list[Name]], None]
    ) -> None:
        """Call a function of its own, which has the same arguments as this one and these.

        what : of which there is one in the code of a kernel; `write` writes it when it is first met
        """
        raise InternalError("this target has one function")

    # Work groups, where the machine has them; see groups.py.

    item: Name
    items: Name
    lane_of_group: Name

    def barrier(self) -> None:
        """What any item of the group stored before, all see after it."""
        raise InternalError("this target has no work groups")

    def shared_tile(self, dtype: str, count: int) -> Variable:
        """So many values that a group's items share."""
        raise InternalError("this target has no work groups")

    def shared(self, dtype: str, place: int) -> Variable:
        """Values that a group's items share, one each; `place`: of those that are used together."""
        raise InternalError("this target has no work groups")
