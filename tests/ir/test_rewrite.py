"""Every rewrite gives the value it replaces, bit for bit; and some that must not be made."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from npaccel.ir.passes.rewrite import RULES, RewritingPool, Rule
from npaccel.ir.reference.expressions import evaluate
from npaccel.ir.scalar import Core, Expr, Pool, may_hold

VALUES = {
    "b": [False, True],
    "i": [0, 1, -1, 5, -(2**31), 2**31 - 1],
    "u": [0, 1, 7, 2**32 - 1],
    "f": [0.0, -0.0, 1.0, -2.5, float("inf"), float("nan"), 1e-310, 1e300],
}
DTYPES = {"b": "b1", "i": "i4", "u": "u4", "f": "f8"}


def bits(node: Expr) -> bytes:
    with np.errstate(all="ignore"):
        value = np.asarray(evaluate([node], lambda _: np.zeros(()))[node])
    return b"nan" if value.dtype.kind == "f" and np.isnan(value) else value.tobytes()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.op.value}-{rule.kinds}")
def test_rule_keeps_the_value(rule: Rule) -> None:
    applied = 0
    for kind in rule.kinds.replace("c", ""):
        dtype = DTYPES[kind]
        unary = Core.NEG, Core.FLIP, Core.NOT, Core.ABS, Core.CONVERT, Core.SQRT, Core.RINT
        arity = dict.fromkeys(unary, 1)
        arity[Core.SELECT] = 3
        for values in itertools.product(VALUES[kind], repeat=min(2, arity.get(rule.op, 2))):
            applied += _applies(rule, dtype, values)
    if rule.op not in (Core.REAL, Core.IMAG, Core.CONVERT, Core.ABS):
        assert applied


def _applies(rule: Rule, dtype: str, values: tuple[object, ...]) -> int:
    plain, rewriting = Pool(), RewritingPool()
    if rule.op is Core.DIV and dtype[0] != "f" and values[-1] in (0, -1):
        return 0

    def build(pool: Pool) -> list[Expr]:
        nodes = [pool.const(dtype, value) for value in values]  # type: ignore[arg-type]
        if rule.op in (Core.NEG, Core.FLIP, Core.NOT, Core.ABS):
            inner = Core.NEG if rule.op is Core.ABS else rule.op
            made = pool.make(inner, dtype, (nodes[0],))
            return [pool.make(rule.op, dtype, (made,))]
        if rule.op is Core.SELECT:
            yes = pool.const("b1", True)
            return [pool.make(Core.SELECT, dtype, (yes, nodes[0], nodes[1]))]
        if rule.op in (Core.CONVERT, Core.REAL, Core.IMAG):
            return []
        if rule.op in (Core.SQRT, Core.RINT):
            return [pool.make(rule.op, dtype, (nodes[0],))]
        return [pool.make(rule.op, dtype, tuple(nodes))]

    for old, new in zip(build(plain), build(rewriting), strict=True):
        assert bits(old) == bits(new), (rule.law, values)
        if new.op is not rule.op:
            return 1
    return 0


def test_adding_zero_to_a_float_is_not_nothing() -> None:
    pool = RewritingPool()
    x = pool.load("f8", 0)
    assert (x + 0.0).op is Core.ADD
    assert pool.load("i4", 0) + 0 is pool.load("i4", 0)


COMPARISONS = (Core.EQ, Core.NE, Core.LT, Core.LE, Core.GT, Core.GE)


@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons_of_constants(op: Core) -> None:
    for kind, dtype in DTYPES.items():
        for x, y in itertools.product(VALUES[kind], repeat=2):
            plain, rewriting = (
                pool.make(op, "b1", (pool.const(dtype, x), pool.const(dtype, y)))
                for pool in (Pool(), RewritingPool())
            )
            assert rewriting.op is Core.CONST and bits(plain) == bits(rewriting), (x, y)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("op", [Core.ADD, Core.SUB, Core.MUL, Core.DIV, Core.SQRT, Core.RINT])
def test_arithmetic_of_float_constants(dtype: str, op: Core) -> None:
    """One rounding, as NumPy's; what is not finite, or too large, stays."""
    rng = np.random.default_rng(1)
    values = rng.normal(size=60) * 10.0 ** rng.integers(-12, 12, 60)
    with np.errstate(all="ignore"):
        numbers = [*values.astype(dtype), *np.array(VALUES["f"]).astype(dtype)]
    arity = 1 if op in (Core.SQRT, Core.RINT) else 2
    for operands in itertools.product(map(float, numbers), repeat=arity):
        plain, rewriting = (
            pool.make(op, dtype, tuple(pool.const(dtype, x) for x in operands))
            for pool in (Pool(), RewritingPool())
        )
        assert bits(plain) == bits(rewriting), operands
        with np.errstate(all="ignore"):
            whole = np.isfinite([*operands, evaluate([plain], lambda _: np.zeros(()))[plain]])
        one = op in (Core.MUL, Core.DIV) and 1.0 in operands  # a law of its own
        assert one or (rewriting.op is Core.CONST) == whole.all(), operands


