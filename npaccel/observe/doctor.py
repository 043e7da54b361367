"""What each line of a profile that is not fast does, and what to do about it, in one sentence; and
what that is expected to gain, where it can be told (`observe/gains.py`)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from npaccel.observe import gains
from npaccel.observe.hindrances import (
    FEW_OPERATIONS,
    ON_ARRAYS,
    RECORD_S,
    REMEDIES,
    left_reason,
    reason_of,
)
from npaccel.observe.line_texts import (
    around,
    called,
    called_there,
    comes_once,
    computes_only,
    converted,
    draws_one,
    goes_through,
    grown,
    imports,
    lines_of,
    parsed,
    picked,
    picks_by_mask,
    reads_itself,
    used_as_number,
    writes_element,
)
from npaccel.observe.profile_data import Call, Line, Obstacle, Profile
from npaccel.observe.remedies import LEFT, PRODUCTS, RECORDED, as_written, remedy_of
from npaccel.observe.words import count, percent

__all__ = ["Advice", "advice"]

LEAST_SHARE: Final = 0.01  # of the program's time: less is not worth a sentence
WAITED: Final = 0.05  # the same of what waited for the compiler
RANDOM: Final = "draw many numbers by one call of a numpy.random.default_rng()"
RANDOM_WORDS: Final = re.compile(r"random|\brng\b")
DRAWN: Final = "they are drawn on all threads already; draw fewer"
SHUFFLES: Final = re.compile(r"\.(shuffle|permutation|permuted)\(")
SHUFFLED: Final = "to shuffle is one thread's work, element by element; shuffle less often"
# A loop of one thread's, since each takes as many bits as it happens to reject.
LEGACY: Final = re.compile(r"\brandom\.(randn|normal|standard_normal)\(")
NEWER: Final = "numpy.random.default_rng() draws such numbers on all threads"
ONCE: Final = "draws random numbers, once"
# What makes a generator draws nothing.
MAKES: Final = re.compile(r"\b(default_rng|RandomState|Generator|SeedSequence)\(")
MADE, MADE_ONCE = "makes a random generator each time", "makes a random generator"
MAKE_ONE: Final = "make one, before the loop"
ELEMENTS: Final = "Python goes through elements one by one"
ON_WHOLE: Final = "if these are numbers, write it with operations on whole arrays"
CALLED: Final = "Python itself, or what `{name}` does there, which is not recorded"
ELSEWHERE: Final = "Python itself or another library{what}, not array operations"
GROWN: Final = "`{function}` copies all of `{name}` each time"
COLLECT: Final = "append parts to a list, and join them once behind the loop"
CONVERTED: Final = "makes an array of `{name}`, whose numbers are Python's objects"
CONVERT_ONCE: Final = "make it once, before the loop, or keep these numbers in an array"
CLASS: Final = "has operators of another class (np.ma, pandas), and one of them {reason}"
PLAIN: Final = "compute with its plain arrays (x.data and x.mask, or np.asarray(x))"
PICKED: Final = "`{table}[{places}]` looks whether all of `{places}` lie within, and {reason}"
CLIP: Final = "np.take({table}, {places}, mode='clip') need not look"
COPIED: Final = "np.array({table})"  # where other code may change the table
READER: Final = "it needs values; call it after the loop, or less often"
NUMBER: Final = "compute with `{name}` itself, which need not be read"
PUT: Final = "puts elements into a result, which is computed before, after every"
WHERE: Final = "put many at once, or choose by np.where(), which is recorded"
IMPORTS: Final = "imports `{module}`, which is the module's own time"
OF_OTHERS: Final = "a library's own code {what}"
LIBRARIES: Final = ("site-packages", "/lib/python")
PAIRS: Final = "np.einsum(..., optimize=True) does three arrays and more by pairs"
CALLS: Final = ("small", "element")
SINGLE: Final = ("at once", "slower", "rare")  # of ON_ARRAYS, large ones
LAPACK: Final = ".linalg."
EINSUM_OF_TWO: Final = 3  # arguments
COMPUTED: Final = "kernels", "blocks", "loops"
MUCH: Final = 0.3  # of the program's time, or a line's
MOST: Final = 0.7
BEFORE: Final = 5  # lines before that of a run, among which is what made it run
NONE: Final = percent(0.0, 1.0)
MATTERS: Final = 0.1  # of the program's time: what is worth less does not hold it back
MEMORY: Final = 0.7  # of what one thread moves
KERNELS: Final = "computes in kernels, on {of}, and nothing holds it back"
FUNCTIONS: Final = "is done by functions of npaccel's own, on {of}, and nothing holds it back"
MOVES: Final = "computes in kernels at {speed:.0f} GB/s, which is what this machine's memory gives"
SMALLER: Final = "numbers of fewer bytes (float32, int32) take less"
NOT_YET: Final = "runs by blocks, without kernels, until compiling pays: {seconds:.2g} s"
EAGER: Final = "npaccel.config.tiering = 'eager' compiles in the first run, for all later ones"
ONCE_ONLY: Final = "runs by blocks, without kernels, since it comes once or twice: {seconds:.2g} s"
MASKED: Final = "`{picked}` has to know how many the mask picks, and {what}"
CHOOSE: Final = "np.where(mask, new, old) need not, nor x.sum(where=mask)"
NUMPYS: Final = "is NumPy's own there, which is not recorded"
LEAST_CUTS: Final = 4  # fewer runs are no loop that is cut


class Advice(NamedTuple):
    """seconds : that it is about. what : what happens there; remedy : what to do, or ''. gain_s :
    how many of the seconds the remedy is expected to save; None: that can't be told."""

    site: str
    seconds: float
    what: str
    remedy: str
    gain_s: float | None = None

    @property
    def worth_s(self) -> float:
        """By which they are ordered; where nothing is known it may be all or nothing."""
        return self.seconds / 2 if self.gain_s is None else self.gain_s

    def share(self, wall_s: float) -> str:
        """Of the program's time: what the remedy saves, or what it is about."""
        part = percent(self.seconds, wall_s)
        if self.gain_s is None and self.remedy:
            return f"takes {part}, what that saves is not known"
        saved = percent(self.gain_s or 0.0, wall_s)
        return f"may save {saved}" if self.remedy and saved != NONE else f"takes {part}"

    def sentence(self) -> str:
        return f"{self.what}: {self.remedy}" if self.remedy else self.what


