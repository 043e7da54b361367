"""What notebooks show of explanations, counts and profiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

from npaccel.observe import report
from npaccel.observe.words import bytes_text, short

if TYPE_CHECKING:
    from npaccel.observe.found import Found, Step
    from npaccel.observe.ran import Ran, Tried

__all__ = ["counts", "explanation", "frame", "pre"]

MOST_ROWS: Final = 40  # of a table
HEIGHT: Final = 560  # of a page in a frame, in CSS's pixels
# Colours are the notebook's own, so that it may be dark.
TABLE: Final = "border-collapse:collapse;margin:.3em 0 .8em"
CELL: Final = "text-align:left;vertical-align:top;padding:.1em 1em .1em 0"


def pre(text: str) -> str:
    """Text as it is."""
    return f"<pre>{escape(text)}</pre>"


def frame(page: str) -> str:
    """A whole page within another one, whose styles do not meet."""
    style = f"width:100%;height:{HEIGHT}px;border:0"
    return f'<iframe style="{style}" srcdoc="{escape(page, quote=True)}"></iframe>'


def explanation(found: Found) -> str:
    """As its text: what ran for which lines, and what NumPy did instead."""
    parts = [f"<p><b>{escape(report.heading(found))}</b></p>"]
    head = ("", "on", "over", "lines", "reads", "writes", "")
    parts += _table(head, map(_step, found.steps))
    if found.unguarded:
        parts.append(f"<p>The guard is off: {escape(found.unguarded)}.</p>")
    if found.hindrances and found.hindrances[0].seconds >= report.LEAST_TOLD_S:
        first = found.hindrances[0]
        words = f"Longest without a gain: {first} ({first.seconds:.2g} s)."
        parts.append(f"<p>{escape(words)}</p>")
    if found.runs:
        parts.append("<p><b>All runs since the start, or the last reset</b></p>")
        parts += _table(("s", "runs", "ms each", "ms NumPy", ""), map(_ran, found.runs))
    if found.tried:
        parts.append("<p><b>Recorded and left to NumPy by turns</b></p>")
        parts += _table(("line", "ms recorded", "ms NumPy", "kept"), map(_tried, found.tried))
    rows = [(f.function, f.reason, short(f.site), str(f.calls)) for f in found.fallbacks]
    if rows:
        parts.append("<p><b>Handed to NumPy</b></p>")
        parts += _table(("call", "why", "line", "times"), rows)
    homes = [(h.device, h.reason, short(h.site), bytes_text(h.bytes)) for h in found.brought_home]
    if homes:
        parts.append("<p><b>Came from devices to the host</b></p>")
        parts += _table(("device", "why", "line", "size"), homes)
    if found.together:
        parts.append(f"<details><summary>graph</summary>{found.svg}</details>")
    if found.ir:
        parts.append(f"<details><summary>operations and plan</summary>{pre(found.ir)}</details>")
    return "".join(parts)


def counts(short: str, all_of_them: Mapping[str, Any]) -> str:
    """The short text, and a table of all numbers behind it."""
    rows = [(name, str(value)) for name, value in all_of_them.items()]
    table = "".join(_table(("count", ""), rows, len(rows)))
    return f"{pre(short)}<details><summary>all counts</summary>{table}</details>"


def _step(step: Step) -> tuple[str, ...]:
    lines = (" ".join(line.split()) for line in report.operations(step.operations))
    known = step.bytes_read or step.bytes_written  # of single operations without a plan nothing is
    return (
        f"kernel {step.kernel}" if step.kernel else "NumPy's loop",
        step.backend,
        (" x ".join(map(str, (*step.band, *step.inner))) or "1") if known else "",
        "\n".join(lines),
        bytes_text(step.bytes_read) if known else "",
        bytes_text(step.bytes_written) if known else "",
        step.reason,
    )


def _ran(ran: Ran) -> tuple[str, ...]:
    times = (ran.seconds / ran.runs, ran.numpy_s)
    each = (f"{1e3 * seconds:.3g}" if seconds else "" for seconds in times)
    return (f"{ran.seconds:.3f}", str(ran.runs), *each, report.what_ran(ran))


def _tried(one: Tried) -> tuple[str, ...]:
    kept = "NumPy's calls" if one.numpys else "recording"
    times = (f"{1e3 * seconds:.3g}" for seconds in (one.recorded_s, one.numpys_s))
    return (short(f"{one.file}:{one.line}"), *times, kept)


def _table(
    head: Sequence[str], rows: Iterable[Sequence[str]], most: int = MOST_ROWS
) -> Iterator[str]:
    known = list(rows)
    if not known:
        return
    yield f'<table style="{TABLE}"><tr>{_cells("th", head)}</tr>'
    yield from (f"<tr>{_cells('td', row)}</tr>" for row in known[:most])
    yield "</table>"
    if len(known) > most:
        yield f"<p>and {len(known) - most} more</p>"


def _cells(tag: str, texts: Iterable[str]) -> str:
    return "".join(
        f'<{tag} style="{CELL}">{escape(text).replace(chr(10), "<br>")}</{tag}>' for text in texts
    )
