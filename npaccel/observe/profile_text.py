"""A profile as text, and the difference of two."""

from __future__ import annotations

import json
import os
import textwrap
from typing import Any, Final

from npaccel.observe.doctor import advice
from npaccel.observe.profile_data import CLASSES, Kernel, Line, Profile
from npaccel.observe.words import COLUMNS, bytes_text, count, percent, short

__all__ = ["compare", "compare_json", "show", "show_json"]

MOST_ADVICE, MOST_LINES, MOST_KERNELS, MOST_CALLS = 5, 20, 10, 10
PLACE: Final = 24


def show(profile: Profile) -> str:
    """What to do about it; the hottest lines; totals by class; kernels; what NumPy did instead."""
    lines = [_heading(profile)]
    for one in advice(profile)[:MOST_ADVICE]:
        words = f"{short(one.site)} ({one.share(profile.wall_s)}) {one.sentence()}"
        lines += textwrap.wrap(words, COLUMNS, initial_indent="  ", subsequent_indent="      ")
    lines += ["", *_lines(profile), "", *_totals(profile)]
    if profile.kernels:
        lines += ["", *_kernels(profile)]
    if profile.calls:
        lines += ["", *_calls(profile)]
    return "\n".join(lines)


def _heading(profile: Profile) -> str:
    about = profile.about
    where = f"npaccel {about.get('npaccel')}, NumPy {about.get('numpy')}"
    return f"{profile.title()}; {where}"


def _lines(profile: Profile) -> list[str]:
    lines = [f"{'line':{PLACE}} {'ms':>10} {'share':>6}  {'mark':15}source"]
    whole = max(profile.wall_s, sum(profile.totals().values()))
    for line in profile.lines[:MOST_LINES]:
        text = profile.text_of(line.file, line.line)
        place = short(line.site, PLACE)
        share = percent(line.total_s, whole)
        row = f"{place:{PLACE}} {1e3 * line.total_s:10.1f} {share:>6}  {line.mark:15}{text}"
        lines.append(row[: max(COLUMNS, len(place))].rstrip())
    if len(profile.lines) > MOST_LINES:
        lines.append(f"and {count(len(profile.lines) - MOST_LINES, 'line')} more")
    return lines


def _totals(profile: Profile) -> list[str]:
    totals = profile.totals()
    whole = max(profile.wall_s, sum(totals.values()))
    lines = [f"{'seconds':>10} {'share':>6}  spent on"]
    for name, words in CLASSES.items():
        lines.append(f"{totals[name]:10.3f} {percent(totals[name], whole):>6}  {words}")
    waited = profile.waits.get("compiling", 0.0)
    if waited > 0:
        lines.append(f"{waited:10.3f} {percent(waited, whole):>6}  of that by blocks, while the "
                     "compiler worked")  # fmt: skip
    pointers = [one for one in profile.obstacles if one.kind == "pointer"]
    if pointers:
        seconds = sum(one.seconds for one in pointers)
        faults = count(profile.counts.get("guard_faults", 0), "guard fault")
        lines.append(f"{seconds:10.3f} {percent(seconds, whole):>6}  of that for {faults}")
    lines += _moved(profile)
    return lines


def _moved(profile: Profile) -> list[str]:
    """To devices, and back: bytes and seconds."""
    counts = profile.counts
    whole = max(profile.wall_s, sum(profile.totals().values()))
    lines = []
    for way, words in (("up", "moved to devices"), ("down", "back from devices")):
        if size := counts.get(f"{way}loaded_bytes", 0):
            seconds = 1e-9 * counts.get(f"{way}loading_ns", 0)
            share = percent(seconds, whole)
            lines.append(f"{seconds:10.3f} {share:>6}  of that for {bytes_text(size)} {words}")
    return lines


def _kernels(profile: Profile) -> list[str]:
    limit = float(profile.about.get("copy_bytes_s") or 0.0)
    words = f"  (a copy: {limit / 1e9:.1f} GB/s)" if limit else ""
    lines = [f"{'ms':>10} {'launches':>9} {'GB/s':>7}  kernel{words}"]
    for kernel in profile.kernels[:MOST_KERNELS]:
        speed = kernel.bytes_s / 1e9
        start = f"{1e3 * kernel.seconds:10.1f} {kernel.launches:9d} {speed:7.1f}  "
        lines.append(f"{start}{kernel.operations}"[:COLUMNS])
        lines.append(f"{'':30}{_of(kernel)}"[:COLUMNS])
    return lines


