"""Rules of drafts between passes; those of kernels and plans are in `npaccel.ir.verify`."""

from __future__ import annotations

from npaccel.ir.passes.draft import Draft, Need
from npaccel.ir.verify import must, verify_plan
from npaccel.ir.views import overlaps

__all__ = ["verify_draft"]


def _verify_order(draft: Draft, stage: str) -> None:
    """Conflicting requests of different groups run in program order (quadratic: small traces)."""
    rank: dict[int, int] = {}
    for place, group in enumerate(draft.groups):
        for member in group.members:
            must(member.request not in rank, stage, "a request is in two groups", str(member))
            rank[member.request] = place
    wanted = {place for place, need in enumerate(draft.needs) if need is not Need.NOTHING}
    must(set(rank) == wanted, stage, "a needed request is in no group", str(wanted - set(rank)))
    if len(rank) > 200:
        return
    for late in sorted(rank):
        for early in sorted(rank):
            if early < late and rank[early] > rank[late]:
                must(not _conflict(draft, early, late), stage, "order is lost", f"{early} {late}")


def _conflict(draft: Draft, early: int, late: int) -> bool:
    def seen(place: int) -> list[tuple[int, bool, object]]:
        silent = draft.needs[place] is Need.FLAGS
        accesses = draft.facts[place].accesses
        return [(i, a.write, a) for i, a in enumerate(accesses) if not (silent and a.write)]

    for i, write, _ in seen(early):
        for j, other_write, _ in seen(late):
            a, b = draft.facts[early].accesses[i], draft.facts[late].accesses[j]
            if (write or other_write) and a.buffer == b.buffer and overlaps(a.region, b.region):
                return True
    return False


def verify_draft(draft: Draft, stage: str) -> None:
    """Check what is known of the draft after the pass named `stage`."""
    if draft.groups:
        _verify_order(draft, stage)
    if draft.plan is not None:
        verify_plan(draft.plan, draft.trace, stage)
