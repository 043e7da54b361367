"""What part of a kernel's time belongs to each of its operations.

An operation takes as long as what it computes, and as long as the memory that it is the reason to
read or write. What it computes is counted in its row's body; what a division, a root and a byte
take beside an addition is measured at the profile's end, since processors differ in that by a
factor. `bench/weights.py` compares that with what kernels take without one of their lines.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self

from npaccel.ir import ops
from npaccel.ir.kinds import Kind
from npaccel.ir.scalar import Core, Expr, Pool, item_size, usual

__all__ = ["SCALAR", "Machine", "Request", "Rule", "alone", "fused"]

SCALAR: Final = -1  # a link, as in native/run/profile.h
# A byte, in additions of doubles, of blocks in the first cache, and where nothing was measured: an
# estimate, since bench/weights.py compares kernels only.
BLOCKED = 0.3
# What divides, where it was not measured; of integers as many for each of their eight bytes. A
# function that is NumPy's own.
DIVIDERS: Final[Mapping[tuple[str, str], float]] = {
    ("divide", "f8"): 8, ("divide", "f4"): 3, ("sqrt", "f8"): 15, ("sqrt", "f4"): 5,
}  # fmt: skip
DIVIDING: Final = {Core.DIV: "divide", Core.SQRT: "sqrt"}
INTEGER_DIVISION, OWN = 30, 60
FREE: Final = (Core.CONST, Core.LOAD, Core.SCALAR, Core.BITCAST, Core.RARE)


class Rule(NamedTuple):
    """What an operation is. loop : its dtypes, inputs first."""

    name: str
    kind: int
    loop: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}.reduce" if self.kind == Kind.REDUCE else self.name


class _Counted(NamedTuple):
    """Of an element: steps, in additions of doubles; and how often something of DIVIDERS."""

    steps: float
    divisions: Mapping[tuple[str, str], int] = {}


@functools.cache
def _counted(rule: Rule) -> _Counted:
    op = ops.find(rule.name, rule.loop) if rule.loop else None
    if op is None:
        return _Counted(1.0)
    if rule.kind == Kind.REDUCE:
        return _Counted(item_size(rule.loop[0]) / 8)
    if op.body is None:
        return _Counted(OWN)
    pool = Pool()
    made = op.body(*(pool.load(dtype, k) for k, dtype in enumerate(rule.loop[: op.nin])))
    nodes = list(usual(made if isinstance(made, tuple) else (made,)))
    dividers = [(DIVIDING.get(node.op, ""), node.dtype) for node in nodes]
    others = [n for n, divider in zip(nodes, dividers, strict=True) if divider not in DIVIDERS]
    return _Counted(sum(map(_step, others)), Counter(d for d in dividers if d in DIVIDERS))


def _step(node: Expr) -> float:
    """As many of them as are in a register have one's time."""
    if node.op in FREE:
        return 0.0
    parts = [own.dtype for own in (node, *node.args) if own.dtype[0] != "c"]
    width = max(map(item_size, parts)) / 8
    return INTEGER_DIVISION * width if node.op in (Core.DIV, Core.REM, Core.SQRT) else width


EXP: Final = Rule("exp", Kind.MAP, ("f8", "f8"))  # which has no division


class Machine(NamedTuple):
    """What a processor takes: for an addition of doubles beside others, 0: not known; for a byte,
    by how many lie near each other, ascending; and for what divides, in additions."""

    addition_s: float = 0.0
    bytes_s: Sequence[tuple[float, float]] = ()
    dividers: Mapping[tuple[str, str], float] = DIVIDERS

    @classmethod
    def of(cls, limits: Mapping[str, Any]) -> Self:
        """limits : as `hindrances.limits` has them."""
        addition_s = float(limits.get("exp_s", 0.0)) / cls().cost(EXP)
        if not addition_s:
            return cls()
        pairs = tuple((float(size), float(pace)) for size, pace in limits.get("bytes_s", ()))
        divide = {(of, code): pace / addition_s for of, code, pace in limits.get("divide_s", ())}
        return cls(addition_s, pairs, {**DIVIDERS, **divide})

    def cost(self, rule: Rule) -> float:
        """Of an element, in additions of doubles."""
        steps, divisions = _counted(rule)
        divided = sum(self.dividers[key] * times for key, times in divisions.items())
        return math.hypot(steps, divided)  # a unit of its own divides, beside the others

    def byte(self, moved: float) -> float:
        """In additions, where so many are moved; between sizes that were measured by the ratio."""
        if not self.bytes_s:
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
    moved: float,
    machine: Machine,
) -> list[float]:
    """Of each operation of a kernel.

    Parameters
    ----------
    numbers : of the requests in their run, to which links refer.
    read_later : of those that a later kernel reads.
    moved : bytes that the kernel reads and writes, all told, of each thread.
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
    byte = machine.byte(moved)
    return [
        machine.cost(request.rule) * request.points + byte * size
        for request, size in zip(requests, memory, strict=True)
    ]


def alone(requests: Sequence[Request], machine: Machine) -> list[float]:
    """Of operations that ran after each other, block by block."""
    return [
        machine.cost(request.rule) * request.points
        + BLOCKED * (request.bytes + sum(size for _, size in request.reads()))
        for request in requests
    ]
