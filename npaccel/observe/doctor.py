"""What each line of a profile that is not fast does, and what to do about it, in one sentence."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from npaccel.observe.hindrances import (
    FEW_OPERATIONS,
    ON_ARRAYS,
    REMEDIES,
    left_reason,
    reason_of,
)
from npaccel.observe.profile_data import Line, Obstacle, Profile

__all__ = ["Advice", "advice"]

LEAST_SHARE: Final = 0.01  # of the program's time: less is not worth a sentence
WAITED: Final = 0.05  # the same of what waited for the compiler
# NumPy's own functions, by what the reason says.
LEFT_REMEDIES: Final = {
    "matmul": "BLAS does it on all processors; fewer, larger products take less",
    "matrix product": "BLAS does it on all processors; fewer, larger products take less",
    "underflow": "np.errstate(all='warn', under='ignore') lets it be recorded",
    "object": "arrays of Python objects stay NumPy's; use numbers",
    "float128": "use float64, whose kernels there are",
    "complex256": "use complex128, whose kernels there are",
}
LEFT_REMEDY: Final = "docs/coverage.md lists what is accelerated"
RANDOM: Final = "draw many numbers by one call of a numpy.random.default_rng()"
RANDOM_WORDS: Final = re.compile(r"random|\brng\b")
DRAWN: Final = "they are drawn on all threads already; draw fewer, or float32 ones"
MUCH: Final = 0.3  # of the program's time
BEFORE: Final = 5  # lines before that of a run, among which is what made it run


class Advice(NamedTuple):
    """seconds : that it is about. what : what happens there; remedy : what to do, or ''."""

    site: str
    seconds: float
    what: str
    remedy: str

    def sentence(self) -> str:
        return f"{self.what}: {self.remedy}" if self.remedy else self.what


def advice(profile: Profile) -> list[Advice]:
    """One for each line that is not fast, the longest first."""
    found: dict[str, Advice] = {}
    least = LEAST_SHARE * profile.wall_s
    for one in (*_waits(profile), *_of_runs(profile), *_of_lines(profile)):
        known = found.get(one.site)
        if one.seconds >= least and (known is None or known.seconds < one.seconds):
            found[one.site] = one
    return sorted(found.values(), key=lambda one: -one.seconds)


def _waits(profile: Profile) -> Iterator[Advice]:
    """The compiler was not ready."""
    seconds = profile.waits.get("compiling", 0.0)
    lines = [line for line in profile.lines if line.seconds.get("blocks")]
    planning = profile.totals()["planning"]
    if lines and seconds >= WAITED * profile.wall_s:
        what = f"waits for the compiler: {seconds:.2g} s by blocks, without kernels"
        site = max(lines, key=lambda line: line.seconds["blocks"]).site
        yield Advice(site, seconds, what, _later(profile))
    brief = profile.waits.get("not yet", 0.0)
    if lines and brief >= WAITED * profile.wall_s:
        what = f"runs by blocks, without kernels, until compiling pays: {brief:.2g} s"
        site = max(lines, key=lambda line: line.seconds["blocks"]).site
        yield Advice(site, brief, what, "npaccel.config.tiering = 'eager' compiles at once")
    lines = [line for line in profile.lines if line.seconds.get("planning")]
    if lines and planning >= WAITED * profile.wall_s:
        what = f"waits for planning and compiling in this process: {planning:.2g} s"
        site = max(lines, key=lambda line: line.seconds["planning"]).site
        yield Advice(site, planning, what, _later(profile))


def _later(profile: Profile) -> str:
    if profile.about.get("cache") == "on":
        return "in this first run only; kernels are on disk now"
    return "npaccel.config.cache = 'on' keeps kernels for the next run"


def _of_runs(profile: Profile) -> Iterator[Advice]:
    """What cuts the program into runs of few operations."""
    for one in profile.obstacles:
        if one.kind not in ON_ARRAYS and one.size <= FEW_OPERATIONS * one.calls:
            yield _hindered(profile, one, one.seconds)


def _hindered(profile: Profile, one: Obstacle, seconds: float) -> Advice:
    size = one.size / max(one.calls, 1)
    what = reason_of(one.kind, size, int(profile.about.get("threshold", 0)))
    remedy = REMEDIES[one.kind]
    if one.kind == "pointer":
        # It is told of the line that records next, which may be the first one of the next round.
        before = range(one.line, one.line - BEFORE, -1)
        named = _indexed(profile, one.file, (*before, *range(one.line, one.line + BEFORE)))
        if named is not None:
            return named._replace(seconds=seconds)
    return Advice(_site(one.file, one.line), seconds, what, remedy)


def _of_lines(profile: Profile) -> Iterator[Advice]:
    """What NumPy or Python did at a line."""
    for line in profile.lines:
        if not line.line:
            continue
        numpys, pythons = line.seconds.get("numpy", 0.0), line.seconds.get("python", 0.0)
        drawn = line.seconds.get("functions", 0.0)
        if drawn >= MUCH * profile.wall_s and _is_random(profile, line):
            share = f"{100 * drawn / profile.wall_s:.0f} %"
            yield Advice(line.site, drawn, f"np.random takes {share}", DRAWN)
        if numpys > 0:
            yield from _in_numpy(profile, line, numpys)
        if pythons > 0:
            yield _in_python(profile, line, pythons)


def _in_numpy(profile: Profile, line: Line, seconds: float) -> Iterator[Advice]:
    calls = [call for call in profile.calls if call.site == line.site]
    obstacles = _obstacles(profile, line)
    if calls:
        first = max(calls, key=lambda call: (call.seconds, call.calls))
        words = f"{first.function} {first.reason}"
        remedies = [text for word, text in LEFT_REMEDIES.items() if word in words]
        if _is_random(profile, line) or "random" in words:
            remedies = [RANDOM]
        remedy = remedies[0] if remedies else LEFT_REMEDY
        yield Advice(line.site, seconds, left_reason(first.function, first.reason), remedy)
    elif _is_random(profile, line):
        share = f"{100 * seconds / profile.wall_s:.0f} %"
        yield Advice(line.site, seconds, f"np.random takes {share}", RANDOM)
    elif obstacles:
        yield _hindered(profile, obstacles[0], seconds)


def _in_python(profile: Profile, line: Line, seconds: float) -> Advice:
    share = f"{100 * seconds / profile.wall_s:.0f} %"
    if _is_random(profile, line):
        return Advice(line.site, seconds, f"np.random takes {share}", RANDOM)
    obstacles = _obstacles(profile, line)
    if obstacles:
        return _hindered(profile, obstacles[0], seconds)
    near = range(line.line - BEFORE, line.line + BEFORE)
    reads = [o for o in profile.obstacles if o.file == line.file and o.line in near]
    named = _indexed(profile, line.file, [line.line])
    if named is not None and any(one.kind == "pointer" for one in reads):
        return named._replace(seconds=seconds)
    what = f"Python itself or another library takes {share}, not array operations"
    return Advice(line.site, seconds, what, "")


def _obstacles(profile: Profile, line: Line) -> list[Obstacle]:
    """On arrays, at that line, the longest first."""
    return [
        one
        for one in profile.obstacles
        if (one.file, one.line) == (line.file, line.line) and one.kind in ON_ARRAYS
    ]


def _is_random(profile: Profile, line: Line) -> bool:
    text = profile.text_of(line.file, line.line)
    return "numpy/random" in line.file or RANDOM_WORDS.search(text) is not None


def _indexed(profile: Profile, file: str, lines: Iterable[int]) -> Advice | None:
    """Of the first of these lines in which an array picks from another one by its name."""
    for number in lines:
        try:
            tree = ast.parse(profile.text_of(file, number))
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Subscript)
                and isinstance(node.value, ast.Name)
                and isinstance(node.slice, ast.Name)
            ):
                what = f"`{ast.unparse(node)}` leaves npaccel"
                remedy = f"wrap `{node.value.id}` with npaccel.asarray"
                return Advice(_site(file, number), 0.0, what, remedy)
    return None


def _site(file: str, line: int) -> str:
    return f"{file}:{line}" if line else file