def advice(profile: Profile) -> list[Advice]:
    """One for each line that is not fast, that first which is worth most."""
    found: dict[str, Advice] = {}
    least = LEAST_SHARE * profile.wall_s
    for one in (*_waits(profile), *_of_runs(profile), *_of_lines(profile), *_of_calls(profile)):
        known = found.get(one.site)
        if one.seconds >= least and (known is None or known.seconds < one.seconds):
            found[one.site] = one
    told = sorted(_by_loop(profile, found.values()), key=lambda one: -one.worth_s)
    if not told or told[0].worth_s < MATTERS * profile.wall_s:
        told += _in_kernels(profile)
    return told


def _in_kernels(profile: Profile) -> Iterator[Advice]:
    """Lines that take long and that nothing holds back."""
    for line in profile.lines:
        seconds, own = line.seconds.get("kernels", 0.0), line.seconds.get("functions", 0.0)
        of = count(int(profile.about.get("threads") or 1), "thread")
        if line.line and own >= MUCH * profile.wall_s and not _is_random(profile, line):
            yield Advice(line.site, own, FUNCTIONS.format(of=of), "", 0.0)
        elif line.line and seconds >= MUCH * profile.wall_s:
            near = MEMORY * profile.memory_bytes_s
            moves = line.bytes / seconds if profile.memory_bytes_s else 0.0
            what, remedy = KERNELS.format(of=of), ""
            if moves >= near > 0:
                what, remedy = MOVES.format(speed=moves / 1e9), SMALLER
            yield Advice(line.site, seconds, what, remedy, None if remedy else 0.0)


