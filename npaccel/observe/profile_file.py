"""What a profile has counted, and its file: JSON, an object a line, the first with the version.

Reading it out is left to whoever shows it (observe/profile.py): a program that is profiled writes
what there is, and no more is loaded into it for that than is here.
"""

from __future__ import annotations

import binascii
import json
import linecache
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from npaccel import _native
from npaccel.errors import ProfileError

__all__ = ["AROUND", "Counted", "Recorded", "load", "no_profile", "recorded"]

VERSION: Final = 3
FIRST_KEY: Final = "npaccel_profile"
OURS: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep
# What is kept at most, the longest first.
MOST_ROWS: Final = 4096
MOST_PLAN_BYTES: Final = 4 << 20  # of all plans that have to be made again
# Of files with more lines, only those around lines that took time are kept.
MOST_SOURCE: Final = 3000
AROUND: Final = 3
LEAST_NS: Final = 1000

Counts = Mapping[tuple[str, str, str], float]


class Counted(NamedTuple):
    """What others count: per (function, reason, site) calls that NumPy ran and their seconds; what
    hinders by (kind, file, line); `npaccel.stats()`."""

    calls: Counts
    seconds: Counts
    hindrances: Mapping[tuple[str, str, int], tuple[float, float, float]]
    stats: Mapping[str, Any]


@dataclass
class Recorded:
    """The rows of a file.

    Attributes
    ----------
    head : about, wall_s, usage, counts, every, as `profile_data.Profile` has them; what the
        processor takes, as `hindrances.limits` has it.
    rules : of operations: number, name, kind, dtypes.
    lines : file, line, function, calls, nanoseconds per activity; as native/run/profile.c has them.
    runs : whether without kernels; times; nanoseconds; operations as line, rule, elements and who
        wrote what it reads; steps as kind, nanoseconds, operations; why there are no kernels, or
        the plan's steps, or what the plan can be made of again.
    calls, obstacles : as `profile_data` has them.
    events : as native/run/profile.c packs them.
    source : file, and texts by line.
    """

    head: dict[str, Any]
    rules: list[list[Any]] = field(default_factory=list)
    lines: list[list[Any]] = field(default_factory=list)
    runs: list[list[Any]] = field(default_factory=list)
    calls: list[list[Any]] = field(default_factory=list)
    obstacles: list[list[Any]] = field(default_factory=list)
    events: bytes = b""
    source: list[list[Any]] = field(default_factory=list)

    def write(self, path: str | os.PathLike[str]) -> None:
        """As a file; one that is there is replaced."""
        rows: list[Any] = [{FIRST_KEY: VERSION} | self.head]
        for name in PARTS:
            rows += [{name: row} for row in getattr(self, name)]
        rows.append({"events": _text(self.events)})
        rows.append({"end": len(rows)})
        texts = map(json.JSONEncoder(separators=(",", ":"), check_circular=False).encode, rows)
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(texts) + "\n")
        except OSError as error:
            raise ProfileError(f"{path}: the profile can't be written: {error.strerror}") from error


PARTS: Final = ("rules", "lines", "runs", "calls", "obstacles", "source")


