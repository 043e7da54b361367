"""Scalar expressions: the closed set of primitives that every backend renders.

An `Expr` is an immutable node of a hash-consed graph. Nodes are made only by a `Pool`, so equal
expressions are the same object and common subexpressions vanish by construction. Walks over a
graph are loops (`topological`), never recursion.

Dtypes are NumPy's kind-and-size codes: ``b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16``.
"""

from __future__ import annotations

import enum
import math
import struct
from collections.abc import Iterable

__all__ = [
    "BOOL",
    "DTYPES",
    "SCANNED",
    "Core",
    "Expr",
    "Pool",
    "Value",
    "item_size",
    "may_hold",
    "rare_parts",
    "scans",
    "topological",
    "usual",
]

DTYPES = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
BOOL = "b1"

Value = bool | int | float | complex


def item_size(dtype: str) -> int:
    """Size in bytes of one element of `dtype` in memory."""
    return int(dtype[1:])


def may_hold(mask: Expr) -> bool:
    """Whether the b1 node is anything else than the constant False."""
    return mask.op is not Core.CONST or bool(mask.attr)


class Core(enum.Enum):
    """The primitives. `T` is the node's dtype; operands have dtype T unless said otherwise."""

    __hash__ = object.__hash__  # each node's key has one in it; Enum's own is slow

    # Leaves.
    CONST = "const"  # attr: Python value of dtype T
    LOAD = "load"  # attr: index into Kernel.arrays; the element at the current index
    SCALAR = "scalar"  # attr: index into Kernel.scalars; a run-time argument
    ROW = "row"  # attr: index into Kernel.rows; a value made by an earlier leaf, one per band point
    SCRATCH = "scratch"  # attr: index into Kernel.scratch; element of a row-local array
    INDEX = "index"  # attr: axis of the kernel's domain (band axes first); current index, i8
    # attr: index into Kernel.arrays; operand i8: how many elements from the current index on.
    GATHER = "gather"
    # Along the last inner axis of a leaf, see Note [Scan].
    SCAN = "scan"  # attr: place of an operation in SCANNED; operand T: what is accumulated
    BEFORE = "before"  # operand: a SCAN; what that one was at the index before
    # Arithmetic on i*, u* (wrapping) and f* (round to nearest even, no contraction).
    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"  # f*: IEEE; i*, u*: truncating; caller makes sure the divisor is never 0 or MIN/-1
    REM = "rem"  # i*, u* only: remainder of the truncating division, same duty of the caller
    MULHI = "mulhi"  # u4, u8: high half of the full product
    NEG = "neg"  # i*: wraps; f*: of a NaN, the sign may be lost in what is done with it
    # f* only.
    FLIP = "flip"  # flips the sign bit, also of NaN, whatever is done with it
    FMA = "fma"  # one rounding; f2 computes in f4 and rounds once more
    ABS = "abs"  # clears the sign bit
    SQRT = "sqrt"  # correctly rounded
    FLOOR = "floor"
    CEIL = "ceil"
    TRUNC = "trunc"
    RINT = "rint"  # ties to even
    COPYSIGN = "copysign"
    # Bits: b1, i*, u*.
    AND = "and"
    OR = "or"
    XOR = "xor"
    NOT = "not"
    SHL = "shl"  # caller makes sure 0 <= amount < bits
    LSHR = "lshr"  # i* too: shifts in zeros
    ASHR = "ashr"
    POPCOUNT = "popcount"
    CLZ = "clz"  # i*, u*: leading zeros; bits of T for 0
    # Comparisons: T is b1, operands share a dtype of b1, i*, u*, f*. Ordered for floats
    # (False when an operand is NaN) but NE, which is its negation of EQ (True with a NaN).
    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    # Structure.
    SELECT = "select"  # (b1, T, T)
    # (b1 mask, T cheap, T exact): SELECT(mask, exact, cheap), where mask is almost never true. A
    # back end may compute what only `exact` needs (`rare_parts`) in a branch that it takes when
    # any lane's mask is true; a plain select is right too.
    RARE = "rare"
    CONVERT = "convert"  # NumPy's astype(casting="unsafe") as on x86-64, see Note [Casts]
    BITCAST = "bitcast"  # same size, not b1, not complex
    COMPLEX = "complex"  # (f4, f4) -> c8, (f8, f8) -> c16
    REAL = "real"  # c* -> f*
    IMAG = "imag"  # c* -> f*


