"""How fast a machine runs kernels, and what that predicts.

A kernel is predicted to take launch + bytes moved + the longer of bytes / bandwidth and primitives
/ rate, as computing hides behind memory or memory behind computing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from npaccel.ir.scalar import Core, Expr, item_size, usual

__all__ = ["Speeds", "Work", "work_of"]

_SUMS = frozenset({Core.ADD, Core.SUB, Core.MUL, Core.FMA, Core.NEG, Core.FLIP, Core.ABS})
_FREE = frozenset({Core.CONST, Core.LOAD, Core.SCALAR, Core.ROW, Core.SCRATCH, Core.INDEX})


class Work(NamedTuple):
    """Numbers of primitives. wide: on elements of 8 bytes and more; narrow: of fewer."""

    sums_wide: float = 0.0
    others_wide: float = 0.0
    sums_narrow: float = 0.0
    others_narrow: float = 0.0


class Speeds(NamedTuple):
    """A device.

    copy_bytes_s : bytes per second of a copy within its memory, read and written ones counted.
    transfer_bytes_s : from the host's memory to it, or back.
    launch_s : the smallest launch, from the call until its end is known.
    sums_f8_s, sums_f4_s : additions and multiplications per second, of that dtype.
    others_f8_s : other primitives per second, as mixed in `exp`. 0, all three: not measured.
    """

    copy_bytes_s: float
    transfer_bytes_s: float
    launch_s: float
    sums_f8_s: float = 0.0
    sums_f4_s: float = 0.0
    others_f8_s: float = 0.0

    @property
    def predicts(self) -> bool:
        """Whether all was measured that a prediction needs."""
        return min(self.sums_f8_s, self.sums_f4_s, self.others_f8_s) > 0

    def arithmetic_s(self, work: Work) -> float:
        """Seconds that so many primitives take."""
        others_f4_s = self.others_f8_s * self.sums_f4_s / self.sums_f8_s
        return (
            work.sums_wide / self.sums_f8_s
            + work.others_wide / self.others_f8_s
            + work.sums_narrow / self.sums_f4_s
            + work.others_narrow / others_f4_s
        )


def work_of(roots: Iterable[Expr], times: float) -> Work:
    """What it takes to evaluate these expressions so many times, as a rule."""
    counts = [0.0, 0.0, 0.0, 0.0]
    for node in usual(roots):
        if node.op not in _FREE:
            operands = [node.dtype, *(argument.dtype for argument in node.args)]
            wide = max(map(item_size, operands)) >= 8
            counts[(0 if wide else 2) + (node.op not in _SUMS)] += times
    return Work(*counts)
