"""What a profile says: time by line, by kernel, by call; what ran; what happened when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

__all__ = [
    "CLASSES",
    "MARKS",
    "Call",
    "Event",
    "Flush",
    "Group",
    "Kernel",
    "Line",
    "Node",
    "Obstacle",
    "Profile",
]

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
WAITED: Final = 0.1  # of the program's time: waiting for less is not told
MARKS: Final = {
    "kernels": "kernel",
    "functions": "at once",
    "blocks": "block tier",
    "loops": "NumPy's loops",
    "numpy": "NumPy",
    "running": "memory",
    "python": "not seen",
}


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
    """A kernel and all of its launches. bytes : read and written; work : elements times what their
    operations cost; of all launches."""

    name: str
    backend: str
    launches: int
    seconds: float
    bytes: float
    operations: str
    lines: tuple[str, ...]
    work: float = 0.0

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
    lines. live : bytes of arrays that there were when a run began, else 0. backend : a kernel's."""

    start_s: float
    seconds: float
    what: str
    name: str
    line: int
    thread: int
    live: int = 0
    backend: str = ""


class Node(NamedTuple):
    """A recorded operation of a graph. name : NumPy's. line : number of one of the profile's lines,
    or -1. bytes : of its result. links : of each array that it reads who wrote it; less than 0
    where that was before."""

    name: str
    line: int
    bytes: float
    links: tuple[int, ...]


class Group(NamedTuple):
    """Operations that ran as one: a kernel, or a pass of the block tier or of NumPy's loops."""

    what: str
    name: str
    backend: str
    seconds: float
    nodes: tuple[int, ...]


class Flush(NamedTuple):
    """The same operations from the same lines, run together. seconds : of all these runs. paced_s :
    what their operations take in registers, of all threads; 0: not known."""

    runs: int
    seconds: float
    nodes: tuple[Node, ...]
    groups: tuple[Group, ...]
    paced_s: float = 0.0


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
    flushes : what ran together, the longest first.
    waited_s : for which the thread that began the profile could have run, and others did.
    memory_bytes_s : what one thread reads and writes of large arrays, 0: not known.
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
    flushes: list[Flush] = field(default_factory=list)
    waited_s: float = 0.0
    memory_bytes_s: float = 0.0

    def title(self) -> str:
        """The program, and how long it took."""
        others = ""
        if self.waited_s >= WAITED * self.wall_s > 0:
            others = f", {self.waited_s:.3f} s of it waiting for a processor"
        return f"{self.about.get('program')}: {self.wall_s:.3f} s{others}"

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
