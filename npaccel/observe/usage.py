"""Where a program's time went: the report of `npaccel run --report`."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["kernel_share", "usage_text"]

Fallback = tuple[str, str, str]
ACTIVITIES = {
    "kernels": "in kernels",
    "loops": "in NumPy's loops, an operation at a time",
    "numpy": "in NumPy instead (below)",
    "recording": "recording",
    "planning": "planning and compiling",
    "running": "memory and order of what runs",
}
MOST_ROWS = 30


def kernel_share(activities_s: Mapping[str, float]) -> float:
    """Which part of the time spent on arrays was spent in kernels; 1 where there was none."""
    kernels = activities_s.get("kernels", 0.0)
    arrays = kernels + activities_s.get("loops", 0.0) + activities_s.get("numpy", 0.0)
    return kernels / arrays if arrays > 0 else 1.0


def usage_text(
    wall_s: float,
    activities_s: Mapping[str, float],
    counts: Mapping[Fallback, int],
    seconds: Mapping[Fallback, float],
) -> str:
    """The report as text.

    Parameters
    ----------
    wall_s : how long the program ran.
    activities_s : seconds per activity, of all threads together.
    counts, seconds : per (function, reason, "file:line") calls that NumPy ran, and their time.
    """
    rest = max(wall_s - sum(activities_s.values()), 0.0)
    rows = [(words, activities_s.get(name, 0.0)) for name, words in ACTIVITIES.items()]
    rows.append(("unaccounted for (Python, other libraries, small arrays)", rest))
    lines = [f"npaccel: {wall_s:.3f} s"]
    lines += [f"  {value:9.3f} s  {_percent(value, wall_s):>5}  {words}" for words, value in rows]
    share = kernel_share(activities_s)
    lines.append(f"  of the time on arrays, {_percent(share, 1.0)} was in kernels")
    if counts:
        lines += [
            "",
            "Calls that NumPy ran",
            f"  {'seconds':>9} {'calls':>8}  function, reason, line",
        ]
    order = sorted(counts, key=lambda entry: (-seconds.get(entry, 0.0), entry))
    for entry in order[:MOST_ROWS]:
        function, reason, site = entry
        lines.append(
            f"  {seconds.get(entry, 0.0):9.3f} {counts[entry]:8d}  {function}: {reason}, {site}"
        )
    if len(order) > MOST_ROWS:
        lines.append(f"  and {len(order) - MOST_ROWS} more")
    return "\n".join(lines)


def _percent(value: float, whole: float) -> str:
    return f"{100 * value / whole:.0f} %" if whole > 0 else "-"
