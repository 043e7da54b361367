"""Rewrites of expressions and requests: rows of (where it applies, what it makes).

Every row is exact to the bit for the dtypes it names, payloads of NaN aside. Expressions are
rewritten as they are made (`RewritingPool`), so a rule sees operands that are already simple.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from npaccel.ir.complex_powers import WHOLE_COMPLEX_POWER
from npaccel.ir.differences import answer
from npaccel.ir.mathematics import (
    HALF_POWER,
    LOW_FLOAT_POWER,
    LOW_POWER,
    SINGLE_POWER,
    WHOLE_FLOAT_POWER,
    WHOLE_POWER,
)
from npaccel.ir.nodes import Kind, Request, ScalarOperand
from npaccel.ir.operation import Op
from npaccel.ir.ops import find
from npaccel.ir.scalar import Core, Expr, Pool, Value, item_size

__all__ = [
    "REQUEST_RULES",
    "RULES",
    "RequestRule",
    "RewritingPool",
    "Rule",
    "refined",
    "substitute",
]

Args = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A law of expressions; `make` returns the simpler node, or None where it does not apply."""

    law: str
    op: Core
    kinds: str  # of the node's dtype
    make: Callable[[Pool, str, Args], Expr | None]


def _constant(node: Expr, value: Value) -> bool:
    return node.op is Core.CONST and node.attr == value


def _either(value: Value) -> Callable[[Pool, str, Args], Expr | None]:
    def make(pool: Pool, dtype: str, args: Args) -> Expr | None:
        x, y = args
        return y if _constant(x, value) else x if _constant(y, value) else None

    return make


def _right(value: Value) -> Callable[[Pool, str, Args], Expr | None]:
    return lambda pool, dtype, args: args[0] if _constant(args[1], value) else None


def _inverse(op: Core) -> Callable[[Pool, str, Args], Expr | None]:
    return lambda pool, dtype, args: args[0].args[0] if args[0].op is op else None


def _idempotent(pool: Pool, dtype: str, args: Args) -> Expr | None:
    return args[0] if args[0] is args[1] else None


def _equal_arms(pool: Pool, dtype: str, args: Args) -> Expr | None:
    return args[1] if args[1] is args[2] else None


def _known_condition(pool: Pool, dtype: str, args: Args) -> Expr | None:
    return (args[1] if args[0].attr else args[2]) if args[0].op is Core.CONST else None


def _wrap(value: int, dtype: str) -> int:
    bits = 8 * item_size(dtype)
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype[0] == "i" and value >> (bits - 1) else value


_FOLDS: dict[Core, Callable[[int, int], int]] = {
    Core.ADD: lambda x, y: x + y,
    Core.SUB: lambda x, y: x - y,
    Core.MUL: lambda x, y: x * y,
    Core.AND: lambda x, y: x & y,
    Core.OR: lambda x, y: x | y,
    Core.XOR: lambda x, y: x ^ y,
}


def _folded(op: Core) -> Callable[[Pool, str, Args], Expr | None]:
    fold = _FOLDS[op]

    def make(pool: Pool, dtype: str, args: Args) -> Expr | None:
        x, y = args
        if x.op is not Core.CONST or y.op is not Core.CONST:
            return None
        assert isinstance(x.attr, int) and isinstance(y.attr, int)
        value = fold(x.attr, y.attr)
        return pool.const(dtype, bool(value) if dtype == "b1" else _wrap(value, dtype))

    return make


def _annihilated(value: bool) -> Callable[[Pool, str, Args], Expr | None]:
    def make(pool: Pool, dtype: str, args: Args) -> Expr | None:
        return next((arg for arg in args if _constant(arg, value)), None)

    return make


def _inverted_constant(pool: Pool, dtype: str, args: Args) -> Expr | None:
    (x,) = args
    return pool.const(dtype, not x.attr) if x.op is Core.CONST else None


_COMPARED: dict[Core, Callable[[Any, Any], bool]] = {
    Core.EQ: operator.eq,
    Core.NE: operator.ne,
    Core.LT: operator.lt,
    Core.LE: operator.le,
    Core.GT: operator.gt,
    Core.GE: operator.ge,
}


def _compared(op: Core) -> Callable[[Pool, str, Args], Expr | None]:
    compare = _COMPARED[op]

    def make(pool: Pool, dtype: str, args: Args) -> Expr | None:
        x, y = args
        known = x.op is y.op is Core.CONST
        return pool.const(dtype, compare(x.attr, y.attr)) if known else None

    return make


# One rounding each, as the processor's. Python's to f8 and another to f4 or f2 are one, too.
_ROUNDED: dict[Core, Callable[..., float]] = {
    Core.ADD: operator.add,
    Core.SUB: operator.sub,
    Core.MUL: operator.mul,
    Core.DIV: operator.truediv,
    Core.SQRT: math.sqrt,
    Core.ABS: abs,
    Core.RINT: lambda x: math.copysign(round(x), x),
    Core.CONVERT: float,
}
_FORMATS = {"f2": "<e", "f4": "<f", "f8": "<d"}


