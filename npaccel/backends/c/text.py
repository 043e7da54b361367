"""Functions in C and in OpenCL C: memory, variables, branches.

Variables are declared at the function's top; everything else is a constant between the braces that
compute it. Short sums of coordinates have no names.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from npaccel.backends.c.halves import FUNCTIONS
from npaccel.backends.c.values import CValues, c_type, memory_type
from npaccel.backends.emit.builder import Lanes, Name, Value, Variable, Which
from npaccel.backends.emit.machine import Machine
from npaccel.ir.scalar import item_size

__all__ = ["CText"]


class CText(CValues):
    """Writes a function of C.

    space : what addresses of arrays are declared with
    """

    space = ""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine)
        self.scratch = Name("scratch", "p")
        self.halves = set()
        self._lines: list[str] = []
        self._tops: list[str] = []
        self._indent = 1
        self._member = ""

    def text(self, signature: str, first: Sequence[str] = ()) -> str:
        """The whole function, with `first` before all other statements."""
        head = [f"{signature} {{", *(f"  {line}" for line in first)]
        return "\n".join([*head, *self._tops, *self._lines, "}"]) + "\n"

    def half_functions(self, qualifiers: str) -> dict[str, str]:
        """The functions of `halves` by name, written with a builder like this."""
        made = {}
        for function, width in sorted(self.halves):
            source, target, write = FUNCTIONS[function]
            body = self.alike()
            result = write(body, Name("x", source, width))
            kinds = c_type(target, width), c_type(source, width)
            body.do(f"return {result};")
            signature = f"{qualifiers} {kinds[0]} {function}_{width}({kinds[1]} x)"
            made[f"{function}_{width}"] = body.text(signature)
        return made

    @abstractmethod
    def alike(self) -> CText:
        """A builder of another function."""

    # Statements.

    def do(self, text: str) -> None:
        """Write a statement."""
        self._lines.append("  " * self._indent + text)

    def let(self, kind: str, text: str) -> str:
        name = self.fresh("t")
        self.do(f"const {kind} {name} = {text};")
        return name

    # Addresses.

    def offset(self, pointer: Name, count_bytes: Name | int) -> Name:
        if count_bytes in (0, "0"):
            return pointer
        return Name(self.let(f"{self.space}char *", f"{pointer} + {count_bytes}"), "p")

    def as_n(self, x: Name) -> Name:
        return Name(f"(long){x}", "n")

    def address(self, pointer: Name) -> Name:
        return Name(f"(long){pointer}", "n")

    def _element(self, dtype: str, pointer: str, offset: str = "0") -> str:
        where = pointer if offset == "0" else f"({pointer} + {offset})"
        return f"(*({self.space}{memory_type(dtype, 1)}_at *){where})"

    def _lane_offset(self, dtype: str, stride: Name | None, lane: int) -> str:
        if lane == 0:
            return "0"
        if stride is None:
            return str(lane * item_size(dtype))
        return str(stride) if lane == 1 else f"{lane} * {stride}"

    # Memory.

    def _from_memory(self, dtype: str, text: str, width: int) -> Name:
        if dtype == "b1":
            if width == 1:
                return self._mask(f"{text} != 0", 1, 0)
            name = self.let(memory_type(dtype, width), text)
            return self._mask(f"{name} != {self.constant('u1', 0, width)}", width, 1)
        name = Name(self.let(memory_type(dtype, width), text), dtype, width)
        return self._half(name, "load_f2", "f2") if dtype == "f2" else name

    def _to_memory(self, x: Name) -> Name:
        """Bytes for a b1, and bits for f2."""
        if x.dtype == "f2":
            return self._half(x, "bits_f2", "u2")
        if x.dtype != "b1":
            return x
        if x.width == 1:
            return Name(f"(uchar){x}", "u1")
        kind, one = f"uchar{x.width}", self.constant("u1", 1, x.width)
        return self._new("u1", x.width, f"AS({kind}, {self._sized(x, 1)}) & {one}")

    def load(self, dtype: str, pointer: Name) -> Name:
        return self._from_memory(dtype, self._element(dtype, pointer), 1)

    def store(self, pointer: Name, x: Name) -> None:
        x = self._to_memory(x)
        self.do(f"{self._element(x.dtype, pointer)} = {x};")

    def load_lanes(
        self, dtype: str, pointer: Name, stride: Name | None, width: int, lanes: Lanes | None
    ) -> Name:
        every = [
            self._element(dtype, pointer, self._lane_offset(dtype, stride, k)) for k in range(width)
        ]
        kind = memory_type(dtype, width)
        whole = self._vector_text(kind, every)
        if stride is None:
            whole = f"LOAD({memory_type(dtype, 1)}, {width}, {pointer})"
        if lanes is not None:
            whole = self._some(dtype, every, lanes, whole)
        return self._from_memory(dtype, whole, width)

    def _some(self, dtype: str, every: Sequence[str], lanes: Lanes, whole: str) -> str:
        """Text of those lanes of `every` element that exist."""
        kind, name = memory_type(dtype, len(every)), self.fresh("x")
        one = "0x3c00" if dtype == "f2" else "1"
        texts = [f"{k} < {lanes.count} ? {text} : {one}" for k, text in enumerate(every)]
        some = self._vector_text(kind, [*texts[:-1], one] if lanes.fewer else texts)
        if lanes.fewer:
            return some
        self.do(f"{kind} {name};")
        self.do(f"if ({lanes.count} == {len(every)}) {name} = {whole};")
        self.do(f"else {name} = {some};")
        return name

    def load_pairs(
        self, dtype: str, pointer: Name, width: int, lanes: Lanes | None, *, back: bool = False
    ) -> Value:
        """Two loads and not a twice as wide one: some compilers pass vectors wider than the
        machine's wrongly."""
        size = item_size(dtype)
        if lanes is not None:
            stride = self.n(2 * size)
            places = (self.offset(pointer, k * size) for k in range(2))
            return tuple(self.load_lanes(dtype, p, stride, width, lanes) for p in places)
        kind, element = memory_type(dtype, width), memory_type(dtype, 1)
        low, high = (
            self.let(kind, f"LOAD({element}, {width}, {pointer} + {k * width * size})")
            for k in range(2)
        )
        parts = []
        for k in range(2):
            texts = [self._lane_text(name, j) for name in (low, high) for j in range(k, width, 2)]
            ordered = texts[:: -1 if back else 1]
            parts.append(self._new(dtype, width, self._vector_text(kind, ordered)))
        return tuple(parts)

    def load_each(self, dtype: str, pointer: Name, offsets: Name, lanes: Lanes | None) -> Name:
        width = offsets.width
        places = (f"(long){self._lane_text(offsets, k)}" for k in range(width))
        every = [self._element(dtype, pointer, place) for place in places]
        whole = self._vector_text(memory_type(dtype, width), every)
        if lanes is not None:
            whole = self._some(dtype, every, lanes, whole)
        return self._from_memory(dtype, whole, width)

    def store_lanes(self, pointer: Name, stride: Name | None, x: Name, which: Which) -> None:
        lanes = which.lanes
        x = self._to_memory(x)
        whole = f"STORE({memory_type(x.dtype, 1)}, {x.width}, {x}, {pointer});"
        places = [
            self._element(x.dtype, pointer, self._lane_offset(x.dtype, stride, k))
            for k in range(x.width)
        ]
        if stride is not None or which.mask is not None or (lanes is not None and lanes.fewer):
            self._store_some(places, x, which)
        elif lanes is None:
            self.do(whole)
        else:
            self.do(f"if ({lanes.count} == {x.width}) {whole}")
            with self._braces("else"):
                self._store_some(places, x, which)

    def _store_some(self, places: Sequence[str], x: Name, which: Which) -> None:
        lanes, mask = which.lanes, which.mask
        for k, place in enumerate(places[:-1] if lanes and lanes.fewer else places):
            conditions = [] if lanes is None else [f"{k} < {lanes.count}"]
            if mask is not None:
                conditions.append(self._lane_text(mask, k))
            condition = f"if ({' && '.join(conditions)}) " if conditions else ""
            self.do(f"{condition}{place} = {self._lane_text(x, k)};")

    def store_pairs(self, pointer: Name, x: Value, which: Which, *, back: bool = False) -> None:
        dtype, width, size = x[0].dtype, x[0].width, item_size(x[0].dtype)
        if which.lanes is not None or which.mask is not None:
            for k, name in enumerate(x):
                place = self.offset(pointer, k * size)
                self.store_lanes(place, self.n(2 * size), name, which)
            return
        for k in range(2):
            lanes = range(width)[:: -1 if back else 1]
            own = lanes[k * width // 2 : (k + 1) * width // 2]
            texts = [self._lane_text(name, lane) for lane in own for name in x]
            mixed = self._new(dtype, width, self._vector_text(memory_type(dtype, width), texts))
            where = f"{pointer} + {k * width * size}"
            self.do(f"STORE({memory_type(dtype, 1)}, {width}, {mixed}, {where});")

    def store_each(self, pointer: Name, offsets: Name, x: Name, which: Which) -> None:
        x = self._to_memory(x)
        own = (f"(long){self._lane_text(offsets, k)}" for k in range(x.width))
        places = [self._element(x.dtype, pointer, place) for place in own]
        self._store_some(places, x, which)

    def fetch(self, pointer: Name) -> None:
        self.do(f"FETCH({pointer});")

    def lanes_below(self, count: Name, width: int, *, fewer: bool = False) -> Lanes:
        count = count if fewer else self.minimum(count, width)
        if width == 1:
            return Lanes(count, self._mask(f"0 < {count}", 1, 0), fewer)
        limit = self._splat_text(f"int{width}", width, f"(int){count}")
        below = self._mask(f"{self._numbers('int', width)} < {limit}", width, 4)
        return Lanes(count, below, fewer)

    # Arguments.

    def word(self, index: int) -> Name:
        return self._long(f"words[{index}]")

    def scalar(self, dtype: str, offset: int) -> Name:
        place = f"(({self.space}const char *)words + {offset})"
        kind = memory_type(dtype, 1)
        return self._from_memory(dtype, f"*({self.space}const {kind} *){place}", 1)

    # Variables.

    def variable(self, dtype: str, width: int, count: int = 1) -> Variable:
        made = Variable(self.fresh("v"), dtype, width, count)
        array = f"[{count}]" if count > 1 else ""
        self._tops.append(f"  {c_type(dtype, width)} {made.text}{array};")
        return made

    def get(self, variable: Variable, at: Name | None = None) -> Name:
        dtype, width, place = variable.dtype, variable.width, self._place(variable, at)
        if dtype == "b1":
            return Name(self.let(c_type(dtype, width), place), dtype, width, int(width > 1))
        return Name(self.let(c_type(dtype, width), place), dtype, width)

    def set(self, variable: Variable, x: Name, at: Name | None = None) -> None:
        value = self._sized(x, 1) if variable.dtype == "b1" else x
        self.do(f"{self._place(variable, at)} = {value};")

    def _place(self, variable: Variable, at: Name | None) -> str:
        if variable.offset is None:
            return f"{variable.text}[{at or 0}]" if variable.count > 1 else variable.text
        where = f"{at or 0} * {self.members} + {self._member}"
        return f"{variable.text}[{where}]"

    def lasting(self, dtype: str, width: int, count: int = 1) -> Variable:
        made = super().lasting(dtype, width, count)
        if made.offset is not None:
            kind = f"{self.space}{c_type(dtype, width)} *"
            self._tops.append(f"  {kind}{made.text} = ({kind})({self.scratch} + {made.offset});")
        return made

    def stored_bytes(self, variable: Variable) -> int:
        sizes = {"b1": 4 if variable.width == 1 else 1, "n": 8}
        size = sizes.get(variable.dtype) or self.machine.carried_bytes(variable.dtype)
        return size * variable.width

    def enter(self, member: Name) -> None:
        self._member = str(member)

    # Branches.

    @contextmanager
    def _braces(self, head: str) -> Iterator[None]:
        self.do(f"{head} {{".lstrip())
        self._indent += 1
        yield
        self._indent -= 1
        self.do("}")

    @contextmanager
    def inside(self) -> Iterator[None]:
        with self._braces(""):
            yield

    @contextmanager
    def when(self, condition: Name, *, rare: bool = False) -> Iterator[None]:
        test = _bare(condition)
        with self._braces(f"if (RARELY({test}))" if rare else f"if ({test})"):
            yield

    def either(self, condition: Name, yes: Callable[[], None], no: Callable[[], None]) -> None:
        for head, write in ((f"if ({_bare(condition)})", yes), ("else", no)):
            with self._braces(head):
                write()

    @contextmanager
    def count(self, low: Name, high: Name, step: Name | int = 1) -> Iterator[Name]:
        i = self.fresh("i")
        with self._braces(f"for (long {i} = {_bare(low)}; {i} < {high}; {i} += {step})"):
            yield Name(i, "n")

    @contextmanager
    def while_less(self, variable: Variable, limit: Name) -> Iterator[Name]:
        with self._braces(f"while ({variable.text} < {limit})"):
            yield self.get(variable)


def _bare(text: str) -> str:
    """Without the parentheses around all of it."""
    depths = list(itertools.accumulate((c == "(") - (c == ")") for c in text))
    return text[1:-1] if text[:1] == "(" and depths.index(0) == len(text) - 1 else text
