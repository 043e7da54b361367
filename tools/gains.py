"""Draw how many times as fast the example programs were.

npaccel demo > demo.txt; python tools/gains.py demo.txt > docs/gains.svg
"""

import re
import sys
from pathlib import Path

ROW = re.compile(r"^ (\w+) .* ([\d.]+)x ", re.MULTILINE)
WIDE, TALL, LEFT, TOP = 640, 22, 116, 34
STYLE = """\
text { font: 13px sans-serif; fill: #1d2126; } rect { fill: #3f51b5; } line { stroke: #1d2126; }
@media (prefers-color-scheme: dark) { text { fill: #e3e6ea; } rect { fill: #7986cb; }
line { stroke: #e3e6ea; } }"""


def picture(rows: list[tuple[str, float]]) -> str:
    """Bars as long as the gains, the largest first, and a line where NumPy is."""
    unit = (WIDE - LEFT - 60) / max(gain for _, gain in rows)
    tall = TOP + TALL * len(rows) + 8
    numpy = f"{LEFT + unit:.1f}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {tall}" width="{WIDE}" '
        f'height="{tall}" role="img">',
        f"<title>Times as fast as NumPy: {', '.join(f'{n} {g:g}' for n, g in rows)}</title>",
        f"<style>{STYLE}</style>",
        f'<text x="{numpy}" y="18" text-anchor="middle">NumPy = 1</text>',
    ]
    for k, (name, gain) in enumerate(rows):
        y = TOP + TALL * k
        parts += [
            f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{name}</text>',
            f'<rect x="{LEFT}" y="{y + 2}" width="{unit * gain:.1f}" height="{TALL - 6}"/>',
            f'<text x="{LEFT + unit * gain + 6:.1f}" y="{y + 14}">{gain:g}</text>',
        ]
    line = f'<line x1="{numpy}" x2="{numpy}" y1="{TOP - 8}" y2="{tall - 8}" stroke-dasharray="3"/>'
    return "\n".join([*parts, line, "</svg>"])


if __name__ == "__main__":
    found = ROW.findall(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print(picture(sorted(((name, float(gain)) for name, gain in found), key=lambda row: -row[1])))