def _rounded(op: Core) -> Callable[[Pool, str, Args], Expr | None]:
    """Of finite constants; what is not finite, or may have warned, is left to the processor."""
    compute = _ROUNDED[op]

    def make(pool: Pool, dtype: str, args: Args) -> Expr | None:
        if any(x.op is not Core.CONST or not isinstance(x.attr, float) for x in args):
            return None
        if not all(math.isfinite(x.attr) for x in args if isinstance(x.attr, float)):
            return None
        try:
            packed = struct.pack(_FORMATS[dtype], compute(*(x.attr for x in args)))
        except (ArithmeticError, ValueError):  # by zero, too large, the root of a negative number
            return None
        (value,) = struct.unpack(_FORMATS[dtype], packed)
        return pool.const(dtype, value) if math.isfinite(value) else None

    return make


def _converted_constant(pool: Pool, dtype: str, args: Args) -> Expr | None:
    (x,) = args
    if x.op is not Core.CONST or x.dtype[0] not in "biu" or dtype[0] not in "biu":
        return None
    assert isinstance(x.attr, int)
    value = bool(x.attr) if dtype == "b1" else _wrap(int(x.attr), dtype)
    return pool.const(dtype, value)


def _negated_constant(pool: Pool, dtype: str, args: Args) -> Expr | None:
    x = args[0]
    if x.op is not Core.CONST or not isinstance(x.attr, float) or math.isnan(x.attr):
        return None
    return pool.const(dtype, -x.attr)


def _widened_before(pool: Pool, dtype: str, args: Args) -> Expr | None:
    # The inner conversion loses nothing, so the outer one may start from its operand.
    (x,) = args
    if x.op is not Core.CONVERT:
        return None
    source = x.args[0]
    exact = {("f4", "f8"), ("f2", "f4"), ("f2", "f8")}
    if (source.dtype, x.dtype) in exact and dtype == source.dtype:
        return source
    return None


def _part(place: int) -> Callable[[Pool, str, Args], Expr | None]:
    return lambda pool, dtype, args: args[0].args[place] if args[0].op is Core.COMPLEX else None


_SIGNS = (Core.NEG, Core.FLIP)


def _magnitude(pool: Pool, dtype: str, args: Args) -> Expr | None:
    (x,) = args
    if x.op is Core.ABS:
        return x
    if x.op in _SIGNS:
        return pool.make(Core.ABS, dtype, x.args)
    if x.op in (Core.MUL, Core.DIV) and any(arg.op in _SIGNS for arg in x.args):
        bare = tuple(arg.args[0] if arg.op in _SIGNS else arg for arg in x.args)
        return pool.make(Core.ABS, dtype, (pool.make(x.op, dtype, bare),))
    return None


RULES: tuple[Rule, ...] = (
    *(Rule(f"{op.value} of constants", op, "iu", _folded(op)) for op in _FOLDS),
    *(
        Rule(f"{op.value} of b1 constants", op, "b", _folded(op))
        for op in _FOLDS
        if op in (Core.AND, Core.OR, Core.XOR)
    ),
    *(Rule(f"{op.value} of finite constants", op, "f", _rounded(op)) for op in _ROUNDED),
    *(Rule(f"{op.value} of constants", op, "b", _compared(op)) for op in _COMPARED),
    Rule("x & false = false", Core.AND, "b", _annihilated(False)),
    Rule("x | true = true", Core.OR, "b", _annihilated(True)),
    Rule("~constant", Core.NOT, "b", _inverted_constant),
    Rule("x + 0 = x", Core.ADD, "iu", _either(0)),  # not for floats: -0.0 + 0.0 is 0.0
    Rule("x - 0 = x", Core.SUB, "iu", _right(0)),
    Rule("x * 1 = x", Core.MUL, "iuf", _either(1)),
    Rule("x / 1 = x", Core.DIV, "iuf", _right(1)),
    Rule("-(-x) = x", Core.NEG, "if", _inverse(Core.NEG)),
    Rule("flip(flip(x)) = x", Core.FLIP, "f", _inverse(Core.FLIP)),
    Rule("~(~x) = x", Core.NOT, "biu", _inverse(Core.NOT)),
    Rule("-constant", Core.NEG, "f", _negated_constant),
    Rule("flip(constant)", Core.FLIP, "f", _negated_constant),
    Rule("|-x| = |x|, ||x|| = |x|, |x * -y| = |x * y|", Core.ABS, "f", _magnitude),
    Rule("x & x = x", Core.AND, "biu", _idempotent),
    Rule("x | x = x", Core.OR, "biu", _idempotent),
    Rule("x & true = x", Core.AND, "b", _either(True)),
    Rule("x | false = x", Core.OR, "b", _either(False)),
    Rule("c ? x : x = x", Core.SELECT, "biufc", _equal_arms),
    Rule("true ? x : y = x", Core.SELECT, "biufc", _known_condition),
    Rule("conversion of a constant", Core.CONVERT, "biu", _converted_constant),
    Rule("narrow(widen(x)) = x", Core.CONVERT, "f", _widened_before),
    Rule("real(complex(x, y)) = x", Core.REAL, "f", _part(0)),
    Rule("imag(complex(x, y)) = y", Core.IMAG, "f", _part(1)),
)


