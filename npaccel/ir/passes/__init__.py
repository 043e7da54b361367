"""From a trace to a plan: the passes as a plain list, in the order in which they run."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from npaccel.errors import InternalError
from npaccel.ir.limits import DEFAULT_LIMITS, Limits
from npaccel.ir.nodes import Plan, Trace
from npaccel.ir.passes.check import verify_draft
from npaccel.ir.passes.draft import Cut, Draft, Pass
from npaccel.ir.passes.facts import FACTS
from npaccel.ir.passes.form import FORM
from npaccel.ir.passes.group import GROUP
from npaccel.ir.passes.liveness import LIVENESS
from npaccel.ir.passes.shifts import SHIFTS
from npaccel.ir.verify import verify_trace

__all__ = ["DEFAULT_LIMITS", "PIPELINE", "Cut", "Limits", "Pass", "plan"]

PIPELINE: tuple[Pass, ...] = (FACTS, SHIFTS, LIVENESS, GROUP, FORM)
NOWHERE: Mapping[int, Cut] = MappingProxyType({})


def plan(
    trace: Trace,
    *,
    limits: Limits = DEFAULT_LIMITS,
    cuts: Mapping[int, Cut] = NOWHERE,
    check: bool = False,
    wraps: bool = True,
    pipeline: tuple[Pass, ...] = PIPELINE,
) -> Plan:
    """Return the kernels and single requests that compute what `trace` asks for.

    Parameters
    ----------
    cuts : by number of a request, for those in kernels that a compiler has rejected
    check : verify the trace, and what each pass made of it
    wraps : whether arrays may be read around an axis (see `Wrap`): the host's core alone runs that

    Raises
    ------
    VerifyError : under `check`; names the pass
    """
    if check:
        verify_trace(trace)
    draft = Draft(trace, limits, cuts)
    for step in pipeline:
        if step is SHIFTS and (cuts or not wraps):
            continue
        draft = step.run(draft)
        if check:
            verify_draft(draft, step.name)
    if draft.plan is None:
        raise InternalError("the pipeline ended without a plan")
    return draft.plan