def _text(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def recorded(counted: tuple[Any, ...], before: Counted, after: Counted) -> Recorded:
    """What is to be kept.

    counted : what the C core says. before, after : what others had counted when it began, and when
        it was over.
    """
    wall_ns, lines, runs, events, every, _ = counted
    made = Recorded({"wall_s": 1e-9 * wall_ns, "counts": _counts(before, after), "every": every})
    made.events = events
    for file, number, function, calls, spent in lines:
        where = ["", 0, ""] if file.startswith(OURS) else [file, number, function]
        made.lines.append([*where, calls, list(spent)])
    made.runs = list(_runs(runs))
    used = {request[1] for run in made.runs for request in run[3]}
    known = _native.rules()
    made.rules = [[n, known[n].name, int(known[n].kind), list(known[n].loop)] for n in sorted(used)]
    made.calls, made.obstacles = _calls(before, after), _obstacles(before, after)
    hot = [row for row in made.lines if row[1] and sum(row[4]) > LEAST_NS]
    in_runs = {request[0] for run in made.runs for request in run[3]}
    made.source = list(_source([*hot, *(made.lines[number] for number in in_runs)]))
    return made


def _runs(runs: Sequence[Any]) -> Iterator[list[Any]]:
    """In their order, which events refer to. Plans of the longest ones come first."""
    left = MOST_PLAN_BYTES
    plans: dict[Any, Any] = {}
    for program, *_ in sorted(runs, key=lambda run: -run[3]):
        if program not in plans:
            info = program.info if program is not None else ""
            plan = info if isinstance(info, str) else info.plain()
            if isinstance(plan, bytes):
                left -= len(plan)
                plan = {"again": _text(plan) if left >= 0 else ""}
            plans[program] = plan
    for program, single, times, ns, requests, steps in runs:
        own, took = [list(r) for r in requests], [list(s) for s in steps]
        yield [int(single), times, ns, own, took, plans[program]]


def _counts(before: Counted, after: Counted) -> dict[str, int]:
    found = {}
    for name, value in after.stats.items():
        if isinstance(value, int) and value != before.stats.get(name, 0):
            found[name] = value - before.stats.get(name, 0)
    return found


def _calls(before: Counted, after: Counted) -> list[list[Any]]:
    found: list[list[Any]] = []
    for key, calls in after.calls.items():
        more = int(calls - before.calls.get(key, 0))
        if more > 0:
            seconds = after.seconds.get(key, 0.0) - before.seconds.get(key, 0.0)
            found.append([*key, more, max(seconds, 0.0)])
    return sorted(found, key=lambda row: -row[4])[:MOST_ROWS]


def _obstacles(before: Counted, after: Counted) -> list[list[Any]]:
    found: list[list[Any]] = []
    for place, amounts in after.hindrances.items():
        old = before.hindrances.get(place, (0.0, 0.0, 0.0))
        calls, seconds, size = (a - b for a, b in zip(amounts, old, strict=True))
        if calls > 0:
            found.append([*place, int(calls), seconds, size])
    return sorted(found, key=lambda row: -row[4])[:MOST_ROWS]


def _source(lines: Sequence[Sequence[Any]]) -> Iterator[list[Any]]:
    """Texts of the files that lines are of."""
    numbers: dict[str, set[int]] = {}
    for file, number, *_ in lines:
        numbers.setdefault(file, set()).add(number)
    for file, own in numbers.items():
        texts = dict(enumerate((t.rstrip("\n") for t in linecache.getlines(file)), 1))
        if len(texts) > MOST_SOURCE or "site-packages" in file or "/lib/python" in file:
            near = {n + k for n in own for k in range(-AROUND, AROUND + 1)}
            texts = {n: texts[n] for n in sorted(near) if n in texts}
        if texts:
            yield [file, texts]


def load(path: str | os.PathLike[str]) -> Recorded:
    """What is in a file.

    Raises
    ------
    ProfileError : there is no such file, or it is no profile, of another version or truncated.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        what = f"{path}: can't read a profile there: {error.strerror}; "
        raise ProfileError(what + "`npaccel profile SCRIPT` writes one") from error
    except UnicodeDecodeError:
        raise no_profile(path, "it is not text") from None
    rows = text.splitlines()
    head = _object(path, rows[0] if rows else "", 1)
    version = head.get(FIRST_KEY)
    if version is None:
        raise no_profile(path, f"its first line has no {FIRST_KEY!r}")
    if version != VERSION:
        raise ProfileError(
            f"{path}: a profile of version {version}; this npaccel reads version {VERSION}: "
            "read it with the npaccel that wrote it, or take it anew"
        )
    last = _object(path, rows[-1], len(rows))
    if last.get("end") != len(rows) - 1:
        raise _truncated(path, len(rows))
    try:
        return _filled(head, [json.loads(row) for row in rows[1:-1]])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise no_profile(path, f"a line is not as it was written ({error})") from error


def _object(path: str | os.PathLike[str], row: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(row)
    except ValueError:
        found = None
    if isinstance(found, dict):
        return found
    raise (
        no_profile(path, "its first line is no object") if number == 1 else _truncated(path, number)
    )


def no_profile(path: str | os.PathLike[str], why: str) -> ProfileError:
    return ProfileError(
        f"{path}: this is no profile of npaccel, {why}; `npaccel profile SCRIPT` writes one"
    )


def _truncated(path: str | os.PathLike[str], rows: int) -> ProfileError:
    return ProfileError(
        f"{path}: this profile is cut off after {rows} lines; copy it again, or take it anew"
    )


def _filled(head: dict[str, Any], rows: Sequence[Mapping[str, Any]]) -> Recorded:
    made = Recorded({name: value for name, value in head.items() if name != FIRST_KEY})
    for row in rows:
        ((name, values),) = row.items()
        if name == "events":
            made.events = binascii.a2b_base64(values)
        elif name == "source":
            made.source.append([values[0], {int(line): text for line, text in values[1].items()}])
        else:
            getattr(made, name).append(values)
    return made