def _by_loop(profile: Profile, found: Iterable[Advice]) -> list[Advice]:
    """Lines of a loop over elements, which is written otherwise as a whole, are told of as one."""
    loops: dict[str, Advice] = {}
    for one in sorted(found, key=lambda one: -one.seconds):
        file, _, line = one.site.rpartition(":")
        held = around(profile, file, int(line), ast.For) if one.remedy == ON_WHOLE else None
        key = f"{file}:{held[-1].lineno}, loop" if held else one.site
        known = loops.get(key)
        if known is None:
            loops[key] = one
        else:
            seconds = known.seconds + one.seconds
            loops[key] = known._replace(seconds=seconds, gain_s=gains.part(seconds, gains.ONE_CALL))
    return list(loops.values())


def _waits(profile: Profile) -> Iterator[Advice]:
    """The compiler was not ready."""
    seconds = profile.waits.get("compiling", 0.0)
    lines = [line for line in profile.lines if line.seconds.get("blocks")]
    planning = profile.totals()["planning"]
    if lines and seconds >= WAITED * profile.wall_s:
        what = f"waits for the compiler: {seconds:.2g} s by blocks, without kernels"
        site = max(lines, key=lambda line: line.seconds["blocks"]).site
        gain = gains.compiled(profile, seconds)
        yield Advice(site, seconds, what, _later(profile, came=gain is not None), gain)
    for why, what in [("not yet", NOT_YET), ("once", ONCE_ONLY)]:
        brief = profile.waits.get(why, 0.0)
        if lines and brief >= WAITED * profile.wall_s:
            site = max(lines, key=lambda line: line.seconds["blocks"]).site
            gain = gains.compiled(profile, brief)
            yield Advice(site, brief, what.format(seconds=brief), EAGER, gain)
    lines = [line for line in profile.lines if line.seconds.get("planning")]
    if lines and planning >= WAITED * profile.wall_s:
        what = f"waits for planning and compiling in this process: {planning:.2g} s"
        site = max(lines, key=lambda line: line.seconds["planning"]).site
        gain = gains.planned(profile, planning)
        yield Advice(site, planning, what, _later(profile, came=True), gain)


def _later(profile: Profile, *, came: bool) -> str:
    """came : there were kernels before the end."""
    if profile.about.get("cache") == "on":
        return "in this first run only; kernels are on disk now" if came else EAGER
    return "npaccel.config.cache = 'on' keeps kernels for the next run"


def _of_runs(profile: Profile) -> Iterator[Advice]:
    """What cuts the program into runs of few operations."""
    for one in profile.obstacles:
        cut = one.size <= gains.CUT_OPERATIONS * one.calls and one.calls >= LEAST_CUTS
        if one.kind not in ON_ARRAYS and cut:
            told = _hindered(profile, one, one.seconds + _single_s(profile, one))
            few = one.size <= FEW_OPERATIONS * one.calls
            if few or told.gain_s is None or told.gain_s >= LEAST_SHARE * profile.wall_s:
                yield told


def _single_s(profile: Profile, cut: Obstacle) -> float:
    """Of operations that NumPy was found to do as fast, one by one, since their loop is cut."""
    return sum(
        one.seconds
        for one in profile.obstacles
        if one.kind in SINGLE and one.file == cut.file and _in_loop(profile, cut, one.line)
    )


def _in_loop(profile: Profile, cut: Obstacle, line: int) -> bool:
    """Whether the line is in the innermost loop that is cut."""
    loops = around(profile, cut.file, cut.line, ast.For, ast.While)
    if loops is None:
        return abs(line - cut.line) < BEFORE
    return bool(loops) and line in lines_of(loops[-1])


