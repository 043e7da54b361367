"""Where a program's time went: the report of `npaccel run --report`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from npaccel.observe.words import percent

__all__ = ["Usage", "kernel_share"]

Fallback = tuple[str, str, str]
ACTIVITIES = {
    "kernels": "in kernels",
    "loops": "block by block, without kernels",
    "numpy": "in NumPy instead (below)",
    "recording": "recording",
    "planning": "planning and compiling",
    "running": "memory and order of what runs",
    "elsewhere": "unaccounted for (Python, other libraries, small arrays)",
}
MOST_ROWS = 30


def kernel_share(activities_s: Mapping[str, float]) -> float | None:
    """Which part of the time spent on arrays was spent in kernels; None where there was none."""
    kernels = activities_s.get("kernels", 0.0)
    arrays = kernels + activities_s.get("loops", 0.0) + activities_s.get("numpy", 0.0)
    return kernels / arrays if arrays > 0 else None


class Usage(NamedTuple):
    """What was counted.

    wall_s : how long the program ran, what was pending at its end included.
    activities_s : seconds per activity, of all threads together.
    calls, seconds : per (function, reason, "file:line") calls that NumPy ran, and their time.
    hindrance : what took longest without a gain, and why; empty: nothing is known.
    """

    wall_s: float
    activities_s: Mapping[str, float]
    calls: Mapping[Fallback, int]
    seconds: Mapping[Fallback, float]
    hindrance: str = ""

    def text(self) -> str:
        """The report for people."""
        parts = self._parts()
        # Several threads at once spend more than the clock shows.
        whole = max(self.wall_s, sum(parts.values()))
        lines = [f"npaccel: {self.wall_s:.3f} s"]
        for name, words in ACTIVITIES.items():
            value = parts[name]
            lines.append(f"  {value:9.3f} s  {percent(value, whole):>5}  {words}")
        share = kernel_share(self.activities_s)
        lines.append(
            "  no time was spent on arrays"
            if share is None
            else f"  of the time on arrays, {percent(share, 1.0)} was in kernels"
        )
        if self.hindrance:
            lines.append(f"  longest without a gain: {self.hindrance}")
        order = self._order()
        if order:
            heading = f"  {'seconds':>9} {'calls':>8}  function, reason, line"
            lines += ["", "Calls that NumPy ran", heading]
        for entry in order[:MOST_ROWS]:
            function, reason, site = entry
            taken = self.seconds.get(entry, 0.0)
            lines.append(f"  {taken:9.3f} {self.calls[entry]:8d}  {function}: {reason}, {site}")
        if len(order) > MOST_ROWS:
            lines.append(f"  and {len(order) - MOST_ROWS} more")
        return "\n".join(lines)

    def json(self) -> str:
        """The report for programs, in one line; docs/usage.md lists the keys."""
        from json import dumps

        calls: list[dict[str, Any]] = [
            {
                "function": entry[0],
                "reason": entry[1],
                "line": entry[2],
                "calls": self.calls[entry],
                "seconds": self.seconds.get(entry, 0.0),
            }
            for entry in self._order()
        ]
        return dumps(
            {
                "wall_s": self.wall_s,
                "activities_s": self._parts(),
                "kernel_share": kernel_share(self.activities_s),
                "calls": calls,
            }
        )

    def _parts(self) -> dict[str, float]:
        """Seconds of each of ACTIVITIES."""
        parts = {name: self.activities_s.get(name, 0.0) for name in ACTIVITIES}
        parts["elsewhere"] = max(self.wall_s - sum(self.activities_s.values()), 0.0)
        return parts

    def _order(self) -> list[Fallback]:
        """What NumPy ran, the longest first."""
        return sorted(self.calls, key=lambda entry: (-self.seconds.get(entry, 0.0), entry))
