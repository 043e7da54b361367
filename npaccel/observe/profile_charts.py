"""Pictures in a profile's page: kernels against what the machine can do, and what ran together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from html import escape
from typing import Final

from npaccel.observe import graph
from npaccel.observe.profile_data import Flush, Kernel, Profile
from npaccel.observe.words import count, short

__all__ = ["flushes", "roofline"]

COLOURS: Final = {"kernels": "#2e9e5b", "blocks": "#3d86c6", "loops": "#7a67c7"}
WORDS: Final = {"kernels": "kernel", "blocks": "block tier", "loops": "NumPy's loop"}
MOST_GRAPHS: Final = 40
MOST_ROWS: Final = 3000  # of all graphs together
WIDE, HIGH, LEFT, LOW = 720, 300, 70, 34  # the roofline's, in pixels


# ----------------------------------------------------------------------------------- roofline


def roofline(profile: Profile) -> Iterator[str]:
    """Each kernel by operations a byte and operations a second, both on logarithmic axes."""
    kernels = [k for k in profile.kernels if k.bytes > 0 and k.seconds > 0 and k.work > 0]
    copy = float(profile.about.get("copy_bytes_s") or 0.0)
    peak = float(profile.about.get("sums_f8_s") or 0.0)
    if not kernels:
        return
    xs = [kernel.work / kernel.bytes for kernel in kernels]
    ys = [kernel.work / kernel.seconds for kernel in kernels]
    across = _span([*xs, *([peak / copy] if copy and peak else [])])
    up = _span([*ys, *([peak] if peak else []), *([copy * x for x in xs] if copy else [])])

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + (WIDE - LEFT - 10) * (math.log10(x) - across[0]) / (across[1] - across[0]),
            HIGH - LOW - (HIGH - LOW - 10) * (math.log10(y) - up[0]) / (up[1] - up[0]),
        )

    yield "<h2>Kernels against the machine</h2>"
    yield f"<p>{_limits(copy, peak)} An operation is what costs as much as an addition.</p>"
    yield f"<svg class=roof viewBox='0 0 {WIDE} {HIGH}' width={WIDE} height={HIGH} role=img>"
    yield from _axes(across, up, at)
    if copy:
        ends = [10.0 ** across[0], 10.0 ** across[1]]
        points = [(x, min(copy * x, peak or math.inf)) for x in ends]
        if peak and ends[0] < peak / copy < ends[1]:
            points.insert(1, (peak / copy, peak))
        drawn = " ".join(f"{x:.1f},{max(y, 10.0):.1f}" for x, y in (at(*p) for p in points))
        yield f"<polyline class=limit points='{drawn}'/>"
    longest = max(kernel.seconds for kernel in kernels)
    for kernel, x, y in zip(kernels, xs, ys, strict=True):
        yield _dot(kernel, *at(x, y), 3 + 9 * math.sqrt(kernel.seconds / longest))
    yield "</svg>"


def _limits(copy: float, peak: float) -> str:
    if not copy:
        return "Nobody has measured this machine; <code>npaccel devices</code> does."
    words = f"The line: a copy moves {copy / 1e9:.1f} GB/s"
    return f"{words}, additions run at {peak / 1e9:.1f} G/s." if peak else f"{words}."


def _span(values: list[float]) -> tuple[int, int]:
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def _axes(
    across: tuple[int, int], up: tuple[int, int], at: Callable[[float, float], tuple[float, float]]
) -> Iterator[str]:
    for power in range(across[0], across[1] + 1):
        x, y = at(10.0**power, 10.0 ** up[0])
        yield f"<line class=rule x1={x:.1f} x2={x:.1f} y1=10 y2={y:.1f} />"
        yield f"<text x={x:.1f} y={y + 16:.1f} text-anchor=middle>{10.0**power:g}</text>"
    for power in range(up[0], up[1] + 1):
        x, y = at(10.0 ** across[0], 10.0**power)
        yield f"<line class=rule x1={x:.1f} x2={WIDE - 10} y1={y:.1f} y2={y:.1f} />"
        yield f"<text x={x - 6:.1f} y={y + 4:.1f} text-anchor=end>{_rate(10.0**power)}</text>"
    yield f"<text x={WIDE - 10} y={HIGH - 4} text-anchor=end>operations a byte</text>"


def _rate(value: float) -> str:
    return f"{value / 1e9:g} G/s" if value >= 1e9 else f"{value / 1e6:g} M/s"


def _dot(kernel: Kernel, x: float, y: float, size: float) -> str:
    told = (
        f"{kernel.operations}: {1e3 * kernel.seconds:.1f} ms, {kernel.bytes_s / 1e9:.1f} GB/s, "
        f"{', '.join(map(short, kernel.lines))}"
    )
    colour = COLOURS["kernels"]
    return (
        f"<circle cx={x:.1f} cy={y:.1f} r={size:.1f} fill='{colour}' fill-opacity=.6 "
        f"stroke='{colour}'><title>{escape(told)}</title></circle>"
    )


# ------------------------------------------------------------------------------ what ran together


def flushes(profile: Profile) -> Iterator[str]:
    """Each as a graph that is shown when it is asked for."""
    left, shown = MOST_ROWS, 0
    for flush in profile.flushes[:MOST_GRAPHS]:
        left -= len(flush.nodes)
        if left < 0 or not flush.groups:
            continue
        if not shown:
            yield "<h2>What ran together</h2><p>An arc is an array that another operation reads; "
            yield "thick ones, with their bytes, lie in memory between two kernels.</p>"
        shown += 1
        yield f"<details class=flush><summary>{escape(_summary(profile, flush))}</summary>"
        yield f"<div class=source>{_picture(profile, flush)}</div></details>"


def _summary(profile: Profile, flush: Flush) -> str:
    kernels = sum(group.what == "kernels" for group in flush.groups)
    words = f"{1e3 * flush.seconds:.1f} ms, {count(flush.runs, 'run')}: "
    words += f"{count(len(flush.nodes), 'operation')} in "
    words += count(kernels, "kernel") if kernels else "no kernel"
    lines = [node.line for node in flush.nodes if node.line >= 0]
    if lines:
        words += f", to {short(profile.lines[lines[-1]].site)}"
    return words


def _picture(profile: Profile, flush: Flush) -> str:
    rows = []
    for node in flush.nodes:
        line = profile.lines[node.line] if node.line >= 0 else None
        text = f"{line.line}: {profile.text_of(line.file, line.line)}" if line is not None else ""
        rows.append(graph.Operation(node.name, text, node.bytes, node.links))
    groups = []
    for group in flush.groups:
        title = f"{WORDS.get(group.what, group.what)} {group.name}".strip()
        title += f" ({group.backend})" if group.name and group.backend else ""
        title += f", {1e3 * group.seconds:.2f} ms" if group.seconds else ""
        colour = COLOURS.get(group.what, "#8f9aa3")
        groups.append(graph.Together(title, colour, group.nodes))
    return graph.svg(rows, groups)
