"""Plans: made by the passes, or moved from a known plan of the same structure to other sizes."""

from __future__ import annotations

from collections.abc import Hashable

from cachetools import LRUCache

from npaccel.ir.nodes import Plan, Trace
from npaccel.ir.passes import DEFAULT_LIMITS, plan
from npaccel.ir.passes.move import move
from npaccel.ir.passes.structure import Structure, structure
from npaccel.runtime.collector import uncollected

__all__ = ["Planner"]

# Plans of one sequence of operations that are looked at before a new one is made.
VARIANTS = 8
# Requests from which the garbage collector would take a noticeable part of the planning.
MANY = 500


class _Known:
    """A trace that was planned; its structure is worked out when a second one looks alike."""

    __slots__ = ("_structure", "plan", "trace")

    def __init__(self, trace: Trace, planned: Plan) -> None:
        self.trace = trace
        self.plan = planned
        self._structure: Structure | None = None

    def moved(self, trace: Trace, wanted: Structure) -> Plan | None:
        if self._structure is None:
            self._structure = structure(self.trace, DEFAULT_LIMITS)
        return move(self.plan, trace, DEFAULT_LIMITS) if self._structure == wanted else None


class Planner:
    """Makes plans; remembers those of the sequences of operations that were met last.

    Attributes
    ----------
    moved : how many plans were moved from known ones
    """

    def __init__(self, limit: int) -> None:
        self._known: LRUCache[Hashable, list[_Known]] = LRUCache(limit)
        self.moved = 0

    def plan(self, trace: Trace) -> Plan:
        """Return the plan of `trace`."""
        outline = tuple((r.op, r.loop, len(r.shape), r.errstate, r.numpys) for r in trace.requests)
        known = self._known.get(outline)
        if known is None:
            known = self._known[outline] = []
        found = self._move(known, trace) if known else None
        if found is not None:
            self.moved += 1
            return found
        with uncollected(len(trace.requests) > MANY):
            planned = plan(trace)
        known.insert(0, _Known(trace, planned))
        del known[VARIANTS:]
        return planned

    def _move(self, known: list[_Known], trace: Trace) -> Plan | None:
        wanted = structure(trace, DEFAULT_LIMITS)
        if wanted is None:
            return None
        for place, candidate in enumerate(known):
            found = candidate.moved(trace, wanted)
            if found is not None:
                known.insert(0, known.pop(place))
                return found
        return None

    def clear(self) -> None:
        self._known.clear()