def _index() -> dict[tuple[Core, str], tuple[Rule, ...]]:
    table: dict[tuple[Core, str], tuple[Rule, ...]] = {}
    for rule in RULES:
        for kind in rule.kinds:
            table[rule.op, kind] = (*table.get((rule.op, kind), ()), rule)
    return table


_TABLE = _index()


class RewritingPool(Pool):
    """A pool that applies `RULES` to each node before it makes it."""

    __slots__ = ()

    def make(
        self, op: Core, dtype: str, args: tuple[Expr, ...] = (), attr: Value | None = None
    ) -> Expr:
        for rule in _TABLE.get((op, dtype[0]), ()) if args else ():
            found = rule.make(self, dtype, args)
            if found is not None:
                return found
        return super().make(op, dtype, args, attr)


# ------------------------------------------------------------------------------------- requests


@dataclass(frozen=True, slots=True)
class RequestRule:
    """A law of requests that depends on a scalar's value, which is thereby consumed.

    op: the operation it applies to; position: of the scalar. make: the value that takes the
    scalar's place under operation `becomes`, or None where the rule does not apply.
    """

    law: str
    op: str
    position: int
    becomes: str | Op
    make: Callable[[str, Value], Value | None]


# Where 2**k and 2**-k are both normal numbers.
_EXPONENTS = {"f4": 120, "f8": 1000}


def _reciprocal(dtype: str, value: Value) -> Value | None:
    limit = _EXPONENTS.get(dtype)
    if limit is None or not isinstance(value, float) or value == 0 or not math.isfinite(value):
        return None
    if value == -1.0:
        return None  # compilers would flip the sign of NaN for it
    mantissa, exponent = math.frexp(value)
    return 1.0 / value if abs(mantissa) == 0.5 and abs(exponent) < limit else None


def _whole(dtype: str, value: Value) -> Value | None:
    if dtype[0] != "f" or not isinstance(value, float) or not value.is_integer():
        return None
    return value if 1 <= value <= 8 else None


def _low(dtype: str, value: Value) -> Value | None:
    return value if dtype[0] == "f" and value in (0.0, -1.0) else None


def _whole_complex(dtype: str, value: Value) -> Value | None:
    if dtype[0] != "c" or not isinstance(value, complex):
        return None
    whole = value.imag == 0 and value.real.is_integer() and abs(value.real) < 100
    part = f"f{int(dtype[1:]) // 2}"
    return value if whole and answer(f"complex-products {part}") else None


_ROOTS = ("f4", "f8")  # dtypes whose loop may do so


def _half(dtype: str, value: Value) -> Value | None:
    return value if dtype in _ROOTS and value == 0.5 and answer("half-root") else None


def refined(request: Request, op: Op) -> Op:
    """The operation, or another that does what NumPy's loop does with a single number."""
    if op.name != "power" or request.loop[0] not in _ROOTS:
        return op
    exponent = request.inputs[1]
    single = isinstance(exponent, ScalarOperand) or not any(exponent.strides)
    return SINGLE_POWER if single and answer("half-root") else op


REQUEST_RULES: tuple[RequestRule, ...] = (
    RequestRule(
        "x ** n = x * x * ... with whole n, within power's ulp", "power", 1, WHOLE_POWER, _whole
    ),
    RequestRule("z ** n = z * z * ...", "power", 1, WHOLE_COMPLEX_POWER, _whole_complex),
    RequestRule("x ** 0.5 = sqrt(x)", "power", 1, HALF_POWER, _half),
    RequestRule("x ** n = x * x * ...", "float_power", 1, WHOLE_FLOAT_POWER, _whole),
    RequestRule("x ** 0 = 1, x ** -1 = 1 / x", "power", 1, LOW_POWER, _low),
    RequestRule("x ** 0 = 1, x ** -1 = 1 / x", "float_power", 1, LOW_FLOAT_POWER, _low),
    RequestRule("x / 2**k = x * 2**-k", "divide", 1, "multiply", _reciprocal),
    RequestRule("x / 2**k = x * 2**-k", "true_divide", 1, "multiply", _reciprocal),
)


def substitute(request: Request) -> tuple[Op | None, int, Value] | None:
    """Return (operation, position of the consumed scalar, its new value) if a rule applies."""
    if request.kind is not Kind.MAP:
        return None
    for rule in REQUEST_RULES:
        if rule.op != request.op:
            continue
        operand = request.inputs[rule.position]
        if isinstance(operand, ScalarOperand):
            value = rule.make(request.loop[rule.position], operand.value)
            if value is not None and len(set(request.loop)) == 1:
                becomes = rule.becomes
                op = becomes if isinstance(becomes, Op) else find(becomes, request.loop)
                return op, rule.position, value
    return None