def _hindered(profile: Profile, one: Obstacle, seconds: float) -> Advice:
    size = one.size / max(one.calls, 1)
    what = reason_of(one.kind, size, int(profile.about.get("threshold", 0)))
    remedy = REMEDIES["single" if one.kind == "small" and round(size) == 0 else one.kind]
    site = _site(one.file, one.line)
    if _is_library(profile, one.file):
        return Advice(site, seconds, OF_OTHERS.format(what=what), "")
    of = gains.on_arrays if one.kind in ON_ARRAYS else gains.together
    gain = of(profile, one, seconds)
    if one.kind == "small" and LAPACK in called(parsed(profile.text_of(one.file, one.line))):
        gain = None  # much of what it takes is not being called
    inside = _inside(profile, one) if one.kind == "element" else ""
    if inside:
        return Advice(site, seconds, f"`{inside}` {what}", "")
    if one.kind == "read":
        return _reads(profile, one, what, Advice(site, seconds, what, remedy, gain))
    if one.kind == "pointer":
        # It is told of the line that records next, which may be the first one of the next round.
        before = range(one.line, one.line - BEFORE, -1)
        named = _indexed(profile, one.file, (*before, *range(one.line, one.line + BEFORE)))
        if named is not None:
            return named._replace(seconds=seconds, gain_s=gain)
    return Advice(site, seconds, what, remedy, gain)


def _is_library(profile: Profile, file: str) -> bool:
    """Whether it is none of the program's, which may be installed, too."""
    main = profile.lines[0].file if profile.lines else ""
    return any(part in file and part not in main for part in LIBRARIES)


def _inside(profile: Profile, one: Obstacle) -> str:
    """NumPy's function that takes elements there, where the line itself takes none; or ''."""
    tree = parsed(profile.text_of(one.file, one.line))
    subscripts = any(isinstance(node, ast.Subscript) for node in ast.walk(tree))
    return "" if subscripts else called(tree)


def _reads(profile: Profile, one: Obstacle, what: str, told: Advice) -> Advice:
    """What the line's text says of what reads there."""
    tree = parsed(profile.text_of(one.file, one.line))
    reader, (table, places) = _reader(profile, one, tree), picked(tree, computed=True)
    if reader:
        word, remedy = remedy_of(_taking_most(profile, one) or reader)
        numpys = _line_s(profile, one, "numpy")
        alike = word not in PRODUCTS and told.seconds >= MUCH * numpys
        seconds = told.seconds + numpys if alike else told.seconds
        return Advice(told.site, seconds, f"`{reader}` {what}", remedy if word else READER)
    if writes_element(tree):
        what = what.replace("reads a result after every", PUT)
        return told._replace(what=what, remedy=WHERE, gain_s=None)
    mask = picks_by_mask(tree)
    if mask:
        return told._replace(what=MASKED.format(picked=mask, what=what), remedy=CHOOSE, gain_s=None)
    number = used_as_number(tree)
    if number:
        return told._replace(remedy=NUMBER.format(name=number), gain_s=None)
    if computes_only(tree):
        seconds = max(told.seconds, _line_s(profile, one))
        gain = gains.together(profile, one, seconds)
        return Advice(told.site, seconds, CLASS.format(reason=what), PLAIN, gain)
    if table and _looks(profile, one):
        what = PICKED.format(table=table, places=places, reason=what)
        kinds = {o.kind for o in profile.obstacles if (o.file, o.line) == (one.file, one.line)}
        own = COPIED.format(table=table) if "watched" in kinds else table
        return told._replace(what=what, remedy=CLIP.format(table=own, places=places), gain_s=None)
    return told


