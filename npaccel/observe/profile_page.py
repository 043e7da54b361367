"""A profile as one HTML page, which needs nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Final

from npaccel.observe import profile_charts
from npaccel.observe.doctor import Advice, advice
from npaccel.observe.hindrances import ON_ARRAYS, reason_of
from npaccel.observe.profile_data import CLASSES, MARKS, Event, Line, Profile
from npaccel.observe.words import bytes_text, count, short
from npaccel.runtime.devices.choice import HOST

__all__ = ["page"]

MOST_ROWS: Final = 200  # of a table
MOST_LANES: Final = 40
CODE: Final = re.compile("`([^`]*)`")
HOSTS: Final = ("", HOST, "numpy")
AROUND: Final = 3  # lines shown before and after one that took time
COLOURS: Final = {
    "kernels": "#2e9e5b",
    "functions": "#8cb83f",
    "blocks": "#3d86c6",
    "loops": "#7a67c7",
    "numpy": "#d98c21",
    "recording": "#8f9aa3",
    "planning": "#c2578f",
    "running": "#5fa8a0",
    "python": "#b9bec4",
}

STYLE: Final = """
:root { color-scheme: light dark; --back: #fff; --text: #1d2126; --soft: #616a73; --rule: #dfe3e7;
  --row: #f5f7f9; }
@media (prefers-color-scheme: dark) { :root { --back: #16191d; --text: #e3e6ea; --soft: #98a2ac;
  --rule: #30363d; --row: #1e2329; } }
body { background: var(--back); color: var(--text); font: 15px/1.45 system-ui, sans-serif;
  margin: 0 auto; max-width: 1180px; padding: 1.2rem; }
h1 { font-size: 1.35rem; margin: 0; } h2 { font-size: 1.05rem; margin: 1.8rem 0 .5rem; }
p, .soft { color: var(--soft); margin: .2rem 0; }
.bar { display: flex; height: 22px; border-radius: 4px; overflow: hidden; margin: .8rem 0 .4rem; }
.key span { display: inline-block; margin-right: 1.1rem; white-space: nowrap; }
.key i { display: inline-block; width: .75em; height: .75em; border-radius: 2px;
  margin-right: .35em; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: 500; font-size: .85rem; }
td, th { padding: .12rem .6rem .12rem 0; vertical-align: top; }
td.n, th.n { text-align: right; white-space: nowrap; }
tr.hot { background: var(--row); }
code, .source { font: 13px/1.5 ui-monospace, monospace; white-space: pre; }
td.wide { max-width: 34rem; overflow-wrap: anywhere; }
.source { overflow-x: auto; max-width: 640px; }
.heat { position: relative; min-width: 76px; }
.heat b { position: absolute; right: .6rem; top: 3px; bottom: 3px; border-radius: 2px;
  opacity: .35; }
.mark { border-radius: 3px; padding: 0 .4em; font-size: .8rem; color: #fff; white-space: nowrap; }
.gap td { color: var(--soft); border-top: 1px dashed var(--rule); height: .4rem; }
canvas { width: 100%; height: 150px; border: 1px solid var(--rule); border-radius: 4px;
  cursor: grab; display: block; }
#told { min-height: 1.4em; } li { margin: .25rem 0; }
.roof text { fill: var(--soft); font-size: 11px; } .roof .rule { stroke: var(--rule); }
.roof .limit { fill: none; stroke: #d98c21; stroke-width: 2; }
.flush summary { cursor: pointer; padding: .15rem 0; } .flush .source { max-width: none; }
.npaccel-graph { background: none !important; color: var(--text) !important; }
"""

# One rectangle per pixel column and lane at most, however many events there are.
SCRIPT: Final = """
const canvas = document.getElementById("time"), told = document.getElementById("told");
const context = canvas.getContext("2d"), lanes = DATA.lanes, rows = DATA.events;
const GUTTER = 150;
let low = 0, high = DATA.wall, dragged = null;
function first(t) {
  let a = 0, b = rows.length;
  while (a < b) { const m = (a + b) >> 1; if (rows[m][0] < t) a = m + 1; else b = m; }
  return a;
}
function draw() {
  const scale = devicePixelRatio || 1, left = GUTTER * scale,
    w = (canvas.width = canvas.clientWidth * scale) - left,
    h = canvas.height = canvas.clientHeight * scale, tall = h * 0.66 / lanes.length;
  const style = getComputedStyle(document.body);
  context.clearRect(0, 0, w, h);
  const until = lanes.map(() => -1);
  for (let i = Math.max(0, first(low - DATA.longest)); i < rows.length; i++) {
    const [start, took, lane] = rows[i];
    if (start > high) break;
    if (start + took < low || lane < 0) continue;
    const a = Math.max(0, until[lane], Math.floor((start - low) / (high - low) * w)),
      b = Math.min(w, Math.ceil((start + took - low) / (high - low) * w));
    if (b <= a) continue;
    until[lane] = b;
    context.fillStyle = lanes[lane][1];
    context.fillRect(left + a, lane * tall + 1, b - a, tall - 2);
  }
  context.fillStyle = style.color;
  context.font = 11 * scale + "px system-ui";
  lanes.forEach((lane, k) => context.fillText(lane[0], 4 * scale, k * tall + tall * 0.75));
  context.strokeStyle = style.color; context.beginPath();
  let x = -1;
  for (const [t, size] of DATA.memory) {
    const at = Math.floor((t - low) / (high - low) * w);
    if (at === x || t < low || t > high) continue;
    x = at;
    context.lineTo(left + at, h - 2 - size / DATA.most * (h * 0.3));
  }
  context.stroke();
  context.fillText(DATA.mostText, 4 * scale, h * 0.76);
  context.fillText("at most", 4 * scale, h * 0.86);
}
function timeAt(e) {
  return low + (high - low) * (e.offsetX - GUTTER) / (canvas.clientWidth - GUTTER);
}
canvas.addEventListener("wheel", e => {
  e.preventDefault();
  const t = timeAt(e), by = e.deltaY > 0 ? 1.25 : 0.8;
  low = Math.max(0, t - (t - low) * by); high = Math.min(DATA.wall, t + (high - t) * by);
  draw();
}, { passive: false });
canvas.addEventListener("pointerdown", e => { dragged = timeAt(e); });
addEventListener("pointerup", () => { dragged = null; });
canvas.addEventListener("pointermove", e => {
  if (dragged !== null) {
    const by = Math.min(Math.max(dragged - timeAt(e), -low), DATA.wall - high);
    low += by; high += by; draw();
  }
  const t = timeAt(e), lane = Math.floor(e.offsetY / (canvas.clientHeight * 0.66 / lanes.length));
  const near = (high - low) / canvas.clientWidth;
  let found = null;
  for (let i = first(t + near) - 1; i >= 0 && rows[i][0] > t - DATA.longest - near; i--)
    if (rows[i][2] === lane && rows[i][0] + rows[i][1] >= t - near) { found = rows[i]; break; }
  told.textContent = found ? `${(1e3 * found[0]).toFixed(2)} ms: ${DATA.names[found[3]]}, ` +
    `${(1e3 * found[1]).toFixed(3)} ms` : `${(1e3 * t).toFixed(2)} ms`;
});
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
"""


def page(profile: Profile) -> str:
    """The whole page."""
    title = escape(profile.title())
    data = json.dumps(_data(profile), separators=(",", ":")).replace("</", "<\\/")
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'>",
        f"<title>{title}</title><style>{STYLE}</style></head><body>",
        f"<h1>{title}</h1><p>{escape(_about(profile))}</p>",
        *_totals(profile),
        *_advice(profile),
        f"<h2>Over time</h2><canvas id=time style=height:{_tall(profile)}px></canvas>",
        "<p id=told></p><p>The wheel zooms, dragging moves.",
        f" One event stands for {profile.every}.</p>" if profile.every > 1 else "</p>",
        *_files(profile),
        *profile_charts.roofline(profile),
        *_kernels(profile),
        *_obstacles(profile),
        *profile_charts.flushes(profile),
        *_calls(profile),
        f"<script>const DATA = {data};{SCRIPT}</script></body></html>",
    ]
    return "\n".join(parts)


def _about(profile: Profile) -> str:
    about = profile.about
    words = [f"{name} {about[name]}" for name in ("npaccel", "numpy", "python") if name in about]
    return ", ".join([*words, str(about.get("machine", ""))])


def _data(profile: Profile) -> dict[str, object]:
    """What the script draws. An event is its start, its length, its lane and its name's number."""
    lanes = _lanes(profile)
    numbers = {key: number for number, key in enumerate(lanes)}
    names: dict[str, int] = {}
    sites = [short(line.site) for line in profile.lines]
    events = []
    for event in profile.events:
        lane = numbers.get(_lane(event), -1)
        site = sites[event.line] if event.line >= 0 else ""
        name = event.name if event.name.endswith(site) else f"{event.name}, {site}"
        number = names.setdefault(name, len(names))
        row = [round(event.start_s, 7), round(event.seconds, 7), lane, number]
        events.append(row)
    events.sort(key=lambda row: row[0])
    memory = [[round(e.start_s, 6), e.live] for e in profile.events if e.what == "run"]
    most = max((size for _, size in memory), default=0)
    return {
        "wall": profile.wall_s,
        "lanes": [[_title(*lane), COLOURS[lane[2]]] for lane in lanes],
        "events": events,
        "names": list(names),
        "longest": max((row[1] for row in events if row[2] >= 0), default=0),
        "memory": memory,
        "most": max(most, 1),
        "mostText": bytes_text(int(most)),
    }


def _lane(event: Event) -> tuple[str, int, str]:
    """Device, thread and class; a device's kernels stand in lanes of their own."""
    device = event.backend if event.backend not in HOSTS else ""
    return device, event.thread if not device else 0, event.what


def _lanes(profile: Profile) -> list[tuple[str, int, str]]:
    """Those in which something happens: threads, then devices."""
    order = [name for name in CLASSES if name != "python"]
    found = {_lane(event) for event in profile.events if event.what in order}
    return sorted(found, key=lambda lane: (lane[0], lane[1], order.index(lane[2])))[:MOST_LANES]


def _tall(profile: Profile) -> int:
    return 60 + 18 * max(len(_lanes(profile)), 5)


def _title(device: str, thread: int, what: str) -> str:
    name = MARKS.get(what, what)
    return f"{device}: {name}" if device else f"{name}, thread {thread + 1}" if thread else name


def _totals(profile: Profile) -> Iterator[str]:
    totals = profile.totals()
    whole = sum(totals.values()) or 1.0
    yield "<div class=bar>"
    for name, seconds in totals.items():
        style = f"width:{100 * seconds / whole:.2f}%;background:{COLOURS[name]}"
        yield f"<span style='{style}' title='{escape(CLASSES[name], quote=True)}'></span>"
    yield "</div><div class=key>"
    for name, seconds in totals.items():
        words = f"{escape(CLASSES[name])} {seconds:.3f} s, {100 * seconds / whole:.0f} %"
        yield f"<span><i style='background:{COLOURS[name]}'></i>{words}</span>"
    yield "</div>"


def _advice(profile: Profile) -> Iterator[str]:
    found = advice(profile)
    if found:
        yield "<h2>What to do</h2><ol>"
        yield from (f"<li>{_sentence(profile, one)}</li>" for one in found[:10])
        yield "</ol>"


def _sentence(profile: Profile, one: Advice) -> str:
    share = one.share(profile.wall_s)
    return f"<code>{escape(short(one.site))}</code> ({share}) {_words(one)}"


def _words(one: Advice) -> str:
    return CODE.sub(r"<code>\1</code>", escape(one.sentence()))


def _files(profile: Profile) -> Iterator[str]:
    told = {one.site: one for one in advice(profile)}
    most = max((line.total_s for line in profile.lines), default=1.0)
    for file, texts in profile.source.items():
        lines = {line.line: line for line in profile.lines if line.file == file}
        yield f"<h2>{escape(short(file, 80))}</h2><table>"
        yield "<tr><th class=n>ms<th>mark<th class=n>GB/s<th class=n>line<th>source</tr>"
        before = 0
        for number in sorted(texts):
            if not any(n in lines for n in range(number - AROUND, number + AROUND + 1)):
                continue
            if before and number > before + 1:
                yield "<tr class=gap><td colspan=5></td></tr>"
            before = number
            yield _row(number, texts[number], lines.get(number), most)
            if number in lines and lines[number].site in told:
                words = _words(told[lines[number].site])
                yield f"<tr><td colspan=4><td class='soft wide'>{words}</td></tr>"
        yield "</table>"


def _row(number: int, text: str, line: Line | None, most: float) -> str:
    source = f"<td class=n>{number}<td class=source>{escape(text) or ' '}</td></tr>"
    if line is None:
        return f"<tr><td><td><td>{source}"
    longest = max(CLASSES, key=lambda name: line.seconds.get(name, 0.0))
    parts = ", ".join(
        f"{CLASSES[name]} {1e3 * line.seconds[name]:.2f} ms"
        for name in CLASSES
        if line.seconds.get(name)
    )
    width = 80 * line.total_s / most
    heat = f"<b style='width:{width:.1f}%;background:{COLOURS[longest]}'></b>"
    kernels = line.seconds.get("kernels", 0.0)
    speed = f"{line.bytes / kernels / 1e9:.1f}" if line.bytes and kernels else ""
    mark = f"<span class=mark style='background:{COLOURS[longest]}'>{escape(line.mark)}</span>"
    return (
        f"<tr class=hot title='{escape(parts, quote=True)}'><td class='n heat'>{heat}"
        f"{1e3 * line.total_s:.1f}<td>{mark}<td class=n>{speed}{source}"
    )


def _kernels(profile: Profile) -> Iterator[str]:
    limit = float(profile.about.get("copy_bytes_s") or 0.0)
    head = ["ms", "launches", "GB/s", "of a copy's" if limit else "", "operations", "lines"]
    rows = [
        (
            f"{1e3 * kernel.seconds:.1f}",
            str(kernel.launches),
            f"{kernel.bytes_s / 1e9:.1f}",
            f"{100 * kernel.bytes_s / limit:.0f} %" if limit else "",
            f"{kernel.operations} ({kernel.backend})",
            ", ".join(map(short, kernel.lines)),
        )
        for kernel in profile.kernels
    ]
    yield from _table("Kernels", head, rows, 4)


def _obstacles(profile: Profile) -> Iterator[str]:
    threshold = int(profile.about.get("threshold", 0))
    rows = [
        (
            f"{1e3 * one.seconds:.1f}",
            str(one.calls),
            reason_of(one.kind, one.size / max(one.calls, 1), threshold),
            short(f"{one.file}:{one.line}" if one.line else one.file),
        )
        for one in profile.obstacles
        if one.kind not in ON_ARRAYS
    ]
    yield from _table("What made pending operations run", ["ms", "runs", "the line", ""], rows, 2)


def _calls(profile: Profile) -> Iterator[str]:
    rows = [
        (f"{1e3 * c.seconds:.1f}", str(c.calls), c.function, c.reason, short(c.site))
        for c in profile.calls
    ]
    head = ["ms", "calls", "function", "reason", "line"]
    yield from _table("What NumPy ran instead", head, rows, 2)


def _table(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], numbers: int
) -> Iterator[str]:
    """The first columns are numbers."""
    if not rows:
        return
    yield f"<h2>{escape(title)}</h2><table><tr>{_cells('th', head, numbers)}</tr>"
    for row in rows[:MOST_ROWS]:
        yield f"<tr>{_cells('td', row, numbers)}</tr>"
    yield "</table>"
    if len(rows) > MOST_ROWS:
        yield f"<p>and {count(len(rows) - MOST_ROWS, 'row')} more</p>"


def _cells(tag: str, texts: Iterable[str], numbers: int) -> str:
    return "".join(
        f"<{tag} class={'n' if k < numbers else 'wide'}>{escape(text)}</{tag}>"
        for k, text in enumerate(texts)
    )
