"""The finish function of a split kernel: combine the parts' results, then run the row leaves.

for each band point:
    for each Reduce r:  for (part = 0; part < parts; part++)  row[r] = row[r] o partial;
    row leaves;
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from npaccel.backends.layout import is_ordered, reductions_of
from npaccel.backends.opencl.code import Code
from npaccel.backends.opencl.combine import Combiner
from npaccel.backends.opencl.frame import Frame
from npaccel.backends.opencl.leaves import LeafWriter, Scope
from npaccel.backends.opencl.reduce import ROW_LEVELS, Counter, load_partial
from npaccel.backends.opencl.scalar import Value
from npaccel.ir.nodes import Kernel, Reduce

__all__ = ["write_finish"]


def write_finish(kernel: Kernel, code: Code, group_size: int = 1) -> None:
    """The function's body; one band point at a time, whatever main's lanes are."""
    frame = Frame(code, kernel, group_size)
    writer = LeafWriter(code, frame, 1)
    with _points(frame, range(kernel.band_rank)) as (flat, at):
        band = range(kernel.band_rank)
        for ordinal, effect in enumerate(reductions_of(kernel)):
            writer.set_row(effect.index, _combine_parts(code, frame, effect, flat, ordinal))
        scope = Scope(flat, at, frame.move(frame.bases, band, at), None, None)
        for leaf in kernel.leaves:
            if leaf.row:
                writer.row(leaf, scope)
                if frame.group is not None:
                    frame.group.barrier()


@contextmanager
def _points(frame: Frame, band: range) -> Iterator[tuple[str, list[str]]]:
    if frame.group_size > 1 and frame.group is None:
        size = frame.group_size
        first, step = f"item * {size} + lane", f"items * {size}"
        with frame.spread(band, first, frame.extra(0), step) as (flat, at):
            yield flat, at
        return
    with frame.tasks(), frame.points(band, frame.range[0], frame.range[1]) as (flat, at):
        yield flat, at


def _combine_parts(code: Code, frame: Frame, effect: Reduce, flat: str, ordinal: int) -> Value:
    combiner, group = Combiner(code, effect), frame.group
    if is_ordered(effect):
        counter = Counter(code, combiner, 1, ROW_LEVELS)
        counter.reset()
        low, high, used = "0", frame.parts, "1"
        if group is not None:
            each, used = group.cut(frame.parts, group.size)
            low = code.long(f"lane * {each}")
            high = code.minimum(code.long(f"{low} + {each}"), frame.parts)
        with code.count(low, high) as part:
            counter.push_one(load_partial(code, combiner, frame.partial(flat, part, ordinal)))
        names = counter.finish_one()
        return combiner.result(group.fold_runs(combiner, names, used) if group else names, 1)
    variables = [code.variable(kind) for kind in combiner.kinds(1)]
    for variable, text in zip(variables, combiner.identity(1), strict=True):
        code.set(variable, text)
    low, step = ("lane", str(group.size)) if group is not None else ("0", "1")
    with code.count(low, frame.parts, step) as part:
        right = load_partial(code, combiner, frame.partial(flat, part, ordinal))
        new = combiner.combine(combiner.read(variables, 1), right, 1)
        for variable, name in zip(variables, combiner.write(new, 1), strict=True):
            code.set(variable, name)
    names = combiner.read(variables, 1)
    return combiner.result(group.fold(combiner, names) if group else names, 1)