def _of(kernel: Kernel) -> str:
    return ", ".join(short(site, PLACE) for site in kernel.lines)


def _calls(profile: Profile) -> list[str]:
    lines = [f"{'ms':>10} {'calls':>9}  what NumPy ran instead"]
    for call in profile.calls[:MOST_CALLS]:
        words = f"{call.function}: {call.reason}, {short(call.site, PLACE)}"
        lines.append(f"{1e3 * call.seconds:10.1f} {call.calls:9d}  {words}"[:COLUMNS])
    return lines


def show_json(profile: Profile) -> str:
    """The same for programs, in one line."""
    lines = [
        {"line": line.site, "seconds": line.total_s, "mark": line.mark, "parts": line.seconds,
         "operations": line.operations, "bytes": line.bytes, "calls": line.calls,
         "source": profile.text_of(line.file, line.line)}
        for line in profile.lines
    ]  # fmt: skip
    return json.dumps(
        {
            "about": profile.about,
            "wall_s": profile.wall_s,
            "totals_s": profile.totals(),
            "waits_s": profile.waits,
            "counts": profile.counts,
            "advice": [one._asdict() for one in advice(profile)],
            "lines": lines,
            "kernels": [kernel._asdict() for kernel in profile.kernels],
            "calls": [call._asdict() for call in profile.calls],
        }
    )


# ---------------------------------------------------------------------------------- difference


def compare(before: Profile, after: Profile) -> str:
    """Lines by how much their time differs; then classes."""
    lines = [f"{_heading(before)}", f"{_heading(after)}", ""]
    lines.append(f"{'line':{PLACE}} {'ms before':>10} {'after':>10} {'more':>10}  source")
    for row in _differences(before, after)[:MOST_LINES]:
        place = short(row["line"], PLACE)
        numbers = " ".join(f"{1e3 * row[key]:10.1f}" for key in ("before_s", "after_s"))
        more = f"{1e3 * (row['after_s'] - row['before_s']):+10.1f}"
        lines.append(f"{place:{PLACE}} {numbers} {more}  {row['source']}"[:COLUMNS].rstrip())
    lines += ["", f"{'s before':>10} {'after':>10} {'more':>10}  spent on"]
    old, new = before.totals(), after.totals()
    for name, words in CLASSES.items():
        change = new[name] - old[name]
        lines.append(f"{old[name]:10.3f} {new[name]:10.3f} {change:+10.3f}  {words}")
    return "\n".join(lines)


def compare_json(before: Profile, after: Profile) -> str:
    """The same for programs."""
    totals = {"before_s": before.totals(), "after_s": after.totals()}
    return json.dumps({"lines": _differences(before, after), "totals": totals})


def _differences(before: Profile, after: Profile) -> list[dict[str, Any]]:
    """Lines are the same that have the same text in a file of the same name, whatever stands before
    them; those of equal text in their order."""
    sides = _by_text(before), _by_text(after)
    rows = []
    for key in dict.fromkeys([*sides[1], *sides[0]]):
        old, new = (side.get(key) for side in sides)
        line = new or old
        assert line is not None
        seconds = [found.total_s if found else 0.0 for found in (old, new)]
        source = (after if new else before).text_of(line.file, line.line)
        rows.append(
            {"line": line.site, "before_s": seconds[0], "after_s": seconds[1], "source": source}
        )
    return sorted(rows, key=lambda row: -abs(row["after_s"] - row["before_s"]))


def _by_text(profile: Profile) -> dict[tuple[str, str, int], Line]:
    found: dict[tuple[str, str, int], Line] = {}
    for line in sorted(profile.lines, key=lambda line: (line.file, line.line)):
        text = profile.text_of(line.file, line.line) or str(line.line)
        name = os.path.basename(line.file)
        number = _times(found, name, text)
        found[name, text, number] = line
    return found


def _times(found: dict[tuple[str, str, int], Line], name: str, text: str) -> int:
    number = 0
    while (name, text, number) in found:
        number += 1
    return number
