"""What a profile holds, and its file: JSON, an object a line, the first with the version."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from npaccel.errors import ProfileError

__all__ = ["CLASSES", "MARKS", "Call", "Event", "Kernel", "Line", "Obstacle", "Profile", "read"]

VERSION: Final = 1
FIRST_KEY: Final = "npaccel_profile"
# What time goes to, in words; in the order in which lists are shown.
CLASSES: Final = {
    "kernels": "kernels",
    "functions": "functions of ours at once (draws, sorts, picks)",
    "blocks": "block tier (no compiler)",
    "loops": "NumPy's loops, an operation at a time",
    "numpy": "NumPy instead",
    "recording": "recording",
    "planning": "planning and compiling in this process",
    "running": "memory and order of what runs",
    "python": "Python and other",
}
MARKS: Final = {
    "kernels": "kernel",
    "functions": "at once",
    "blocks": "block tier",
    "loops": "NumPy's loops",
    "numpy": "NumPy",
    "running": "memory",
    "python": "not seen",
}
# What of a profile is kept at most, the longest first; as many lines as native/profile.c has.
MOST_ROWS: Final = 4096


class Line(NamedTuple):
    """A line of the program. calls : npaccel's, from there. seconds : of CLASSES. operations,
    bytes : computed there, and moved for that by kernels, as shared out among their lines."""

    file: str
    line: int
    function: str
    calls: int
    seconds: Mapping[str, float]
    operations: float = 0.0
    bytes: float = 0.0

    @property
    def site(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file or "elsewhere"

    @property
    def total_s(self) -> float:
        return sum(self.seconds.values())

    @property
    def mark(self) -> str:
        """How most of its time is spent."""
        longest = max(CLASSES, key=lambda name: self.seconds.get(name, 0.0))
        return MARKS.get(longest, longest)


class Kernel(NamedTuple):
    """A kernel and all of its launches. bytes : read and written, of all launches."""

    name: str
    backend: str
    launches: int
    seconds: float
    bytes: float
    operations: str
    lines: tuple[str, ...]

    @property
    def bytes_s(self) -> float:
        return self.bytes / self.seconds if self.seconds > 0 else 0.0


class Call(NamedTuple):
    """Calls that NumPy ran instead; as `observe.usage` counts them."""

    function: str
    reason: str
    site: str
    calls: int
    seconds: float


class Obstacle(NamedTuple):
    """What hindered one line; `observe.hindrances` has the kinds."""

    kind: str
    file: str
    line: int
    calls: int
    seconds: float
    size: float


class Event(NamedTuple):
    """Something that took time. what : of CLASSES, or "run". line : number of one of the profile's
    lines. live : bytes of arrays that there were when a run began, else 0."""

    start_s: float
    seconds: float
    what: str
    name: str
    line: int
    thread: int
    live: int = 0


ROWS: Final[dict[str, Any]] = {
    "line": Line,
    "kernel": Kernel,
    "call": Call,
    "obstacle": Obstacle,
}
EVENTS_A_ROW: Final = 4096


@dataclass
class Profile:
    """What was found.

    Attributes
    ----------
    about : program, arguments, versions, the machine, and its speed where that was measured
        (`copy_bytes_s`), the threshold in bytes.
    wall_s : how long it took.
    usage : the object that `npaccel run --report=json` writes.
    waits : seconds with operations that had no kernel yet, by the reason for that.
    counts : those of `npaccel.stats()` that changed.
    every : of short events, one stands for so many.
    source : text of files, by file and line.
    """

    about: dict[str, Any]
    wall_s: float
    usage: dict[str, Any] = field(default_factory=dict)
    waits: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    every: int = 1
    lines: list[Line] = field(default_factory=list)
    kernels: list[Kernel] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    obstacles: list[Obstacle] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    source: dict[str, dict[int, str]] = field(default_factory=dict)

    def totals(self) -> dict[str, float]:
        """Seconds of each of CLASSES; "python" is what no other class took."""
        found = dict.fromkeys(CLASSES, 0.0)
        for line in self.lines:
            for name, seconds in line.seconds.items():
                found[name] += seconds
        seen = sum(found.values()) - found["python"]
        found["python"] = max(self.wall_s - seen, 0.0)
        return found

    def text_of(self, file: str, line: int) -> str:
        """The source of a line, or ''."""
        return self.source.get(file, {}).get(line, "").strip()

    def write(self, path: str | os.PathLike[str]) -> None:
        """As a file; one that is there is replaced."""
        head = {
            FIRST_KEY: VERSION,
            "about": self.about,
            "wall_s": self.wall_s,
            "usage": self.usage,
            "waits": self.waits,
            "counts": self.counts,
            "every": self.every,
        }
        rows: list[Any] = [head]
        for name in ROWS:
            rows += [{name: list(row)} for row in getattr(self, f"{name}s")[:MOST_ROWS]]
        rows += _packed(self.events)
        rows += [{"source": [file, lines]} for file, lines in self.source.items()]
        rows.append({"end": len(rows)})
        texts = [json.dumps(row, separators=(",", ":")) for row in rows]
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(texts) + "\n")
        except OSError as error:
            raise ProfileError(f"{path}: the profile can't be written: {error.strerror}") from error


def _packed(events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    """In nanoseconds, with texts once for many."""
    for first in range(0, len(events), EVENTS_A_ROW):
        texts: dict[str, int] = {}
        rows = [
            [
                round(1e9 * start_s),
                round(1e9 * seconds),
                texts.setdefault(what, len(texts)),
                texts.setdefault(name, len(texts)),
                *rest,
            ]
            for start_s, seconds, what, name, *rest in events[first : first + EVENTS_A_ROW]
        ]
        yield {"events": [list(texts), rows]}


def _unpacked(texts: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[Event]:
    for start, ns, what, name, *rest in rows:
        yield Event(1e-9 * start, 1e-9 * ns, texts[what], texts[name], *rest)


def read(path: str | os.PathLike[str]) -> Profile:
    """The profile in a file.

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
        raise _no_profile(path, "it is not text") from None
    rows = text.splitlines()
    head = _object(path, rows[0] if rows else "", 1)
    version = head.get(FIRST_KEY)
    if version is None:
        raise _no_profile(path, f"its first line has no {FIRST_KEY!r}")
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
        raise _no_profile(path, f"a line is not as it was written ({error})") from error


def _object(path: str | os.PathLike[str], row: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(row)
    except ValueError:
        found = None
    if isinstance(found, dict):
        return found
    raise (
        _no_profile(path, "its first line is no object")
        if number == 1
        else _truncated(path, number)
    )


def _no_profile(path: str | os.PathLike[str], why: str) -> ProfileError:
    return ProfileError(
        f"{path}: this is no profile of npaccel, {why}; `npaccel profile SCRIPT` writes one"
    )


def _truncated(path: str | os.PathLike[str], rows: int) -> ProfileError:
    return ProfileError(
        f"{path}: this profile is cut off after {rows} lines; copy it again, or take it anew"
    )


def _filled(head: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> Profile:
    made = Profile(
        dict(head["about"]),
        float(head["wall_s"]),
        dict(head["usage"]),
        dict(head["waits"]),
        dict(head["counts"]),
        int(head["every"]),
    )
    for row in rows:
        ((name, values),) = row.items()
        if name == "source":
            made.source[values[0]] = {int(line): text for line, text in values[1].items()}
        elif name == "events":
            made.events += _unpacked(*values)
        else:
            getattr(made, f"{name}s").append(ROWS[name](*values))
    made.kernels = [kernel._replace(lines=tuple(kernel.lines)) for kernel in made.kernels]
    return made
