"""Words that reports share: numbers with nouns, sizes, file names, and rows of two columns."""

from __future__ import annotations

import os
import textwrap
from contextlib import suppress

__all__ = ["COLUMNS", "bytes_text", "count", "moved_text", "percent", "row", "short"]

COLUMNS = 100
LABEL = 26  # width of the column with file names


def count(number: int, noun: str) -> str:
    """ "1 kernel", "2 kernels"."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def bytes_text(size: int) -> str:
    """A number of bytes in its largest binary unit."""
    if size < 1024:
        return f"{size} B"
    amount, units = size / 1024, ["KiB", "MiB", "GiB", "TiB"]
    while amount >= 1024 and len(units) > 1:
        amount /= 1024
        units.pop(0)
    return f"{amount:.1f} {units[0]}"


def moved_text(size: int, seconds: float) -> str:
    """What moved, and how long that took."""
    return f"{bytes_text(size)} in {1e3 * seconds:.3g} ms" if size else bytes_text(size)


def percent(value: float, whole: float) -> str:
    """What part of the whole it is."""
    return f"{100 * value / whole:.0f} %" if whole > 0 else "-"


def row(label: str, words: str) -> list[str]:
    """`words` wrapped in a column of their own, `label` before it."""
    start = f"  {label:{LABEL}}"
    if len(label) > LABEL:
        return [start, *row("", words)]
    lines = textwrap.wrap(
        words,
        COLUMNS,
        initial_indent=start + " ",
        subsequent_indent=" " * (LABEL + 3),
        break_on_hyphens=False,
    )
    return lines or [start.rstrip()]


def short(site: str, width: int = LABEL) -> str:
    """`site` relative to the working directory, and cut at the left at a folder's name."""
    with suppress(OSError):  # the directory was removed
        site = site.removeprefix(os.getcwd() + os.sep)
    while len(site) > width and os.sep in site.removeprefix("..." + os.sep):
        rest = site.removeprefix("..." + os.sep).partition(os.sep)[2]
        site = f"...{os.sep}{rest}"
    return site