# What a SCAN may accumulate by, as the operation table has it for the node's dtype (not complex).
SCANNED = (
    "add", "multiply", "maximum", "minimum", "fmax", "fmin", "bitwise_and", "bitwise_or",
    "bitwise_xor", "logical_and", "logical_or", "logical_xor",
)  # fmt: skip

# Note [Scan]
# SCAN is s[0] = x[0], s[i] = op(s[i - 1], x[i]) in this order, as NumPy's accumulate; BEFORE is
# s[i - 1], and x[0] at the first index, where NumPy does nothing that could warn. Each leaf that
# uses one runs it from the row's start, so a kernel with a SCAN is never split and has one inner
# axis. Both are evaluated at every index, also where only a flag or a RARE part needs them.

# Note [Casts]
# b1 -> x: 0 or 1.  x -> b1: x != 0 (NaN is True; complex: either part != 0).
# i*/u* -> i*/u*: keep the low bits, extend by the source's signedness.
# f* -> signed or small unsigned integer: truncate toward zero; out of range or NaN gives what
#   x86's cvttsd2si does: i4 -> INT32_MIN, i8 -> INT64_MIN, i1/i2/u1/u2 go through i4, u4 through
#   i8 (low bits). f* -> u8: x >= 2**63 ? i8(x - 2**63) ^ 2**63 : i8(x), so NaN -> 2**63.
#   For u4 NumPy itself has two answers out of range: another one in its vectorised loop.
# f* -> f*: one rounding.  i*/u* -> f2 as through one correct rounding.
# c* -> f*/i*: the real part converted; x -> c*: imaginary part 0.

_COMPARISONS = frozenset({Core.EQ, Core.NE, Core.LT, Core.LE, Core.GT, Core.GE})


