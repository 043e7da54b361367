"""Which single operations are compiled ahead, for blocks, and the kernels of these primitives.

An operation whose results are not NumPy's to the last bit has the same bits in every tier, so what
runs before any kernel is compiled needs the same code: a kernel of one operation over a contiguous
block. So do operations with NumPy's bits whose loops in NumPy are slow: column `ahead` of their
rows. They are compiled when the package is built (`llvm/shipped.py`), for each kind of processor.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

from npaccel.ir.conditions import any_of, parts
from npaccel.ir.differences import answers, assumed
from npaccel.ir.drawing import DRAWING
from npaccel.ir.fast import FAST
from npaccel.ir.mathematics import (
    HALF_POWER,
    LOW_FLOAT_POWER,
    LOW_POWER,
    MATHEMATICS,
    SINGLE_POWER,
    WHOLE_FLOAT_POWER,
    WHOLE_POWER,
)
from npaccel.ir.nodes import ArrayParam, Flag, Kernel, Leaf, Store, Stride
from npaccel.ir.operation import Op
from npaccel.ir.ops import OPS, find
from npaccel.ir.passes.rewrite import RewritingPool
from npaccel.ir.scalar import Expr, may_hold
from npaccel.ir.special import SPECIAL

__all__ = ["Primitive", "primitive_kernel", "primitives"]

FLOATS = ("f2", "f4", "f8")
COMPLEX = ("c8", "c16")
WHOLE, LOW = tuple(float(n) for n in range(1, 9)), (0.0, -1.0)


@dataclass(frozen=True, slots=True)
class Primitive:
    """One operation on a block.

    loop : dtypes of its inputs and its output.
    exact : whether it has NumPy's bits.
    still : per input whether it is one element for the whole block.
    value : of the last input, where that is a constant of the code; it is then no argument.
    facts : questions on NumPy's loops (ir/differences.py), and the answers for which it is made.
    """

    op: Op
    loop: tuple[str, ...]
    still: tuple[bool, ...]
    value: float | None = None
    facts: tuple[tuple[str, int], ...] = ()

    @property
    def exact(self) -> bool:
        return find(self.op.name, self.loop) is self.op and not self.op.ulp

    @property
    def fast(self) -> bool:
        """Whether it is of the second accuracy class."""
        return self.op in FAST

    @property
    def symbol(self) -> str:
        """Name of its function."""
        moving = "".join("s" if still else "d" for still in self.still)
        value = "" if self.value is None else f"_{self.value:g}".replace(".", "p").replace("-", "m")
        given = [str(answer) for _, answer in self.facts] + ["fast"] * self.fast
        return "_".join([self.op.name.replace(" ", ""), *self.loop, moving + value, *given])


def _loops(op: Op) -> Iterator[tuple[str, ...]]:
    """The dtypes for which kernels compute it themselves."""
    for dtype in FLOATS if op.kinds == "f" else COMPLEX:
        if dtype not in op.without:
            pool = RewritingPool()
            assert op.body is not None
            with assumed({}):
                result = op.body(*(pool.load(dtype, k) for k in range(op.nin)))
            assert isinstance(result, Expr)
            yield (*(dtype,) * op.nin, result.dtype)


def _words(op: Op) -> tuple[str, ...]:
    """The dtypes of an operation on words."""
    pool = RewritingPool()
    assert op.body is not None
    result = op.body(*(pool.load("u8", k) for k in range(op.nin)))
    assert isinstance(result, Expr)
    return (*("u8",) * op.nin, result.dtype)


def primitives() -> Iterator[Primitive]:
    """All of them, in an order that does not change: one for each way that NumPy's loops may be."""
    return itertools.chain.from_iterable(map(_by_facts, _operations()))


def _by_facts(primitive: Primitive) -> Iterator[Primitive]:
    asked = {"half-root": 1} if primitive.op in (HALF_POWER, SINGLE_POWER) else {}
    needed = dict(asked)
    with assumed(asked):
        _kernel(primitive)
    choices = [(needed[q],) if q in needed else answers(q) for q in asked]
    for given in itertools.product(*choices):
        facts = tuple(zip(asked, given, strict=True))
        yield replace(primitive, facts=facts)


def _slow() -> Iterator[Primitive]:
    """Those with NumPy's bits, whose loops in NumPy are slow."""
    for op in OPS:
        for dtype in op.ahead:
            assert op.body is not None
            result = op.body(*(RewritingPool().load(dtype, 0),) * op.nin)
            assert isinstance(result, Expr)
            for still in itertools.product((False, True), repeat=op.nin):
                if not all(still):
                    yield Primitive(op, (*(dtype,) * op.nin, result.dtype), still)


def _operations() -> Iterator[Primitive]:
    yield from _slow()
    for op in (*MATHEMATICS, *FAST, *SPECIAL):
        if op.body is None:
            continue
        for loop in _loops(op):
            for still in itertools.product((False, True), repeat=op.nin):
                if not all(still):
                    yield Primitive(op, loop, still)
    for loop in (("f4",) * 3, ("f8",) * 3):
        yield Primitive(SINGLE_POWER, loop, (False, True))
        yield Primitive(HALF_POWER, loop, (False, True), 0.5)
    for op in DRAWING:
        yield Primitive(op, _words(op), (False,) + (True,) * (op.nin - 1))
    powers = [(op, value) for op in (WHOLE_POWER, WHOLE_FLOAT_POWER) for value in WHOLE]
    powers += [(op, value) for op in (LOW_POWER, LOW_FLOAT_POWER) for value in LOW]
    for (op, value), dtype in itertools.product(powers, FLOATS):
        yield Primitive(op, (dtype,) * 3, (False, True), value)


def primitive_kernel(primitive: Primitive) -> Kernel:
    """Its kernel: a map along one axis. Arrays: the inputs but for a constant one, the output.

    Whatever the operation may warn of is told in slot 0.
    """
    with assumed(dict(primitive.facts)):
        return _kernel(primitive)


def _warnings(
    op: Op, operands: tuple[Expr, ...], result: Expr
) -> tuple[tuple[Flag, ...], tuple[Expr, ...]]:
    """The flags that the operation may raise, all in slot 0, and what guards them."""
    flags = op.flags(operands, (result,)) if op.flags is not None else ()
    found = tuple(Flag(0, kind, mask) for kind, mask in flags if may_hold(mask))
    if op.guard is not None:
        guard = op.guard(operands, (result,))
    else:
        guard = any_of([part.nonfinite() for part in parts(result)])
    return found, (guard,) if found and guard is not None else ()


def _kernel(primitive: Primitive) -> Kernel:
    op, pool = primitive.op, RewritingPool()
    arrays: list[ArrayParam] = []
    operands: list[Expr] = []
    for position, dtype in enumerate(primitive.loop[:-1]):
        still = primitive.still[position]
        if primitive.value is not None and position == op.nin - 1:
            operands.append(pool.const(dtype, primitive.value))
            continue
        operands.append(pool.load(dtype, len(arrays)))
        step = Stride.ZERO if still else Stride.UNIT
        arrays.append(ArrayParam(dtype, step, True, False, band_only=still))
    assert op.body is not None
    result = op.body(*operands)
    assert isinstance(result, Expr)
    flags, guards = _warnings(op, tuple(operands), result)
    leaf = Leaf(False, (Store(len(arrays), result),), guards, flags)
    arrays.append(ArrayParam(primitive.loop[-1], Stride.UNIT, False, True))
    return Kernel(
        primitive.symbol,
        0,
        1,
        tuple(arrays),
        (),
        (),
        (),
        (leaf,),
        split=True,
        slots=int(bool(flags)),
    )
