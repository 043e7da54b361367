"""Pass `liveness`: which requests anybody can tell from never having run."""

from __future__ import annotations

import dataclasses

from npaccel.ir.passes.draft import Draft, Fact, Need, Pass
from npaccel.ir.views import Region, overlaps

__all__ = ["LIVENESS"]


class _Content:
    """Which of a buffer's bytes matter at one point of the walk backward.

    kept: what is there at the end matters; but for the regions in `killed`, which are written
    later. reads: regions that are read later, before anything overwrites them.
    """

    __slots__ = ("kept", "killed", "limit", "reads")

    def __init__(self, kept: bool, limit: int) -> None:
        self.kept = kept
        self.killed: set[Region] = set()
        self.reads: dict[Region, None] = {}
        self.limit = limit

    def matters(self, place: Region) -> bool:
        if self.kept and place not in self.killed:
            return True
        return any(overlaps(place, read) for read in self.reads)

    def overwrite(self, place: Region) -> None:
        self.killed.add(place)
        self.reads.pop(place, None)

    def read(self, place: Region) -> None:
        self.reads[place] = None
        if len(self.reads) > self.limit:
            # Too many to tell apart: all of it matters.
            self.kept = True
            self.killed.clear()
            self.reads.clear()


def _need(fact: Fact, contents: dict[int, _Content]) -> Need:
    if any(a.write and contents[a.buffer].matters(a.region) for a in fact.accesses):
        return Need.VALUES
    if fact.may_warn:
        return Need.FLAGS if fact.reason is None else Need.VALUES
    return Need.NOTHING


def _run(draft: Draft) -> Draft:
    limit = draft.limits.views
    contents = {b.index: _Content(not b.dead, limit) for b in draft.trace.buffers}
    needs = [Need.NOTHING] * len(draft.facts)
    for place in range(len(draft.facts) - 1, -1, -1):
        fact = draft.facts[place]
        need = needs[place] = _need(fact, contents)
        if need is Need.NOTHING:
            continue
        if need is Need.VALUES and fact.request.mask is None:
            for access in fact.accesses:
                if access.write:
                    contents[access.buffer].overwrite(access.region)
        for access in fact.accesses:
            if not access.write:
                contents[access.buffer].read(access.region)
    return dataclasses.replace(draft, needs=tuple(needs))


LIVENESS = Pass("liveness", "drop requests whose results and warnings nobody sees", _run)