class Expr:
    """A node: primitive `op` of result `dtype` applied to `args`, with `attr` as `Core` says.

    Compared and hashed by identity, which is equality because of the pool. The operators
    build nodes in the same pool; Python numbers on either side become constants.
    """

    __slots__ = ("args", "attr", "dtype", "op", "pool", "serial")

    op: Core
    dtype: str
    args: tuple[Expr, ...]
    attr: Value | None
    pool: Pool
    serial: int

    def like(self, value: Value) -> Expr:
        """Constant of this node's dtype."""
        return self.pool.const(self.dtype, value)

    def _other(self, other: Expr | Value) -> Expr:
        return other if isinstance(other, Expr) else self.like(other)

    def _binary(self, op: Core, other: Expr | Value) -> Expr:
        return self.pool.make(op, self.dtype, (self, self._other(other)))

    def _compare(self, op: Core, other: Expr | Value) -> Expr:
        return self.pool.make(op, BOOL, (self, self._other(other)))

    def __add__(self, other: Expr | Value) -> Expr:
        return self._binary(Core.ADD, other)

    def __radd__(self, other: Value) -> Expr:
        return self.like(other)._binary(Core.ADD, self)

    def __sub__(self, other: Expr | Value) -> Expr:
        return self._binary(Core.SUB, other)

    def __rsub__(self, other: Value) -> Expr:
        return self.like(other)._binary(Core.SUB, self)

    def __mul__(self, other: Expr | Value) -> Expr:
        return self._binary(Core.MUL, other)

    def __rmul__(self, other: Value) -> Expr:
        return self.like(other)._binary(Core.MUL, self)

    def __truediv__(self, other: Expr | Value) -> Expr:
        return self._binary(Core.DIV, other)

    def __rtruediv__(self, other: Value) -> Expr:
        return self.like(other)._binary(Core.DIV, self)

    def __neg__(self) -> Expr:
        return self.pool.make(Core.NEG, self.dtype, (self,))

    def flipped(self) -> Expr:
        """This f* value with the other sign, also of NaN; NEG may be cheaper."""
        return self.pool.make(Core.FLIP, self.dtype, (self,))

    def __abs__(self) -> Expr:
        return self.pool.make(Core.ABS, self.dtype, (self,))

    def __and__(self, other: Expr | Value) -> Expr:
        return self._binary(Core.AND, other)

    def __or__(self, other: Expr | Value) -> Expr:
        return self._binary(Core.OR, other)

    def __xor__(self, other: Expr | Value) -> Expr:
        return self._binary(Core.XOR, other)

    def __invert__(self) -> Expr:
        return self.pool.make(Core.NOT, self.dtype, (self,))

    def __lt__(self, other: Expr | Value) -> Expr:
        return self._compare(Core.LT, other)

    def __le__(self, other: Expr | Value) -> Expr:
        return self._compare(Core.LE, other)

    def __gt__(self, other: Expr | Value) -> Expr:
        return self._compare(Core.GT, other)

    def __ge__(self, other: Expr | Value) -> Expr:
        return self._compare(Core.GE, other)

    def eq(self, other: Expr | Value) -> Expr:
        return self._compare(Core.EQ, other)

    def ne(self, other: Expr | Value) -> Expr:
        return self._compare(Core.NE, other)

    def unary(self, op: Core) -> Expr:
        """`op` of this one operand, same dtype (SQRT, FLOOR, RINT, POPCOUNT, ...)."""
        return self.pool.make(op, self.dtype, (self,))

    def binary(self, op: Core, other: Expr | Value) -> Expr:
        """`op` of two operands, same dtype (REM, SHL, COPYSIGN, MULHI, ...)."""
        return self._binary(op, other)

    def fma(self, y: Expr | Value, z: Expr | Value) -> Expr:
        """`self * y + z` with one rounding."""
        return self.pool.make(Core.FMA, self.dtype, (self, self._other(y), self._other(z)))

    def select(self, yes: Expr, no: Expr | Value) -> Expr:
        """`yes` where this b1 node is true, else `no`."""
        return self.pool.make(Core.SELECT, yes.dtype, (self, yes, yes._other(no)))

    def rare(self, exact: Expr, cheap: Expr) -> Expr:
        """`exact` where this b1 node, almost never true, is true; else `cheap`."""
        return self.pool.make(Core.RARE, cheap.dtype, (self, cheap, exact))

    def convert(self, dtype: str) -> Expr:
        """This value as `dtype`, as NumPy's unsafe cast; the node itself if it has it already."""
        if dtype == self.dtype:
            return self
        return self.pool.make(Core.CONVERT, dtype, (self,))

    def bitcast(self, dtype: str) -> Expr:
        """The same bits read as `dtype`."""
        if dtype == self.dtype:
            return self
        return self.pool.make(Core.BITCAST, dtype, (self,))

    def isnan(self) -> Expr:
        return self.ne(self)

    def nonfinite(self) -> Expr:
        """Whether this f* value is NaN or infinite."""
        return ~(abs(self) < float("inf"))

    def real(self) -> Expr:
        return self.pool.make(Core.REAL, _part(self.dtype), (self,))

    def imag(self) -> Expr:
        return self.pool.make(Core.IMAG, _part(self.dtype), (self,))

    def __repr__(self) -> str:
        if self.attr is not None:
            return f"{self.op.value}.{self.dtype}[{self.attr!r}]"
        return f"{self.op.value}.{self.dtype}(" + ", ".join(f"%{a.serial}" for a in self.args) + ")"


def _part(dtype: str) -> str:
    return "f4" if dtype == "c8" else "f8"


