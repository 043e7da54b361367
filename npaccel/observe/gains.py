"""What following a doctor's sentence gains, by a plain model; None where that can't be told.

Without what cuts it, a program takes about as long as its operations do in registers, by what their
steps and divisions take here (`observe/weights.py`), and as reading those arrays again that it does
not compute. Of what is not recorded nothing is counted; it
has a constant of its cause instead.
`bench/doctor.py` compares what is said with what remedies gain.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from npaccel.observe.hindrances import FEW_OPERATIONS
from npaccel.observe.profile_data import Flush, Obstacle, Profile

__all__ = [
    "CUT_OPERATIONS",
    "brief_calls",
    "by_kernels",
    "compiled",
    "on_arrays",
    "part",
    "planned",
    "together",
]

# What is left of the time: of calls for each element or number, which one call for all of them
# takes; of objects and of long doubles, in doubles.
ONE_CALL: Final = 0.05
DOUBLES: Final = 0.1
# Of normal numbers of the old generator, by the new one's (500,000 at a time, Z3, two threads).
NEWER: Final = 0.45
# Numbers in binary files, of what text takes.
BINARY: Final = 0.05
# Of what NumPy does on one thread, and is recorded then: on each of so many threads.
RECORDED: Final = 0.3
# Runs of up to so many operations may gain by being longer.
CUT_OPERATIONS: Final = 16
# Bytes that one larger array takes a second: results are fresh memory, what lies between is not.
LARGE_BYTES_S: Final = 1e10
# A call that takes longer does not spend its time with being a call.
BRIEF_S: Final = 2e-5
# What a run costs that is known, beside its kernels.
KNOWN_RUN_S: Final = 3e-5


def part(seconds: float, left: float) -> float:
    """left : of the time, without its hindrance."""
    return seconds * (1 - left)


def by_kernels(profile: Profile, seconds: float) -> float:
    """What NumPy did is recorded."""
    threads = max(int(profile.about.get("threads") or 1), 1)
    return part(seconds, RECORDED / threads)


def on_arrays(profile: Profile, one: Obstacle, seconds: float) -> float | None:
    """Of what hinders one operation at a time."""
    if one.kind == "small":
        return max(seconds - one.size / LARGE_BYTES_S, 0.0)
    if one.kind == "element":
        return part(seconds, ONE_CALL)
    return by_kernels(profile, seconds) if one.kind == "subclass" else 0.0


def together(profile: Profile, one: Obstacle, seconds: float) -> float | None:
    """Of what cuts the program in runs of few operations, which go through memory each: they are
    fused, and pass through it once; and nothing of what a run takes beside its operations stays."""
    few = one.size <= FEW_OPERATIONS * one.calls
    most = FEW_OPERATIONS if few else CUT_OPERATIONS
    near = (run for run in profile.flushes if run.paced_s > 0)
    runs = [run for run in near if _is_few(profile, run, one.file, most)]
    took = sum(run.seconds for run in runs)
    if took == 0:
        return None
    gain = part(seconds, sum(min(run.paced_s, run.seconds) for run in runs) / took)
    return min(gain + _beside(profile, one), seconds)


def _beside(profile: Profile, one: Obstacle) -> float:
    """What runs take there beside their operations."""
    here = (line for line in profile.lines if (line.file, line.line) == (one.file, one.line))
    return sum(
        line.seconds.get("running", 0.0) + line.seconds.get("planning", 0.0) for line in here
    )


def _is_few(profile: Profile, run: Flush, file: str, most: int) -> bool:
    of = (profile.lines[node.line].file for node in run.nodes if node.line >= 0)
    return len(run.nodes) <= most and file in of


def brief_calls(seconds: float, calls: int) -> float | None:
    """Of calls that one call replaces; None: they are not brief, or nobody counted them."""
    return part(seconds, ONE_CALL) if 0 < seconds < BRIEF_S * calls else None


def planned(profile: Profile, seconds: float) -> float:
    """Planning that a later run does without."""
    return max(seconds - KNOWN_RUN_S * profile.counts.get("flushes", 0), 0.0)


def compiled(profile: Profile, seconds: float) -> float | None:
    """Blocks that ran until there were kernels: by what these took for the same operations."""
    kernels = {_same(run): run.seconds / run.runs for run in _of(profile, "kernels")}
    gains = [
        run.seconds - run.runs * kernels[_same(run)]
        for run in _of(profile, "blocks")
        if _same(run) in kernels
    ]
    return min(max(sum(gains), 0.0), seconds) if gains else None


def _of(profile: Profile, what: str) -> Iterable[Flush]:
    """Runs of which most was that."""
    for run in profile.flushes:
        if run.groups and max(run.groups, key=lambda group: group.seconds).what == what:
            yield run


def _same(run: Flush) -> tuple[tuple[str, int], ...]:
    return tuple((node.name, node.line) for node in run.nodes)
