"""What part of a kernel's time belongs to each of its operations.

An operation takes as long as what it computes, and as long as the memory that it is the reason to
read or write. What it computes is counted in its row's body; what a byte takes beside that is
measured at the profile's end, since processors differ in it by a factor. `bench/weights.py`
compares that with what kernels take without one of their lines.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from npaccel.ir import ops
from npaccel.ir.kinds import Kind
from npaccel.ir.scalar import Core, Expr, Pool, item_size, usual

__all__ = ["SCALAR", "Machine", "Request", "Rule", "alone", "fused", "in_registers"]

SCALAR: Final = -1  # a link, as in native/run/profile.h
# A byte, in additions of doubles, of blocks in the first cache; and where nothing was measured.
BLOCKED = 0.3
# What divides; of integers as many for each of their eight bytes. A function that is NumPy's own.
DIVIDERS: Final = {
    (Core.DIV, "f8"): 8, (Core.DIV, "f4"): 3, (Core.SQRT, "f8"): 15, (Core.SQRT, "f4"): 5,
}  # fmt: skip
INTEGER_DIVISION, OWN = 30, 60
FREE: Final = (Core.CONST, Core.LOAD, Core.SCALAR, Core.BITCAST, Core.RARE)
# Of what NumPy takes in its cache, what fused loops do for operations that cost little, which keep
# in registers what lies between.
FUSED, LITTLE_COST = 0.35, 7


class Rule(NamedTuple):
    """What an operation is. loop : its dtypes, inputs first."""

    name: str
    kind: int
    loop: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}.reduce" if self.kind == Kind.REDUCE else self.name

    @property
    def cost(self) -> float:
        """Of an element, in additions of doubles."""
        return _counted(self)


@functools.cache
def _counted(rule: Rule) -> float:
    op = ops.find(rule.name, rule.loop) if rule.loop else None
    if op is None:
        return 1.0
    if rule.kind == Kind.REDUCE:
        return item_size(rule.loop[0]) / 8
    if op.body is None:
        return OWN
    pool = Pool()
    made = op.body(*(pool.load(dtype, k) for k, dtype in enumerate(rule.loop[: op.nin])))
    return sum(map(_step, usual(made if isinstance(made, tuple) else (made,))))


def _step(node: Expr) -> float:
    """As many of them as are in a register have one's time."""
    if node.op in FREE:
        return 0.0
    parts = [own.dtype for own in (node, *node.args) if own.dtype[0] != "c"]
    width = max(map(item_size, parts)) / 8
    if node.op in (Core.DIV, Core.REM, Core.SQRT):
        return DIVIDERS.get((node.op, node.dtype), INTEGER_DIVISION * width)
    return width


class Machine(NamedTuple):
    """What a processor takes: for an addition of doubles beside others, 0: not known; and for a
    byte, by how many lie near each other, ascending."""

    addition_s: float = 0.0
    bytes_s: Sequence[tuple[float, float]] = ()

    @classmethod
    def of(cls, limits: Mapping[str, Any]) -> Self:
        """limits : as `hindrances.limits` has them."""
        exp = Rule("exp", Kind.MAP, ("f8", "f8"))
        pairs = tuple((float(size), float(pace)) for size, pace in limits.get("bytes_s", ()))
        return cls(float(limits.get("exp_s", 0.0)) / exp.cost, pairs)

    def byte(self, moved: float) -> float:
        """In additions, where so many are moved; between sizes that were measured by the ratio."""
        if not (self.addition_s and self.bytes_s):
            return BLOCKED
        (low, pace), *others = self.bytes_s
        for high, farther in others:
            if moved <= low:
                break
            part = min(math.log(moved / low) / math.log(high / low), 1.0)
            pace, low = pace + part * (farther - pace), high
        return pace / self.addition_s


class Request(NamedTuple):
    """One operation of a run. line : number of a line. links : of each input who wrote it, SCALAR,
    or less: an array from before. seen : others may look at what it writes. number : its rule's."""

    line: int
    rule: Rule
    points: int
    links: tuple[int, ...]
    seen: bool
    number: int = 0

    @property
    def bytes(self) -> int:
        """Of what it writes."""
        if self.rule.kind == Kind.REDUCE or not self.rule.loop:
            return 0
        return self.points * item_size(self.rule.loop[-1])

    def reads(self) -> Iterator[tuple[int, int]]:
        """Who wrote it, and its bytes, of each array."""
        for link, code in zip(self.links, self.rule.loop, strict=False):
            if link != SCALAR:
                yield link, self.points * item_size(code)


def fused(
    requests: Sequence[Request],
    numbers: Sequence[int],
    read_later: Collection[int],
    byte: float,
) -> list[float]:
    """Of each operation of a kernel.

    Parameters
    ----------
    numbers : of the requests in their run, to which links refer.
    read_later : of those that a later kernel reads.
    byte : what one costs that the kernel reads or writes, in additions.
    """
    here = set(numbers)
    memory = [
        float(request.bytes) if request.seen or number in read_later else 0.0
        for number, request in zip(numbers, requests, strict=True)
    ]
    readers: dict[int, list[tuple[int, int]]] = {}  # of each array from elsewhere
    for place, request in enumerate(requests):
        for link, size in request.reads():
            if link not in here:
                readers.setdefault(link, []).append((place, size))
    for uses in readers.values():  # all of them are the reason, in equal parts
        for place, size in uses:
            memory[place] += size / len(uses)
    return [
        request.rule.cost * request.points + byte * size
        for request, size in zip(requests, memory, strict=True)
    ]


def in_registers(rule: Rule, pace: float, addition: float) -> float:
    """Seconds that fused loops take for an element; 0: not known.

    pace : what NumPy takes for one in its cache. addition : seconds of one beside others.
    """
    return FUSED * pace if rule.cost <= LITTLE_COST else addition * rule.cost


def alone(requests: Sequence[Request]) -> list[float]:
    """Of operations that ran after each other, block by block."""
    return [
        request.rule.cost * request.points
        + BLOCKED * (request.bytes + sum(size for _, size in request.reads()))
        for request in requests
    ]