def _taking_most(profile: Profile, one: Obstacle) -> str:
    """NumPy's function that took most of the line's time, as there is something to say of it; or
    ''."""
    site = _site(one.file, one.line)
    calls = [c for c in profile.calls if c.site == site and remedy_of(c.function)[0]]
    most = max(calls, key=lambda call: call.seconds, default=None)
    much = most is not None and most.seconds >= MUCH * _line_s(profile, one)
    return most.function if most is not None and much else ""


def _line_s(profile: Profile, one: Obstacle, what: str = "") -> float:
    """Of its line; what : of that class only."""
    here = (line for line in profile.lines if (line.file, line.line) == (one.file, one.line))
    return sum(line.seconds.get(what, 0.0) if what else line.total_s for line in here)


def _looks(profile: Profile, one: Obstacle) -> bool:
    """Whether the line asks for the least and the greatest of something."""
    here = [(line.file, line.line) == (one.file, one.line) for line in profile.lines]
    named = ({n.name for n in run.nodes if n.line >= 0 and here[n.line]} for run in profile.flushes)
    return any(names >= {"minimum.reduce", "maximum.reduce"} for names in named)


def _reader(profile: Profile, one: Obstacle, tree: ast.AST) -> str:
    """NumPy's function that reads there what is pending: it takes much of the line's time, or there
    is nothing else that reads; or ''."""
    numpys, whole = _line_s(profile, one, "numpy"), _line_s(profile, one)
    own = numpys > 0 and numpys >= MUCH * whole
    return called(tree) if own or not reads_itself(tree) else ""


def _of_lines(profile: Profile) -> Iterator[Advice]:
    """What NumPy or Python did at a line."""
    for line in profile.lines:
        if not line.line:
            continue
        numpys, pythons = line.seconds.get("numpy", 0.0), line.seconds.get("python", 0.0)
        by_text = _by_text(profile, line, numpys + pythons)
        if by_text is not None:
            yield by_text
            continue
        if line.seconds.get("functions", 0.0) >= MUCH * profile.wall_s and _is_random(
            profile, line
        ):
            yield _drawn(profile, line)
        if numpys > 0:
            yield from _in_numpy(profile, line, numpys)
        if pythons > 0:
            yield _in_python(profile, line, pythons)


def _of_calls(profile: Profile) -> Iterator[Advice]:
    """Calls on few elements: Python's time there is found at the ends of loops, and by functions
    at the lines that call them."""
    for one in profile.obstacles:
        if one.kind in CALLS and one.seconds > _line_s(profile, one):
            yield _brief(profile, one, one.seconds)


def _brief(profile: Profile, one: Obstacle, seconds: float) -> Advice:
    """Calls on few elements, of which it is found elsewhere how long they take."""
    line = Line(one.file, one.line, "", one.calls, {"python": seconds})
    by_text = _by_text(profile, line, seconds)
    if by_text is not None:
        return by_text
    drawn = _is_random(profile, line)
    return _drawn(profile, line) if drawn else _hindered(profile, one, seconds)


def _by_text(profile: Profile, line: Line, seconds: float) -> Advice | None:
    """What the line's text says of what Python and NumPy do there, again and again."""
    if seconds < MUCH * line.total_s or comes_once(profile, line.file, line.line):
        return None
    tree = parsed(profile.text_of(line.file, line.line))
    gain = gains.part(seconds, gains.ONE_CALL)
    function, name = grown(tree)
    if function:
        what = GROWN.format(function=function, name=name)
        return Advice(line.site, seconds, what, COLLECT, gain)
    made = converted(tree)
    if made and line.seconds.get("python", 0.0) >= MUCH * line.total_s:
        return Advice(line.site, seconds, CONVERTED.format(name=made), CONVERT_ONCE, gain)
    return None


