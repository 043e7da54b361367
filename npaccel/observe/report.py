"""An Explanation as plain text that reads well in a terminal of 100 columns."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from npaccel.observe.words import COLUMNS, bytes_text, count, moved_text, row, short
from npaccel.runtime.process.guarding import UNGUARDED

if TYPE_CHECKING:
    from npaccel.observe.found import Access, Fallback, Found, Home, Step
    from npaccel.observe.operations import Operation
    from npaccel.observe.ran import Ran, Tried
    from npaccel.runtime.devices.auto import Estimate

__all__ = ["heading", "operations", "text", "what_ran"]

# What is shown of long lists; the attributes of an Explanation hold all.
MOST_STEPS, MOST_LINES, MOST_FALLBACKS, MOST_RUNS = 40, 40, 20, 20
MOST_OPERATIONS = 10  # of one line; more are counted instead
LEAST_TOLD_S = 0.05  # a hindrance that takes less is not worth a sentence


def text(explanation: Found) -> str:
    """The whole text of an Explanation, without a newline at its end."""
    lines = [heading(explanation)]
    alike: dict[tuple[object, ...], list[Step]] = {}
    for step in explanation.steps:
        alike.setdefault(_likeness(step), []).append(step)
    for steps in islice(alike.values(), MOST_STEPS):
        lines += ["", *_step(steps[0], len(steps))]
    if len(alike) > MOST_STEPS:
        lines += ["", f"... and {len(alike) - MOST_STEPS} more steps"]
    lines += _choice(explanation)
    if explanation.dropped:
        lines += ["", "Never computed, since nothing can see the results:"]
        lines += operations(explanation.dropped)
    if explanation.unguarded:
        words = f"The guard is off ({explanation.unguarded}): {UNGUARDED}."
        lines += ["", *textwrap.wrap(words, COLUMNS)]
    if explanation.hindrances and explanation.hindrances[0].seconds >= LEAST_TOLD_S:
        first = explanation.hindrances[0]
        words = f"Longest without a gain: {first} ({first.seconds:.2g} s)."
        lines += ["", *textwrap.wrap(words, COLUMNS)]
    if explanation.no_helper:
        words = f"Kernels are compiled while operations wait: {explanation.no_helper}"
        lines += ["", *textwrap.wrap(words, COLUMNS)]
    if sum(ran.runs for ran in explanation.runs) > 1:
        lines += ["", *_runs(explanation.runs)]
    if explanation.tried:
        lines += ["", *_tried(explanation.tried)]
    lines += ["", *_fallbacks(explanation.fallbacks)]
    if explanation.brought_home:
        lines += ["", *_homes(explanation.brought_home)]
    return "\n".join(lines)


def heading(explanation: Found) -> str:
    """What an Explanation is about, and in how many kernels."""
    if not explanation.steps and not explanation.dropped:
        return explanation.heading
    for step in explanation.steps:
        if is_elsewhere(step):
            return f"{explanation.heading} on {step.backend}."
    kernels = sum(bool(step.kernel) for step in explanation.steps)
    single = len(explanation.steps) - kernels
    parts = [count(kernels, "kernel")] if kernels or not single else []
    if single:
        parts.append(count(single, "single request") + " by NumPy's loops")
    words = f"{explanation.heading} {' and '.join(parts)}"
    if explanation.fused_away:
        words += f"; {count(explanation.fused_away, 'temporary array')} fused away"
    if explanation.plan_known is not None:
        words += "; plan known from before" if explanation.plan_known else "; planned anew"
    return "\n".join(textwrap.wrap(words + ".", COLUMNS))


def is_elsewhere(step: Step) -> bool:
    """Whether it is all that a cluster ran, with the plan as its reason."""
    return not step.kernel and step.backend != "numpy"


def _choice(explanation: Found) -> list[str]:
    """What a run takes, where more than one backend is known; what moved."""
    lines: list[str] = []
    estimates = explanation.estimates
    if len(estimates) > 1:
        lines += ["", "What a run takes:"]
        for estimate in estimates:
            lines += row(estimate.backend, _estimate(estimate))
        lines += row("choice", explanation.choice) if explanation.choice else []
    if any(explanation.moved):
        up, down = map(moved_text, explanation.moved, explanation.moving_s)
        lines += ["", f"Moved for it: {up} to devices, {down} back."]
    return lines


def _estimate(estimate: Estimate) -> str:
    words = f"{1e3 * estimate.seconds:.3g} ms, "
    if estimate.measured:
        runs = f" (of {estimate.runs} runs)" if estimate.runs > 1 else ""
        return f"{words}measured{runs}"
    parts = {
        "launches": estimate.launch_s,
        "moving data": estimate.moving_s,
        "memory": estimate.memory_s,
        "arithmetic": estimate.arithmetic_s,
    }
    told = (f"{name} {1e3 * seconds:.3g}" for name, seconds in parts.items() if seconds)
    return f"{words}predicted: {', '.join(told)}"


# ------------------------------------------------------------------------------------------ steps


def _likeness(step: Step) -> tuple[object, ...]:
    """What steps that are shown as one have in common: all but the arrays."""
    space = (step.kernel, step.backend, step.band, step.inner, step.reason)
    return (*space, step.operations, step.bytes_read, step.bytes_written)


def _step(step: Step, times: int) -> list[str]:
    """A step that runs `times` times; then the arrays are not named, for they differ."""
    title = _title(step) + (f", {times} times; each time" if times > 1 else "")
    lines = [title, *operations(step.operations)]
    if step.bytes_read or step.loads:
        words = _accesses(step.loads, named=times == 1)
        lines += row("reads", bytes_text(step.bytes_read) + words)
    if step.bytes_written or step.stores:
        words = _accesses(step.stores, named=times == 1)
        lines += row("writes", bytes_text(step.bytes_written) + words)
    if step.reductions:
        lines += row("reduces", _times(f"{r.fold} {r.dtype}" for r in step.reductions))
    if step.scratch:
        lines += row("scratch per row", _times(step.scratch))
    if step.reason:
        if is_elsewhere(step):
            return lines + [text for line in step.reason.splitlines() for text in row("", line)]
        lines += row("why NumPy" if not step.kernel else "why here", step.reason)
    return lines


def _title(step: Step) -> str:
    if is_elsewhere(step):
        return f"Planned for the nodes of {step.backend}"
    if not step.kernel:
        space = f" over {_extents(step.inner)}" if step.bytes_written else ""
        return f"By NumPy's loop{space}"
    band = f"{_extents(step.band)} rows of " if step.band else ""
    return f"Kernel {step.kernel} on {step.backend} over {band}{_extents(step.inner)}"


def _extents(extents: Sequence[int]) -> str:
    return " x ".join(map(str, extents)) or "1"


def _times(words: Iterable[str]) -> str:
    return ", ".join(
        word if times == 1 else f"{word} ({times} times)" for word, times in Counter(words).items()
    )


def _accesses(accesses: Sequence[Access], *, named: bool) -> str:
    words = _times(
        f"b{access.buffer} {access.dtype} {access.how}" if named else f"{access.dtype} {access.how}"
        for access in accesses
    )
    return f": {words}" if words else ""


# ------------------------------------------------------------------------------------- operations


def operations(operations: Sequence[Operation]) -> list[str]:
    """One row per line of the user, with what it asked for."""
    places: dict[str, list[str]] = {}
    for operation in operations:
        places.setdefault(_place(operation), []).append(_signature(operation))
    lines: list[str] = []
    for place, names in islice(places.items(), MOST_LINES):
        in_order = len(names) <= MOST_OPERATIONS
        lines += row(place, ", ".join(names) if in_order else _times(names))
    if len(places) > MOST_LINES:
        lines.append(f"  ... and {len(places) - MOST_LINES} more lines")
    return lines


def _signature(operation: Operation) -> str:
    dtypes = operation.dtypes
    if len(set(dtypes)) <= 1:
        return " ".join([operation.name, *dtypes[:1]])
    inputs, outputs = dtypes[: operation.inputs], dtypes[operation.inputs :]
    return f"{operation.name} {','.join(inputs)}->{','.join(outputs)}"


def _place(operation: Operation) -> str:
    if not operation.file:
        return "(line unknown)"
    return short(f"{operation.file}:{operation.line}")


# ------------------------------------------------------------------------------------------- runs


def _runs(runs: Sequence[Ran]) -> list[str]:
    """What ran since counts were reset, against what NumPy's loops take where that is known."""
    times, seconds = sum(ran.runs for ran in runs), sum(ran.seconds for ran in runs)
    lines = [f"All runs since the start, or the last reset: {times}, which took {seconds:.3g} s."]
    lines.append(f"{'s':>8} {'runs':>7} {'ms each':>9} {'ms NumPy':>9}")
    for ran in runs[:MOST_RUNS]:
        each = f"{1e3 * ran.seconds / ran.runs:9.3g}"
        against = f"{1e3 * ran.numpy_s:9.3g}" if ran.numpy_s else f"{'':9}"
        start = f"{ran.seconds:8.3f} {ran.runs:7d} {each} {against}  "
        indent = " " * len(start)
        lines += textwrap.wrap(
            what_ran(ran), COLUMNS, initial_indent=start, subsequent_indent=indent
        )
    if len(runs) > MOST_RUNS:
        lines.append(f"  ... and {len(runs) - MOST_RUNS} more")
    return lines


