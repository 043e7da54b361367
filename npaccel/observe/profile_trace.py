"""A profile in the trace-event format that Chrome (about:tracing) and Perfetto read."""

from __future__ import annotations

import json
from typing import Any

from npaccel.observe.profile_data import Profile

__all__ = ["trace"]

PROCESS = 1


def trace(profile: Profile) -> str:
    """A JSON object; times are microseconds since the profile began."""
    rows: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": PROCESS, "args": {"name": _program(profile)}}
    ]
    for event in profile.events:
        start = round(1e6 * event.start_s, 3)
        line = profile.lines[event.line].site if event.line >= 0 else ""
        rows.append(
            {
                "name": event.name,
                "cat": event.what,
                "ph": "X",
                "ts": start,
                "dur": round(1e6 * event.seconds, 3),
                "pid": PROCESS,
                "tid": event.thread,
                "args": {"line": line},
            }
        )
        if event.what == "run":
            sizes = {"bytes": event.live}
            rows.append({"name": "arrays", "ph": "C", "ts": start, "pid": PROCESS, "args": sizes})
    return json.dumps({"traceEvents": rows, "displayTimeUnit": "ms"})


def _program(profile: Profile) -> str:
    return str(profile.about.get("program"))
