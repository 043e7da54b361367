"""A graph of operations as SVG: a row each, by kernels, and arcs for the arrays between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from npaccel.observe.words import bytes_text

__all__ = ["Operation", "Together", "svg"]

ROW: Final = 20  # pixels, as all here
TITLE: Final = 26
GAP: Final = 10
WIDTH: Final = 620  # of what stands in rows; arcs are behind it
NAME: Final = 150
REACH: Final = 150  # of the widest arc
# They are told by opacity, not by colour alone, so that they are seen on white and on black.
STYLE: Final = """
svg.npaccel-graph { font: 12px ui-monospace, monospace; color: #1d2126; background: #fff; }
@media (prefers-color-scheme: dark) { svg.npaccel-graph { color: #e3e6ea; background: #16191d; } }
.npaccel-graph text { fill: currentColor; } .npaccel-graph .soft { opacity: .6; }
.npaccel-graph path { fill: none; stroke: currentColor; stroke-width: 1; opacity: .3; }
.npaccel-graph path.between { stroke-width: 2; opacity: .85; }
"""


class Operation(NamedTuple):
    """A row. bytes : of its result. links : numbers of those that wrote what it reads; less than 0
    where that was before."""

    name: str
    line: str
    bytes: float
    links: tuple[int, ...] = ()


class Together(NamedTuple):
    """Operations that run as one, by number."""

    title: str
    colour: str
    operations: tuple[int, ...]


def svg(operations: Sequence[Operation], groups: Sequence[Together]) -> str:
    """The picture. What is in no group is not in it.

    An arc within a group is an array that never gets memory, or stays in it; one between groups is
    an array in memory, with its bytes.
    """
    places: dict[int, tuple[int, int]] = {}  # of each operation its height and its group
    body: list[str] = []
    y = GAP
    for number, group in enumerate(groups):
        tall = TITLE + ROW * len(group.operations)
        body.append(_frame(group, y, tall))
        for row, index in enumerate(group.operations):
            at = y + TITLE + ROW * row + ROW // 2
            places.setdefault(index, (at, number))
            body += _row(operations[index], at)
        y += tall + GAP
    body += _arcs(operations, places)
    wide = WIDTH + REACH + 90
    return (
        f'<svg class="npaccel-graph" xmlns="http://www.w3.org/2000/svg" width="{wide}" '
        f'height="{y}" viewBox="0 0 {wide} {y}" role="img"><style>{STYLE}</style>'
        f"{''.join(body)}</svg>"
    )


def _frame(group: Together, y: int, tall: int) -> str:
    return (
        f'<rect x="4" y="{y}" width="{WIDTH - 8}" height="{tall}" rx="5" fill="{group.colour}" '
        f'fill-opacity=".16" stroke="{group.colour}"/>'
        f'<text x="14" y="{y + 17}" font-weight="bold">{escape(group.title)}</text>'
    )


def _row(operation: Operation, at: int) -> Iterator[str]:
    yield f'<text x="22" y="{at + 4}">{escape(operation.name)}</text>'
    room = (WIDTH - NAME - 30) // 8
    line = operation.line if len(operation.line) <= room else operation.line[: room - 3] + "..."
    yield f'<text class="soft" x="{NAME}" y="{at + 4}">{escape(line)}</text>'


def _arcs(operations: Sequence[Operation], places: dict[int, tuple[int, int]]) -> Iterator[str]:
    """The longer, the further out."""
    longest = max((at for at, _ in places.values()), default=1)
    for index, (at, group) in places.items():
        for link in dict.fromkeys(operations[index].links):
            if link not in places:
                continue
            start, other = places[link]
            reach = 14 + (REACH - 14) * abs(at - start) / longest
            kind = ' class="between"' if other != group else ""
            told = bytes_text(round(operations[link].bytes))
            yield (
                f'<path{kind} d="M{WIDTH - 6} {start}C{WIDTH + reach:.0f} {start} '
                f'{WIDTH + reach:.0f} {at} {WIDTH - 6} {at}">'
                f"<title>{escape(operations[link].name)}: {told}</title></path>"
            )
            if other != group:
                x, y = WIDTH + 0.75 * reach, (start + at) / 2
                yield f'<text x="{x:.0f}" y="{y + 4:.0f}">{told}</text>'
