"""Maps as text and as pictures: who has what."""

from __future__ import annotations

import math
from collections.abc import Iterator

from npaccel.cluster.boxes import Box
from npaccel.cluster.parts import Shown

__all__ = ["svg", "text"]

MOST_ROWS = 24  # and columns of text
MOST_BOXES = 2000  # of a picture
SIDE = 320.0  # of its longer side
# Colours that differ in lightness as well (Paul Tol's "light" and "muted" schemes).
COLOURS = (
    *("#77aadd", "#ee8866", "#eedd88", "#ffaabb", "#99ddff", "#44bb99", "#bbcc33", "#aaaa00"),
    *("#cc6677", "#ddcc77", "#88ccee", "#aa4499"),
)


def _times(numbers: tuple[int, ...]) -> str:
    return " × ".join(map(str, numbers)) or "one element"


def _title(of: Shown) -> str:
    parts = f"{len(of)} segments" if len(of) != 1 else "1 segment"
    nodes = f"{of.nodes} nodes" if of.nodes != 1 else "1 node"
    blocks = "".join(
        f", {name} blocks of {_times(extent)}"
        for name, extent in (("memory", of.memory), ("algorithm", of.algorithm))
        if extent is not None
    )
    kind = ", in row-major order" if of.flat and len(of.shape) > 1 else ""
    return f"Map of {_times(of.shape)}: {parts}{kind} on {nodes}{blocks}"


def _plane(shape: tuple[int, ...]) -> tuple[int, int]:
    """What is drawn: the last two axes, at index 0 of the others."""
    rows, columns = (1, 1, *shape)[-2:]
    return rows, columns


def _shown(index: int, shown: int, n: int) -> int:
    return index if shown == n else index * n // shown


def text(of: Shown) -> str:
    """Who has each element of the last two axes (at index 0 of the others); a line per node."""
    rows, columns = _plane(of.shape)
    lines = [_title(of)]
    if rows * columns and math.prod(of.shape):
        high, wide = min(rows, MOST_ROWS), min(columns, MOST_ROWS)
        width = len(str(of.nodes - 1))
        before = (0,) * (len(of.shape) - 2)
        for i in range(high):
            where = (_shown(i, high, rows), *range(0))
            line = []
            for j in range(wide):
                index = (*before, *where, _shown(j, wide, columns))[-len(of.shape) :]
                line.append(f"{of.owner(index if of.shape else ()):>{width}}")
            lines.append("  " + " ".join(line))
        if (high, wide) != (rows, columns):
            lines.append(f"  (every element of {high} × {wide} stands for several)")
    total = math.prod(of.shape)
    for node, load in enumerate(of.loads()[:MOST_ROWS]):
        count = of.owners.count(node)
        part = f"{count} segment{'s' if count != 1 else ''}"
        lines.append(f"node {node}: {load} elements ({load / max(1, total):.0%}), {part}")
    if of.nodes > MOST_ROWS:
        lines.append(f"... and {of.nodes - MOST_ROWS} nodes more")
    return "\n".join(lines)


def _rectangles(of: Shown) -> Iterator[tuple[int, int, range, range]]:
    """Segment, node, rows and columns of what is drawn."""
    for part in of.segments:
        for box in of.boxes(part.id):
            if all(0 in axis for axis in box[:-2]):
                rows, columns = _last_two(box)
                yield part.id, part.owner, rows, columns


def _last_two(box: Box) -> tuple[range, range]:
    rows, columns = (range(1), range(1), *box)[-2:]
    return rows, columns


def svg(of: Shown) -> str:
    """The last two axes as a picture: a colour per node, a line around each segment."""
    rows, columns = _plane(of.shape)
    found: list[tuple[int, int, range, range]] = []
    for rectangle in _rectangles(of):
        found.append(rectangle)
        if len(found) > MOST_BOXES:
            break
    scale = SIDE / max(rows, columns, 1)
    high, wide = max(8.0, rows * scale), max(8.0, columns * scale)
    down, along = high / max(rows, 1), wide / max(columns, 1)
    body = [f"<title>{_title(of)}</title>"]
    for number, node, part, across in found[:MOST_BOXES]:
        x, y = across.start * along, part.start * down
        w, h = len(across) * along, len(part) * down
        body.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{w:.2f}" height="{h:.2f}" '
            f'fill="{COLOURS[node % len(COLOURS)]}" stroke="#333" stroke-width="0.8">'
            f"<title>segment {number} on node {node}</title></rect>"
        )
        if w >= 16 and h >= 12:
            body.append(
                f'<text x="{x + w / 2:.2f}" y="{y + h / 2:.2f}" font-size="11" '
                'font-family="sans-serif" text-anchor="middle" dominant-baseline="central">'
                f"{node}</text>"
            )
    if len(found) > MOST_BOXES:
        body.append(
            f'<text x="0" y="{high + 14:.0f}" font-size="11" font-family="sans-serif">'
            f"the first {MOST_BOXES} parts</text>"
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide + 2:.0f}" height="{high + 18:.0f}" '
        f'viewBox="-1 -1 {wide + 2:.0f} {high + 18:.0f}">' + "".join(body) + "</svg>"
    )
