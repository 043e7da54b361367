"""LLVM IR text of one function: blocks, variables, loops. Knows nothing of kernels.

State that changes lives in variables (allocas of the entry block), which LLVM's first pass turns
into registers; so the emitters write loops without ever writing a phi.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from npaccel.backends.llvm.scalar import Value, Writer, llvm_type

__all__ = ["Code", "as_value", "memory_type", "value_names"]

RARELY = "!prof !0"


def value_names(value: Value) -> tuple[str, ...]:
    """The SSA names of `value`: one, or two if it is complex."""
    return value if isinstance(value, tuple) else (value,)


def as_value(names: Sequence[str]) -> Value:
    """Inverse of `value_names`."""
    return names[0] if len(names) == 1 else (names[0], names[1])


def memory_type(dtype: str, width: int) -> str:
    """LLVM type of `width` elements of `dtype` (not complex) in memory; b1 is a byte there."""
    return llvm_type("u1" if dtype == "b1" else dtype, width)


def _size_bytes(kind: str) -> int:
    """Size in memory of a value of an LLVM number or vector type."""
    count, _, element = kind.strip("<>").rpartition(" x ")
    bits = {"half": 16, "float": 32, "double": 64}.get(element) or int(element.removeprefix("i"))
    return -(-bits * int(count or "1") // 8)


class Code:
    """The text of one function under construction.

    Attributes
    ----------
    declarations : ``declare`` lines needed by the module
    block : label of the block being written
    """

    def __init__(self, declarations: set[str]) -> None:
        self.declarations = declarations
        self.lines: list[str] = []
        self.block = "entry"
        self._allocas: list[str] = []
        self._count = 0
        self._state: dict[str, tuple[int, int]] = {}  # lasting variables: offset, bytes of each
        self._vectors = 0
        self._places: dict[str, str] = {}
        self.state_bytes = 0

    def text(self, name: str) -> str:
        """The whole function, with the signature that the C core calls."""
        body = "\n".join(["entry:", *self._allocas, *self.lines, "ret void"])
        return (
            f"define void @{name}(ptr %words, ptr %range, ptr %scratch, ptr %flags) #0 "
            f"{{\n{body}\n}}\n"
        )

    def writer(self, width: int) -> Writer:
        """A Writer of `width` lanes that adds to this function."""
        self._count += 1
        writer = Writer(width, f"w{self._count}_")
        writer.lines = self.lines
        writer.declarations = self.declarations
        return writer

    # Instructions.

    def fresh(self, hint: str) -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def emit(self, text: str) -> str:
        """Write an instruction and return the name of its result."""
        name = "%" + self.fresh("t")
        self.lines.append(f"{name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Write an instruction without result."""
        self.lines.append(text)

    def call(
        self, result: str, name: str, arguments: Sequence[tuple[str, str]], flags: str = ""
    ) -> str:
        """Call an intrinsic on (type, value) pairs; "" for no result. flags: of floating point."""
        types = ", ".join(kind for kind, _ in arguments)
        values = ", ".join(f"{kind} {value}" for kind, value in arguments)
        self.declarations.add(f"declare {result or 'void'} @{name}({types})")
        if not result:
            self.do(f"call void @{name}({values})")
            return ""
        return self.emit(f"call {flags} {result} @{name}({values})")

    def add(self, x: str, y: str) -> str:
        """x + y of i64; folds a 0."""
        return y if x == "0" else x if y == "0" else self.emit(f"add i64 {x}, {y}")

    def mul(self, x: str, y: str) -> str:
        """x * y of i64; folds 0 and 1."""
        if "0" in (x, y):
            return "0"
        return y if x == "1" else x if y == "1" else self.emit(f"mul i64 {x}, {y}")

    def minimum(self, x: str, y: str) -> str:
        """The smaller of two i64."""
        less = self.emit(f"icmp slt i64 {x}, {y}")
        return self.emit(f"select i1 {less}, i64 {x}, i64 {y}")

    def offset(self, pointer: str, count_bytes: str) -> str:
        """`pointer` moved by that many bytes."""
        if count_bytes == "0":
            return pointer
        return self.emit(f"getelementptr i8, ptr {pointer}, i64 {count_bytes}")

    def splat(self, kind: str, name: str, width: int) -> str:
        """`name` of scalar type `kind` in every one of `width` lanes."""
        if width == 1:
            return name
        vector = f"<{width} x {kind}>"
        one = self.emit(f"insertelement {vector} poison, {kind} {name}, i64 0")
        return self.emit(
            f"shufflevector {vector} {one}, {vector} poison, <{width} x i32> zeroinitializer"
        )

    def any_lane(self, mask: str, width: int) -> str:
        """i1: whether any lane of a b1 value is true."""
        if width == 1:
            return mask
        bits = self.emit(f"bitcast <{width} x i1> {mask} to i{width}")
        return self.emit(f"icmp ne i{width} {bits}, 0")

    def shuffle(self, kind: str, x: str, y: str, lanes: Sequence[int], width: int) -> str:
        """Chosen `lanes` of the concatenation of two vectors of `width` lanes of `kind`."""
        vector = f"<{width} x {kind}>"
        chosen = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.emit(
            f"shufflevector {vector} {x}, {vector} {y}, <{len(lanes)} x i32> <{chosen}>"
        )

    # Variables.

    def variable(self, kind: str, count: int = 1) -> str:
        """Pointer to `count` uninitialised values of LLVM type `kind`, alive in the function."""
        name = "%" + self.fresh("v")
        array = kind if count == 1 else f"[{count} x {kind}]"
        self._allocas.append(f"{name} = alloca {array}, align 64")
        return name

    def get(self, kind: str, variable: str) -> str:
        return self.emit(f"load {kind}, ptr {self.place(variable)}")

    def set(self, kind: str, variable: str, value: str) -> None:
        self.do(f"store {kind} {value}, ptr {self.place(variable)}")

    # Variables that every vector of a tile has one of; they lie in memory, not in registers.

    def begin_state(self, vectors: int) -> None:
        """From here on `lasting` variables are kept for each vector of a tile."""
        self._vectors = vectors

    def lasting(self, kind: str, count: int = 1) -> str:
        """A variable that keeps its value while other vectors of the tile have their turn."""
        if not self._vectors:
            return self.variable(kind, count)
        name, size = "%" + self.fresh("s"), _size_bytes(kind)
        self._state[name] = self.state_bytes, size
        self.state_bytes += -(-size * count * self._vectors // 64) * 64
        return name

    def enter(self, state: str, vector: str) -> None:
        """Let lasting variables be those of the `vector`-th vector; its state lies in `state`."""
        self._places = {
            name: self.offset(self.offset(state, str(offset)), self.mul(vector, str(size)))
            for name, (offset, size) in self._state.items()
        }

    @property
    def spread(self) -> int:
        """How far apart, counted in values, the elements of a lasting variable lie."""
        return max(1, self._vectors)

    def place(self, variable: str) -> str:
        """Where `variable` lies."""
        return self._places.get(variable, variable)

    # Blocks.

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.do(f"br label %{label}")

    def branch(self, condition: str, yes: str, no: str, *, rare: bool = False) -> None:
        hint = f", {RARELY}" if rare else ""
        self.do(f"br i1 {condition}, label %{yes}, label %{no}{hint}")

    @contextmanager
    def when(self, condition: str, *, rare: bool = False) -> Iterator[None]:
        """What is written inside runs if the i1 `condition` holds."""
        yes, after = self.fresh("then"), self.fresh("after")
        self.branch(condition, yes, after, rare=rare)
        self.start(yes)
        yield
        self.jump(after)
        self.start(after)

    @contextmanager
    def loop_while(self, kind: str, variable: str, predicate: str, limit: str) -> Iterator[str]:
        """Repeat while `variable predicate limit`; yields the variable's value in the body."""
        head, body, after = self.fresh("head"), self.fresh("body"), self.fresh("after")
        self.jump(head)
        self.start(head)
        value = self.get(kind, variable)
        more = self.emit(f"icmp {predicate} {kind} {value}, {limit}")
        self.branch(more, body, after)
        self.start(body)
        yield value
        self.jump(head)
        self.start(after)

    @contextmanager
    def count(self, low: str, high: str, step: str = "1") -> Iterator[str]:
        """for (i = low; i < high; i += step), i64; yields i."""
        variable = self.variable("i64")
        self.set("i64", variable, low)
        with self.loop_while("i64", variable, "slt", high) as i:
            yield i
            self.set("i64", variable, self.emit(f"add nsw i64 {i}, {step}"))