def what_ran(ran: Ran) -> str:
    """Lines and operations of a program, and why it had no kernels."""
    numbers: dict[str, dict[int, None]] = {}
    for one in ran.operations:
        if one.file:
            numbers.setdefault(one.file, {})[one.line] = None
    sites = [f"{short(file)}:{', '.join(map(str, own))}" for file, own in numbers.items()]
    names = _times(one.name for one in ran.operations)
    words = ": ".join(filter(None, ["; ".join(sites), names])) or "(unknown)"
    words += "; from other lines, too" if ran.elsewhere else ""
    return f"{words} (NumPy's loops: {ran.reason})" if ran.reason else words


def _tried(loops: Sequence[Tried]) -> list[str]:
    """Which way loops go, of those that went both by turns."""
    lines = ["Loops that were recorded and left to NumPy by turns, ms of a round:"]
    for one in loops[:MOST_FALLBACKS]:
        times = f"recorded {1e3 * one.recorded_s:.3g}, NumPy {1e3 * one.numpys_s:.3g}"
        kept = "NumPy's calls are kept" if one.numpys else "recording is kept"
        lines += row(short(f"{one.file}:{one.line}"), f"{times}: {kept}")
    if len(loops) > MOST_FALLBACKS:
        lines.append(f"  ... and {len(loops) - MOST_FALLBACKS} more")
    return lines


# -------------------------------------------------------------------------------------- fallbacks


def _fallbacks(fallbacks: Sequence[Fallback]) -> list[str]:
    if not fallbacks:
        return ["No call was handed to NumPy."]
    lines = ["Calls handed to NumPy:"]
    for fallback in fallbacks[:MOST_FALLBACKS]:
        words = f"{fallback.function}: {fallback.reason}"
        times = count(fallback.calls, "time")
        lines += row(short(fallback.site), f"{words}, {times}")
    if len(fallbacks) > MOST_FALLBACKS:
        lines.append(f"  ... and {len(fallbacks) - MOST_FALLBACKS} more")
    return lines


def _homes(homes: Sequence[Home]) -> list[str]:
    lines = ["Came from devices to the host:"]
    for home in homes[:MOST_FALLBACKS]:
        times = count(home.times, "time")
        words = f"{bytes_text(home.bytes)} from {home.device}: {home.reason}, {times}"
        lines += row(short(home.site), words)
    if len(homes) > MOST_FALLBACKS:
        lines.append(f"  ... and {len(homes) - MOST_FALLBACKS} more")
    return lines