def _in_numpy(profile: Profile, line: Line, seconds: float) -> Iterator[Advice]:
    calls = [call for call in profile.calls if call.site == line.site]
    obstacles = _obstacles(profile, line)
    if calls:
        first = max(calls, key=lambda call: (call.seconds, call.calls))
        words = f"{first.function} {first.reason}"
        drawn = _is_random(profile, line) and first.seconds < MUCH * seconds
        if remedy_of(first.function)[0] and not remedy_of(first.function)[1]:
            yield Advice(line.site, seconds, left_reason(first.function, first.reason), "")
        elif drawn:
            yield _drawn(profile, line)
        elif "random" in words:
            yield _drawn(profile, line)._replace(what=left_reason(first.function, first.reason))
        else:
            yield _left(profile, line, seconds, first)
    elif _is_random(profile, line):
        yield _drawn(profile, line)
    elif obstacles and (obstacles[0].kind not in SINGLE or obstacles[0].seconds >= MUCH * seconds):
        yield _hindered(profile, obstacles[0], seconds)
    else:
        found = _pythons(profile, line, seconds)
        name = called(parsed(profile.text_of(line.file, line.line)))
        what = f"calls `{name}`, which is NumPy's own there" if name else NUMPYS
        own = _own(line, seconds, name, what)
        own = own._replace(remedy=PAIRS) if found.remedy == PAIRS else own
        yield found if found.what == ELEMENTS else own


def _left(profile: Profile, line: Line, seconds: float, call: Call) -> Advice:
    """What NumPy ran, since there are no kernels for it."""
    name = as_written(parsed(profile.text_of(line.file, line.line)), call.function)
    found = remedy_of(call.function, call.reason)
    word, remedy = remedy_of(name.strip("`"), call.reason) if not found[0] else found
    gain = None
    if word in RECORDED or word in LEFT:  # with what making and dropping such things takes there
        seconds = line.total_s
        gain = (
            gains.part(seconds, LEFT[word]) if word in LEFT else gains.by_kernels(profile, seconds)
        )
    return Advice(line.site, seconds, left_reason(name, call.reason), remedy, gain)


def _own(line: Line, seconds: float, name: str, what: str) -> Advice:
    """A function of NumPy's that nobody counted, by its name."""
    word, remedy = remedy_of(name)
    gain = gains.part(seconds, LEFT[word]) if word in LEFT else None
    return Advice(line.site, seconds, what, remedy if word else "", gain)


def _drawn(profile: Profile, line: Line) -> Advice:
    """Random numbers, some at a time or many."""
    seconds = sum(took for name, took in line.seconds.items() if name not in COMPUTED)
    what = f"np.random takes {percent(seconds, profile.wall_s)}"
    once = comes_once(profile, line.file, line.line)
    makes = MAKES.search(profile.text_of(line.file, line.line))
    if once and not makes:
        return Advice(line.site, seconds, ONCE, "")
    known = (one.calls for one in _obstacles(profile, line) if one.kind in CALLS)
    brief = gains.brief_calls(seconds, sum(known)) is not None  # few numbers each
    brief |= line.seconds.get("python", 0.0) >= MUCH * seconds
    if line.seconds.get("functions", 0.0) >= MUCH * seconds and not brief:
        if LEGACY.search(profile.text_of(line.file, line.line)):
            return Advice(line.site, seconds, what, NEWER, gains.part(seconds, gains.NEWER))
        shuffles = SHUFFLES.search(profile.text_of(line.file, line.line))
        return Advice(line.site, seconds, what, SHUFFLED if shuffles else DRAWN)
    if makes:
        saved = gains.part(seconds, gains.ONE_CALL)
        each = Advice(line.site, seconds, MADE, MAKE_ONE, saved)
        return Advice(line.site, seconds, MADE_ONCE, "") if once else each
    counted = (one.calls for one in _obstacles(profile, line))
    recording = line.seconds.get("recording", 0.0)
    recorded = round(recording / RECORD_S) if recording >= MUCH * seconds else 0
    calls = max(line.calls, recorded, *counted, 0)
    gain = gains.brief_calls(seconds, calls)
    single = draws_one(parsed(profile.text_of(line.file, line.line)))
    if single and line.seconds.get("python", 0.0) >= MOST * seconds:
        gain = gains.part(seconds, gains.ONE_CALL)
    return Advice(line.site, seconds, what, RANDOM, gain)