class Pool:
    """The factory of expressions: equal nodes are made once.

    A pool belongs to one kernel (or one table of bodies) and dies with it.
    """

    __slots__ = ("_nodes",)

    def __init__(self) -> None:
        self._nodes: dict[tuple[object, ...], Expr] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def make(
        self, op: Core, dtype: str, args: tuple[Expr, ...] = (), attr: Value | None = None
    ) -> Expr:
        """Return the node for these fields, made now or before."""
        # Nodes are hashed by identity: much faster than anything in Python.
        key: tuple[object, ...] = (op, dtype, args)
        if attr is not None:
            key = (*key, _attr_key(attr))
        node = self._nodes.get(key)
        if node is None:
            node = Expr()
            node.op, node.dtype, node.args, node.attr = op, dtype, args, attr
            node.pool, node.serial = self, len(self._nodes)
            self._nodes[key] = node
        return node

    def const(self, dtype: str, value: Value) -> Expr:
        """The value, rounded to the dtype: what is folded with it is so rounded, too."""
        kind = dtype[0]
        if kind == "b":
            value = bool(value)
        elif kind in "iu":
            value = int(value.real)
        elif kind == "f":
            value = _rounded(dtype, float(value.real))
        else:
            part = _part(dtype)
            value = complex(_rounded(part, value.real), _rounded(part, value.imag))
        return self.make(Core.CONST, dtype, (), value)

    def load(self, dtype: str, array: int) -> Expr:
        return self.make(Core.LOAD, dtype, (), array)

    def gather(self, dtype: str, array: int, offset: Expr) -> Expr:
        return self.make(Core.GATHER, dtype, (offset,), array)

    def scalar(self, dtype: str, index: int) -> Expr:
        return self.make(Core.SCALAR, dtype, (), index)

    def row(self, dtype: str, index: int) -> Expr:
        return self.make(Core.ROW, dtype, (), index)

    def scratch(self, dtype: str, index: int) -> Expr:
        return self.make(Core.SCRATCH, dtype, (), index)

    def index(self, axis: int) -> Expr:
        return self.make(Core.INDEX, "i8", (), axis)

    def scan(self, name: str, value: Expr) -> Expr:
        return self.make(Core.SCAN, value.dtype, (value,), SCANNED.index(name))

    def before(self, scan: Expr) -> Expr:
        return self.make(Core.BEFORE, scan.dtype, (scan,))

    def complex(self, re: Expr, im: Expr) -> Expr:
        return self.make(Core.COMPLEX, "c8" if re.dtype == "f4" else "c16", (re, im))


_FORMATS = {"f2": "<e", "f4": "<f"}


def _rounded(dtype: str, value: float) -> float:
    if dtype == "f8" or not math.isfinite(value):
        return value
    try:
        (rounded,) = struct.unpack(_FORMATS[dtype], struct.pack(_FORMATS[dtype], value))
    except OverflowError:  # struct refuses what IEEE rounds to infinity
        return math.copysign(math.inf, value)
    return float(rounded)


def _attr_key(attr: Value) -> object:
    # 0.0 and -0.0, True and 1, and all NaNs must stay what they are.
    if isinstance(attr, float):
        return ("f", struct.pack("<d", attr))
    if isinstance(attr, complex):
        return ("c", struct.pack("<dd", attr.real, attr.imag))
    return (type(attr).__name__, attr)


def scans(roots: Iterable[Expr]) -> list[Expr]:
    """The SCAN and BEFORE nodes that the roots need, each after its operands."""
    return [node for node in topological(roots) if node.op in (Core.SCAN, Core.BEFORE)]


def usual(roots: Iterable[Expr]) -> set[Expr]:
    """The nodes computed as a rule: all but what only the exact operand of a RARE needs."""
    seen: set[Expr] = set()
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(node.args[:2] if node.op is Core.RARE else node.args)
    return seen


def topological(roots: Iterable[Expr]) -> list[Expr]:
    """Every node the roots need, each after its operands, in a stable order."""
    seen: set[Expr] = set()
    order: list[Expr] = []
    for root in roots:
        stack = [root]
        while stack:
            node = stack[-1]
            if node not in seen:
                for arg in node.args:
                    if arg not in seen:
                        stack.append(arg)
                        break
                else:
                    seen.add(node)
                    order.append(node)
                    stack.pop()
            else:
                stack.pop()
    return order


def rare_parts(roots: Iterable[Expr]) -> tuple[list[Expr], dict[Expr, list[Expr]]]:
    """What to compute always, in order, and per RARE node in it what to compute only when needed.

    The first list holds every node that the roots need without passing through the `exact`
    operand of a RARE node. The second has for each such RARE node the other nodes of its `exact`
    operand, in order; their remaining operands come earlier in the first list than the RARE node.
    A node may stand under two RARE nodes; RARE nodes inside such a list are plain selects.
    """
    roots = list(roots)
    hot = usual(roots)
    parts: dict[Expr, list[Expr]] = {}
    order: list[Expr] = []
    done: set[Expr] = set()
    for root in roots:
        stack = [root]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            needs = node.args
            if node.op is Core.RARE:
                if node not in parts:
                    parts[node] = [n for n in topological([node.args[2]]) if n not in hot]
                needs = tuple(a for n in (*parts[node], node) for a in n.args if a in hot)
            waiting = [a for a in needs if a not in done]
            if waiting:
                stack.extend(reversed(waiting))
            else:
                done.add(node)
                order.append(node)
                stack.pop()
    return order, parts
