"""Where a compiler rejects a kernel: plans of smaller ones, before NumPy's loops take over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from npaccel.errors import CompileError
from npaccel.later import later
from npaccel.own import time

if TYPE_CHECKING:
    from npaccel.ir import nodes, passes
else:
    nodes = later("npaccel.ir.nodes")
    passes = later("npaccel.ir.passes")

__all__ = ["CUT", "LOOPS", "Made", "Rejected", "cut_until", "first_rejected"]

T = TypeVar("T")
# Thirteen are enough for 4096 requests by halves, and as many for each that is rejected alone.
ATTEMPTS = 65
PATIENCE_S = 30.0
CUT = "the kernel was cut into smaller ones"
LOOPS = "the requests run with NumPy's own loops instead"


class Rejected(CompileError):
    """Kernels of a plan were rejected. kernels: the requests of each, and the compiler's words."""

    def __init__(self, kernels: Sequence[tuple[tuple[int, ...], str]]) -> None:
        super().__init__(kernels[0][1])
        self.kernels = kernels


class Made(NamedTuple, Generic[T]):
    """What was made of a plan. cuts, rejected: what changed the plan, and why; or nothing."""

    made: T
    plan: nodes.Plan
    cuts: dict[int, passes.Cut]
    rejected: Rejected | None


def first_rejected(error: Exception, planned: nodes.Plan) -> tuple[int, str]:
    """The first operation of the first kernel of that plan that was rejected, and its name; -1 and
    "" where no kernel was."""
    if not isinstance(error, Rejected):
        return -1, ""
    number = min(error.kernels[0][0])
    kernels = (step for step in planned.steps if isinstance(step, nodes.KernelStep))
    return number, next((step.kernel.name for step in kernels if number in step.requests), "")


def cut_until(trace: nodes.Trace, planned: nodes.Plan, make: Callable[[nodes.Plan], T]) -> Made[T]:
    """What `make` makes of a plan without rejected kernels.

    A rejected kernel's requests are planned again as kernels of half as many; where one alone is
    rejected NumPy's loop computes it, the others stay kernels.

    Raises
    ------
    Rejected : the first one, where nothing is left or it takes too long.
    """
    cuts: dict[int, passes.Cut] = {}
    first: Rejected | None = None
    end = time.monotonic() + PATIENCE_S
    for _ in range(ATTEMPTS):
        try:
            return Made(make(planned), planned, cuts, first)
        except Rejected as error:
            first = first or error
            alone = [found for found in error.kernels if len(found[0]) == 1]
            if alone:  # they were it, perhaps: what was with them is tried as a whole again
                cuts = {request: cut for request, cut in cuts.items() if cut.most == 0}
            for requests, why in alone or error.kernels:
                cut = passes.Cut(len(requests) // 2, f"not compiled: {why}")
                cuts.update(dict.fromkeys(requests, cut))
        planned = passes.plan(trace, cuts=cuts)
        kernels = any(isinstance(step, nodes.KernelStep) for step in planned.steps)
        if time.monotonic() > end or not kernels:
            break
    assert first is not None
    raise first