def _in_python(profile: Profile, line: Line, seconds: float) -> Advice:
    if _is_random(profile, line) and seconds >= line.seconds.get("numpy", 0.0):
        return _drawn(profile, line)
    obstacles = _obstacles(profile, line)
    if obstacles:
        return _hindered(profile, obstacles[0], seconds)
    beside = _beside(profile, line)
    if beside and beside[0].seconds >= MUCH * seconds:
        return _brief(profile, beside[0], seconds)
    near = range(line.line - BEFORE, line.line + BEFORE)
    reads = [o for o in profile.obstacles if o.file == line.file and o.line in near]
    named = _indexed(profile, line.file, [line.line])
    if named is not None and any(one.kind == "pointer" for one in reads):
        return named._replace(seconds=seconds, gain_s=gains.by_kernels(profile, seconds))
    return _pythons(profile, line, seconds)


def _pythons(profile: Profile, line: Line, seconds: float) -> Advice:
    """Of what nothing is counted: the line's text says what it may be."""
    tree = parsed(profile.text_of(line.file, line.line))
    if goes_through(profile, line.file, line.line):
        seconds = sum(took for name, took in line.seconds.items() if name not in COMPUTED)
        gain = gains.part(seconds, gains.ONE_CALL)
        return Advice(line.site, seconds, ELEMENTS, ON_WHOLE, gain)
    name = called(tree)
    if name:
        pairs = any(
            isinstance(node, ast.Call) and len(node.args) > EINSUM_OF_TWO
            for node in ast.walk(tree)
            if name.endswith(".einsum")
        )
        own = _own(line, seconds, name, CALLED.format(name=name))
        return own._replace(remedy=PAIRS) if pairs else own
    module = imports(tree)
    if module:
        return Advice(line.site, seconds, IMPORTS.format(module=module), "")
    other = called(tree, numpys=False)
    what = ELSEWHERE.format(what=f" (`{other}`)" if "." in other else "")
    return Advice(line.site, seconds, what, "")


def _obstacles(profile: Profile, line: Line) -> list[Obstacle]:
    """On arrays, at that line, the longest first."""
    return [
        one
        for one in profile.obstacles
        if (one.file, one.line) == (line.file, line.line) and one.kind in ON_ARRAYS
    ]


def _beside(profile: Profile, line: Line) -> list[Obstacle]:
    """Calls on few elements in the same innermost loop, at whose last line Python's time is found,
    or in functions that the line calls; the longest first."""
    loops = around(profile, line.file, line.line, ast.For, ast.While) or []
    own = map(lines_of, [*loops[-1:], *called_there(profile, line.file, line.line)])
    near = {number for lines in own for number in lines}
    return [
        one
        for one in profile.obstacles
        if one.kind in CALLS and one.file == line.file and one.line in near
    ]


def _is_random(profile: Profile, line: Line) -> bool:
    text = profile.text_of(line.file, line.line)
    if remedy_of(called(parsed(text)))[0]:
        return False  # of what is drawn: np.savetxt(file, rng.random(9))
    return "numpy/random" in line.file or RANDOM_WORDS.search(text) is not None


def _indexed(profile: Profile, file: str, lines: Iterable[int]) -> Advice | None:
    """Of the first of these lines in which an array picks from another one by its name."""
    for number in lines:
        table, places = picked(parsed(profile.text_of(file, number)))
        if table:
            what = f"`{table}[{places}]` leaves npaccel"
            return Advice(_site(file, number), 0.0, what, f"wrap `{table}` with npaccel.asarray")
    return None


def _site(file: str, line: int) -> str:
    return f"{file}:{line}" if line else file