def test_constants_are_values_of_their_dtype() -> None:
    """So 180 / pi in single precision is not rounded once, but three times."""
    pool = RewritingPool()
    quotient = pool.const("f4", 180.0) / pool.const("f4", math.pi)
    assert quotient.attr == np.float32(180) / np.float32(math.pi) != np.float32(180 / math.pi)
    assert pool.const("c8", 0.1 + 0.2j).attr == complex(np.complex64(0.1 + 0.2j))
    assert pool.const("f4", 1e39).attr == math.inf
    assert pool.const("f2", -1e5).attr == -math.inf
    assert pool.const("f8", 0.1).attr == 0.1


def test_conversions_of_float_constants() -> None:
    pool = RewritingPool()
    assert pool.const("f8", 0.1).convert("f4") is pool.const("f4", float(np.float32(0.1)))
    assert pool.const("f4", 0.5).convert("f8") is pool.const("f8", 0.5)
    assert pool.const("f8", 1e300).convert("f4").op is Core.CONVERT  # overflows
    assert pool.const("f8", 1.5).convert("i4").op is Core.CONVERT


def test_conditions_that_are_known() -> None:
    pool = RewritingPool()
    x, no = pool.load("b1", 0), pool.const("b1", False)
    assert (x & no) is no and (no & x) is no and (x | ~no) is ~no
    assert not may_hold(x & no) and may_hold(x) and may_hold(~no)


def test_narrowing_a_widened_value() -> None:
    pool = RewritingPool()
    x = pool.load("f4", 0)
    assert x.convert("f8").convert("f4") is x
    y = pool.load("f8", 0)
    assert y.convert("f4").convert("f8") is not y


def test_magnitude_ignores_the_sign() -> None:
    x = RewritingPool().load("f8", 0)
    y = x.pool.load("f8", 1)
    assert abs(-x) is abs(x) is abs(x.flipped())
    assert abs(abs(x)) is abs(x)
    assert abs(x.flipped() * -y) is abs(x * y)
    assert abs(2.0 / x.flipped()) is abs(2.0 / x)
    assert abs(x.flipped() + y) is not abs(x + y)


def test_what_flips_the_sign_of_a_nan_stays() -> None:
    pool = RewritingPool()
    nan = pool.const("f8", np.nan)
    assert nan.flipped().op is Core.FLIP and (-nan).op is Core.NEG
    assert pool.const("f8", 2.0).flipped() is pool.const("f8", -2.0)
    assert pool.load("f8", 0).flipped().flipped() is pool.load("f8", 0)


def test_parts_of_a_complex_value() -> None:
    pool = RewritingPool()
    x, y = pool.load("f8", 0), pool.load("f8", 1)
    assert pool.complex(x, y).real() is x
    assert pool.complex(x, y).imag() is y
